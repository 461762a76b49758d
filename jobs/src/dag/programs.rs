//! The programs that the nodes of a graph run, checked with the macros and files that the graph
//! gives.

use std::collections::{BTreeMap, BTreeSet};

use super::{Dag, Node, Runs, check, missing};
use crate::disk::{Disk, base_name, below, folder_of, normal};
use crate::finding::{FileFindings, JobFinding};
use crate::rules;
use crate::submit::{self, Given, Submit, Variables};

/// The nodes that use one submit file.
#[derive(Debug, Default)]
struct Users<'a> {
    nodes: Vec<&'a str>,
    /// The submit file's text, if it is in the DAG file.
    text: Option<String>,
    /// The folder from which DAGMan submits the jobs.
    folder: String,
}

impl<'a> Users<'a> {
    fn add(&mut self, node: &'a str, folder: &str, text: Option<&String>) {
        self.nodes.push(node);
        self.text = self.text.take().or_else(|| text.cloned());
        folder.clone_into(&mut self.folder);
    }
}

/// Findings in what the nodes run: each file once, with the variables of all nodes that use it.
pub(super) fn programs(
    file: &str,
    dag: &Dag,
    disk: &dyn Disk,
    seen: &mut BTreeSet<String>,
) -> Vec<JobFinding> {
    let mut findings = scripts(dag, disk);
    findings.append(&mut graphs(file, dag, disk, seen));
    let (users, mut absent) = users(file, dag, disk);
    findings.append(&mut absent);
    findings.append(&mut checked(dag, users, None, disk, seen));
    findings
}

/// Findings in the submit file `only` and in what it runs, as the nodes of the DAG `file` use it.
/// `None` if no node does.
pub(super) fn program(
    file: &str,
    dag: &Dag,
    only: (&str, &str),
    disk: &dyn Disk,
    seen: &mut BTreeSet<String>,
) -> Option<Vec<JobFinding>> {
    let (users, _) = users(file, dag, disk);
    let is_used = users.keys().any(|(path, line)| line.is_none() && normal(path) == only.0);
    is_used.then(|| checked(dag, users, Some(only), disk, seen))
}

/// The nodes that use each submit file. The key is the file, and the line if the text is in the
/// DAG file.
type AllUsers<'a> = BTreeMap<(String, Option<usize>), Users<'a>>;

/// Returns the submit files with their nodes, and findings of those that are not there.
fn users<'a>(file: &str, dag: &'a Dag, disk: &dyn Disk) -> (AllUsers<'a>, Vec<JobFinding>) {
    let mut users = AllUsers::new();
    let mut findings = Vec::new();
    for (name, node) in &dag.nodes {
        let folder = folder(node, file);
        let mut report = FileFindings::new(&node.file);
        match &node.runs {
            _ if node.noop => {}
            Runs::Submit(path) => match dag.descriptions.get(path) {
                Some((line, text)) => {
                    let users = users.entry((file.to_owned(), Some(*line))).or_default();
                    users.add(name, &folder, Some(text));
                }
                None => {
                    let path = below(&folder, path);
                    if disk.exists(&path) || path.contains('$') {
                        users.entry((path, None)).or_default().add(name, &folder, None);
                    } else {
                        missing(&mut report, node.line, &path, disk);
                    }
                }
            },
            Runs::Inline(text, line) => {
                let users = users.entry((node.file.clone(), Some(*line))).or_default();
                users.add(name, &folder, Some(text));
            }
            Runs::Dag(_) | Runs::Splice(_) => {}
        }
        findings.append(&mut report.findings);
    }
    (users, findings)
}

/// Findings in the DAG files that nodes run.
fn graphs(file: &str, dag: &Dag, disk: &dyn Disk, seen: &mut BTreeSet<String>) -> Vec<JobFinding> {
    let mut findings = Vec::new();
    for (name, node) in dag.nodes.iter().filter(|(_, node)| !node.noop) {
        let (Runs::Dag(path) | Runs::Splice(path)) = &node.runs else { continue };
        let path = below(&folder(node, file), path);
        match disk.text(&path) {
            Some(text) if seen.insert(path.clone()) => {
                findings.append(&mut check(&path, &text, disk, seen));
            }
            Some(_) => {}
            // The DAG file of a sub-DAG may be written by the nodes before it.
            None if matches!(node.runs, Runs::Dag(_)) && comes_later(dag, name) => {}
            None => {
                let mut report = FileFindings::new(&node.file);
                missing(&mut report, node.line, &path, disk);
                findings.append(&mut report.findings);
            }
        }
    }
    findings
}

/// Findings in submit files and in what they run: in all, or in `only` that path with that text.
fn checked(
    dag: &Dag,
    users: AllUsers<'_>,
    only: Option<(&str, &str)>,
    disk: &dyn Disk,
    seen: &mut BTreeSet<String>,
) -> Vec<JobFinding> {
    let mut findings = Vec::new();
    let is_only = |path: &str| only.is_some_and(|(only, _)| normal(path) == only);
    let texts = users.into_iter().filter_map(|((path, line), users)| {
        let given = only.filter(|_| is_only(&path)).map(|(_, text)| text.to_owned());
        let text = given.or_else(|| users.text.clone()).or_else(|| disk.text(&path))?;
        Some((path, line, users, text))
    });
    let texts: Vec<_> = texts.collect();
    let vars = by_node(dag);
    let mut made = Made::default();
    for (i, (_, _, users, text)) in texts.iter().enumerate() {
        let submit = Submit::parse(text);
        let folder = &users.folder;
        let first = users.nodes.first().and_then(|node| vars.get(node)).cloned();
        made.texts.push(submit::writers(&submit, folder, disk, first.unwrap_or_default()));
        for node in &users.nodes {
            let mut given = vars.get(node).cloned().unwrap_or_default();
            given.insert("job".to_owned(), (*node).to_owned());
            made.files.extend(submit::brought_back(&submit, folder, disk, given));
            made.runs.insert(*node, i);
        }
    }
    let wanted =
        |path: &str, line: Option<usize>| only.is_none() || (line.is_none() && is_only(path));
    for (path, line, users, text) in texts.iter().filter(|(path, line, ..)| wanted(path, *line)) {
        let brought = Brought::to(&users.nodes, dag, &made, disk);
        let mut found = submit::check(path, text, &brought, &given(&vars, users), seen);
        if let Some(line) = line {
            for finding in found.iter_mut().filter(|finding| finding.file == *path) {
                finding.line = finding.line.saturating_add(line - 1);
                finding.edit = None;
            }
            found.retain(|finding| finding.rule != "no-queue");
        }
        findings.append(&mut found);
    }
    findings
}

/// The folder from which a node of the DAG `file` is submitted.
pub(super) fn folder(node: &Node, file: &str) -> String {
    below(folder_of(file), &node.folder).trim_end_matches('/').to_owned()
}

/// Reports scripts that do not exist. They run in the folder from which their node is submitted.
fn scripts(dag: &Dag, disk: &dyn Disk) -> Vec<JobFinding> {
    let mut findings = Vec::new();
    for script in &dag.scripts {
        let program = &script.program;
        let path = path_of(dag, script);
        if !program.contains(['/', '.']) || program.contains('$') {
            continue;
        }
        let mut report = FileFindings::new(&script.file);
        if !disk.exists(&path) {
            missing(&mut report, script.line, &path, disk);
        } else if disk.len(&path).is_some() && !disk.is_executable(&path) {
            let what = format!("`{path}` is not executable");
            report.add(&rules::NOT_EXECUTABLE, script.line, what);
        }
        findings.append(&mut report.findings);
    }
    findings
}

fn path_of(dag: &Dag, script: &super::Script) -> String {
    let of = dag.nodes.get(&script.node);
    let folder = of.map_or_else(|| folder_of(&script.file).to_owned(), |n| folder(n, &script.file));
    below(&folder, &script.program)
}

/// Whether other nodes, or a PRE script, run before the node.
fn comes_later(dag: &Dag, node: &str) -> bool {
    dag.edges.iter().any(|(_, child, ..)| child == node)
        || dag.scripts.iter().any(|script| script.is_pre && script.node == node)
}

/// Returns all nodes that end before one of `nodes` begins.
fn before<'a>(dag: &'a Dag, nodes: &[&'a str]) -> BTreeSet<&'a str> {
    let mut parents: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (parent, child, ..) in &dag.edges {
        parents.entry(child).or_default().push(parent);
    }
    let mut found = BTreeSet::new();
    let mut open = nodes.to_vec();
    while let Some(node) = open.pop() {
        for parent in parents.get(node).into_iter().flatten() {
            if found.insert(*parent) {
                open.push(parent);
            }
        }
    }
    found
}

/// The files that the nodes may leave.
#[derive(Default)]
struct Made<'a> {
    files: BTreeSet<String>,
    /// For each submit file the texts that name its outputs; `None` if they are unknown.
    texts: Vec<Option<Vec<String>>>,
    /// The submit file of each node.
    runs: BTreeMap<&'a str, usize>,
}

/// The disk as nodes of a DAG will find it: with what those before them leave.
struct Brought<'a> {
    disk: &'a dyn Disk,
    files: &'a BTreeSet<String>,
    /// Programs that write files which nobody lists.
    texts: Vec<&'a str>,
    scripts: Vec<String>,
    /// Whether something that cannot be read may have written any file.
    anything: bool,
}

impl<'a> Brought<'a> {
    fn to(nodes: &[&'a str], dag: &'a Dag, made: &'a Made<'_>, disk: &'a dyn Disk) -> Self {
        let before = before(dag, nodes);
        let mut brought = Self {
            disk,
            files: &made.files,
            texts: Vec::new(),
            scripts: Vec::new(),
            anything: false,
        };
        let runs: BTreeSet<Option<usize>> = before
            .iter()
            .filter(|node| !dag.nodes.get(**node).is_some_and(|node| node.noop))
            .map(|node| made.runs.get(node).copied())
            .collect();
        for run in runs {
            match run.and_then(|run| made.texts.get(run)) {
                Some(Some(texts)) => brought.texts.extend(texts.iter().map(String::as_str)),
                _ => brought.anything = true,
            }
        }
        let mut read = BTreeSet::new();
        for script in &dag.scripts {
            let node = script.node.as_str();
            let path = path_of(dag, script);
            let runs = before.contains(node) || (script.is_pre && nodes.contains(&node));
            if runs && read.insert(path.clone()) {
                match disk.text(&path) {
                    Some(text) => brought.scripts.push(text),
                    None => brought.anything = true,
                }
            }
        }
        brought
    }

    /// Whether something that runs before the nodes may leave `path`.
    fn may_be(&self, path: &str) -> bool {
        let inside = format!("{}/", normal(path).trim_end_matches('/'));
        let first = self.files.range(inside.clone()..).next();
        if self.files.contains(inside.trim_end_matches('/'))
            || first.is_some_and(|file| file.starts_with(&inside))
        {
            return true;
        }
        let name = base_name(path);
        let texts = self.texts.iter().copied().chain(self.scripts.iter().map(String::as_str));
        // A bare word, such as `log`, is in many texts and is not a file.
        (name.contains('.') || path.ends_with('/'))
            && (self.anything || { texts }.any(|text| text.contains(name)))
    }
}

impl Disk for Brought<'_> {
    fn len(&self, path: &str) -> Option<u64> {
        let found = self.disk.len(path);
        found.or_else(|| (!self.disk.is_folder(path) && self.may_be(path)).then_some(0))
    }

    fn is_folder(&self, path: &str) -> bool {
        self.disk.is_folder(path)
    }

    fn is_executable(&self, path: &str) -> bool {
        self.disk.is_executable(path)
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

fn given(vars: &BTreeMap<&str, Variables>, users: &Users<'_>) -> Given {
    let (nodes, folder) = (&users.nodes, Some(users.folder.clone()));
    if let [node] = nodes.as_slice() {
        let variables = vars.get(node).cloned().unwrap_or_default();
        return Given { variables, per_node: Vec::new(), nodes: 1, folder };
    }
    // The nodes' values differ, so that no single value can be used for all.
    let keys = nodes.iter().filter_map(|node| vars.get(node)).flat_map(BTreeMap::keys);
    let keys: BTreeSet<&String> = keys.collect();
    let variables = keys.iter().map(|key| ((*key).clone(), format!("$(JOB)_{key}"))).collect();
    let per_node = keys.into_iter().cloned().chain(["job".to_owned()]).collect();
    Given { variables, per_node, nodes: nodes.len(), folder }
}
