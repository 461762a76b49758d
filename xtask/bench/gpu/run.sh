#!/bin/sh
# Everything that only a machine with a GPU can show, from the folder this file is in.
#
#   sh run.sh OUT [STAGE...]     stages, in this order: check python copies images steps
#                                train peers sanitize; all without one
#   sh run.sh --dry-run          what would run, and whether every piece of it is there
#
# Needs a driver, PyTorch 2.11 for CUDA in `python3` (PYTHON names another), about 8 GB of disk in
# TMPDIR, and at most twenty minutes on 16 cores; `check` alone takes under three. Each stage makes
# what it needs, so that each can be run again alone. OUT gets record.json, after each stage, and
# logs.tar; exit code 1 when a stage failed. SAMPLES=N packs the images so often that there are
# about N; 12000 without. `check`, `python` and `sanitize` take 2000 of them and fewer. SWITCHES are given to
# `gpu`: `--slots=driver`, `--pin=alloc`, `--convert=torch` and others that `gpu` names.
set -u
[ $# -gt 0 ] || { sed -n '2,15p' "$0"; exit 2; }
kit=$(cd "$(dirname "$0")" && pwd)
python=${PYTHON:-python3}
work=${TMPDIR:-/tmp}/gular-gpu
logs=$work/logs
samples=${SAMPLES:-12000}
few=2000
failed=0
# Ours reads it, PyTorch's workers do not.
unset OMP_NUM_THREADS

libraries=$("$python" -c 'import importlib.util; print(importlib.util.find_spec("torch").submodule_search_locations[0] + "/lib")' 2>/dev/null) || libraries=
export LD_LIBRARY_PATH="$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
export PYTHONPATH="$kit/python${PYTHONPATH:+:$PYTHONPATH}"

# The longest that each may take, in seconds: twenty minutes together.
limit_of() {
    case $1 in
    check) echo 180 ;;
    python) echo 120 ;;
    copies) echo 40 ;;
    images) echo 120 ;;
    steps) echo 150 ;;
    train) echo 200 ;;
    peers) echo 200 ;;
    sanitize) echo 150 ;;
    *) return 1 ;;
    esac
}
all="check python copies images steps train peers sanitize"

# Whether every piece is there, so that no minute on a GPU is lost: a line for each, and exit code 1
# where one that is needed is not.
look() {
    bad=0
    tell() { # tell NEEDED WHAT COMMAND...: what the command says, or that it fails
        needed=$1 what=$2
        shift 2
        if said=$("$@" 2>&1); then
            echo "ok $what: $(echo "$said" | head -n 1)"
        elif [ "$needed" = needed ]; then
            echo "missing $what: $(echo "$said" | tail -n 1)"
            bad=1
        else
            echo "skip $what: $(echo "$said" | tail -n 1)"
        fi
    }
    of_python() { "$python" -c "$1"; }
    images() {
        n=$(find "$kit/images" -type f 2>/dev/null | wc -l)
        echo "$n files in $kit/images"
        [ "$n" -gt 0 ]
    }
    disk() {
        free=$(df -Pk "$(dirname "$work")" | awk 'NR == 2 { print int($4 / 1000000) }')
        echo "$free GB in $(dirname "$work"), 8 are needed"
        [ "$free" -ge 8 ]
    }
    tell needed gular "$kit/gular" --version
    tell needed gular-train "$kit/gular-train" --version
    tell needed images images
    tell needed disk disk
    tell needed "PyTorch 2.11 for CUDA" of_python 'import torch
print(torch.__version__, "CUDA", torch.version.cuda)
raise SystemExit(not (torch.__version__.startswith("2.11.") and torch.version.cuda))'
    tell needed "gular in Python" of_python 'import gular; print(gular.__version__)'
    tell needed torchvision of_python 'import importlib.metadata; print(importlib.metadata.version("torchvision"))'
    tell needed nvidia-smi nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader
    tell optional DALI of_python 'import nvidia.dali; print(nvidia.dali.__version__)'
    tell optional compute-sanitizer sanitizer --version
    echo "ok cores: $(nproc); page locks: $(ulimit -l) KiB; /dev/shm: $(df -Ph /dev/shm 2>/dev/null | awk 'NR == 2 { print $4 }')"
    # GPU, NVRTC and NCCL, as the program itself finds them.
    "$kit/gpu" look 2>&1 || bad=1
    sum=0
    for name in $all; do
        sum=$((sum + $(limit_of "$name")))
        echo "stage $name: at most $(limit_of "$name") s"
    done
    echo "all stages: at most $sum s, and the time to pack"
    return $bad
}

# pack NAME FOLDER ARGS...: the bundle NAME, unless it is there.
pack() {
    bundle=$1 from=$2
    shift 2
    [ -e "$work/$bundle.ready" ] && return
    rm -rf "${work:?}/$bundle"
    "$kit/gular" pack "$from" "$work/$bundle" --quiet "$@" && touch "$work/$bundle.ready"
}

# copies_of FOLDER N: each image many times under other names, so that few files make epochs of many
# batches.
copies_of() {
    [ -e "$work/$1.ready" ] && return
    "$python" - "$kit/images" "$work/$1/train" "$2" <<'END' && touch "$work/$1.ready"
import pathlib, shutil, sys
images, to, samples = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), int(sys.argv[3])
shutil.rmtree(to, ignore_errors=True)
files = sorted(path for path in images.glob("*/*") if path.is_file())
for copy in range(max(1, samples // len(files))):
    for path in files:
        folder = to / path.parent.name
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, folder / f"{copy}-{path.name}")
END
}

# What stage $1 reads.
prepare() {
    mkdir -p "$work"
    case $1 in
    check | python) copies_of few "$few" && pack few-encoded "$work/few" && pack few-raw "$work/few" --payload raw --size 256 ;;
    images | steps)
        copies_of files "$samples" && pack encoded "$work/files" &&
            pack reencoded "$work/files" --payload reencoded --max-side 288 &&
            pack raw "$work/files" --payload raw --size 256
        ;;
    train | peers) copies_of files "$samples" && pack encoded "$work/files" ;;
    sanitize) pack small "$kit/images" --images '{label}/{key}.{ext}' --fractions train=0.8,val=0.2 ;;
    esac
}

# stage NAME COMMAND...: runs it, keeps what it says, and goes on when it fails.
stage() {
    of_stage=$1
    shift
    echo "== $of_stage" >&2
    since=$(date +%s)
    # In a shell of its own, so that a stage that hangs can be ended with all it started.
    if prepare "$of_stage" >&2 && timeout -k 10 "$(limit_of "$of_stage")" "$@" >"$logs/$of_stage.out" 2>"$logs/$of_stage.log"; then
        tail -n 4 "$logs/$of_stage.log" >&2
    else
        echo "== $of_stage failed ($?)" >&2
        tail -n 20 "$logs/$of_stage.out" "$logs/$of_stage.log" >&2
        failed=1
    fi
    echo "$*" >"$logs/$of_stage.command"
    echo $(($(date +%s) - since)) >"$logs/$of_stage.seconds"
    record
}

train() {
    "$kit/gular-train" train encoded --epochs 3 --size 64 --batch-size 128 --dropout 0 --lr 0.003 --json "$@"
}

# A run on each device; then one on the GPU that is stopped in its midst and resumed, and one in
# mixed precision, of which the end alone is compared. The first losses of each are nearly those of the processor, and the last ones near them; cuDNN
# would round the factors of its products to 10 bits (TF32) unless told otherwise.
train_all() {
    export NVIDIA_TF32_OVERRIDE=0
    rm -rf cpu gpu resumed bf16
    device=${DEVICE:-cuda}
    train --device cpu --torch-threads "$(nproc)" --checkpoint-dir cpu --metrics cpu >cpu.json || return
    train --device "$device" --checkpoint-dir gpu --metrics gpu >gpu.json || return
    train --device "$device" --checkpoint-dir resumed --metrics resumed --stop-after-steps 101 >resumed.json
    [ $? -eq 85 ] || return 1
    train --device "$device" --checkpoint-dir resumed --metrics resumed >resumed.json || return
    train --device "$device" --precision bf16 --checkpoint-dir bf16 --metrics bf16 >bf16.json || return
    "$python" - cpu gpu resumed bf16 <<'END'
import json, pathlib, sys
keys = ("device", "steps", "loss_first", "loss_last", "resumed_at_step", "weights", "images_per_second")
def losses(name):
    lines = map(json.loads, (pathlib.Path(name) / "metrics.jsonl").read_text().splitlines())
    return [line["loss"] for line in lines if "loss" in line][:20]
runs = {}
for name in sys.argv[1:]:
    report = json.loads(pathlib.Path(name + ".json").read_text())
    runs[name] = {key: report[key] for key in keys} | {"first_losses": losses(name)}
print(json.dumps(runs))
bad = []
for name in ("gpu", "resumed", "bf16"):
    ours, cpu = runs[name], runs["cpu"]
    pairs = zip(ours["first_losses"], cpu["first_losses"], strict=True)
    far = [(step, a, b) for step, (a, b) in enumerate(pairs) if abs(a - b) > 1e-3 * b]
    if far and name != "bf16":
        bad.append(f"step {far[0][0]} of {name}: loss {far[0][1]}, on the processor {far[0][2]}")
    if abs(ours["loss_last"] - cpu["loss_last"]) > 0.1 * cpu["loss_last"]:
        bad.append(f"cpu ends at {cpu['loss_last']}, {name} at {ours['loss_last']}")
if len(runs["cpu"]["first_losses"]) < 20:
    bad.append("fewer than 20 losses were recorded")
sys.exit("; ".join(bad) or 0)
END
}

sanitizer() {
    PATH=$PATH:/usr/local/cuda/bin
    command -v compute-sanitizer >/dev/null || { echo "compute-sanitizer is missing"; return 1; }
    compute-sanitizer "$@"
}

# Kernels and copies under memcheck; it says nothing of the order of streams, which `gpu
# check` looks at.
sanitize() {
    sanitizer --version >/dev/null 2>&1 || { echo "skipped: compute-sanitizer is missing"; return 0; }
    sanitizer --tool memcheck --report-api-errors no --error-exitcode 9 "$kit/gpu" sanitize small
}

# What all stages up to now said, in one file.
record() {
    "$python" - "$logs" "$out" $all <<'END'
import datetime, json, os, pathlib, platform, subprocess, sys
logs, out = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
query = "nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader 2>&1"
record = {
    "bench": "gpu",
    "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"),
    "nvidia_smi": subprocess.run(query, shell=True, capture_output=True, text=True).stdout.strip(),
    "kernel": platform.release(),
    "cores": len(os.sched_getaffinity(0)),
    "python_version": platform.python_version(),
}
for name in sys.argv[3:]:
    path = logs / f"{name}.out"
    if not path.exists():
        continue
    text = path.read_text()
    try:
        found = json.loads(text)
    except ValueError:
        found = text.splitlines()
    of = lambda what: (logs / f"{name}.{what}").read_text().strip() if (logs / f"{name}.{what}").exists() else None
    record[name] = {"command": of("command"), "seconds": int(of("seconds") or 0), "found": found}
(out / "record.json").write_text(json.dumps(record, indent=1) + "\n")
END
    tar -cf "$out/logs.tar" -C "$logs" .
}

case $1 in
--dry-run) look; exit ;;
esac
mkdir -p "$1" && out=$(cd "$1" && pwd)
shift
[ -n "$libraries" ] || {
    echo "error: $python has no torch; this needs PyTorch 2.11 for CUDA" >&2
    exit 2
}
mkdir -p "$logs"
cd "$work" || exit 1

# A stage that is one of the above is this file again, for `timeout` to start.
case ${1-} in
--function) "$2"; exit ;;
esac
[ $# -gt 0 ] || set -- $all
for name in "$@"; do
    limit_of "$name" >/dev/null || { echo "error: no stage \`$name\`; there are: $all" >&2; exit 2; }
done

for name in "$@"; do
    # shellcheck disable=SC2086 # switches are words
    case $name in
    check) stage check "$kit/gpu" check few-encoded few-raw ${SWITCHES-} ;;
    python) stage python "$python" "$kit/python_check.py" few-encoded few-raw ;;
    copies) stage copies "$kit/gpu" copies ${SWITCHES-} ;;
    images) stage images "$kit/gpu" images raw reencoded encoded ${SWITCHES-} ;;
    steps) stage steps "$kit/gpu" steps raw reencoded encoded ${SWITCHES-} ;;
    train) stage train sh "$kit/run.sh" "$out" --function train_all ;;
    peers) stage peers "$python" "$kit/peers.py" files/train encoded ;;
    sanitize) stage sanitize sh "$kit/run.sh" "$out" --function sanitize ;;
    esac
done
exit $failed
