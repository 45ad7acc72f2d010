#!/bin/bash
# Do one part of the work in a task of a job array of PBS, Grid Engine, LSF or HTCondor, or of Slurm:
#   shard.sh 20 predict --output probabilities images
# The first word is the number of parts, which the array numbers from 1. Without a queue:
#   seq 20 | xargs --max-procs 4 --replace env PART={} shard.sh 20 predict --output probabilities images
set -euo pipefail

parts=${1:?"give the number of parts, then a command of roadseg"}
shift
part=${PART:-${SLURM_ARRAY_TASK_ID:-${PBS_ARRAY_INDEX:-${PBS_ARRAYID:-${SGE_TASK_ID:-${LSB_JOBINDEX:-}}}}}}
if [[ ! $part =~ ^[1-9][0-9]*$ ]]; then
  echo "shard.sh: no task of an array has started this, and PART is not set" >&2
  exit 2
fi
exec roadseg "$@" --shard "$part/$parts"
