//! The outputs that a job brings back to the folder it was submitted from.

use super::check::Context;
use super::expand::Variables;
use super::files::{initial_folder, inputs, targets};
use super::parse::Submit;
use crate::disk::{Disk, base_name, below, normal};

/// Paths that a job of `submit` leaves, submitted from `folder`, where a DAG's node gives the
/// macros `given`: its listed outputs, and what it prints.
pub(crate) fn brought_back(
    submit: &Submit,
    folder: &str,
    disk: &dyn Disk,
    given: Variables,
) -> Vec<String> {
    let context = Context::of(submit, folder, disk, given);
    let remaps = targets(&context);
    let target = |output: &str| {
        let output = output.trim_end_matches('/');
        let base = base_name(output);
        let to = remaps.iter().find(|(from, _)| *from == output || *from == base);
        to.map_or_else(|| base.to_owned(), |(_, to)| to.text.clone())
    };
    let files = context.list("transfer_output_files");
    let files = files.iter().map(|output| target(&output.text));
    let printed = ["output", "error", "stdout", "stderr", "out", "err"];
    let printed = printed.into_iter().filter_map(|name| Some(context.value(name)?.1));
    let printed = printed.map(|value| value.text.trim().trim_matches('"').to_owned());
    let folder = initial_folder(&context);
    files.chain(printed).map(|file| normal(&below(&folder, &file))).collect()
}

/// Returns the texts of the programs that a job runs, which name its outputs, since without a list
/// of outputs all new files are sent back. `None` if there is neither a list nor a text to read.
pub(crate) fn writers(
    submit: &Submit,
    folder: &str,
    disk: &dyn Disk,
    given: Variables,
) -> Option<Vec<String>> {
    if submit.get("transfer_output_files").is_some() {
        return Some(Vec::new());
    }
    let context = Context::of(submit, folder, disk, given);
    let program = context.value("executable")?.1;
    let program = disk.text(&normal(&below(folder, program.text.trim())))?;
    let folder = initial_folder(&context);
    let inputs = inputs(&context);
    let read = inputs.iter().filter_map(|input| disk.text(&normal(&below(&folder, &input.text))));
    Some(std::iter::once(program).chain(read).collect())
}
