#!/bin/sh
# Everything that only a machine with a GPU can show, from the folder this file is in.
#
#   sh run.sh OUT [STAGE...]     stages: check bench train peers; all without one
#
# Needs a driver, PyTorch 2.11 for CUDA in `python3`, about 8 GB of disk in TMPDIR and ten
# minutes. OUT gets a log a stage and record.json; exit code 1 when a stage failed.
set -u
[ $# -gt 0 ] || { sed -n '2,8p' "$0"; exit 2; }
kit=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1" && out=$(cd "$1" && pwd)
shift
[ $# -gt 0 ] || set -- check bench train peers
work=${TMPDIR:-/tmp}/gular-gpu
copies=${COPIES:-24}
failed=0

libraries=$(python3 -c 'import torch; print(torch.__path__[0] + "/lib")') || {
    echo "error: python3 has no torch; this needs PyTorch 2.11 for CUDA" >&2
    exit 2
}
export LD_LIBRARY_PATH="$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"

# Each image many times under other names: epochs of many batches from few files.
if [ ! -e "$work/ready" ]; then
    rm -rf "$work" && mkdir -p "$work/many/train"
    i=0
    while [ $i -lt "$copies" ]; do
        for class in "$kit"/images/*/; do
            class=$(basename "$class")
            mkdir -p "$work/many/train/$class"
            for file in "$kit/images/$class"/*; do
                ln -s "$file" "$work/many/train/$class/$i-$(basename "$file")"
            done
        done
        i=$((i + 1))
    done
    cp -rL "$work/many" "$work/files" && rm -rf "$work/many"
    (
        cd "$work" || exit 1
        "$kit/gular" pack files encoded --quiet &&
            "$kit/gular" pack files reencoded --quiet --payload reencoded --max-side 288 &&
            "$kit/gular" pack files raw --quiet --payload raw --size 256 &&
            "$kit/gular" pack "$kit/images" small --quiet --layout class --split train=0.8,val=0.2
    ) || exit 1
    touch "$work/ready"
fi
cd "$work" || exit 1

# stage NAME COMMAND...: runs it, keeps what it says, and goes on when it fails.
stage() {
    name=$1
    shift
    echo "== $name" >&2
    if "$@" >"$out/$name.out" 2>"$out/$name.log"; then
        tail -n 4 "$out/$name.log" >&2
    else
        echo "== $name failed ($?)" >&2
        tail -n 20 "$out/$name.out" "$out/$name.log" >&2
        failed=1
    fi
}

train() {
    "$kit/gular-train" small --epochs 4 --size 96 --checkpoint-every 7 --json "$@"
}

# A run on each device; then one on the GPU that is killed in its midst and resumed.
train_all() {
    rm -rf cpu gpu killed
    train --device cpu --checkpoint-dir cpu --metrics cpu >cpu.json || return
    train --device cuda --checkpoint-dir gpu --metrics gpu >gpu.json || return
    train --device cuda --checkpoint-dir killed --metrics killed --stop-after-steps 11 >killed.json
    [ $? -eq 85 ] || return 1
    train --device cuda --checkpoint-dir killed --metrics killed >killed.json || return
    python3 - cpu.json gpu.json killed.json <<'END'
import json, sys
runs = [json.load(open(name)) for name in sys.argv[1:]]
keys = ("device", "steps", "loss_first", "loss_last", "val_loss", "val_accuracy", "resumed_at_step", "weights", "images_per_second")
print(json.dumps({name[:-5]: {key: run[key] for key in keys} for name, run in zip(sys.argv[1:], runs)}))
cpu, gpu, killed = runs
bad = [f"{a} against {b}" for a, b in ((cpu, gpu), (gpu, killed))
       if abs(a["loss_last"] - b["loss_last"]) > 0.05 * abs(a["loss_last"]) + 0.02]
sys.exit("losses differ: " + "; ".join(bad) if bad else 0)
END
}

sanitise() {
    command -v compute-sanitizer >/dev/null || { echo "compute-sanitizer is missing"; return 0; }
    # One bundle; every access of every kernel is looked at, which is slow.
    compute-sanitizer --tool memcheck --error-exitcode 9 "$kit/gpu" check small
}

for name in "$@"; do
    case $name in
    check)
        stage check "$kit/gpu" check encoded raw
        stage sanitizer sanitise
        ;;
    bench) stage bench "$kit/gpu" bench raw reencoded encoded ;;
    train) stage train train_all ;;
    peers) stage peers python3 "$kit/peers.py" files/train ;;
    *) echo "error: no stage \`$name\`; there are check, bench, train, peers" >&2; exit 2 ;;
    esac
done

python3 - "$out" <<'END'
import datetime, json, pathlib, platform, subprocess, sys
out = pathlib.Path(sys.argv[1])
query = "nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader 2>&1"
record = {
    "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"),
    "nvidia_smi": subprocess.run(query, shell=True, capture_output=True, text=True).stdout.strip(),
    "kernel": platform.release(),
}
for name in ("check", "sanitizer", "bench", "train", "peers"):
    path = out / f"{name}.out"
    if path.exists():
        text = path.read_text()
        try:
            record[name] = json.loads(text)
        except ValueError:
            record[name] = text.splitlines()
(out / "record.json").write_text(json.dumps(record, indent=1) + "\n")
END
exit $failed
