"""A starter for tests: runs jobs as HTCondor would, from the ads that HTCondor's own code makes.

    submit file ─ htcondor.Submit ▶ ad ─▶ sandbox: inputs ─▶ run ─▶ outputs by list and remaps
                                              ▲                │ 85: checkpoint files to the spool,
                                              │                │ and again in the same sandbox
                                              └── new: evicted ┘

`Pool.harm` decides what happens to a run: SIGTERM or SIGKILL after some seconds. It is then evicted: whatever it
ends with, nothing is sent (`when_to_transfer_output = ON_EXIT`), and the next run begins in a new sandbox, where
inputs and the last checkpoint in the spool are all there is. `run_dag` walks a DAG file as
DAGMan does: order, VARS, PRE and POST scripts, RETRY, rescue files. Images are not run: jobs start on this machine.
"""

import dataclasses
import os
import pathlib
import random
import shlex
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
import urllib.request
import warnings
from concurrent import futures

os.environ["CONDOR_CONFIG"] = "/dev/null"
warnings.simplefilter("ignore")
import classad  # noqa: E402
import htcondor  # noqa: E402

# From SIGTERM to SIGKILL, as `MachineMaxVacateTime` has it, but for programs of tests.
VACATE_SECONDS = 30
RUN_SECONDS = 300
# Held while a program is copied and while one is started: a process that another thread starts meanwhile has the copy
# open for writing until it is a program of its own, and until then nobody can run it (ETXTBSY, `Text file busy`).
COPY_OR_START = threading.Lock()
# What happens to the runs of a job, one after the other: machines are taken from it, or fail.
HARMS = [signal.SIGTERM, signal.SIGKILL]


class Held(Exception):
    """HTCondor puts the job on hold: somebody has to look."""


@dataclasses.dataclass
class Harm:
    """What happens to one run."""

    after_seconds: float
    signal: int
    # Instead of some seconds: when this file is there.
    when: pathlib.Path | None = None
    # So many seconds after a new file of this pattern came, below the sandbox.
    grown: str | None = None


class Pool:
    """A submit folder and the machines behind it."""

    def __init__(self, folder, seed=None, n_harms=0, harm_seconds=(0.3, 2.5), harm_when=None, harm_grown=None, first_cluster=1):
        self.folder = pathlib.Path(folder).resolve()
        self.random = random.Random(seed)
        self.n_harms = n_harms
        self.harm_seconds = harm_seconds
        self.harm_when = harm_when
        self.harm_grown = harm_grown
        self.cluster = first_cluster
        self.lock = threading.Lock()
        # What happened, for tests: (job, what)
        self.events = []

    def say(self, job, what):
        with self.lock:
            self.events.append((job, what))

    def harm(self, n_before, n_saves):
        """The first run is harmed before it saved, the next ones after one more checkpoint each: a job gets on."""
        if n_before >= self.n_harms or n_before > n_saves:
            return None
        with self.lock:
            after = self.random.uniform(*self.harm_seconds)
        return Harm(after, HARMS[n_before % len(HARMS)], self.harm_when, self.harm_grown)

    def ads(self, file, macros=()):
        """The ads of all jobs of a submit file, as condor_submit sends them."""
        with self.lock:  # the bindings look at the working directory
            self.cluster += 1
            before = os.getcwd()
            os.chdir(self.folder)
            try:
                submit = htcondor.Submit(pathlib.Path(file).read_text())
                for name, value in macros:
                    submit[name] = value
                items = submit.itemdata()
                items = list(items) if items is not None else None
                count = {"count": 1, "itemdata": iter(items)} if items else {"count": 0}
                made, base = [], None
                for ad in submit.procs(clusterid=self.cluster, procid=0, qdate=1, owner="me", **count):
                    base = base or dict(ad)
                    made.append(classad.ClassAd({**base, **dict(ad)}))
                return made
            finally:
                os.chdir(before)

    def submit(self, file, macros=(), threads=2):
        """Runs all jobs of a submit file; the exit code of each."""
        ads = self.ads(file, macros)
        with futures.ThreadPoolExecutor(threads) as pool:
            return list(pool.map(self.run, ads))

    def run(self, ad):
        """One job until it leaves the queue; its exit code."""
        job = f"{ad.eval('ClusterId')}.{ad.eval('ProcId')}"
        spool = tempfile.TemporaryDirectory(prefix="spool-")
        sandbox, n_harms, n_saves, completions = None, 0, 0, 0
        while True:
            if sandbox is None:
                sandbox = tempfile.TemporaryDirectory(prefix="dir_")
                with COPY_OR_START:
                    stage(ad, pathlib.Path(sandbox.name), self.folder)
                    shutil.copytree(spool.name, sandbox.name, dirs_exist_ok=True)
            here = pathlib.Path(sandbox.name)
            harm = self.harm(n_harms, n_saves)
            code, harmed = start(ad, here, harm)
            saved = code == ad.eval("SuccessCheckpointExitCode") if "SuccessCheckpointExitCode" in ad else False
            self.say(job, f"ended with {code}" + (f" after {signal.Signals(harm.signal).name}" if harmed else ""))
            if harmed:
                n_harms += 1
                sandbox = None
                continue
            if saved:
                n_saves += 1
                keep_checkpoint(ad, here, pathlib.Path(spool.name))
                continue
            logs(ad, here, self.folder)
            completions += 1
            ad["NumJobCompletions"], ad["ExitBySignal"] = completions, code < 0
            ad["ExitCode" if code >= 0 else "ExitSignal"] = abs(code)
            bring_back(ad, here, self.folder)
            # Jobs without the expression leave the queue when they end.
            if "OnExitRemove" not in ad or ad.eval("OnExitRemove") is True:
                return code
            sandbox = None


def iwd(ad, folder):
    return folder / str(ad.eval("Iwd"))


def listed(ad, name):
    return [item.strip() for item in str(ad.eval(name)).split(",") if item.strip()] if name in ad else []


def stage(ad, sandbox, folder):
    """Puts the executable and the inputs into the sandbox."""
    program = pathlib.Path(str(ad.eval("Cmd")))
    shutil.copy(iwd(ad, folder) / program, sandbox / program.name)
    for item in listed(ad, "TransferInput"):
        name = item.rstrip("/").rsplit("/", 1)[-1]
        if "ContainerImage" in ad and name == str(ad.eval("ContainerImage")).rsplit("/", 1)[-1]:
            continue
        if "://" in item:
            plugin(item, sandbox / name)
            continue
        source = iwd(ad, folder) / item
        if not source.exists():
            raise Held(f"`{item}` is not there to be sent")
        if source.is_dir():
            shutil.copytree(source, sandbox if item.endswith("/") else sandbox / name, dirs_exist_ok=True)
        else:
            shutil.copy(source, sandbox / name)


def plugin(url, to):
    """What the file transfer plug-ins do; of a Pelican federation, by its director."""
    parts = urllib.parse.urlsplit(url)
    if parts.scheme == "file":
        shutil.copy(parts.path, to)
        return
    if parts.scheme != "pelican":
        raise Held(f"no plug-in for `{url}`")
    context = ssl.create_default_context(cafile=os.environ.get("SSL_CERT_FILE"))
    asked = urllib.request.Request(f"https://{parts.netloc}/api/v1.0/director/object{parts.path}")
    if token := os.environ.get("BEARER_TOKEN"):
        asked.add_header("Authorization", f"Bearer {token}")  # to the cache, too
    with urllib.request.urlopen(asked, context=context) as answer, open(to, "wb") as file:
        shutil.copyfileobj(answer, file)


def environment(ad, sandbox):
    """What a job sees: nothing of the submit machine's but the program search path."""
    cores = str(ad.eval("RequestCpus"))
    found = {"PATH": os.environ["PATH"], "BATCH_SYSTEM": "HTCondor", "_CONDOR_SCRATCH_DIR": str(sandbox), "_CONDOR_JOB_IWD": str(sandbox),
             "_CONDOR_SLOT": "slot1_1", "_CONDOR_JOB_AD": str(sandbox / ".job.ad"), "_CONDOR_MACHINE_AD": str(sandbox / ".machine.ad"),
             "TMPDIR": str(sandbox)}
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        found[name] = cores
    text = str(ad.eval("Environment")) if "Environment" in ad else ""
    found.update(pair.split("=", 1) for pair in shlex.split(text) if "=" in pair)
    return found


def start(ad, sandbox, harm):
    """One run of the program; its exit code, and whether it was harmed."""
    (sandbox / ".job.ad").write_text("".join(f"{name} = {value!r}\n" for name, value in dict(ad).items()))
    (sandbox / ".machine.ad").write_text(f"Cpus = {ad.eval('RequestCpus')}\n")
    program = sandbox / pathlib.Path(str(ad.eval("Cmd"))).name
    arguments = shlex.split(str(ad.eval("Arguments"))) if "Arguments" in ad else str(ad.eval("Args")).split() if "Args" in ad else []
    with open(sandbox / "_condor_stdout", "ab") as out, open(sandbox / "_condor_stderr", "ab") as err:
        with COPY_OR_START:
            child = subprocess.Popen([program, *arguments], cwd=sandbox, env=environment(ad, sandbox), stdin=subprocess.DEVNULL,
                                     stdout=out, stderr=err, start_new_session=True)
        harmed = False
        try:
            if harm and harm.when:
                while child.poll() is None and not harm.when.exists():
                    time.sleep(0.02)
            if harm and harm.grown:
                before = set(sandbox.glob(harm.grown))
                while child.poll() is None and before.issuperset(sandbox.glob(harm.grown)):
                    time.sleep(0.02)
            child.wait(RUN_SECONDS if not harm else 0 if harm.when else harm.after_seconds)
        except subprocess.TimeoutExpired:
            harmed = True
            if harm and harm.signal == signal.SIGTERM:
                # To the job's first process alone.
                child.send_signal(signal.SIGTERM)
                try:
                    child.wait(VACATE_SECONDS)
                except subprocess.TimeoutExpired:
                    pass
        if child.poll() is None:
            child.kill()
        code = child.wait()
        end(child.pid)
    if harmed and harm is None:
        raise Held(f"the job did not end within {RUN_SECONDS} s")
    return code, harmed


def end(session):
    """Nothing of a job outlives it, in whatever process group it is."""
    while True:
        left = []
        for entry in pathlib.Path("/proc").glob("[0-9]*/stat"):
            try:
                # Behind the name, which is in parentheses: state, parent, group, session.
                state, _, _, of = entry.read_text().rpartition(")")[2].split()[:4]
            except (OSError, ValueError):
                continue
            if int(of) == session and state != "Z":
                left.append(int(entry.parent.name))
        if not left:
            return
        for process in left:
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                pass
        time.sleep(0.01)


def keep_checkpoint(ad, sandbox, spool):
    names = listed(ad, "TransferCheckpoint") or listed(ad, "TransferOutput")
    with tempfile.TemporaryDirectory(prefix="ckpt-") as whole:
        for name in names:
            if not (sandbox / name).exists():
                raise Held(f"`{name}` of the checkpoint is not there")
            copy(sandbox / name, pathlib.Path(whole) / name)
        # All of it or nothing replaces the one before.
        for old in spool.iterdir():
            shutil.rmtree(old) if old.is_dir() else old.unlink()
        shutil.copytree(whole, spool, dirs_exist_ok=True)


def copy(source, to):
    shutil.copytree(source, to, dirs_exist_ok=True) if source.is_dir() else shutil.copy(source, to)


def bring_back(ad, sandbox, folder):
    home = iwd(ad, folder)
    remaps = dict(pair.split("=", 1) for pair in str(ad.eval("TransferOutputRemaps")).split(";")) if "TransferOutputRemaps" in ad else {}
    remaps = {source.strip(): target.strip() for source, target in remaps.items()}
    for name in listed(ad, "TransferOutput"):
        source = sandbox / name
        if not source.exists():
            raise Held(f"the output `{name}` is not there")
        base = pathlib.PurePath(name).name
        copy(source, home / remaps.get(base, base))


def logs(ad, sandbox, folder):
    for attribute, name in (("Out", "_condor_stdout"), ("Err", "_condor_stderr")):
        target = iwd(ad, folder) / str(ad.eval(attribute))
        if not target.parent.is_dir():
            raise Held(f"there is no folder for `{target}`")
        shutil.copy(sandbox / name, target) if str(target) != "/dev/null" else None


@dataclasses.dataclass
class Node:
    """A JOB line and what other lines say of it."""

    file: str
    noop: bool = False
    done: bool = False
    vars: dict = dataclasses.field(default_factory=dict)
    parents: list = dataclasses.field(default_factory=list)
    retries: int = 0
    scripts: dict = dataclasses.field(default_factory=dict)


def read_dag(path):
    """The nodes of a DAG file, with those done that its newest rescue file names."""
    nodes = {}

    def named(name):
        return list(nodes.values()) if name.upper() == "ALL_NODES" else [nodes[name]]

    rescues = sorted(path.parent.glob(path.name + ".rescue[0-9][0-9][0-9]"))
    for file in [path, *rescues[-1:]]:
        for line in file.read_text().splitlines():
            words = shlex.split(line, comments=True)
            match words:
                case []:
                    pass
                case ["JOB", name, submit, *options]:
                    nodes[name] = Node(submit, "NOOP" in options, "DONE" in options)
                case ["DONE", name]:
                    nodes[name].done = True
                case ["VARS", name, *pairs]:
                    for node in named(name):
                        node.vars.update(pair.split("=", 1) for pair in pairs)
                case ["PARENT", *names]:
                    at = names.index("CHILD")
                    for child in names[at + 1 :]:
                        nodes[child].parents += names[:at]
                case ["RETRY", name, n]:
                    for node in named(name):
                        node.retries = int(n)
                case ["SCRIPT", "PRE" | "POST" as when, name, *command]:
                    nodes[name].scripts[when] = command
                case _:
                    raise Held(f"{file.name}: a line that this walker does not know: {line}")
    return nodes, len(rescues)


def run_dag(pool, name, threads=2):
    """Walks a DAG; the names of nodes that failed. Leaves a rescue file where one did."""
    path = pool.folder / name
    nodes, n_rescues = read_dag(path)
    failed, running = set(), {}
    with futures.ThreadPoolExecutor(threads) as executor:
        while True:
            for name_, node in nodes.items():
                ready = all(nodes[parent].done for parent in node.parents)
                if ready and not node.done and name_ not in failed and name_ not in running.values():
                    running[executor.submit(run_node, pool, name_, node)] = name_
            if not running:
                break
            for one in futures.wait(running, return_when=futures.FIRST_COMPLETED).done:
                name_ = running.pop(one)
                if one.result():
                    nodes[name_].done = True
                else:
                    failed.add(name_)
    if failed:
        done = "".join(f"DONE {name_}\n" for name_, node in nodes.items() if node.done)
        (path.parent / f"{path.name}.rescue{n_rescues + 1:03}").write_text(done)
    return failed


def run_node(pool, name, node):
    for attempt in range(node.retries + 1):
        pool.say(name, f"attempt {attempt}")
        if node_once(pool, name, node, attempt):
            return True
    return False


def node_once(pool, name, node, attempt):
    if not script(pool, name, node, "PRE"):
        return False
    well = True
    if not node.noop:
        macros = [*node.vars.items(), ("JOB", name), ("RETRY", str(attempt))]
        try:
            well = all(code == 0 for code in pool.submit(node.file, macros))
        except Held as why:
            pool.say(name, f"held: {why}")
            well = False
    return script(pool, name, node, "POST") if "POST" in node.scripts else well


def script(pool, name, node, when):
    if when not in node.scripts:
        return True
    command = node.scripts[when]
    program = pool.folder / command[0]
    result = subprocess.run([program, *command[1:]], cwd=pool.folder, capture_output=True, text=True)
    pool.say(name, f"{when} script ended with {result.returncode}: {result.stdout}{result.stderr}".strip())
    return result.returncode == 0


def main(name, arguments):
    """condor_submit, condor_submit_dag, condor_wait and condor_watch_q; submitting waits until all is done."""
    if name in ("condor_wait", "condor_watch_q"):
        return 0
    clusters = pathlib.Path(".clusters")
    first = int(clusters.read_text()) if clusters.exists() else 0
    pool = Pool(".", first_cluster=first, n_harms=int(os.environ.get("GULAR_HARMS", "0")))
    try:
        failed = run_dag(pool, arguments[0]) if name == "condor_submit_dag" else [code for code in pool.submit(arguments[0]) if code]
    except Held as why:
        failed = [f"held: {why}"]
    finally:
        clusters.write_text(str(pool.cluster))
    print(f"submitted to cluster {first + 1}")
    for job, what in pool.events:
        print(f"{job} {what}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
