#!/usr/bin/env bash
# submit.sh JUDGE RUN ARGUMENTS...: the shards of a run, and its table when all of them have ended.
#
#   ./submit.sh Qwen/Qwen2.5-VL-7B-Instruct runs/x multibanana --data DIR --model A=folder:out/A
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
judge=$1 run=$2
shift 2
shards=$(sbatch --parsable --export="ALL,JUDGE=$judge,CLUSTER=$here" "$here/shards.sbatch" "$@" --out "$run")
# afterany, not afterok: a shard with too many failures ends in code 1, and its table says which.
sbatch --parsable --dependency="afterany:${shards%%;*}" "$here/table.sbatch" "$run"
