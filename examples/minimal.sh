#!/bin/sh
# The protocol in twenty lines: minimal.sh http://127.0.0.1:8000 [queue] runs shell jobs, one at a time, with curl and jq.
# To read and to start from.  worker.sh does the same, and withstands hostile jobs, odd output and long outages.
api=$1/workers tmp=$(mktemp -d) id='' pid='' beating=''
post() { curl -fsS -m 30 --retry "${2-30}" --retry-delay 1 --retry-connrefused -H "$auth" --json @- "$api/$1"; }
auth="Authorization: Bearer $TASKFLOW_API_TOKEN"; unset TASKFLOW_API_TOKEN
id=$(echo "{\"name\": \"minimal $$\", \"queues\": [\"${2:-general}\"], \"concurrency\": 1}" | post register 0 | jq -r .id)
beat() { # keeps the lease, until the answer names the job, for it was canceled or lost, or none comes; or the worker is gone
  while sleep 1; kill -0 $$ && echo "{\"running\": [\"$job\"]}" | post "$id/heartbeat" 5 >"$tmp/beat" && ! grep -q "$job" "$tmp/beat"
  do :; done; kill "$pid"; }
trap 'kill $pid $beating 2>&-; wait; curl -sSo /dev/null -X DELETE -H "$auth" "$api/$id"; rm -r "$tmp"; exit 143' INT TERM # gives back what it holds
while [ "$id" ] && echo '{"max": 1, "wait_s": 5, "running": []}' | post "$id/lease" >"$tmp/leased"; do
  eval "set -- $(jq -r '.items[] | [.job, .token, .timeout_s // 0, .payload.cmd,
    (.payload.env // {} | to_entries[] | "\(.key)=\(.value)")] | @sh' "$tmp/leased")"; [ $# -gt 0 ] || continue
  job=$1 token=$2 limit=$3 cmd=$4; shift 4
  env "$@" timeout "$limit" sh -c "$cmd" >"$tmp/stdout" 2>"$tmp/stderr" & pid=$!
  beat & beating=$!; wait $pid; code=$?; kill $beating; wait $beating; pid='' beating=''
  for stream in stdout stderr; do tr -d '\0' <"$tmp/$stream" | head -c 150000 |
    jq -Rs --arg token "$token" --arg stream $stream '{$token, $stream, text: .}' | post "$id/jobs/$job/logs"; done
  jq -n --arg token "$token" --argjson exit_code $code '{$token, result: {$exit_code, output: null}} +
    if $exit_code == 0 then {} else {error: "exit code \($exit_code)"} end' |
    post "$id/jobs/$job/$([ $code -eq 0 ] && echo complete || echo fail)"
done; exit 1
