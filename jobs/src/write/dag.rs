//! Writes the graph of an ensemble: jobs, their evaluations, the choice of the best, the merge.
//!
//! ```text
//! job0 ─▶ evaluate0 ─┐
//! job1 ─▶ evaluate1 ─┴▶ select      job0, job1 ─▶ merge
//! ```
//!
//! Every node brings its results back under its own name, so a graph that is started again
//! finds what was made before.

use std::fmt::Write as _;

use super::{JobSpec, Refusal, refuse};

/// Number of jobs in the sweep.
pub(super) fn n_jobs(spec: &JobSpec) -> usize {
    spec.parameters.as_ref().map_or(1, |parameters| parameters.rows.len())
}

/// The files that the jobs send back.
pub(super) fn results(spec: &JobSpec) -> Vec<String> {
    (0..n_jobs(spec)).map(|i| format!("results/job{i}.tar")).collect()
}

/// Returns the text of the DAG file.
pub(super) fn graph(spec: &JobSpec) -> String {
    let name = &spec.name;
    let mut text = format!(
        "# Written by `gular job new`; `gular job lint {name}.dag` checks it after a change.\n# After a failure `condor_submit_dag {name}.dag` runs what is not done.\n"
    );
    let stages = &spec.stages;
    let parameters = spec.parameters.as_ref();
    for i in 0..n_jobs(spec) {
        let names = parameters.iter().flat_map(|parameters| &parameters.names);
        let row = parameters.and_then(|parameters| parameters.rows.get(i));
        let vars: String = names
            .zip(row.into_iter().flatten())
            .map(|(name, value)| format!(" {name}=\"{value}\""))
            .collect();
        let shards = spec.data.as_ref().and_then(|data| data.macro_of(i)).unwrap_or_default();
        let _ = writeln!(text, "JOB job{i} {name}.sub");
        if !vars.is_empty() {
            let _ = writeln!(text, "VARS job{i}{vars}{shards}");
        }
        if stages.evaluate.is_some() {
            let _ = write!(
                text,
                "JOB evaluate{i} evaluate.sub\nVARS evaluate{i} of=\"job{i}\"{vars}{shards}\nPARENT job{i} CHILD evaluate{i}\n"
            );
        }
    }
    let all =
        |node: &str| (0..n_jobs(spec)).map(|i| format!("{node}{i}")).collect::<Vec<_>>().join(" ");
    if stages.select.is_some() {
        let _ = write!(
            text,
            "# No job: DAGMan runs the script where it was submitted.\nJOB select evaluate.sub NOOP\nSCRIPT PRE select select.py\nPARENT {} CHILD select\n",
            all("evaluate")
        );
    }
    if stages.merge.is_some() {
        let _ = write!(text, "JOB merge merge.sub\nPARENT {} CHILD merge\n", all("job"));
    }
    text.push_str("RETRY ALL_NODES 2\n");
    text
}

/// Refuses stages that are not possible.
pub(super) fn accept(spec: &JobSpec) -> Result<(), Refusal> {
    let stages = &spec.stages;
    if !super::JobStage::in_dag(spec) {
        return Ok(());
    }
    if matches!(spec.name.as_str(), "evaluate" | "merge" | "select") {
        return Err(refuse(
            format!("`{}` cannot be the job's name", spec.name),
            "choose another name: one of the stages has this name",
        ));
    }
    if stages.select.is_some() && stages.evaluate.is_none() {
        return Err(refuse(
            "the jobs are not evaluated, so there is no metric to select by",
            "give the command that evaluates a job with `--evaluate`",
        ));
    }
    for (command, place, what) in [
        (&stages.evaluate, "{trained}", "the folder with the output of the job it evaluates"),
        (&stages.merge, "{each}", "the folder with the output of each job"),
    ] {
        let used = |command: &Vec<String>| command.iter().any(|word| word.contains(place));
        let unused = command.as_ref().filter(|command| !used(command) && !spec.shared);
        if let Some(command) = unused {
            return Err(refuse(
                format!("`{}` does not use `{place}`", command.join(" ")),
                &format!("write `{place}` for {what}"),
            ));
        }
    }
    let names = spec.parameters.iter().flat_map(|parameters| &parameters.names);
    let of_one = |name: &&String| {
        let place = format!("{{{name}}}");
        stages.merge.iter().flatten().any(|word| word.contains(&place))
    };
    if let Some(name) = names.clone().find(of_one) {
        return Err(refuse(
            format!(
                "the command of `--merge-command` contains `{{{name}}}`, which differs between the jobs"
            ),
            "leave it out: the merge runs once for all jobs, whose outputs are in `{each}`",
        ));
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || "_.-/".contains(c);
    if let Some(select) = &stages.select
        && (select.metric.is_empty() || !select.metric.chars().all(plain))
    {
        return Err(refuse(
            format!("`{}` cannot be a metric's name", select.metric),
            "use letters, digits and `_ . - /`",
        ));
    }
    // These are DAGMan's own macros, and names that it cannot set.
    let taken = |name: &&String| {
        let name = name.to_ascii_lowercase();
        name.starts_with("queue") || matches!(name.as_str(), "job" | "retry" | "of" | "node")
    };
    if let Some(name) = names.clone().find(taken) {
        return Err(refuse(
            format!("`{name}` cannot be a parameter's name in a DAG"),
            "choose another name: HTCondor has a macro of this name",
        ));
    }
    Ok(())
}
