#!/bin/sh
# Everything that only a machine with a GPU can show, from the folder this file is in.
#
#   sh run.sh OUT [STAGE...]     stages: check sanitize bench train peers; all without one
#
# Needs a driver, PyTorch 2.11 for CUDA in `python3`, about 8 GB of disk in TMPDIR, and some
# twenty minutes; `check` alone takes under three. OUT gets record.json, after each stage, and
# logs.tar; exit code 1 when a stage failed. SAMPLES=N packs the images so often that there are
# about N; 12000 without. `check` and `sanitize` take 2000 of them and fewer.
set -u
[ $# -gt 0 ] || { sed -n '2,9p' "$0"; exit 2; }
kit=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1" && out=$(cd "$1" && pwd)
shift
[ $# -gt 0 ] || set -- check sanitize bench train peers
work=${TMPDIR:-/tmp}/gular-gpu
logs=$work/logs
samples=${SAMPLES:-12000}
few=2000
failed=0
# Ours reads it, PyTorch's workers do not.
unset OMP_NUM_THREADS

libraries=$(python3 -c 'import torch; print(torch.__path__[0] + "/lib")') || {
    echo "error: python3 has no torch; this needs PyTorch 2.11 for CUDA" >&2
    exit 2
}
export LD_LIBRARY_PATH="$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"

# Each image many times under other names: epochs of many batches from few files.
if [ ! -e "$work/ready" ]; then
    rm -rf "$work" && mkdir -p "$work/files/train" "$work/few/train" || exit 1
    python3 - "$kit/images" "$work/files/train" "$samples" "$work/few/train" "$few" <<'END' || exit 1
import pathlib, shutil, sys
images = pathlib.Path(sys.argv[1])
files = sorted(path for path in images.glob("*/*") if path.is_file())
for to, samples in zip(sys.argv[2::2], sys.argv[3::2]):
    for copy in range(max(1, int(samples) // len(files))):
        for path in files:
            folder = pathlib.Path(to) / path.parent.name
            folder.mkdir(exist_ok=True)
            shutil.copyfile(path, folder / f"{copy}-{path.name}")
END
    (
        cd "$work" || exit 1
        "$kit/gular" pack files encoded --quiet &&
            "$kit/gular" pack files reencoded --quiet --payload reencoded --max-side 288 &&
            "$kit/gular" pack files raw --quiet --payload raw --size 256 &&
            "$kit/gular" pack few few-encoded --quiet &&
            "$kit/gular" pack few few-raw --quiet --payload raw --size 256 &&
            "$kit/gular" pack "$kit/images" small --quiet --layout class --fractions train=0.8,val=0.2
    ) || exit 1
    touch "$work/ready"
fi
mkdir -p "$logs"
cd "$work" || exit 1

# stage NAME SECONDS COMMAND...: runs it, keeps what it says, and goes on when it fails.
stage() {
    name=$1 limit=$2
    shift 2
    echo "== $name" >&2
    # In a shell of its own, so that a stage that hangs can be ended with all it started.
    if timeout -k 10 "$limit" "$@" >"$logs/$name.out" 2>"$logs/$name.log"; then
        tail -n 4 "$logs/$name.log" >&2
    else
        echo "== $name failed ($?)" >&2
        tail -n 20 "$logs/$name.out" "$logs/$name.log" >&2
        failed=1
    fi
    record
}

train() {
    "$kit/gular-train" train encoded --epochs 3 --size 64 --batch-size 128 --dropout 0 --lr 0.003 --json "$@"
}

# A run on each device; then one on the GPU that is stopped in its midst and resumed. The
# first losses of each are nearly those of the processor, and the last ones near them; cuDNN
# would round the factors of its products to 10 bits (TF32) unless told otherwise.
train_all() {
    export NVIDIA_TF32_OVERRIDE=0
    rm -rf cpu gpu resumed
    train --device cpu --torch-threads "$(nproc)" --checkpoint-dir cpu --metrics cpu >cpu.json || return
    train --device cuda --checkpoint-dir gpu --metrics gpu >gpu.json || return
    train --device cuda --checkpoint-dir resumed --metrics resumed --stop-after-steps 101 >resumed.json
    [ $? -eq 85 ] || return 1
    train --device cuda --checkpoint-dir resumed --metrics resumed >resumed.json || return
    python3 - cpu gpu resumed <<'END'
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
for name in ("gpu", "resumed"):
    ours, cpu = runs[name], runs["cpu"]
    pairs = zip(ours["first_losses"], cpu["first_losses"], strict=True)
    far = [(step, a, b) for step, (a, b) in enumerate(pairs) if abs(a - b) > 1e-3 * b]
    if far:
        bad.append(f"step {far[0][0]} of {name}: loss {far[0][1]}, on the processor {far[0][2]}")
    if abs(ours["loss_last"] - cpu["loss_last"]) > 0.1 * cpu["loss_last"]:
        bad.append(f"cpu ends at {cpu['loss_last']}, {name} at {ours['loss_last']}")
if len(runs["cpu"]["first_losses"]) < 20:
    bad.append("fewer than 20 losses were recorded")
sys.exit("; ".join(bad))
END
}

# Kernels and copies under memcheck; it says nothing of the order of streams, which `gpu
# check` looks at.
sanitize() {
    PATH=$PATH:/usr/local/cuda/bin
    command -v compute-sanitizer >/dev/null || { echo "compute-sanitizer is missing"; return 1; }
    compute-sanitizer --tool memcheck --report-api-errors no --error-exitcode 9 "$kit/gpu" sanitize small
}

# What all stages up to now said, in one file.
record() {
    python3 - "$logs" "$out" <<'END'
import datetime, json, pathlib, platform, subprocess, sys
logs, out = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
query = "nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader 2>&1"
record = {
    "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"),
    "nvidia_smi": subprocess.run(query, shell=True, capture_output=True, text=True).stdout.strip(),
    "kernel": platform.release(),
}
for name in ("check", "sanitize", "bench", "train", "peers"):
    path = logs / f"{name}.out"
    if path.exists():
        text = path.read_text()
        try:
            record[name] = json.loads(text)
        except ValueError:
            record[name] = text.splitlines()
(out / "record.json").write_text(json.dumps(record, indent=1) + "\n")
END
    tar -cf "$out/logs.tar" -C "$logs" .
}

# A stage that is one of the above is this file again, for `timeout` to start.
case ${1-} in
--function) "$2"; exit ;;
esac

for name in "$@"; do
    case $name in
    check) stage check 420 "$kit/gpu" check few-encoded few-raw ;;
    sanitize) stage sanitize 420 sh "$kit/run.sh" "$out" --function sanitize ;;
    bench) stage bench 420 "$kit/gpu" bench raw reencoded encoded ;;
    train) stage train 300 sh "$kit/run.sh" "$out" --function train_all ;;
    peers) stage peers 420 python3 "$kit/peers.py" files/train ;;
    *) echo "error: no stage \`$name\`; there are check, sanitize, bench, train, peers" >&2; exit 2 ;;
    esac
done
exit $failed
