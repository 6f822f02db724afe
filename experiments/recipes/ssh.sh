#!/usr/bin/env bash
# One shard of `verihop eval` on each of some machines, then their merge on this one; ssh and tar are all it needs.
#
#   HOSTS="ada bob cyd" bash ssh.sh questions.jsonl runs/genground --program genground --index index --lm ...
#
# The questions and the index are in the same folder on every machine (DIR, by default this one), copied or shared.
# Run it again with the same words if a machine failed: finished questions are kept.
set -euo pipefail

read -ra hosts <<<"${HOSTS:?name the machines, as in HOSTS=\"ada bob\"}"
ssh=${SSH:-ssh}
verihop=${VERIHOP:-verihop} # may be a path, or several words
dir=$(printf %q "${DIR:-$PWD}")
questions=${1:?name the questions}
out=${2:?name a folder for the shards}
shift 2
words=$(printf ' %q' "$questions" "$@")
there=$(printf %q "$out")
shards=${#hosts[@]}

mkdir -p "$out"
for i in $(seq "$shards"); do
  command="cd $dir && exec $verihop eval$words --shard $i/$shards --out $there/shard-$i --resume --quiet"
  # shellcheck disable=SC2086
  $ssh "${hosts[i - 1]}" "$command" </dev/null >"$out/shard-$i.log" 2>&1 &
  jobs[i]=$!
done

failed=0
for i in $(seq "$shards"); do
  if ! wait "${jobs[i]}"; then
    echo "Shard $i/$shards on ${hosts[i - 1]} failed; its messages are in $out/shard-$i.log" >&2
    failed=1
  fi
done
((failed == 0)) || exit 1

parts=()
for i in $(seq "$shards"); do
  # Through a copy, because where the folder is shared tar would read the files that it writes.
  mkdir -p "$out/collected"
  # shellcheck disable=SC2086
  $ssh "${hosts[i - 1]}" "cd $dir && tar -c -C $there shard-$i" </dev/null | tar -x -C "$out/collected"
  parts+=("$out/collected/shard-$i")
done
# shellcheck disable=SC2086
$verihop merge "${parts[@]}" --out "$out/merged"
