"""HTCondor's own code makes the ads of every file that `gular job new` writes, and matches them."""

import json
import os
import pathlib
import subprocess
import sys
import warnings

from _shared import GULAR, check, finish, skip

os.environ["CONDOR_CONFIG"] = "/dev/null"
warnings.simplefilter("ignore")
try:
    import classad
    import htcondor
except ImportError as error:
    skip("htcondor_matches", error.name, "pip install htcondor==24.12.24")
    sys.exit(0)

# As a pool's collector has it: a node with one GPU.
SLOT = """[ MyType="Machine"; Arch="X86_64"; OpSys="LINUX"; Disk=200000000; Memory=262144; Cpus=64; GPUs=%d;
 HasContainer=true; HasSIF=true; HasDockerURL=true; HasSandboxImage=true; HasSingularity=true; HasDocker=true;
 HasFileTransfer=true; HasSelfCheckpointTransfers=true;
 CondorVersion="$CondorVersion: 25.0.5 2026-01-01 BuildID: 1 $";
 HasFileTransferPluginMethods="%s"; AvailableGPUs={ GPUs_A };
 GPUs_A=[ Id="GPU-1"; Capability=%s; GlobalMemoryMb=%d; MaxSupportedVersion=%d ];
 Requirements=true ]"""
PLUGINS = "data,file,http,https,osdf,pelican,stash"


def slot(capability=8.0, memory_mb=40960, cuda=12040, plugins=PLUGINS, gpus=1):
    return classad.ClassAd(SLOT % (gpus, plugins, capability, memory_mb, cuda))


def ads(folder):
    """The ads of all jobs, as condor_submit would send them; `folder` is the working directory."""
    text = next(pathlib.Path().glob("*.sub")).read_text()
    submit = htcondor.Submit(text)
    items = submit.itemdata()
    items = list(items) if items is not None else None
    made = submit.procs(count=1 if items else 0, itemdata=iter(items) if items else None, clusterid=7, procid=0, qdate=1, owner="me")
    base, all_ads = None, []
    for ad in made:
        base = base or dict(ad)
        all_ads.append(classad.ClassAd({**base, **dict(ad)}))
    return all_ads


def new(name, site, *options, command=("python3", "train.py")):
    pathlib.Path("train.py").write_text("CODE = 85\nprint('output')\n")
    image = "osdf:///lab/images/train-v3.sif"
    arguments = [GULAR, "job", "new", name, "--site", site, "--image", image, "--image-size", "6GB", *options, "--", *command]
    subprocess.run([*map(str, arguments)], check=True, capture_output=True)


GPU = ["--gpus", "1", "--capability", "7.5", "--gpu-memory", "10GB", "--cuda", "12.4"]
start = pathlib.Path.cwd()
for site in ["ospool", "chtc", "generic"]:
    for kind, options in {"cpu": ["--credentials", "igwn"], "gpu": GPU, "checkpoint": [*GPU, "--checkpoint", "ckpt"], "sweep": [*GPU, "--sweep", "lr=1e-3,3e-4", "--sweep", "seed=1..4"]}.items():
        name = f"{site}-{kind}"
        os.chdir(start)
        try:
            command = ["python3", "train.py"] + (["--lr={lr}", "{seed}"] if kind == "sweep" else [])
            new(name, site, *options, command=command)
            os.chdir(start / name)
            lint = subprocess.run([GULAR, "job", "lint", "--strict", f"{name}.sub"], capture_output=True, text=True)
            check(f"{name} has no trap", lint.returncode == 0, lint.stdout + lint.stderr)
            jobs = ads(name)
        except Exception as error:  # condor_submit's own words
            check(f"{name} is accepted", False, repr(error))
            continue
        n = 8 if kind == "sweep" else 1
        check(f"{name} is {n} jobs", len(jobs) == n, f"{len(jobs)} jobs")
        check(f"{name} matches a machine", all(slot().matches(job) for job in jobs), jobs[0].get("Requirements"))
        outs = {str(job.get("TransferOutputRemaps")) for job in jobs} | {str(job.get("Out")) for job in jobs}
        check(f"{name} collides nowhere", len(outs) == 2 * n, outs)
        if kind == "sweep":
            arguments = sorted(str(job.get("Args") or job.get("Arguments")) for job in jobs)
            expected = sorted(f"{lr} {seed}" for lr in ("1e-3", "3e-4") for seed in range(1, 5))
            check(f"{name} has each combination once", arguments == expected, arguments)
        if kind == "cpu":
            check(f"{name} gets a token", jobs[0].get("OAuthServicesNeeded") == "igwn", jobs[0])
            check(f"{name} asks for no GPU", slot(gpus=0).matches(jobs[0]), jobs[0].get("Requirements"))
            continue
        job = jobs[0]
        for what, machine in {
            "capability 6.1": slot(capability=6.1),
            "8 GB of GPU memory": slot(memory_mb=8000),
            "CUDA 11.8": slot(cuda=11080),
            "no osdf plug-in": slot(plugins="data,file,http,https"),
        }.items():
            check(f"{name} does not match {what}", not machine.matches(job), job.get("Requirements"))
        if kind == "checkpoint":
            kept = (job.get("SuccessCheckpointExitCode"), job.get("WantFTOnCheckpoint"), str(job.get("TransferCheckpoint")).replace(" ", ""))
            check(f"{name} sends its checkpoint", kept == (85, True, "ckpt,output"), kept)
            without = slot()
            without["HasSelfCheckpointTransfers"] = False
            check(f"{name} needs a machine that sends checkpoints", not without.matches(job), job.get("Requirements"))
os.chdir(start)

# What lint says is right: HTCondor takes these files, and makes something else of them.
pathlib.Path("bad.sub").write_text("executable = /bin/true\nrequests_cpus = 4\nrequest_memory = 16\ngpus_minimum_capability = 7.5\nlog = x\nqueue\n")
job = next(iter(htcondor.Submit(pathlib.Path("bad.sub").read_text()).procs(count=0, clusterid=1, procid=0, qdate=1, owner="me")))
found = (str(job.get("RequestCpus")), str(job.get("RequestMemory")), job.get("RequestGPUs"))
check("HTCondor ignores what lint calls ignored", found == ("1", "16", None), found)

# What lint calls refused HTCondor refuses, and the other way round.
pathlib.Path("run.sh").write_text("#!/bin/sh\ntrue\n")
for line, accepted in {
    "requirements = (A = 8)": False,
    "requirements = A == 8 and B": False,
    "rank = (Memory": False,
    'requirements = (A == "8)': False,
    "requirements = Memory > 16GB": False,
    "should_transfer_files = IF_NEEDED\nwhen_to_transfer_output = ON_EXIT_OR_EVICT": False,
    'requirements = Memory >= 8 && OpSys =!= "a=b ("': True,
    "on_exit_remove = (ExitCode =?= 0)": True,
    "arguments = \"it's\"": False,
    'arguments = --name "a b"': False,
    'arguments = "a" b "c"': False,
    "arguments = it's": True,
    "arguments = \"a 'b c' d\"": True,
    'environment = X="a b"': True,
    'environment = "CFG=lr=1;wd=2"': True,
}.items():
    text = f"executable = run.sh\nrequest_cpus = 1\nrequest_memory = 1 GB\nrequest_disk = 1 GB\n{line}\nlog = x\nqueue\n"
    pathlib.Path("line.sub").write_text(text)
    try:
        taken = bool(list(htcondor.Submit(text).procs(count=0, clusterid=1, procid=0, qdate=1, owner="me")))
    except Exception:  # condor_submit's own words
        taken = False
    lint = subprocess.run([GULAR, "job", "lint", "--strict", "line.sub"], capture_output=True, text=True)
    check(f"lint and HTCondor on {line.splitlines()[-1]}", (taken, lint.returncode == 0) == (accepted, accepted), f"{taken} {lint.stdout}")
# The same of many lines: which is refused, HTCondor says here.
pathlib.Path("items.txt").write_text("1 2\n3 4\n")
for name in ["a", "b", "x", "x.sif"]:
    pathlib.Path(name).write_text("")
cases = [line for line in (pathlib.Path(__file__).parent / "htcondor/lines.txt").read_text().split("\n")[1:-1]]
HEAD = "executable = run.sh\noutput = o.$(Cluster).$(Process)\nerror = e.$(Cluster).$(Process)\nlog = l\nrequest_cpus = 1\nrequest_memory = 1GB\nrequest_disk = 1GB\n"
refused, made = set(), []
for number, case in enumerate(cases):
    made.append(f"line{number}.sub")
    text = HEAD + case.replace("\\n", "\n") + ("\n" if case.lower().startswith("queue") else "\nqueue\n")
    pathlib.Path(made[-1]).write_text(text)
    try:
        submit = htcondor.Submit(text)
        items = list(submit.itemdata() or [])
        list(submit.procs(count=0 if items else 1, itemdata=iter(items) if items else None, clusterid=7, procid=0, qdate=1, owner="me"))
    except Exception:  # condor_submit's own words
        refused.add(made[-1])
lint = subprocess.run([GULAR, "job", "lint", "--json", *made], capture_output=True, text=True)
errors = {finding["file"] for finding in json.loads(lint.stdout)["findings"] if finding["severity"] == "error"}
differ = [cases[int(name[4:-4])] for name in sorted(refused ^ errors)]
check(f"{len(cases)} lines are refused by both or by neither", not differ and len(refused) > 200, "\n".join(differ))
job = next(iter(htcondor.Submit('executable = run.sh\nenvironment = "A=1;B=2"\nlog = x\nqueue\n').procs(count=0, clusterid=1, procid=0, qdate=1, owner="me")))
check("in quotes a `;` is part of a value", str(job.get("Environment")) == "A=1;B=2", job.get("Environment"))
# Words without double quotes are attributes: the job is accepted, and matches no machine.
for line in ["requirements = OpSys == 'LINUX'", "requirements = Arch == X86_64"]:
    text = f"executable = run.sh\nrequest_cpus = 1\nrequest_memory = 1 GB\nrequest_disk = 1 GB\n{line}\nlog = x\nqueue\n"
    pathlib.Path("line.sub").write_text(text)
    job = next(iter(htcondor.Submit(text).procs(count=0, clusterid=1, procid=0, qdate=1, owner="me")))
    lint = subprocess.run([GULAR, "job", "lint", "--strict", "line.sub"], capture_output=True, text=True)
    check(f"no machine for {line}", (slot().matches(job), lint.returncode) == (False, 1), lint.stdout)
# A translated batch script asks for what its options said, once for each number of the array.
pathlib.Path("translated").mkdir()
os.chdir("translated")
pathlib.Path("train.sbatch").write_text(
    "#!/bin/bash\n#SBATCH -J train -c 4 --mem=16G --gres=gpu:a100:2 -t 2:00:00 --array=1-5:2%2 -o %x-%A_%a.out\nsrun python train.py $SLURM_ARRAY_TASK_ID $SLURM_CPUS_PER_TASK\n"
)
pathlib.Path("train.py").write_text("")
subprocess.run([GULAR, "job", "translate", "train.sbatch"], check=True, capture_output=True)
jobs = ads("translated")
found = [(job.get("RequestCpus"), job.get("RequestMemory"), job.get("RequestGPUs"), job.get("AllowedExecuteDuration"), job.get("Environment"), job.get("Out"), job.get("TransferInput")) for job in jobs]
expected = [(4, 16384, 2, 7200, f"SLURM_ARRAY_TASK_ID={n} SLURM_CPUS_PER_TASK=4", f"train-7_{n}.out", "train.py") for n in (1, 3, 5)]
check("a translated batch script is the same jobs", found == expected, f"{found}")
lint = subprocess.run([GULAR, "job", "lint", "--strict", "train.sub"], capture_output=True, text=True)
check("a translated batch script has no trap", lint.returncode == 0, lint.stdout)
finish()
