//! Slurm's batch scripts: their `#SBATCH` lines, and the commands below.

use std::collections::BTreeSet;

use crate::disk::{Disk, base_name, below, folder_of};
use crate::finding::{Edit, FileFindings, Finding};
use crate::script::shell::{Command, Next, Script};
use crate::script::{Job, python, shell};
use crate::units::{slurm_bytes, slurm_seconds};

/// Options of sbatch that scripts have.
const OPTIONS: [&str; 86] = [
    "account",
    "acctg-freq",
    "array",
    "batch",
    "bb",
    "bbf",
    "begin",
    "chdir",
    "cluster-constraint",
    "clusters",
    "comment",
    "constraint",
    "container",
    "contiguous",
    "core-spec",
    "cores-per-socket",
    "cpu-freq",
    "cpus-per-gpu",
    "cpus-per-task",
    "deadline",
    "delay-boot",
    "dependency",
    "distribution",
    "error",
    "exclude",
    "exclusive",
    "export",
    "export-file",
    "extra-node-info",
    "get-user-env",
    "gid",
    "gpu-bind",
    "gpu-freq",
    "gpus",
    "gpus-per-node",
    "gpus-per-socket",
    "gpus-per-task",
    "gres",
    "gres-flags",
    "hint",
    "hold",
    "ignore-pbs",
    "input",
    "job-name",
    "kill-on-invalid-dep",
    "licenses",
    "mail-type",
    "mail-user",
    "mcs-label",
    "mem",
    "mem-bind",
    "mem-per-cpu",
    "mem-per-gpu",
    "mincpus",
    "network",
    "nice",
    "no-kill",
    "no-requeue",
    "nodefile",
    "nodelist",
    "nodes",
    "ntasks",
    "ntasks-per-core",
    "ntasks-per-gpu",
    "ntasks-per-node",
    "ntasks-per-socket",
    "open-mode",
    "output",
    "overcommit",
    "oversubscribe",
    "parsable",
    "partition",
    "power",
    "prefer",
    "priority",
    "profile",
    "propagate",
    "qos",
    "quiet",
    "reboot",
    "requeue",
    "reservation",
    "signal",
    "sockets-per-node",
    "spread-job",
    "switches",
];

/// Those that are newer, rare, or take no value.
const MORE: [&str; 14] = [
    "thread-spec",
    "threads-per-core",
    "time",
    "time-min",
    "tmp",
    "tres-bind",
    "tres-per-task",
    "uid",
    "use-min-nodes",
    "verbose",
    "wait",
    "wait-all-nodes",
    "wckey",
    "wrap",
];

/// Letters of options and their long names.
const SHORT: [(char, &str); 28] = [
    ('A', "account"),
    ('a', "array"),
    ('b', "begin"),
    ('B', "extra-node-info"),
    ('c', "cpus-per-task"),
    ('C', "constraint"),
    ('d', "dependency"),
    ('D', "chdir"),
    ('e', "error"),
    ('F', "nodefile"),
    ('G', "gpus"),
    ('H', "hold"),
    ('i', "input"),
    ('J', "job-name"),
    ('k', "no-kill"),
    ('L', "licenses"),
    ('M', "clusters"),
    ('m', "distribution"),
    ('N', "nodes"),
    ('n', "ntasks"),
    ('o', "output"),
    ('O', "overcommit"),
    ('p', "partition"),
    ('q', "qos"),
    ('s', "oversubscribe"),
    ('t', "time"),
    ('w', "nodelist"),
    ('x', "exclude"),
];

/// Minutes that were probably meant as hours.
const LIKE_HOURS: [u64; 13] = [1, 2, 3, 4, 6, 8, 12, 24, 36, 48, 72, 96, 168];

/// One option of a `#SBATCH` line.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Setting {
    line: usize,
    /// The long name.
    name: String,
    value: String,
}

#[derive(Debug, Default)]
struct Header {
    settings: Vec<Setting>,
    /// The first line that is a command.
    first_command: usize,
}

impl Header {
    fn get(&self, name: &str) -> Option<&Setting> {
        self.settings
            .iter()
            .rev()
            .find(|setting| setting.name == name && setting.line < self.first_command)
    }

    fn number(&self, name: &str) -> Option<u64> {
        self.get(name)?.value.split('-').next()?.parse().ok()
    }
}

/// Whether a text is a script for sbatch.
pub(crate) fn is_sbatch(text: &str) -> bool {
    text.starts_with("#!")
        && text.lines().any(|line| line.starts_with("#SBATCH") || line.starts_with("# SBATCH"))
}

/// Findings of the batch script `file`, and of the programs that it names.
pub(crate) fn check(
    file: &str,
    text: &str,
    disk: &dyn Disk,
    seen: &mut BTreeSet<String>,
) -> Vec<Finding> {
    let mut report = FileFindings::new(file);
    let lines: Vec<&str> = text.lines().collect();
    let script = Script::parse(text);
    let header = header(&lines, &script, &mut report);
    settings(&header, &lines, disk, folder_of(file), &mut report);
    array(&header, text, &lines, &mut report);
    values(&header, &mut report);
    left_behind(&header, &script, &mut report);
    signals(&header, text, &script, &mut report);
    ranks(&header, text, &script, &mut report);
    let requeues = text.contains("scontrol requeue");
    let job = Job { restarts: requeues, exit_code: None, inputs: &[] };
    shell::check(text, &script, &job, &mut report);
    if !text.starts_with("#!")
        && let Some(finding) =
            report.findings.iter_mut().find(|finding| finding.rule == "no-shebang")
    {
        finding.why = "sbatch refuses it: `This does not look like a batch script`".to_owned();
    }
    let mut findings = programs(&script, file, disk, &job, &mut report, seen);
    report.findings.sort_by_key(|finding| finding.line);
    report.findings.append(&mut findings);
    report.findings
}

fn header(lines: &[&str], script: &Script, report: &mut FileFindings) -> Header {
    let first_command = script.commands.first().map_or(usize::MAX, |command| command.line);
    let mut header = Header { first_command, ..Header::default() };
    for (i, line) in lines.iter().enumerate() {
        let n = i + 1;
        let near = line.trim_start().trim_start_matches('#').trim_start().to_ascii_uppercase();
        let written = line.strip_prefix("#SBATCH").filter(|rest| rest.starts_with([' ', '\t']));
        let Some(rest) = written else {
            let meant = line.trim_start().starts_with('#')
                && near.starts_with("SBATCH -")
                && !line.trim_start().starts_with("##");
            let glued = line.starts_with("#SBATCH-");
            if meant || glued {
                let options = near.len() - "SBATCH".len();
                let options = line.get(line.len() - options..).unwrap_or_default().trim_start();
                report
                    .error("sbatch-comment", n, [
                        "this line is a comment, not an option",
                        "sbatch reads only lines that begin with `#SBATCH `: the option has no effect",
                        "write `#SBATCH ` at the beginning of the line",
                    ])
                    .edit = Some(Edit { line: n, count: 1, lines: vec![format!("#SBATCH {options}")] });
            }
            continue;
        };
        if n > first_command {
            let what =
                format!("`{}` comes after the first command, in line {first_command}", line.trim());
            report.error(
                "sbatch-late",
                n,
                [
                    &what,
                    "sbatch stops reading options at the first command, so this option has no effect",
                    "move the line above all commands",
                ],
            );
        }
        options(n, rest, &mut header, report, line);
    }
    header
}

/// The options of one line.
fn options(n: usize, text: &str, header: &mut Header, report: &mut FileFindings, raw: &str) {
    let text = text.split(" #").next().unwrap_or_default();
    let mut words = text.split_whitespace().peekable();
    while let Some(word) = words.next() {
        let (name, value) = if let Some(long) = word.strip_prefix("--") {
            let (name, value) =
                long.split_once('=').map_or((long, None), |(name, value)| (name, Some(value)));
            (name.to_owned(), value.map(str::to_owned))
        } else if let Some(letter) = word.strip_prefix('-').and_then(|rest| rest.chars().next()) {
            let value = word
                .get(1 + letter.len_utf8()..)
                .filter(|value| !value.is_empty())
                .map(str::to_owned);
            match SHORT.iter().find(|(short, _)| *short == letter) {
                Some((_, name)) => ((*name).to_owned(), value),
                None if matches!(letter, 'I' | 'Q' | 'v' | 'W' | 'h' | 'V' | 'S') => continue,
                None => (word.to_owned(), value),
            }
        } else {
            let what = format!("`{word}` does not belong to an option");
            report.error(
                "sbatch-option",
                n,
                [
                    &what,
                    "sbatch ignores this word and the words after it, or refuses the script",
                    "write `--option=value`",
                ],
            );
            return;
        };
        let value = value
            .or_else(|| words.next_if(|next| !next.starts_with('-')).map(str::to_owned))
            .unwrap_or_default();
        // An unambiguous beginning is enough for sbatch.
        let known = || OPTIONS.iter().chain(&MORE);
        let beginnings = known().filter(|option| option.starts_with(&name)).count();
        if !known().any(|option| *option == name) && beginnings != 1 {
            let near = known().min_by_key(|option| strsim::damerau_levenshtein(option, &name));
            let most = if name.len() < 6 { 1 } else { 2 };
            let near = near.filter(|option| strsim::damerau_levenshtein(option, &name) <= most);
            let longer: Vec<String> = known()
                .filter(|option| option.starts_with(&name) && name.len() > 2)
                .map(|option| format!("`--{option}`"))
                .collect();
            let near = near.filter(|_| longer.is_empty());
            let what = format!("sbatch has no option `{name}`");
            let fix = match near {
                _ if !longer.is_empty() => format!("write one of {}", longer.join(", ")),
                Some(near) => format!("write `--{near}`"),
                None => "see `man sbatch`".to_owned(),
            };
            report.error("sbatch-option", n, [&what, "sbatch refuses the script", &fix]).edit =
                near.filter(|_| word.starts_with("--")).map(|near| Edit {
                    line: n,
                    count: 1,
                    lines: vec![raw.replacen(&name, near, 1)],
                });
        }
        header.settings.push(Setting {
            line: n,
            name,
            value: value.trim_matches(['"', '\'']).to_owned(),
        });
    }
}

/// Values of options.
fn settings(
    header: &Header,
    lines: &[&str],
    disk: &dyn Disk,
    folder: &str,
    report: &mut FileFindings,
) {
    for setting in &header.settings {
        let Setting { line, name, value } = setting;
        let raw = lines.get(line - 1).copied().unwrap_or_default();
        if value.contains('$') || value.starts_with('~') {
            let what = format!("`{value}` is not expanded");
            report.error("sbatch-variable", *line, [
                &what,
                "no shell expands `#SBATCH` lines: the text is taken literally, such as a folder named `$HOME`",
                "write the value itself; use %x (name), %j (job) or %a (array); or give the option to the command `sbatch`",
            ]);
            continue;
        }
        match name.as_str() {
            "mem" | "mem-per-cpu" | "mem-per-gpu" => match slurm_bytes(value) {
                None => {
                    let what = format!("`--{name}={value}` is not a size");
                    report.error(
                        "unit",
                        *line,
                        [
                            &what,
                            "sbatch refuses the script",
                            "write a whole number and K, M, G or T",
                        ],
                    );
                }
                Some(bytes)
                    if bytes > 0
                        && bytes < 256 << 20
                        && value.chars().all(|c| c.is_ascii_digit()) =>
                {
                    let what = format!("`--{name}={value}` is {value} MB");
                    report
                        .error(
                            "unit",
                            *line,
                            [
                                &what,
                                "the job is killed as soon as it uses more",
                                &format!("write {value}G"),
                            ],
                        )
                        .edit = Some(Edit {
                        line: *line,
                        count: 1,
                        lines: vec![raw.replacen(value, &format!("{value}G"), 1)],
                    });
                }
                Some(_) => {}
            },
            "time" => match slurm_seconds(value) {
                None => {
                    let what = format!("`--time={value}` is not a time");
                    report.error(
                        "unit",
                        *line,
                        [
                            &what,
                            "sbatch refuses the script",
                            "write minutes, H:MM:SS or D-HH:MM:SS",
                        ],
                    );
                }
                Some(seconds)
                    if seconds > 0
                        && seconds < 600
                        && value.split(':').count() == 2
                        && !value.contains('-') =>
                {
                    let what = format!(
                        "`--time={value}` is {seconds} seconds: Slurm reads it as minutes and seconds"
                    );
                    report.warning(
                        "unit",
                        *line,
                        [
                            &what,
                            "Slurm reads two numbers as minutes and seconds, not as hours and minutes",
                            &format!("write {value}:00 for hours and minutes"),
                        ],
                    );
                }
                Some(seconds)
                    if value.chars().all(|c| c.is_ascii_digit())
                        && LIKE_HOURS.contains(&(seconds / 60)) =>
                {
                    let minutes = seconds / 60;
                    let what = format!("`--time={value}` is {value} minutes");
                    report.warning(
                        "unit",
                        *line,
                        [
                            &what,
                            "Slurm stops the job after that time",
                            &format!(
                                "write `{value}:00:00` for hours, for minutes `{:02}:{:02}:00`",
                                minutes / 60,
                                minutes % 60
                            ),
                        ],
                    );
                }
                Some(_) => {}
            },
            "nodes" | "ntasks" | "ntasks-per-node" | "cpus-per-task" | "gpus-per-node" => {
                let number = value.rsplit(':').next().unwrap_or_default();
                if number.split('-').any(|part| part.parse::<u64>().is_err()) {
                    let what = format!("`--{name}={value}` is not a number");
                    report.error(
                        "bad-value",
                        *line,
                        [&what, "sbatch refuses the script", "write a whole number"],
                    );
                }
            }
            "output" | "error" => {
                let Some((parent, _)) = value
                    .rsplit_once('/')
                    .filter(|(parent, _)| !parent.is_empty() && !parent.contains('%'))
                else {
                    continue;
                };
                if !disk.exists(&below(folder, parent)) {
                    let what = format!("the folder `{parent}` does not exist");
                    report.error("missing-folder", *line, [
                        &what,
                        "Slurm makes no folders: the job fails at once, with no output that says why",
                        &format!("run `mkdir -p {parent}` before you submit the job"),
                    ]);
                }
            }
            _ => {}
        }
    }
    if header.get("time").is_none() {
        let line = header.settings.first().map_or(1, |setting| setting.line);
        report.warning("no-request", line, [
            "`--time` is not set",
            "the partition's default applies: often an hour or less, or the maximum, which waits longest",
            "set `--time`, and let the program save before that time",
        ]);
    }
}

fn array(header: &Header, text: &str, lines: &[&str], report: &mut FileFindings) {
    let Some(array) = header.get("array") else { return };
    for name in ["output", "error"] {
        let Some(setting) = header.get(name) else { continue };
        let own = ["%a", "%j", "%J", "/dev/null"].iter().any(|part| setting.value.contains(part));
        if !own {
            let what = format!("all jobs of the array write `--{name}` to `{}`", setting.value);
            let (stem, end) = setting
                .value
                .rsplit_once('.')
                .map_or((setting.value.as_str(), String::new()), |(stem, end)| {
                    (stem, format!(".{end}"))
                });
            let right = format!("{stem}_%a{end}");
            let raw = lines.get(setting.line - 1).copied().unwrap_or_default();
            report
                .error(
                    "stdout-collides",
                    setting.line,
                    [&what, "each overwrites what the others wrote", &format!("write `{right}`")],
                )
                .edit = Some(Edit {
                line: setting.line,
                count: 1,
                lines: vec![raw.replacen(&setting.value, &right, 1)],
            });
        }
    }
    if !text.contains("SLURM_ARRAY_TASK_ID") {
        report.error(
            "array-unused",
            array.line,
            [
                "nothing reads SLURM_ARRAY_TASK_ID",
                "all jobs of the array do the same work and write the same files",
                "choose the parameters and the names of outputs by `$SLURM_ARRAY_TASK_ID`",
            ],
        );
    }
}

fn signals(header: &Header, text: &str, script: &Script, report: &mut FileFindings) {
    if let Some(signal) = header.get("signal") {
        let to_shell = signal.value.starts_with("B:")
            || signal.value.starts_with("BR:")
            || signal.value.starts_with("RB:");
        let name = signal
            .value
            .split(':')
            .next_back()
            .unwrap_or_default()
            .split('@')
            .next()
            .unwrap_or_default();
        let name = name.trim_start_matches("SIG");
        let traps = script.commands.iter().any(|c| {
            c.program() == "trap"
                && c.words.iter().any(|word| word.trim_start_matches("SIG") == name)
        });
        let has_srun = script
            .commands
            .iter()
            .any(|c| c.program() == "srun" || c.words.iter().any(|word| word == "srun"));
        if to_shell && !traps {
            let what = format!(
                "`--signal={}` goes to this shell, which has no trap for {name}",
                signal.value
            );
            report.error(
                "signal-unheard",
                signal.line,
                [
                    &what,
                    "the signal ends the shell before the program can save",
                    &format!(
                        "leave out `B:` to send the signal to the srun step, or add `trap … {name}`"
                    ),
                ],
            );
        } else if !to_shell && !has_srun {
            let what = format!(
                "`--signal={}` is sent to srun steps, but the script starts none",
                signal.value
            );
            report.error(
                "signal-unheard",
                signal.line,
                [
                    &what,
                    "no process gets the signal: the program is killed at the time limit",
                    "start the program with `srun`",
                ],
            );
        }
    }
    if text.contains("scontrol requeue") || header.get("requeue").is_some() {
        let line = header
            .get("requeue")
            .map_or_else(|| line_of(text, "scontrol requeue"), |setting| setting.line);
        if header.get("open-mode").is_none_or(|setting| setting.value != "append") {
            let at = header.settings.first().map_or(2, |setting| setting.line);
            report
                .warning(
                    "requeue-truncates",
                    line,
                    [
                        "a requeued job empties its output file",
                        "the output of earlier runs is lost, including the reason of a failure",
                        "add `#SBATCH --open-mode=append`",
                    ],
                )
                .edit = Some(Edit {
                line: at,
                count: 0,
                lines: vec!["#SBATCH --open-mode=append".to_owned()],
            });
        }
        if header.get("no-requeue").is_some() {
            report.error(
                "requeue-forbidden",
                line,
                [
                    "`--no-requeue` is set, but the script requeues the job",
                    "Slurm refuses to requeue the job",
                    "remove `--no-requeue`",
                ],
            );
        }
    }
}

/// Values with a form of their own.
fn values(header: &Header, report: &mut FileFindings) {
    for Setting { line, name, value } in &header.settings {
        let fault = match name.as_str() {
            "array" if !is_array(value) => {
                "write numbers and ranges: `1-16`, `1,3,7`, `0-15%4` for four at a time"
            }
            "gres" if !is_gres(value) => "write `gpu:4`, or with a type `gpu:a100:4`",
            _ => continue,
        };
        let what = format!("`--{name}={value}` cannot be read");
        report.error("bad-value", *line, [&what, "sbatch refuses the script", fault]);
    }
}

/// `0-15`, `1,3,7`, `0-99:10%4`
fn is_array(value: &str) -> bool {
    let numbers = value.split('%').next().unwrap_or_default();
    let numbers = numbers.trim_start_matches('[').trim_end_matches(']');
    let number = |text: &str| text.parse::<u32>().ok();
    let is_range = |text: &str| {
        let (range, step) = text.split_once(':').unwrap_or((text, "1"));
        match range.split_once('-') {
            Some((first, last)) => {
                number(first).zip(number(last)).is_some_and(|(first, last)| first <= last)
                    && number(step).is_some()
            }
            None => number(range).is_some() && !text.contains(':'),
        }
    };
    numbers.split(',').all(is_range)
}

/// `gpu`, `gpu:4`, `gpu:a100:4`, `gpu:1,nvme:2`
fn is_gres(value: &str) -> bool {
    let is_name = |text: &str| {
        !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "_-./".contains(c))
    };
    value.eq_ignore_ascii_case("none")
        || value.split(',').all(|part| {
            part.split('(').next().unwrap_or_default().split(':').count() <= 3
                && part.split('(').next().unwrap_or_default().split(':').all(is_name)
        })
}

/// Programs that the script does not wait for, and nodes that it starts nothing on.
fn left_behind(header: &Header, script: &Script, report: &mut FileFindings) {
    let waits = script.commands.iter().any(|command| command.program() == "wait");
    let last = script.commands.iter().rfind(|command| command.is_work());
    if let Some(command) = last.filter(|command| command.next == Next::Beside && !waits) {
        let name = command.script().unwrap_or_else(|| command.program());
        let what = format!("nothing waits for `{name}`, which runs in the background (`&`)");
        report.error(
            "no-wait",
            command.line,
            [
                &what,
                "the job ends with its script, and Slurm kills what still runs",
                "remove the `&`, or write `wait` at the end",
            ],
        );
    }
    let several = header.number("nodes").unwrap_or(1) > 1;
    let starts =
        ["srun", "mpirun", "mpiexec", "prun", "jsrun", "aprun", "pdsh", "ssh", "ray", "dask"];
    let remote = script.commands.iter().any(|command| {
        command.words.iter().any(|word| starts.iter().any(|start| word.contains(start)))
    });
    if let Some((setting, command)) = header.get("nodes").zip(last).filter(|_| several && !remote) {
        let name = command.script().unwrap_or_else(|| command.program());
        let what =
            format!("`--nodes={}`, and `{name}` starts on the first node alone", setting.value);
        report.warning("idle-nodes", command.line, [
            &what,
            "only `srun` starts programs on the other nodes: they are idle, and their hours are charged",
            "write `srun` before it, or ask for one node",
        ]);
    }
}

fn line_of(text: &str, word: &str) -> usize {
    text.lines().position(|line| line.contains(word)).map_or(1, |at| at + 1)
}

/// Cores and the meeting place of several processes.
fn ranks(header: &Header, text: &str, script: &Script, report: &mut FileFindings) {
    let srun = script.commands.iter().find(|command| command.program() == "srun");
    if let (Some(cpus), Some(srun)) = (header.get("cpus-per-task"), srun) {
        let given = srun.words.iter().any(|word| {
            word.starts_with("--cpus-per-task") || word == "-c" || word.starts_with("-c")
        });
        if !given && !text.contains("SRUN_CPUS_PER_TASK") && cpus.value != "1" {
            report
                .error("srun-cpus", srun.line, [
                    "srun does not inherit `--cpus-per-task`",
                    "from Slurm 22.05 on each task gets one core: threads that decode images share it, and training is many times slower",
                    "run `export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK` before `srun`",
                ])
                .edit = Some(Edit { line: srun.line, count: 0, lines: vec!["export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK".to_owned()] });
        }
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
        report.error("no-master-addr", command.line, [
            "MASTER_ADDR is each node itself",
            "the processes of the other nodes wait there for a first one that never comes",
            "`export MASTER_ADDR=$(scontrol show hostnames \"$SLURM_JOB_NODELIST\" | head -n 1)`",
        ]);
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
        report.error("no-master-addr", line, [
            "several processes train together, but the address where they meet is not set",
            "each process waits for MASTER_ADDR and MASTER_PORT, or trains alone",
            "add `export MASTER_ADDR=$(scontrol show hostnames \"$SLURM_JOB_NODELIST\" | head -n 1) MASTER_PORT=$((20000 + SLURM_JOB_ID % 10000))`",
        ]);
    }
}

/// Scripts and images that it names.
fn programs(
    script: &Script,
    file: &str,
    disk: &dyn Disk,
    job: &Job<'_>,
    report: &mut FileFindings,
    seen: &mut BTreeSet<String>,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    let moved = script.commands.iter().any(|command| matches!(command.program(), "cd" | "pushd"));
    let linked = linked(script);
    let folder = folder_of(file);
    let is_missing = |name: &str, path: &str| match &linked {
        Some(linked) => {
            let first = name.trim_start_matches("./").split('/').next();
            !first.is_some_and(|first| linked.contains(&first)) && !disk.exists(path)
        }
        None => !moved && !script.brings_files() && !disk.exists(path),
    };
    for (line, name) in script.scripts() {
        if name.contains('$') || name.starts_with('/') {
            continue;
        }
        let path = below(folder, name);
        match disk.text(&path) {
            Some(text) if name.ends_with(".py") && seen.insert(path.clone()) => {
                let mut own = FileFindings::new(&path);
                python::check(&text, job, &mut own);
                findings.append(&mut own.findings);
            }
            None if is_missing(name, &path) => {
                let what = format!("`{name}` does not exist");
                report.error(
                    "missing-file",
                    line,
                    [
                        &what,
                        "the job fails as soon as it starts",
                        "give a file that exists; paths are relative to the folder where `sbatch` is called",
                    ],
                );
            }
            _ => {}
        }
    }
    for command in &script.commands {
        let is_image = |word: &&String| {
            word.ends_with(".sif") && !word.contains(['$', '=']) && !word.contains("://")
        };
        if !command.words.iter().any(|word| matches!(base_name(word), "apptainer" | "singularity"))
        {
            continue;
        }
        if let Some(image) = command
            .words
            .iter()
            .find(is_image)
            .filter(|image| !moved && !disk.exists(&below(folder, image)))
        {
            let what = format!("`{image}` does not exist");
            report.error(
                "missing-file",
                command.line,
                [&what, "the job fails as soon as it starts", "give an image that exists"],
            );
        }
    }
    findings
}

/// What is in the folder that the script makes, links files into and enters; `None` where it does
/// not, or where other files may be.
fn linked(script: &Script) -> Option<Vec<&str>> {
    let all = |program: &'static str| {
        script.commands.iter().filter(move |command| command.program() == program)
    };
    let entered = all("cd").map(|command| command.call().get(1)).collect::<Option<Vec<_>>>()?;
    let [entered] = entered.as_slice() else { return None };
    let made = all("mkdir").any(|command| command.call().contains(entered));
    let brings = script.commands.iter().any(|c| c.program() != "cd" && c.brings());
    let links = all("ln").map(|command| {
        let words = command.call().iter().skip(1).map(String::as_str);
        let words: Vec<&str> = words.filter(|word| !word.starts_with('-')).collect();
        match words.as_slice() {
            [source, "." | "./"] if !base_name(source).contains(['*', '?', '$']) => {
                Some(base_name(source))
            }
            _ => None,
        }
    });
    let linked = links.collect::<Option<Vec<&str>>>()?;
    (made && !brings && !linked.is_empty()).then_some(linked)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::tests::Files;

    fn rules(text: &str) -> Vec<(&'static str, usize)> {
        let disk = Files::of(&[("logs/x", ""), ("t.py", ""), ("train.py", "")]);
        let found = check("x.sbatch", text, &disk, &mut BTreeSet::new());
        found.into_iter().map(|finding| (finding.rule, finding.line)).collect()
    }

    #[test]
    fn each_trap_of_a_batch_script_is_found_and_its_repair_is_not() {
        let check = |body: &str, expected: &[(&'static str, usize)]| {
            let text = format!("#!/bin/bash\n#SBATCH --time=1:00:00\n{body}");
            assert_eq!(rules(&text), expected, "{text}");
        };
        check("#SBATCH -N 1 -n4 --mem=16G\nsrun python train.py\n", &[("no-master-addr", 4)]);
        check("#SBATCH -N 1 --mem=16G # enough\nsrun python t.py\n", &[]);
        check("# SBATCH --mem=16G\ntrue\n", &[("sbatch-comment", 3)]);
        check("true\n#SBATCH --mem=16G\n", &[("sbatch-late", 4)]);
        check("#SBATCH --memory=16G\ntrue\n", &[("sbatch-option", 3)]);
        check("#SBATCH --mem=16\ntrue\n", &[("unit", 3)]);
        check("#SBATCH --mem=16 GB\ntrue\n", &[("sbatch-option", 3), ("unit", 3)]);
        check("#SBATCH --time=lots\ntrue\n", &[("unit", 3)]);
        check("#SBATCH --time=24\ntrue\n", &[("unit", 3)]);
        check("#SBATCH --time=30\ntrue\n", &[]);
        check("#SBATCH --time=24:00:00\ntrue\n", &[]);
        check("#SBATCH --output=$HOME/x\ntrue\n", &[("sbatch-variable", 3)]);
        check("#SBATCH --output=none/x\ntrue\n", &[("missing-folder", 3)]);
        check("#SBATCH --output=logs/%j\ntrue\n", &[]);
        check(
            "#SBATCH --array=0-3 --output=a.out\necho $SLURM_ARRAY_TASK_ID\n",
            &[("stdout-collides", 3)],
        );
        check("#SBATCH --array=0-3\ntrue\n", &[("array-unused", 3)]);
        check("#SBATCH --signal=B:USR1@60\nsrun python t.py\n", &[("signal-unheard", 3)]);
        check("#SBATCH --signal=B:USR1@60\ntrap 'x' USR1\nsrun python t.py\n", &[]);
        check("#SBATCH --signal=USR1@60\npython t.py\n", &[("signal-unheard", 3)]);
        check(
            "srun python t.py\n[ $? -eq 85 ] && scontrol requeue $SLURM_JOB_ID\n",
            &[("requeue-truncates", 4)],
        );
        check("#SBATCH --cpus-per-task=8\nsrun python t.py\n", &[("srun-cpus", 4)]);
        check("python none.py\n", &[("missing-file", 3)]);
        let in_its_folder = |script: &str| {
            format!("mkdir -p \"o/$X\"\ncd \"o/$X\"\nln -sf \"$S/t.py\" .\nsrun python {script}\n")
        };
        check(&in_its_folder("t.py"), &[]);
        check(&in_its_folder("tt.py"), &[("missing-file", 6)]);
        check("srun apptainer exec --nv x.sif true\n", &[("missing-file", 3)]);
        assert_eq!(rules("#!/bin/bash\n#SBATCH -n 1\ntrue"), [("no-request", 2)]);
        check("#SBATCH --mail=me\ntrue\n", &[("sbatch-option", 3)]);
        check("#SBATCH --gres=gpu=4\ntrue\n", &[("bad-value", 3)]);
        check("#SBATCH --gres=gpu:a100:4,nvme:1 -a 1-4\necho $SLURM_ARRAY_TASK_ID\n", &[]);
        check("#SBATCH -a 1..4\necho $SLURM_ARRAY_TASK_ID\n", &[("bad-value", 3)]);
        check("python t.py &\n", &[("no-wait", 3)]);
        check("python t.py --a &\npython t.py --b &\nwait\n", &[]);
        check("#SBATCH -N 2\ntorchrun t.py\n", &[("idle-nodes", 4)]);
        check("#SBATCH -N 2\nsrun torchrun --rdzv-endpoint=$H t.py\n", &[]);
        let meet =
            |host: &str| format!("#SBATCH -N 2\nexport MASTER_ADDR={host}\nsrun python train.py\n");
        check(&meet("localhost"), &[("no-master-addr", 4)]);
        check(&meet("$(hostname)"), &[]);
    }

    #[test]
    fn lists_of_an_array_and_of_devices_are_read() {
        for right in ["0-15", "1,3,7", "0-99:10%4", "5", "1-4%2,6", "[1-4]"] {
            assert!(is_array(right), "{right}");
        }
        for wrong in ["", "1..4", "0:15", "a", "1-", "4-1", "1 - 4"] {
            assert!(!is_array(wrong), "{wrong}");
        }
        for right in ["gpu", "gpu:4", "gpu:a100:4", "gpu:1(S:0-1),nvme:2", "none"] {
            assert!(is_gres(right), "{right}");
        }
        for wrong in ["gpu=4", "gpu:", "gpu:a:b:1", "", "gpu: 4"] {
            assert!(!is_gres(wrong), "{wrong}");
        }
    }

    #[test]
    fn odd_lines_do_not_panic() {
        for odd in [
            "#SBATCH",
            "#SBATCH -",
            "#SBATCH --",
            "#SBATCH --=",
            "#SBATCH é",
            "#SBATCH -é",
            "# sbatch -é",
            "#SBATCH --mem",
            "#SBATCH --array",
        ] {
            rules(&format!("#!/bin/sh\n{odd}\n"));
            rules(odd);
        }
    }
}
