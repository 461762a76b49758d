//! What a job brings back to the folder that it is submitted from.

use super::expand::{Variables, expand};
use super::parse::Submit;
use crate::disk::{Disk, base_name, below, normal};

/// Paths that a job of `submit` leaves, submitted from `folder`, where a DAG's node gives the
/// macros `given`: its listed outputs, and what it prints.
pub(crate) fn brought_back(submit: &Submit, folder: &str, given: Variables) -> Vec<String> {
    let values = Values::of(submit, folder, given);
    let remaps = values.text("transfer_output_remaps").unwrap_or_default();
    let remaps: Vec<(&str, &str)> = remaps
        .split(';')
        .filter_map(|pair| pair.split_once('='))
        .map(|(from, to)| (from.trim(), to.trim()))
        .collect();
    let target = |output: &String| {
        let output = output.trim_end_matches('/');
        let base = base_name(output);
        let to = remaps.iter().find(|(from, _)| *from == output || *from == base);
        to.map_or(base, |(_, to)| to).to_owned()
    };
    let printed = ["output", "error", "stdout", "stderr", "out", "err"];
    let printed = printed.into_iter().filter_map(|name| values.text(name));
    let files = values.list("transfer_output_files");
    files.iter().map(target).chain(printed).map(|file| values.path(&file)).collect()
}

/// Where outputs are not listed all new files come back: texts of what the job runs, which name
/// them. `None` where there is no list, and nothing to read.
pub(crate) fn writers(
    submit: &Submit,
    folder: &str,
    disk: &dyn Disk,
    given: Variables,
) -> Option<Vec<String>> {
    if submit.get("transfer_output_files").is_some() {
        return Some(Vec::new());
    }
    let values = Values::of(submit, folder, given);
    let read = |name: &String| disk.text(&values.path(name));
    let program = values.text("executable").as_ref().and_then(read)?;
    let inputs = values.list("transfer_input_files");
    Some(std::iter::once(program).chain(inputs.iter().filter_map(read)).collect())
}

/// The commands of a submit file with their macros replaced.
struct Values<'a> {
    submit: &'a Submit,
    variables: Variables,
    folder: String,
}

impl<'a> Values<'a> {
    fn of(submit: &'a Submit, folder: &str, given: Variables) -> Self {
        let variables = submit.variables(given);
        let mut values = Self { submit, variables, folder: folder.to_owned() };
        let initial = values.text("initialdir").unwrap_or_default();
        values.folder = below(folder, &initial).trim_end_matches('/').to_owned();
        values
    }

    fn text(&self, name: &str) -> Option<String> {
        let set = self.submit.get(name)?;
        Some(expand(set.value.trim().trim_matches('"'), &self.variables, &[]).text)
    }

    fn list(&self, name: &str) -> Vec<String> {
        let text = self.text(name).unwrap_or_default();
        let members = text.split(',').map(str::trim).filter(|member| !member.is_empty());
        members.map(str::to_owned).collect()
    }

    fn path(&self, name: &str) -> String {
        normal(&below(&self.folder, name))
    }
}
