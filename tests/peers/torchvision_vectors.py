"""The installed torchvision gives what our own augmentations are tested against."""

import json
import pathlib
import sys

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "runtime" / "tests" / "torchvision"
sys.path.insert(0, str(FOLDER))

try:
    import generate
except ImportError as error:
    print(f"skip torchvision_vectors: {error.name} missing, install: pip install torch torchvision")
    sys.exit(0)


def main():
    recorded = json.loads((FOLDER / "vectors.json").read_text())["cases"]
    made = generate.vectors()["cases"]
    failed = len(recorded) != len(made)
    for old, new in zip(recorded, made):
        name = f"{new['name']} {new['argument']}"
        same = (old["name"], old["argument"]) == (new["name"], new["argument"])
        for kind, allowed in [("u8", 1), ("f32", 1e-5)]:
            away = [abs(a - b) for a, b in zip(old[kind], new[kind])]
            same &= len(old[kind]) == len(new[kind]) and max(away) <= allowed
        failed |= not same
        print(f"{'ok' if same else 'fail'} {name}")
    return failed


if __name__ == "__main__":
    sys.exit(main())
