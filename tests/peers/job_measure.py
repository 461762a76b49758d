"""`gular job measure` sees an unmodified PyTorch program with four workers as the kernel's cgroup does."""

import json
import pathlib
import subprocess
import sys

from _shared import GULAR, check, finish, skip

try:
    import torch  # noqa: F401
except ImportError:
    skip("job_measure", "torch", "pip install torch")
    sys.exit(0)

TRAIN = """
import torch
from torch.utils.data import DataLoader, Dataset

class Noise(Dataset):
    def __init__(self):
        self.pixels = torch.zeros(200, 3, 256, 256, dtype=torch.uint8)
    def __len__(self):
        return 64
    def __getitem__(self, i):
        return torch.rand(3, 512, 512) + self.pixels[i].float().mean(), i % 2

if __name__ == "__main__":
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3, 4), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(8, 2))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for epoch in range(3):
        for images, labels in DataLoader(Noise(), batch_size=8, shuffle=True, num_workers=4):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(images), labels).backward()
            optimizer.step()
"""
pathlib.Path("train.py").write_text(TRAIN)


def agree(report):
    return 0.9 < report["pss_bytes"] / report["cgroup_bytes"] < 1.1


# On a busy machine the samples of PSS may miss a peak, which the cgroup never does.
for _ in range(3):
    result = subprocess.run([GULAR, "job", "measure", "--json", "--", sys.executable, "train.py"], capture_output=True, text=True)
    report = json.loads(result.stdout.splitlines()[-1])["measured"]
    if report["cgroup_bytes"] is None or agree(report):
        break
check("the program ends well", result.returncode == 0, result.stderr)
check("four workers are seen", report["processes"] >= 5, report)
check("batches are seen in shared memory", report["shared_bytes"] > 3 << 20, report)
if report["cgroup_bytes"] is None:
    skip("pss and cgroup agree", "a cgroup", "run as root on a machine whose memory cgroup can be written to")
else:
    check("pss and cgroup agree within 10 %", agree(report), report)
finish()
