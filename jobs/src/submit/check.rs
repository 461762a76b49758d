//! All checks of one submit file, and of the scripts that it names.

use std::collections::{BTreeMap, BTreeSet};

use super::commands::{is_certain, is_known, nearest, nearest_attribute};
use super::expand::{Expanded, Variables, expand};
use super::parse::{Set, SetForm, Submit};
use super::{expressions, files, forms, programs, quotes, sandbox, values};
use crate::disk::{Disk, below, foreign, start};
use crate::finding::{Edit, FileFindings, JobFinding};
use crate::rules;

/// What a DAG sets for the jobs of a submit file.
#[derive(Debug, Clone, Default)]
pub(crate) struct Given {
    /// Macros of VARS, lower case, with a value where one node alone uses the file.
    pub(crate) variables: Variables,
    /// Macros that differ between the nodes that use the file.
    pub(crate) per_node: Vec<String>,
    /// How many nodes use the submit file.
    pub(crate) nodes: usize,
    /// The folder from which DAGMan submits the jobs; without a DAG it is the file's own folder.
    pub(crate) folder: Option<String>,
}

/// A submit file, and what its checks need.
pub(super) struct Context<'a> {
    pub(super) submit: &'a Submit,
    pub(super) raw: Vec<&'a str>,
    /// The folder that paths are relative to.
    pub(super) folder: String,
    pub(super) disk: &'a dyn Disk,
    pub(super) variables: Variables,
    /// Macros with another value for each job, lower case.
    pub(super) items: Vec<String>,
    /// How many jobs the file makes; 2 if that is unknown.
    pub(super) n_jobs: u64,
}

impl<'a> Context<'a> {
    /// The context of one job that is submitted from `folder`, with the macros `given` of a DAG.
    pub(super) fn of(
        submit: &'a Submit,
        folder: &str,
        disk: &'a dyn Disk,
        given: Variables,
    ) -> Self {
        let (folder, variables) = (folder.to_owned(), submit.variables(given));
        Self { submit, raw: Vec::new(), folder, disk, variables, items: Vec::new(), n_jobs: 1 }
    }

    pub(super) fn expand(&self, text: &str) -> Expanded {
        expand(text, &self.variables, &self.items)
    }

    /// Whether another `queue` makes jobs with another value of the command.
    pub(super) fn changes(&self, name: &str) -> bool {
        let mut sets = self.submit.sets.iter().filter(|set| !set.attribute);
        sets.any(|set| set.after_queue && set.name.eq_ignore_ascii_case(name))
    }

    /// Returns a command's value with its macros replaced.
    pub(super) fn value(&self, name: &str) -> Option<(&Set, Expanded)> {
        let set = self.submit.get(name)?;
        Some((set, self.expand(&set.value)))
    }

    /// A command's list: its members with their macros replaced.
    pub(super) fn list(&self, name: &str) -> Vec<Expanded> {
        let Some(set) = self.submit.get(name) else { return Vec::new() };
        let whole = self.expand(set.value.trim_matches('"'));
        let members = whole.text.split(',').map(str::trim).filter(|member| !member.is_empty());
        members
            .map(|member| Expanded {
                text: member.to_owned(),
                per_job: self.differs(set, member),
                undefined: match whole.undefined.is_empty() {
                    true => Vec::new(),
                    false => self.undefined(set, member),
                },
                ..Expanded::default()
            })
            .collect()
    }

    /// Macros in a member of a list that nothing sets.
    fn undefined(&self, set: &Set, member: &str) -> Vec<String> {
        let parts = set.value.trim_matches('"').split(',').map(|part| self.expand(part.trim()));
        parts.filter(|part| part.text.contains(member)).flat_map(|part| part.undefined).collect()
    }

    /// Whether a member of a list is different for each job, by its macros.
    fn differs(&self, set: &Set, member: &str) -> bool {
        let by_value = set.value.split(',').any(|part| {
            let part = self.expand(part.trim().trim_matches('"'));
            part.per_job && part.text == member
        });
        by_value || self.expand(member).per_job
    }

    /// Returns the edit that replaces the value in the statement `set`, unless lines that stay
    /// give a part of it.
    pub(super) fn with_value(&self, set: &Set, value: &str) -> Option<Edit> {
        let raw = self.raw.get(set.line - 1)?;
        let head = raw.split_inclusive(['=', ':']).next()?;
        (set.form == SetForm::Plain).then(|| Edit {
            line: set.line,
            count: set.count,
            lines: vec![format!("{} {value}", head.trim_end())],
        })
    }

    /// Returns the edit that adds a line after the statement `set`.
    pub(super) fn after(set: &Set, line: String) -> Edit {
        Edit { line: set.line + set.count, count: 0, lines: vec![line] }
    }

    /// The macro whose value is different for each job.
    pub(super) fn unique(&self) -> &'static str {
        if self.items.iter().any(|item| item == "job") { "JOB" } else { "Process" }
    }

    /// The exit code that means "checkpointed".
    pub(super) fn checkpoint_code(&self) -> Option<(&Set, i64)> {
        let set = self
            .submit
            .get("checkpoint_exit_code")
            .or_else(|| self.submit.attribute("SuccessCheckpointExitCode"))?;
        Some((set, self.expand(&set.value).text.trim().parse().ok()?))
    }
}

/// Findings of the submit file `file` and of the scripts that it runs. `seen` are scripts
/// that were checked for another file.
pub(crate) fn check(
    file: &str,
    text: &str,
    disk: &dyn Disk,
    given: &Given,
    seen: &mut BTreeSet<String>,
) -> Vec<JobFinding> {
    let submit = Submit::parse_with(text, &given.variables);
    let printed = ["output", "error", "log"].into_iter().filter_map(|name| submit.get(name));
    let printed = printed.filter_map(|set| Some(set.value.trim().rsplit_once('/')?.0));
    let printed: Vec<String> = printed.map(|folder| format!("{folder}/")).collect();
    let program = submit.get("executable").map(|set| set.value.trim());
    let paths = program.into_iter().chain(printed.iter().map(String::as_str));
    let folder = given.folder.clone().unwrap_or_else(|| start(file, paths, disk).to_owned());
    let mut context = Context::of(&submit, &folder, disk, given.variables.clone());
    context.raw = text.lines().collect();
    let mut items = given.per_node.clone();
    let mut n_jobs = 0_u64;
    for queue in &submit.queues {
        items.extend(queue.vars.iter().map(|var| var.to_ascii_lowercase()));
        let found = queue.items(disk, &folder);
        let first = found.as_ref().and_then(|items| items.first());
        // A variable's value is used if all jobs have the same.
        if let (Some(first), Some(1)) = (first, found.as_ref().map(Vec::len)) {
            context.variables.extend(first.clone());
        }
        let count = context.expand(&queue.count).text;
        let count: u64 =
            if count.trim().is_empty() { 1 } else { count.trim().parse().unwrap_or(2) };
        let n_items = found.map_or(2, |items| items.len() as u64);
        n_jobs = n_jobs.saturating_add(count.saturating_mul(n_items));
    }
    context.items = items;
    context.n_jobs = n_jobs.saturating_mul(given.nodes.max(1) as u64);
    let mut report = FileFindings::new(file);
    texts(&context, &mut report);
    names(&context, given.nodes > 0, &mut report);
    statements(&context, given, &mut report);
    values::check(&context, &mut report);
    quotes::check(&context, &mut report);
    expressions::check(&context, &mut report);
    forms::check(&context, &mut report);
    files::check(&context, &mut report);
    sandbox::check(&context, &mut report);
    let mut findings = programs::check(&context, &mut report, seen);
    report.findings.sort_by_key(|finding| finding.line);
    report.findings.append(&mut findings);
    report.findings
}

/// Checks joined lines and comments.
fn texts(context: &Context<'_>, report: &mut FileFindings) {
    for line in &context.submit.lines {
        for number in line.number..line.number + line.count {
            let raw = context.raw.get(number - 1).copied().unwrap_or_default();
            if number == line.number || line.text.starts_with('#') {
                continue;
            }
            let name = raw.split(['=', ' ']).next().unwrap_or_default().trim();
            if is_known(name)
                && raw.trim_start().starts_with(name)
                && raw.contains('=')
                && !raw.starts_with([' ', '\t'])
                && !is_inside(context, line.number, number)
            {
                let above = context.raw.get(number - 2).copied().unwrap_or_default();
                let above = above.trim_end().trim_end_matches('\\').trim_end();
                let what =
                    format!("`{name}` is part of the line above, which ends with a backslash");
                report.add(&rules::SWALLOWED_COMMAND, number, what).edit = Some(Edit {
                    line: number - 1,
                    count: 2,
                    lines: vec![above.to_owned(), raw.to_owned()],
                });
            }
        }
    }
    for set in &context.submit.sets {
        let Some((value, comment)) = set.text.split_once(" #") else { continue };
        // A word of the program, or of a macro or an attribute of the user's own, may begin so.
        let is_text = set.attribute
            || !is_known(&set.name)
            || TEXTS.iter().any(|name| name.eq_ignore_ascii_case(&set.name));
        if set.count > 1 || set.form == SetForm::Block || value.contains('"') || is_text {
            continue;
        }
        let raw = context.raw.get(set.line - 1).copied().unwrap_or_default();
        let head = raw.split(" #").next().unwrap_or_default().trim_end();
        let what = format!("` #{comment}` is part of the value of `{}`", set.name);
        report.add(&rules::COMMENT_IN_VALUE, set.line, what).edit = Some(Edit {
            line: set.line,
            count: 1,
            lines: vec![format!("#{comment}"), head.to_owned()],
        });
    }
}

/// Commands whose value may have any words.
const TEXTS: [&str; 9] = [
    "arguments",
    "args",
    "environment",
    "env",
    "shell",
    "description",
    "batch_name",
    "job_batch_name",
    "submit_event_notes",
];

/// Whether line `number` is inside of quotes that the statement of line `first` opened, or a
/// word of a text.
fn is_inside(context: &Context<'_>, first: usize, number: usize) -> bool {
    let above = context.raw.get(first - 1..number - 1).unwrap_or_default();
    let quotes: usize = above.iter().map(|line| line.matches('"').count()).sum();
    let raw = context.raw.get(number - 1).copied().unwrap_or_default();
    let name = above.first().and_then(|line| line.split('=').next()).unwrap_or_default().trim();
    let is_text = TEXTS.iter().any(|text| text.eq_ignore_ascii_case(name));
    quotes % 2 == 1 || (is_text && !raw.contains(" = "))
}

/// Commands and macros that nobody reads or sets.
fn names(context: &Context<'_>, in_dag: bool, report: &mut FileFindings) {
    let used = names_used(context);
    for set in &context.submit.sets {
        let lower = set.name.to_ascii_lowercase();
        let right = if set.attribute {
            nearest_attribute(&set.name)
        } else if is_known(&lower) {
            None
        } else {
            nearest(&lower)
        };
        let is_used = used.contains(&lower);
        match right {
            // A macro of this name that is read is what its author wanted.
            Some(right) if set.attribute || !is_used => {
                let what = format!("`{}` is not `{right}`", set.name);
                let raw = context.raw.get(set.line - 1).copied().unwrap_or_default();
                let mut lines: Vec<String> = context
                    .raw
                    .iter()
                    .skip(set.line - 1)
                    .take(set.count)
                    .map(|&line| line.to_owned())
                    .collect();
                if let Some(first) = lines.first_mut() {
                    *first = raw.replacen(&set.name, right, 1);
                }
                let rule = match set.attribute {
                    true => &rules::UNKNOWN_ATTRIBUTE,
                    false => &rules::UNKNOWN_COMMAND,
                };
                let edit = Edit { line: set.line, count: set.count, lines };
                let finding = report.add(rule, set.line, what).fix(format!("write `{right}`"));
                finding.edit = is_certain(&lower, right).then_some(edit);
            }
            None if !set.attribute && !is_known(&lower) && !is_used && !context.submit.includes => {
                let what =
                    format!("`{}` is not a command, and no `$({})` reads it", set.name, set.name);
                report.add(&rules::UNUSED_NAME, set.line, what);
            }
            _ => {}
        }
    }
    set_twice(context, report);
    if context.submit.includes {
        return;
    }
    // A file that is written for the nodes of a DAG gets macros by its VARS.
    let of_nodes = |text: &str| {
        let text = text.to_ascii_lowercase();
        ["$(job)", "$(retry)", "$(dag_"].iter().any(|name| text.contains(name))
    };
    if !in_dag && context.submit.sets.iter().any(|set| of_nodes(&set.text)) {
        return;
    }
    let mut said: BTreeSet<String> = BTreeSet::new();
    let values = context
        .submit
        .sets
        .iter()
        .map(|set| (set.line, set.text.as_str(), is_known(&set.name) || set.attribute));
    let counts = context.submit.queues.iter().map(|queue| (queue.line, queue.count.as_str(), true));
    for (line, value, looked_at) in values.chain(counts) {
        let undefined = context.expand(value).undefined.into_iter().filter(|name| {
            let name = name.to_ascii_lowercase();
            !context.items.contains(&name)
                && !context.submit.asked.contains(&name)
                && looked_at
                && said.insert(name)
        });
        for name in undefined.collect::<Vec<_>>() {
            if is_given(context, &name) {
                continue;
            }
            let what = format!("nothing sets `$({name})`");
            let finding = report.add(&rules::UNDEFINED_MACRO, line, what);
            if let Some(near) = near(context, &name) {
                finding.fix(format!("write `$({near})`"));
            }
        }
    }
}

/// Names, lower case, that macros or conditions of the file read; a value's own name in it is not
/// read by that.
fn names_used(context: &Context<'_>) -> BTreeSet<String> {
    let is_end = |c: char| !(c.is_alphanumeric() || matches!(c, '_' | '.' | '+' | '-'));
    let mut used = BTreeSet::new();
    let sets = context.submit.sets.iter().map(|set| (set.text.as_str(), set.name.as_str()));
    let counts = context.submit.queues.iter().map(|queue| (queue.count.as_str(), ""));
    for (text, own) in sets.chain(counts).filter(|(text, _)| text.contains('$')) {
        let names =
            text.split('(').skip(1).filter_map(|rest| rest.trim_start().split(is_end).next());
        let names = names.filter(|name| !name.eq_ignore_ascii_case(own));
        used.extend(names.map(str::to_ascii_lowercase));
    }
    for line in &context.raw {
        let line = line.trim_start().to_ascii_lowercase();
        if line.starts_with(['i', 'e']) && line.contains("if ") {
            used.extend(line.split(is_end).map(str::to_owned));
        }
    }
    used
}

/// Commands that are set again below, by a line that does not add to them.
fn set_twice(context: &Context<'_>, report: &mut FileFindings) {
    let mut below: BTreeMap<(bool, String), &Set> = BTreeMap::new();
    for set in context.submit.sets.iter().rev() {
        let lower = set.name.to_ascii_lowercase();
        if !is_known(&lower) {
            continue;
        }
        let key = (set.attribute, lower);
        if let Some(later) = below
            .get(&key)
            .filter(|later| !later.conditional && !set.conditional && !later.after_queue)
        {
            let what = format!("`{}` is set again in line {}", set.name, later.line);
            report.add(&rules::SET_TWICE, set.line, what);
        }
        if set.form != SetForm::Added {
            below.insert(key, set);
        }
    }
}

/// Most files beside a submit file that are read for the macros that they give.
const MAX_BESIDE: usize = 200;

/// Whether a text beside the submit file may give the macro: one that writes or is a DAG with VARS,
/// or calls `condor_submit NAME=value`.
fn is_given(context: &Context<'_>, name: &str) -> bool {
    let beside = context.disk.list(&context.folder);
    let texts = beside.iter().take(MAX_BESIDE).filter_map(|file| {
        let path = below(&context.folder, file);
        context.disk.len(&path).filter(|&len| len < 256 << 10)?;
        context.disk.text(&path)
    });
    { texts }.any(|text| {
        text.lines().any(|line| {
            let gives = line.contains("VARS") || line.contains("condor_submit ");
            gives
                && line.match_indices(name).any(|(at, _)| {
                    let after = line.get(at + name.len()..).unwrap_or_default();
                    after.trim_start().trim_start_matches('\\').starts_with('=')
                })
        })
    })
}

/// Returns the macro that was probably meant.
fn near(context: &Context<'_>, name: &str) -> Option<String> {
    let name = name.to_ascii_lowercase();
    if name.len() < 4 {
        return None;
    }
    let own = context.items.iter().chain(context.variables.keys()).map(String::as_str);
    let own = own.filter(|own| !is_known(own));
    let known = own.chain(["Process", "ProcId", "Cluster", "ClusterId", "Item", "JOB"]);
    let distance = |known: &str| crate::spelling::distance(&known.to_ascii_lowercase(), &name);
    let nearest = known.min_by_key(|known| distance(known))?;
    (distance(nearest) <= 2).then(|| nearest.to_owned())
}

/// Whether condor_submit takes the text behind `if`: it compares nothing but versions.
fn is_condition(text: &str) -> bool {
    let text = text.trim_start_matches(['!', ' ']).to_ascii_lowercase();
    let words: Vec<&str> = text.split_whitespace().collect();
    match words.as_slice() {
        ["true" | "false" | "yes" | "no" | "t" | "f" | "defined"]
        | ["defined", _]
        | ["defined", "use", _] => true,
        ["version", comparison, ..] => comparison.starts_with(['<', '>', '=', '!']),
        [one] => one.starts_with('$') || one.parse::<f64>().is_ok(),
        _ => text.starts_with('$') && text.ends_with(')') && text.matches(')').count() == 1,
    }
}

/// Lines that are not statements, or that have no effect.
fn statements(context: &Context<'_>, given: &Given, report: &mut FileFindings) {
    for strange in &context.submit.strange {
        let start: String = strange.text.chars().take(60).collect();
        let what = format!("`{start}` is neither `name = value` nor a statement");
        report.add(&rules::NOT_A_STATEMENT, strange.line, what);
    }
    for (line, file) in &context.submit.included {
        if foreign(file, context.disk).is_none()
            && !context.disk.exists(&below(&context.folder, file))
        {
            let what = format!("`{file}` does not exist");
            report.add(&rules::MISSING_FILE, *line, what);
        }
    }
    for (line, condition) in &context.submit.conditions {
        if !is_condition(condition) {
            let what = format!("`{condition}` is not a condition of `if`");
            report.add(&rules::BAD_CONDITION, *line, what);
        }
    }
    if let Some(line) = context.submit.open_if {
        report.add(&rules::NO_ENDIF, line, "this `if` has no `endif`");
    }
    for &line in &context.submit.stray_branches {
        report.add(&rules::STRAY_BRANCH, line, "this line belongs to no `if`");
    }
    for &line in &context.submit.else_ifs {
        let raw = context.raw.get(line - 1).copied().unwrap_or_default();
        let condition = raw.trim_start().get(4..).map(|rest| rest.trim_start().get(2..));
        let condition = condition.flatten().unwrap_or_default();
        let indent = raw.get(..raw.len() - raw.trim_start().len()).unwrap_or_default();
        report.add(&rules::ELSE_IF, line, "`else if` is read as `else`").edit =
            Some(Edit { line, count: 1, lines: vec![format!("{indent}elif{condition}")] });
    }
    for queue in &context.submit.queues {
        if let Some(line) = queue.late_bracket() {
            let what = "the list of `queue` has no `)` on a line of its own";
            report.add(&rules::OPEN_QUEUE, line, what);
        }
        let replaced = |var: &&String| is_known(var) && context.submit.get(var).is_some();
        for var in queue.vars.iter().filter(replaced) {
            let what =
                format!("`{var}` is a variable of `queue`, and a command that this file sets");
            report.add(&rules::VARIABLE_AS_COMMAND, queue.line, what);
        }
    }
    match context.submit.queues.last() {
        None if given.nodes == 0 && !context.submit.includes => {
            report.add(&rules::NO_QUEUE, context.raw.len(), "the file has no `queue`");
        }
        None => {}
        Some(queue) => {
            let after = |set: &&Set| set.line > queue.line && set.after_queue;
            if let Some(set) = context.submit.sets.iter().find(after) {
                let what = format!("`{}` comes after the last `queue`", set.name);
                report.add(&rules::AFTER_QUEUE, set.line, what);
            }
        }
    }
}
