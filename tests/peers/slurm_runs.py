"""A real Slurm runs what `gular job new` writes: arrays, ranks, checkpoints with a requeue, training runs."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import time

from _shared import GULAR, check, finish, gular, make_images, run, skip

missing = [tool for tool in ("slurmctld", "slurmd", "sbatch", "munged") if not shutil.which(tool)]
if missing:
    skip("slurm_runs", missing[0], "apt-get install slurm-wlm munge")
    sys.exit(0)
if os.geteuid() != 0:
    skip("slurm_runs", "root", "run as root")
    sys.exit(0)

LOCAL = pathlib.Path(__file__).parent / "slurm/local.sh"
HERE = pathlib.Path.cwd()
WAIT_SECONDS = 120


def new(name, *options, command):
    """A folder as a user makes it, checked as a user checks it."""
    options = options if "--memory" in options else ("--memory", "100MB", *options)
    run(GULAR, "job", "new", name, "--site", "slurm", "--time", "10min", *options, "--", *command)
    scripts = sorted(path.name for path in pathlib.Path(name).glob("*.sbatch"))
    lint = subprocess.run([GULAR, "job", "lint", "--strict", *scripts], cwd=name, capture_output=True, text=True)
    check(f"{name} has no trap", lint.returncode == 0, lint.stdout + lint.stderr)
    test = subprocess.run(["sbatch", "--test-only", f"{name}.sbatch"], cwd=name, capture_output=True, text=True)
    check(f"{name} is accepted by sbatch", test.returncode == 0, test.stderr)
    return HERE / name


def submit(folder):
    return run("sbatch", "--parsable", f"{folder.name}.sbatch", cwd=folder).strip()


def wait(job):
    for _ in range(WAIT_SECONDS * 4):
        if not run("squeue", "-h", "-j", job).strip():
            return
        time.sleep(0.25)
    raise AssertionError(f"job {job} did not end: {run('scontrol', 'show', 'job', job)}")


def logs(folder):
    return "".join(path.read_text() for path in sorted((folder / "logs").iterdir()))


def options():
    """sbatch and `gular job lint` judge the same lines alike, on a cluster that has room for all of them."""
    lines = [line for line in (LOCAL.parent / "options.txt").read_text().splitlines() if not line.startswith("# ")]
    folder = HERE / "options"
    folder.mkdir()
    scripts = [f"{number}.sbatch" for number in range(len(lines))]
    for script, line in zip(scripts, lines):
        (folder / script).write_text(f"#!/bin/sh\n#SBATCH {line}\ntrue\n")
    lint = subprocess.run([GULAR, "job", "lint", "--json", *scripts], cwd=folder, capture_output=True, text=True)
    errors, doubts = set(), set()
    for finding in json.loads(lint.stdout)["findings"]:
        if finding["severity"] == "error":
            errors.add(finding["file"])
        elif finding["rule"] in ("sbatch-option", "bad-value"):
            # A plug-in of the site, or the command line, may make it right.
            doubts.add(finding["file"])
    room = HERE / "room"
    wrong = []
    try:
        conf = subprocess.run([LOCAL, "up", room, "4", "64", "8", "2000000"], env={**os.environ, "SLURM_PORT_BASE": "17700"}, capture_output=True, text=True, check=True).stdout.strip()
        for script, line in zip(scripts, lines):
            said = subprocess.run(["sbatch", "--hold", script], cwd=folder, env={**os.environ, "SLURM_CONF": conf}, capture_output=True, text=True)
            if said.returncode and script not in errors | doubts:
                wrong.append(f"{line}: not found: {said.stderr.strip()}")
            elif not said.returncode and script in errors:
                wrong.append(f"{line}: sbatch takes it")
    finally:
        subprocess.run([LOCAL, "down", room])
    check(f"{len(lines)} lines of options are judged as sbatch judges them", not wrong and len(errors) > 100, "\n".join(wrong))


def array():
    pathlib.Path("part.sh").write_text('#!/bin/sh\necho "$1 $2" > output/part\n')
    folder = new("array", "--sweep", "lr=1e-3,3e-4", "--sweep", "seed=1..2", command=["sh", "part.sh", "{lr}", "{seed}"])
    wait(submit(folder))
    parts = sorted(path.read_text() for path in (folder / "output").glob("*/output/part"))
    check("an array has each combination once", parts == ["1e-3 1\n", "1e-3 2\n", "3e-4 1\n", "3e-4 2\n"], f"{parts} {logs(folder)}")


def ranks():
    script = '#!/bin/sh\necho "$RANK $WORLD_SIZE $LOCAL_RANK $SLURM_CPUS_PER_TASK $MASTER_ADDR" > "output/$SLURM_PROCID"\n'
    pathlib.Path("train.sh").write_text(script)
    folder = new("ranks", "--nodes", "2", "--tasks", "2", "--gpus", "2", command=["sh", "train.sh"])
    wait(submit(folder))
    said = sorted(path.read_text() for path in (folder / "output").glob("*/output/*"))
    expected = [f"{rank} 4 {rank % 2} 1 n1\n" for rank in range(4)]
    check("ranks know each other and where they meet", said == expected, f"{said} {logs(folder)}")


def ensemble():
    """Evaluations, the choice and the merge wait for their jobs; a job that failed is submitted again alone."""
    pathlib.Path("step.sh").write_text('#!/bin/sh\n[ "$1" = 2 ] && [ ! -e ../../mended ] && exit 3\necho "$1" > output/part\n')
    pathlib.Path("score.sh").write_text('#!/bin/sh\necho "of $2"\necho "{\\"score\\": $(cat "$1")}"\n')
    pathlib.Path("join.sh").write_text('#!/bin/sh\ncat "$@" > output/all\n')
    stages = ["--evaluate", "sh score.sh {trained}/part {n}", "--select", "max:score", "--merge-command", "sh join.sh {each}/part"]
    folder = new("ensemble", "--sweep", "n=1..3", *stages, command=["sh", "step.sh", "{n}"])

    def start(*words):
        return dict(line.split() for line in run("sh", "submit.sh", *words, cwd=folder).splitlines())

    first = start()
    wait(first["jobs"])
    result = folder / "results/evaluate2.json"
    for _ in range(WAIT_SECONDS * 4):
        left = run("squeue", "-h", "-j", f"{first['evaluations']},{first['merge']}", "-o", "%r").split()
        if result.exists() and left and set(left) == {"DependencyNeverSatisfied"}:
            break
        time.sleep(0.25)
    made = sorted(path.name for path in (folder / "results").iterdir())
    check("an evaluation waits for its own job alone", made == ["evaluate0.json", "evaluate2.json"], f"{made} {left} {logs(folder)}")
    (folder / "mended").write_text("")
    run("scancel", first["evaluations"], first["select"], first["merge"])
    again = start("2")
    wait(again["select"])
    wait(again["merge"])
    table = (folder / "results/selected.csv").read_text()
    check("the best is chosen", table == "job,n,score\njob2,3,3.0\njob1,2,2.0\njob0,1,1.0\n", f"{table} {logs(folder)}")
    check("the best is kept", (folder / "results/best/part").read_text() == "3\n")
    check("all are merged in order", (folder / "output/merge/output/all").read_text() == "1\n2\n3\n", logs(folder))
    # The result of an earlier run would be taken for its own.
    (folder / "score.sh").write_text("#!/bin/sh\necho why\nexit 3\n")
    wait(run("sbatch", "--parsable", "--array=1", "evaluate.sbatch", cwd=folder).strip())
    made = sorted(path.name for path in (folder / "results").glob("evaluate*"))
    check("an evaluation that fails has no result", made == ["evaluate1.json", "evaluate2.json"], f"{made} {logs(folder)}")


def checkpoint():
    """The program saves when it is told to stop, and goes on after the requeue."""
    script = """#!/bin/sh
trap 'echo saved > ckpt/state; exit 85' TERM
if [ -e ckpt/state ]; then echo "$SLURM_RESTART_COUNT" > output/done; exit 0; fi
echo started > output/started
while :; do sleep 0.1; done
"""
    pathlib.Path("train.sh").write_text(script)
    folder = new("saves", "--checkpoint", "ckpt", command=["sh", "train.sh"])
    job = submit(folder)
    for _ in range(WAIT_SECONDS * 4):
        if list((folder / "output").glob("*/output/started")):
            break
        time.sleep(0.25)
    # As `--signal=TERM@300` does at the end of the job: to the step, not to the script.
    run("scancel", "-s", "TERM", job)
    wait(job)
    done = [path.read_text() for path in (folder / "output").glob("*/output/done")]
    check("a job that saved goes on after its requeue", done == ["1\n"], f"{done} {logs(folder)}")


def ranks_save():
    """A process that saved at once does not end the one that takes longer: both go on where they were."""
    script = """#!/bin/sh
own="ckpt/$SLURM_PROCID"
trap 'sleep "$SLURM_PROCID"; echo saved > "$own"; exit 85' TERM
if [ -e "$own" ]; then cp "$own" "output/done$SLURM_PROCID"; exit 0; fi
touch "output/started$SLURM_PROCID"
while :; do sleep 0.1; done
"""
    pathlib.Path("save.sh").write_text(script)
    folder = new("both", "--tasks", "2", "--checkpoint", "ckpt", command=["sh", "save.sh"])
    job = submit(folder)
    for _ in range(WAIT_SECONDS * 4):
        if len(list((folder / "output").glob("*/output/started*"))) == 2:
            break
        time.sleep(0.25)
    run("scancel", "-s", "TERM", job)
    wait(job)
    done = sorted(path.name for path in (folder / "output").glob("*/output/done*"))
    check("processes that save wait for each other", done == ["done0", "done1"], f"{done} {logs(folder)}")


# Small, and the same bits wherever it runs. A whole training takes seconds.
TRAIN = [os.environ.get("GULAR_TRAIN_BIN", ""), "train", HERE / "bundle", "--size", "24", "--device", "cpu", "--torch-threads", "1", "--jobs", "1",
         "--log-every", "0"]


def training_resumes():
    """Told to stop, a training saves, is requeued, and ends with the bits of one that nobody stopped."""
    options = ["--epochs", "60", "--batch-size", "8", "--checkpoint-every", "20"]
    run(*TRAIN, *options, "--checkpoint-dir", "calm")
    folder = new("resumes", "--memory", "500MB", "--checkpoint", "ckpt", command=[*map(str, TRAIN), *options, "--checkpoint-dir", "ckpt"])
    job = submit(folder)
    for _ in range(WAIT_SECONDS * 4):
        if list((folder / "output").glob("*/ckpt/step-*")):
            break
        time.sleep(0.25)
    run("scancel", "-s", "TERM", job)
    wait(job)
    weights = [path.read_bytes() for path in (folder / "output").glob("*/ckpt/weights.safetensors")]
    check("a requeued training ends with the same bits", weights == [pathlib.Path("calm/weights.safetensors").read_bytes()], logs(folder)[-2000:])
    check("it was stopped on the way", "resum" in logs(folder), logs(folder)[-2000:])


def fewer_ranks():
    """Begun by four processes on two nodes, a training goes on with two; each sample comes once per epoch."""
    # Here no name server knows the nodes.
    pathlib.Path("train.sh").write_text('#!/bin/sh\nMASTER_ADDR=127.0.0.1 exec "$@"\n')
    shared = str(HERE / "shared")
    train = ["sh", "train.sh", *map(str, TRAIN), "--epochs", "3", "--checkpoint-dir", shared]
    four = new("four", "--memory", "900MB", "--nodes", "2", "--tasks", "2", command=[*train, "--batch-size", "2", "--stop-after-steps", "8"])
    wait(submit(four))
    two = new("two", "--memory", "900MB", "--tasks", "2", command=[*train, "--batch-size", "4"])
    wait(submit(two))
    said = [logs(four), logs(two)]
    # 48 samples, 8 to a step: stopped after step 2 of the second epoch.
    once = [[f"epoch {epoch}: 48 samples, each once" in text for epoch in (1, 2, 3)] for text in said]
    check("four ranks become two, each sample once per epoch", once == [[True, False, False], [False, True, True]], said)
    check("the second job has two ranks", "began with `--world-size 4`, and now it is 2" in said[1], said[1])


def packs():
    """Two jobs of an array pack a part each, and the one that waits for them makes the bundle of one machine."""
    run(GULAR, "pack", "images", "one", "--shard-size", "1MiB")
    options = ["--parts", "2", "--site", "slurm", "--cpus", "1", "--memory", "100MB", "--time", "10min"]
    run(GULAR, "job", "pack", "pack2", "images", "packed", *options, "--", "--shard-size", "1MiB")
    folder = HERE / "pack2"
    for name in ("pack2.sbatch", "merge.sbatch"):
        lint = subprocess.run([GULAR, "job", "lint", "--strict", name], cwd=folder, capture_output=True, text=True)
        check(f"{name} has no trap", lint.returncode == 0, lint.stdout + lint.stderr)
    # Part 2 fails at first: a file is in its way. Then what the README says.
    (HERE / "packed").mkdir()
    (HERE / "packed/part-2").write_text("")
    parts = submit(folder)
    waits = run("sbatch", "--parsable", f"--dependency=afterok:{parts}", "merge.sbatch", cwd=folder).strip()
    wait(parts)
    for _ in range(WAIT_SECONDS * 4):
        why = run("squeue", "-h", "-j", waits, "-o", "%r").strip()
        if why == "DependencyNeverSatisfied":
            break
        time.sleep(0.25)
    check("the merge of a part that failed never starts", why == "DependencyNeverSatisfied", f"{why} {logs(folder)}")
    (HERE / "packed/part-2").unlink()
    run("scancel", waits)
    parts = run("sbatch", "--parsable", "--array=2", "pack2.sbatch", cwd=folder).strip()
    wait(run("sbatch", "--parsable", f"--dependency=afterok:{parts}", "merge.sbatch", cwd=folder).strip())
    bundles = [{str(path.relative_to(bundle)): path.read_bytes() for path in bundle.rglob("*") if path.is_file()} for bundle in (HERE / "one", HERE / "packed/bundle")]
    check("two jobs pack the bundle of one machine", bundles[0] == bundles[1] and len(bundles[0]) > 4, f"{[sorted(bundle) for bundle in bundles]} {logs(folder)}")


def lists_of_nodes():
    lists = ["n[1-3]", "jwb[0021-0023,0045]", "a,b[08-11]", "r[1-2]n[01-02]", "jrc0850", "n[9-11]", "p[001-003]q[7,9]",
             "n[1,3,5-6]", "gpu-a100-[1-2]", "n[098-101]", "a1,a2,b[3]", "a[1-3],b,c[10-12,20]", "x[0-9]"]
    for text in lists:
        ours = json.loads(run(GULAR, "job", "hosts", text, "--json"))["nodes"]
        theirs = run("scontrol", "show", "hostnames", text).split()
        check(f"{text} is unfolded alike", ours == theirs, f"{ours} {theirs}")
    # Three brackets: Slurm varies the middle one last; the nodes are the same.
    text = "n[1-2]x[3-4]y[5,7]"
    ours = json.loads(run(GULAR, "job", "hosts", text, "--json"))["nodes"]
    theirs = run("scontrol", "show", "hostnames", text).split()
    check(f"{text} has the same nodes", (ours[0], sorted(ours)) == (theirs[0], sorted(theirs)), f"{ours} {theirs}")


def what_lint_says_of_options():
    """sbatch refuses what lint calls an error; of what it accepts, or a plug-in may accept, lint warns."""
    pathlib.Path("bad").mkdir()
    error, warning = "error", "warning"
    cases = {
        "misspelt-option": ("#!/bin/bash\n#SBATCH --ntaks=5\ntrue\n", False, error),
        "unknown-option": ("#!/bin/bash\n#SBATCH --frobnicate=5\ntrue\n", False, warning),
        "bad-size": ("#!/bin/bash\n#SBATCH --mem=lots\ntrue\n", False, error),
        "bad-time": ("#!/bin/bash\n#SBATCH --time=5x\ntrue\n", False, error),
        "devices": ("#!/bin/bash\n#SBATCH --gres=gpu=2\ntrue\n", False, error),
        "array": ("#!/bin/bash\n#SBATCH --array=1..4\ntrue $SLURM_ARRAY_TASK_ID\n", False, error),
        "no-shebang": ("#SBATCH --time=5\ntrue\n", False, error),
        "comment": ("#!/bin/bash\n# SBATCH --tmie=5\ntrue\n", True, warning),
        "late": ("#!/bin/bash\ntrue\n#SBATCH --tmie=5\n", True, warning),  # which sbatch does not read
    }
    for name, (text, accepted, severity) in cases.items():
        path = pathlib.Path("bad") / f"{name}.sbatch"
        path.write_text(text)
        found = subprocess.run(["sbatch", "--test-only", str(path)], capture_output=True, text=True)
        lint = subprocess.run([GULAR, "job", "lint", str(path)], capture_output=True, text=True)
        said = (found.returncode == 0, lint.returncode, f": {severity}[" in lint.stdout)
        expected = (accepted, int(severity == error), True)
        check(f"lint and sbatch on {name}", said == expected, f"{said} {found.stderr} {lint.stdout}")
    # Quotes join words, and a `#` outside of them begins a comment, also within a word.
    path = pathlib.Path("bad/words.sbatch")
    path.write_text("#!/bin/bash\n#SBATCH --job-name='a b' --comment=\"x # y\" -n1#--tmie=5\n#SBATCH --time=5\t#set --tmie=5\ntrue\n")
    found = subprocess.run(["sbatch", "--test-only", str(path)], capture_output=True, text=True)
    lint = subprocess.run([GULAR, "job", "lint", "--strict", str(path)], capture_output=True, text=True)
    check("lint parts words as sbatch does", (found.returncode, lint.returncode) == (0, 0), f"{found.stderr} {lint.stdout}")


def translates():
    """A submit file of HTCondor, translated, leaves the files that HTCondor would bring back."""
    folder = HERE / "translated"
    for name in ["logs", "data"]:
        (folder / name).mkdir(parents=True)
    (folder / "data/words.csv").write_text("w\n")
    (folder / "items.txt").write_text("1e-3, 7\n3e-4, 8\n")
    (folder / "step.sh").write_text('#!/bin/sh\necho "$1 $2 $3 $4 $NAME $(cat words.csv)" > out.txt\nls > seen.txt\n')
    (folder / "step.sub").write_text(
        "executable = step.sh\narguments = \"$(lr) $(seed) $(Process) 'a b'\"\nenvironment = \"NAME='x y'\"\n"
        "request_memory = 100 MB\ntransfer_input_files = data/words.csv\ntransfer_output_files = out.txt\n"
        "transfer_output_remaps = \"out.txt = results/$(Process).txt\"\nallowed_execute_duration = 600\n"
        "output = logs/$(Cluster)_$(Process).out\nerror = logs/$(Cluster)_$(Process).err\nqueue lr, seed from items.txt\n"
    )
    gular("job", "translate", folder / "step.sub")
    wait(run("sbatch", "--parsable", "step.sbatch", cwd=folder).strip())
    found = sorted(path.read_text() for path in folder.glob("results/*.txt"))
    check("a translated submit file runs", found == ["1e-3 7 0 a b x y w\n", "3e-4 8 1 a b x y w\n"], f"{found} {logs(folder)}")
    # Without a list of outputs all new files come back.
    text = (folder / "step.sub").read_text()
    (folder / "all.sub").write_text("\n".join(line for line in text.splitlines() if not line.startswith("transfer_output")).replace("queue lr, seed from items.txt", "queue"). replace("$(lr) $(seed)", "1 2") + "\n")
    gular("job", "translate", folder / "all.sub")
    wait(run("sbatch", "--parsable", "all.sbatch", cwd=folder).strip())
    found = [(folder / name).read_text() if (folder / name).exists() else None for name in ("out.txt", "seen.txt", "words.csv")]
    check("new files come back, and inputs stay", found == ["1 2 0 a b x y w\n", "out.txt\nseen.txt\nstep.sh\nwords.csv\n", None], f"{found} {logs(folder)}")


make_images()
gular("pack", "images", "bundle")
# As a user has it.
os.environ["PATH"] = f"{pathlib.Path(GULAR).parent}:{os.environ['PATH']}"
state = HERE / "slurm"
try:
    os.environ["SLURM_CONF"] = run(LOCAL, "up", state, 2, 2, 2).strip()
    for test in [lists_of_nodes, options, what_lint_says_of_options, translates, array, ensemble, ranks, checkpoint, ranks_save, training_resumes, fewer_ranks, packs]:
        try:
            test()
        except Exception as error:  # whatever a tool says is the finding
            check(test.__name__, False, f"{type(error).__name__}: {error}")
finally:
    subprocess.run([LOCAL, "down", state])
finish()
