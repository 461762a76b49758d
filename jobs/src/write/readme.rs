//! Writes the page that explains the generated files.

use std::fmt::Write as _;

use super::{Fetch, JobSpec, JobStage, job_file, start};

pub(super) fn page(spec: &JobSpec, notes: &[String]) -> String {
    let file = job_file(spec);
    let mut text = format!(
        "# {}\n\nWritten by `gular job new`. The command:\n\n```sh\n{}\n```\n\n",
        spec.name,
        quoted(&spec.command)
    );
    let jobs = spec.parameters.as_ref().map_or(1, |parameters| parameters.rows.len());
    let (once, start) = (start::once(spec).join("\n"), start::start(spec).join("\n"));
    if !once.is_empty() {
        let _ = write!(
            text,
            "## Once, before the first start\n\nOn a login node, in this folder: compute nodes may have no network.\n\n```sh\n{once}\n```\n\n"
        );
    }
    let look = if spec.site.is_slurm() { "squeue --me" } else { "condor_watch_q" };
    let _ = write!(text, "## Start\n\n```sh\n{start}\n{look}\n```\n\n");
    if spec.site.is_slurm() {
        if jobs > 1 {
            text.push_str(
                "The number of a job in the array is its line in `parameters.txt`, counted from 1. ",
            );
        }
        text.push_str("Each job works in a folder of its own below `output/`; what it prints is in `logs/`.\n");
        if spec.shared && spec.stages.merge.is_some() {
            let _ = write!(
                text,
                "\n## If a part fails\n\nThe merge then never starts (`DependencyNeverSatisfied` in `squeue`). When the other parts have ended, cancel it, and submit the failed part and the merge again. `PART` is the last number in the name of its log, `MERGE` the merge's job:\n\n```sh\nscancel MERGE\njob=$(sbatch --parsable --array=PART {file})\nsbatch --dependency=afterok:\"$job\" merge.sbatch\n```\n\nSeveral parts: `--array=3,7`.\n"
            );
        }
        if JobStage::in_dag(spec) && !spec.shared {
            stages_of_slurm(spec, &mut text);
        }
    } else {
        if JobStage::in_dag(spec) {
            stages(spec, jobs, &mut text);
        } else {
            let each = if jobs == 1 { "The job".to_owned() } else { format!("{jobs} jobs. Each") };
            let _ = writeln!(
                text,
                "{each} brings back `results/{}-CLUSTER-PROCESS.tar` with all that the program wrote to `output/`; what it prints is in `logs/`.",
                spec.name
            );
        }
        if let Some(data) = &spec.data {
            let who = if data.fetch == Fetch::Batch {
                "HTCondor brings the bundle's files into the job's folder"
            } else {
                "The job fetches the bundle itself"
            };
            let _ = writeln!(
                text,
                "\n{who}: `{}`. The program must open it by its digest, `{}`.",
                data.url, data.digest
            );
        }
    }
    if let Some(folder) = &spec.checkpoint {
        checkpoints(spec, folder, &mut text);
    }
    if !notes.is_empty() {
        text.push_str("\n## Before you submit\n\n");
        for note in notes {
            let _ = writeln!(text, "- {note}");
        }
    }
    text
}

/// A command as it can be pasted; `{data}` and parameters stay.
fn quoted(command: &[String]) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._+-/:=,%@{}".contains(c);
    let word = |word: &String| match !word.is_empty() && word.chars().all(plain) {
        true => word.clone(),
        false => format!("'{word}'"),
    };
    command.iter().map(word).collect::<Vec<_>>().join(" ")
}

/// Says what the program must do, and which files are kept.
fn checkpoints(spec: &JobSpec, folder: &str, text: &mut String) {
    let _ = write!(
        text,
        "\n## Checkpoints\n\nOn SIGTERM the program has to save to `{folder}/` and to end with 85; when it starts it has to look there first. "
    );
    let _ = if spec.site.is_slurm() {
        writeln!(
            text,
            "It gets SIGTERM before the limit of {}; the job is then queued again, and the program starts again in the same folder. Other ends of the job, such as a node that fails, leave the folder as it is.",
            span(spec.hours)
        )
    } else {
        let more = if folder == "output" { "" } else { " and `output/`" };
        writeln!(
            text,
            "It gets SIGTERM {} after each start. HTCondor then copies `{folder}/`{more} to the access point, and starts the program again in the same folder, or on another machine, which gets image and data again.\n\nWhen a machine evicts the job, HTCondor does not copy them again: the program starts on another machine with its inputs and what was copied last, and what it did since is lost. `--every` of `gular job new` says how often they are copied.",
            span(spec.run_hours())
        )
    };
}

/// Formats hours in words.
fn span(hours: f64) -> String {
    let seconds = hours * 3600.0;
    match seconds {
        ..120.0 => format!("{seconds:.0} s"),
        ..7200.0 => format!("{:.0} min", seconds / 60.0),
        _ => format!("{} h", (hours * 100.0).round() / 100.0),
    }
}

/// Describes the stages on Slurm.
fn stages_of_slurm(spec: &JobSpec, text: &mut String) {
    let stages = &spec.stages;
    text.push_str(
        "\nJob 1 of the array is `job0`: it works in `output/job0`, and its results are in `output/job0/output`.\n",
    );
    if let Some(command) = &stages.evaluate {
        let _ = writeln!(
            text,
            "\nAfter each, `evaluate.sbatch` runs `{}` and keeps the last line that it prints in `results/evaluateN.json`.",
            command.join(" ")
        );
    }
    if let Some(select) = &stages.select {
        let _ = writeln!(
            text,
            "\nThen `select.py` picks the job with the {} `{}`: `results/selected.csv` lists all, and `results/best` is a copy of the best one's results.",
            if select.lowest { "lowest" } else { "highest" },
            select.metric
        );
    }
    if let Some(command) = &stages.merge {
        let _ = writeln!(
            text,
            "\nAfter all jobs, `merge.sbatch` runs `{}`; its results are in `output/merge/output`.",
            command.join(" ")
        );
    }
    text.push_str(
        "\n## If a job fails\n\nWhat waits for it then never starts (`DependencyNeverSatisfied` in `squeue`). When the other jobs have ended, correct what is wrong, cancel what waits, by the numbers that `submit.sh` printed, and submit the failed jobs again, by their numbers in the array. What follows them is submitted too:\n\n```sh\nscancel WAITING\nsh submit.sh 3,7\n```\n",
    );
}

/// Describes the order of the stages, and the files that they leave.
fn stages(spec: &JobSpec, jobs: usize, text: &mut String) {
    let stages = &spec.stages;
    let _ = writeln!(
        text,
        "{jobs} jobs, one for each line of `parameters.txt`: `job0` is its first line. Each brings back `results/jobN.tar` with all that it wrote to `output/`; what it prints is in `logs/`."
    );
    if let Some(command) = &stages.evaluate {
        let _ = writeln!(
            text,
            "\nAfter each, `evaluateN` runs `{}` and brings back the last line that it prints, `results/evaluateN.json`.",
            command.join(" ")
        );
    }
    if let Some(select) = &stages.select {
        let _ = writeln!(
            text,
            "\nThen `select.py` picks the job with the {} `{}`: `results/selected.csv` lists all, and `results/best.tar` is what the best one brought back.",
            if select.lowest { "lowest" } else { "highest" },
            select.metric
        );
    }
    if let Some(command) = &stages.merge {
        let _ = writeln!(
            text,
            "\nAfter all jobs, `merge` runs `{}` and brings back `results/merge.tar`.",
            command.join(" ")
        );
    }
    let _ = writeln!(
        text,
        "\nA node that fails is run again, up to two times. When the DAG ends with a failure, DAGMan leaves `{0}.dag.rescue001`: correct what is wrong and run `condor_submit_dag {0}.dag` again: it runs what is not done.",
        spec.name
    );
}
