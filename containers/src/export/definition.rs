//! Apptainer's definition files, and Dockerfiles.

use std::collections::BTreeMap;

use super::script::{Script, script};
use crate::assemble::{BIN, LIB};
use crate::lock::ImageLock;
use crate::recipe::{OciBase, Recipe, RunStep};
use crate::singularity::quoted;

/// An Apptainer definition file. `program` is the built program's path on this
/// machine; its name is that in the image.
pub fn definition(recipe: &Recipe, lock: &ImageLock, program: Option<&str>) -> String {
    let Script { from, commands } = script(lock);
    let mut text = match (&from, &recipe.base.oci) {
        (Some(from), _) => format!("Bootstrap: docker\nFrom: {from}\n"),
        (None, Some(OciBase::Path(oci))) if oci.is_dir() => {
            format!("Bootstrap: oci\nFrom: {}\n", oci.display())
        }
        (None, Some(OciBase::Path(oci))) => {
            format!("Bootstrap: oci-archive\nFrom: {}\n", oci.display())
        }
        (None, _) => "Bootstrap: scratch\n".to_owned(),
    };
    let files = files(recipe, program);
    if !files.is_empty() {
        text.push_str("\n%files\n");
        for (inside, here) in &files {
            text.push_str(&format!("    {} {}\n", quoted(here), quoted(inside)));
        }
    }
    if !commands.is_empty() || !recipe.run.is_empty() {
        text.push_str("\n%post\n    set -e\n");
        commands.iter().for_each(|command| text.push_str(&format!("    {command}\n")));
        recipe.run.iter().for_each(|step| text.push_str(&format!("    ( {} )\n", command(step))));
    }
    text.push_str("\n%environment\n");
    for (name, value) in environment(recipe, lock) {
        text.push_str(&format!("    export {name}={}\n", double_quoted(&value)));
    }
    if let Some(name) = program.map(file_name) {
        text.push_str(&format!("\n%runscript\n    exec /{BIN}/{} \"$@\"\n", quoted(name)));
    }
    text.push_str("\n%test\n    exit 0\n");
    if !recipe.labels.is_empty() {
        text.push_str("\n%labels\n");
        for (name, value) in &recipe.labels {
            text.push_str(&format!("    {name} {}\n", value.replace('\n', " ")));
        }
    }
    text
}

/// Returns a Dockerfile; its contents are those of [`definition`].
pub fn dockerfile(recipe: &Recipe, lock: &ImageLock, program: Option<&str>) -> String {
    let Script { from, commands } = script(lock);
    let mut text = format!("FROM {}\n", from.unwrap_or_else(|| "scratch".to_owned()));
    if let Some(OciBase::Path(oci)) = &recipe.base.oci {
        // BuildKit takes a layout under a name given on its command line.
        let path = oci.display();
        text = format!("# docker build --build-context base=oci-layout://{path} .\nFROM base\n");
    }
    if !commands.is_empty() {
        text.push_str(&format!("RUN set -e; \\\n    {}\n", commands.join(" && \\\n    ")));
    }
    for (inside, here) in files(recipe, program) {
        let words = serde_json::to_string(&[here, inside]).unwrap_or_default();
        text.push_str(&format!("COPY {words}\n"));
    }
    for (name, value) in environment(recipe, lock) {
        text.push_str(&format!("ENV {name}={}\n", double_quoted(&value)));
    }
    for step in &recipe.run {
        let words = serde_json::to_string(&["/bin/sh", "-c", &command(step)]).unwrap_or_default();
        text.push_str(&format!("RUN {words}\n"));
    }
    for (name, value) in &recipe.labels {
        text.push_str(&format!("LABEL {name}={}\n", double_quoted(&itself(value))));
    }
    if let Some(name) = program.map(file_name) {
        let word = serde_json::to_string(&[format!("/{BIN}/{name}")]).unwrap_or_default();
        text.push_str(&format!("ENTRYPOINT {word}\n"));
    }
    text
}

/// A step of `[[run]]` as one command, which writes the script to a file and starts it.
fn command(step: &RunStep) -> String {
    const AT: &str = "/tmp/step";
    let own = step.script.starts_with("#!");
    let script = format!("{}{}", if own { "" } else { "#!/bin/sh -e\n" }, step.script);
    let (folder, script) = (quoted(&step.workdir), quoted(&script));
    let env = step.env.iter().map(|(name, value)| format!("{name}={} ", quoted(value)));
    format!(
        "mkdir -p {folder} && cd {folder} && printf %s {script} >{AT} && chmod 755 {AT} && {}{AT} && rm {AT}",
        env.collect::<String>()
    )
}

/// The files to copy: path in the image, path on this machine.
fn files(recipe: &Recipe, program: Option<&str>) -> Vec<(String, String)> {
    let mut files = Vec::new();
    if let Some(program) = program {
        files.push((format!("/{BIN}/{}", file_name(program)), program.to_owned()));
    }
    let further = recipe.app.iter().flat_map(|app| &app.files);
    files.extend(further.map(|(inside, here)| {
        (format!("/{}", inside.trim_start_matches('/')), here.display().to_string())
    }));
    files
}

fn environment(recipe: &Recipe, lock: &ImageLock) -> BTreeMap<String, String> {
    let mut env = BTreeMap::from([("PATH".to_owned(), format!("/{BIN}:$PATH"))]);
    if !lock.wheels.is_empty() {
        let old = "${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}";
        env.insert("LD_LIBRARY_PATH".to_owned(), format!("/{LIB}{old}"));
    }
    env.extend(recipe.env.iter().map(|(name, value)| (name.clone(), itself(value))));
    env
}

/// A text of the recipe that stands for itself between double quotes.
fn itself(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        if matches!(c, '\\' | '"' | '$' | '`') {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Between double quotes, where `$` keeps its meaning.
fn double_quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\n', "\\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_one_command_that_a_shell_runs() {
        let dir = tempfile::tempdir().unwrap();
        let text = "[[run]]\nscript = \"echo \\\"$A\\\" 'x y' >out\\nfalse\\necho not >out\"\nenv = { A = \"it's\" }\n";
        let recipe = Recipe::parse(&format!("[image]\nname = \"a\"\n{text}"), "").unwrap();
        let step = RunStep { workdir: dir.path().display().to_string(), ..recipe.run[0].clone() };
        let at = dir.path().join("step").display().to_string();
        let command = command(&step).replace("/tmp/step", &at);
        let status = std::process::Command::new("sh").args(["-c", &command]).status().unwrap();
        assert!(!status.success());
        assert_eq!(std::fs::read_to_string(dir.path().join("out")).unwrap(), "it's x y\n");
    }

    #[test]
    fn a_value_stands_for_itself() {
        for (value, expected) in [
            ("plain", r#""plain""#),
            (r#"a\b"c"#, r#""a\\b\"c""#),
            ("`id` $HOME", r#""\`id\` \$HOME""#),
        ] {
            assert_eq!(double_quoted(&itself(value)), expected);
        }
    }
}
