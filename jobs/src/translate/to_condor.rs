//! A batch script of Slurm as a submit file.

use std::fmt::Write as _;

use super::{MAX_JOBS, PAIRS, Translation, is_beside, stem};
use crate::disk::{Disk, base_name, below, folder_of};
use crate::finding::FileFindings;
use crate::sbatch::{Header, Setting, header, own_words};
use crate::script::shell::Script;
use crate::script::{Language, options, python};
use crate::units::{request, slurm_bytes, slurm_seconds};
use crate::write::{Refusal, refuse};

/// Options of sbatch that HTCondor has no counterpart for.
const WITHOUT: &[(&str, &str)] = &[
    ("partition", "pools have no partitions: jobs get any machine that fits the requests"),
    ("qos", "pools have no such classes: `priority` orders your own jobs"),
    ("reservation", "pools have no reservations"),
    ("dependency", "jobs that wait for each other are a DAG: `condor_submit_dag`"),
    ("exclusive", "a job has its slot alone, and the machine if it asks for all of it"),
    ("hint", "HTCondor binds no cores"),
    (
        "no-requeue",
        "HTCondor starts an evicted job again; `requirements = (NumJobStarts == 0)` allows one start",
    ),
    ("open-mode", "HTCondor replaces `output` when the job starts again"),
];

/// Options that say what HTCondor does anyway.
const IMPLIED: [&str; 10] = [
    "nodes",
    "requeue",
    "ntasks",
    "tasks",
    "ntasks-per-node",
    "tasks-per-node",
    "ntasks-per-socket",
    "ntasks-per-core",
    "ntasks-per-gpu",
    "get-user-env",
];

/// Variables of Slurm, and their values in HTCondor.
fn variable(name: &str, facts: &Facts<'_>) -> Option<String> {
    Some(match name {
        "SLURM_ARRAY_TASK_ID" if facts.array.is_some() => "$(task)".to_owned(),
        "SLURM_ARRAY_TASK_COUNT" => facts.array.as_ref()?.len().to_string(),
        "SLURM_ARRAY_TASK_MIN" => facts.array.as_ref()?.iter().min()?.to_string(),
        "SLURM_ARRAY_TASK_MAX" => facts.array.as_ref()?.iter().max()?.to_string(),
        "SLURM_ARRAY_JOB_ID" => "$(Cluster)".to_owned(),
        "SLURM_JOB_ID" | "SLURM_JOBID" => facts.job_id().to_owned(),
        "SLURM_JOB_NAME" if !facts.name.contains([' ', '"', '\'']) => facts.name.to_owned(),
        "SLURM_CPUS_PER_TASK" | "SLURM_CPUS_ON_NODE" | "SRUN_CPUS_PER_TASK" => {
            facts.cpus.to_string()
        }
        "SLURM_GPUS_ON_NODE" | "SLURM_GPUS" => facts.gpus.to_string(),
        "SLURM_NTASKS" | "SLURM_NPROCS" | "SLURM_NNODES" | "SLURM_JOB_NUM_NODES" => "1".to_owned(),
        "SLURM_PROCID" | "SLURM_LOCALID" | "SLURM_NODEID" => "0".to_owned(),
        _ => return None,
    })
}

/// What the options say of the job.
struct Facts<'a> {
    name: &'a str,
    cpus: u64,
    gpus: u64,
    array: Option<Vec<u64>>,
}

impl Facts<'_> {
    /// Jobs of an array have numbers of their own.
    fn job_id(&self) -> &'static str {
        if self.array.is_some() { "$(Cluster)_$(Process)" } else { "$(Cluster)" }
    }
}

pub(super) fn translate(file: &str, text: &str, disk: &dyn Disk) -> Result<Translation, Refusal> {
    if Language::of_script(text) != Language::Shell {
        let fix = "write a submit file with this program as its `executable`";
        return Err(refuse(format!("`{file}` is not a shell script"), fix));
    }
    let script = Script::parse(text);
    if let Some(line) = script.unread {
        let fix = "`bash -n` says what is wrong there";
        return Err(refuse(format!("`{file}` cannot be read from line {line} on"), fix));
    }
    let lines: Vec<&str> = text.lines().collect();
    let mut done = Translation::default();
    let mut findings = FileFindings::new(file);
    let header = header(&lines, &script, &mut findings);
    for finding in findings.findings {
        done.leave(finding.line, finding.what, finding.fix);
    }
    let gpus = gpus(&header)?;
    one_process(&header, &lines, gpus)?;
    let settings: Vec<&Setting> = header
        .settings
        .iter()
        .filter(|setting| header.get(&setting.name) == Some(*setting))
        .collect();
    let get = |name: &str| header.get(name).map(|setting| setting.value.as_str());
    let facts = Facts {
        name: get("job-name").unwrap_or_else(|| stem(file)),
        cpus: header.number("cpus-per-task").unwrap_or(1),
        gpus,
        array: get("array").map(array).transpose()?,
    };
    let mut out = format!(
        "# Translated from {} by `gular job translate`.\nuniverse = vanilla\n",
        base_name(file)
    );
    let mut line = |name: &str, value: &str| {
        let _ = writeln!(out, "{name} = {value}");
    };
    let mut program = format!("{}.sh", stem(file));
    if program == base_name(file) {
        program = format!("{}-run.sh", stem(file));
    }
    line("executable", &program);
    line("JobBatchName", facts.name);
    line("request_cpus", &facts.cpus.to_string());
    if facts.gpus > 0 {
        line("request_gpus", &facts.gpus.to_string());
    }
    for setting in settings {
        option(setting, &facts, &mut line, &mut done);
    }
    // Slurm writes both into one file, HTCondor into two.
    let number = if facts.array.is_some() { "%A_%a" } else { "%j" };
    for (name, end) in [("output", "out"), ("error", "err")] {
        if get(name).and_then(|value| pattern(value, &facts)).is_none() {
            let path = pattern(&format!("slurm-{number}.{end}"), &facts);
            line(name, &path.unwrap_or_default());
        }
    }
    line("log", &format!("{}.log", stem(file)));
    let mut inputs: Vec<String> = Vec::new();
    // Programs that are named by their path are sent, too.
    let programs = script.commands.iter().filter_map(|command| {
        let path = command.call().first()?;
        (path.contains('/') && !path.starts_with('/')).then_some((command.line, path.as_str()))
    });
    for (at, name) in script.scripts().chain(programs) {
        let name = name.trim_start_matches("./");
        if inputs.iter().any(|input| input == name) {
            continue;
        }
        if is_below(name) && is_beside(file, name, disk) {
            inputs.push(name.to_owned());
        } else if !name.contains('$') && !script.writes(name) {
            done.leave(at, format!("`{name}`"), "the file is not beside the script: the job needs it in `transfer_input_files` or in an image");
        }
    }
    if options::stays(&script) && get("chdir").is_none() {
        files_read(folder_of(file), &script, disk, &mut inputs);
    }
    if !inputs.is_empty() {
        line("transfer_input_files", &inputs.join(", "));
    }
    if inputs.iter().any(|name| name.contains('/')) {
        line("preserve_relative_paths", "True");
    }
    line("should_transfer_files", "YES");
    line("when_to_transfer_output", "ON_EXIT");
    let variables = variables(&lines, &facts, &mut done);
    if !variables.is_empty() {
        line("environment", &format!("\"{}\"", variables.join(" ")));
    }
    done.leave(1, "the shared file system", "a job of HTCondor has only its inputs, and brings back only new files of its top folder: name in `transfer_input_files` what else it reads, and folders with results in `transfer_output_files`");
    if !["mem", "mem-per-cpu", "mem-per-gpu"].iter().any(|name| get(name).is_some()) {
        done.leave(
            1,
            "the memory",
            "pools give a job little memory unless it asks: add `request_memory`",
        );
    }
    done.leave(1, "the environment", "Slurm gives a job the variables of the shell that submits it; HTCondor gives none: name them in `environment`, or in `getenv`");
    if get("tmp").and_then(slurm_bytes).is_none() {
        done.leave(1, "the size of disk", "a job of HTCondor has a disk of its own: add `request_disk`, with room for inputs and results");
    }
    match &facts.array {
        Some(tasks) => {
            let tasks: Vec<String> = tasks.iter().map(u64::to_string).collect();
            let _ = writeln!(out, "queue task in ({})", tasks.join(", "));
        }
        None => out.push_str("queue\n"),
    }
    let body = body(&lines, &script, header.first_command, &mut done);
    done.files = vec![(format!("{}.sub", stem(file)), out), (program, body)];
    Ok(done)
}

/// Whether a path can be an input that keeps its folder.
fn is_below(name: &str) -> bool {
    !name.contains(',') && !name.starts_with('/') && !name.split('/').any(|part| part == "..")
}

/// Commands whose words are not files that they read.
const NOT_READERS: [&str; 9] =
    ["echo", "export", "mkdir", "module", "printf", "rm", "test", "touch", "["];

/// The commands of `$(…)` in a word.
fn substituted(word: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = word;
    while let Some((_, behind)) = rest.split_once("$(") {
        let mut depth = 1_usize;
        let end = behind.char_indices().find(|(_, c)| {
            match c {
                '(' => depth += 1,
                ')' => depth -= 1,
                _ => {}
            }
            depth == 0
        });
        let Some((end, _)) = end else { break };
        let (inner, after) = behind.split_at(end);
        found.push(inner);
        rest = after;
    }
    found
}

/// Adds the files here that the script reads for certain: those that its commands name, modules of
/// its Python programs, and files that these read.
fn files_read(folder: &str, script: &Script, disk: &dyn Disk, inputs: &mut Vec<String>) {
    let add = |inputs: &mut Vec<String>, name: &str| {
        let name = name.strip_prefix("./").unwrap_or(name);
        let is_file = disk.len(&below(folder, name)).is_some();
        let is_package = || disk.len(&below(folder, &format!("{name}/__init__.py"))).is_some();
        let is_new = !name.is_empty() && !inputs.iter().any(|input| input == name);
        if is_new && is_below(name) && (is_file || is_package()) {
            inputs.push(name.to_owned());
        }
    };
    for (at, command) in script.commands.iter().enumerate() {
        // `f=$(sed -n 1p files.txt)` reads the file; what these commands write is not looked at.
        for inner in command.words.iter().flat_map(|word| substituted(word)) {
            for command in Script::parse(inner).commands {
                let words = command.call().iter().skip(1).filter(|word| !word.starts_with('-'));
                words
                    .filter(|word| !script.writes_before(at, word))
                    .for_each(|word| add(inputs, word));
            }
        }
        if NOT_READERS.contains(&command.program()) {
            continue;
        }
        let mut before = "";
        let mut written: Vec<&str> = command.writes().collect();
        for word in command.call().iter().skip(1) {
            let (option, value) = word.split_once('=').unwrap_or((before, word));
            let mut writes =
                ["out", "save", "log", "result"].iter().any(|part| option.contains(part));
            // `sort -o a a` writes the file that it reads.
            if let Some(place) = written.iter().position(|file| *file == value) {
                written.swap_remove(place);
                writes = true;
            }
            let is_here = !writes && disk.len(&below(folder, value)).is_some();
            // What is read before it is written was there.
            if is_here && !script.writes_before(at, value) {
                add(inputs, value);
            }
            before = if word.starts_with('-') { word } else { "" };
        }
    }
    // Also behind a loop: `done < files.txt`.
    for pair in script.tokens.iter().flat_map(|tokens| tokens.windows(2)) {
        if let [sign, file] = pair
            && sign.text == "<"
            && !script.writes(&file.text)
        {
            add(inputs, &file.text);
        }
    }
    let mut at = 0;
    while let Some(program) = inputs.get(at).cloned() {
        at += 1;
        let Some(text) = disk.text(&below(folder, &program)).filter(|_| program.ends_with(".py"))
        else {
            continue;
        };
        let modules = python::imports(&text).into_iter().flat_map(|(_, module)| {
            let path = below(folder_of(&program), module);
            [format!("{path}.py"), path]
        });
        let read = python::read_files(&text).into_iter().map(|(_, name)| name.to_owned());
        for name in modules.chain(read).filter(|name| !script.writes(name)) {
            add(inputs, &name);
        }
    }
}

/// Refuses jobs of several processes, which vanilla jobs of HTCondor cannot be.
fn one_process(header: &Header, lines: &[&str], gpus: u64) -> Result<(), Refusal> {
    let fix = "jobs of HTCondor run on one machine, as one process that may start others: split the work into independent jobs, or stay with Slurm";
    let options = lines.iter().take(header.first_command.saturating_sub(1)).enumerate();
    for (i, line) in options.filter(|(_, line)| line.starts_with("#SBATCH")) {
        if line.split_whitespace().any(|word| matches!(word, "hetjob" | "packjob")) {
            return Err(refuse(format!("line {}: the job has several parts", i + 1), fix));
        }
        if line.contains("{{") {
            let fix = "write the values into the template first";
            return Err(refuse(format!("line {}: the script is a template", i + 1), fix));
        }
    }
    for (name, what, times) in [
        ("nodes", "nodes", 1),
        ("ntasks", "tasks", 1),
        ("tasks", "tasks", 1),
        ("ntasks-per-node", "tasks", 1),
        ("tasks-per-node", "tasks", 1),
        ("ntasks-per-socket", "tasks", 1),
        ("ntasks-per-core", "tasks", 1),
        ("ntasks-per-gpu", "tasks", gpus.max(1)),
    ] {
        let Some(setting) = header.get(name) else { continue };
        match header.number(name).map(|n| n.saturating_mul(times)) {
            Some(1) => {}
            Some(n) => return Err(refuse(format!("the job has {n} {what}"), fix)),
            None => return Err(unread(setting, fix)),
        }
    }
    // What is not a number would become another request.
    match header.get("cpus-per-task").filter(|_| header.number("cpus-per-task").is_none()) {
        Some(setting) => Err(unread(setting, "write a number")),
        None => Ok(()),
    }
}

fn unread(setting: &Setting, fix: &str) -> Refusal {
    let Setting { line, name, value } = setting;
    refuse(format!("line {line}: `--{name}={value}` cannot be read"), fix)
}

/// The parts of `gpu:a100:4(S:0-1),nvme:1`, without what is in brackets.
fn devices(value: &str) -> Vec<String> {
    let (mut parts, mut part, mut depth) = (Vec::new(), String::new(), 0_usize);
    for c in value.chars() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => parts.push(std::mem::take(&mut part)),
            _ if depth == 0 => part.push(c),
            _ => {}
        }
    }
    parts.push(part);
    parts
}

/// The type and number of a device, as in `a100:4`, `4` or `a100`.
fn device(text: &str) -> Option<(Option<&str>, u64)> {
    match text.split_once(':') {
        Some((model, n)) => Some((Some(model), n.parse().ok()?)),
        None if text.starts_with(|c: char| c.is_ascii_digit()) => Some((None, text.parse().ok()?)),
        None => Some((Some(text).filter(|text| !text.is_empty()), 1)),
    }
}

/// The GPUs of `--gres`, without the word `gpu`.
fn gpus_of(gres: &str) -> impl Iterator<Item = String> {
    devices(gres).into_iter().filter_map(|part| {
        let rest = part.strip_prefix("gpu")?;
        (rest.is_empty() || rest.starts_with(':')).then(|| rest.trim_start_matches(':').to_owned())
    })
}

/// How many GPUs the job asks for.
fn gpus(header: &Header) -> Result<u64, Refusal> {
    for name in ["gres", "gpus", "gpus-per-node", "gpus-per-task"] {
        let Some(setting) = header.get(name) else { continue };
        let parts: Vec<String> = match name {
            "gres" => gpus_of(&setting.value).collect(),
            _ => devices(&setting.value),
        };
        let n: Option<u64> = parts.iter().map(|part| Some(device(part)?.1)).sum();
        let n = n.ok_or_else(|| unread(setting, "write `gpu:4`, or with a type `gpu:a100:4`"))?;
        if !parts.is_empty() {
            return Ok(n);
        }
    }
    Ok(0)
}

/// The numbers of an array: `0-15`, `1,3,7`, `0-99:10%4`.
fn array(value: &str) -> Result<Vec<u64>, Refusal> {
    let read = || {
        let mut tasks = Vec::new();
        let (list, most) = value.split_once('%').unwrap_or((value, "1"));
        most.parse::<u64>().ok().filter(|&most| most > 0)?;
        for part in list.trim_start_matches('[').trim_end_matches(']').split(',') {
            let (range, step) = part.split_once(':').unwrap_or((part, "1"));
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let step: usize = step.parse().ok().filter(|&step| step > 0)?;
            let (first, last): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
            tasks.extend((first..=last).step_by(step).take(MAX_JOBS + 1));
            if tasks.len() > MAX_JOBS || first > last {
                return None;
            }
        }
        tasks.sort_unstable();
        tasks.dedup();
        Some(tasks)
    };
    let fix = format!("write numbers and ranges, such as `1-16`, of at most {MAX_JOBS} jobs");
    read().ok_or_else(|| refuse(format!("the array `{value}` cannot be read"), &fix))
}

/// Translates one option.
fn option(
    setting: &Setting,
    facts: &Facts<'_>,
    line: &mut impl FnMut(&str, &str),
    done: &mut Translation,
) {
    let Setting { line: at, name, value } = setting;
    match name.as_str() {
        "job-name" | "cpus-per-task" | "gpus" | "gpus-per-node" | "gpus-per-task" | "gres" => {
            let gpus: Vec<String> = match name.as_str() {
                "gres" => gpus_of(value).collect(),
                "job-name" | "cpus-per-task" => Vec::new(),
                _ => devices(value),
            };
            for model in gpus.iter().filter_map(|part| device(part)?.0) {
                done.leave(*at, format!("the type of GPU `{model}`"), "write what the GPU must have: `gpus_minimum_capability`, `gpus_minimum_memory`");
            }
            if name == "gres" {
                for other in devices(value).iter().filter(|part| gpus_of(part).next().is_none()) {
                    done.leave(*at, format!("--gres={other}"), "HTCondor has no counterpart");
                }
            }
        }
        "mem" | "mem-per-cpu" | "mem-per-gpu" => {
            match slurm_bytes(value).filter(|&bytes| bytes > 0) {
                Some(bytes) => {
                    let times = match name.as_str() {
                        "mem" => 1,
                        "mem-per-cpu" => facts.cpus,
                        _ => facts.gpus.max(1),
                    };
                    line("request_memory", &request(bytes.saturating_mul(times)));
                }
                None => done.leave(
                    *at,
                    format!("--{name}={value}"),
                    "HTCondor gives what is asked for: say how much, in `request_memory`",
                ),
            }
        }
        "tmp" if slurm_bytes(value).is_some() => {
            line("request_disk", &request(slurm_bytes(value).unwrap_or_default()));
        }
        "time" => match slurm_seconds(value).filter(|&seconds| seconds < u64::MAX) {
            Some(seconds) => line("allowed_execute_duration", &seconds.to_string()),
            None => done.leave(
                *at,
                format!("--time={value}"),
                "HTCondor has no limit unless you set `allowed_execute_duration`",
            ),
        },
        "input" | "output" | "error" => match pattern(value, facts) {
            Some(path) => line(name, &path),
            None => done.leave(
                *at,
                format!("--{name}={value}"),
                "only %j, %A, %a, %x and %% have a counterpart",
            ),
        },
        "array" => {
            if let Some((_, most)) = value.split_once('%') {
                line("max_materialize", most);
            }
        }
        "chdir" => line("initialdir", value),
        "mail-user" => line("notify_user", value),
        "mail-type" => {
            let has = |kind: &str| value.to_ascii_uppercase().split(',').any(|word| word == kind);
            let kind = match (has("ALL") || (has("END") && has("FAIL")), has("END"), has("FAIL")) {
                (true, ..) => "Always",
                (_, true, _) => "Complete",
                (_, _, true) => "Error",
                _ => "Never",
            };
            line("notification", kind);
        }
        "export" if value == "ALL" => {}
        known if IMPLIED.contains(&known) => {}
        _ => {
            let pair = PAIRS.iter().find(|(option, ..)| option == name);
            let without = WITHOUT.iter().find(|(option, _)| option == name);
            let why = match (pair, without) {
                (Some((_, command, differs)), _) => format!("write `{command}`: {differs}"),
                (_, Some((_, why))) => (*why).to_owned(),
                _ => "HTCondor has no counterpart".to_owned(),
            };
            let what =
                if value.is_empty() { format!("--{name}") } else { format!("--{name}={value}") };
            done.leave(*at, what, why);
        }
    }
}

/// A file name with HTCondor's macros.
fn pattern(value: &str, facts: &Facts<'_>) -> Option<String> {
    let mut out = String::new();
    let mut rest = value.chars();
    while let Some(c) = rest.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        match rest.next()? {
            'j' => out.push_str(facts.job_id()),
            'A' => out.push_str("$(Cluster)"),
            'a' if facts.array.is_some() => out.push_str("$(task)"),
            'x' => out.push_str(facts.name),
            '%' => out.push('%'),
            _ => return None,
        }
    }
    Some(out)
}

/// The variables of Slurm that the script reads, as `NAME=value`; others are named.
fn variables(lines: &[&str], facts: &Facts<'_>, done: &mut Translation) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for (i, line) in lines.iter().enumerate().filter(|(_, line)| !line.starts_with('#')) {
        for (at, _) in line.match_indices(['S']) {
            let tail = line.get(at..).unwrap_or_default();
            let before = line.get(..at).and_then(|head| head.chars().next_back());
            let is_part = before.is_some_and(|c| c.is_ascii_alphanumeric() || c == '_');
            if is_part || !["SLURM_", "SLURMD_", "SRUN_"].iter().any(|head| tail.starts_with(head))
            {
                continue;
            }
            let end =
                tail.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(tail.len());
            let name = tail.get(..end).unwrap_or_default();
            match variable(name, facts) {
                Some(value) => found.push(format!("{name}={value}")),
                None => done.leave(i + 1, format!("${name}"), "HTCondor sets nothing like it"),
            }
        }
    }
    found.sort();
    found.dedup();
    found
}

/// The script without `#SBATCH` lines, and without `srun` before a single process.
fn body(lines: &[&str], script: &Script, first_command: usize, done: &mut Translation) -> String {
    let mut lines: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
    for command in &script.commands {
        let program = command.program();
        match program {
            "srun" => {
                let own: Vec<&str> = own_words(command).collect();
                let raw = lines.get_mut(command.line - 1);
                let bare = raw.and_then(|raw| {
                    let indent = raw.len() - raw.trim_start().len();
                    let head = std::iter::once("srun").chain(own.iter().copied()).collect::<Vec<_>>().join(" ");
                    let rest = raw.trim_start().strip_prefix(&head)?.strip_prefix(' ')?;
                    *raw = format!("{}{}", raw.get(..indent)?, rest.trim_start());
                    Some(())
                });
                if bare.is_none() {
                    done.leave(command.line, "srun", "remove it: the job is one process");
                } else if !own.is_empty() {
                    done.leave(command.line, format!("srun {}", own.join(" ")), "these options have no counterpart: the job is one process, with all its cores");
                }
            }
            "module" | "ml" => done.leave(command.line, program, "machines of a pool do not have your site's modules: use an image (`container_image`), or send the programs"),
            "scontrol" | "sbatch" | "scancel" | "squeue" | "sacct" | "sstat" | "mpirun" | "mpiexec" => {
                done.leave(command.line, program, "the job cannot call it on machines of a pool");
            }
            _ => {}
        }
    }
    // Further down such a line may be part of a here-document.
    let is_option = |i: usize, line: &str| i + 1 < first_command && line.starts_with("#SBATCH");
    let kept = lines.iter().enumerate().filter(|(i, line)| !is_option(*i, line));
    let mut text: String = kept.flat_map(|(_, line)| [line.as_str(), "\n"]).collect();
    if !text.starts_with("#!") {
        text.insert_str(0, "#!/bin/bash\n");
    }
    text
}
