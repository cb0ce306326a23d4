#!/bin/bash
# Runs everything that a CUDA device should show, in about ten minutes, the cheap and telling steps
# first. Each step has a time limit of its own and leaves its results at once.
#
#   tools/gpu_day.sh OUT          in a checkout, or in an unpacked pack
#   tools/gpu_day.sh OUT STEP...  some steps: machine add timelines programs, or parts of gpu-check
#
# A pack for a computer without a toolchain, made in a checkout:
#
#   cargo build --release -p millstream-cli
#   tar cJf pack.tar.xz tests/traces examples python tools crates/kernels/tests/reference \
#       -C target/release millstream
#
# PYTHON is a Python with PyTorch (python3). Without one the steps that need it are skipped.
set -u
[ $# -ge 1 ] || { sed -n '2,15s/^# \{0,1\}//p' "$0"; exit 2; }
out=$(mkdir -p "$1" && realpath "$1")
shift
cd "$(dirname "$(realpath "$0")")/.." || exit 2
millstream=./millstream
[ -x $millstream ] || millstream=target/release/millstream
[ -x $millstream ] || { echo "no ./millstream and no $millstream: build it first"; exit 2; }
python=${PYTHON:-python3}
export PYTHONPATH=$PWD/python PYTHONUNBUFFERED=1
wanted=" $* "
exec > >(tee -a "$out/log.txt") 2>&1

# Says that a step begins, if it is wanted.
step() {
  [ "$wanted" = "  " ] || [[ $wanted == *" $1 "* ]] || return 1
  echo "== [$SECONDS s] $1"
}

# Runs a part of gpu-check for at most so many seconds. Its report is in a folder of its name.
part() {
  step "$1" || return
  timeout -k 5 $(($2 + 20)) $millstream gpu-check --only "$1" --seconds "$2" --seed 20261127 \
    --python "$python" --out "$out/$1" 2>&1 | cut -c1-240 | tail -60
}

# Records programs by a script, which gets a folder, and packs them.
record() {
  "$python" -c 'import torch; assert torch.cuda.is_available()' 2> "$out/$1-python.txt" ||
    { echo "no PyTorch with CUDA: $(tail -1 "$out/$1-python.txt")"; return 1; }
  timeout -k 5 "$2" "$python" "tools/$3" "$out/$1" 2>&1 | grep -v Warn
  tar czf "$out/$1.tar.gz" -C "$out" "$1"
}

step machine && { nvidia-smi | sed -n 3,16p; nproc; }
step add && { timeout 40 $millstream run examples/traces/add.json --device cuda:0 || exit 1; }
for cheap in conformance memory ranks bandwidth pipeline soak; do part $cheap 30; done
part programs 60
part graphs 60
part pytorch 120
part launches 40
if step timelines && record timelines 90 streams_programs.py; then
  for program in "$out"/timelines/*/*/; do
    right=$("$python" -c 'import json, sys; print(json.load(open(sys.argv[1]))["verdict"])' \
      "$program/meta.json")
    printf '%s, rightly "%s": ' "${program#"$out"/timelines/}" "$right"
    timeout 30 $millstream verify "$program" 2>&1 |
      grep -E -m 1 'proven|undecided|race|error' | cut -c1-160
  done
fi
if step recordings && record recordings 60 record_programs.py; then
  for program in "$out"/recordings/*/; do
    for device in cuda:0 cpu; do
      printf '%s on %s: ' "$(basename "$program")" $device
      timeout 30 $millstream run "$program" --device $device 2>&1 | tail -1 | cut -c1-160
    done
  done
fi
part sanitizer 60
part ops 220
step end
