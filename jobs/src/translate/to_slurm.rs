//! A submit file of HTCondor as a batch script.
//!
//! ```text
//! folder it was submitted from ─▶ $work, with copies of the inputs ─▶ the program
//!                              ◀─ its results; $work is removed once all of them were copied
//! ```

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::words::{MARK, SEPARATOR, ansi, arguments, option_word, pairs, word};
use super::{MAX_JOBS, PAIRS, Translation, is_beside, stem};
use crate::disk::{Disk, base_name, folder_of};
use crate::submit::{MAX_ITEMS, Set, Submit, Variables, expand, is_known, sets};
use crate::units::{condor_bytes, request};
use crate::write::{Refusal, apptainer, refuse};

/// Commands of HTCondor that Slurm has no counterpart for.
const WITHOUT: &[(&str, &str)] = &[
    ("log", "Slurm keeps the events of jobs: `sacct -j JOB`"),
    ("rank", "Slurm chooses nodes by its own weights"),
    (
        "max_retries",
        "Slurm does not start a failed job again: submit it again, or let the script call `scontrol requeue`",
    ),
    (
        "checkpoint_exit_code",
        "let the script call `scontrol requeue \"$SLURM_JOB_ID\"` after this exit code",
    ),
    ("transfer_checkpoint_files", "save checkpoints in a folder that all nodes see"),
    ("gpus_minimum_capability", "name a type of GPU: `--gres=gpu:TYPE:N`, or a partition"),
    ("gpus_minimum_memory", "name a type of GPU: `--gres=gpu:TYPE:N`, or a partition"),
    ("use_oauth_services", "Slurm brings no tokens: get one before the job starts"),
    ("getenv", "Slurm gives a job all variables of the shell that submits it"),
    ("preserve_relative_paths", "all inputs are copied into one folder"),
];

/// Commands that are translated together, or that say what Slurm does anyway.
const TRANSLATED: [&str; 26] = [
    "executable",
    "arguments",
    "args",
    "universe",
    "container_image",
    "docker_image",
    "request_cpus",
    "request_memory",
    "request_disk",
    "request_gpus",
    "environment",
    "env",
    "transfer_input_files",
    "transfer_output_files",
    "transfer_output_remaps",
    "input",
    "output",
    "error",
    "job_batch_name",
    "batch_name",
    "should_transfer_files",
    "when_to_transfer_output",
    "transfer_executable",
    "notification",
    "notify_user",
    "allowed_execute_duration",
];

struct CondorJob<'a> {
    submit: &'a Submit,
    variables: Variables,
    items: Vec<JobItem>,
    /// Names of the variables of `queue`.
    names: Vec<String>,
}

/// The values of the variables of one job.
type JobItem = BTreeMap<String, String>;

impl CondorJob<'_> {
    /// A command's value, with `MARK name MARK` for each variable of the script; `None` if it has
    /// something else that only HTCondor knows.
    fn value(&self, set: &Set) -> Option<String> {
        let found = expand(&set.value, &self.variables, &[]);
        let text = found.text.trim().to_owned();
        let is_known = found.undefined.is_empty() && !text.contains("$(") && !text.contains("$_");
        (is_known && !self.calls_function(&set.value)).then_some(text)
    }

    /// Whether a text, or a macro of the file's own that it may use, calls a function: `$INT(x)`.
    fn calls_function(&self, text: &str) -> bool {
        let own = self.submit.sets.iter().filter(|set| !is_known(&set.name));
        let own = own.filter(|_| text.contains("$(")).map(|set| set.value.as_str());
        own.chain([text]).any(|text| {
            text.split('$').skip(1).any(|rest| {
                let name = rest.split('(').next().unwrap_or_default();
                rest.len() > name.len()
                    && (name.starts_with('$') || !name.is_empty())
                    && name.chars().all(|c| c.is_ascii_alphabetic() || c == '$')
            })
        })
    }

    /// The first of these commands that is set. A value that cannot be known is named.
    fn get(&self, names: &[&str], done: &mut Translation) -> Option<(&Set, String)> {
        let set = self.submit.any(names)?;
        let value = self.value(set);
        if value.is_none() {
            let why = "its value is known only to HTCondor: write it without functions, `$ENV` and macros that nothing sets";
            done.leave(set.line, set.name.to_ascii_lowercase(), why);
        }
        Some((set, value?))
    }

    /// The same for commands without which the job would be another.
    fn need(&self, names: &[&str]) -> Result<Option<(&Set, String)>, Refusal> {
        let Some(set) = self.submit.any(names) else { return Ok(None) };
        let Some(value) = self.value(set) else {
            let what =
                format!("line {}: the value of `{}` is known only to HTCondor", set.line, set.name);
            return Err(refuse(what, "write the value itself, or macros that the file sets"));
        };
        Ok(Some((set, value)))
    }

    /// The values that the variables of `queue` have in a text.
    fn items_in(&self, text: &str) -> impl Iterator<Item = &str> {
        let all = self.items.iter().flatten();
        all.filter(move |(name, _)| text.contains(&format!("{MARK}item_{name}{MARK}")))
            .map(|(_, value)| value.as_str())
    }

    /// Refuses items at which HTCondor would part a list of words.
    fn one_word(&self, set: &Set, text: &str, ends: impl Fn(char) -> bool) -> Result<(), Refusal> {
        match self.items_in(text).find(|value| value.contains(&ends)) {
            None => Ok(()),
            Some(value) => Err(refuse(
                format!(
                    "line {}: HTCondor parts the item `{value}` in `{}` at spaces, quotes or `;`",
                    set.line, set.name
                ),
                "give each word a variable of its own: `queue a, b from FILE`",
            )),
        }
    }

    /// Refuses items in a list of files that are not one path below the folder of the job.
    fn one_path(&self, set: &Set, text: &str, ends: &[char]) -> Result<(), Refusal> {
        let is_odd = |value: &&str| {
            let is_list = value.contains([',', '"']) || value.contains("://");
            value.is_empty()
                || is_list
                || value.starts_with('/')
                || value.ends_with('/')
                || value.contains(ends)
        };
        match self.items_in(text).find(is_odd) {
            None => Ok(()),
            Some(value) => Err(refuse(
                format!(
                    "line {}: the item `{value}` in `{}` is not one file below the folder of the job",
                    set.line, set.name
                ),
                "give each file a variable of its own, with a relative path",
            )),
        }
    }
}

pub(super) fn translate(file: &str, text: &str, disk: &dyn Disk) -> Result<Translation, Refusal> {
    if text.contains(|c: char| c.is_control() && !c.is_ascii_whitespace()) {
        return Err(refuse("the file has control characters", "remove them"));
    }
    let mut submit = Submit::parse(text);
    let mut done = Translation::default();
    for strange in &submit.strange {
        done.leave(strange.line, strange.text.as_str(), "this line is not a statement");
    }
    for set in submit.sets.iter().filter(|set| set.after_queue) {
        done.leave(set.line, set.name.as_str(), "it comes after `queue`, so no job has it");
    }
    submit.sets.retain(|set| !set.after_queue);
    let (items, names) = items(file, &submit, disk)?;
    let mut variables = submit.variables(Variables::new());
    for (macro_name, variable) in [
        ("process", "Process"),
        ("procid", "Process"),
        ("cluster", "Cluster"),
        ("clusterid", "Cluster"),
    ] {
        variables.insert(macro_name.to_owned(), format!("{MARK}{variable}{MARK}"));
    }
    for name in &names {
        variables.insert(name.clone(), format!("{MARK}item_{name}{MARK}"));
    }
    let job = CondorJob { submit: &submit, variables, items, names };
    let out = script(file, &job, disk, &mut done)?;
    left(&job, &mut done);
    done.files = vec![(format!("{}.sbatch", stem(file)), out)];
    Ok(done)
}

/// The variables of each job, and their names.
fn items(
    file: &str,
    submit: &Submit,
    disk: &dyn Disk,
) -> Result<(Vec<JobItem>, Vec<String>), Refusal> {
    let [queue] = submit.queues.as_slice() else {
        let what = format!("the file has {} `queue` statements", submit.queues.len());
        return Err(refuse(what, "write one file for each `queue`"));
    };
    if submit.includes || submit.open_if.is_some() || submit.sets.iter().any(|set| set.conditional)
    {
        let fix = "write the statements that hold into the file itself";
        return Err(refuse("the file has `if`, `include` or `use`", fix));
    }
    let unknown = || {
        let fix = "write the items into a file, and `queue VARIABLES from FILE`";
        refuse("the items of `queue` are known only when the job is submitted", fix)
    };
    if queue.sliced {
        let fix = "write the chosen items into a file of their own";
        return Err(refuse("`queue` takes a slice of its items", fix));
    }
    let is_name = |name: &String| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if let Some(name) = queue.vars.iter().find(|name| is_known(name) || !is_name(name)) {
        let fix = "name it otherwise, such as `queue words from FILE` with `arguments = $(words)`";
        return Err(refuse(format!("`{name}` cannot be a variable of the script"), fix));
    }
    let items = queue.items(disk, folder_of(file)).ok_or_else(unknown)?;
    if items.iter().flatten().any(|(_, value)| value.contains(char::is_control)) {
        return Err(refuse("an item of `queue` has control characters", "remove them"));
    }
    let count = expand(&queue.count, &submit.variables(Variables::new()), &[]).text;
    let count: usize = if count.is_empty() { 1 } else { count.parse().map_err(|_| unknown())? };
    let fix = "split it: most sites allow arrays of a few thousand jobs";
    if items.len() >= MAX_ITEMS {
        return Err(refuse(format!("`queue` has {MAX_ITEMS} items or more"), fix));
    }
    match count.saturating_mul(items.len()) {
        0 => return Err(refuse("`queue` makes no job", "give it a number or items")),
        n if n > MAX_JOBS => {
            return Err(refuse(format!("the file makes {n} jobs, more than {MAX_JOBS}"), fix));
        }
        _ => {}
    }
    let all = items.into_iter().flat_map(|item| std::iter::repeat_n(item, count));
    Ok((all.collect(), queue.vars.iter().map(|var| var.to_ascii_lowercase()).collect()))
}

/// The text of the script.
fn script(
    file: &str,
    job: &CondorJob<'_>,
    disk: &dyn Disk,
    done: &mut Translation,
) -> Result<String, Refusal> {
    let universe =
        job.need(&["universe"])?.map_or_else(|| "vanilla".to_owned(), |(_, value)| value);
    if !["vanilla", "container", "docker"].iter().any(|known| universe.eq_ignore_ascii_case(known))
    {
        let fix = "only jobs that run one program on one machine are translated";
        return Err(refuse(format!("the universe is `{universe}`"), fix));
    }
    let no = |value: &str| ["false", "no", "0"].iter().any(|no| value.eq_ignore_ascii_case(no));
    let stays = job.need(&["should_transfer_files"])?.is_some_and(|(_, value)| no(&value));
    let is_sent = job.need(&["transfer_executable"])?.is_none_or(|(_, value)| !no(&value));
    let program = program(file, job, is_sent, disk, done)?;
    let folder = if program.is_beside && !stays { "./" } else { "" };
    let called = match program.is_beside && stays && !program.path.contains('/') {
        true => format!("./{}", program.path),
        false if folder.is_empty() => program.path.clone(),
        false => format!("{folder}{}", last_part(&program.path)),
    };
    if let Some(set) = job.submit.any(&["initialdir", "initial_dir", "iwd", "job_iwd"])
        && job.items.len() > 1
        && set.value.contains("$(")
    {
        let what = format!("line {}: each job has an `initialdir` of its own", set.line);
        let fix = "write the folder into `transfer_output_remaps`, `output` and `error`";
        return Err(refuse(what, fix));
    }

    let mut out = options(file, job, done);
    let _ = writeln!(out, "# Translated from {} by `gular job translate`.", base_name(file));
    out.push_str("set -u\nsubmitted=$PWD\n");
    out.push_str(
        "Cluster=${SLURM_ARRAY_JOB_ID:-$SLURM_JOB_ID}\nProcess=${SLURM_ARRAY_TASK_ID:-0}\n",
    );
    add_items(job, &mut out);
    if !stays {
        out.push_str("# A folder of its own, as HTCondor gives each job. It stays if a result cannot be copied.\nwork=$(mktemp -d) || exit 2\ntrap '[ ! -d \"$work\" ] || echo \"the files of this job are in $HOSTNAME:$work\" >&2' EXIT\ncd \"$work\" || exit 2\n");
        let own = program.is_beside.then_some(program.path.as_str());
        let inputs = inputs(own, job, done)?;
        if !inputs.is_empty() {
            let _ = writeln!(out, "cp -rL -- {} . || exit 2", inputs.join(" "));
        }
        if program.is_beside {
            let _ = writeln!(out, "chmod +x {}", word(&called));
        }
    }
    // Set for the program alone: this script has variables of its own.
    let mut run = String::new();
    for (i, (name, value)) in environment(job, done)?.iter().enumerate() {
        let _ = write!(run, "{}{name}={} ", if i == 0 { "env " } else { "" }, word(value));
    }
    let words: Vec<String> = std::iter::once(called).chain(words(job)?).collect();
    let words: Vec<String> = words.iter().map(|text| word(text)).collect();
    let _ = write!(run, "{}{}", image(job, done)?, words.join(" "));
    if stays {
        let _ = writeln!(out, "{run}");
    } else {
        outputs(job, &run, &mut out, done)?;
    }
    Ok(out)
}

/// Writes the items of `queue`, and takes those of this job.
fn add_items(job: &CondorJob<'_>, out: &mut String) {
    if job.names.is_empty() {
        return;
    }
    let names: Vec<String> = job.names.iter().map(|name| format!("item_{name}")).collect();
    out.push_str("items=(\n");
    for item in &job.items {
        let value = |name: &String| item.get(name).map_or("", String::as_str);
        let values: Vec<&str> = job.names.iter().map(value).collect();
        let _ = writeln!(out, "  {}", ansi(&values.join(SEPARATOR)));
    }
    let names = names.join(" ");
    let _ = writeln!(out, ")\nIFS=$'\\x1f' read -r {names} <<< \"${{items[Process]}}\"");
}

struct JobProgram {
    path: String,
    /// Whether the file is in the folder of the submit file, and is sent with the job.
    is_beside: bool,
}

fn program(
    file: &str,
    job: &CondorJob<'_>,
    is_sent: bool,
    disk: &dyn Disk,
    done: &mut Translation,
) -> Result<JobProgram, Refusal> {
    let found = job.need(&["executable"])?.filter(|(_, path)| !path.is_empty());
    let Some((set, path)) = found else {
        let fix = "name the program: `executable = train.sh`";
        return Err(refuse("the file has no `executable`", fix));
    };
    if path.contains(MARK) {
        let fix = "name one program, and give it what differs as `arguments`";
        return Err(refuse(format!("line {}: each job has another `executable`", set.line), fix));
    }
    let is_beside = is_sent && is_beside(file, &path, disk);
    if is_sent && !is_beside && !path.starts_with('/') {
        let why = "the program is not beside the file: give a file that exists";
        done.leave(set.line, path.clone(), why);
    }
    Ok(JobProgram { path, is_beside })
}

/// What is copied before the program starts, as words of the shell.
fn inputs(
    program: Option<&str>,
    job: &CondorJob<'_>,
    done: &mut Translation,
) -> Result<Vec<String>, Refusal> {
    let mut inputs: Vec<String> = program.map(submitted).into_iter().collect();
    let Some((set, list)) = job.get(&["transfer_input_files"], done) else { return Ok(inputs) };
    job.one_path(set, &list, &[])?;
    for input in parts(&list, ',') {
        if input.contains("://") {
            let why = "Slurm fetches nothing: fetch it once, to a folder that all nodes see";
            done.leave(set.line, input, why);
        } else if input.ends_with('/') {
            inputs.push(submitted(&format!("{input}.")));
        } else {
            inputs.push(submitted(input));
        }
    }
    Ok(inputs)
}

fn environment(
    job: &CondorJob<'_>,
    done: &mut Translation,
) -> Result<Vec<(String, String)>, Refusal> {
    let Some((set, value)) = job.get(&["environment", "env"], done) else { return Ok(Vec::new()) };
    match value.starts_with('"') {
        true => job.one_word(set, &value, is_end)?,
        false => job.one_word(set, &value, |c| ";\"$".contains(c))?,
    }
    let found = pairs(&value);
    if found.is_none() {
        done.leave(set.line, set.name.as_str(), "it cannot be read: write `\"A=1 B='2 3'\"`");
    }
    Ok(found.unwrap_or_default())
}

/// The start of the command that runs the program in its image.
fn image(job: &CondorJob<'_>, done: &mut Translation) -> Result<String, Refusal> {
    let Some((set, image)) = job.need(&["container_image", "docker_image"])? else {
        return Ok(String::new());
    };
    job.one_path(set, &image, &[])?;
    let gpus = job.get(&["request_gpus"], done).map_or(0, |(_, n)| n.parse().unwrap_or(1));
    let is_docker = image.starts_with("docker://") || set.name.eq_ignore_ascii_case("docker_image");
    let image = if is_docker {
        word(&format!("docker://{}", image.trim_start_matches("docker://")))
    } else if image.contains("://") {
        let why = "Slurm fetches no images: fetch it once, to a folder that all nodes see";
        done.leave(set.line, image.as_str(), why);
        submitted(base_name(&image))
    } else {
        submitted(&image)
    };
    Ok(apptainer(gpus, "", &image))
}

/// The words behind the program.
fn words(job: &CondorJob<'_>) -> Result<Vec<String>, Refusal> {
    let Some(set) = job.submit.any(&["arguments", "args"]) else { return Ok(Vec::new()) };
    let value = job.value(set);
    if let Some(value) = &value {
        job.one_word(set, value, is_end)?;
    }
    value.and_then(|value| arguments(&value)).ok_or_else(|| {
        refuse(
            format!("the arguments in line {} cannot be translated", set.line),
            "write arguments with macros of `queue`, $(Cluster) and $(Process) alone",
        )
    })
}

/// The `#SBATCH` lines.
struct OptionLines<'a> {
    text: String,
    done: &'a mut Translation,
}

impl OptionLines<'_> {
    fn add(&mut self, name: &str, value: &str) {
        let _ = writeln!(self.text, "#SBATCH --{name}={value}");
    }

    /// The same for a text of the user; names what such a line cannot have.
    fn add_text(&mut self, set: &Set, name: &str, value: &str) {
        match option_word(value) {
            Some(value) => self.add(name, &value),
            None => {
                let why = format!("`--{name}` cannot be different for each job");
                self.done.leave(set.line, set.name.as_str(), why);
            }
        }
    }
}

fn options(file: &str, job: &CondorJob<'_>, done: &mut Translation) -> String {
    let mut out = OptionLines { text: String::from("#!/bin/bash\n"), done };
    let name = job.get(&["job_batch_name", "batch_name"], out.done);
    match name.map(|(set, name)| (set, name.trim_matches('"').to_owned())) {
        Some((set, name)) => out.add_text(set, "job-name", &name),
        None => out.add("job-name", &option_word(stem(file)).unwrap_or_else(|| "job".to_owned())),
    }
    out.add("ntasks", "1");
    let short = |bytes: u64| request(bytes).replace([' ', 'B'], "");
    let number = |value: &str| value.parse().ok();
    type Reader<'r> = &'r dyn Fn(&str) -> Option<u64>;
    type Writer<'w> = &'w dyn Fn(u64) -> String;
    let numbers: [(&str, &str, Reader<'_>, Writer<'_>); 5] = [
        ("request_memory", "mem", &|value| condor_bytes(value, 1 << 20), &short),
        ("request_disk", "tmp", &|value| condor_bytes(value, 1 << 10), &short),
        ("request_cpus", "cpus-per-task", &number, &|n| n.to_string()),
        ("request_gpus", "gres", &number, &|n| format!("gpu:{n}")),
        ("allowed_execute_duration", "time", &number, &|s| {
            format!("{}-{:02}:{:02}:{:02}", s / 86400, s / 3600 % 24, s / 60 % 60, s % 60)
        }),
    ];
    for (command, option, read, write) in numbers {
        let Some(set) = job.submit.get(command) else { continue };
        match job.value(set).and_then(|value| read(&value)) {
            Some(0) => {}
            Some(n) => out.add(option, &write(n)),
            None => {
                out.done.leave(set.line, command, format!("it is not a number: give `--{option}`"));
            }
        }
    }
    if job.submit.get("allowed_execute_duration").is_none() {
        let why = "sites give a short default: add `#SBATCH --time=HH:MM:SS`";
        out.done.leave(1, "the time limit", why);
    }
    let n_jobs = job.items.len();
    let most = job.get(&["max_materialize"], out.done);
    let most = most.map(|(set, value)| (set, value.parse::<u64>().ok().filter(|&n| n > 0)));
    if let Some((set, None)) = most {
        out.done.leave(set.line, "max_materialize", "it is not a number: give `--array=…%N`");
    }
    if n_jobs > 1 {
        let most = most.and_then(|(_, n)| n).map_or_else(String::new, |n| format!("%{n}"));
        out.add("array", &format!("0-{}{most}", n_jobs - 1));
    }
    let (cluster, process) = if n_jobs > 1 { ("%A", "%a") } else { ("%j", "0") };
    for name in ["input", "output", "error"] {
        let Some((set, value)) = job.get(&[name], out.done) else { continue };
        let value = value
            .replace('%', "%%")
            .replace(&format!("{MARK}Cluster{MARK}"), cluster)
            .replace(&format!("{MARK}Process{MARK}"), process);
        if value.contains(MARK) || value.contains('\\') {
            let why =
                "only $(Cluster) and $(Process) have a counterpart: Slurm writes `slurm-JOB.out`";
            out.done.leave(set.line, name, why);
        } else {
            out.add_text(set, name, &value);
        }
    }
    if let Some((_, kind)) = job.get(&["notification"], out.done) {
        let kind = match kind.to_ascii_lowercase().as_str() {
            "always" => "ALL",
            "complete" => "END",
            "error" => "FAIL",
            _ => "NONE",
        };
        out.add("mail-type", kind);
    }
    if let Some((set, user)) = job.get(&["notify_user"], out.done) {
        out.add_text(set, "mail-user", &user);
    }
    out.text
}

/// Runs the program, and brings its results back as HTCondor does.
fn outputs(
    job: &CondorJob<'_>,
    run: &str,
    out: &mut String,
    done: &mut Translation,
) -> Result<(), Refusal> {
    let list = job.get(&["transfer_output_files"], done);
    let remaps = remaps(job, done)?;
    out.push_str("keep() { mkdir -p -- \"$(dirname -- \"$2\")\" && cp -rLT -- \"$1\" \"$2\"; }\nfailed() { code=2 whole=no; }\n");
    if list.is_none() {
        out.push_str("shopt -s dotglob nullglob\nstate() { stat -Lc '%y %s %i' -- \"$1\"; }\ndeclare -A before\nfor file in *; do before[$file]=$(state \"$file\"); done\n");
    }
    let _ = writeln!(out, "whole=yes\n{run}\ncode=$?");
    let mut used: Vec<&str> = Vec::new();
    if let Some((set, list)) = &list {
        job.one_path(set, list, &['/'])?;
        for output in parts(list.trim_matches('"'), ',') {
            let name = last_part(output);
            let remap = remaps.iter().find(|remap| remap.from == output || remap.from == name);
            used.extend(remap.map(|remap| remap.from.as_str()));
            let to = match remap {
                Some(remap) => submitted(&remap.to),
                // Of `folder/`, HTCondor brings the contents.
                None if output.ends_with('/') => "\"$submitted\"/.".to_owned(),
                None => submitted(name),
            };
            let _ = writeln!(out, "keep {} {to} || failed", word(output));
        }
        for remap in remaps.iter().filter(|remap| !used.contains(&remap.from.as_str())) {
            let why = "no file of `transfer_output_files` has this name";
            done.leave(remap.line, remap.from.as_str(), why);
        }
    } else {
        out.push_str("# New and changed files come back, but no folders.\nfor file in *; do\n  [ -f \"$file\" ] && [ \"${before[$file]-}\" != \"$(state \"$file\")\" ] || continue\n");
        out.push_str("  case $file in\n");
        for remap in &remaps {
            let _ = writeln!(out, "    {}) to={} ;;", word(&remap.from), submitted(&remap.to));
        }
        out.push_str(
            "    *) to=$submitted/$file ;;\n  esac\n  keep \"$file\" \"$to\" || failed\ndone\n",
        );
    }
    out.push_str(
        "cd \"$submitted\" && [ \"$whole\" = yes ] && rm -rf -- \"$work\"\nexit \"$code\"\n",
    );
    Ok(())
}

/// A file that gets another name when it comes back.
struct Remap {
    line: usize,
    from: String,
    to: String,
}

fn remaps(job: &CondorJob<'_>, done: &mut Translation) -> Result<Vec<Remap>, Refusal> {
    let Some((set, value)) = job.get(&["transfer_output_remaps"], done) else {
        return Ok(Vec::new());
    };
    job.one_path(set, &value, &[';', '='])?;
    let mut remaps = Vec::new();
    for pair in parts(value.trim_matches('"'), ';') {
        match pair.split_once('=').map(|(from, to)| (from.trim(), to.trim())) {
            Some((from, to)) if !pair.contains('\\') && !to.contains("://") && !to.is_empty() => {
                remaps.push(Remap { line: set.line, from: from.to_owned(), to: to.to_owned() });
            }
            _ => {
                let why =
                    "only names and paths are translated: the file comes back with its own name";
                done.leave(set.line, pair.replace(MARK, ""), why);
            }
        }
    }
    Ok(remaps)
}

/// Names the statements that are not translated.
fn left(job: &CondorJob<'_>, done: &mut Translation) {
    for set in &job.submit.sets {
        let lower = set.name.to_ascii_lowercase();
        let is = |command: &str| sets(&set.name, command);
        if set.attribute {
            let why = "attributes of a job's ad mean nothing to Slurm";
            done.leave(set.line, format!("+{}", set.name), why);
        } else if let Some((_, why)) = WITHOUT.iter().find(|(name, _)| is(name)) {
            done.leave(set.line, lower, *why);
        } else if is("when_to_transfer_output") && !set.value.eq_ignore_ascii_case("ON_EXIT") {
            let why = "the script copies results whenever the program ends, and not when Slurm ends the job";
            done.leave(set.line, format!("{lower} = {}", set.value), why);
        } else if TRANSLATED.iter().any(|name| is(name)) || is("max_materialize") {
        } else if let Some((option, _, differs)) = PAIRS.iter().find(|pair| is(pair.1)) {
            done.leave(set.line, lower, format!("write `--{option}`: {differs}"));
        } else if is_known(&set.name) {
            done.leave(set.line, lower, "Slurm has no counterpart");
        }
    }
}

/// Whether HTCondor ends a word of `"a 'b c'"` here, or reads it as a part of its grammar.
fn is_end(c: char) -> bool {
    c.is_whitespace() || "'\"$".contains(c)
}

/// A path below the folder from which the job was submitted.
fn submitted(path: &str) -> String {
    match path.starts_with('/') {
        true => word(path),
        false => format!("\"$submitted\"/{}", word(path.trim_start_matches("./"))),
    }
}

/// The parts of a list that are not empty.
fn parts(list: &str, separator: char) -> impl Iterator<Item = &str> {
    list.split(separator).map(str::trim).filter(|part| !part.is_empty())
}

/// The name under which an output comes back.
fn last_part(path: &str) -> &str {
    let path = path.trim_end_matches('/');
    path.rsplit('/').next().unwrap_or(path)
}
