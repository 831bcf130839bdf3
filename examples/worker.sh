#!/bin/sh
# A TaskFlow worker that runs shell jobs, one at a time: worker.sh http://127.0.0.1:8000 [queue].  Needs curl and jq.
api=${1%/}/workers queue=${2:-general} tmp=$(mktemp -d) || exit
answer=$tmp/answer; printf 'Authorization: Bearer %s' "$TASKFLOW_API_TOKEN" >"$tmp/token"
unset TASKFLOW_API_TOKEN id pid beating body piece output # which may stand in the environment, and would be passed on
trap leave EXIT; trap 'exit 143' INT TERM
post() { # PATH BODY [OPTION…]: what comes is in $status and the file $answer; no answer, or 5xx: it asks again each second
  url=$api/$1 body=$2; shift 2
  status=$(printf %s "$body" | curl -sS -m 30 --retry 40 --retry-delay 1 --retry-all-errors -H "@$tmp/token" --json @- \
    -o "$answer" -w '%{http_code}' "$@" "$url"); [ "${status%??}" = 2 ]
}
beat() { # keeps the lease; ends a job that was canceled, one that is another's by now, and one whose worker was killed
  answer=$tmp/beat pause=$heartbeat_s; trap 'kill $!; exit' TERM # ends its sleep; a heartbeat on its way is waited for
  while sleep "$pause" & wait $!; kill -0 $$; do
    pause=1; post "$id/heartbeat" "{\"running\": [\"$job\"]}" -m 5 --retry 0 && pause=$heartbeat_s
    case $status$(cat "$answer") in 2*'"cancel":['*"$job"*) kill "$pid" ;; 2*"$job"* | 4*) break ;; esac
  done; kill -KILL "-$pid"
} 2>/dev/null
leave() { # first the job ends, then it is given back
  trap '' INT TERM; for each in $pid $beating; do kill "$each"; wait "$each"; done; [ -z "$pid" ] || kill -KILL "-$pid"
  [ -z "$id" ] || post "$id" '' -X DELETE --retry 5; rm -rf "$tmp"
} 2>/dev/null
fail() { verb=fail error=", \"error\": {\"class\": \"$1\", \"message\": \"$2\"}"; }
post register "{\"name\": \"sh $$\", \"queues\": [\"$queue\"], \"concurrency\": 1}" --retry 0 &&
  id=$(jq -r .id "$answer") heartbeat_s=$(jq .heartbeat_s "$answer")
while [ "$id" ] && post "$id/lease" '{"max": 1, "wait_s": 5, "running": []}'; do # only 5 s, for SIGTERM is heard after it
  ! jq -e .draining "$answer" >/dev/null || exit 0
  eval "set -- $(jq -r '.items[] | [.job, .token, .timeout_s // 0, .payload.cwd // ".", .payload.cmd,
    (.payload.env // {} | to_entries[] | "\(.key)=\(.value)"),
    "TASKFLOW_JOB_ID=\(.job)", "TASKFLOW_ATTEMPT=\(.attempt)", "TASKFLOW_FENCE=\(.fence)"] | @sh' "$answer")"
  [ $# -gt 0 ] || continue
  job=$1 token=$2 limit=$3 cwd=$4 cmd=$5 dir=$(mktemp -d "$tmp/XXXXXX") || exit; shift 5
  (cd "$cwd" && exec timeout -k 10 "$limit" env "$@" TASKFLOW_OUTPUT="$dir/output" /bin/sh -c "$cmd") \
    >"$dir/stdout" 2>"$dir/stderr" & pid=$!
  beat & beating=$!; wait $pid; code=$?; kill -KILL "-$pid" 2>/dev/null; pid='' # with all that it left in its group
  for stream in stdout stderr; do # in pieces, for a body has 1 MiB at most; of a stream the api keeps 1 MiB, and marks a cut
    tr -d '\000' <"$dir/$stream" | head -c 1100000 | base64 -w 0 | jq -Rsc --arg token "$token" --arg stream $stream '@base64d |
      range(0; length; 1e5) as $at | {$token, $stream, text: .[$at:$at + 1e5], offset: (.[:$at] | utf8bytelength)}' >"$dir/pieces"
    while read -r piece; do post "$id/jobs/$job/logs" "$piece" || break; done <"$dir/pieces"
  done
  verb=complete error='' output=$(exec 2>/dev/null; [ -z "$(find "$dir/output" ! -type f)" ] && # no link, pipe or folder
    head -c 1048577 "$dir/output" | jq -cs 'if length > 1 then error else .[0] end')
  [ "$output" ] || { output=null; fail BadOutput "TASKFLOW_OUTPUT is not a plain file with JSON"; }
  [ $code -eq 0 ] || fail ExitCode "exit code $code"
  post "$id/jobs/$job/$verb" "{\"token\": \"$token\"$error, \"result\": {\"exit_code\": $code, \"output\": $output}}"
  [ "${status%??}" != 4 ] || { fail Refused "exit code $code; status $status for its result" # or it would run again for ever
    post "$id/jobs/$job/fail" "{\"token\": \"$token\"$error}"; }
  kill $beating 2>/dev/null; wait $beating; beating=''; rm -rf "$dir"
done
echo "worker.sh: ended, for $api answered $status (000: not at all). $(jq -r '.error.message // ""' "$answer" 2>&-)" >&2; exit 1
