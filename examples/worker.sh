#!/bin/sh
# A TaskFlow worker that runs shell jobs, one at a time: worker.sh http://127.0.0.1:8000 [queue].  Needs curl and jq.
api=$1/workers queue=${2:-general} tmp=$(mktemp -d)
post() { curl -fsS -m 90 --retry 5 --retry-connrefused -H "Authorization: Bearer $TASKFLOW_API_TOKEN" --json "$2" "$api/$1" $3; }
beat() { while sleep "$pause" && kill -0 $$ 2>/dev/null && ! post "$id/heartbeat" "{\"running\": [\"$job\"]}" | grep "$job"; do :; done; kill "$pid"; }
trap 'exit 143' INT TERM # what it holds is given back
trap 'kill $pid $beating 2>/dev/null; post "$id" "" "-X DELETE"; rm -r "$tmp"' EXIT
eval "$(post register "{\"name\": \"sh $$\", \"queues\": [\"$queue\"], \"concurrency\": 1}" | jq -r '@sh "id=\(.id) pause=\(.heartbeat_s)"')"
while leased=$(post "$id/lease" '{"max": 1, "wait_s": 20, "running": []}') && [ "${leased%'"draining":true'*}" = "$leased" ]; do
  eval "set -- $(printf %s "$leased" | jq -r '.items[] | [.job, .token, .timeout_s // 0, .payload.cwd // ".", .payload.cmd, "TASKFLOW_JOB_ID=\(.job)",
    "TASKFLOW_ATTEMPT=\(.attempt)", "TASKFLOW_FENCE=\(.fence)", (.payload.env // {} | to_entries[] | "\(.key)=\(.value)")] | @sh')"
  [ $# -gt 0 ] || continue
  job=$1 token=$2 limit=$3 cwd=$4 cmd=$5; shift 5; : >"$tmp/output"
  (cd "$cwd" && exec env -u TASKFLOW_API_TOKEN TASKFLOW_OUTPUT="$tmp/output" "$@" timeout -k 10 "$limit" sh -c "$cmd") >"$tmp/stdout" 2>"$tmp/stderr" &
  pid=$!; beat & beating=$!; wait $pid; code=$?
  for stream in stdout stderr; do
    tr -d '\000' <"$tmp/$stream" | head -c 150000 | jq -Rs "{token: \"$token\", stream: \"$stream\", text: ., offset: 0}" | post "$id/jobs/$job/logs" @-
  done
  result="{\"exit_code\": $code, \"output\": $(jq -cs '.[0]' "$tmp/output" || echo null)}"; set -- complete ''
  [ $code -eq 0 ] || set -- fail "\"error\": {\"class\": \"ExitCode\", \"message\": \"exit code $code\"},"
  post "$id/jobs/$job/$1" "{\"token\": \"$token\", $2 \"result\": $result}"; kill $beating; pid='' beating=''
done >/dev/null
