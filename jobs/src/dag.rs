//! DAGMan files: nodes, the programs that they run, and the dependencies between them.

mod forms;
mod programs;
mod words;

use std::collections::{BTreeMap, BTreeSet};

use crate::disk::{Disk, above, base_name, below, folder_of, normal};
use crate::finding::{Edit, FileFindings, JobFinding};
use crate::lines::Piece;
use crate::lines::{Line, joined};
use crate::rules;
use forms::Form;
use programs::{program, programs};
use words::{canonical, inline, inline_end, words};

/// Files that include each other end somewhere: so deep, and so many in all.
const MAX_DEPTH: usize = 30;
const MAX_INCLUDES: usize = 200;

/// The commands that lines of a DAG file begin with.
const COMMANDS: [&str; 31] = [
    "JOB",
    "SUBDAG",
    "SPLICE",
    "SUBMIT-DESCRIPTION",
    "INCLUDE",
    "VARS",
    "PARENT",
    "RETRY",
    "ABORT-DAG-ON",
    "SCRIPT",
    "PRE_SKIP",
    "CATEGORY",
    "MAXJOBS",
    "PRIORITY",
    "TOLERANCE",
    "FINAL",
    "SERVICE",
    "PROVISIONER",
    "NODE_STATUS_FILE",
    "JOBSTATE_LOG",
    "CONFIG",
    "SET_JOB_ATTR",
    "DOT",
    "DONE",
    "REJECT",
    "CONNECT",
    "PIN_IN",
    "PIN_OUT",
    "ENV",
    "SAVE_POINT_FILE",
    "WEAK",
];

/// Words that no node can have as its name.
const RESERVED: [&str; 3] = ["PARENT", "CHILD", "ALL_NODES"];

/// What a node runs.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Runs {
    /// A submit file, or the name of a SUBMIT-DESCRIPTION.
    Submit(String),
    Dag(String),
    Splice(String),
    /// Text in the DAG file itself, which begins at this line.
    Inline(String, usize),
}

#[derive(Debug)]
struct Node {
    file: String,
    line: usize,
    runs: Runs,
    /// The node's `DIR`.
    folder: String,
    noop: bool,
}

/// A program that DAGMan runs before or after a node.
#[derive(Debug)]
struct Script {
    node: String,
    program: String,
    /// Whether the script runs before the node.
    is_pre: bool,
    file: String,
    line: usize,
}

/// A whole graph, of one file and those that it includes.
#[derive(Debug, Default)]
struct Dag {
    nodes: BTreeMap<String, Node>,
    descriptions: BTreeMap<String, (usize, String)>,
    /// For each edge: parent, child, file, line.
    edges: Vec<(String, String, String, usize)>,
    /// Names of nodes in other lines: name, file, line.
    mentions: Vec<(String, String, usize)>,
    /// The variables of a node or of ALL_NODES.
    vars: Vec<(String, String, String)>,
    categories: BTreeSet<String>,
    limits: Vec<(String, usize)>,
    n_included: usize,
    scripts: Vec<Script>,
    /// FINAL, SERVICE and PROVISIONER nodes, which PARENT and CHILD may not name.
    outside: BTreeSet<String>,
    /// The lines of the FINAL and the PROVISIONER node, of which a DAG has one each.
    alone: BTreeMap<String, usize>,
}

/// Findings of the DAG file `file` and of all that it names.
pub(crate) fn check(
    file: &str,
    text: &str,
    disk: &dyn Disk,
    seen: &mut BTreeSet<String>,
) -> Vec<JobFinding> {
    let mut dag = Dag::default();
    let mut findings = Vec::new();
    read(file, text, disk, &mut dag, &mut findings, 0);
    let mut report = FileFindings::new(file);
    names(file, &dag, disk, &mut report);
    cycle(&dag, &mut report);
    findings.append(&mut report.findings);
    findings.sort_by_key(|finding| finding.line);
    findings.append(&mut programs(file, &dag, disk, seen));
    findings
}

/// Findings of the submit file `file`, as a DAG in its folder or in the one above uses it, with
/// the variables and files that its nodes get. `None` if no DAG names it.
pub(crate) fn check_node(
    file: &str,
    text: &str,
    disk: &dyn Disk,
    seen: &mut BTreeSet<String>,
) -> Option<Vec<JobFinding>> {
    let file = normal(file);
    for folder in above(folder_of(&file)).take(2) {
        for name in disk.list(folder).iter().filter(|name| name.ends_with(".dag")) {
            let path = below(folder, name);
            let Some(graph) = disk.text(&path).filter(|graph| graph.contains(base_name(&file)))
            else {
                continue;
            };
            let mut dag = Dag::default();
            read(&path, &graph, disk, &mut dag, &mut Vec::new(), 0);
            let found = program(&path, &dag, (&file, text), disk, seen);
            if found.is_some() {
                return found;
            }
        }
    }
    None
}

/// The lines of a DAG file, to compare it with another one.
pub(crate) fn pieces(text: &str) -> Vec<Piece> {
    let piece = |line: Line| Piece {
        first: line.number,
        last: line.number + line.count - 1,
        text: line.text,
    };
    joined(text).into_iter().map(piece).collect()
}

/// Reads `text`, the file `file`, into `dag`; files that it includes are read where they stand.
fn read(
    file: &str,
    text: &str,
    disk: &dyn Disk,
    dag: &mut Dag,
    findings: &mut Vec<JobFinding>,
    depth: usize,
) {
    let report = FileFindings::new(file);
    let mut reader = Reader { file, disk, dag, findings, depth, report };
    let physical: Vec<&str> = text.lines().collect();
    let joined = joined(text);
    let mut lines = joined.iter();
    while let Some(line) = lines.next() {
        let (words, is_closed) = words(&line.text);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let Some((&first, rest)) = words.split_first() else { continue };
        if first.starts_with('#') || first.starts_with("//") {
            continue;
        }
        let command = canonical(first);
        let n = line.number;
        // What these take is not cut into words.
        if !is_closed && !matches!(command.as_str(), "SCRIPT" | "ENV" | "SET_JOB_ATTR") {
            let what = "a quote that is not closed";
            reader.report.add(&rules::BAD_DAG_LINE, n, what).fix("close the quote");
        } else if let Some(form) = Form::of(&command) {
            if !form.fits(rest) {
                malformed(&mut reader.report, n, &command, form.takes);
            }
            form.nodes(rest).for_each(|node| reader.mention(n, Some(node)));
        }
        match command.as_str() {
            "SUBDAG" => match rest.split_first() {
                Some((external, rest)) if external.eq_ignore_ascii_case("EXTERNAL") => {
                    reader.node(n, &command, rest, &mut lines);
                }
                _ => malformed(&mut reader.report, n, "SUBDAG", "`EXTERNAL`, a name and a file"),
            },
            "JOB" | "FINAL" | "SERVICE" | "PROVISIONER" | "SPLICE" => {
                reader.node(n, &command, rest, &mut lines);
            }
            "SUBMIT_DESCRIPTION" => reader.description(n, rest, &mut lines),
            "INCLUDE" => {
                rest.first().into_iter().for_each(|file| reader.include(n, file));
            }
            "VARS" => reader.vars(n, rest),
            "PARENT" => reader.parent(n, rest),
            "WEAK" => {
                match rest.split_first() {
                    Some((parent, rest)) if parent.eq_ignore_ascii_case("PARENT") => {
                        reader.parent(n, rest);
                    }
                    _ => malformed(&mut reader.report, n, "WEAK", "a PARENT line"),
                }
                newer(&mut reader.report, n, "WEAK");
            }
            "TOLERANCE" => newer(&mut reader.report, n, "TOLERANCE"),
            "SCRIPT" => reader.script(n, rest),
            "CATEGORY" => {
                // `+big` is one category for all splices.
                let name = rest.get(1).map(|name| name.trim_start_matches('+').to_owned());
                reader.dag.categories.extend(name);
            }
            "MAXJOBS" => {
                let name = rest.first().map(|name| name.trim_start_matches('+').to_owned());
                reader.dag.limits.extend(name.map(|name| (name, n)));
            }
            "REJECT" => {
                reader.report.add(&rules::REJECTED_DAG, n, "the file is marked as rejected");
            }
            "CONFIG" => {
                let path = below(folder_of(file), rest.first().copied().unwrap_or_default());
                if !rest.is_empty() && !disk.exists(&path) {
                    missing(&mut reader.report, n, &path, disk);
                }
            }
            known if COMMANDS.iter().any(|&command| canonical(command) == known) => {}
            _ => reader.unknown(n, first, physical.get(n - 1).copied().unwrap_or_default()),
        }
    }
    let Reader { findings, mut report, .. } = reader;
    findings.append(&mut report.findings);
}

/// Reads one file; the first number that its functions take is that of the line.
struct Reader<'a> {
    file: &'a str,
    disk: &'a dyn Disk,
    dag: &'a mut Dag,
    /// Findings in files that this one includes.
    findings: &'a mut Vec<JobFinding>,
    /// How deep this file is nested in files that include it.
    depth: usize,
    report: FileFindings,
}

impl Reader<'_> {
    /// Records that a line names a node.
    fn mention(&mut self, n: usize, name: Option<&&str>) {
        let (name, file) = (name.map(|name| (*name).to_owned()), self.file);
        self.dag.mentions.extend(name.map(|name| (name, file.to_owned(), n)));
    }

    /// `JOB name file [DIR folder] [NOOP] …`, and what is written like it.
    fn node<'l>(
        &mut self,
        n: usize,
        command: &str,
        words: &[&str],
        lines: &mut impl Iterator<Item = &'l Line>,
    ) {
        let [name, runs, options @ ..] = words else {
            malformed(&mut self.report, n, command, "a name and a file");
            return;
        };
        let runs = match (command, *runs) {
            ("SUBDAG", runs) => Runs::Dag(runs.to_owned()),
            ("SPLICE", runs) => Runs::Splice(runs.to_owned()),
            (_, runs) => match inline_end(runs) {
                Some(end) => Runs::Inline(self.inline(n, &end, lines), n + 1),
                None => Runs::Submit(runs.to_owned()),
            },
        };
        let (mut folder, mut noop) = ("", false);
        let mut rest = options.iter();
        while let Some(&word) = rest.next() {
            let is_of_nodes = command != "SPLICE";
            match word.to_ascii_uppercase().as_str() {
                "NOOP" if is_of_nodes => noop = true,
                "DONE" if is_of_nodes => {}
                "DIR" if !rest.as_slice().is_empty() => {
                    folder = rest.next().copied().unwrap_or_default();
                }
                _ => {
                    let wants = match is_of_nodes {
                        true => "a name, a file, and perhaps `DIR folder`, `NOOP` or `DONE`",
                        false => "a name, a file, and perhaps `DIR folder`",
                    };
                    malformed(&mut self.report, n, command, wants);
                    break;
                }
            }
        }
        if matches!(command, "FINAL" | "SERVICE" | "PROVISIONER") {
            self.dag.outside.insert((*name).to_owned());
        }
        let node =
            Node { file: self.file.to_owned(), line: n, runs, folder: folder.to_owned(), noop };
        let alone = matches!(command, "FINAL" | "PROVISIONER");
        if let Some(first) = alone.then(|| self.dag.alone.entry(command.to_owned()).or_insert(n))
            && *first != n
        {
            let what = format!("the DAG has a {command} node already, in line {first}");
            self.report.add(&rules::BAD_DAG_LINE, n, what).fix("keep one of the two");
        }
        if let Some(before) = self.dag.nodes.insert((*name).to_owned(), node) {
            let what = format!("the node `{name}` exists already, in line {}", before.line);
            self.report.add(&rules::NODE_TWICE, n, what);
        }
        let is_reserved = RESERVED.iter().any(|word| word.eq_ignore_ascii_case(name));
        if name.contains('+') || is_reserved {
            let what = format!("a node cannot be named `{name}`");
            self.report.add(&rules::BAD_NODE_NAME, n, what);
        }
    }

    /// Reads `SUBMIT-DESCRIPTION name {`.
    fn description<'l>(
        &mut self,
        n: usize,
        words: &[&str],
        lines: &mut impl Iterator<Item = &'l Line>,
    ) {
        let end = words.get(1).and_then(|&word| inline_end(word));
        let (Some(name), Some(end)) = (words.first(), end) else {
            malformed(&mut self.report, n, "SUBMIT-DESCRIPTION", "a name and `{`");
            return;
        };
        let text = self.inline(n, &end, lines);
        self.dag.descriptions.insert((*name).to_owned(), (n + 1, text));
    }

    /// Reads the lines up to `end`.
    fn inline<'l>(
        &mut self,
        n: usize,
        end: &str,
        lines: &mut impl Iterator<Item = &'l Line>,
    ) -> String {
        let (text, is_whole) = inline(end, lines);
        if !is_whole {
            let what = format!("the description that begins here has no `{end}`");
            self.report
                .add(&rules::BAD_DAG_LINE, n, what)
                .fix(format!("write `{end}` on a line of its own behind it"));
        }
        text
    }

    /// Reads `INCLUDE file`.
    fn include(&mut self, n: usize, name: &str) {
        let path = below(folder_of(self.file), name.trim_matches('"'));
        match self.disk.text(&path) {
            Some(text) if self.depth < MAX_DEPTH && self.dag.n_included < MAX_INCLUDES => {
                self.dag.n_included += 1;
                read(&path, &text, self.disk, self.dag, self.findings, self.depth + 1);
            }
            Some(_) => {
                let what = "files include each other too deeply";
                self.report.add(&rules::INCLUDE_DEPTH, n, what);
            }
            None => missing(&mut self.report, n, &path, self.disk),
        }
    }

    /// Reads `VARS node [PREPEND|APPEND] name=value …`.
    fn vars(&mut self, n: usize, words: &[&str]) {
        self.mention(n, words.first());
        let [name, pairs @ ..] = words else { return };
        let pairs = match pairs {
            [first, rest @ ..]
                if ["PREPEND", "APPEND"].iter().any(|w| w.eq_ignore_ascii_case(first)) =>
            {
                rest
            }
            _ => pairs,
        };
        let pairs: Option<Vec<_>> = pairs.iter().map(|pair| pair.split_once('=')).collect();
        let Some(pairs) = pairs.filter(|pairs| !pairs.is_empty()) else {
            malformed(&mut self.report, n, "VARS", "a node and `name=\"value\"`");
            return;
        };
        for (key, value) in pairs {
            let key = key.trim().trim_start_matches('+').to_ascii_lowercase();
            if key.starts_with("queue") {
                let wants = "names that do not begin with `queue`";
                malformed(&mut self.report, n, "VARS", wants);
            }
            self.dag.vars.push(((*name).to_owned(), key, value.to_owned()));
        }
    }

    /// Reads `PARENT parent … CHILD child …`.
    fn parent(&mut self, n: usize, words: &[&str]) {
        let at = words.iter().position(|word| word.eq_ignore_ascii_case("CHILD"));
        let (parents, children) = words.split_at(at.unwrap_or(words.len()));
        let children = children.get(1..).unwrap_or_default();
        if parents.is_empty() || children.is_empty() {
            malformed(&mut self.report, n, "PARENT", "parents, `CHILD` and children");
        }
        for name in parents.iter().chain(children) {
            self.mention(n, Some(name));
        }
        for parent in parents {
            for child in children {
                let (parent, child) = ((*parent).to_owned(), (*child).to_owned());
                self.dag.edges.push((parent, child, self.file.to_owned(), n));
            }
        }
    }

    /// `SCRIPT [DEFER status seconds] [DEBUG file type] PRE|POST|HOLD node program …`
    fn script(&mut self, n: usize, mut words: &[&str]) {
        while let [first, one, two, rest @ ..] = words {
            let is_number = |word: &str| word.parse::<i64>().is_ok();
            let is_stream = |word: &str| {
                ["STDOUT", "STDERR", "ALL"].iter().any(|s| word.eq_ignore_ascii_case(s))
            };
            let (is_right, wants) = match first.to_ascii_uppercase().as_str() {
                "DEFER" => (is_number(one) && is_number(two), "DEFER with a code and seconds"),
                "DEBUG" => (is_stream(two), "DEBUG with a file and STDOUT, STDERR or ALL"),
                _ => break,
            };
            if !is_right {
                malformed(&mut self.report, n, "SCRIPT", wants);
                return;
            }
            words = rest;
        }
        let [when, node, program, ..] = words else {
            malformed(&mut self.report, n, "SCRIPT", "PRE or POST, a node and a program");
            return;
        };
        if !["PRE", "POST", "HOLD"].iter().any(|word| word.eq_ignore_ascii_case(when)) {
            let what = format!("`{when}` is not PRE, POST or HOLD");
            self.report.add(&rules::BAD_DAG_LINE, n, what).fix("write PRE, POST or HOLD");
        }
        self.mention(n, Some(node));
        self.dag.scripts.push(Script {
            node: (*node).to_owned(),
            program: (*program).to_owned(),
            is_pre: when.eq_ignore_ascii_case("PRE"),
            file: self.file.to_owned(),
            line: n,
        });
    }

    /// A line that begins with `first`, no command of DAGMan; `physical` is as it stands there.
    fn unknown(&mut self, n: usize, first: &str, physical: &str) {
        let command = canonical(first);
        let distance = |known: &str| crate::spelling::distance(known, &command);
        let near = COMMANDS.iter().min_by_key(|known| distance(known));
        let near = match command.as_str() {
            "NODE" => Some(&"JOB"),
            _ => near.filter(|known| distance(known) <= 2),
        };
        let what = format!("`{first}` is not a command of DAGMan");
        let finding = self.report.add(&rules::UNKNOWN_DAG_COMMAND, n, what);
        if let Some(near) = near {
            finding.fix(format!("write `{near}`"));
        }
        finding.edit = near.map(|near| Edit {
            line: n,
            count: 1,
            lines: vec![physical.replacen(first, near, 1)],
        });
    }
}

fn malformed(report: &mut FileFindings, line: usize, command: &str, wants: &str) {
    let what = format!("{command} takes {wants}");
    report.add(&rules::BAD_DAG_LINE, line, what);
}

fn missing(report: &mut FileFindings, line: usize, path: &str, disk: &dyn Disk) {
    report.absent(&rules::MISSING_DAG_FILE, line, path, disk);
}

fn newer(report: &mut FileFindings, line: usize, command: &str) {
    let what = format!("{command} needs HTCondor 25 or newer");
    report.add(&rules::NEW_DAG_COMMAND, line, what);
}

/// Reports names that no node has.
fn names(file: &str, dag: &Dag, disk: &dyn Disk, report: &mut FileFindings) {
    // A part of a DAG, for others to include, has the nodes of those.
    let is_part = dag.nodes.is_empty();
    let mut splices = BTreeMap::new();
    for (name, of, line) in &dag.mentions {
        let all = name.eq_ignore_ascii_case("ALL_NODES");
        if all
            || is_part
            || dag.nodes.contains_key(name)
            || in_splice(name, file, dag, disk, &mut splices)
        {
            continue;
        }
        let distance = |known: &str| match known.eq_ignore_ascii_case(name) {
            true => 0,
            false => crate::spelling::distance(known, name),
        };
        let near = dag.nodes.keys().min_by_key(|known| distance(known));
        // If `A3` is unknown, none of `A0`, `A1` and `A2` is the obvious one.
        let near = near.filter(|near| {
            let least = distance(near);
            least <= 2 && dag.nodes.keys().filter(|known| distance(known) == least).count() == 1
        });
        let what = format!("there is no node `{name}`");
        let finding = report.add(&rules::UNKNOWN_NODE, *line, what);
        if let Some(near) = near {
            finding.fix(format!("write `{near}`; names are case-sensitive"));
        }
        finding.file.clone_from(of);
    }
    let ends =
        dag.edges.iter().flat_map(|(parent, child, of, n)| [(parent, of, *n), (child, of, *n)]);
    let ends: BTreeSet<(&String, &String, usize)> =
        ends.filter(|(name, ..)| dag.outside.contains(*name)).collect();
    for (name, of, line) in ends {
        let what = format!("`{name}` is a FINAL or SERVICE node");
        report.add(&rules::BAD_PARENT, line, what).file.clone_from(of);
    }
    // `S+big` is a category inside of splice S.
    let unknown = |name: &str| !name.contains('+') && !dag.categories.contains(name);
    for (name, line) in dag.limits.iter().filter(|(name, _)| unknown(name)) {
        let what = format!("no node is in the category `{name}`");
        report.add(&rules::UNKNOWN_CATEGORY, *line, what);
    }
}

/// Whether `S+A` is node A of splice S, or may be, since the splice's file is not here.
fn in_splice(
    name: &str,
    file: &str,
    dag: &Dag,
    disk: &dyn Disk,
    read_files: &mut BTreeMap<String, Dag>,
) -> bool {
    let (mut path, mut rest) = (file.to_owned(), name);
    while let Some((splice, inner)) = rest.split_once('+') {
        let of = read_files.get(&path).unwrap_or(dag);
        let next = match of.nodes.get(splice) {
            Some(node) => match &node.runs {
                Runs::Splice(file) => below(&programs::folder(node, &path), file),
                _ => return false,
            },
            None => return false,
        };
        if !read_files.contains_key(&next) {
            let Some(text) = disk.text(&next) else { return true };
            let mut dag = Dag::default();
            read(&next, &text, disk, &mut dag, &mut Vec::new(), 0);
            read_files.insert(next.clone(), dag);
        }
        (path, rest) = (next, inner);
    }
    let is_all = rest.eq_ignore_ascii_case("ALL_NODES");
    read_files.get(&path).is_some_and(|dag| is_all || dag.nodes.contains_key(rest))
}

/// Reports nodes that wait for themselves.
fn cycle(dag: &Dag, report: &mut FileFindings) {
    let mut waits: BTreeMap<&str, usize> =
        dag.nodes.keys().map(|name| (name.as_str(), 0)).collect();
    let mut children: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (parent, child, ..) in &dag.edges {
        *waits.entry(child).or_default() += 1;
        waits.entry(parent).or_default();
        children.entry(parent).or_default().push(child);
    }
    let mut ready: Vec<&str> =
        waits.iter().filter(|(_, n)| **n == 0).map(|(name, _)| *name).collect();
    while let Some(name) = ready.pop() {
        waits.remove(name);
        for child in children.remove(name).unwrap_or_default() {
            if let Some(n) = waits.get_mut(child) {
                *n -= 1;
                if *n == 0 {
                    ready.push(child);
                }
            }
        }
    }
    // The remaining nodes are in a circle, or wait for one. The way up from any of them ends in it.
    let Some(&start) = waits.keys().next() else { return };
    let left: Vec<_> = dag
        .edges
        .iter()
        .filter(|(p, c, ..)| waits.contains_key(p.as_str()) && waits.contains_key(c.as_str()))
        .collect();
    let mut path = vec![start];
    let mut at = start;
    while let Some((parent, ..)) = left.iter().find(|(_, child, ..)| child == at) {
        at = parent;
        if let Some(from) = path.iter().position(|name| *name == at) {
            let mut circle: Vec<&str> = path.split_off(from);
            circle.reverse();
            circle.push(circle.first().copied().unwrap_or_default());
            let last = left.iter().filter(|(p, c, ..)| {
                circle.windows(2).any(|pair| pair == [p.as_str(), c.as_str()])
            });
            let Some((_, _, file, line)) = last.max_by_key(|(.., line)| line) else { return };
            let what =
                format!("these nodes wait for each other in a circle: {}", circle.join(" → "));
            let finding = report.add(&rules::CYCLE, *line, what);
            finding.file.clone_from(file);
            return;
        }
        path.push(at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::tests::Files;

    fn rules(text: &str, files: &[(&str, &str)]) -> Vec<(&'static str, String, usize)> {
        let disk = Files::of(files);
        let found = check("x.dag", text, &disk, &mut BTreeSet::new());
        found.into_iter().map(|finding| (finding.rule, finding.file, finding.line)).collect()
    }

    const SUB: &str = "executable = a.sh\nrequest_cpus = 1\nrequest_memory = 1 GB\nrequest_disk = 1 GB\narguments = $(lr)\noutput = $(JOB).out\nqueue\n";
    const SH: &str = "#!/bin/sh\n./a\n";

    #[test]
    fn an_input_that_another_node_brings_back_is_not_missing() {
        let head =
            "executable = a.sh\nrequest_cpus = 1\nrequest_memory = 1 GB\nrequest_disk = 1 GB\n";
        let made = format!(
            "{head}transfer_output_files = out/r.tar\ntransfer_output_remaps = \"r.tar = results/$(JOB).tar\"\nqueue\n"
        );
        let taken = format!("{head}transfer_input_files = results/a.tar\nqueue\n");
        let files = [
            ("made.sub", made.as_str()),
            ("taken.sub", &taken),
            ("a.sh", "#!/bin/sh\ntar -cf out/r.tar x\n"),
            ("results/x", ""),
        ];
        let dag = "JOB a made.sub\nJOB b taken.sub\nPARENT a CHILD b\n";
        assert_eq!(rules(dag, &files), []);
        let other = dag.replace("JOB a", "JOB c").replace("PARENT a", "PARENT c");
        assert_eq!(rules(&other, &files), [("missing-file", "taken.sub".to_owned(), 5)]);
    }

    /// The cases are from the tutorials of HTCondor's own pools.
    #[test]
    fn files_that_appear_while_the_graph_runs_are_not_missing() {
        let head =
            "executable = a.sh\nrequest_cpus = 1\nrequest_memory = 1 GB\nrequest_disk = 1 GB\n";
        let check = |dag: &str, first: &str, second: &str, expected: &[(&str, &str)]| {
            let first = format!("{head}{first}queue\n");
            let second = format!("{head}{second}queue\n");
            let files = [
                ("one/x.sub", first.as_str()),
                ("two/y.sub", &second),
                ("x.sub", &first),
                ("y.sub", &second),
                ("one/a.sh", "#!/bin/sh\n./a > found.csv\n"),
                ("two/a.sh", SH),
                ("a.sh", "#!/bin/sh\n./a > found.csv\n"),
                ("one/filter.sh", "#!/bin/sh\nsort ../a > ../few.csv\n"),
                ("one/log/x", ""),
            ];
            let found = rules(dag, &files);
            let found: Vec<_> =
                found.iter().map(|(rule, file, _)| (*rule, file.as_str())).collect();
            assert_eq!(found, expected, "{dag}{first}{second}");
        };
        let both = "JOB a x.sub DIR one\nJOB b y.sub DIR two\nPARENT a CHILD b\n";
        let remap = "transfer_output_files = found.csv\ntransfer_output_remaps = \"found.csv = ../all.csv\"\n";
        check(both, remap, "transfer_input_files = ../all.csv\n", &[]);
        let missing = [("missing-file", "two/y.sub")];
        check(both, remap, "transfer_input_files = ../some.csv\n", &missing);
        // A script runs where its node is submitted from, and may write.
        let script = format!("{both}SCRIPT POST a ./filter.sh\n");
        check(&script, remap, "transfer_input_files = ../few.csv\n", &[]);
        check(both, remap, "transfer_input_files = ../few.csv\n", &missing);
        // Files that a job prints to, or writes without listing them.
        let here = "JOB a x.sub\nJOB b y.sub\nPARENT a CHILD b\n";
        check(here, "output = a.out\n", "transfer_input_files = a.out, found.csv\n", &[]);
        let other = [("missing-file", "y.sub")];
        check(here, "output = a.out\n", "transfer_input_files = b.out\n", &other);
        // A sub-DAG that a node writes, and what it may leave.
        let inner = "JOB a x.sub\nSUBDAG EXTERNAL s inner.dag\nJOB b y.sub\nPARENT a CHILD s\nPARENT s CHILD b\n";
        check(inner, "", "transfer_input_files = parts/\n", &[]);
        // Submitted from the DAG's folder, not from that of the submit file.
        check("JOB a one/x.sub\n", "log = one/log/x.log\n", "", &[]);
        check("JOB a one/x.sub\n", "log = log/x.log\n", "", &[("missing-folder", "one/x.sub")]);
    }

    #[test]
    fn a_sound_graph_has_no_finding() {
        let dag = "JOB a x.sub\nJOB b x.sub\nJOB c x.sub NOOP\nPARENT a CHILD b c\nVARS ALL_NODES lr=\"1\"\nRETRY a 2 UNLESS-EXIT 3\nSCRIPT POST a ./a.sh $RETURN\nCATEGORY a big\nMAXJOBS big 2\n";
        assert_eq!(rules(dag, &[("x.sub", SUB), ("a.sh", SH)]), []);
    }

    #[test]
    fn what_dagman_accepts_is_not_reported() {
        let files = [("x.sub", SUB), ("d/x.sub", SUB), ("d/a.sh", SH), ("a.sh", SH)];
        for line in [
            "JOB A \"x.sub\" DIR \"d\"",
            "JOB A x.sub\nMAXJOBS +cat 2\nCATEGORY A +cat",
            "JOB A x.sub\nVARS A m=1 n='1 2' o = \"x=y\"",
            "JOB A x.sub\nABORT_DAG_ON A 3 RETURN 1\n// a comment",
            "SUBMIT_DESCRIPTION D @=End\nexecutable = a.sh\nrequest_cpus = 1\nrequest_memory = 1 GB\nrequest_disk = 1 GB\n@End\nJOB A D",
            "JOB A @=x\nexecutable = a.sh\nrequest_cpus = 1\nrequest_memory = 1 GB\nrequest_disk = 1 GB\n@x",
        ] {
            let text = format!("{line}\nVARS ALL_NODES lr=\"1\"\n");
            assert_eq!(rules(&text, &files), [], "{text}");
        }
        assert_eq!(words("a 'b c' d = \"e \\\" f\" g=h").0, ["a", "b c", "d=e \" f", "g=h"]);
    }

    #[test]
    fn nodes_of_splices_are_known_by_their_files() {
        let files = [
            ("x.sub", SUB),
            ("a.sh", SH),
            ("d/s.dag", "VARS A lr=\"1\"\nJOB A ../x.sub NOOP\nSPLICE T t.dag\n"),
            ("d/t.dag", "VARS B lr=\"1\"\nJOB B ../x.sub NOOP\n"),
        ];
        let check = |name: &str, is_known: bool| {
            let text = format!("SPLICE S d/s.dag\nSPLICE L later.dag\nVARS {name} lr=\"1\"\n");
            let found = rules(&text, &files);
            let unknown = found.iter().any(|(rule, ..)| *rule == "unknown-node");
            assert_eq!(unknown, !is_known, "{text}{found:?}");
        };
        for right in ["S+A", "S+T+B", "L+X", "S+ALL_NODES"] {
            check(right, true);
        }
        for wrong in ["S+B", "S+T+A", "S+A+B", "Z+A"] {
            check(wrong, false);
        }
    }

    #[test]
    fn each_trap_of_a_graph_is_found() {
        let files = [("x.sub", SUB), ("a.sh", SH), ("text.py", "print(1)\n")];
        let check = |text: &str, expected: &[(&'static str, usize)]| {
            let text = format!("VARS a lr=\"1\"\nJOB a x.sub\n{text}");
            let found: Vec<_> =
                rules(&text, &files).into_iter().map(|(rule, _, line)| (rule, line)).collect();
            assert_eq!(found, expected, "{text}");
        };
        check("JOB b x.sub\nPARENT a CHILD b\nPARENT b CHILD a\n", &[("cycle", 5)]);
        check("PARENT a CHILD b\n", &[("unknown-node", 3)]);
        check("PARENT a CHILD\n", &[("bad-dag-line", 3)]);
        check("RETRY a often\n", &[("bad-dag-line", 3)]);
        check("RETRY a 3 times\n", &[("bad-dag-line", 3)]);
        check("RETRY a 3 UNLESS-EXIT 2\n", &[]);
        check("VARS a x=\"1\n", &[("bad-dag-line", 3)]);
        check("VARS a x='1\" y=\"2\"\n", &[("bad-dag-line", 3)]);
        check("SCRIPT POST a ./a.sh it's\n", &[]);
        check("SCRIPT DEFER soon 60 POST a ./a.sh\n", &[("bad-dag-line", 3)]);
        check("SCRIPT DEFER 4 60 DEBUG x.log ALL POST a ./a.sh\n", &[]);
        check("REJECT\n", &[("rejected-dag", 3)]);
        check("CATEGORY a\n", &[("bad-dag-line", 3)]);
        check("DONE z\n", &[("unknown-node", 3)]);
        check("FINAL f x.sub NOOP\nFINAL g x.sub NOOP\n", &[("bad-dag-line", 4)]);
        check("JOB b x.sub NOOP LATER\n", &[("bad-dag-line", 3)]);
        check("JOB b {\nexecutable = a.sh\n", &[("bad-dag-line", 3)]);
        check("SUBMIT-DESCRIPTION d x.sub\n", &[("bad-dag-line", 3)]);
        check("WEAK a CHILD a\n", &[("bad-dag-line", 3), ("new-dag-command", 3)]);
        check("SCRIPT POST a ./text.py\n", &[("not-executable", 3)]);
        check("RETYR a 2\n", &[("unknown-dag-command", 3)]);
        check("JOB a x.sub\n", &[("node-twice", 3)]);
        check("JOB b.c x.sub NOOP\n", &[]);
        for name in ["b+c", "parent", "ALL_NODES"] {
            check(&format!("JOB {name} x.sub NOOP\n"), &[("bad-node-name", 3)]);
        }
        check("NODE b x.sub\n", &[("unknown-dag-command", 3)]);
        check("VARS a queue=\"1\"\n", &[("bad-dag-line", 3)]);
        check("JOB b y.sub\n", &[("missing-file", 3)]);
        check("JOB b y.sub DIR d\n", &[("missing-file", 3)]);
        check("SCRIPT PRE a ./none.sh\n", &[("missing-file", 3)]);
        check("SCRIPT BEFORE a true\n", &[("bad-dag-line", 3)]);
        check("MAXJOBS big 2\n", &[("unknown-category", 3)]);
        check("FINAL f x.sub NOOP\nPARENT a CHILD f\n", &[("bad-parent", 4)]);
        check("PARENT f CHILD a\nFINAL f x.sub NOOP\n", &[("bad-parent", 3)]);
        check("WEAK PARENT a CHILD a\n", &[("new-dag-command", 3), ("cycle", 3)]);
        check("INCLUDE none.inc\n", &[("missing-file", 3)]);
        check("SUBDAG EXTERNAL s none.dag\n", &[("missing-file", 3)]);
        check("SUBDAG s x.dag\n", &[("bad-dag-line", 3)]);
    }

    #[test]
    fn a_submit_file_is_checked_with_what_its_nodes_give() {
        let files = [("x.sub", SUB), ("a.sh", SH)];
        assert_eq!(rules("JOB a x.sub\n", &files), [("undefined-macro", "x.sub".to_owned(), 5)]);
        let process = SUB.replace("$(JOB)", "$(Process)");
        let files = [("x.sub", process.as_str()), ("a.sh", SH)];
        let two = "JOB a x.sub\nJOB b x.sub\nVARS ALL_NODES lr=\"1\"\n";
        assert_eq!(rules(two, &files), [("stdout-collides", "x.sub".to_owned(), 6)]);
    }

    #[test]
    fn files_that_include_each_other_end() {
        let found = rules("INCLUDE x.dag\n", &[("x.dag", "INCLUDE x.dag\n")]);
        assert_eq!(found, [("include-depth", "x.dag".to_owned(), 1)]);
        assert_eq!(rules("SPLICE a y.dag\n", &[("y.dag", "SPLICE a y.dag\n")]), []);
        for odd in [
            "VARS",
            "VARS a =\"",
            "JOB",
            "PARENT",
            "SCRIPT DEFER",
            "SUBDAG",
            "JOB a {",
            "INCLUDE",
            "WEAK",
        ] {
            rules(odd, &[]);
        }
    }
}
