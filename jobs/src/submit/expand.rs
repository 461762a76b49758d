//! Macros: `$(name)`, `$(name:default)`, `$ENV(NAME)` and the functions.

use std::collections::BTreeMap;
use std::ops::Range;

/// Macros nest and repeat; what comes out stays small.
const MAX_DEPTH: usize = 16;
const MAX_BYTES: usize = 64 << 10;
const MAX_STEPS: usize = 10_000;

/// Values of macros by lower-case name.
pub(crate) type Variables = BTreeMap<String, String>;

/// Macros that HTCondor defines by itself.
const BUILT_IN: [&str; 39] = [
    "cluster",
    "clusterid",
    "process",
    "procid",
    "step",
    "row",
    "item",
    "itemindex",
    "node",
    "jobid",
    "dollar",
    "submit_time",
    "submit_file",
    "year",
    "month",
    "day",
    "opsys",
    "arch",
    "opsysandver",
    "opsysmajorver",
    "opsysver",
    "job",
    "retry",
    "retries",
    "max_retries",
    "dag_parent_names",
    "dag_status",
    "failed_count",
    "dagmanjobid",
    "islinux",
    "iswindows",
    "is_resubmit",
    "joblistid",
    "taskid",
    "spool",
    "request_cpus",
    "request_memory",
    "vm_memory",
    "vm_vcpus",
];

/// A text with its macros replaced.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Expanded {
    pub(crate) text: String,
    /// Macros that nobody defines; they become nothing.
    pub(crate) undefined: Vec<String>,
    /// Whether the value depends on the job or the machine, by built-in macros, `$ENV` or `$$`.
    pub(crate) varies: bool,
    /// Whether each job of a cluster has another value, by Process or the items.
    pub(crate) per_job: bool,
    /// How many macros were replaced.
    pub(super) steps: usize,
}

/// Replaces the macros of `text`. Built-in ones stay as they are. `items`: names of the
/// variables of `queue` or of a DAG's nodes, whose values differ between jobs; `job` among
/// them when several nodes use the file.
pub(crate) fn expand(text: &str, variables: &Variables, items: &[String]) -> Expanded {
    let mut expanded = Expanded::default();
    let mut out = String::new();
    add(text, variables, items, &mut expanded, &mut out, 0);
    expanded.text = out;
    expanded
}

fn add(
    text: &str,
    variables: &Variables,
    items: &[String],
    expanded: &mut Expanded,
    out: &mut String,
    depth: usize,
) {
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        out.push_str(rest.get(..at).unwrap_or_default());
        let tail = rest.get(at + 1..).unwrap_or_default();
        let name_end =
            tail.find(|c: char| !c.is_ascii_alphabetic() && c != '$').unwrap_or(tail.len());
        let (function, arguments) = tail.split_at(name_end);
        let Some(end) = arguments.starts_with('(').then(|| closing(arguments)).flatten() else {
            out.push('$');
            rest = tail;
            continue;
        };
        let inside = arguments.get(1..end).unwrap_or_default();
        rest = arguments.get(end + 1..).unwrap_or_default();
        if function.starts_with('$') || function.eq_ignore_ascii_case("ENV") {
            expanded.varies = true;
            out.push_str("$_");
            continue;
        }
        let (name, default) = match inside.split_once(':') {
            Some((name, default)) => (name, Some(default)),
            None => (inside, None),
        };
        // Functions: the first argument is a macro's name, which `$INT(x)` and the like read.
        let name =
            if function.is_empty() { name } else { name.split(',').next().unwrap_or_default() };
        // What a function makes of a macro is not computed.
        expanded.varies |= !function.is_empty();
        let lower = name.trim().to_ascii_lowercase();
        if !function.is_empty() && !lower.chars().all(|c| c.is_alphanumeric() || c == '_') {
            expanded.varies = true;
            continue;
        }
        // Nodes of a DAG are clusters of their own: each begins at process 0.
        let of_job = if items.iter().any(|item| item == "job") {
            matches!(lower.as_str(), "cluster" | "clusterid" | "jobid")
        } else {
            matches!(
                lower.as_str(),
                "process" | "procid" | "step" | "row" | "item" | "itemindex" | "jobid"
            )
        };
        expanded.per_job |= of_job || items.contains(&lower);
        match (variables.get(&lower), default) {
            (Some(value), _)
                if depth < MAX_DEPTH && out.len() < MAX_BYTES && expanded.steps < MAX_STEPS =>
            {
                expanded.steps += 1;
                add(value, variables, items, expanded, out, depth + 1);
            }
            (Some(_), _) => {
                expanded.varies = true;
                out.push_str("$_");
            }
            (None, _) if BUILT_IN.contains(&lower.as_str()) => {
                expanded.varies = true;
                out.push_str("$(");
                out.push_str(name.trim());
                out.push(')');
            }
            (None, Some(default)) => out.push_str(default),
            (None, None) => expanded.undefined.push(name.trim().to_owned()),
        }
    }
    out.push_str(rest);
}

/// The places in `text` of `$(name)` and `$(name:default)`, with their defaults.
pub(super) fn own_references<'t>(text: &'t str, name: &str) -> Vec<(Range<usize>, &'t str)> {
    let lower = text.to_ascii_lowercase();
    let open = format!("$({}", name.to_ascii_lowercase());
    let mut found: Vec<(Range<usize>, &str)> = Vec::new();
    for (at, _) in lower.match_indices(&open) {
        let from = found.last().map_or(0, |(range, _)| range.end);
        // `$$(name)` is an attribute of the machine.
        if at < from || lower.get(..at).is_some_and(|head| head.ends_with('$')) {
            continue;
        }
        let Some(end) = text.get(at + 1..).and_then(closing).map(|end| at + 1 + end) else {
            continue;
        };
        let rest = text.get(at + open.len()..end).unwrap_or_default();
        if let Some(default) = rest.strip_prefix(':').or(rest.is_empty().then_some("")) {
            found.push((at..end + 1, default));
        }
    }
    found
}

/// The position of the bracket that closes the one with which `text` begins.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' if depth <= 1 => return Some(at),
            ')' => depth -= 1,
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn macros_become_their_values() {
        let pairs = [("a", "1"), ("b", "$(a)$(a)"), ("loop", "$(loop)x"), ("c", "$(Process)")];
        let variables: Variables = pairs.map(|(k, v)| (k.to_owned(), v.to_owned())).into();
        let check = |text: &str, expected: &str| {
            assert_eq!(expand(text, &variables, &[]).text, expected, "{text}");
        };
        check("x$(A)y$(b)", "x1y11");
        check("$(none:d)$(a:d)", "d1");
        check("$(Process)-$(c)", "$(Process)-$(Process)");
        check("$ $x $( $(", "$ $x $( $(");
        check("$INT(a,%03d)", "1");
        check("é$(é)", "é");
        let found = expand("$(what) $(c)", &variables, &[]);
        assert_eq!((found.undefined, found.per_job), (vec!["what".to_owned()], true));
        let endless = expand("$(loop)", &variables, &[]);
        assert!(endless.text.len() < MAX_BYTES * 2 && endless.text.contains("$_"));
        assert!(expand("$(seed)", &Variables::new(), &["seed".to_owned()]).per_job);
    }

    #[test]
    fn macros_that_double_stay_small() {
        let mut variables = Variables::new();
        variables.insert("m0".to_owned(), "x".repeat(1000));
        for i in 1..40 {
            variables.insert(format!("m{i}"), format!("$(m{0})$(m{0})", i - 1));
        }
        assert!(expand("$(m15)", &variables, &[]).text.len() < 2 * MAX_BYTES);
        variables.insert("m0".to_owned(), String::new());
        assert!(expand("$(m15)", &variables, &[]).steps <= MAX_STEPS);
    }
}
