//! Files that are transferred to the job and back.

use super::check::Context;
use super::expand::Expanded;
use super::queue::Source;
use crate::disk::{base_name, below, foreign, normal};
use crate::finding::FileFindings;
use crate::rules;
use crate::severity::Severity;
use crate::units::{condor_bytes, request, words};

pub(super) fn check(context: &Context<'_>, report: &mut FileFindings) {
    missing(context, report);
    wildcards(context, report);
    headers(context, report);
    disk(context, report);
    urls(context, report);
    remaps(context, report);
    collisions(context, report);
}

/// The files that HTCondor brings for the job: paths on this machine, and URLs.
pub(super) fn inputs(context: &Context<'_>) -> Vec<Expanded> {
    let mut inputs = context.list("transfer_input_files");
    inputs.extend(context.list("public_input_files"));
    inputs
}

fn is_url(path: &str) -> bool {
    path.contains("://")
}

/// The folder that paths of inputs and outputs are relative to.
pub(super) fn folder(context: &Context<'_>) -> Option<String> {
    let value = initial(context);
    value.is_none_or(|value| !value.varies && !value.per_job).then(|| initial_folder(context))
}

/// Does the same as [`folder`], but keeps macros whose value is different for each job.
pub(super) fn initial_folder(context: &Context<'_>) -> String {
    let below = |value: Expanded| below(&context.folder, value.text.trim());
    initial(context).map_or_else(|| context.folder.clone(), below)
}

fn initial(context: &Context<'_>) -> Option<Expanded> {
    let set = context.submit.any(&["initialdir", "initial_dir", "iwd"])?;
    Some(context.expand(&set.value))
}

/// Whether a path is a place of a template: `<image>`, `??`.
fn is_placeholder(path: &str) -> bool {
    (path.contains('<') && path.contains('>')) || path.trim_matches('?').is_empty()
}

/// Whether a path names one known file.
fn is_certain(path: &Expanded) -> bool {
    !path.varies
        && !path.per_job
        && path.undefined.is_empty()
        && !path.text.contains(['$', '*'])
        && !is_placeholder(&path.text)
        && !is_url(&path.text)
        // A file system of the machines that run jobs.
        && !path.text.starts_with("/cvmfs/")
        && !path.text.starts_with("/dev/")
}

fn absent_file(
    context: &Context<'_>,
    report: &mut FileFindings,
    line: usize,
    path: &str,
    fix: &str,
) {
    let found = report.absent(&rules::MISSING_FILE, line, path, context.disk);
    if found.severity == Severity::Error {
        found.fix(fix);
    }
}

/// Whether the standard input is a file of the access point.
fn transfers_input(context: &Context<'_>) -> bool {
    context
        .value("transfer_input")
        .is_none_or(|(_, value)| !value.text.trim().eq_ignore_ascii_case("false"))
}

fn missing(context: &Context<'_>, report: &mut FileFindings) {
    let absent = |path: &str| !context.disk.exists(path);
    let transfers = context.value("transfer_executable").is_none_or(|(_, value)| {
        !matches!(value.text.to_ascii_lowercase().as_str(), "false" | "no" | "f" | "0")
    });
    if let Some((set, value)) = context.value("executable")
        && transfers
        && is_certain(&value)
    {
        let path = value.text.trim();
        if !path.is_empty() && absent(&below(&context.folder, path)) {
            let fix = if path.contains(' ') {
                "name the program alone: its words go into `arguments`"
            } else if is_interpreter(path) {
                "write its whole path and `transfer_executable = false`, or name a script that begins with `#!`"
            } else {
                "give a file that exists"
            };
            absent_file(context, report, set.line, path, fix);
        }
    }
    for queue in &context.submit.queues {
        if let Source::File(path) = &queue.source {
            let value = context.expand(path);
            if is_certain(&value) && absent(&below(&context.folder, &value.text)) {
                absent_file(
                    context,
                    report,
                    queue.line,
                    &value.text,
                    "write this file, with one line for each job",
                );
            }
        }
    }
    if let Some((set, value)) = context.value("initialdir")
        && is_certain(&value)
        && absent(&below(&context.folder, value.text.trim()))
        && foreign(value.text.trim(), context.disk).is_none()
    {
        let what = format!("the folder `{}` does not exist", value.text.trim());
        report.add(&rules::MISSING_INITIALDIR, set.line, what);
        return;
    }
    let Some(folder) = folder(context) else { return };
    let line = |name: &str| context.submit.get(name).map_or(1, |set| set.line);
    for name in ["transfer_input_files", "public_input_files"] {
        for input in context.list(name).iter().filter(|input| is_certain(input)) {
            if absent(&below(&folder, &input.text)) {
                let fix = match input.text.contains([' ', ';']) {
                    true => "write commas between the files",
                    false => "give a file that exists",
                };
                absent_file(context, report, line(name), &input.text, fix);
            }
        }
    }
    if let Some((set, value)) =
        ["input", "stdin", "in"].into_iter().find_map(|name| context.value(name))
        && is_certain(&value)
        && transfers_input(context)
        && absent(&below(&folder, value.text.trim()))
    {
        let fix =
            "give a file that exists: `input` is what the program reads from its standard input";
        absent_file(context, report, set.line, value.text.trim(), fix);
    }
    if let Some((set, value)) = context.value("container_image") {
        let path = value.text.trim();
        if is_certain(&value) && !path.is_empty() && absent(&below(&folder, path)) {
            absent_file(
                context,
                report,
                set.line,
                path,
                "give an image that exists, or a URL such as `osdf:///…` or `docker://…`",
            );
        }
    }
    for name in ["output", "error", "log", "stdout", "stderr", "out", "err"] {
        let Some((set, value)) = context.value(name) else { continue };
        let path = value.text.trim();
        let Some((parent, _)) = path.rsplit_once('/').filter(|(parent, _)| !parent.is_empty())
        else {
            continue;
        };
        let parent_value = Expanded { text: parent.to_owned(), ..Expanded::default() };
        if is_certain(&parent_value) && !value.per_job && absent(&below(&folder, parent))
            || (parent_is_fixed(parent) && absent(&below(&folder, parent)))
        {
            let what = format!("the folder `{parent}` does not exist");
            report
                .add(&rules::MISSING_FOLDER, set.line, what)
                .fix(format!("run `mkdir -p {parent}` before you submit the job"));
        }
    }
}

/// Members of lists that a shell would expand, and HTCondor does not.
fn wildcards(context: &Context<'_>, report: &mut FileFindings) {
    for list in ["transfer_input_files", "transfer_output_files", "transfer_checkpoint_files"] {
        let Some(set) = context.submit.get(list) else { continue };
        let members = context.list(list);
        if let Some(member) = members.iter().find(|m| m.text.contains('*') && !is_url(&m.text)) {
            let what = format!("`{}` in `{list}` is not expanded", member.text);
            report.add(&rules::WILDCARD, set.line, what);
        }
    }
}

/// Lists of items whose first line has the names of their columns.
fn headers(context: &Context<'_>, report: &mut FileFindings) {
    for queue in &context.submit.queues {
        let items = queue.items(context.disk, &context.folder).unwrap_or_default();
        let Some(first) = items.first().filter(|first| items.len() > 1 && !first.is_empty()) else {
            continue;
        };
        if first.iter().all(|(name, value)| value.eq_ignore_ascii_case(name)) {
            let what = "the first line of the list has the names of the columns";
            report.add(&rules::HEADER_AS_JOB, queue.line, what);
        }
    }
}

/// Whether the program at `path` is one that runs scripts.
pub(super) fn is_interpreter(path: &str) -> bool {
    let name = base_name(path);
    let python = name.strip_prefix("python");
    matches!(name, "bash" | "sh" | "env")
        || python.is_some_and(|version| version.chars().all(|c| c.is_ascii_digit() || c == '.'))
}

fn parent_is_fixed(parent: &str) -> bool {
    !parent.contains('$') && !is_url(parent)
}

/// Checks whether the requested disk has space for the files that are brought.
fn disk(context: &Context<'_>, report: &mut FileFindings) {
    let Some((set, value)) = context.value("request_disk") else { return };
    let Some(asked) = condor_bytes(&value.text, 1 << 10).filter(|_| !value.varies) else { return };
    let Some(folder) = folder(context) else { return };
    let mut inputs = inputs(context);
    let image = context.value("container_image").map(|(_, value)| value);
    inputs.extend(image);
    inputs.extend(context.value("executable").map(|(_, value)| value));
    let lens = inputs
        .iter()
        .filter(|input| is_certain(input))
        .filter_map(|input| context.disk.len(&below(&folder, input.text.trim())));
    let known: u64 = lens.sum();
    // A small number without a unit is reported by the rule for missing units.
    let has_unit = value.text.contains(|c: char| c.is_ascii_alphabetic());
    if asked < 100_000 << 10 && !has_unit {
        return;
    }
    if known > asked {
        let what = format!(
            "`request_disk` is {}, but inputs and image have {}",
            words(asked),
            words(known)
        );
        let enough = request(known.saturating_add(known / 4).saturating_add(1 << 30));
        report
            .add(&rules::DISK_TOO_SMALL, set.line, what)
            .fix(format!("ask for {enough}, plus what the program writes"))
            .edit = context.with_value(set, &enough);
        return;
    }
    let remote_image =
        inputs.iter().any(|input| is_url(&input.text) && input.text.contains(".sif"));
    let archive = |path: &str| {
        [".zip", ".tar", ".tgz", ".tar.gz", ".sqsh", ".h5", ".hdf5", ".parquet"]
            .iter()
            .any(|end| path.ends_with(end))
    };
    let remote_data = inputs.iter().any(|input| is_url(&input.text) && archive(&input.text));
    let (least, what) = match (remote_image, remote_data) {
        (true, _) => (5_u64 << 30, "an image"),
        (false, true) => (2 << 30, "data"),
        _ => return,
    };
    if asked < least {
        let what =
            format!("`request_disk` is {}, but {what} from a URL must fit in it", words(asked));
        report.add(&rules::DISK_FORGETS_INPUTS, set.line, what);
    }
}

/// Names that caches serve stale, and schemes that few machines have.
fn urls(context: &Context<'_>, report: &mut FileFindings) {
    for name in ["transfer_input_files", "container_image", "docker_image"] {
        let Some(set) = context.submit.get(name) else { continue };
        let members = if name == "transfer_input_files" {
            context.list(name)
        } else {
            vec![context.expand(&set.value)]
        };
        for member in &members {
            let url = member.text.trim().trim_matches('"');
            if member.varies || url.is_empty() {
                continue;
            }
            if let Some((_, rest)) = url.split_once('<')
                && let Some((inside, _)) = rest.split_once('>')
                && !inside.contains('/')
            {
                let what = format!("`{url}` has a place to fill in: `<{inside}>`");
                report.add(&rules::PLACEHOLDER, set.line, what);
                continue;
            }
            let docker = name == "docker_image" || url.starts_with("docker://");
            let cached = ["osdf://", "stash://", "pelican://", "http://", "https://"]
                .iter()
                .any(|scheme| url.starts_with(scheme));
            if docker {
                let tag = base_name(url).split_once([':', '@']).map_or("", |(_, tag)| tag);
                if tag.is_empty() || tag == "latest" {
                    let what = format!("the image `{url}` has no version");
                    report.add(&rules::STALE_IMAGE, set.line, what);
                }
            } else if cached && !is_versioned(url) {
                let what = format!("the name in `{url}` has no version");
                report.add(&rules::STALE_NAME, set.line, what);
            }
            if let Some(path) = url.strip_prefix("pelican://osg-htc.org/") {
                let right = format!("osdf:///{path}");
                let what = format!("`{url}` needs a machine with the `pelican` plug-in");
                report.add(&rules::PELICAN_SCHEME, set.line, what).fix(format!("write `{right}`"));
            }
        }
    }
}

/// Whether a URL's path contains a version.
fn is_versioned(url: &str) -> bool {
    let path = url.split_once("://").map_or(url, |(_, rest)| rest);
    let path = path.split_once('/').map_or("", |(_, path)| path);
    let mut words = path.split(['/', '-', '_', '.', '~', ':']);
    words.any(|word| {
        let lower = word.to_ascii_lowercase();
        let version = lower
            .strip_prefix('v')
            .is_some_and(|n| !n.is_empty() && n.chars().all(|c| c.is_ascii_digit()));
        let hex = word.len() >= 8
            && word.chars().all(|c| c.is_ascii_hexdigit())
            && word.chars().any(|c| c.is_ascii_digit());
        let date = word.len() == 4
            && (word.starts_with("20") || word.starts_with("19"))
            && word.chars().all(|c| c.is_ascii_digit());
        version || hex || date || is_day(word)
    }) || path
        .as_bytes()
        .windows(3)
        .any(|w| matches!(w, [a, b'.', b] if a.is_ascii_digit() && b.is_ascii_digit()))
}

/// Whether a word is a day, such as `22Jan2025`.
fn is_day(word: &str) -> bool {
    let day = word.trim_start_matches(|c: char| c.is_ascii_digit());
    let month = day.trim_end_matches(|c: char| c.is_ascii_digit());
    let digits = word.len() - day.len() + day.len() - month.len();
    month.len() == 3 && month.chars().all(|c| c.is_ascii_alphabetic()) && digits >= 5
}

/// Where each output is stored, by its name in the job.
pub(super) fn targets(context: &Context<'_>) -> Vec<(String, Expanded)> {
    let Some(set) = context.submit.get("transfer_output_remaps") else { return Vec::new() };
    let pairs = set.value.trim().trim_matches('"').split(';');
    let pair = |pair: &str| {
        let (from, to) = pair.split_once('=')?;
        Some((context.expand(from.trim()).text, context.expand(to.trim())))
    };
    pairs.filter_map(pair).collect()
}

fn remaps(context: &Context<'_>, report: &mut FileFindings) {
    let Some(set) = context.submit.get("transfer_output_remaps") else { return };
    let text = set.value.trim();
    if !text.starts_with('"') {
        let what = "`transfer_output_remaps` has no quotes";
        report.add(&rules::UNQUOTED_REMAPS, set.line, what);
    }
    let outputs = context.list("transfer_output_files");
    for pair in text.trim_matches('"').split(';').map(str::trim).filter(|pair| !pair.is_empty()) {
        let Some((from, to)) = pair.split_once('=') else {
            let what = format!("`{pair}` has no `=`");
            report.add(&rules::BAD_REMAP, set.line, what);
            continue;
        };
        let from = context.expand(from.trim()).text;
        if to.contains(',') && to.contains('=') {
            let what = format!("a comma in the remap of `{from}`");
            report.add(&rules::BAD_REMAP, set.line, what).fix("write `;`").edit =
                context.with_value(set, &set.value.replace(',', ";"));
            continue;
        }
        let listed =
            outputs.iter().any(|output| output.text == from || base_name(&output.text) == from);
        if context.submit.get("transfer_output_files").is_some()
            && !listed
            && outputs.iter().all(|output| !output.varies && !is_placeholder(&output.text))
        {
            let what = format!("`{from}` is remapped, but is not in `transfer_output_files`");
            report
                .add(&rules::BAD_REMAP, set.line, what)
                .fix("add the file to the list, or use the name that is in the list");
        }
        let to = context.expand(to.trim()).text;
        let parent = to.rsplit_once('/').map_or("", |(parent, _)| parent);
        let place = folder(context).map(|folder| normal(&below(&folder, parent)));
        if !parent.is_empty()
            && parent_is_fixed(parent)
            && place.is_some_and(|place| !place.is_empty() && !context.disk.exists(&place))
        {
            let what = format!("the folder `{parent}` does not exist");
            report
                .add(&rules::MISSING_FOLDER, set.line, what)
                .fix(format!("`mkdir -p {parent}` before it is submitted"));
        }
        if from.ends_with('/') {
            let what = format!("the folder `{from}` is remapped");
            report.add(&rules::BAD_REMAP, set.line, what).fix("list the files in the folder");
        }
    }
}

/// Reports outputs of several jobs that have the same name.
fn collisions(context: &Context<'_>, report: &mut FileFindings) {
    if context.n_jobs < 2 {
        return;
    }
    let own_folder = context
        .submit
        .any(&["initialdir", "initial_dir", "iwd"])
        .is_some_and(|set| context.expand(&set.value).per_job);
    let destination = context.value("output_destination").is_some_and(|(_, value)| value.per_job);
    for name in ["output", "error", "stdout", "stderr", "out", "err"] {
        let Some((set, value)) = context.value(name) else { continue };
        let path = value.text.trim();
        // The variable's value takes the place of the command's.
        let is_variable = context.items.iter().any(|item| item == name);
        if is_variable || context.changes(name) {
            continue;
        }
        let is_own = value.per_job || own_folder || path.is_empty() || path == "/dev/null";
        // A misspelt `$(Process)` is found by its own rule.
        if is_own || !value.undefined.is_empty() {
            continue;
        }
        let (head, tail) = match base_name(path).rfind('.') {
            Some(dot) => set.value.split_at(set.value.rfind('.').unwrap_or(dot)),
            None => (set.value.as_str(), ""),
        };
        let right = format!("{}_$({}){tail}", head.trim_end_matches('_'), context.unique());
        let what = format!("all {} write `{name}` to `{path}`", jobs(context.n_jobs));
        report.add(&rules::STDOUT_COLLIDES, set.line, what).fix(format!("write `{right}`")).edit =
            context.with_value(set, &right);
    }
    if own_folder || destination {
        return;
    }
    let Some(set) = context.submit.get("transfer_output_files") else { return };
    let names = ["transfer_output_files", "transfer_output_remaps", "initialdir"];
    if names.iter().any(|name| context.changes(name)) {
        return;
    }
    let targets = targets(context);
    let program = context.value("executable").map(|(_, value)| value.text);
    let program = program.and_then(|path| context.disk.text(&below(&context.folder, path.trim())));
    // HTCondor merges folders, and their files may have different names.
    let makes_folders = program.is_some_and(|text| text.contains("mkdir"));
    let collides = |output: &Expanded| {
        let name = base_name(&output.text);
        if name.is_empty() || output.text.ends_with('/') || (makes_folders && !name.contains('.')) {
            return None;
        }
        let target = targets.iter().find(|(from, _)| *from == output.text || from == name);
        let per_job = target.map_or(output.per_job, |(_, to)| to.per_job);
        (!per_job).then(|| name.to_owned())
    };
    let names: Vec<String> =
        context.list("transfer_output_files").iter().filter_map(collides).collect();
    let Some(first) = names.first() else { return };
    let what = format!("all {} bring back a file `{}`", jobs(context.n_jobs), names.join("`, `"));
    let file = names.iter().all(|name| name.contains('.'));
    let pair = |name: &String| {
        let (stem, end) = name.rsplit_once('.').unwrap_or((name, ""));
        format!("{name} = {stem}-$({}).{end}", context.unique())
    };
    let remap = format!("\"{}\"", names.iter().map(pair).collect::<Vec<_>>().join("; "));
    let fix = if file {
        format!("`transfer_output_remaps = {remap}`")
    } else {
        format!(
            "give each job a folder, `initialdir = runs/$({})`, or list the files in `{first}` and remap them",
            context.unique()
        )
    };
    let certain = file && context.submit.get("transfer_output_remaps").is_none();
    report.add(&rules::OUTPUTS_COLLIDE, set.line, what).fix(fix).edit =
        certain.then(|| Context::after(set, format!("transfer_output_remaps = {remap}")));
}

fn jobs(n: u64) -> String {
    format!("{n} jobs")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_seen_in_names() {
        for url in [
            "osdf:///lab/birds/v1/manifest.json",
            "osdf:///lab/train-0123456789abcdef.sif",
            "https://x.org/a-2.11.0.whl",
            "osdf:///a/data-2026-08.zip",
            "osdf:///a/alphafold3.minimal.22Jan2025.sif",
        ] {
            assert!(is_versioned(url), "{url}");
        }
        for url in [
            "osdf:///ospool/ap40/data/me/train.sif",
            "osdf:///lab/shard-00000.tar",
            "https://v2.org/data.zip",
        ] {
            assert!(!is_versioned(url), "{url}");
        }
    }
}
