//! What the nodes of a graph run, checked with the macros and files that the graph gives.

use std::collections::{BTreeMap, BTreeSet};

use super::{Dag, Runs, check, missing};
use crate::disk::{Disk, below, folder_of};
use crate::finding::{Finding, Report};
use crate::submit::{self, Given, Submit, Variables};

/// The nodes that use one submit file.
#[derive(Debug, Default)]
struct Users<'a> {
    nodes: Vec<&'a str>,
    /// The file's text where the DAG holds it.
    text: Option<String>,
}

impl<'a> Users<'a> {
    fn add(&mut self, node: &'a str, text: Option<&String>) {
        self.nodes.push(node);
        self.text = self.text.take().or_else(|| text.cloned());
    }
}

/// Findings in what the nodes run: each file once, with the variables of all nodes that use it.
pub(super) fn programs(
    file: &str,
    dag: &Dag,
    disk: &dyn Disk,
    seen: &mut BTreeSet<String>,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    // By file, and by line where its text is in the DAG.
    let mut users: BTreeMap<(String, Option<usize>), Users<'_>> = BTreeMap::new();
    for (name, node) in &dag.nodes {
        let folder = below(folder_of(file), &node.folder);
        let mut report = Report::new(&node.file);
        match &node.runs {
            _ if node.noop => {}
            Runs::Submit(path) => match dag.descriptions.get(path) {
                Some((line, text)) => {
                    users.entry((file.to_owned(), Some(*line))).or_default().add(name, Some(text));
                }
                None => {
                    let path = below(&folder, path);
                    if disk.exists(&path) || path.contains('$') {
                        users.entry((path, None)).or_default().add(name, None);
                    } else {
                        missing(&mut report, node.line, &path);
                    }
                }
            },
            Runs::Inline(text, line) => {
                users.entry((node.file.clone(), Some(*line))).or_default().add(name, Some(text));
            }
            Runs::Dag(path) | Runs::Splice(path) => {
                let path = below(&folder, path);
                match disk.text(&path) {
                    Some(text) if seen.insert(path.clone()) => {
                        findings.append(&mut check(&path, &text, disk, seen));
                    }
                    Some(_) => {}
                    None => missing(&mut report, node.line, &path),
                }
            }
        }
        findings.append(&mut report.findings);
    }
    let texts = users.into_iter().filter_map(|((path, line), Users { nodes, text })| {
        let text = text.or_else(|| disk.text(&path))?;
        Some((path, line, nodes, text))
    });
    let texts: Vec<_> = texts.collect();
    let vars = by_node(dag);
    let mut brought = Brought { disk, files: BTreeSet::new() };
    for (path, _, nodes, text) in &texts {
        let submit = Submit::parse(text);
        for node in nodes {
            let mut given = vars.get(node).cloned().unwrap_or_default();
            given.insert("job".to_owned(), (*node).to_owned());
            brought.files.extend(submit::brought_back(path, &submit, given));
        }
    }
    for (path, line, nodes, text) in texts {
        let mut found = submit::check(&path, &text, &brought, &given(&vars, &nodes), seen);
        if let Some(line) = line {
            for finding in found.iter_mut().filter(|finding| finding.file == path) {
                finding.line = finding.line.saturating_add(line - 1);
                finding.edit = None;
            }
            found.retain(|finding| finding.rule != "no-queue");
        }
        findings.append(&mut found);
    }
    findings
}

/// The disk as it will be: with the files that nodes bring back.
struct Brought<'a> {
    disk: &'a dyn Disk,
    files: BTreeSet<String>,
}

impl Disk for Brought<'_> {
    fn len(&self, path: &str) -> Option<u64> {
        self.disk.len(path).or_else(|| self.files.contains(path).then_some(0))
    }

    fn is_folder(&self, path: &str) -> bool {
        self.disk.is_folder(path)
    }

    fn text(&self, path: &str) -> Option<String> {
        self.disk.text(path)
    }

    fn list(&self, folder: &str) -> Vec<String> {
        self.disk.list(folder)
    }
}

/// The macros that VARS lines give to each node; later lines replace earlier ones.
fn by_node(dag: &Dag) -> BTreeMap<&str, Variables> {
    let mut all: BTreeMap<&str, Variables> = BTreeMap::new();
    for (node, key, value) in &dag.vars {
        let mut set = |node| all.entry(node).or_default().insert(key.clone(), value.clone());
        if node.eq_ignore_ascii_case("ALL_NODES") {
            dag.nodes.keys().for_each(|node| drop(set(node.as_str())));
        } else {
            set(node.as_str());
        }
    }
    all
}

fn given(vars: &BTreeMap<&str, Variables>, nodes: &[&str]) -> Given {
    if let [node] = nodes {
        let variables = vars.get(node).cloned().unwrap_or_default();
        return Given { variables, per_node: Vec::new(), nodes: 1 };
    }
    // Their values differ: none of them stands for all.
    let keys = nodes.iter().filter_map(|node| vars.get(node)).flat_map(BTreeMap::keys);
    let keys: BTreeSet<&String> = keys.collect();
    let variables = keys.iter().map(|key| ((*key).clone(), format!("$(JOB)_{key}"))).collect();
    let per_node = keys.into_iter().cloned().chain(["job".to_owned()]).collect();
    Given { variables, per_node, nodes: nodes.len() }
}
