//! Writes the script that picks the best job.

use super::{JobSpec, Select};

pub(super) fn program(spec: &JobSpec, select: &Select) -> String {
    let names = spec.parameters.iter().flat_map(|parameters| &parameters.names);
    let names: Vec<String> = names.map(|name| format!("\"{name}\"")).collect();
    let word = if select.lowest { "lowest" } else { "highest" };
    let lowest = if select.lowest { "True" } else { "False" };
    let of = format!(
        "METRIC, LOWEST, NAMES = \"{}\", {lowest}, [{}]\n",
        select.metric,
        names.join(", ")
    );
    let (what, starter, copy) = match spec.site.is_slurm() {
        true => ("best is", "A job starts it in this folder", FOLDER),
        false => ("best.tar is", "DAGMan starts it in this folder", TAR),
    };
    let head = HEAD.replace("WORD", word).replace("WHAT", what).replace("STARTER", starter);
    [head.as_str(), &of, BODY, copy, TAIL].concat()
}

const HEAD: &str = r#"#!/usr/bin/env python3
"""Picks the job with the WORD metric: results/selected.csv lists all, best first, and
results/WHAT a copy of what the best one brought back.

STARTER, after the last evaluation. Equal jobs stay in their spec.
"""
import csv
import json
import math
import os
import shutil
import sys

"#;

const BODY: &str = r#"
found, without = [], []
with open("parameters.txt") as lines:
    rows = [line.strip().split(", ") for line in lines]
for i, row in enumerate(rows):
    try:
        with open("results/evaluate%d.json" % i) as file:
            value = float(json.load(file)[METRIC])
    except (OSError, ValueError, KeyError, TypeError) as error:
        sys.exit("results/evaluate%d.json: the last line of the evaluation must be a JSON object with the number `%s`: %r" % (i, METRIC, error))
    # A training that diverged has no finite loss.
    (found if math.isfinite(value) else without).append((value, i, row))
if not found:
    sys.exit("no job has a finite `%s`" % METRIC)
found.sort(key=lambda one: one[0] if LOWEST else -one[0])
with open("results/selected.csv.part", "w", newline="") as file:
    table = csv.writer(file, lineterminator="\n")
    table.writerow(["job"] + NAMES + [METRIC])
    for value, i, row in found + without:
        table.writerow(["job%d" % i] + row + [repr(value)])
os.replace("results/selected.csv.part", "results/selected.csv")
best = found[0]
"#;

const TAR: &str = r#"shutil.copyfile("results/job%d.tar" % best[1], "results/best.tar.part")
os.replace("results/best.tar.part", "results/best.tar")
"#;

const FOLDER: &str = r#"for old in ("results/best.part", "results/best"):
    shutil.rmtree(old, ignore_errors=True)
shutil.copytree("output/job%d/output" % best[1], "results/best.part")
os.replace("results/best.part", "results/best")
"#;

const TAIL: &str = r#"print("job%d has the best %s, %r" % (best[1], METRIC, best[0]))
"#;
