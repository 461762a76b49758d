"""The real HTCondor, where its daemons are in PATH: a pool of one machine on loopback takes what `gular job new` writes,
from `condor_submit` to the outputs, with jobs that are vacated, that fail, and that end and begin near their limit."""

import os
import pathlib
import pwd
import shutil
import socket
import subprocess
import tarfile
import tempfile
import time

from _shared import GULAR, check, finish, run, skip

HERE = pathlib.Path.cwd()
# Nobody submits as root, so the whole pool belongs to another user then.
USER = pwd.getpwnam("nobody") if os.getuid() == 0 else None

CONFIG = """
LOCAL_DIR = {dir}
SBIN = {sbin}
BIN = {bin}
LIBEXEC = {libexec}
DAEMON_LIST = MASTER COLLECTOR NEGOTIATOR SCHEDD STARTD
CONDOR_HOST = 127.0.0.1
COLLECTOR_HOST = 127.0.0.1:{port}
NETWORK_INTERFACE = 127.0.0.1
USE_SHARED_PORT = False
SEC_DEFAULT_AUTHENTICATION_METHODS = FS
ALLOW_READ = *
ALLOW_WRITE = *
ALLOW_ADMINISTRATOR = *
ALLOW_NEGOTIATOR = *
ALLOW_DAEMON = *
START = True
SUSPEND = False
PREEMPT = False
KILL = False
RANK = 0
NUM_CPUS = 4
MEMORY = 16384
NUM_SLOTS_TYPE_1 = 1
SLOT_TYPE_1 = 100%
SLOT_TYPE_1_PARTITIONABLE = True
NEGOTIATOR_INTERVAL = 2
NEGOTIATOR_CYCLE_DELAY = 1
SCHEDD_INTERVAL = 2
UPDATE_INTERVAL = 5
DAGMAN_USER_LOG_SCAN_INTERVAL = 1
MAIL = /bin/true
RunBenchmarks = False
SCHEDD_HOST =
"""


class Pool:
    """Daemons and tools of a pool, in a folder of its own."""

    def __init__(self, dir):
        self.dir = pathlib.Path(dir)
        sbin = pathlib.Path(shutil.which("condor_master")).parent
        bin = pathlib.Path(shutil.which("condor_submit")).parent
        beside = [sbin.parent / "libexec" / "condor", sbin.parent / "libexec", bin]
        libexec = next(folder for folder in beside if folder.is_dir())
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        for name in ("log", "spool", "execute", "lock", "jobs"):
            (self.dir / name).mkdir()
        config = self.dir / "condor_config"
        config.write_text(CONFIG.format(dir=self.dir, sbin=sbin, bin=bin, libexec=libexec, port=port))
        self.env = dict(os.environ, CONDOR_CONFIG=str(config), HOME=str(self.dir))
        self.as_user = []
        if USER:
            self.as_user = ["setpriv", f"--reuid={USER.pw_uid}", f"--regid={USER.pw_gid}", "--clear-groups"]
            self.give(self.dir)
        self.master = subprocess.Popen([*self.as_user, str(sbin / "condor_master"), "-f"], env=self.env, cwd=self.dir)

    def give(self, path):
        """Gives a folder to the user of the pool."""
        if USER:
            subprocess.run(["chown", "-R", f"{USER.pw_uid}:{USER.pw_gid}", path], check=True)

    def tool(self, *args, cwd=None, fails=False):
        done = subprocess.run([*self.as_user, *map(str, args)], env=self.env, cwd=cwd or self.dir, capture_output=True, text=True, timeout=120)
        if done.returncode and not fails:
            raise AssertionError(f"{args} ended with {done.returncode}: {done.stdout}{done.stderr}")
        return done.stdout + done.stderr

    def ready(self):
        """Waits until the machine can be asked for jobs."""
        until("the machine joins the pool", 120, lambda: "slot1@" in self.tool("condor_status", "-af", "Name", fails=True))
        until("jobs can be submitted", 60, lambda: "Failed" not in self.tool("condor_q", fails=True))

    def new(self, name, *options, command, files={}):
        """A job's folder, which this user's pool may use."""
        with tempfile.TemporaryDirectory() as made:
            for file, text in files.items():
                (pathlib.Path(made) / file).write_text(text)
            run(GULAR, "job", "new", name, *options, "--", *command, cwd=made)
            shutil.copytree(pathlib.Path(made) / name, self.dir / "jobs" / name)
        folder = self.dir / "jobs" / name
        self.give(folder)
        return folder

    def submit(self, folder):
        """Submits a job; its number in the queue."""
        said = self.tool("condor_submit", "-terse", f"{folder.name}.sub", cwd=folder)
        return said.split()[0].split(".")[0]

    def state(self, job):
        """The job's state and hold reason; none when it has left the queue."""
        said = self.tool("condor_q", job, "-af", "JobStatus", "HoldReasonCode", "NumShadowStarts").split()
        return said or None

    def wait(self, job, seconds=180):
        until(f"job {job} leaves the queue", seconds, lambda: self.state(job) is None)

    def stop(self):
        self.tool("condor_off", "-master", "-fast", fails=True)
        try:
            self.master.wait(30)
        except subprocess.TimeoutExpired:
            self.master.kill()


def until(what, seconds, holds):
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            raise AssertionError(f"{what}: not within {seconds} s")
        time.sleep(0.5)


def results(folder):
    """The members of all results of a job; a name that several have is there once."""
    members = {}
    for path in sorted((folder / "results").iterdir()):
        with tarfile.open(path) as tar:
            members.update({member.name: tar.extractfile(member).read() for member in tar if member.isfile()})
    return members


def a_job_ends(pool):
    folder = pool.new("plain", "--input", "input", command=["sh", "work.sh"], files={"work.sh": "cat input > output/copy; echo said\n", "input": "given\n"})
    pool.wait(pool.submit(folder))
    check("inputs travel, and outputs come back", results(folder).get("output/copy") == b"given\n", list(results(folder)))
    logs = "".join(path.read_text() for path in sorted((folder / "logs").iterdir()) if path.suffix == ".out")
    check("what it prints is in the log", "said" in logs, logs)


# The wrapper asks it to save every few seconds; what it saves when it is vacated is not kept.
COUNTS = """
trap 'exit 85' TERM
touch ckpt/steps
echo "from $(wc -l < ckpt/steps)" >> ckpt/starts
while [ "$(wc -l < ckpt/steps)" -lt 40 ]; do sleep 0.4; echo step >> ckpt/steps; done
cp ckpt/steps ckpt/starts output/
"""


def a_vacated_job_goes_on(pool):
    folder = pool.new("counts", "--checkpoint", "ckpt", "--every", "5s", command=["sh", "counts.sh"], files={"counts.sh": COUNTS})
    job = pool.submit(folder)

    def said():
        return "".join(path.read_text() for path in (folder / "logs").glob("*.log"))

    until("it saved once", 120, lambda: any((pool.dir / "spool").rglob("ckpt/starts")))
    time.sleep(2)
    pool.tool("condor_vacate_job", job)
    pool.wait(job)
    check("it was evicted", "was evicted" in said(), said())
    found = results(folder)
    starts = [int(line.split()[1]) for line in found.get("output/starts", b"").decode().splitlines()]
    check("a vacated job counts each step once", found.get("output/steps", b"").count(b"step") == 40, found.keys())
    check("it goes on from what it saved", len(starts) > 2 and starts[0] == 0 and sorted(set(starts)) == starts, starts)


def a_program_that_only_saves_is_not_started_again_and_again(pool):
    script = "echo start >> ckpt/starts\n[ $(wc -l < ckpt/starts) -ge 4 ] && cp ckpt/starts output/ && exit 0\nexit 85\n"
    folder = pool.new("saves", "--checkpoint", "ckpt", "--every", "8s", command=["sh", "saves.sh"], files={"saves.sh": script})
    began = time.monotonic()
    pool.wait(pool.submit(folder))
    took = time.monotonic() - began
    check("it is started four times", results(folder).get("output/starts") == b"start\n" * 4, results(folder))
    check("each start waits for its turn", took > 3 * 7, f"{took:.0f} s")


def a_failed_node_is_rescued(pool):
    files = {"step.sh": '[ "$1" = 2 ] && exit 3\necho "$1" > output/part\n', "join.sh": 'cat "$@" > output/all\n'}
    folder = pool.new("rescue", "--sweep", "n=1..3", "--merge-command", "sh join.sh {each}/part", command=["sh", "step.sh", "{n}"], files=files)
    pool.tool("condor_submit_dag", "rescue.dag", cwd=folder)
    rescue = folder / "rescue.dag.rescue001"
    until("DAGMan writes a rescue", 240, rescue.exists)
    until("DAGMan ends", 60, lambda: not pool.tool("condor_q", "-af", "ClusterId").split())
    check("nothing was merged", not (folder / "results/merge.tar").exists())
    (folder / "step.sh").write_text('echo "$1" > output/part\n')
    pool.tool("condor_submit_dag", "rescue.dag", cwd=folder)
    until("it is merged", 240, (folder / "results/merge.tar").exists)
    until("DAGMan ends", 60, lambda: not pool.tool("condor_q", "-af", "ClusterId").split())
    with tarfile.open(folder / "results/merge.tar") as tar:
        merged = tar.extractfile("output/all").read()
    check("the rescue ends what was not done", merged == b"1\n2\n3\n", merged)


def why_it_is_idle(pool):
    folder = pool.new("idle", "--cpus", "64", command=["true"])
    job = pool.submit(folder)
    until("it is matched with nobody", 30, lambda: (pool.state(job) or ["?"])[0] == "1")
    said = pool.tool(GULAR, "job", "why", job, fails=True)
    check("`gular job why` names what no machine has", "64" in said and "cpu" in said.lower(), said)
    pool.tool("condor_rm", job)


def main():
    # Short, since names of sockets have at most 107 bytes; and not in /tmp, where DAGMan refuses to keep its logs.
    with tempfile.TemporaryDirectory(prefix="gular-", dir="/var/tmp") as dir:
        os.chmod(dir, 0o755)
        pool = Pool(dir)
        try:
            pool.ready()
            a_job_ends(pool)
            a_vacated_job_goes_on(pool)
            a_program_that_only_saves_is_not_started_again_and_again(pool)
            a_failed_node_is_rescued(pool)
            why_it_is_idle(pool)
        except BaseException:
            logs = [*(pool.dir / "log").glob("*Log"), *(pool.dir / "jobs").glob("*/*.out"), *(pool.dir / "jobs").glob("*/logs/*.log")]
            for log in sorted(logs):
                print(f"--- {log.name}", *log.read_text(errors="replace").splitlines()[-8:], sep="\n")
            raise
        finally:
            pool.stop()
    finish()


if shutil.which("condor_master"):
    main()
else:
    skip("htcondor_pool", "condor_master", "HTCondor 25 (https://htcondor.org), or its source compiled")
