#!/bin/sh
# A validator around a program, in shell: what `steadfast exec` does, by the contract in docs/http-api.md, but
# without its proofs.    validator.sh COMMAND ARGUMENT…
set -u
L=$STEADFAST_LEASE_MS G=$STEADFAST_GRACE_MS M=$((100 + STEADFAST_LEASE_MS / 50)) epoch=0 until=0 outcome=''
now() { read -r up _ </proc/uptime && echo "${up%.*}${up#*.}0"; } # goes on while the machine sleeps
field() { printf %s "$said" | sed -n "s/.*\"$1\" *: *\"\{0,1\}\([A-Za-z0-9_]*\).*/\1/p"; }
lives() { grep -qs '^State:.[^ZX]' "/proc/$program/status"; }
ask() { # 0: yes; 1: nobody knows, and the lease runs on; 2: no
  pause=$STEADFAST_SCHEDULE_MS
  for url in $(echo "$STEADFAST_COORDINATORS" | tr , ' '); do
    nonce=$(od -An -N6 -tu8 /dev/urandom | tr -d ' ') sent=$(now) # the lease counts from the sending
    said=$(curl -sf -m 2 --noproxy '*' -H "Authorization: Bearer $STEADFAST_CONTAINER_SECRET" -G -d "nonce=$nonce" \
      --data-urlencode "execution_resource_id=$EXECUTION_RESOURCE_ID" "${url%/}/isContainerValid")
    said_epoch=$(field coordinatorEpoch) lease=$(field leaseMs)
    [ "$(field nonce)" = "$nonce" ] && [ "${said_epoch:-0}" -ge $epoch ] || continue
    epoch=$said_epoch
    [ "$(field isValid)" = false ] && [ "$(field reason)" ] && return 2
    [ "$(field isValid)" = true ] && [ "$lease" ] || continue
    [ $until = 0 ] || [ "$(now)" -lt $((until - M - G)) ] || return 1 # too late, it moves nothing
    until=$((sent + (lease < L ? lease : L))) pause=$(field nextPollMs) && return 0
  done
  return 1
}
give_up=$(($(now) + L))
until ask; do # no yes, no start
  [ $? = 2 ] && exit 70
  [ "$(now)" -lt $give_up ] || exit 73
  sleep 0.1
done
kill_at=$(mktemp) && echo $((until - M)) >"$kill_at"
setsid "$@" <&0 & program=$! # leads a group of its own
trap 'kill -TERM -$program' TERM INT HUP
# The deadline is watched by a process that does nothing else.
(while read -r at <"$kill_at"; do [ "$(now)" -lt "$at" ] || kill -KILL -$program; sleep 0.05; done) 2>/dev/null &
while lives; do
  if [ ! "$outcome" ]; then
    ask; answer=$?
    [ $answer = 0 ] && echo $((until - M)) >"$kill_at"
    [ "$(now)" -lt $((until - M - G)) ] || outcome=71
    [ $answer = 2 ] && outcome=70 && echo $(($(now) + G)) >"$kill_at"
    [ "$outcome" ] && pause=50 && kill -TERM -$program
  fi
  sleep "$((pause / 1000)).$(printf %03d $((pause % 1000)))"
done
wait $program; code=$?
kill -KILL -$program 2>/dev/null # whom it left behind in its group
rm -f "$kill_at"
[ $code = 137 ] && [ "$outcome" ] && exit 72
exit "${outcome:-$code}"
