#!/bin/sh
# A TaskFlow worker that runs shell jobs, one at a time: worker.sh http://127.0.0.1:8000 [queue].  Needs curl and jq.
api=$1 queue=${2:-general} out=$(mktemp -d)
post() { curl -fsS -m 90 --retry 5 --retry-connrefused -H 'Content-Type: application/json' \
  ${TASKFLOW_API_TOKEN:+-H "Authorization: Bearer $TASKFLOW_API_TOKEN"} -d "$2" ${3:+-X "$3"} "$api/workers/$1"; }
register() { eval "$(post register "{\"name\": \"sh $$\", \"queues\": [\"$queue\"], \"concurrency\": 1}" |
  jq -r '@sh "id=\(.id) pause=\(.heartbeat_s)"')"; }
beat() { while sleep "$pause" && kill -0 $$ 2>/dev/null; do # the answer names the job when it is canceled, or another's by now
  case $(post "$id/heartbeat" "{\"running\": [\"$job\"]}") in *"$job"*) kill "$pid" ;; esac; done
  kill "$pid"; } # the worker itself was killed: nobody keeps the lease, another takes the job
trap 'exit 143' INT TERM
trap 'kill $pid $beating 2>/dev/null; post "$id" "" DELETE; rm -r "$out"' EXIT # what it holds is given back
register
while :; do
  leased=$(post "$id/lease" '{"max": 1, "wait_s": 20, "running": []}') || { sleep 1; register; continue; }
  eval "set -- $(printf %s "$leased" | jq -r '.items[] | [.job, .token, .timeout_s // 0, .payload.cwd // ".", .payload.cmd,
    "TASKFLOW_JOB_ID=\(.job)", "TASKFLOW_ATTEMPT=\(.attempt)", "TASKFLOW_FENCE=\(.fence)",
    (.payload.env // {} | to_entries[] | "\(.key)=\(.value)")] | @sh')"
  [ $# -gt 0 ] || case $leased in *'"draining":true'*) exit 0 ;; *) continue ;; esac
  job=$1 token=$2 limit=$3 cwd=$4 cmd=$5; shift 5; : >"$out/output"
  (cd "$cwd" && exec env -u TASKFLOW_API_TOKEN TASKFLOW_OUTPUT="$out/output" "$@" \
    timeout -k 10 "$limit" sh -c "$cmd") >"$out/stdout" 2>"$out/stderr" &
  pid=$!; beat & beating=$!
  wait $pid; code=$?
  for stream in stdout stderr; do
    tr -d '\000' <"$out/$stream" | head -c 150000 | jq -Rs "{token: \"$token\", stream: \"$stream\", text: ., offset: 0}" |
      post "$id/jobs/$job/logs" @-
  done
  error=$([ $code -eq 0 ] || echo "\"error\": {\"class\": \"ExitCode\", \"message\": \"exit code $code\"},")
  post "$id/jobs/$job/$([ $code -eq 0 ] && echo complete || echo fail)" \
    "{\"token\": \"$token\", $error \"result\": {\"exit_code\": $code, \"output\": $(jq -cs '.[0]' "$out/output" 2>/dev/null || echo null)}}"
  kill $beating; pid='' beating=''
done >/dev/null
