//! The page beside the files.

use std::fmt::Write as _;

use super::{Fetch, Order, Stage, job_file};

pub(super) fn page(order: &Order, notes: &[String]) -> String {
    let file = job_file(order);
    let mut text = format!(
        "# {}\n\nWritten by `gular job new`. The command:\n\n```sh\n{}\n```\n\n",
        order.name,
        order.command.join(" ")
    );
    let jobs = order.parameters.as_ref().map_or(1, |parameters| parameters.rows.len());
    if order.site.is_slurm() {
        text.push_str("## Start\n\n```sh\n");
        if let Some(data) = &order.data {
            let _ = writeln!(text, "gular fetch '{}' data      # once, on a login node", data.url);
        }
        let _ = match order.stages.merge {
            _ if Stage::in_dag(order) && !order.shared => {
                write!(text, "gular job lint *.sbatch\nsh submit.sh\nsqueue --me\n```\n\n")
            }
            Some(_) => write!(
                text,
                "gular job lint {file} merge.sbatch\njob=$(sbatch --parsable {file})\nsbatch --dependency=afterok:\"$job\" merge.sbatch\nsqueue --me\n```\n\n## If a part fails\n\nThe merge then never starts (`DependencyNeverSatisfied` in `squeue`). When the other parts have ended, cancel it, and submit the failed part and the merge again. `PART` is the last number in the name of its log, `MERGE` the merge's job:\n\n```sh\nscancel MERGE\njob=$(sbatch --parsable --array=PART {file})\nsbatch --dependency=afterok:\"$job\" merge.sbatch\n```\n\nSeveral parts: `--array=3,7`.\n\n"
            ),
            None => {
                write!(text, "gular job lint {file}\nsbatch {file}\nsqueue --me\n```\n\n")
            }
        };
        if jobs > 1 {
            text.push_str(
                "The number of a job in the array is its line in `parameters.txt`, counted from 1. ",
            );
        }
        text.push_str("Each job works in a folder of its own below `output/`; what it prints is in `logs/`.\n");
        if Stage::in_dag(order) && !order.shared {
            stages_of_slurm(order, &mut text);
        }
    } else {
        let submit = if Stage::in_dag(order) { "condor_submit_dag" } else { "condor_submit" };
        let _ = write!(
            text,
            "## Start\n\n```sh\ngular job lint {file}\n{submit} {file}\ncondor_watch_q\n```\n\n"
        );
        if Stage::in_dag(order) {
            stages(order, jobs, &mut text);
        } else {
            let _ = writeln!(
                text,
                "{jobs} jobs. Each brings back `results/{}-CLUSTER-PROCESS.tar` with all that the program wrote to `output/`; what it prints is in `logs/`.",
                order.name
            );
        }
        if let Some(data) = &order.data {
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
    if let Some(folder) = &order.checkpoint {
        let _ = write!(
            text,
            "\n## Checkpoints\n\nOn SIGTERM the program has to save to `{folder}/` and to end with 85; when it starts it has to look there first. It is told so in time before the limit of {} hours, and then started again, in the same folder or in a new one with its inputs and `{folder}/` alone.\n",
            order.hours
        );
    }
    if !notes.is_empty() {
        text.push_str("\n## Before you submit\n\n");
        for note in notes {
            let _ = writeln!(text, "- {note}");
        }
    }
    text
}

/// The same on Slurm.
fn stages_of_slurm(order: &Order, text: &mut String) {
    let stages = &order.stages;
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

/// What comes after what, and what it leaves.
fn stages(order: &Order, jobs: usize, text: &mut String) {
    let stages = &order.stages;
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
        order.name
    );
}
