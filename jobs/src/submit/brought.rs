//! What a job brings back to the folder of its submit file.

use super::expand::{Variables, expand};
use super::parse::Submit;
use crate::disk::{base_name, below, folder_of};

/// The listed outputs of the submit file `file`, as paths, where a DAG's node gives the macros
/// `given`.
pub(crate) fn brought_back(file: &str, submit: &Submit, given: Variables) -> Vec<String> {
    let variables = submit.variables(given);
    let value = |name: &str| {
        let set = submit.get(name)?;
        Some(expand(set.value.trim().trim_matches('"'), &variables, &[]).text)
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
        let base = base_name(output);
        let to = remaps.iter().find(|(from, _)| *from == output || *from == base);
        below(folder_of(file), to.map_or(base, |(_, to)| to))
    };
    outputs.filter(|output| !output.is_empty()).map(target).collect()
}
