//! A draft as the text of a recipe, with the files that it names.

use std::collections::BTreeMap;

use super::draft::{Base, Difference, Draft, one_line};
use super::step::Start;
use super::{ImportOptions, Imported};
use crate::Result;
use crate::recipe::{Recipe, RunStep};
use crate::singularity::quoted;

/// How the image starts its program.
#[derive(Debug)]
pub(super) struct Launch {
    pub(super) entrypoint: Option<Start>,
    pub(super) command: Option<Start>,
    /// The folder in which it starts; `None` for that of the job.
    pub(super) folder: Option<String>,
}

/// Writes the recipe.
///
/// # Errors
/// [`Error::Recipe`](crate::Error::Recipe) for what no recipe may say, such as a wrong name.
pub(super) fn write(
    draft: Draft,
    launch: Option<Launch>,
    path: &str,
    options: &ImportOptions,
) -> Result<Imported> {
    let mut files = BTreeMap::new();
    let here = |path: &str| match path.starts_with('/') || options.prefix.is_empty() {
        true => path.to_owned(),
        false => format!("{}/{path}", options.prefix),
    };
    let mut text = format!("# From {}.\n", one_line(path));
    for (difference, title) in
        [(Difference::Missing, "Not in this image:"), (Difference::Other, "Otherwise than there:")]
    {
        let mut lines =
            draft.left_out.iter().filter(|left| left.difference == difference).peekable();
        if lines.peek().is_some() {
            text.push_str(&format!("#\n# {title}\n"));
        }
        for left in lines {
            text.push_str(&format!(
                "# line {}: {}: {}\n",
                left.line,
                left.text,
                one_line(&left.reason)
            ));
        }
    }
    text.push_str(&format!("\n[image]\nname = {}\n", toml_text(&options.name)));
    if let Some(platform) = &draft.platform {
        text.push_str(&format!("platform = {}\n", toml_text(platform)));
    }
    text.push_str("\n[base]\n");
    let mut packages: Vec<String> = Vec::new();
    match draft.base.as_ref().unwrap_or(&Base::Debian("bookworm")) {
        Base::Scratch => text.push_str("scratch = true\n"),
        Base::Debian(release) => {
            text.push_str(&format!("debian = {}\n", toml_text(release)));
            packages.push("default".to_owned());
        }
        Base::Oci(oci) => text.push_str(&format!("oci = {}\n", toml_text(oci))),
    }
    packages.extend(draft.packages.iter().cloned());
    if !draft.packages.is_empty() {
        text.push_str(&format!("packages = {}\n", list(&packages)));
    }
    let script = launch.map(|launch| script(&launch));
    let has_files = !draft.files.is_empty() || !draft.texts.is_empty();
    if script.is_some() || has_files {
        text.push_str("\n[app]\n");
    }
    if let Some(script) = script {
        let name = format!("{}.sh", options.name);
        text.push_str(&format!("path = {}\n", toml_text(&name)));
        files.insert(name, script);
    }
    if has_files {
        text.push_str("\n[app.files]\n");
        for (inside, path) in &draft.files {
            text.push_str(&format!("{} = {}\n", toml_text(inside), toml_text(&here(path))));
        }
        for (inside, (name, lines)) in &draft.texts {
            text.push_str(&format!("{} = {}\n", toml_text(inside), toml_text(name)));
            files.insert(name.clone(), lines.clone());
        }
    }
    if !draft.requirements.is_empty() || !draft.wheels.is_empty() || draft.lock.is_some() {
        text.push_str("\n[python]\n");
    }
    if let Some(lock) = &draft.lock {
        text.push_str(&format!("lock = {}\n", toml_text(&here(&lock.path))));
        for (key, names) in [("extras", &lock.extras), ("groups", &lock.groups)] {
            if !names.is_empty() {
                let names: Vec<String> = names.iter().cloned().collect();
                text.push_str(&format!("{key} = {}\n", list(&names)));
            }
        }
    }
    match draft.requirements.as_slice() {
        [] => {}
        [only] if only.starts_with("-r ") => {
            let file = only.trim_start_matches("-r ");
            text.push_str(&format!("requirements = {}\n", toml_text(&here(file))));
        }
        lines => {
            let name = format!("{}-requirements.txt", options.name);
            text.push_str(&format!("requirements = {}\n", toml_text(&name)));
            let line = |line: &String| match line.split_once(' ') {
                Some((option @ ("-r" | "-c" | "-e" | "--find-links"), path))
                    if !path.contains("://") =>
                {
                    format!("{option} {}\n", here(path))
                }
                _ => format!("{line}\n"),
            };
            files.insert(name, lines.iter().map(line).collect());
        }
    }
    if !draft.wheels.is_empty() {
        let wheels: Vec<String> = draft.wheels.iter().map(|path| here(path)).collect();
        text.push_str(&format!("wheels = {}\n", list(&wheels)));
    }
    draft.steps.iter().for_each(|step| text.push_str(&run(step)));
    for (section, values) in [("env", &draft.env), ("labels", &draft.labels)] {
        if !values.is_empty() {
            text.push_str(&format!("\n[{section}]\n"));
        }
        for (name, value) in values {
            text.push_str(&format!("{} = {}\n", key(name), toml_text(value)));
        }
    }
    Recipe::parse(&text, "the new recipe")?;
    Ok(Imported { recipe: text, files, left_out: draft.left_out })
}

/// A table of `[[run]]`.
fn run(step: &RunStep) -> String {
    let script = &step.script;
    let is_literal = |c: char| matches!(c, '\n' | '\t') || !c.is_control();
    // Between these quotes, all stands for itself.
    let mut text = match script.contains("'''") || !script.chars().all(is_literal) {
        true => format!("\n[[run]]\nscript = {}\n", toml_text(script)),
        false => format!("\n[[run]]\nscript = '''\n{script}'''\n"),
    };
    if step.network {
        text.push_str("network = true\n");
    }
    if step.workdir != "/" {
        text.push_str(&format!("workdir = {}\n", toml_text(&step.workdir)));
    }
    if !step.env.is_empty() {
        let pairs = step.env.iter().map(|(name, value)| format!("{name} = {}", toml_text(value)));
        text.push_str(&format!("env = {{ {} }}\n", pairs.collect::<Vec<_>>().join(", ")));
    }
    text
}

/// The script that starts what ENTRYPOINT and CMD, or `%runscript`, name.
fn script(launch: &Launch) -> String {
    let words =
        |words: &[String]| words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ");
    let mut text = "#!/bin/sh\n".to_owned();
    if let Some(folder) = &launch.folder {
        text.push_str(&format!("cd {} || exit\n", quoted(folder)));
    }
    match (&launch.entrypoint, &launch.command) {
        (Some(Start::Script(script)), _) => text.push_str(&unindented(script)),
        // As Docker has it, the text of a shell sees neither CMD nor arguments.
        (Some(Start::Shell(script)), _) => text.push_str(script),
        (Some(Start::Words(entry)), command) => {
            let arguments = match command {
                Some(Start::Words(arguments)) => words(arguments),
                Some(Start::Shell(script)) => {
                    words(&["/bin/sh".to_owned(), "-c".to_owned(), script.clone()])
                }
                _ => String::new(),
            };
            if !arguments.is_empty() {
                text.push_str(&format!("[ $# -gt 0 ] || set -- {arguments}\n"));
            }
            text.push_str(&format!("exec {} \"$@\"", words(entry)));
        }
        (None, Some(Start::Words(command))) => {
            text.push_str(&format!("[ $# -gt 0 ] || set -- {}\nexec \"$@\"", words(command)));
        }
        (None, Some(Start::Shell(script) | Start::Script(script))) => {
            text.push_str(&format!("[ $# -eq 0 ] || exec \"$@\"\n{script}"));
        }
        (None, None) => {}
    }
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text
}

/// A script without the spaces that all its lines begin with.
fn unindented(script: &str) -> String {
    let filled = || script.lines().filter(|line| !line.trim().is_empty());
    let spaces = |line: &str| line.len() - line.trim_start_matches(' ').len();
    let common = filled().map(spaces).min().unwrap_or(0);
    // A document within the script would change.
    let common = if script.contains("<<") { 0 } else { common };
    let lines = script.trim_matches('\n').lines();
    lines.map(|line| format!("{}\n", line.get(common..).unwrap_or_default())).collect()
}

fn toml_text(text: &str) -> String {
    toml::Value::from(text).to_string()
}

fn list(texts: &[String]) -> String {
    let quoted: Vec<String> = texts.iter().map(|text| toml_text(text)).collect();
    if quoted.iter().map(String::len).sum::<usize>() < 80 {
        return format!("[{}]", quoted.join(", "));
    }
    let lines: String = quoted.iter().map(|text| format!("    {text},\n")).collect();
    format!("[\n{lines}]")
}

fn key(name: &str) -> String {
    let bare =
        !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b));
    if bare { name.to_owned() } else { toml_text(name) }
}
