//! The batch script for Slurm.

use std::fmt::Write as _;

use super::{Order, Site, Stages, shell_command};
use crate::units::request;

/// The job that follows those of an array.
pub(super) fn merge(order: &Order) -> Option<Order> {
    Some(Order {
        name: "merge".to_owned(),
        command: order.stages.merge.clone()?,
        stages: Stages::default(),
        parameters: None,
        ..order.clone()
    })
}

pub(super) fn script(order: &Order) -> String {
    let mut text = String::from("#!/bin/bash\n");
    let mut option = |name: &str, value: &str| {
        let _ = writeln!(text, "#SBATCH --{name}={value}");
    };
    option("job-name", &order.name);
    for (name, value) in [("account", &order.account), ("partition", &order.partition)] {
        if let Some(value) = value {
            option(name, value);
        }
    }
    option("nodes", &order.nodes.to_string());
    option("ntasks-per-node", &order.tasks.to_string());
    option("cpus-per-task", &order.cpus.to_string());
    if order.gpus > 0 {
        option("gres", &format!("gpu:{}", order.gpus));
    }
    option(
        "mem",
        &request(order.memory_bytes.saturating_add(order.shm_bytes)).replace([' ', 'B'], ""),
    );
    option("time", &time(order.hours));
    let array = order.parameters.as_ref().map(|parameters| parameters.rows.len().max(1));
    if let Some(n) = array {
        // The number of a job is its line in the parameters, and of a pack the number of its part.
        option("array", &format!("1-{n}"));
    }
    option("output", if array.is_some() { "logs/%x-%A_%a.out" } else { "logs/%x-%j.out" });
    if order.checkpoint.is_some() {
        // TERM to the step, a tenth before the end: in time to save; the program then ends with 85.
        let seconds = (order.hours * 360.0).clamp(60.0, 300.0) as u64;
        option("signal", &format!("TERM@{seconds}"));
        option("open-mode", "append");
        let _ = writeln!(text, "#SBATCH --requeue");
    }
    let _ = writeln!(
        text,
        "# Written by `gular job new`; `gular job lint {}.sbatch` checks it after a change.",
        order.name
    );
    text.push_str("set -uo pipefail\n");
    let mut folder = "output/$SLURM_JOB_ID".to_owned();
    if let Some(parameters) = &order.parameters {
        let names = parameters.names.join(" ");
        let _ = writeln!(
            text,
            "IFS=', ' read -r {names} < <(sed -n \"${{SLURM_ARRAY_TASK_ID}}p\" parameters.txt)"
        );
        folder = "output/$SLURM_ARRAY_JOB_ID-$SLURM_ARRAY_TASK_ID".to_owned();
    }
    // Paths of the command begin where it was submitted: a folder for each job, with its inputs.
    let _ = writeln!(text, "submitted=$PWD\nmkdir -p \"{folder}\"\ncd \"{folder}\" || exit 2");
    for (name, _) in &order.inputs {
        let _ = writeln!(text, "ln -sf \"$submitted/{name}\" .");
    }
    text.push_str("mkdir -p output");
    if let Some(folder) = &order.checkpoint {
        let _ = write!(text, " {folder}");
    }
    text.push('\n');
    text.push_str("# srun does not take it over since Slurm 22.05.\nexport SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK\n");
    if order.nodes * order.tasks > 1 {
        // JSC's names of the InfiniBand network end in `i`.
        let suffix = if order.site == Site::Jsc { "i" } else { "" };
        let _ = writeln!(
            text,
            "MASTER_ADDR=$(scontrol show hostnames \"$SLURM_JOB_NODELIST\" | head -n 1){suffix}\nMASTER_PORT=$((20000 + SLURM_JOB_ID % 10000))\nexport MASTER_ADDR MASTER_PORT"
        );
    }
    let command = shell_command(order, &order.command, &[("{data}", "$submitted/data")]);
    let bind = if order.data.is_some() || !order.inputs.is_empty() {
        " --bind \"$submitted\""
    } else {
        ""
    };
    let nv = if order.gpus > 0 { " --nv" } else { "" };
    let run = match &order.image {
        Some(image) if image.source.starts_with('/') || image.source.contains("://") => {
            format!("apptainer exec{nv}{bind} {} {command}", image.source)
        }
        Some(image) => {
            format!("apptainer exec{nv}{bind} \"$submitted/{}\" {command}", image.source)
        }
        None => command,
    };
    let _ = writeln!(text, "\nsrun --kill-on-bad-exit=1 {run}\ncode=$?");
    if order.checkpoint.is_some() {
        text.push_str("# It saved: wait again, and resume there.\n[ \"$code\" -eq 85 ] && scontrol requeue \"$SLURM_JOB_ID\"\n");
    }
    text.push_str("exit \"$code\"\n");
    text
}

/// D-HH:MM:SS
fn time(hours: f64) -> String {
    let minutes = (hours * 60.0).ceil().max(1.0) as u64;
    let (days, minutes) = (minutes / 1440, minutes % 1440);
    format!("{days}-{:02}:{:02}:00", minutes / 60, minutes % 60)
}
