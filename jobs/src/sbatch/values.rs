//! Checks the value of each option by itself.

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
        match name.as_str() {
            "mem" | "mem-per-cpu" | "mem-per-gpu" if !says_megabytes(*line) => {
                size(setting, report);
            }
            "time" => time(setting, report),
            "nodes" | "ntasks" | "ntasks-per-node" | "cpus-per-task" | "gpus-per-node" => {
                number(setting, report);
            }
            "output" | "error" => output(setting, disk, folder, report),
            _ => {}
        }
    }
    if header.get("time").is_none() {
        let line = header.settings.first().map_or(1, |setting| setting.line);
        report.add(&rules::NO_TIME, line, "`--time` is not set");
    }
}

/// Checks a size of memory.
fn size(setting: &Setting, report: &mut FileFindings) {
    let Setting { line, name, value } = setting;
    match slurm_bytes(value) {
        None => {
            let what = format!("`--{name}={value}` is not a size");
            report.add(&rules::UNIT_REFUSED, *line, what);
        }
        Some(bytes)
            if bytes > 0 && bytes < 256 << 20 && value.chars().all(|c| c.is_ascii_digit()) =>
        {
            let what = format!("`--{name}={value}` is {value} MB");
            report.add(&rules::UNIT_SMALL, *line, what).fix(format!("write {value}G"));
        }
        Some(_) => {}
    }
}

/// Checks a time limit.
fn time(setting: &Setting, report: &mut FileFindings) {
    let Setting { line, value, .. } = setting;
    match slurm_seconds(value) {
        None => {
            let what = format!("`--time={value}` is not a time");
            report.add(&rules::UNIT_REFUSED, *line, what);
        }
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
        Some(_) => {}
    }
}

/// Checks a whole number, or a range of them.
fn number(setting: &Setting, report: &mut FileFindings) {
    let Setting { line, name, value } = setting;
    let number = value.rsplit(':').next().unwrap_or_default();
    // `1k` is 1024.
    let is_number = |part: &str| part.trim_end_matches(['k', 'K', 'm', 'M']).parse::<u64>().is_ok();
    if !number.split(['-', ',']).all(is_number) {
        let what = format!("`--{name}={value}` is not a number");
        report.add(&rules::BAD_OPTION_VALUE, *line, what);
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

/// Checks the options whose values have a form of their own.
pub(super) fn values(header: &Header, report: &mut FileFindings) {
    for Setting { line, name, value } in &header.settings {
        let fault = match name.as_str() {
            "array" if !is_array(value) => {
                "write numbers and ranges: `1-16`, `1,3,7`, `0-15%4` for four at a time"
            }
            "gres" if !is_gres(value) => "write `gpu:4`, or with a type `gpu:a100:4`",
            _ => continue,
        };
        let what = format!("`--{name}={value}` cannot be read");
        report.add(&rules::BAD_OPTION_VALUE, *line, what).fix(fault);
    }
}

/// Whether a value is of the form `0-15`, `1,3,7` or `0-99:10%4`.
fn is_array(value: &str) -> bool {
    let numbers = value.split('%').next().unwrap_or_default();
    let numbers = numbers.trim_start_matches('[').trim_end_matches(']');
    let number = |text: &str| text.parse::<u32>().ok();
    let is_range = |text: &str| {
        let (range, step) = text.split_once(':').unwrap_or((text, "1"));
        match range.split_once('-') {
            Some((first, last)) => {
                number(first).zip(number(last)).is_some_and(|(first, last)| first <= last)
                    && number(step).is_some()
            }
            None => number(range).is_some() && !text.contains(':'),
        }
    };
    numbers.split(',').all(is_range)
}

/// Whether a value is of the form `gpu`, `gpu:4`, `gpu:a100:4` or `gpu:1,nvme:2`.
fn is_gres(value: &str) -> bool {
    let is_name = |text: &str| {
        !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "_-./".contains(c))
    };
    value.eq_ignore_ascii_case("none")
        || value.split(',').all(|part| {
            part.split('(').next().unwrap_or_default().split(':').count() <= 3
                && part.split('(').next().unwrap_or_default().split(':').all(is_name)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_an_array_and_of_devices_are_read() {
        for right in ["0-15", "1,3,7", "0-99:10%4", "5", "1-4%2,6", "[1-4]"] {
            assert!(is_array(right), "{right}");
        }
        for wrong in ["", "1..4", "0:15", "a", "1-", "4-1", "1 - 4"] {
            assert!(!is_array(wrong), "{wrong}");
        }
        for right in ["gpu", "gpu:4", "gpu:a100:4", "gpu:1(S:0-1),nvme:2", "none"] {
            assert!(is_gres(right), "{right}");
        }
        for wrong in ["gpu=4", "gpu:", "gpu:a:b:1", "", "gpu: 4"] {
            assert!(!is_gres(wrong), "{wrong}");
        }
    }
}
