#!/usr/bin/env python3
"""Describes a training as an RO-Crate: which bundle, image and program made which weights, all by digest.

    crate.py RUN --bundle BUNDLE --name TEXT --licence URL [--image FILE] [--description TEXT]

RUN is the folder with the results; RUN/ro-crate-metadata.json is written. Of checkpoints only the weights are
listed. Python's standard library is enough. RO-Crate 1.1, with the profile Process Run Crate 0.5.
"""
import argparse
import datetime
import hashlib
import json
import os
import pathlib
import subprocess

CONTEXT = ["https://w3id.org/ro/crate/1.1/context", "https://w3id.org/ro/terms/workflow-run/context"]
PROFILE = "https://w3id.org/ro/wfrun/process/0.5"
FORMATS = {".json": "application/json", ".jsonl": "application/jsonl", ".csv": "text/csv", ".parquet": "application/vnd.apache.parquet"}


def sha256(path):
    with open(path, "rb") as file:
        digest = hashlib.sha256()
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def file_entity(path, name):
    about = {"@id": name, "@type": "File", "name": pathlib.PurePath(name).name, "contentSize": str(path.stat().st_size), "sha256": sha256(path)}
    if path.suffix in FORMATS:
        about["encodingFormat"] = FORMATS[path.suffix]
    return about


def time_of(path):
    return datetime.datetime.fromtimestamp(path.stat().st_mtime, datetime.timezone.utc).isoformat(timespec="seconds")


def bundle_entity(folder):
    said = json.loads(subprocess.run(["gular", "inspect", folder, "--json"], check=True, capture_output=True, text=True).stdout)
    # Its digest is its identity, wherever copies of it are.
    name = pathlib.Path(folder).resolve().name
    return {"@id": "urn:gular:" + said["digest"], "@type": "Dataset", "name": f"The bundle {name}", "identifier": said["digest"],
            "description": "The photographs that the network was trained on. Its manifest's BLAKE3 is its name: `gular fetch` and `gular verify` check it."}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=pathlib.Path)
    parser.add_argument("--bundle", required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--licence", required=True, help="URL of the licence of the results")
    parser.add_argument("--description", default="A network that was trained on a bundle, and what it scored.")
    parser.add_argument("--image", type=pathlib.Path, help="the container image that the training ran in")
    args = parser.parse_args()
    found = [args.run / "weights.safetensors", *sorted(path for path in args.run.iterdir() if path.suffix in FORMATS and path.name != "ro-crate-metadata.json")]
    files = [file_entity(path, path.name) for path in found]
    bundle = bundle_entity(args.bundle)
    version = subprocess.run(["gular-train", "--version"], check=True, capture_output=True, text=True).stdout.strip()
    program = {"@id": "#gular-train", "@type": "SoftwareApplication", "name": "gular-train", "softwareVersion": version.split()[-1]}
    run = {"@id": "#training", "@type": "CreateAction", "name": "The training and its evaluation", "instrument": {"@id": program["@id"]}, "object": [{"@id": bundle["@id"]}],
           "result": [{"@id": file["@id"]} for file in files], "endTime": time_of(found[0])}
    entities = [*files, bundle, program, run]
    if args.image:
        image = {"@id": "#image", "@type": "ContainerImage", "name": args.image.name, "sha256": sha256(args.image)}
        run["containerImage"] = {"@id": image["@id"]}
        entities.append(image)
    root = {"@id": "./", "@type": "Dataset", "name": args.name, "description": args.description, "datePublished": max(time_of(path) for path in found),
            "license": {"@id": args.licence}, "conformsTo": {"@id": PROFILE}, "hasPart": [{"@id": part["@id"]} for part in [*files, bundle]],
            "mentions": [{"@id": run["@id"]}]}
    head = {"@id": "ro-crate-metadata.json", "@type": "CreativeWork", "conformsTo": {"@id": "https://w3id.org/ro/crate/1.1"}, "about": {"@id": "./"}}
    profile = {"@id": PROFILE, "@type": "CreativeWork", "name": "Process Run Crate", "version": "0.5"}
    licence = {"@id": args.licence, "@type": "CreativeWork", "name": args.licence}
    text = json.dumps({"@context": CONTEXT, "@graph": [head, root, profile, licence, *entities]}, indent=2, ensure_ascii=False)
    part = args.run / "ro-crate-metadata.json.part"
    part.write_text(text + "\n")
    os.replace(part, args.run / "ro-crate-metadata.json")


if __name__ == "__main__":
    main()
