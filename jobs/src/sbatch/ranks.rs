//! Programs of several processes: what `srun` starts, and where the processes meet.

use super::read::Header;
use crate::disk::base_name;
use crate::finding::FileFindings;
use crate::rules;
use crate::script::shell::{Command, Script};

/// Programs that start the processes of a training run, and read no MASTER_ADDR of Slurm's tasks.
const LAUNCHERS: [&str; 4] =
    ["torchrun", "torch.distributed.run", "torch.distributed.launch", "accelerate"];

/// Programs that are not the value of the option of `srun` before them.
const PROGRAMS: [&str; 9] = [
    "bash",
    "sh",
    "python",
    "python3",
    "env",
    "apptainer",
    "singularity",
    "torchrun",
    "accelerate",
];

/// What Slurm sets for each task; in the batch script itself, each is 0.
const OF_TASKS: [&str; 3] = ["SLURM_PROCID", "SLURM_NODEID", "SLURM_LOCALID"];

const TORCHRUN: &str = "give torchrun `--rdzv-backend c10d --rdzv-id $SLURM_JOB_ID --rdzv-endpoint HOST:PORT`, and accelerate `--main_process_ip HOST --main_process_port PORT`, with the first node as HOST";

/// Cores and the meeting place of several processes. `program` returns the text of a program that
/// the script starts.
pub(super) fn ranks(
    header: &Header,
    text: &str,
    script: &Script,
    program: &dyn Fn(&str) -> Option<String>,
    report: &mut FileFindings,
) {
    let srun = script.commands.iter().find(|command| command.program() == "srun");
    if let (Some(cpus), Some(srun)) = (header.get("cpus-per-task"), srun) {
        let given = own_words(srun)
            .any(|word| word.starts_with("--cpus-per-task") || word.starts_with("-c"));
        if !given && !text.contains("SRUN_CPUS_PER_TASK") && cpus.value != "1" {
            let what = "srun of Slurm 22.05 and 23.02 does not inherit `--cpus-per-task`";
            report.add(&rules::SRUN_CPUS, srun.line, what);
        }
    }
    if !too_early(header, script, report) {
        exported(header, script, program, report);
    }
    let launchers: Vec<Launcher<'_>> = script.commands.iter().filter_map(Launcher::of).collect();
    for launcher in &launchers {
        multiplied(header, launcher, report);
    }
    meeting_place(header, text, script, &launchers, report);
}

/// The options of `srun` itself and their values, not those of the program that it starts.
pub(crate) fn own_words(srun: &Command) -> impl Iterator<Item = &str> {
    let mut takes_value = false;
    let words = srun.call().iter().skip(1).map(String::as_str);
    words.take_while(move |word| {
        let is_option = word.starts_with('-');
        let is_own = is_option || (takes_value && !PROGRAMS.contains(&base_name(word)));
        takes_value = is_option && !word.contains('=');
        is_own
    })
}

/// The value of an option of `srun` itself: `-N 2`, `-N2`, `--nodes 2`, `--nodes=2`.
fn own_value<'a>(srun: &'a Command, long: &str, short: Option<&str>) -> Option<&'a str> {
    let mut words = own_words(srun);
    while let Some(word) = words.next() {
        if word == long || Some(word) == short {
            return words.next();
        }
        if let Some(value) = word.strip_prefix(long).and_then(|rest| rest.strip_prefix('=')) {
            return Some(value);
        }
        let glued = short.and_then(|short| word.strip_prefix(short));
        if let Some(value) = glued.filter(|_| !word.starts_with("--")) {
            return Some(value);
        }
    }
    None
}

/// A launcher of several processes that `srun` starts.
struct Launcher<'a> {
    srun: &'a Command,
    name: &'a str,
    /// Its options, up to the program that it starts.
    options: Vec<&'a str>,
}

impl<'a> Launcher<'a> {
    fn of(srun: &'a Command) -> Option<Self> {
        if srun.program() != "srun" {
            return None;
        }
        // `bash -c '…'` is one word of the batch script.
        let words = srun.call().iter().flat_map(|word| word.split_whitespace());
        let mut words = words.map(|word| word.trim_matches(['"', '\'']));
        let name = words.find(|word| LAUNCHERS.contains(&base_name(word)))?;
        let options = words.take_while(|word| !word.ends_with(".py")).collect();
        Some(Self { srun, name: base_name(name), options })
    }

    /// The value of an option, which may be written with `-` or `_`.
    fn option(&self, name: &str) -> Option<&'a str> {
        self.options.iter().enumerate().find_map(|(i, word)| {
            let (own, value) = word.split_once('=').map_or((*word, None), |(n, v)| (n, Some(v)));
            let value = value.or_else(|| self.options.get(i + 1).copied());
            value.filter(|_| own.replace('_', "-") == name)
        })
    }

    /// The number of nodes on which `srun` starts it, as far as it is known.
    fn nodes(&self, header: &Header) -> u64 {
        let own = own_value(self.srun, "--nodes", Some("-N"));
        let own = own.and_then(|own| own.split('-').next()?.parse().ok());
        own.or_else(|| header.number("nodes")).unwrap_or(1)
    }

    /// The number of nodes that it is told of.
    fn told_nodes(&self) -> Option<u64> {
        ["--nnodes", "--num-machines"]
            .iter()
            .find_map(|name| self.option(name)?.split(':').next_back()?.parse().ok())
    }

    /// Where its processes shall meet, without the port.
    fn host(&self) -> Option<&'a str> {
        let names = ["--rdzv-endpoint", "--master-addr", "--main-process-ip"];
        let place = names.iter().find_map(|name| self.option(name))?;
        let is_port = |port: &str| !port.contains(']') && !port.contains(':');
        Some(match place.rsplit_once(':') {
            Some((host, port)) if is_port(port) && !host.ends_with(':') => host,
            _ => place,
        })
    }

    /// Whether it, which reads no MASTER_ADDR, is not told of the other nodes.
    fn is_alone(&self, text: &str) -> bool {
        let told = ["--rdzv", "--master", "--main_process_ip", "--main-process-ip", "--config"];
        let by_variable = ["PET_", "ACCELERATE_"].iter().any(|name| text.contains(name));
        // A variable may hold any option.
        let is_told = self.options.iter().any(|word| {
            word.starts_with('$') || told.iter().any(|option| word.starts_with(option))
        });
        let n_nodes = ["--nnodes", "--num-machines"].iter().any(|name| self.option(name).is_some());
        n_nodes && !is_told && !by_variable
    }
}

/// The variable of each task that a value is.
fn of_tasks(value: &str) -> Option<&'static str> {
    let name = value.strip_prefix("${").and_then(|rest| rest.strip_suffix('}'));
    let name = name.or_else(|| value.strip_prefix('$'))?;
    OF_TASKS.into_iter().find(|known| *known == name)
}

/// Reports ranks that the batch shell replaces before there are any tasks; whether it did.
fn too_early(header: &Header, script: &Script, report: &mut FileFindings) -> bool {
    // `NODE_RANK=$SLURM_NODEID` in the batch script.
    let assigned = { script.commands.iter() }.flat_map(|command| &command.words);
    let assigned = assigned.filter_map(|word| {
        let (name, value) = word.split_once('=')?;
        let is_name = name.chars().all(|c| c.is_alphanumeric() || c == '_');
        Some((name, of_tasks(value).filter(|_| is_name)?))
    });
    let assigned: Vec<(&str, &str)> = assigned.collect();
    let replaced = |value: &str| {
        let value = value.trim_matches('\'');
        let by_name = || {
            let is = |name: &str| value == format!("${name}") || value == format!("${{{name}}}");
            assigned.iter().find(|(name, _)| is(name)).map(|(_, of)| *of)
        };
        of_tasks(value).or_else(by_name)
    };
    for srun in script.commands.iter().filter(|command| command.program() == "srun") {
        // What is in single quotes is left to the shell of each task.
        let tokens = script.tokens_of(srun).iter().map(|token| token.text.as_str());
        let words: Vec<String> = tokens
            .flat_map(|raw| match raw.split_once('\'') {
                Some((head, _)) if !head.contains('"') => vec![String::new()],
                _ => raw.replace('"', "").split_whitespace().map(str::to_owned).collect(),
            })
            .collect();
        let found = words.iter().enumerate().find_map(|(i, word)| {
            let (option, value) = match word.split_once('=') {
                Some((option, value)) => (option, value),
                None => (word.as_str(), words.get(i + 1)?.as_str()),
            };
            let is_rank = option.to_lowercase().ends_with("rank");
            Some((option, replaced(value).filter(|_| is_rank)?))
        });
        let Some((option, variable)) = found else { continue };
        if variable == "SLURM_NODEID" && header.number("nodes") == Some(1) {
            continue;
        }
        let what = format!("{variable} is replaced before srun starts the tasks");
        report.add(&rules::RANK_TOO_EARLY, srun.line, what).fix(format!(
            "let each task's own shell replace it: `srun bash -c '… {option} ${variable} …'`"
        ));
        return true;
    }
    false
}

/// `export RANK=$SLURM_PROCID` before srun, which passes it on to all tasks.
fn exported(
    header: &Header,
    script: &Script,
    program: &dyn Fn(&str) -> Option<String>,
    report: &mut FileFindings,
) {
    let is_several = ["nodes", "ntasks", "tasks", "ntasks-per-node", "tasks-per-node"]
        .iter()
        .any(|name| header.number(name).is_some_and(|n| n > 1));
    let Some(srun) = script.commands.iter().rfind(|c| c.program() == "srun") else { return };
    // A launcher sets them for each of its own processes, and a program may ask Slurm.
    let asks_slurm = |name: &str| program(name).is_some_and(|text| text.contains("SLURM_PROCID"));
    if Launcher::of(srun).is_some() || srun.script().is_none_or(asks_slurm) {
        return;
    }
    let sets = |command: &Command| matches!(command.program(), "export" | "srun");
    for command in script.commands.iter().filter(|c| sets(c) && c.line <= srun.line) {
        let found = command.words.iter().find_map(|word| {
            let (name, value) = word.split_once('=')?;
            matches!(name, "RANK" | "LOCAL_RANK").then_some((name, of_tasks(value)?))
        });
        // The shell of each task may set it again.
        let again = |name: &str| {
            let sets = |word: &String| word.contains(' ') && word.contains(&format!("{name}="));
            srun.words.iter().any(sets)
        };
        let Some((name, variable)) = found.filter(|(name, _)| is_several && !again(name)) else {
            continue;
        };
        let what =
            format!("{name} is 0 in all tasks: {variable} is replaced before srun starts them");
        report.add(&rules::RANK_TOO_EARLY, command.line, what).fix(format!(
            "let each task's own shell set it: `srun bash -c 'export {name}=${variable}; …'`"
        ));
        return;
    }
}

/// A launcher that `srun` starts in each of several tasks per node.
fn multiplied(header: &Header, launcher: &Launcher<'_>, report: &mut FileFindings) {
    let srun = launcher.srun;
    // Then each task has GPUs of its own.
    let apart = header.get("gpus-per-task").is_some()
        || own_words(srun).any(|word| word.starts_with("--gpus-per-task"));
    let Some(processes) = launcher.option("--nproc-per-node").filter(|_| !apart) else { return };
    let number = processes.parse::<u64>().ok();
    let is_several = number.is_some_and(|n| n > 1)
        || matches!(processes, "gpu" | "auto")
        || processes.starts_with('$');
    let nodes = own_value(srun, "--nodes", Some("-N"))
        .map(str::to_owned)
        .or_else(|| header.get("nodes").map(|setting| setting.value.clone()));
    let nodes = match (nodes, launcher.option("--nnodes")) {
        (Some(nodes), _) => nodes.split('-').next().and_then(|nodes| nodes.parse().ok()),
        (None, Some(_)) => launcher.told_nodes(),
        (None, None) => Some(1),
    };
    let per_node = |tasks: u64| nodes.filter(|n| *n > 0).map(|nodes| tasks.div_ceil(nodes));
    let own_per_node = own_value(srun, "--ntasks-per-node", None);
    let own_tasks = own_value(srun, "--ntasks", Some("-n"));
    let tasks = match (own_per_node, own_tasks) {
        (Some(tasks), _) => tasks.parse().ok(),
        (None, Some(tasks)) => tasks.parse().ok().and_then(per_node),
        (None, None) => {
            let all = header.number("ntasks").and_then(per_node);
            let each = header.number("ntasks-per-node");
            [all, each].into_iter().flatten().min()
        }
    };
    let Some(tasks) = tasks.filter(|tasks| *tasks > 1 && is_several) else { return };
    let all = match number {
        Some(number) => format!(": {} processes on each node", number.saturating_mul(tasks)),
        None => String::new(),
    };
    let what = format!(
        "srun starts `{}` {tasks} times on each node, and each starts {} processes{all}",
        launcher.name,
        number.map_or_else(|| format!("`{processes}`"), |number| number.to_string())
    );
    report.add(&rules::LAUNCHER_PER_TASK, srun.line, what);
}

/// Where several processes meet.
fn meeting_place(
    header: &Header,
    text: &str,
    script: &Script,
    launchers: &[Launcher<'_>],
    report: &mut FileFindings,
) {
    // `srun -n1 … &` starts one process of many that know nothing of each other.
    let is_alone = |srun: &Command| own_value(srun, "--ntasks", Some("-n")) == Some("1");
    let sruns = script.commands.iter().filter(|command| command.program() == "srun");
    let srun = { sruns }.find(|srun| !is_alone(srun));
    let nodes = header.number("nodes").unwrap_or(1);
    let tasks = header.number("ntasks").or_else(|| header.number("ntasks-per-node")).unwrap_or(1);
    let learns = ["torch", "gular-train", "train.py"].iter().any(|word| text.contains(word));
    let here = |command: &&Command| {
        let mut words = command.words.iter().map(|word| word.trim_start_matches("export "));
        words.any(|word| {
            let value = word.strip_prefix("MASTER_ADDR=").map(|value| value.trim_matches('"'));
            value.is_some_and(is_here)
        })
    };
    if let Some(command) = script.commands.iter().find(here).filter(|_| nodes > 1) {
        report.add(&rules::NO_MASTER_ADDR, command.line, "MASTER_ADDR is each node itself");
    }
    for launcher in launchers {
        let own = launcher.nodes(header);
        let several = own > 1
            || (header.get("nodes").is_none() && launcher.told_nodes().is_some_and(|n| n > 1));
        let name = launcher.name;
        let what = if launcher.options.contains(&"--standalone") && own > 1 {
            "`--standalone` starts one training per node, and MASTER_ADDR is not read".to_owned()
        } else if let Some(host) = launcher.host().filter(|host| several && is_here(host)) {
            format!("{name} is told to meet at `{host}`, which is each node itself")
        } else if own > 1 && launcher.is_alone(text) {
            "the launcher is not told where the nodes meet: it starts one training per node"
                .to_owned()
        } else {
            continue;
        };
        report.add(&rules::NO_MASTER_ADDR, launcher.srun.line, what).fix(TORCHRUN);
        return;
    }
    // In Pyxis' containers a hook of Enroot sets it (conf/hooks/extra/50-slurm-pytorch.sh), and
    // Lightning reads Slurm's list of nodes (its SLURMEnvironment), DeepSpeed asks MPI.
    let meets = [
        "MASTER_ADDR",
        "--rdzv",
        "--master",
        "jax",
        "horovod",
        "mpirun",
        "--container-image",
        "lightning",
        "deepspeed",
    ];
    let meets = meets.iter().any(|word| text.contains(word));
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

/// Whether an address is that of the machine itself.
fn is_here(host: &str) -> bool {
    matches!(host, "localhost" | "127.0.0.1" | "0.0.0.0" | "::1" | "[::1]")
}
