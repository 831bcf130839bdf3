// A TaskFlow worker in JavaScript: node worker.mjs http://127.0.0.1:8000 [queue].  Node 18 or later, no packages.
import { setTimeout as sleep } from "node:timers/promises";

const [api = "http://127.0.0.1:8000", queue = "*"] = process.argv.slice(2);
const SLOTS = 4;
const LONGEST_TIMER_MS = 2 ** 31 - 1; // one that is set for longer rings at once

// Tasks by name.  `signal` is aborted when the job was canceled, lost, or has taken longer than its timeout_s.
const handlers = {
  async "js.count"({ to, pause_ms = 0 }, { log, progress, signal }) {
    for (let i = 1; i <= to; i++) {
      await sleep(pause_ms, undefined, { signal });
      await log(`${i}\n`);
      await progress(i / to, `${i} of ${to}`);
    }
    return { counted: to };
  },
  async "js.throw"({ message }) {
    throw new RangeError(message);
  },
};

const running = new Map(); // job id → { abort, done }; until its end was accepted
let me, heartbeat_s, stopping = false;

/** Send something; an answer that did not come is asked for again, for as long as it may help.  `body` may be a
 *  function, for what is out of date when it is sent again. */
async function send(path, body, method = "POST") {
  const headers = { "Content-Type": "application/json" };
  if (process.env.TASKFLOW_API_TOKEN) headers.Authorization = `Bearer ${process.env.TASKFLOW_API_TOKEN}`;
  for (let wait_ms = 100; ; wait_ms = Math.min(2 * wait_ms, 5000)) {
    try {
      const signal = AbortSignal.timeout(90_000);
      const text = JSON.stringify(typeof body === "function" ? body() : body);
      const answer = await fetch(`${api}/workers/${path}`, { method, headers, signal, body: text });
      if (answer.ok) return await answer.json();
      if (answer.status < 500) {
        const { error } = await answer.json();
        throw Object.assign(new Error(error.message), { status: answer.status });
      }
    } catch (error) {
      if (error.status || stopping === "now") throw error;
    }
    await sleep(wait_ms);
  }
}

async function register() {
  const body = { name: `node ${process.pid}`, queues: [queue], concurrency: SLOTS, handlers: Object.keys(handlers) };
  ({ id: me, heartbeat_s } = await send("register", body));
}

/** Forget everything and begin anew: this worker was silent for too long, and its jobs are others' by now. */
let beginning = null;
async function begin_anew(error) {
  if (error.status !== 404) throw error;
  for (const { abort } of running.values()) abort.abort("lost");
  running.clear();
  beginning ??= register().finally(() => (beginning = null));
  await beginning;
}

async function beat() {
  const { lost, cancel, draining } = await send(`${me}/heartbeat`, () => ({ running: [...running.keys()] }));
  stopping ||= draining;
  for (const job of lost) running.get(job)?.abort.abort("lost");
  for (const job of cancel) running.get(job)?.abort.abort("canceled");
}

async function run({ job, token, handler, payload, timeout_s }, abort) {
  const sent = { stdout: 0, stderr: 0 }; // bytes, so that what is sent twice is kept once
  const tell = (verb, body) => send(`${me}/jobs/${job}/${verb}`, { token, ...body });
  const log = async (text, stream = "stdout") => {
    await tell("logs", { stream, text, offset: sent[stream] });
    sent[stream] += Buffer.byteLength(text);
  };
  const progress = (fraction, message = "") => tell("progress", { fraction, message });
  let timer;
  const limit = (left_ms) => {
    if (left_ms <= 0) abort.abort("timed out");
    else timer = setTimeout(limit, Math.min(left_ms, LONGEST_TIMER_MS), left_ms - LONGEST_TIMER_MS);
  };
  if (timeout_s) limit(timeout_s * 1000);
  try {
    const result = await handlers[handler](payload, { log, progress, signal: abort.signal });
    await tell("complete", { result: result ?? null });
  } catch (error) {
    if (error.status === 409 || error.status === 404 || abort.signal.reason === "lost") return; // not ours any more
    const why = abort.signal.aborted ? { class: "Stopped", message: String(abort.signal.reason) } : {
      class: error.name, message: error.message, traceback: error.stack,
    };
    await (abort.signal.reason === "stopping" ? tell("release") : tell("fail", { error: why }));
  } finally {
    clearTimeout(timer);
  }
}

function start(leased) {
  const abort = new AbortController();
  const done = run(leased, abort).catch((error) => console.error(leased.job, error.message)).finally(() => {
    if (running.get(leased.job)?.abort === abort) running.delete(leased.job);
  });
  running.set(leased.job, { abort, done });
}

async function stop() {
  if (stopping === "now") return;
  stopping = "now";
  for (const { abort } of running.values()) abort.abort("stopping");
  await Promise.all([...running.values()].map(({ done }) => done));
  await send(me, undefined, "DELETE").catch(() => {});
  process.exit(0);
}

await register();
process.on("SIGTERM", stop).on("SIGINT", stop);
const beating = (async () => {
  for (;;) {
    await sleep(heartbeat_s * 1000);
    await beat().catch(begin_anew).catch((error) => console.error("heartbeat:", error.message));
  }
})();
while (!stopping) {
  if (running.size === SLOTS) {
    await Promise.race([...running.values()].map(({ done }) => done));
    continue;
  }
  try {
    const known = [...running.keys()]; // whatever else we hold came with an answer that was lost
    const { items, draining } = await send(`${me}/lease`, { max: SLOTS - running.size, wait_s: 20, running: known });
    if (stopping !== "now") items.forEach(start);
    stopping ||= draining;
  } catch (error) {
    await begin_anew(error);
  }
}
if (stopping !== "now") {
  await Promise.all([...running.values()].map(({ done }) => done)); // drained: finish, then leave
  await stop();
}
await beating;
