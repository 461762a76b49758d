"""The examples of docs/python.md for Lightning, TensorFlow and JAX, with these libraries themselves."""

import contextlib
import importlib
import io
import os
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve()
sys.path[:0] = [os.environ["GULAR_PYTHON"], str(HERE.parents[1])]
# TensorFlow and Lightning say much that is not of their results.
os.environ.update(TF_CPP_MIN_LOG_LEVEL="3", TF_ENABLE_ONEDNN_OPTS="0")

import gular
from _shared import GULAR, check, finish, make_images, run, skip

FRAMEWORKS = {"pytorch_lightning": "pytorch-lightning", "tensorflow": "tensorflow-cpu", "jax": "jax"}


def documented():
    page = (HERE.parents[3] / "docs" / "python.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    for module, package in FRAMEWORKS.items():
        of_it = [block for block in blocks if re.search(rf"^import {module}\b", block, re.MULTILINE)]
        check(f"docs/python.md has an example for {module}", len(of_it) == 1, str(len(of_it)))
        try:
            importlib.import_module(module)
        except ImportError as missing:
            skip(module, missing.name, f"pip install {package}")
            continue
        found = {}
        with contextlib.redirect_stdout(io.StringIO()) as out:
            exec(compile(of_it[0], module, "exec"), found)
        n = gular.DataLoader("bundle").n_samples
        check(f"{module}: each sample came once per epoch", found["seen"] == found["epochs"] * n, f"{found['seen']}, {n}\n{out.getvalue()}")
        print(f"{module} {importlib.import_module(module).__version__}")


def arrays_of_jax():
    import jax
    import jax.numpy as jnp
    import numpy as np

    for numbers in ["f32", "f16", "bf16", "stored"]:
        options = {"batch_size": 7, "size": 32, "numbers": numbers}
        ours = [batch["image"] for batch in gular.DataLoader("bundle", output="jax", **options)]
        own = [batch["image"] for batch in gular.DataLoader("bundle", output="torch", **options)]
        same = all(np.array_equal(np.asarray(a.astype(jnp.float32)), b.float().numpy()) for a, b in zip(ours, own))
        check(f"JAX has PyTorch's numbers, {numbers}", same and isinstance(ours[0], jax.Array) and len(ours) == len(own))
    batch = next(iter(gular.DataLoader("bundle", batch_size=7, output="jax")))
    labels = next(iter(gular.DataLoader("bundle", batch_size=7, output="numpy")))["label"]
    check("and its labels", np.asarray(batch["label"]).tolist() == labels.tolist())


if __name__ == "__main__":
    make_images()
    run(GULAR, "pack", "images", "bundle", "--shard-size", "1MiB", "--quiet")
    documented()
    arrays_of_jax()
    finish()
