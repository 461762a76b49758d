//! Checks the value of each option by itself.

use super::forms::Form;
use super::options::{Takes, by_name};
use super::read::{Header, Setting};
use crate::disk::{Disk, below, foreign};
use crate::finding::FileFindings;
use crate::rules;
use crate::units::{slurm_bytes, slurm_seconds};

/// Numbers of minutes that were probably meant as hours.
const LIKE_HOURS: [u64; 13] = [1, 2, 3, 4, 6, 8, 12, 24, 36, 48, 72, 96, 168];

/// Checks the values of the options.
pub(super) fn settings(
    header: &Header,
    lines: &[&str],
    disk: &dyn Disk,
    folder: &str,
    report: &mut FileFindings,
) {
    // `#SBATCH --mem=100  # in MB` is what was meant.
    let says_megabytes = |line: usize| {
        let comment = lines.get(line - 1).and_then(|line| line.get(1..)?.split_once('#'));
        let has = |words: &[&str], text: &str| words.iter().any(|word| text.contains(word));
        comment.is_some_and(|(_, text)| {
            has(&["MB", "megabyte"], text) && !has(&["GB", "gigabyte", "not "], text)
        })
    };
    for setting in &header.settings {
        let Setting { line, name, value } = setting;
        if value.contains('$') || value.starts_with('~') {
            let what = format!("`{value}` is not expanded");
            report.add(&rules::SBATCH_VARIABLE, *line, what);
            continue;
        }
        let Some(option) = by_name(name) else { continue };
        // `--exclusive` and others may do without a value.
        if option.takes != Takes::Value && value.is_empty() {
            continue;
        }
        if let Some(fix) = option.form.fault(value) {
            let rule = match option.form {
                Form::Size | Form::Time => &rules::UNIT_REFUSED,
                _ => &rules::BAD_OPTION_VALUE,
            };
            report.add(rule, *line, format!("sbatch refuses `--{name}={value}`")).fix(fix);
            continue;
        }
        match option.form {
            Form::Size if name != "tmp" && !says_megabytes(*line) => size(setting, report),
            Form::Time if name == "time" => time(setting, report),
            Form::Output => output(setting, disk, folder, report),
            _ => {}
        }
    }
    if header.get("time").is_none() {
        let line = header.settings.first().map_or(1, |setting| setting.line);
        report.add(&rules::NO_TIME, line, "`--time` is not set");
    }
}

/// Tells of a size of memory that is probably too small.
fn size(setting: &Setting, report: &mut FileFindings) {
    let Setting { line, name, value } = setting;
    let is_bare = value.chars().all(|c| c.is_ascii_digit());
    if slurm_bytes(value).is_some_and(|bytes| bytes > 0 && bytes < 256 << 20 && is_bare) {
        let what = format!("`--{name}={value}` is {value} MB");
        report.add(&rules::UNIT_SMALL, *line, what).fix(format!("write {value}G"));
    }
}

/// Tells of a time limit that is probably meant in another unit.
fn time(setting: &Setting, report: &mut FileFindings) {
    let Setting { line, value, .. } = setting;
    match slurm_seconds(value) {
        Some(seconds)
            if seconds > 0
                && seconds < 600
                && value.split(':').count() == 2
                && !value.contains('-') =>
        {
            let what = format!(
                "`--time={value}` is {seconds} seconds: Slurm reads it as minutes and seconds"
            );
            report
                .add(&rules::UNIT_SECONDS, *line, what)
                .fix(format!("write {value}:00 for hours and minutes"));
        }
        Some(seconds)
            if value.chars().all(|c| c.is_ascii_digit())
                && LIKE_HOURS.contains(&(seconds / 60)) =>
        {
            let minutes = seconds / 60;
            let what = format!("`--time={value}` is {value} minutes");
            report.add(&rules::UNIT_MINUTES, *line, what).fix(format!(
                "write `{value}:00:00` for hours, for minutes `{:02}:{:02}:00`",
                minutes / 60,
                minutes % 60
            ));
        }
        _ => {}
    }
}

/// A file for output, whose folder must be there.
fn output(setting: &Setting, disk: &dyn Disk, folder: &str, report: &mut FileFindings) {
    let Setting { line, value, .. } = setting;
    let Some((parent, _)) = value
        .rsplit_once('/')
        .filter(|(parent, _)| !matches!(*parent, "" | "/dev") && !parent.contains('%'))
    else {
        return;
    };
    let what = format!("the folder `{parent}` does not exist");
    // Output and errors are mostly in one folder, of which one word is enough.
    let is_said = report.findings.iter().any(|finding| finding.what == what);
    if !is_said && foreign(parent, disk).is_none() && !disk.exists(&below(folder, parent)) {
        report
            .add(&rules::MISSING_LOG_FOLDER, *line, what)
            .fix(format!("run `mkdir -p {parent}` before you submit the job"));
    }
}

/// Options of which a script has one at most.
const EXCLUSIVE: [&[&str]; 4] = [
    &["mem", "mem-per-cpu", "mem-per-gpu"],
    &["gpus-per-task", "ntasks-per-gpu"],
    &["ntasks-per-node", "ntasks-per-gpu"],
    &["cpus-per-gpu", "cpus-per-task"],
];

/// Options that sbatch refuses if none of others is given, also on the command line.
const NEEDS: [(&str, &[&str]); 4] = [
    ("gpus-per-task", &["gpus", "ntasks", "tasks", "ntasks-per-node", "tasks-per-node", "nodes"]),
    ("gpus-per-socket", &["sockets-per-node", "extra-node-info"]),
    ("ntasks-per-gpu", &["gpus", "gpus-per-node", "gres", "ntasks", "tasks", "nodes"]),
    ("mem-per-gpu", &["gpus", "gpus-per-node", "gpus-per-task", "gpus-per-socket", "gres"]),
];

/// Checks options against each other.
pub(super) fn together(header: &Header, report: &mut FileFindings) {
    if header.has_parts {
        return;
    }
    for names in EXCLUSIVE {
        let mut given = names.iter().filter_map(|name| header.get(name));
        if let (Some(one), Some(other)) = (given.next(), given.next()) {
            let what = format!("`--{}` and `--{}` exclude each other", one.name, other.name);
            report.add(&rules::OPTIONS_EXCLUDE, one.line.max(other.line), what);
        }
    }
    for (name, others) in NEEDS {
        if let Some(setting) = header.get(name)
            && !others.iter().any(|other| header.get(other).is_some())
        {
            let what = format!("`--{name}` alone");
            let others: Vec<String> = others.iter().map(|other| format!("`--{other}`")).collect();
            report
                .add(&rules::OPTION_NEEDS, setting.line, what)
                .fix(format!("add one of {}", others.join(", ")));
        }
    }
    let gpus = header.get("gpus").and_then(|gpus| {
        let counts = gpus.value.split(',').map(|one| one.rsplit(':').next()?.parse::<u64>().ok());
        Some((gpus, counts.sum::<Option<u64>>()?))
    });
    if let Some(((gpus, n), nodes)) = gpus.zip(header.number("nodes"))
        && n > 0
        && n < nodes
    {
        let what = format!("`--gpus={}` for {nodes} nodes", gpus.value);
        report
            .add(&rules::OPTIONS_EXCLUDE, gpus.line, what)
            .fix("ask for one GPU per node at least, or write `--gpus-per-node`");
    }
    let seconds = |name: &str| {
        let setting = header.get(name)?;
        Some((setting, slurm_seconds(&setting.value)?))
    };
    if let Some(((least, from), (_, to))) = seconds("time-min").zip(seconds("time"))
        && from > to
        && to > 0
    {
        let what = format!("`--time-min={}` is more than `--time`", least.value);
        report.add(&rules::OPTIONS_EXCLUDE, least.line, what).fix("write less");
    }
}
