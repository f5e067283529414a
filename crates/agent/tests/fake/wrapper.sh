#!/bin/sh
# Stands in for `steadfast exec --agent-on-stdin --log-dir DIR -- BEHAVIOUR`: speaks the wrapper's side
# of the protocol on the socket that is its standard input, and supervises nothing.
say() { printf '%s\n' "$1" >&0; }
ended() { say "{\"type\":\"ended\",\"outcome\":$1,\"proof\":\"NO_CHILD_LEFT\"}"; }
start() {
  sleep 1000 </dev/null &
  program=$!
  say "{\"type\":\"started\",\"pid\":$program,\"wrapperPid\":$$}"
}
end_program() { kill -9 "$program"; wait "$program" 2>/dev/null; }
expire_lease() { say '{"type":"lease","until":1}'; }
# Runs until the agent has seen the end, or is gone.
listen() {
  while read -r line; do
    case $line in
    *'"stop"'*)
      end_program
      ended '{"outcome":"ended","why":{"kind":"told","reason":"MEMBER_LOST"},"killed":false}'
      ;;
    *'"endSeen"'*) exit 0 ;;
    esac
  done
  end_program
}
case $6 in
vanishes) # no word, and a code that would pass for success
  start
  kill -9 "$program"
  exit 0
  ;;
finishes)
  start
  end_program
  ended '{"outcome":"exited","code":0}'
  listen
  ;;
runs)
  start
  listen
  ;;
hangs) # the program outlives its lease, and the wrapper only waits for it
  start
  expire_lease
  wait "$program"
  ended '{"outcome":"signaled","signal":9}'
  listen
  ;;
caged) # what the program leaves behind carries nothing by which a look could find it; its cgroup does
  cgroup=$CGROUP_PARENT/steadfast-$EXECUTION_RESOURCE_ID
  mkdir "$cgroup"
  say "{\"type\":\"enclosed\",\"cgroup\":\"$cgroup\"}"
  env -i setsid sh -c 'echo 0 >"$1"; (setsid sleep 1000 &); exec sleep 1000' sh "$cgroup/cgroup.procs" </dev/null &
  program=$!
  while [ "$(wc -l <"$cgroup/cgroup.procs")" -lt 2 ]; do :; done
  say "{\"type\":\"started\",\"pid\":$program,\"wrapperPid\":$$}"
  listen
  ;;
namespaced) # as far as an agent can see: the first process of a namespace is one more of the container's
  sleep 1000 </dev/null &
  # For a moment while it becomes another program nobody can see whose it is.
  until [ "$(cat /proc/$!/comm)" = sleep ] && grep -q "$EXECUTION_RESOURCE_ID" /proc/$!/environ; do :; done
  say "{\"type\":\"enclosed\",\"initPid\":$!}"
  start
  listen
  ;;
mute) # stopped between starting its program and telling of its lease
  start
  kill -STOP $$
  ;;
stops) # the wrapper itself is stopped
  start
  expire_lease
  kill -STOP $$
  ;;
esac
