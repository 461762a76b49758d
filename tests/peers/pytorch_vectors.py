"""The installed PyTorch gives every order that our own samplers are tested against."""

import json
import pathlib
import sys

SAMPLER = pathlib.Path(__file__).resolve().parents[2] / "crates" / "order" / "tests" / "sampler"
sys.path.insert(0, str(SAMPLER))

try:
    import generate
except ImportError as error:
    print(f"skip pytorch_vectors: {error.name} missing, install: pip install torch numpy")
    sys.exit(0)

# Who made the file is not an order, and the large permutations take minutes.
NOT_COMPARED = {"about", "torch", "notes", "randperm_large"}


def main():
    recorded = json.loads((SAMPLER / "vectors.json").read_text())
    made = generate.vectors()
    failed = False
    for name in sorted((set(recorded) | set(made)) - NOT_COMPARED):
        if made.get(name) == recorded.get(name):
            print(f"ok {name}")
        else:
            failed = True
            print(f"fail {name}: PyTorch {made['torch']} gives something else than vectors.json")
    return failed


if __name__ == "__main__":
    sys.exit(main())
