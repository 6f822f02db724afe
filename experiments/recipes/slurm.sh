#!/usr/bin/env bash
#SBATCH --job-name=verihop
#SBATCH --array=1-4
#SBATCH --cpus-per-task=2
#SBATCH --time=12:00:00
#SBATCH --requeue
#SBATCH --output=%x-%a.log
# One shard of `verihop eval` per task of a job array; each task may be requeued, and resumes.
#
#   sbatch --array=1-8 slurm.sh questions.jsonl runs/genground --program genground --index index --lm ...
#
# Some tasks again, of eight: sbatch --array=3,5 --export=ALL,SHARDS=8 slurm.sh ... (the same words)
# The variables of a job array: https://slurm.schedmd.com/job_array.html
set -euo pipefail

verihop=${VERIHOP:-verihop} # may be a path, or several words
shards=${SHARDS:-${SLURM_ARRAY_TASK_COUNT:?run this with sbatch --array=1-N}}
shard=${SLURM_ARRAY_TASK_ID:?run this with sbatch --array=1-N}
questions=${1:?name the questions}
out=${2:?name a folder for the shards}
shift 2

# Unquoted, because it may be several words. `exec`, so that signals of Slurm reach it.
# shellcheck disable=SC2086
exec $verihop eval "$questions" "$@" --shard "$shard/$shards" --out "$out/shard-$shard" --resume --quiet
