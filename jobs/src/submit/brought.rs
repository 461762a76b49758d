//! What a job brings back to the folder of its submit file.

use super::check::Given;
use super::expand::expand;
use super::parse::Submit;
use crate::disk::{below, folder_of};

/// The listed outputs of the submit file `file` when the DAG's node `node` runs it, as paths.
pub(crate) fn brought_back(file: &str, text: &str, node: &str, given: &Given) -> Vec<String> {
    let submit = Submit::parse(text);
    let mut variables = given.variables.clone();
    for set in submit.sets.iter().filter(|set| !set.attribute) {
        variables.insert(set.name.to_ascii_lowercase(), set.value.clone());
    }
    let value = |name: &str| {
        let set = submit.get(name)?;
        let text = expand(set.value.trim().trim_matches('"'), &variables, &[]).text;
        Some(text.replace("$(JOB)", node).replace("$(job)", node))
    };
    let remaps = value("transfer_output_remaps").unwrap_or_default();
    let remaps: Vec<(&str, &str)> = remaps
        .split(';')
        .filter_map(|pair| pair.split_once('='))
        .map(|(from, to)| (from.trim(), to.trim()))
        .collect();
    let outputs = value("transfer_output_files").unwrap_or_default();
    let outputs = outputs.split(',').map(|output| output.trim().trim_end_matches('/'));
    let target = |output: &str| {
        let base = output.rsplit('/').next().unwrap_or_default();
        let to = remaps.iter().find(|(from, _)| *from == output || *from == base);
        below(folder_of(file), to.map_or(base, |(_, to)| to))
    };
    outputs.filter(|output| !output.is_empty()).map(target).collect()
}
