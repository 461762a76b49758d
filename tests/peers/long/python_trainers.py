"""The loader within other people's training loops: Lightning, accelerate, Hugging Face's Trainer,
torchrun, torchdata and Ray Train, each with two processes, stopped within an epoch and resumed.

Each program writes the keys that it trained on, by epoch. Every epoch has each sample once, whatever
was stopped.
"""

import importlib.util
import json
import os
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve()
sys.path[:0] = [os.environ["GULAR_PYTHON"], str(HERE.parents[1])]

try:
    import torch
except ImportError as missing:
    print(f"skip python_trainers: {missing.name} missing, install: pip install torch numpy")
    sys.exit(0)

import gular
from _shared import GULAR, check, finish, make_images, run, skip

HEAD = """
import json, os, sys, warnings
warnings.simplefilter("ignore")
import logging
logging.disable(logging.WARNING)
import torch
import gular

SEEN = []

def small(picture):
    return torch.from_numpy(picture[:16, :16].copy()).permute(2, 0, 1).float() / 255

def network():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 16 * 16, 3))

class Numbered(torch.utils.data.Dataset):
    # With the number of each sample, to see which came.
    def __init__(self):
        self.data = gular.GularDataset("bundle", decode=True, transform=small)
    def __len__(self):
        return len(self.data)
    def __getitem__(self, index):
        image, label = self.data[index]
        return {"image": image, "target": label, "number": index}

def saw(epoch, numbers):
    SEEN.append([epoch, [int(number) for number in numbers]])

def write(rank):
    with open(f"seen-{os.environ['PART']}-{rank}-{os.getpid()}", "w") as file:
        json.dump(SEEN, file)
"""

LIGHTNING = """
import pytorch_lightning as lightning
place, schedule, strategy, stop, *resume = sys.argv[1:]

def made():
    return gular.DataLoader("bundle", batch_size=5, size=16, seed=1)

class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.network = network()
    def train_dataloader(self):
        return made()
    def training_step(self, batch, _):
        saw(self.current_epoch, batch["index"])
        return torch.nn.functional.cross_entropy(self.network(batch["image"]), batch["label"])
    def configure_optimizers(self):
        optimizer = torch.optim.SGD(self.parameters(), 1e-3)
        if schedule == "plain":
            return optimizer
        cycle = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-2, total_steps=self.trainer.estimated_stepping_batches)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": cycle, "interval": "step"}}
    def on_train_batch_end(self, *_):
        if self.trainer.global_step == int(stop):
            self.trainer.save_checkpoint("middle.ckpt")
            self.trainer.should_stop = True
    def on_train_end(self):
        write(self.global_rank)

if __name__ == "__main__":
    quiet = {name: False for name in ("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary")}
    trainer = lightning.Trainer(max_epochs=2, accelerator="cpu", devices=2, strategy=strategy, **quiet)
    given = {"train_dataloaders": made()} if place == "outside" else {}
    trainer.fit(Model(), **given, ckpt_path=resume[0] if resume else None)
"""

ACCELERATE = """
import accelerate
stop, steps, *resume = sys.argv[1:]
accelerator = accelerate.Accelerator(cpu=True, gradient_accumulation_steps=int(steps))
data = Numbered()
# accelerate divides the batches among the processes.
sampler = gular.ElasticSampler(data, seed=1, rank=0, world_size=1)
loader = torch.utils.data.DataLoader(data, batch_size=4, sampler=sampler)
model = network()
optimizer = torch.optim.SGD(model.parameters(), 1e-3)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
epoch, done = json.load(open("middle.json")) if resume else (0, 0)
updates = 0
while epoch < 2:
    loader.set_epoch(epoch)
    batches = accelerate.skip_first_batches(loader, done) if done else loader
    for batch in batches:
        with accelerator.accumulate(model):
            loss = torch.nn.functional.cross_entropy(model(batch["image"]), batch["target"])
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            updates += accelerator.sync_gradients
        numbers = accelerator.gather_for_metrics(batch["number"])
        if accelerator.is_main_process:
            saw(epoch, numbers)
        done += 1
        if done == int(stop) and epoch == 0:
            json.dump((epoch, done), open("middle.json", "w"))
            write(accelerator.process_index)
            sys.exit()
    epoch, done = epoch + 1, 0
write(accelerator.process_index)
if accelerator.is_main_process:
    print(json.dumps({"updates": updates}))
"""

ACCUMULATED = """
import accelerate
accelerator = accelerate.Accelerator(cpu=True, gradient_accumulation_steps=3)
loader = accelerator.prepare(gular.DataLoader("bundle", batch_size=5, size=16))
try:
    next(iter(loader))
except gular.Error as error:
    print(error)
try:
    accelerate.skip_first_batches(loader, 2)
except AttributeError as error:
    print(error)
print(len(list(gular.DataLoader("bundle", "val", batch_size=5, size=16))))
"""

TRAINER = """
from transformers import Trainer, TrainingArguments, TrainerCallback
stop, how, *resume = sys.argv[1:]

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.network = network()
    def forward(self, image, target, number):
        saw(int(trainer.state.epoch or 0), number)
        logits = self.network(image)
        return {"loss": torch.nn.functional.cross_entropy(logits, target), "logits": logits}

class Own(Trainer):
    def get_train_dataloader(self):
        if how == "loader":
            return gular.DataLoader("bundle", batch_size=4, size=16)
        sampler = gular.ElasticSampler(self.train_dataset, seed=1, rank=0, world_size=1)
        return self.accelerator.prepare(torch.utils.data.DataLoader(self.train_dataset, batch_size=4, sampler=sampler))

class Stop(TrainerCallback):
    def on_step_end(self, args, state, control, **_):
        if state.global_step == int(stop):
            control.should_save = control.should_training_stop = True

quiet = {"report_to": [], "disable_tqdm": True, "logging_strategy": "no", "save_strategy": "no"}
arguments = TrainingArguments("out", num_train_epochs=2, per_device_train_batch_size=4, use_cpu=True, seed=1, remove_unused_columns=False, **quiet)
kind = Trainer if how == "plain" else Own
trainer = kind(Model(), arguments, data_collator=torch.utils.data.default_collate, train_dataset=Numbered(), callbacks=[Stop()])
try:
    trainer.train(resume_from_checkpoint=f"out/checkpoint-{resume[0]}" if resume else None)
except AttributeError as error:
    print(error)
write(arguments.process_index)
"""

TORCHRUN = """
import torch.distributed as dist
dist.init_process_group("gloo")
rank, world_size = dist.get_rank(), dist.get_world_size()
data = Numbered()
sampler = gular.ElasticSampler(data, seed=1)
epoch, consumed = json.load(open("middle.json")) if os.path.exists("middle.json") else (0, 0)
attempt = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
while epoch < 2:
    sampler.set_epoch(epoch, consumed)
    for batch in torch.utils.data.DataLoader(data, batch_size=3, sampler=sampler, num_workers=1):
        n = torch.tensor([len(batch["number"])])
        dist.all_reduce(n)
        consumed += int(n)
        saw(epoch, batch["number"])
        if rank == 0:
            json.dump((epoch, consumed), open("middle.json", "w"))
        write(rank)
        dist.barrier()
        if attempt == 0 and epoch == 0 and consumed == 3 * 3 * world_size and rank == world_size - 1:
            os.kill(os.getpid(), 9)
    epoch, consumed = epoch + 1, 0
"""

TORCHDATA = """
from torchdata.stateful_dataloader import StatefulDataLoader
stop, workers, *resume = sys.argv[1:]
data = Numbered()
sampler = gular.ElasticSampler(data, seed=1)
loader = StatefulDataLoader(data, batch_size=5, sampler=sampler, num_workers=int(workers))
epoch = 0
if resume:
    saved = torch.load("middle.pt", weights_only=False)
    epoch = saved["epoch"]
    loader.load_state_dict(saved["loader"])
while epoch < 2:
    sampler.set_epoch(epoch)
    for number, batch in enumerate(loader, start=1):
        saw(epoch, batch["number"])
        if number == int(stop):
            torch.save({"epoch": epoch, "loader": loader.state_dict()}, "middle.pt")
            write(0)
            sys.exit()
    epoch += 1
write(0)
"""

RAY = """
import ray, ray.train, ray.train.torch
from ray.train import ScalingConfig, RunConfig
from ray.train.torch import TorchTrainer
folder = os.getcwd()
stop, *resume = sys.argv[1:]

def train(config):
    os.chdir(folder)
    os.environ["PART"] = config["part"]
    SEEN.clear()
    rank = ray.train.get_context().get_world_rank()
    loader = gular.DataLoader("bundle", batch_size=5, size=16, seed=1)
    try:
        ray.train.torch.prepare_data_loader(loader)
    except Exception as error:
        open(f"refused-{rank}", "w").write(str(error))
    if config["resume"]:
        loader.load_state_dict(json.load(open("middle.json")))
    while loader.epoch < 2:
        epoch = loader.epoch
        for number, batch in enumerate(loader, start=1):
            saw(epoch, batch["index"])
            if number == config["stop"]:
                if rank == 0:
                    json.dump(loader.state_dict(), open("middle.json", "w"))
                write(rank)
                return
    write(rank)

if __name__ == "__main__":
    ray.init(num_cpus=3, include_dashboard=False, log_to_driver=False, runtime_env={"env_vars": {"PYTHONPATH": os.environ["PYTHONPATH"]}})
    config = {"stop": int(stop), "resume": bool(resume), "part": os.environ["PART"]}
    TorchTrainer(train, train_loop_config=config, scaling_config=ScalingConfig(num_workers=2), run_config=RunConfig(storage_path=os.path.join(folder, "ray"))).fit()
"""

LAUNCH = ["-m", "torch.distributed.run", "--rdzv-backend=c10d", "--rdzv-endpoint=127.0.0.1:0"]


def started(code, part, *args, launch=(), fails=False):
    """What a program says, whose part of a training has this name."""
    pathlib.Path("program.py").write_text(HEAD + code)
    paths = [os.environ["GULAR_PYTHON"], *filter(None, [os.environ.get("PYTHONPATH")])]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PART": part, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    command = [sys.executable, *launch, "program.py", *map(str, args)]
    told = subprocess.run(command, env=env, capture_output=True, text=True)
    if told.returncode and not fails:
        raise AssertionError((told.stdout + told.stderr)[-3000:])
    return told.stdout


def fresh():
    for old in [*pathlib.Path(".").glob("seen-*"), *pathlib.Path(".").glob("middle.*"), *pathlib.Path(".").glob("refused-*")]:
        old.unlink()
    shutil.rmtree("out", ignore_errors=True)


def each_once(name, parts=("first", "second")):
    """Whether both epochs had each sample once, and the first part had some of the first epoch."""
    n = gular.DataLoader("bundle").n_samples
    epochs, of_part = {0: [], 1: []}, {part: [] for part in parts}
    for part in parts:
        for file in pathlib.Path(".").glob(f"seen-{part}-*"):
            for epoch, numbers in json.loads(file.read_text()):
                epochs[epoch] += numbers
                of_part[part].append((epoch, len(numbers)))
    for epoch, numbers in epochs.items():
        told = f"{len(numbers)} samples, {len(set(numbers))} distinct, of {n}; {of_part}"
        check(f"{name}: epoch {epoch} has each sample once", sorted(numbers) == list(range(n)), told)
    first = sum(count for epoch, count in of_part[parts[0]] if epoch == 0)
    check(f"{name}: it was stopped within the first", 0 < first < n, str(of_part))


def lightning():
    ways = [("inside", "plain", "ddp"), ("outside", "cycle", "ddp"), ("inside", "cycle", "ddp"), ("outside", "plain", "ddp_spawn")]
    for place, schedule, strategy in ways:
        fresh()
        started(LIGHTNING, "first", place, schedule, strategy, 3)
        started(LIGHTNING, "second", place, schedule, strategy, -1, "middle.ckpt")
        each_once(f"Lightning, {strategy}, a loader made {place}" + (", OneCycleLR" if schedule == "cycle" else ""))


def accelerate():
    launch = [*LAUNCH, "--nproc-per-node=2"]
    for steps in (1, 4):
        fresh()
        started(ACCELERATE, "first", 3, steps, launch=launch)
        told = started(ACCELERATE, "second", -1, steps, "resume", launch=launch)
        each_once(f"accelerate, gradients of {steps} batches")
    # 12 batches of 4, six per process, of which three were skipped; the last ones of an epoch are not forgotten.
    check("accelerate: steps of the optimiser", '"updates": 3' in told, told)
    told = started(ACCUMULATED, "third")
    right = "`gradient_accumulation_steps`" in told and "GularDataset" in told and told.split()[-1] == "3"
    check("accelerate: what it cannot do with our own loader is refused", right, told)


def trainer():
    for how in ("plain", "sampler"):
        fresh()
        started(TRAINER, "first", 5, how)
        started(TRAINER, "second", -1, how, 5)
        each_once(f"Hugging Face's Trainer, {how}")
    fresh()
    started(TRAINER, "first", 5, "plain")
    told = started(TRAINER, "second", -1, "loader", 5)
    check("Hugging Face's Trainer: what it cannot resume is told", "ignore_data_skip=True" in told, told)


def torchrun():
    fresh()
    started(TORCHRUN, "first", launch=[*LAUNCH, "--nproc-per-node=2", "--max-restarts=1"])
    seen = [json.loads(file.read_text()) for file in pathlib.Path(".").glob("seen-first-*")]
    check("torchrun started its processes again", len(seen) == 4, str(len(seen)))
    n = gular.DataLoader("bundle").n_samples
    for epoch in range(2):
        numbers = [number for file in seen for of, some in file if of == epoch for number in some]
        check(f"torchrun, restarted: epoch {epoch} has each sample once", sorted(numbers) == list(range(n)), f"{len(numbers)}, {len(set(numbers))}")


def torchdata():
    for workers in (0, 2):
        fresh()
        started(TORCHDATA, "first", 4, workers)
        started(TORCHDATA, "second", -1, workers, "resume")
        each_once(f"torchdata, {workers} workers")


def ray():
    fresh()
    started(RAY, "first", 3)
    started(RAY, "second", -1, "resume")
    each_once("Ray Train")
    refused = [file.read_text() for file in pathlib.Path(".").glob("refused-*")]
    check("Ray Train: what it cannot prepare is told", len(refused) == 2 and all("sampler" in one for one in refused), str(refused))


#: Module, what is installed for it, and the check.
FRAMEWORKS = [
    ("pytorch_lightning", "pytorch-lightning", lightning),
    ("accelerate", "accelerate", accelerate),
    ("transformers", "transformers accelerate", trainer),
    ("torch", "torch", torchrun),
    ("torchdata", "torchdata", torchdata),
    ("ray", "'ray[train]'", ray),
]

if __name__ == "__main__":
    make_images()
    run(GULAR, "pack", "images", "bundle", "--quiet")
    only = sys.argv[1:]
    for module, package, of_it in FRAMEWORKS:
        if only and of_it.__name__ not in only:
            continue
        if importlib.util.find_spec(module) is None:
            skip(of_it.__name__, module, f"pip install {package}")
            continue
        of_it()
    finish()
