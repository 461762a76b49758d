//! The page beside the files.

use std::fmt::Write as _;

use super::{Fetch, Order, job_file};

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
        let _ = write!(text, "gular job lint {file}\nsbatch {file}\nsqueue --me\n```\n\n");
        text.push_str("Each job works in a folder of its own below `output/`; what it prints is in `logs/`.\n");
    } else {
        let _ = write!(
            text,
            "## Start\n\n```sh\ngular job lint {file}\ncondor_submit {file}\ncondor_watch_q\n```\n\n"
        );
        let _ = writeln!(
            text,
            "{jobs} jobs. Each brings back `results/{}-CLUSTER-PROCESS.tar` with all that the program wrote to `output/`; what it prints is in `logs/`.",
            order.name
        );
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
