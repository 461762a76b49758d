//! Writes the wrapper that HTCondor starts.

use std::fmt::Write as _;

use super::{Fetch, JobSpec, JobStage, Runs, condor, dag, wheels};

/// A program that saves and ends sooner is not started again before this time.
const SHORTEST_SECONDS: f64 = 60.0;

pub(super) fn script(spec: &JobSpec, stage: &JobStage<'_>) -> String {
    let mut text = String::from(
        "#!/bin/bash\n# Started by HTCondor in the job's folder; after a checkpoint again in the same one, with all\n# that the run before left there.\nset -uo pipefail\n",
    );
    let names = spec.parameters.iter().flat_map(|parameters| &parameters.names);
    let names = names.filter(|_| stage.runs != Runs::Merge).map(String::as_str);
    let of = (stage.runs == Runs::Evaluate).then_some("of");
    for (i, name) in of.into_iter().chain(names).enumerate() {
        let _ = writeln!(text, "{name}=${{{}}}", i + 1);
    }
    text.push_str("mkdir -p output");
    let checkpoint = spec.checkpoint.as_ref().filter(|_| stage.runs == Runs::Jobs);
    if let Some(folder) = checkpoint.filter(|folder| *folder != "output") {
        let _ = write!(text, " {folder}");
    }
    text.push('\n');
    text.push_str(&wheels::unpack(spec));
    match stage.runs {
        Runs::Jobs => {}
        Runs::Evaluate => text.push_str(
            "mkdir -p trained\ntar -xf \"$of.tar\" -C trained\n# Always there, as `results.tar` is.\n: > evaluation.json\n",
        ),
        Runs::Merge if spec.shared => {}
        Runs::Merge => {
            let _ = write!(
                text,
                "i=0\nwhile [ \"$i\" -lt {} ]; do\n  mkdir -p \"all/job$i\"\n  tar -xf \"job$i.tar\" -C \"all/job$i\"\n  i=$((i + 1))\ndone\n",
                dag::n_jobs(spec)
            );
        }
    }
    if let Some(data) = stage.data(spec).filter(|data| data.fetch == Fetch::Runtime) {
        let _ = write!(
            text,
            "\n# `gular` is in the image, or came as an input.\nPATH=$PWD:$PATH\n\
             # Resumes an earlier fetch; 75 means that servers are busy, and the job is tried again.\n\
             gular fetch '{}' data || {{\n  code=$?\n  tar -cf results.tar output\n  exit \"$code\"\n}}\n",
            data.url
        );
    }
    if spec.image.is_some() {
        text.push_str("export HOME=$PWD\n");
    }
    text.extend(spec.before.iter().map(|line| line.written("")));
    let command = condor::command(spec, stage);
    text.push('\n');
    if stage.runs == Runs::Evaluate {
        let _ = write!(
            text,
            "{command} > output/evaluation.txt\ncode=$?\ncat output/evaluation.txt\n# Its last line is a JSON object.\ntail -n 1 output/evaluation.txt > evaluation.json\n"
        );
    } else if checkpoint.is_some() {
        let stop = (spec.run_hours() * 3600.0).round();
        let _ = write!(
            text,
            "# HTCondor keeps a checkpoint when the program ends with 85, and not when it evicts the job: so it\n\
             # is told to save after this many seconds.\n\
             timeout --signal=TERM --preserve-status --kill-after=300 {stop} {command} &\n\
             program=$!\n\
             told=\n\
             trap 'told=1; kill -TERM \"$program\"' TERM\n\
             wait \"$program\"\n\
             code=$?\n\
             # The signal ended `wait` while the program still saves.\n\
             if [ -n \"$told\" ]; then\n  wait \"$program\"\n  code=$?\nfi\n\
             # HTCondor starts the job again at once: a program that stops as soon as it starts, because the\n\
             # job is about to end, would be started several times a second.\n\
             if [ \"$code\" -eq 85 ] && [ -z \"$told\" ] && [ \"$SECONDS\" -lt {} ]; then\n  \
             sleep $(({} - SECONDS)) &\n  program=$!\n  wait \"$program\"\nfi\n\
             if [ \"$code\" -eq 143 ]; then\n  echo \"SIGTERM ended the program before it saved: it has to hear it, save and end with 85\" >&2\nfi\n",
            stop.min(SHORTEST_SECONDS),
            stop.min(SHORTEST_SECONDS),
        );
    } else {
        let _ = write!(text, "{command}\ncode=$?\n");
    }
    text.push_str("\n# One file that always exists: a listed output that is missing would put the job on hold.\ntar -cf results.tar output\nexit \"$code\"\n");
    text
}
