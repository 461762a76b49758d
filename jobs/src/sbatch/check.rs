//! Checks the options and commands of a script and the programs that they name against each other.

use std::collections::BTreeSet;

use super::ranks::ranks;
use super::read::{Header, header};
use super::values::{settings, together};
use crate::disk::{Disk, base_name, below, folder_of, start};
use crate::finding::{Edit, FileFindings, JobFinding};
use crate::rules;
use crate::script::shell::{Command, Next, Script};
use crate::script::{self, Job, Language, options, python, shell};

/// Findings of the batch script `file`, and of the programs that it names.
pub(crate) fn check(
    file: &str,
    text: &str,
    disk: &dyn Disk,
    seen: &mut BTreeSet<String>,
) -> Vec<JobFinding> {
    let mut report = FileFindings::new(file);
    let lines: Vec<&str> = text.lines().collect();
    let is_shell = Language::of_script(text) == Language::Shell;
    let script = if is_shell { Script::parse(text) } else { Script::default() };
    let header = header(&lines, &script, &mut report);
    let outputs = ["output", "error"].into_iter().filter_map(|name| header.get(name));
    let outputs = outputs.filter_map(|setting| Some(setting.value.rsplit_once('/')?.0));
    let names = script.scripts().map(|(_, name)| name).chain(outputs);
    let folder = start(file, names, disk);
    settings(&header, &lines, disk, folder, &mut report);
    let read = reads_array_number(text, &script, folder, disk);
    array(&header, read, &lines, &mut report);
    together(&header, &mut report);
    if !is_shell {
        // Slurm starts programs in any language.
        script::other(text, &mut report);
        return report.findings;
    }
    if script.unread.is_some() {
        shell::check(text, &script, &Job::default(), &mut report);
        return report.findings;
    }
    left_behind(&header, &script, &mut report);
    signals(&header, text, &script, &mut report);
    let program = |name: &str| disk.text(&below(folder, name));
    ranks(&header, text, &script, &program, &mut report);
    let requeues = text.contains("scontrol requeue");
    let job = Job { restarts: requeues, needs_shebang: Some(&rules::NOT_SBATCH), ..Job::default() };
    shell::check(text, &script, &job, &mut report);
    // Which files the programs are in another folder is not certain.
    let stays =
        header.get("chdir").is_none_or(|folder| matches!(folder.value.as_str(), "." | "./"));
    let mut findings = Vec::new();
    if stays {
        options::check_in(folder, &script, disk, &mut report);
        findings = programs(&script, folder, disk, &job, &mut report, seen);
    }
    report.findings.sort_by_key(|finding| finding.line);
    report.findings.append(&mut findings);
    report.findings
}

/// Whether the script, or a program beside it that it starts, looks at its number in the array.
fn reads_array_number(text: &str, script: &Script, folder: &str, disk: &dyn Disk) -> bool {
    let is_read = |text: &str| text.contains("SLURM_ARRAY_TASK_ID");
    if is_read(text) {
        return true;
    }
    let words = script.commands.iter().flat_map(|command| &command.words);
    let mut open: Vec<String> = words.map(|word| below(folder, word)).collect();
    let mut seen = BTreeSet::new();
    while let Some(path) = open.pop() {
        let Some(text) = disk.text(&path).filter(|_| seen.insert(path.clone())) else { continue };
        if is_read(&text) {
            return true;
        }
        if path.ends_with(".py") {
            let modules = python::imports(&text).into_iter();
            open.extend(modules.map(|(_, name)| below(folder_of(&path), &format!("{name}.py"))));
        }
    }
    false
}

fn array(header: &Header, is_read: bool, lines: &[&str], report: &mut FileFindings) {
    let Some(array) = header.get("array") else { return };
    let appends = header.get("open-mode").is_some_and(|mode| mode.value == "append");
    // `--array=7` runs one job of an array again.
    let is_one = array.value.bytes().all(|byte| byte.is_ascii_digit());
    for name in ["output", "error"] {
        let Some(setting) = header.get(name) else { continue };
        let is_own = is_own_file(&setting.value) || setting.value.starts_with("/dev/");
        if !is_own && !appends && !is_one {
            let what = format!("all jobs of the array write `--{name}` to `{}`", setting.value);
            let (stem, end) = setting
                .value
                .rsplit_once('.')
                .map_or((setting.value.as_str(), String::new()), |(stem, end)| {
                    (stem, format!(".{end}"))
                });
            let right = format!("{stem}_%a{end}");
            let raw = lines.get(setting.line - 1).copied().unwrap_or_default();
            let short = name.get(..1).unwrap_or_default();
            let options = [format!("--{name}="), format!("--{name} "), format!("-{short} ")];
            let is_own = |head: &&str| options.iter().any(|option| head.ends_with(option));
            report
                .add(&rules::ARRAY_STDOUT, setting.line, what)
                .fix(format!("write `{right}`"))
                .edit =
                raw.trim_end().strip_suffix(setting.value.as_str()).filter(is_own).map(|head| {
                    Edit { line: setting.line, count: 1, lines: vec![format!("{head}{right}")] }
                });
        }
    }
    // With `%1` the jobs run one after another: each continues where the one before it ended.
    if !is_read && !array.value.ends_with("%1") {
        report.add(&rules::ARRAY_UNUSED, array.line, "nothing reads SLURM_ARRAY_TASK_ID");
    }
}

/// Whether a name has the number of a job of an array in it, which may be padded: `%a`, `%4j`.
fn is_own_file(name: &str) -> bool {
    name.split('%').skip(1).any(|part| {
        let part = part.trim_start_matches(|c: char| c.is_ascii_digit());
        part.starts_with(['a', 'j', 'J'])
    })
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
            report.add(&rules::SIGNAL_TO_SHELL, signal.line, what);
        } else if !to_shell && !has_srun {
            let what = format!(
                "`--signal={}` is sent to srun steps, but the script starts none",
                signal.value
            );
            report.add(&rules::SIGNAL_TO_STEPS, signal.line, what);
        }
    }
    if text.contains("scontrol requeue") || header.get("requeue").is_some() {
        let line = header
            .get("requeue")
            .map_or_else(|| line_of(text, "scontrol requeue"), |setting| setting.line);
        if header.get("open-mode").is_none_or(|setting| setting.value != "append") {
            let what = "a requeued job empties its output file";
            report.add(&rules::REQUEUE_TRUNCATES, line, what);
        }
        // Of `--requeue` and `--no-requeue`, sbatch takes the last.
        if header.get("no-requeue").is_some() && header.get("requeue").is_none() {
            report.add(
                &rules::REQUEUE_FORBIDDEN,
                line,
                "`--no-requeue` is set, but the script requeues the job",
            );
        }
    }
}

/// Programs that the script does not wait for, and nodes that it starts nothing on.
fn left_behind(header: &Header, script: &Script, report: &mut FileFindings) {
    let waits = script.commands.iter().any(|command| command.program() == "wait");
    let last = script.commands.iter().rfind(|command| command.is_work());
    // What else runs after it may take as long: a loop that asks a server, or sleeps.
    let loops = |line: usize| {
        let tokens = script.tokens.iter().flatten().filter(|token| token.line > line);
        { tokens }.any(|t| t.at.is_none() && matches!(t.text.as_str(), "for" | "while" | "until"))
    };
    let ends_at_once = |command: &Command| {
        let mut later = script.commands.iter().filter(|later| later.line > command.line);
        !loops(command.line) && !later.any(takes_long)
    };
    let beside =
        |command: &&Command| command.next == Next::Beside && !waits && ends_at_once(command);
    if let Some(command) = last.filter(beside) {
        let name = command.script().unwrap_or_else(|| command.program());
        let what = format!("nothing waits for `{name}`, which runs in the background (`&`)");
        report.add(&rules::NO_WAIT, command.line, what);
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
        report.add(&rules::IDLE_NODES, command.line, what);
    }
}

/// Whether a command may take as long as the work that runs beside it.
fn takes_long(command: &Command) -> bool {
    let follows = |word: &String| {
        word == "--follow"
            || (!word.starts_with("--") && word.starts_with('-') && word.contains(['f', 'F']))
    };
    match command.program() {
        "sleep" => true,
        "tail" => command.call().iter().any(follows),
        // A program of the user's own.
        _ => command.is_work() || command.call().first().is_some_and(|word| word.contains('/')),
    }
}

fn line_of(text: &str, word: &str) -> usize {
    text.lines().position(|line| line.contains(word)).map_or(1, |at| at + 1)
}

/// Checks the scripts and images that the batch script names.
fn programs(
    script: &Script,
    folder: &str,
    disk: &dyn Disk,
    job: &Job<'_>,
    report: &mut FileFindings,
    seen: &mut BTreeSet<String>,
) -> Vec<JobFinding> {
    let mut findings = Vec::new();
    let moved = script.commands.iter().any(|command| matches!(command.program(), "cd" | "pushd"));
    let linked = linked(script);
    let is_missing = |name: &str, path: &str| match &linked {
        Some(linked) => {
            let first = name.trim_start_matches("./").split('/').next();
            !first.is_some_and(|first| linked.contains(&first)) && !disk.exists(path)
        }
        None => !moved && !script.brings_files() && !disk.exists(path),
    };
    for (line, name) in script.scripts() {
        if name.contains('$') || name.starts_with('/') || script.writes(name) {
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
                report.absent(&rules::MISSING_PROGRAM, line, name, disk);
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
            report.absent(&rules::MISSING_PROGRAM, command.line, image, disk);
        }
    }
    findings
}

/// Returns the contents of the folder that the script makes, links files into and enters; `None` if
/// it does not, or if other files may be there.
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
    fn the_output_of_an_array_is_changed_in_its_own_option() {
        let check_line = |line: &str, expected: Option<&str>| {
            let text = format!("#!/bin/bash\n{line}\necho $SLURM_ARRAY_TASK_ID\n");
            let found = check("x.sbatch", &text, &Files::of(&[]), &mut BTreeSet::new());
            let edits: Vec<&Edit> = found.iter().filter_map(|f| f.edit.as_ref()).collect();
            let better = crate::repair("x.sbatch", &text, &edits);
            assert_eq!(better.lines().nth(1), Some(expected.unwrap_or(line)));
        };
        check_line("#SBATCH --array=0-3 --output=out", Some("#SBATCH --array=0-3 --output=out_%a"));
        check_line("#SBATCH -a 0-3 -o o.txt", Some("#SBATCH -a 0-3 -o o_%a.txt"));
        check_line("#SBATCH --output=out --array=0-3", None);
    }

    #[test]
    fn a_program_beside_the_script_may_read_the_number_of_the_array() {
        let text = "#!/bin/bash\n#SBATCH --time=1:00:00 --array=0-3\nsrun python3 src/run.py\n";
        let check = |files: &[(&str, &str)], expected: &[&str]| {
            let found = check("x.sbatch", text, &Files::of(files), &mut BTreeSet::new());
            let found: Vec<_> = found.iter().map(|finding| finding.rule).collect();
            assert_eq!(found, expected, "{files:?}");
        };
        let reads = "import os\ni = int(os.environ['SLURM_ARRAY_TASK_ID'])\n";
        check(&[("src/run.py", reads)], &[]);
        check(&[("src/run.py", "from part import i\n"), ("src/part.py", reads)], &[]);
        check(&[("src/run.py", "from part import i\n"), ("part.py", reads)], &["array-unused"]);
        check(&[("src/run.py", "print(1)\n")], &["array-unused"]);
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
        check("#SBATCH --mem=100 # 100 GB, not MB\ntrue\n", &[("unit", 3)]);
        check("#SBATCH --mem=100 # in MB\ntrue\n", &[]);
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
        let reads = "echo $SLURM_ARRAY_TASK_ID\n";
        for right in [
            "--array=0-3 --output=a_%4a.out",
            "--array=0-3 --output=a_%04j",
            "--array=0-3 --error=/dev/stderr",
            "--array=0-3 --output=a.out --open-mode=append",
            "--array=7 --output=a.out",
        ] {
            check(&format!("#SBATCH {right}\n{reads}"), &[]);
        }
        let same = "#SBATCH --array=7,8 --output=%4x.out\n";
        check(&format!("{same}{reads}"), &[("stdout-collides", 3)]);
        check("#SBATCH --array=0-3\ntrue\n", &[("array-unused", 3)]);
        check("#SBATCH --signal=B:USR1@60\nsrun python t.py\n", &[("signal-unheard", 3)]);
        check("#SBATCH --signal=B:USR1@60\ntrap 'x' USR1\nsrun python t.py\n", &[]);
        check("#SBATCH --signal=USR1@60\npython t.py\n", &[("signal-unheard", 3)]);
        check(
            "srun python t.py\n[ $? -eq 85 ] && scontrol requeue $SLURM_JOB_ID\n",
            &[("requeue-truncates", 4)],
        );
        check("#SBATCH --cpus-per-task=8\nsrun python t.py\n", &[("srun-cpus", 4)]);
        check("#SBATCH --cpus-per-task=8\nsrun -n 2 bash -c 'python t.py'\n", &[("srun-cpus", 4)]);
        check("#SBATCH --cpus-per-task=8\nsrun -c 8 python t.py\n", &[]);
        check("srun a --machine_rank $SLURM_PROCID\n", &[("rank-too-early", 3)]);
        check("srun bash -c 'a --machine_rank $SLURM_PROCID'\n", &[]);
        check("python none.py\n", &[("missing-file", 3)]);
        check("cat <<'EOT' > job.py\nprint()\nEOT\npython job.py\n", &[]);
        check("cat > job.py <<EOT\nprint()\nEOT\npython job.py\n", &[]);
        let in_its_folder = |script: &str| {
            format!("mkdir -p \"o/$X\"\ncd \"o/$X\"\nln -sf \"$S/t.py\" .\nsrun python {script}\n")
        };
        check(&in_its_folder("t.py"), &[]);
        check(&in_its_folder("tt.py"), &[("missing-file", 6)]);
        check("srun apptainer exec --nv x.sif true\n", &[("missing-file", 3)]);
        assert_eq!(rules("#!/bin/bash\n#SBATCH -n 1\ntrue"), [("no-request", 2)]);
        check("#SBATCH --mail=me\ntrue\n", &[("sbatch-option", 3)]);
        for right in [
            "--tasks=4 --tasks-per-node=4",
            "--nodes=1k",
            "--segment=2 --stepmgr",
            "hetjob",
            "--mem=0",
        ] {
            check(&format!("#SBATCH {right}\ntrue\n"), &[]);
        }
        check("#SBATCH --time=UNLIMITED\ntrue\n", &[]);
        check("sbatch <<E\n#!/bin/sh\n#SBATCH --mem=1G\nE\n", &[]);
        check("source environment.sh\nbash -c 'python x.py'\n", &[]);
        check("#SBATCH --gres=gpu=4\ntrue\n", &[("bad-value", 3)]);
        check("#SBATCH --gres=gpu:a100:4,nvme:1 -a 1-4\necho $SLURM_ARRAY_TASK_ID\n", &[]);
        check("#SBATCH -a 1..4\necho $SLURM_ARRAY_TASK_ID\n", &[("bad-value", 3)]);
        check("python t.py &\n", &[("no-wait", 3)]);
        check("python t.py --a &\npython t.py --b &\nwait\n", &[]);
        check("#SBATCH -N 2\ntorchrun t.py\n", &[("idle-nodes", 4)]);
        check("#SBATCH -N 2\nsrun torchrun --rdzv-endpoint=$H t.py\n", &[]);
        for launcher in ["torchrun --nnodes 2", "accelerate launch --num_machines 2"] {
            let text = |options: &str| {
                format!("#SBATCH -N 2\nexport MASTER_ADDR=a\nsrun {launcher} {options} t.py\n")
            };
            check(&text("--max-restarts 1"), &[("no-master-addr", 5)]);
            for told in ["--rdzv_endpoint=$A:1", "--main_process_ip $A", "$OPTIONS"] {
                check(&text(told), &[]);
            }
        }
        let meet =
            |host: &str| format!("#SBATCH -N 2\nexport MASTER_ADDR={host}\nsrun python train.py\n");
        check(&meet("localhost"), &[("no-master-addr", 4)]);
        check(&meet("$(hostname)"), &[]);
    }

    /// The finding's texts of the rule `name` in a script with these lines.
    fn said(name: &str, body: &str) -> Vec<String> {
        let text = format!("#!/bin/bash\n#SBATCH --time=1:00:00\n{body}\n");
        let disk = Files::of(&[("t.py", "")]);
        let found = check("x.sbatch", &text, &disk, &mut BTreeSet::new());
        { found.into_iter() }.filter(|f| f.rule == name).map(|f| f.what).collect()
    }

    #[test]
    fn work_in_the_background_is_found_unless_something_long_follows() {
        let n = |after: &str| said("no-wait", &format!("srun python t.py &\n{after}")).len();
        for quick in [
            "cp a b",
            "rm -f x",
            "mkdir -p out",
            "module list",
            "nvidia-smi",
            "tail -n 1 x",
            "echo for",
        ] {
            assert_eq!(n(quick), 1, "{quick}");
        }
        for long in [
            "while true; do date; done",
            "for i in 1 2; do date; done",
            "sleep 60",
            "tail -f x",
            "tail -100F x",
            "./monitor",
            "wait",
        ] {
            assert_eq!(n(long), 0, "{long}");
        }
    }

    #[test]
    fn nodes_that_meet_at_themselves_are_found() {
        let check = |body: &str, expected: &str| {
            let found = said("no-master-addr", body);
            let is_right = match found.as_slice() {
                [] => expected.is_empty(),
                [what] => !expected.is_empty() && what.contains(expected),
                _ => false,
            };
            assert!(is_right, "{found:?} in {body}");
        };
        let two = "#SBATCH --nodes=2 --ntasks-per-node=1\n";
        for host in ["localhost", "127.0.0.1"] {
            for launcher in ["torchrun", "python -m torch.distributed.run"] {
                for option in ["--rdzv-endpoint=", "--rdzv_endpoint=", "--rdzv-endpoint "] {
                    let line = |host: &str| {
                        format!(
                            "srun {launcher} --nnodes=2 --rdzv-backend=c10d {option}{host}:29500 t.py"
                        )
                    };
                    let itself = "which is each node itself";
                    check(&format!("{two}{}", line(host)), itself);
                    check(&line(host), itself);
                    check(
                        &format!("{two}srun bash -c '{}'", line(host).replace("srun ", "")),
                        itself,
                    );
                    check(&format!("{two}{}", line("$HEAD")), "");
                    check(&format!("#SBATCH --nodes=1\n{}", line(host)), "");
                }
            }
        }
        check(
            &format!(
                "{two}srun accelerate launch --num_machines 2 --main_process_ip 127.0.0.1 t.py"
            ),
            "`127.0.0.1`",
        );
        check(&format!("{two}srun -N1 -n1 torchrun --rdzv-endpoint=localhost:1 t.py"), "");
        let standalone =
            "export MASTER_ADDR=$(hostname)\nsrun torchrun --standalone --nproc-per-node=4 t.py";
        check(&format!("{two}{standalone}"), "`--standalone` starts one training per node");
        check(&format!("#SBATCH --nodes=1\n{standalone}"), "");
    }

    #[test]
    fn ranks_that_the_batch_shell_replaces_are_found() {
        let n = |body: &str| said("rank-too-early", body).len();
        let two = "#SBATCH --nodes=2 --ntasks-per-node=1\n";
        for (rank, variable) in [
            ("--node_rank=", "$SLURM_NODEID"),
            ("--node-rank=", "${SLURM_NODEID}"),
            ("--node-rank ", "\"$SLURM_NODEID\""),
            ("--local-rank ", "$SLURM_LOCALID"),
            ("--machine_rank=", "$SLURM_PROCID"),
        ] {
            let call = format!("torchrun --nnodes=2 {rank}{variable} --master_addr=$A t.py");
            assert_eq!(n(&format!("{two}srun {call}")), 1, "{call}");
            let call = call.replace('"', "");
            assert_eq!(n(&format!("{two}srun bash -c \"{call}\"")), 1, "{call}");
            assert_eq!(n(&format!("{two}srun bash -c '{call}'")), 0, "{call}");
            let kept = call.replace('$', "\\$");
            assert_eq!(n(&format!("{two}srun bash -c \"{kept}\"")), 0, "{kept}");
        }
        let named = "export NODE_RANK=$SLURM_NODEID\nsrun torchrun --node_rank=$NODE_RANK t.py";
        assert_eq!(n(&format!("{two}{named}")), 1);
        assert_eq!(n(&format!("#SBATCH --nodes=1\n{named}")), 0);
        assert_eq!(n(&format!("{two}srun torchrun --node_rank=$i t.py")), 0);
        assert_eq!(n(&format!("{two}srun echo --tag $SLURM_NODEID")), 0);
        let exported = |run: &str| format!("export RANK=$SLURM_PROCID\nsrun {run}");
        assert_eq!(n(&format!("{two}{}", exported("python t.py"))), 1);
        assert_eq!(n(&format!("{two}{}", exported("torchrun t.py"))), 0);
        assert_eq!(n(&format!("{two}{}", exported("python \"$1\""))), 0);
        assert_eq!(n(&format!("{two}{}", exported("bash -c 'RANK=$SLURM_PROCID python t.py'"))), 0);
        assert_eq!(n(&format!("#SBATCH --nodes=1\n{}", exported("python t.py"))), 0);
        assert_eq!(n(&format!("{two}srun env RANK=$SLURM_PROCID python t.py")), 1);
    }

    #[test]
    fn a_launcher_in_each_task_is_found() {
        let check = |body: &str, expected: &[&str]| {
            let found = said("launcher-per-task", body);
            assert_eq!(found, expected, "{body}");
        };
        let sixteen = "srun starts `torchrun` 4 times on each node, and each starts 4 processes: 16 processes on each node";
        let run = "srun torchrun --nnodes=2 --nproc-per-node=4 --rdzv-endpoint=$H:1 t.py";
        check(&format!("#SBATCH -N 2 --ntasks-per-node=4\n{run}"), &[sixteen]);
        check(&format!("#SBATCH -N 2 --ntasks=8\n{run}"), &[sixteen]);
        check("#SBATCH -n 4\nsrun torchrun --nproc_per_node 4 t.py", &[sixteen]);
        check("srun --ntasks-per-node=4 -N 2 torchrun --nproc_per_node 4 t.py", &[sixteen]);
        let gpus = "srun starts `torchrun` 4 times on each node, and each starts `gpu` processes";
        check(
            &format!("#SBATCH -n 4\n{}", run.replace("=4", "=gpu").replace("--nnodes=2", "")),
            &[gpus],
        );
        for right in [
            "#SBATCH -N 2 --ntasks-per-node=1",
            "#SBATCH -N 2 --ntasks=2",
            "#SBATCH -n 2",
            "#SBATCH -N 2 --ntasks-per-node=4 --gpus-per-task=4",
            "#SBATCH --ntasks=2 --ntasks-per-node=1",
        ] {
            check(&format!("{right}\n{run}"), &[]);
        }
        let four = "#SBATCH -N 2 --ntasks-per-node=4\n";
        check(&format!("{four}{}", run.replace("srun", "srun -n $SLURM_NNODES")), &[]);
        check(&format!("{four}{}", run.replace("srun", "srun --ntasks-per-node=1")), &[]);
        check(&format!("{four}{}", run.replace("node=4", "node=1")), &[]);
        check(&format!("{four}srun python t.py"), &[]);
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
