//! What an order must be, so that batch systems and shells read what was meant.

use std::collections::BTreeSet;

use super::{Fetch, Order, Refusal, SHARDS, Site, Stage, dag, refuse, site};
use crate::script::shell::{Command, Next};

/// Refuses an order that no files can be written for.
pub(super) fn accept(order: &Order) -> Result<(), Refusal> {
    names(order)?;
    inputs(order)?;
    programs(order)?;
    parameters(order)?;
    shares(order)?;
    credentials(order)?;
    if let Some(word) = open_word(order) {
        return Err(refuse(
            format!(
                "`{word}` has a parameter and `$`, a backtick, `\"` or `\\`: the job's shell would read them"
            ),
            "rename what has them, or put them into your own script, and name that",
        ));
    }
    dag::accept(order)?;
    place(order)?;
    site::accept(order)
}

/// Whether nobody needs quotes for it.
fn is_plain(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))
}

/// The job's name, and texts that stand in its files.
fn names(order: &Order) -> Result<(), Refusal> {
    if !is_plain(&order.name) || order.name.len() > 64 {
        return Err(refuse(
            format!("`{}` cannot be a job's name", order.name),
            "use letters, digits, `-` and `_`",
        ));
    }
    if order.command.is_empty() {
        return Err(refuse(
            "there is no command",
            "give the program and its arguments behind `--`",
        ));
    }
    let texts = Stage::of(order)
        .into_iter()
        .flat_map(|stage| stage.command)
        .chain(order.inputs.iter().map(|(name, _)| name))
        .chain(&order.checkpoint);
    let image = order.image.iter().map(|image| &image.source);
    let odd = |text: &&String| text.chars().any(|c| c.is_control() || c == '\'');
    if let Some(text) = texts.chain(image).chain(&order.account).chain(&order.partition).find(odd) {
        return Err(refuse(
            format!("`{}` has a quote or a line end", text.escape_debug()),
            "put it into your own script, and name that",
        ));
    }
    Ok(())
}

/// Files that travel.
fn inputs(order: &Order) -> Result<(), Refusal> {
    let names = order.inputs.iter().map(|(name, _)| name).chain(&order.checkpoint);
    if let Some(name) = names.clone().find(|name| name.contains([',', ' ', '/', '$'])) {
        return Err(refuse(
            format!("`{name}` cannot be listed"),
            "batch systems split lists at commas and spaces: rename it",
        ));
    }
    let mut seen = BTreeSet::new();
    if let Some(name) = order.inputs.iter().map(|(name, _)| name.as_str()).find(|name| {
        !seen.insert(*name)
            || matches!(
                *name,
                "run.sh" | "evaluate.sh" | "merge.sh" | "select.py" | "submit.sh" | "output"
            )
    }) {
        return Err(refuse(
            format!("two files are named `{name}`"),
            "inputs lie in one folder: rename one",
        ));
    }
    Ok(())
}

/// Scripts that nobody brings: jobs begin in a folder with their inputs alone.
fn programs(order: &Order) -> Result<(), Refusal> {
    let brought = |path: &str| {
        let name = path.strip_prefix("./").unwrap_or(path);
        order.inputs.iter().any(|(input, _)| input == name)
    };
    for stage in Stage::of(order) {
        let command = Command { line: 1, words: stage.command.to_vec(), next: Next::Then };
        let program = stage.command.first().map(String::as_str).filter(|word| word.contains('/'));
        let missing = |path: &&str| {
            // A program by its name alone may be in the image.
            let on_path = order.image.is_some()
                && !path.contains('/')
                && stage.command.first().is_some_and(|first| first == path);
            let is_here = !path.starts_with('/') && !path.contains(['{', ' ', '$']);
            is_here && !on_path && !brought(path)
        };
        if let Some(path) = [program, command.script()].into_iter().flatten().find(missing) {
            return Err(refuse(
                format!("there is no file `{path}` here, so it does not travel with the job"),
                "name a script by its path from this folder, and one of the image by its whole path, such as `/opt/train.py`",
            ));
        }
    }
    Ok(())
}

/// The sweep.
fn parameters(order: &Order) -> Result<(), Refusal> {
    let Some(parameters) = &order.parameters else { return Ok(()) };
    let value = |text: &&String| {
        text.is_empty()
            || text.chars().any(|c| !c.is_ascii_alphanumeric() && !"._+-/:=".contains(c))
    };
    if let Some(text) = parameters.rows.iter().flatten().find(value) {
        return Err(refuse(
            format!("the value `{text}` of a parameter cannot be passed on"),
            "use letters, digits and `. _ + - / : =`",
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
    let is_unused =
        |name: &&String| !order.command.iter().any(|word| word.contains(&format!("{{{name}}}")));
    match parameters.names.iter().find(is_unused) {
        Some(name) => Err(refuse(
            format!("the command does not use the parameter `{name}`"),
            &format!("write `{{{name}}}` where its value goes"),
        )),
        None => Ok(()),
    }
}

/// Shards of each job's own.
fn shares(order: &Order) -> Result<(), Refusal> {
    let Some(data) = order.data.as_ref().filter(|data| data.shares.is_some()) else {
        return Ok(());
    };
    if order.site.is_slurm() || data.fetch == Fetch::Runtime {
        return Err(refuse(
            "shards by part are what HTCondor brings, and here it brings no data",
            "leave out `--shards-by` or `--fetch job`, or make more parts",
        ));
    }
    let mut names = order.parameters.iter().flat_map(|parameters| &parameters.names);
    if names.any(|name| name.eq_ignore_ascii_case(SHARDS)) {
        return Err(refuse(
            format!("`{SHARDS}` cannot be a parameter's name beside `--shards-by`"),
            "take another one",
        ));
    }
    Ok(())
}

fn credentials(order: &Order) -> Result<(), Refusal> {
    let is_bad = |service: &&str| order.site.is_slurm() || !is_plain(service) || service.len() > 64;
    match order.credentials.as_deref().filter(is_bad) {
        Some(service) => Err(refuse(
            format!("`{service}` is not a service whose tokens the jobs can have"),
            "name the pool's service for HTCondor; on Slurm fetch the data before, on a login node",
        )),
        None => Ok(()),
    }
}

/// What the batch system cannot do.
fn place(order: &Order) -> Result<(), Refusal> {
    if order.stay && order.site == Site::Ospool {
        return Err(refuse(
            "jobs of the OSPool run anywhere: data cannot stay on campus",
            "take a site whose machines are your own: `--site chtc`, `jsc`, `generic`",
        ));
    }
    if order.nodes * order.tasks > 1 && !order.site.is_slurm() {
        return Err(refuse(
            "HTCondor starts one process for each job",
            "ask for several GPUs in one, `--gpus 2`, or use `--site jsc` or `slurm`",
        ));
    }
    let of_slurm = [("--account", &order.account), ("--partition", &order.partition)];
    let given = of_slurm.into_iter().find(|(_, value)| value.is_some() && !order.site.is_slurm());
    if let Some((option, _)) = given {
        return Err(refuse(
            format!("`{option}` has no effect on HTCondor"),
            "leave it out, or name a site with Slurm: `--site jsc` or `slurm`",
        ));
    }
    let local = order.data.iter().filter_map(|data| Some((data, data.local.as_ref()?))).next();
    if let Some((data, local)) = local {
        if !order.site.is_slurm() && data.fetch == Fetch::Runtime {
            return Err(refuse(
                format!("jobs cannot fetch `{}`, a folder of this machine", local.folder),
                "publish it with `gular publish`, and name its URL",
            ));
        }
        if data.files.iter().chain([&local.folder]).any(|path| path.contains([',', ' ', '$', '\'']))
        {
            return Err(refuse(
                format!("files in `{}` cannot be listed", local.folder),
                "batch systems split lists at commas and spaces: rename it",
            ));
        }
    }
    let commands = Stage::of(order).into_iter().flat_map(|stage| stage.command);
    if order.data.is_none() && commands.into_iter().any(|word| word.contains("{data}")) {
        return Err(refuse(
            "the command has `{data}`, and there is none",
            "name the bundle's URL with `--data`",
        ));
    }
    Ok(())
}

/// A word that would be double-quoted for what is filled in, with a character that a shell reads
/// inside double quotes.
fn open_word(order: &Order) -> Option<&str> {
    let names = order.parameters.iter().flat_map(|parameters| &parameters.names);
    let mut filled: Vec<String> = names.map(|name| format!("{{{name}}}")).collect();
    if order.site.is_slurm() {
        filled.extend(["{data}", "{trained}", "{each}"].map(str::to_owned));
    }
    let mut words = Stage::of(order).into_iter().flat_map(|stage| stage.command);
    let is_open = |word: &&String| {
        word.contains(['$', '`', '"', '\\']) && filled.iter().any(|place| word.contains(place))
    };
    words.find(is_open).map(String::as_str)
}
