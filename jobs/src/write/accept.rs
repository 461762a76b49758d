//! Conditions that a job must meet, so that batch systems and shells read what was meant.

use std::collections::BTreeSet;

use super::{Fetch, JobLine, JobSpec, JobStage, Refusal, SHARDS, Site, dag, refuse, site};
use crate::disk::base_name;
use crate::finding::FileFindings;
use crate::sbatch::header;
use crate::script::shell::{Command, Script};
use crate::submit::{Set, Submit, command_name, is_known};

/// Refuses a job that no files can be written for.
pub(super) fn accept(spec: &JobSpec) -> Result<(), Refusal> {
    names(spec)?;
    inputs(spec)?;
    programs(spec)?;
    parameters(spec)?;
    shares(spec)?;
    lines(spec)?;
    if let Some((first, next)) = spec.memory_bytes.zip(spec.retry_memory_bytes)
        && next <= first
    {
        return Err(refuse(
            "the memory of another try is not larger than that of the first",
            "ask for more, or leave it out",
        ));
    }
    credentials(spec)?;
    if let Some(word) = open_word(spec) {
        return Err(refuse(
            format!(
                "`{word}` has a parameter, and also `$`, a backtick, `\"` or `\\`, which the job's shell would interpret"
            ),
            "rename the file that has these characters, or put this part of the command into a script of your own, and run that",
        ));
    }
    dag::accept(spec)?;
    place(spec)?;
    site::accept(spec)
}

/// Whether a text needs no quotes anywhere.
fn is_plain(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))
}

/// The job's name, and texts that stand in its files.
fn names(spec: &JobSpec) -> Result<(), Refusal> {
    if !is_plain(&spec.name) || spec.name.len() > 64 {
        return Err(refuse(
            format!("`{}` cannot be a job's name", spec.name),
            "use letters, digits, `-` and `_`",
        ));
    }
    if spec.command.is_empty() {
        return Err(refuse(
            "no command was given",
            "write the program and its arguments after `--`",
        ));
    }
    let texts = JobStage::of(spec)
        .into_iter()
        .flat_map(|stage| stage.command)
        .chain(spec.inputs.iter().map(|(name, _)| name))
        .chain(&spec.checkpoint);
    let image = spec.image.iter().map(|image| &image.source);
    let odd = |text: &&String| text.chars().any(|c| c.is_control() || c == '\'');
    if let Some(text) = texts.chain(image).find(odd) {
        return Err(refuse(
            format!("`{}` contains a quote or a line end", text.escape_debug()),
            "put this part of the command into a script of your own, and run that",
        ));
    }
    // Spaces part the options of `#SBATCH`, and `#` ends them. A list has commas.
    let is_name = |text: &String| {
        text.split(',').all(|name| {
            !name.is_empty()
                && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.@+:".contains(c))
        })
    };
    for (option, value) in [("--account", &spec.account), ("--partition", &spec.partition)] {
        if let Some(value) = value.as_ref().filter(|value| !is_name(value)) {
            return Err(refuse(
                format!("`{option}` cannot be `{}`", value.escape_debug()),
                "use letters, digits and `- _ . @ + :`, as in the name that Slurm knows",
            ));
        }
    }
    Ok(())
}

/// Checks the lines that the user adds: each is one statement, and sets nothing that is set already.
fn lines(spec: &JobSpec) -> Result<(), Refusal> {
    let odd = |line: &&JobLine| line.text.chars().chain(line.source.chars()).any(char::is_control);
    if let Some(line) = spec.before.iter().chain(&spec.lines).find(odd) {
        let fix = "write each line by itself";
        return Err(refuse(
            format!("`{}` is not one line of the file", line.text.escape_debug()),
            fix,
        ));
    }
    if let Some(line) = spec.before.iter().chain(&spec.lines).find(|l| l.text.ends_with('\\')) {
        let what = format!("`{}` ends with a backslash, and would join the next line", line.text);
        return Err(refuse(what, "write the whole statement into one line"));
    }
    let before: String = spec.before.iter().map(|line| line.written("")).collect();
    if Script::parse(&before).unread.is_some() {
        let what = format!("the shell cannot read the lines before the program:\n{before}");
        return Err(refuse(what, "`bash -n` says what is wrong in them"));
    }
    let bare = JobSpec { lines: Vec::new(), ..spec.clone() };
    let stages = JobStage::of(&bare);
    let (text_of, fix): (fn(&JobSpec, &JobStage<'_>) -> String, _) = match spec.site.is_slurm() {
        true => (super::slurm::script, "write one option of sbatch: `--line=--qos=normal`"),
        false => (
            super::condor::submit_file,
            "write one line of a submit file: `--line 'accounting_group = NAME'`, or `--line '+ProjectName = \"NAME\"'`",
        ),
    };
    let mut set: Vec<String> = Vec::new();
    for stage in &stages {
        set.extend(settings(spec, &text_of(&bare, stage)).0);
    }
    for line in &spec.lines {
        // What follows shows whether the line takes more than itself.
        let text = match spec.site.is_slurm() {
            true => format!("#SBATCH {}\ntrue\n", line.text),
            false => format!("{}\nqueue\n", line.text),
        };
        let (found, is_whole) = settings(spec, &text);
        let ([name], true) = (found.as_slice(), is_whole) else {
            return Err(refuse(format!("`{}` is not one line of the file", line.text), fix));
        };
        if set.contains(name) {
            return Err(refuse(
                format!("`{name}` is set already"),
                "use the option that sets it, or change the file afterwards",
            ));
        }
        set.push(name.clone());
    }
    Ok(())
}

/// The options or commands that a text sets, and whether it has nothing else that is not in place.
fn settings(spec: &JobSpec, text: &str) -> (Vec<String>, bool) {
    if spec.site.is_slurm() {
        let lines: Vec<&str> = text.lines().collect();
        let mut report = FileFindings::new("");
        let header = header(&lines, &Script::parse(text), &mut report);
        let names = header.settings.into_iter().map(|setting| format!("--{}", setting.name));
        return (names.collect(), report.findings.is_empty());
    }
    let submit = Submit::parse(text);
    let is_other = submit.includes || submit.open_if.is_some() || !submit.strange.is_empty();
    let name = |set: &Set| {
        let plus = if set.attribute { "+" } else { "" };
        format!("{plus}{}", command_name(&set.name))
    };
    (submit.sets.iter().map(name).collect(), !is_other && submit.queues.len() == 1)
}

/// Checks the files that are sent with the job.
fn inputs(spec: &JobSpec) -> Result<(), Refusal> {
    let names = spec.inputs.iter().map(|(name, _)| name).chain(&spec.checkpoint);
    if let Some(name) = names.clone().find(|name| name.contains([',', ' ', '/', '$'])) {
        return Err(refuse(
            format!("`{name}` contains a comma or a space"),
            "rename the file: batch systems split lists at commas and spaces",
        ));
    }
    if let Some(url) = spec.input_urls.first().filter(|_| spec.site.is_slurm()) {
        return Err(refuse(
            format!("Slurm does not fetch `{url}`"),
            "fetch it once, on a login node, and give the command its path there",
        ));
    }
    let is_odd = |url: &&String| url.contains([',', ' ', '$', '"', '\'']) || url.ends_with('/');
    if let Some(url) = spec.input_urls.iter().find(is_odd) {
        return Err(refuse(
            format!(
                "`{url}` cannot be an input: it names a folder, or has a comma, a space or a quote"
            ),
            "give the URL of one file; `?recursive` behind an `osdf` URL fetches a folder",
        ));
    }
    let mut seen = BTreeSet::new();
    if let Some(name) = spec.inputs.iter().map(|(name, _)| name.as_str()).find(|name| {
        !seen.insert(*name)
            || matches!(
                *name,
                "run.sh" | "evaluate.sh" | "merge.sh" | "select.py" | "submit.sh" | "output"
            )
    }) {
        return Err(refuse(
            format!("two input files are named `{name}`"),
            "rename one of the two: all inputs are put into one folder",
        ));
    }
    Ok(())
}

/// Scripts that nobody brings: jobs begin in a folder with their inputs alone.
fn programs(spec: &JobSpec) -> Result<(), Refusal> {
    let brought = |path: &str| {
        let name = path.strip_prefix("./").unwrap_or(path);
        spec.inputs.iter().any(|(input, _)| input == name)
            || spec.input_urls.iter().any(|url| base_name(url) == name)
    };
    for stage in JobStage::of(spec) {
        let command = Command::of(stage.command.to_vec());
        let program = stage.command.first().map(String::as_str).filter(|word| word.contains('/'));
        let missing = |path: &&str| {
            // A program by its name alone may be in the image.
            let on_path = spec.image.is_some()
                && !path.contains('/')
                && stage.command.first().is_some_and(|first| first == path);
            let is_here = !path.starts_with('/') && !path.contains(['{', ' ', '$']);
            is_here && !on_path && !brought(path)
        };
        if let Some(path) = [program, command.script()].into_iter().flatten().find(missing) {
            return Err(refuse(
                format!("the file `{path}` does not exist here, so it cannot be sent with the job"),
                "give the path of a script relative to this folder; for a script in the image, give its full path, such as `/opt/train.py`",
            ));
        }
    }
    Ok(())
}

/// Checks the parameters of the sweep.
fn parameters(spec: &JobSpec) -> Result<(), Refusal> {
    let Some(parameters) = &spec.parameters else { return Ok(()) };
    let value = |text: &&String| {
        text.is_empty()
            || text.chars().any(|c| !c.is_ascii_alphanumeric() && !"._+-/:=".contains(c))
    };
    if let Some(text) = parameters.rows.iter().flatten().find(value) {
        return Err(refuse(
            format!("the parameter's value `{text}` contains a character that cannot be passed on"),
            "use only letters, digits and `. _ + - / : =`",
        ));
    }
    let name = |text: &&String| {
        !text.starts_with(|c: char| c.is_ascii_alphabetic())
            || text.chars().any(|c| !c.is_ascii_alphanumeric() && c != '_')
    };
    if let Some(text) = parameters.names.iter().find(name) {
        return Err(refuse(
            format!("`{text}` cannot be a parameter's name"),
            "begin with a letter; use letters, digits and `_`",
        ));
    }
    // A variable of `queue` or VARS that is named like a command sets it.
    let is_command = |name: &&String| !spec.site.is_slurm() && is_known(name);
    if let Some(text) = parameters.names.iter().find(is_command) {
        return Err(refuse(
            format!(
                "`{text}` cannot be a parameter's name: it is a command of HTCondor's submit files, which each value would replace"
            ),
            &format!("give it another name, such as `my_{text}`, in `--sweep` and in the command"),
        ));
    }
    let is_unused =
        |name: &&String| !spec.command.iter().any(|word| word.contains(&format!("{{{name}}}")));
    match parameters.names.iter().find(is_unused) {
        Some(name) => Err(refuse(
            format!("the command does not use the parameter `{name}`"),
            &format!("write `{{{name}}}` in the command, where the value should be"),
        )),
        None => Ok(()),
    }
}

/// Checks the shards of each job.
fn shares(spec: &JobSpec) -> Result<(), Refusal> {
    let Some(data) = spec.data.as_ref().filter(|data| data.shares.is_some()) else {
        return Ok(());
    };
    if spec.site.is_slurm() || data.fetch == Fetch::Runtime {
        return Err(refuse(
            "`--shards-by part` works only if HTCondor transfers the data, which it does not do here",
            "leave out `--shards-by` or `--fetch job`, or make more parts",
        ));
    }
    let mut names = spec.parameters.iter().flat_map(|parameters| &parameters.names);
    if names.any(|name| name.eq_ignore_ascii_case(SHARDS)) {
        return Err(refuse(
            format!("with `--shards-by`, a parameter cannot be named `{SHARDS}`"),
            "choose another name",
        ));
    }
    Ok(())
}

fn credentials(spec: &JobSpec) -> Result<(), Refusal> {
    let is_bad = |service: &&str| spec.site.is_slurm() || !is_plain(service) || service.len() > 64;
    match spec.credentials.as_deref().filter(is_bad) {
        Some(service) => Err(refuse(
            format!("`{service}` is not a service whose tokens the jobs can have"),
            "on HTCondor, give the name of the pool's token service; on Slurm, fetch the data before, on a login node",
        )),
        None => Ok(()),
    }
}

/// Refuses what the batch system cannot do.
fn place(spec: &JobSpec) -> Result<(), Refusal> {
    if spec.stay && spec.site == Site::Ospool {
        return Err(refuse(
            "jobs of the OSPool run on other campuses too, where data that stays on yours cannot be read",
            "choose a site with machines of your own: `--site chtc`, `jsc` or `generic`",
        ));
    }
    if spec.nodes * spec.tasks > 1 && !spec.site.is_slurm() {
        return Err(refuse(
            "HTCondor starts one process for each job",
            "ask for several GPUs in one process with `--gpus 2`, or use `--site jsc` or `slurm`",
        ));
    }
    if let Some(launcher) = alone_on_each_node(spec) {
        return Err(refuse(
            format!(
                "`{launcher}` on {} nodes needs to know where the nodes meet: as written, each would be node 0 of its own machine",
                spec.nodes
            ),
            "leave out the launcher: with `--tasks N` each process has RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT, as torchrun sets them",
        ));
    }
    let of_slurm = [("--account", &spec.account), ("--partition", &spec.partition)];
    let given = of_slurm.into_iter().find(|(_, value)| value.is_some() && !spec.site.is_slurm());
    if let Some((option, _)) = given {
        return Err(refuse(
            format!("`{option}` has no effect on HTCondor"),
            "leave it out, or choose a site with Slurm: `--site jsc` or `slurm`",
        ));
    }
    let local = spec.data.iter().filter_map(|data| Some((data, data.local.as_ref()?))).next();
    if let Some((data, local)) = local {
        if !spec.site.is_slurm() && data.fetch == Fetch::Runtime {
            return Err(refuse(
                format!("jobs cannot fetch `{}`: it is a folder of this machine", local.folder),
                "publish the bundle with `gular publish`, and give its URL",
            ));
        }
        if data.files.iter().chain([&local.folder]).any(|path| path.contains([',', ' ', '$', '\'']))
        {
            return Err(refuse(
                format!("the path `{}` contains a comma or a space", local.folder),
                "rename the file: batch systems split lists at commas and spaces",
            ));
        }
    }
    let commands = JobStage::of(spec).into_iter().flat_map(|stage| stage.command);
    if spec.data.is_none() && commands.into_iter().any(|word| word.contains("{data}")) {
        return Err(refuse(
            "the command contains `{data}`, but no data was given",
            "give the bundle's URL with `--data`",
        ));
    }
    Ok(())
}

/// A launcher of several processes that is not told of the other nodes.
fn alone_on_each_node(spec: &JobSpec) -> Option<&str> {
    let launchers = ["torchrun", "accelerate", "deepspeed"];
    let modules =
        ["torch.distributed.run", "torch.distributed.launch", "accelerate.commands.launch"];
    let meets = ["--rdzv", "--master", "--main_process_ip", "--main-process-ip", "--hostfile"];
    let words = || spec.command.iter().map(String::as_str);
    if spec.nodes < 2 || words().any(|word| meets.iter().any(|option| word.starts_with(option))) {
        return None;
    }
    words().find(|word| launchers.contains(&base_name(word)) || modules.contains(word))
}

/// A word that would be double-quoted for what is filled in, with a character that a shell reads
/// inside double quotes.
fn open_word(spec: &JobSpec) -> Option<&str> {
    let names = spec.parameters.iter().flat_map(|parameters| &parameters.names);
    let mut filled: Vec<String> = names.map(|name| format!("{{{name}}}")).collect();
    if spec.site.is_slurm() {
        filled.extend(["{data}", "{trained}", "{each}"].map(str::to_owned));
    }
    let mut words = JobStage::of(spec).into_iter().flat_map(|stage| stage.command);
    let is_open = |word: &&String| {
        word.contains(['$', '`', '"', '\\']) && filled.iter().any(|place| word.contains(place))
    };
    words.find(is_open).map(String::as_str)
}
