//! Programs of several processes: what `srun` starts, and where the processes meet.

use super::read::Header;
use crate::disk::base_name;
use crate::finding::FileFindings;
use crate::rules;
use crate::script::shell::{Command, Script};

/// The options of `srun` itself, not those of the program that it starts.
fn own_options(srun: &Command) -> impl Iterator<Item = &str> {
    let mut takes_value = false;
    let words = srun.call().iter().skip(1).map(String::as_str);
    let own = words.take_while(move |word| {
        let is_option = word.starts_with('-');
        let is_own =
            is_option || (takes_value && !matches!(*word, "bash" | "sh" | "python" | "python3"));
        takes_value = is_option && !word.contains('=');
        is_own
    });
    own.filter(|word| word.starts_with('-'))
}

/// Cores and the meeting place of several processes.
pub(super) fn ranks(header: &Header, text: &str, script: &Script, report: &mut FileFindings) {
    let srun = script.commands.iter().find(|command| command.program() == "srun");
    if let (Some(cpus), Some(srun)) = (header.get("cpus-per-task"), srun) {
        let given = own_options(srun)
            .any(|word| word.starts_with("--cpus-per-task") || word.starts_with("-c"));
        if !given && !text.contains("SRUN_CPUS_PER_TASK") && cpus.value != "1" {
            let what = "srun does not inherit `--cpus-per-task`";
            report.add(&rules::SRUN_CPUS, srun.line, what);
        }
    }
    let early = |command: &&Command| {
        command.program() == "srun"
            && command.words.windows(2).any(|pair| match pair {
                [option, value] => option.ends_with("rank") && value == "$SLURM_PROCID",
                _ => false,
            })
            || command.words.iter().any(|word| word.ends_with("rank=$SLURM_PROCID"))
    };
    if let Some(command) = script.commands.iter().find(early) {
        let what = "SLURM_PROCID is replaced before srun starts the tasks";
        report.add(&rules::RANK_TOO_EARLY, command.line, what);
    }
    let nodes = header.number("nodes").unwrap_or(1);
    let tasks = header.number("ntasks").or_else(|| header.number("ntasks-per-node")).unwrap_or(1);
    let learns = ["torch", "gular-train", "train.py"].iter().any(|word| text.contains(word));
    let here = |command: &&Command| {
        let mut words = command.words.iter().map(|word| word.trim_start_matches("export "));
        words.any(|word| {
            let value = word.strip_prefix("MASTER_ADDR=").map(|value| value.trim_matches('"'));
            matches!(value, Some("localhost" | "127.0.0.1" | "0.0.0.0"))
        })
    };
    if let Some(command) = script.commands.iter().find(here).filter(|_| nodes > 1) {
        report.add(&rules::NO_MASTER_ADDR, command.line, "MASTER_ADDR is each node itself");
    }
    if let Some(command) = script.commands.iter().find(|c| is_alone(c, text)).filter(|_| nodes > 1)
    {
        let what = "the launcher is not told where the nodes meet: it starts one training per node";
        report.add(&rules::NO_MASTER_ADDR, command.line, what).fix(
            "give torchrun `--rdzv-backend c10d --rdzv-id $SLURM_JOB_ID --rdzv-endpoint HOST:PORT`, and accelerate `--main_process_ip HOST --main_process_port PORT`, with the first node as HOST",
        );
        return;
    }
    let meets = ["MASTER_ADDR", "--rdzv", "--master", "jax", "horovod", "mpirun"]
        .iter()
        .any(|word| text.contains(word));
    if (nodes > 1 || tasks > 1)
        && learns
        && !meets
        && srun.is_some()
        && header.get("array").is_none()
    {
        let line = srun.map_or(1, |srun| srun.line);
        report.add(
            &rules::NO_MASTER_ADDR,
            line,
            "several processes train together, but the address where they meet is not set",
        );
    }
}

/// Whether a launcher of several processes, which reads no MASTER_ADDR, is not told of the other
/// nodes.
fn is_alone(command: &Command, text: &str) -> bool {
    let launchers = ["torchrun", "torch.distributed.run", "torch.distributed.launch", "accelerate"];
    let told = ["--rdzv", "--master", "--main_process_ip", "--main-process-ip", "--config"];
    let by_variable = ["PET_", "ACCELERATE_"].iter().any(|name| text.contains(name));
    let words = || command.call().iter().map(String::as_str);
    let launches = words().any(|word| launchers.contains(&base_name(word)));
    // A variable may hold any option.
    let is_told = words().any(|word| {
        word.starts_with('$') || word == "--standalone" || told.iter().any(|o| word.starts_with(o))
    });
    let n_nodes = words().any(|word| {
        ["--nnodes", "--num_machines", "--num-machines"].iter().any(|o| word.starts_with(o))
    });
    command.program() == "srun" && launches && n_nodes && !is_told && !by_variable
}
