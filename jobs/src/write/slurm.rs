//! Writes the batch scripts for Slurm.
//!
//! ```text
//! NAME.sbatch ─▶ evaluate.sbatch ─▶ select.sbatch      arrays, a job for each line of the sweep
//!            └─▶ merge.sbatch                          submit.sh has Slurm keep the order
//! ```

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use super::{JobImage, JobSpec, JobStage, Runs, Site, shell_command, wheels};
use crate::disk::base_name;
use crate::units::request;

/// Returns the batch script of a stage.
pub(super) fn script(spec: &JobSpec, stage: &JobStage<'_>) -> String {
    let mut text = options(spec, stage);
    let checkpoint = spec.checkpoint.as_ref().filter(|_| stage.runs == Runs::Jobs);
    text.push_str("set -uo pipefail\n");
    text.push_str(&needed(spec, stage));
    if stage.runs != Runs::Merge
        && let Some(parameters) = &spec.parameters
    {
        let names = parameters.names.join(" ");
        let _ = writeln!(
            text,
            "IFS=', ' read -r {names} < <(sed -n \"${{SLURM_ARRAY_TASK_ID}}p\" parameters.txt)"
        );
    }
    // Paths of the command begin where it was submitted: a folder for each job, with its inputs.
    let folder = folder(spec, stage.runs);
    let _ = writeln!(text, "submitted=$PWD\nmkdir -p \"{folder}\"\ncd \"{folder}\" || exit 2");
    for (name, _) in &spec.inputs {
        let _ = writeln!(text, "ln -sf \"$submitted/{name}\" .");
    }
    text.push_str("mkdir -p output");
    if let Some(folder) = checkpoint {
        let _ = write!(text, " {folder}");
    }
    text.push('\n');
    text.push_str(&wheels::unpack(spec));
    text.push_str("# srun of Slurm 22.05 and 23.02 does not take it over.\nexport SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK\n");
    if stage.runs == Runs::Jobs && spec.nodes * spec.tasks > 1 {
        // JSC's names of the InfiniBand network end in `i`.
        let of_site = if spec.site == Site::Jsc { "i" } else { "" };
        let suffix = spec.master_suffix.as_deref().unwrap_or(of_site);
        let _ = writeln!(
            text,
            "MASTER_ADDR=$(scontrol show hostnames \"$SLURM_JOB_NODELIST\" | head -n 1){suffix}\nMASTER_PORT=$((20000 + SLURM_JOB_ID % 10000))\nexport MASTER_ADDR MASTER_PORT"
        );
    }
    if stage.runs == Runs::Evaluate {
        text.push_str("# None of an earlier run.\nresult=\"$submitted/results/evaluate$((SLURM_ARRAY_TASK_ID - 1)).json\"\nrm -f \"$result\"\n");
    }
    text.extend(spec.before.iter().map(|line| line.written("")));
    text.push_str(&step(spec, stage));
    if stage.runs == Runs::Evaluate {
        text.push_str("cat output/evaluation.txt\n# Its last line is a JSON object.\n[ \"$code\" -eq 0 ] && tail -n 1 output/evaluation.txt > \"$result.part\" && mv \"$result.part\" \"$result\"\n");
    }
    if checkpoint.is_some() {
        text.push_str("# It saved: wait again, and resume there.\n[ \"$code\" -eq 85 ] && scontrol requeue \"$SLURM_JOB_ID\"\n");
    }
    text.push_str("exit \"$code\"\n");
    text
}

/// Returns the lines that Slurm reads.
fn options(spec: &JobSpec, stage: &JobStage<'_>) -> String {
    let jobs = stage.runs == Runs::Jobs;
    let mut text = String::from("#!/bin/bash\n");
    let mut option = |name: &str, value: &str| {
        let _ = writeln!(text, "#SBATCH --{name}={value}");
    };
    option("job-name", stage.name);
    for (name, value) in [("account", &spec.account), ("partition", &spec.partition)] {
        if let Some(value) = value {
            option(name, value);
        }
    }
    // A stage that follows the jobs is one process.
    let (nodes, tasks) = if jobs { (spec.nodes, spec.tasks) } else { (1, 1) };
    option("nodes", &nodes.to_string());
    option("ntasks-per-node", &tasks.to_string());
    option("cpus-per-task", &spec.cpus.to_string());
    if stage.gpus(spec) > 0 {
        option("gres", &format!("gpu:{}", stage.gpus(spec)));
    }
    if let Some(bytes) = stage.memory_bytes(spec) {
        option("mem", &request(bytes).replace([' ', 'B'], ""));
    }
    option("time", &time(spec.hours));
    let array = spec.parameters.as_ref().map(|parameters| parameters.rows.len().max(1));
    let array = array.filter(|_| stage.runs != Runs::Merge);
    if let Some(n) = array {
        // The number of a job is its line in the parameters, and of a pack the number of its part.
        option("array", &format!("1-{n}"));
    }
    option("output", if array.is_some() { "logs/%x-%A_%a.out" } else { "logs/%x-%j.out" });
    if spec.checkpoint.is_some() && jobs {
        // TERM to the step, a tenth before the end: in time to save; the program then ends with 85.
        let seconds = (spec.hours * 360.0).clamp(60.0, 300.0) as u64;
        option("signal", &format!("TERM@{seconds}"));
        option("open-mode", "append");
        let _ = writeln!(text, "#SBATCH --requeue");
    }
    for extra in &spec.lines {
        text.push_str(&extra.written("#SBATCH "));
    }
    let file = if jobs { spec.name.as_str() } else { stage.name };
    let _ = writeln!(
        text,
        "# Written by `gular job new`; `gular job lint {file}.sbatch` checks it after a change."
    );
    text
}

/// The folder in which a stage works. A folder that other stages read keeps its name when the stage
/// runs again.
fn folder(spec: &JobSpec, runs: Runs) -> String {
    let job = "$((SLURM_ARRAY_TASK_ID - 1))";
    match (runs, spec.stages.is_empty() || spec.shared) {
        (Runs::Jobs, false) => format!("output/job{job}"),
        (Runs::Evaluate, _) => format!("output/evaluate{job}"),
        (Runs::Merge, false) => "output/merge".to_owned(),
        (Runs::Jobs, true) if spec.parameters.is_some() => {
            "output/$SLURM_ARRAY_JOB_ID-$SLURM_ARRAY_TASK_ID".to_owned()
        }
        _ => "output/$SLURM_JOB_ID".to_owned(),
    }
}

fn command(spec: &JobSpec, stage: &JobStage<'_>) -> String {
    let trained = format!("$submitted/{}/output", folder(spec, Runs::Jobs));
    let words = stage.words(spec, |i| format!("{{submitted}}/output/job{i}/output"));
    let local = spec.data.as_ref().and_then(|data| data.local.as_ref());
    let data = local.map_or("$submitted/data", |local| local.folder.as_str());
    let places = [("{data}", data), ("{trained}", &trained), ("{submitted}", "$submitted")];
    let command = shell_command(spec, &words, &places);
    match stage.runs {
        Runs::Evaluate => format!("{command} > output/evaluation.txt"),
        _ => command,
    }
}

/// Ends the job where what it needs was not made or fetched before.
fn needed(spec: &JobSpec, stage: &JobStage<'_>) -> String {
    let image = made_image(spec).map(|(path, _)| path);
    let data = stage.data(spec).filter(|data| data.local.is_none());
    let needed: Vec<String> = image.into_iter().chain(data.map(|_| "data".to_owned())).collect();
    if needed.is_empty() {
        return String::new();
    }
    format!(
        "for needed in {}; do\n  if [ ! -e \"$needed\" ]; then\n    echo \"$needed is missing: README.md has the command that brings it, once for all jobs\" >&2\n    exit 2\n  fi\ndone\n",
        needed.join(" ")
    )
}

/// For an image that is not a file: the path of the file to make, and the command for it. Otherwise
/// each process would fetch or unpack the image again.
pub(super) fn made_image(spec: &JobSpec) -> Option<(String, String)> {
    let source = &spec.image.as_ref()?.source;
    let is = |schemes: &[&str]| schemes.iter().any(|scheme| source.starts_with(scheme));
    let file = "image.sif".to_owned();
    if is(&["osdf://", "pelican://", "stash://"]) {
        // An object keeps its name, and is stored in a folder.
        let place = format!("image/{}", base_name(source));
        Some((place, format!("gular fetch '{source}' image")))
    } else if source.contains("://") {
        Some((file, format!("apptainer pull image.sif '{source}'")))
    } else if is(&["oci:", "oci-archive:"]) {
        Some((file, format!("apptainer build image.sif '{source}'")))
    } else {
        None
    }
}

/// The start of a command that runs in an image; GPUs are seen only with `--nv`.
pub(crate) fn apptainer(gpus: u64, binds: &str, image: &str) -> String {
    let nv = if gpus > 0 { " --nv" } else { "" };
    format!("apptainer exec{nv}{binds} {image} ")
}

/// The step that runs the command, in the image where there is one, and its exit code.
fn step(spec: &JobSpec, stage: &JobStage<'_>) -> String {
    let data = stage.data(spec);
    let reads = data.is_some() || !spec.inputs.is_empty() || !spec.stages.is_empty();
    let mut binds = if reads { " --bind \"$submitted\"".to_owned() } else { String::new() };
    if let Some(data) = data
        && let Some(local) = &data.local
    {
        // Published bundles have their shards beside the folder of a version.
        let of_files = data.files.iter().filter_map(|file| Some(file.rsplit_once('/')?.0));
        let is_outside = |folder: &&str| {
            folder.starts_with('/') && !Path::new(folder).starts_with(&local.folder)
        };
        let folders: BTreeSet<&str> = of_files.filter(is_outside).collect();
        for folder in std::iter::once(local.folder.as_str()).chain(folders) {
            let _ = write!(binds, " --bind '{folder}'");
        }
    }
    for path in &spec.binds {
        let _ = write!(binds, " --bind '{path}'");
    }
    let image = |image: &JobImage| match made_image(spec) {
        Some((path, _)) => format!("\"$submitted/{path}\""),
        None if image.source.starts_with('/') => image.source.clone(),
        None => format!("\"$submitted/{}\"", image.source),
    };
    let image = spec.image.as_ref().map(image);
    let image = image.map_or(String::new(), |image| apptainer(stage.gpus(spec), &binds, &image));
    let run = format!("{image}{}", command(spec, stage));
    if stage.runs != Runs::Jobs || spec.nodes * spec.tasks == 1 {
        return format!("\nsrun --kill-on-bad-exit=1 {run}\ncode=$?\n");
    }
    // These are the names of torchrun, for programs that do not support Slurm.
    let ranks = "export RANK=$SLURM_PROCID WORLD_SIZE=$SLURM_NTASKS LOCAL_RANK=$SLURM_LOCALID";
    if spec.checkpoint.is_none() {
        return format!(
            "\nsrun --kill-on-bad-exit=1 sh -c '{ranks}; exec \"$@\"' rank {run}\ncode=$?\n"
        );
    }
    // Slurm ends all processes once one exits with a code other than 0, so one with 85 waits for
    // the others.
    format!(
        "\n# A process that saved is done: it must not end those that still save.\nrm -f saved\nsrun --kill-on-bad-exit=1 sh -c '{ranks}; trap : TERM; \"$@\"; code=$?; if [ \"$code\" -eq 85 ]; then : > saved; code=0; fi; exit \"$code\"' rank {run}\ncode=$?\n[ \"$code\" -eq 0 ] && [ -e saved ] && code=85\n"
    )
}

/// Returns the script of the job that picks the best one.
pub(super) fn select(spec: &JobSpec) -> String {
    let mut text = String::from("#!/bin/bash\n#SBATCH --job-name=select\n");
    for (name, value) in [("account", &spec.account), ("partition", &spec.partition)] {
        if let Some(value) = value {
            let _ = writeln!(text, "#SBATCH --{name}={value}");
        }
    }
    text.push_str(
        "#SBATCH --ntasks=1\n#SBATCH --mem=500M\n#SBATCH --time=0-00:10:00\n#SBATCH --output=logs/%x-%j.out\n# Written by `gular job new`; `gular job lint select.sbatch` checks it after a change.\nset -uo pipefail\n./select.py\n",
    );
    text
}

/// Submits all stages: Slurm starts each when those before it ended well.
pub(super) fn submit(spec: &JobSpec) -> String {
    let name = &spec.name;
    let mut text = format!(
        "#!/bin/sh\n# Submits all stages: Slurm starts each when the ones before it ended well.\n# `sh submit.sh 3,7` submits jobs 3 and 7 of the array again, and what follows them.\nset -eu\nonly=${{1:+--array=$1}}\njobs=$(sbatch --parsable $only {name}.sbatch)\necho \"jobs $jobs\"\n"
    );
    if spec.stages.evaluate.is_some() {
        text.push_str("# Each evaluation waits for its job alone.\nevaluations=$(sbatch --parsable $only --dependency=aftercorr:\"$jobs\" evaluate.sbatch)\necho \"evaluations $evaluations\"\n");
    }
    if spec.stages.select.is_some() {
        text.push_str("select=$(sbatch --parsable --dependency=afterok:\"$evaluations\" select.sbatch)\necho \"select $select\"\n");
    }
    if spec.stages.merge.is_some() {
        text.push_str("merge=$(sbatch --parsable --dependency=afterok:\"$jobs\" merge.sbatch)\necho \"merge $merge\"\n");
    }
    text
}

/// Formats a time as D-HH:MM:SS.
fn time(hours: f64) -> String {
    let minutes = (hours * 60.0).ceil().max(1.0) as u64;
    let (days, minutes) = (minutes / 1440, minutes % 1440);
    format!("{days}-{:02}:{:02}:00", minutes / 60, minutes % 60)
}
