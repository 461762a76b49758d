"""Uses the package with NumPy alone: `smoke.py BUNDLE` prints the SHA-256 of an epoch.

`tests/peers/python_wheel.py` runs it on each Python with NumPy that it finds: all print the same.
"""

import hashlib
import json
import pickle
import sys

import numpy as np

import gular

loader = gular.DataLoader(sys.argv[1], batch_size=7, size=32, output="numpy")
digest = hashlib.sha256()
batches = iter(loader)
first = next(batches)
resumed = pickle.loads(pickle.dumps(loader))
rest = list(batches)
for batch in [first, *rest]:
    digest.update(batch["image"].tobytes())
    digest.update(json.dumps([batch["key"], batch["index"].tolist(), batch.get("label", first["index"]).tolist()]).encode())
assert sum(len(batch["key"]) for batch in resumed) == sum(len(batch["key"]) for batch in rest)

array = next(iter(gular.DataLoader(sys.argv[1], batch_size=2, size=32, output="dlpack")))["image"]
assert np.asarray(array).ctypes.data == np.from_dlpack(array).ctypes.data == array.ptr
assert np.frombuffer(array.memoryview(), np.float32).ctypes.data == array.ptr
if sys.version_info >= (3, 12):
    assert np.frombuffer(memoryview(array), np.float32).ctypes.data == array.ptr
try:
    gular.DataLoader(sys.argv[1], batch_size=0)
    raise AssertionError("an option that cannot be was taken")
except gular.OptionError as error:
    assert "batch_size" in str(error)
print(digest.hexdigest())
