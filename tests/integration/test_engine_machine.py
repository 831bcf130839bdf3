"""Anything, in any order: the engine on a real server does what a model of a few dictionaries says.

After each step nothing is lost, nothing is in two places, every lease is unique, the order was exact, only allowed
transitions have happened, and the events replay to the records.  `HYPOTHESIS_PROFILE=thorough` looks much longer.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from taskflow_domain import TERMINAL, JobStatus, RetryPolicy, detect_cycle
from taskflow_streams import (
    Canceled,
    Change,
    Deleted,
    Ending,
    How,
    NewJob,
    Pool,
    Renewed,
    Store,
    Submitted,
    UnknownDependency,
    Updated,
)
from taskflow_streams.embedded import EmbeddedServer
from tests.support.consistency import faults
from tests.support.engine import Clock, Held, new_job, settle, stall
from tests.support.model import Model, ModelJob, ModelQueue
from tests.support.picture import take

S = JobStatus
T = TypeVar("T")

QUEUES = ("a", "b")
POOLS = {
    "w1": Pool(frozenset({"cut"})),
    "w2": Pool(frozenset({"cut"})),  # shares the bell of w1
    "w3": Pool(frozenset({"cut", "glue"})),
    "w4": Pool(frozenset({"glue"}), (("a", None), ("never", None))),
}
# How often each is done.  One rule draws from this table, because jobs must run for much else to happen, and Hypothesis
# gives all rules the same chance.
OPERATIONS = {
    "submit": 5,
    "submit_again": 2,
    "join": 3,
    "leave": 1,
    "lease": 6,
    "report": 8,
    "report_late": 2,
    "renew": 2,
    "lose": 2,
    "resync": 1,
    "cancel": 2,
    "delete": 1,
    "update": 3,
    "depend": 2,
    "set_queue": 2,
    "tick": 3,
    "promote": 2,
    "expire": 1,
    "settle": 3,
    "resolve": 1,
    "retire": 1,
}
HOWS = [How.COMPLETED, How.COMPLETED, How.COMPLETED, How.FAILED, How.FAILED, How.FATAL, How.RELEASED, How.CANCELED]
HANDLERS = ["cut", "cut", "cut", "cut", "glue", "glue", "glue", "nobody"]
SOME_MS = [*[None] * 6, 0, 1_000, 3_000]
TTLS_MS = [*[None] * 6, 1_000, 3_000, 9_000]
_namespaces = itertools.count()


class Engine(RuleBasedStateMachine):
    """The store and the model, side by side."""

    def __init__(self, runner: asyncio.Runner, url: str) -> None:
        super().__init__()
        self._runner = runner
        self.store = self.run(Store.connect(url, namespace=f"machine{next(_namespaces)}"))
        self.here = self.store.partitions[0]
        self.clock = Clock(self.store)
        self.model = Model(self.clock.now_ms)
        self.joined: set[str] = set()
        self.leases: list[Held] = []  # all that were ever given
        self.submitted: dict[str, NewJob] = {}

    def run(self, step: Coroutine[Any, Any, T]) -> T:
        """Let one step happen."""
        return self._runner.run(step)

    def teardown(self) -> None:
        """Leave nothing."""
        self.run(self.store.redis.flushdb())
        self.run(self.store.close())

    @initialize(data=st.data())
    def begin(self, data: st.DataObject) -> None:
        """Jobs are there, and somebody to run them."""
        self._data = data
        for worker in POOLS:
            self.join(worker)
        for _ in range(3):
            self.submit()

    @rule(data=st.data(), operation=st.sampled_from([name for name, times in OPERATIONS.items() for _ in range(times)]))
    def step(self, data: st.DataObject, operation: str) -> None:
        """Do something."""
        self._data = data
        getattr(self, operation)()

    def one_of(self, choices: Sequence[T]) -> T:
        """One of these."""
        return self._data.draw(st.sampled_from(choices))

    def a_worker(self) -> str:
        """A worker that is there; now and then one that is not."""
        return self.one_of(sorted(self.joined) * 3 + sorted(POOLS))

    def a_job(self) -> str:
        """A job that is, often one that runs; now and then one that was."""
        running = sorted(job.id for job in self.model.of(S.RUNNING))
        return self.one_of(sorted(self.model.jobs) * 2 + running * 4 + sorted(self.submitted))

    # Submit ------------------------------------------------------------------------------------------------------

    def submit(self) -> None:
        """A batch in any order, whose jobs may need one another, or anything there ever was."""
        batch: list[NewJob] = []
        keyed, delay_ms, ttl_ms = self.one_of([True, False]), self.one_of(SOME_MS), self.one_of(TTLS_MS)
        for _ in range(self.one_of([1, 2, 3, 4])):
            known = [*sorted(self.model.jobs), *sorted(self.submitted)[-2:], *(job.id for job in batch)]
            needs = {self.one_of(known) for _ in range(self.one_of([0, 0, 0, 0, 1, 2]))} if known else set()
            job = new_job(
                self.store,
                queue=self.one_of(QUEUES),
                handler=self.one_of(HANDLERS),
                order=self.one_of([0, 1, 2]),
                retry=RetryPolicy(max_attempts=self.one_of([1, 2, 3]), base_delay_seconds=1),
                dependencies=tuple(sorted(needs)),
                delay_ms=delay_ms,
                ttl_ms=ttl_ms,
                has_key=keyed,
            )
            batch.append(job)
        order = self.one_of([batch, batch[::-1]])
        if self.model.unknown(batch):
            with pytest.raises(UnknownDependency):
                self.run(self.store.submit(order))
            return
        assert self.run(self.store.submit(order)) == [Submitted.CREATED] * len(batch)
        self.model.submit(batch)
        self.submitted |= {job.id: job for job in batch}

    def submit_again(self) -> None:
        """A lost reply; also of a job that was removed since, if it had a key."""
        known = sorted(self.model.jobs.keys() | self.model.gone)
        if not known:
            return
        job = self.submitted[self.one_of(known)]

        [word] = self.run(self.store.submit([job]))

        assert word is (Submitted.EXISTING if job.id in self.model.jobs else Submitted.GONE)

    # Workers -----------------------------------------------------------------------------------------------------

    def join(self, worker: str | None = None) -> None:
        """A worker comes, or says so again."""
        worker = worker or self.one_of(sorted(POOLS))
        self.run(self.here.workers.join(worker, POOLS[worker], {"name": worker}))
        self.joined.add(worker)

    def leave(self) -> None:
        """A worker goes; its leases stay."""
        worker = self.a_worker()
        left = self.run(self.here.workers.leave(worker))
        self.joined.discard(worker)
        assert left == (worker not in {job.worker for job in self.model.of(S.RUNNING)})

    def lease(self) -> None:
        """Take what is first."""
        worker, want = self.a_worker(), self.one_of([1, 2, 3, 5])
        offers = self.offers(worker)
        leases = self.run(self.here.leases.lease(worker, POOLS[worker], want))
        self.check_leases(want, offers, [Held(worker, lease) for lease in leases])

    def offers(self, worker: str) -> dict[str, list[ModelJob]]:
        """By queue, what this worker may take now, in order."""
        pool = POOLS[worker]
        if not any(POOLS[other].id == pool.id for other in self.joined):
            return {}
        queues = QUEUES if pool.queues is None else [name for name, _ in pool.queues]
        return {queue: self.model.lane(queue, pool.handlers) for queue in queues if self.model.room(queue) > 0}

    def check_leases(self, want: int, offers: dict[str, list[ModelJob]], got: list[Held]) -> None:
        """From each queue the first of what was offered, and as many in all as was wanted and allowed.

        What should have started by now expires instead, and counts as taken.
        """
        rooms = {queue: self.model.room(queue) for queue in offers}
        picture = self.run(take(self.here))
        looked_at, had = 0, 0
        for queue, offered in offers.items():
            touched = [job for job in offered if picture.jobs[job.id]["state"] != S.READY]
            assert touched == offered[: len(touched)], "a job was passed over"
            assert len(touched) <= rooms[queue], "a limit was passed"
            started = [job for job in touched if not job.late(self.model.now_ms)]
            assert [held.job_id for held in got if held.lease.queue == queue] == [job.id for job in started]
            looked_at += len(touched)
            had += int(min(len(offered), rooms[queue]))
            for job in touched:
                if job.late(self.model.now_ms):
                    self.model.end(job, S.EXPIRED)
        assert looked_at == min(want, had)
        for held in got:
            job = self.model.jobs[held.job_id]
            self.model.start(job, held.worker)
            assert (held.lease.fence, held.lease.attempt) == (job.fence, job.attempt)
        self.leases += got

    def report(self) -> None:
        """A running job ends in any way, and its worker takes the next."""
        running = self.model.of(S.RUNNING)
        if running:
            job = self.one_of(running)
            want = self.one_of([0, 0, 1, 3])
            self.end_attempt(job.worker, job.id, job.fence, self.one_of(HOWS), self.one_of(SOME_MS), want)

    def report_late(self) -> None:
        """Any lease that ever was ends in any way, told by its worker or another."""
        if self.leases:
            held = self.one_of(self.leases)
            worker = self.one_of([held.worker, self.a_worker()])
            self.end_attempt(worker, held.job_id, held.lease.fence, self.one_of(HOWS), None, 0)

    def end_attempt(self, worker: str, job_id: str, fence: int, how: How, delay_ms: int | None, want: int) -> None:
        """Report, and take up to `want` in the same call."""
        ending = Ending(job_id, fence, how, delay_ms=delay_ms)

        [word], leases = self.run(self.here.leases.report(worker, [ending], POOLS[worker], want))

        assert word == self.model.report(worker, job_id, fence, how, delay_ms)
        if want:
            self.check_leases(want, self.offers(worker), [Held(worker, lease) for lease in leases])

    def renew(self) -> None:
        """A heartbeat with everything the worker ever held."""
        worker = self.a_worker()
        mine = [held for held in self.leases if held.worker == worker]

        words, known = self.run(self.here.leases.renew(worker, [held.token for held in mine]))

        assert known == (worker in self.joined)
        for held, word in zip(mine, words, strict=True):
            job = self.model.jobs.get(held.job_id)
            if job is None or (job.state, job.worker, job.fence) != (S.RUNNING, worker, held.lease.fence):
                assert word is Renewed.LOST
            else:
                assert word is (Renewed.CANCEL if job.canceling else Renewed.OK)

    def lose(self) -> None:
        """Workers fall silent, and the reaper comes."""
        running = self.model.of(S.RUNNING)
        if not running:
            return
        lost = {self.one_of(running).id for _ in range(self.one_of([1, 2]))}
        for held in self.leases:
            job = self.model.jobs.get(held.job_id)
            if job is not None and job.id in lost and held.lease.fence == job.fence:
                self.run(stall(self.store, held, 31))

        queues = self.run(self.here.queues.names())
        reaped, _ = self.run(self.here.upkeep.reap(*queues, visibility_ms=30_000))

        assert reaped == len(lost)
        for job_id in lost:
            self.model.lose(self.model.jobs[job_id])

    def resync(self) -> None:
        """A worker lost a reply: it knows all its leases, or none."""
        worker, forgets = self.a_worker(), self.one_of([True, False])
        known = [] if forgets else [held.token for held in self.leases if held.worker == worker]
        mine = [job for job in self.model.of(S.RUNNING) if job.worker == worker and forgets]

        assert self.run(self.here.leases.resync(worker, known)) == len(mine)

        for job in mine:
            self.model.give_back(job)

    # Changes -----------------------------------------------------------------------------------------------------

    def cancel(self) -> None:
        """End it, or ask its worker to."""
        if not self.submitted:
            return
        job_id = self.a_job()
        job = self.model.jobs.get(job_id)

        word = self.run(self.store.cancel(job_id))

        if job is None:
            assert word is Canceled.MISSING
        elif job.state in TERMINAL:
            assert word is Canceled.ENDED
        elif job.state is S.RUNNING:
            assert word is Canceled.STOPPING
            job.canceling = True
        else:
            assert word is Canceled.CANCELED
            self.model.end(job, S.CANCELED)

    def delete(self) -> None:
        """Unless something depends on it."""
        if not self.submitted:
            return
        job_id = self.a_job()

        word = self.run(self.store.delete(job_id))

        if job_id not in self.model.jobs:
            assert word is Deleted.MISSING
        elif self.model.named(job_id):
            assert word is Deleted.NAMED
        else:
            assert word is Deleted.DELETED
            self.model.remove(job_id)

    def update(self) -> None:
        """Move it, from the version it has or an old one."""
        if not self.submitted:
            return
        job_id = self.a_job()
        job = self.model.jobs.get(job_id)
        stale = self.one_of([False, False, False, True])
        queue, handler = self.one_of([None, *QUEUES]), self.one_of([None, *HANDLERS])
        order, wait_ms = self.one_of([None, 0, 2]), self.one_of(SOME_MS)
        due_ms = None if wait_ms is None else self.model.now_ms + wait_ms
        named = {"queue": queue, "handler": handler, "order": order, "due": due_ms}
        change = Change({name: value for name, value in named.items() if value is not None})

        word, _ = self.run(self.store.update(job_id, (job.version if job else 0) - stale, change))

        fixed = due_ms is not None or (job is not None and queue not in (None, job.queue))
        assert word is self.answer(job, stale=stale, fixed=fixed)
        if word is Updated.OK and job is not None:
            job.version += 1
            job.queue, job.handler = queue or job.queue, handler or job.handler
            job.order = job.order if order is None else order
            job.due_ms = job.due_ms if due_ms is None else due_ms
            if job.state is S.READY:
                self.model.place(job)

    def answer(self, job: ModelJob | None, *, stale: bool, fixed: bool) -> Updated:
        """What an update is answered; `fixed`: it touches what a running job cannot change."""
        if job is None:
            return Updated.MISSING
        if job.state in TERMINAL:
            return Updated.ENDED
        if stale:
            return Updated.CHANGED
        return Updated.RUNNING if job.state is S.RUNNING and fixed else Updated.OK

    def depend(self) -> None:
        """Other dependencies: fewer, more, or what is not there."""
        if not self.submitted:
            return
        job_id = self.a_job()
        job = self.model.jobs.get(job_id)
        kept = job.needs if job and self.one_of([True, False]) else set()
        needs = sorted({self.a_job() for _ in range(self.one_of([0, 1, 2]))} | kept)
        edges = {other.id: other.needs for other in self.model.jobs.values()}
        cycle, version = self.run(self.store.find_cycle(job_id, needs))
        assert bool(cycle) == detect_cycle(job_id, needs, edges).has_cycle
        if cycle:
            return

        change = Change(dependencies=tuple(needs))
        word, unknown = self.run(self.store.update(job_id, job.version if job else 0, change, version))

        if word is Updated.UNKNOWN:
            assert job is not None
            assert unknown not in self.model.jobs.keys() | job.needs
            return
        assert word is self.answer(job, stale=False, fixed=True)
        if word is Updated.OK and job is not None:
            assert set(needs) <= self.model.jobs.keys() | job.needs
            job.version += 1
            self.model.depend(job, set(needs))

    def set_queue(self) -> None:
        """Pause, resume, limit."""
        queue, paused = self.one_of(QUEUES), self.one_of([False, False, False, True])
        limit = self.one_of([None, None, None, 0, 1, 2, 3])
        changes: dict[str, str | int | float] = {"paused": int(paused)}
        if limit is not None:
            changes["max_concurrent"] = limit
        self.run(self.here.queues.set(queue, changes, ("max_concurrent",) if limit is None else ()))
        self.model.queues[queue] = ModelQueue(paused, limit)

    # Time and upkeep -----------------------------------------------------------------------------------------------

    def tick(self) -> None:
        """Time passes; now and then a clock is set back."""
        self.model.now_ms = self.clock.forward(self.one_of([0.001, 1, 2, 5, -1]))

    def promote(self) -> None:
        """Due jobs enter their lanes."""
        due = [job for job in self.model.of(S.READY) if job.delayed and (job.due_ms or 0) <= self.model.now_ms]

        promoted, _ = self.run(self.here.upkeep.promote())

        assert promoted == len(due)
        for job in due:
            job.delayed = False

    def expire(self) -> None:
        """What never started ends."""
        late = [job for job in self.model.of(S.PENDING, S.READY) if job.late(self.model.now_ms)]

        assert self.run(self.here.upkeep.expire()) == len(late)

        for job in late:
            self.model.end(job, S.EXPIRED)

    def settle(self) -> None:
        """The scheduler catches up."""
        self.run(settle(self.store))
        self.model.tell_all()

    def resolve(self) -> None:
        """One ending is told, perhaps again."""
        ended = self.model.of(*TERMINAL)
        if ended:
            job = self.one_of(ended)
            self.run(self.here.graph.resolve(job.id))
            self.model.tell(job)

    def retire(self) -> None:
        """Retention by age and count."""
        before_ms = self.model.now_ms - self.one_of([-1_000, 2_000, 5_000, 9_000])
        count = self.one_of([None, None, 1, 3])
        assert self.run(self.here.upkeep.retire(before_ms, count)) == self.model.retire(before_ms, count)

    # What always holds ---------------------------------------------------------------------------------------------

    @invariant()
    def all_is_consistent(self) -> None:
        """In Redis alone."""
        found = self.run(faults(self.store))
        assert not found, "\n".join(found)

    @invariant()
    def the_records_are_those_of_the_model(self) -> None:
        """No job is lost, and each is where it should be."""
        picture = self.run(take(self.here))
        assert picture.jobs.keys() == self.model.jobs.keys()
        for job_id, raw in picture.jobs.items():
            job = self.model.jobs[job_id]
            kept = {name: raw.get(name, "") for name in ("state", "queue", "handler", "due")}
            due = "" if job.due_ms is None else str(job.due_ms)
            assert kept == {"state": job.state, "queue": job.queue, "handler": job.handler, "due": due}, job_id
            numbers = [int(raw.get(name, 0)) for name in ("attempt", "fence", "order", "created", "ver", "cancel")]
            assert numbers == [job.attempt, job.fence, job.order, job.created_ms, job.version, job.canceling], job_id
            assert picture.sets["waits"].get(job_id, set()) == job.waits
            assert (job_id in picture.zsets["delayed"].get("", {})) == job.delayed
            assert job.state is not S.RUNNING or raw["worker"] == job.worker


def test_anything_in_any_order(server: EmbeddedServer) -> None:
    """The engine and the model never disagree."""
    examples = 60 if settings().derandomize else settings().max_examples
    with asyncio.Runner() as runner:
        run_state_machine_as_test(
            lambda: Engine(runner, server.url),  # type: ignore[arg-type]
            settings=settings(max_examples=examples, stateful_step_count=60),
        )
