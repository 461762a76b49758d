"""The installed torchvision gives what our own augmentations are tested against."""

import json
import pathlib
import sys

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "crates" / "augment" / "tests" / "torchvision"
sys.path.insert(0, str(FOLDER))

try:
    import generate
except ImportError as error:
    print(f"skip torchvision_vectors: {error.name} missing, install: pip install torchvision")
    sys.exit(0)


def differ(old, new, allowed):
    """Whether numbers of any nesting are further apart than `allowed`."""
    if isinstance(new, list):
        longer = len(old) != len(new)
        return longer or any(differ(a, b, allowed) for a, b in zip(old, new))
    return abs(old - new) > allowed


def main():
    recorded = json.loads((FOLDER / "vectors.json").read_text())
    made = json.loads(json.dumps(generate.vectors()))
    version = f"recorded with {recorded['torchvision']}, installed {made['torchvision']}"
    failed = False

    def check(name, old, new, settings, results):
        nonlocal failed
        wrong = [key for key in settings if old.get(key) != new[key]]
        wrong += [key for key, most in results if differ(old[key], new[key], most)]
        failed |= bool(wrong)
        print(f"fail {name}: other {', '.join(wrong)}: {version}" if wrong else f"ok {name}")

    for part in "cases", "blends":
        old, new = recorded[part], made[part]
        if part == "blends":
            same = [old[key] == new[key] for key in ("width", "height", "pair")]
            old, new = old["cases"], new["cases"]
            failed |= not all(same)
        if len(old) != len(new):
            failed = True
            print(f"fail {part}: {len(old)} recorded, {len(new)} made: {version}")
        for before, after in zip(old, new):
            if part == "cases":
                name = f"{after['name']} {after['argument']}"
                check(name, before, after, ["name", "argument"], [("u8", 1), ("f32", 1e-5)])
            else:
                kind = "mixup" if after["centre"] is None else f"cutmix at {after['centre']}"
                name = f"{kind}, {after['drawn']}"
                results = [("weight", 1e-6), ("made", 1e-6)]
                check(name, before, after, ["drawn", "centre"], results)
    return failed


if __name__ == "__main__":
    sys.exit(main())
