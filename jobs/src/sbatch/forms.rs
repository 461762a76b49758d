//! The forms that values of options have, as sbatch reads them.
//!
//! What sbatch itself says of hundreds of values is compared in `cargo xtask peers`.

use crate::units::{slurm_bytes, slurm_seconds};

/// The form of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// Not checked.
    Text,
    /// A whole number from 1 on.
    Count,
    /// A whole number from 1 on, a range of them, or `*`.
    Range,
    /// `4`, `2-4`, `1k`.
    Nodes,
    /// A size of memory or of a disk.
    Size,
    /// A time limit.
    Time,
    /// A time of the clock, or `now+1hour`.
    Moment,
    /// `B:USR1@60`.
    Signal,
    /// `1-16%4`.
    Array,
    /// `gpu:a100:4`.
    Gres,
    /// `4`, `a100:4`.
    Gpus,
    /// `afterok:1234`.
    Dependency,
    /// How ranks are laid on nodes: `cyclic:block`.
    Distribution,
    /// A file, whose folder must be there.
    Output,
    /// A list of these words.
    All(&'static [&'static str]),
    /// One of these words.
    One(&'static [&'static str]),
    /// A list in which one of these words is.
    Any(&'static [&'static str]),
    /// A word that begins so.
    Beginning(&'static [&'static str]),
}

impl Form {
    /// What to write in place of a value that sbatch refuses.
    pub(super) fn fault(self, value: &str) -> Option<String> {
        let words = |words: &[&str]| format!("write one of: {}", words.join(", "));
        let is_word =
            |words: &[&str], text: &str| words.iter().any(|word| word.eq_ignore_ascii_case(text));
        let (is_right, fix) = match self {
            Self::Text | Self::Output => return None,
            Self::Count => (is_count(value), "write a whole number from 1 on".to_owned()),
            Self::Range => (
                value == "*" || value.splitn(2, '-').all(is_count),
                "write a whole number from 1 on, or a range: `2-4`".to_owned(),
            ),
            Self::Nodes => (are_nodes(value), "write a number, or a range: `2-4`".to_owned()),
            Self::Size => (
                slurm_bytes(value.trim_start_matches('+')).is_some(),
                "write a whole number and K, M, G or T".to_owned(),
            ),
            Self::Time => (is_time(value), "write minutes, H:MM:SS or D-HH:MM:SS".to_owned()),
            Self::Moment => (
                is_moment(value),
                "write `20:00`, `2030-12-31T20:00`, `tomorrow` or `now+2hours`".to_owned(),
            ),
            Self::Signal => (
                is_signal(value),
                "write `USR1@60`, or `B:USR1@60` for the shell; at most 65535 seconds".to_owned(),
            ),
            Self::Array => (
                is_array(value),
                "write numbers and ranges: `1-16`, `1,3,7`, `0-15%4` for four at a time".to_owned(),
            ),
            Self::Gres => (is_gres(value), "write `gpu:4`, or with a type `gpu:a100:4`".to_owned()),
            Self::Gpus => (
                value.is_empty() || value.split(',').all(is_typed),
                "write a number, or with a type `a100:4`".to_owned(),
            ),
            Self::Dependency => (
                is_dependency(value),
                "write `afterok:1234`, with the number of a job, or `singleton`".to_owned(),
            ),
            Self::Distribution => (
                is_word(&LAYOUTS, value.split([':', ',', '=']).next().unwrap_or_default()),
                words(&LAYOUTS),
            ),
            Self::One(known) => (is_word(known, value), words(known)),
            Self::All(known) => (value.split(',').all(|text| is_word(known, text)), words(known)),
            Self::Any(known) => (value.split(',').any(|text| is_word(known, text)), words(known)),
            Self::Beginning(known) => {
                let starts = |start: &&str| {
                    value.get(..start.len()).is_some_and(|text| text.eq_ignore_ascii_case(start))
                };
                (known.iter().any(starts), "write `append` or `truncate`".to_owned())
            }
        };
        (!is_right).then_some(fix)
    }
}

/// sbatch also takes minutes below zero, and days alone: `5-`.
fn is_time(text: &str) -> bool {
    let odd = text.strip_prefix('-').or(text.strip_suffix('-'));
    !text.starts_with('+') && (slurm_seconds(text).is_some() || odd.is_some_and(is_number))
}

const LAYOUTS: [&str; 7] = ["*", "block", "cyclic", "arbitrary", "plane", "pack", "nopack"];

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_count(text: &str) -> bool {
    text.parse::<u64>().is_ok_and(|number| number > 0)
}

/// A number that may end in `k` for 1024 or `m` for 1024².
fn with_unit(text: &str, units: &[char]) -> Option<u64> {
    let lower = text.to_ascii_lowercase();
    let number = lower.strip_suffix(units).unwrap_or(&lower);
    let times = match lower.chars().last() {
        Some('k') => 1 << 10,
        Some('m') => 1 << 20,
        Some('g') => 1 << 30,
        Some('t') => 1 << 40,
        _ => 1,
    };
    number.parse::<u64>().ok()?.checked_mul(times)
}

fn are_nodes(text: &str) -> bool {
    // Lists and steps are of newer versions: `1,2,4`, `1-15:4`.
    let text = text.strip_prefix('-').unwrap_or(text);
    text.split(',').all(|part| {
        let (range, step) = part.split_once(':').unwrap_or((part, "1"));
        let number = |text: &str| with_unit(text, &['k', 'm']);
        match range.split_once('-') {
            Some((least, most)) => {
                is_number(step) && number(least).zip(number(most)).is_some_and(|(a, b)| a <= b)
            }
            None => number(range).is_some() && !part.contains(':'),
        }
    })
}

/// As `parse_time` in src/common/parse_time.c: words in lower case, else numbers.
fn is_moment(text: &str) -> bool {
    let text = text.replace(' ', "");
    let text = text.as_str();
    const WORDS: [&str; 6] = ["midnight", "noon", "fika", "teatime", "today", "tomorrow"];
    const UNITS: [&str; 5] = ["second", "minute", "hour", "day", "week"];
    if let Some(later) = text.strip_prefix("now") {
        let Some(later) = later.strip_prefix(['+', '-']) else { return later.is_empty() };
        let unit = later.trim_start_matches(|c: char| c.is_ascii_digit()).to_ascii_lowercase();
        return unit.len() < later.len()
            && (unit.is_empty() || UNITS.contains(&unit.strip_suffix('s').unwrap_or(&unit)));
    }
    if text.starts_with(|c: char| c.is_ascii_alphabetic()) && !text.starts_with('T') {
        return WORDS.contains(&text);
    }
    let (date, clock) = match text.split_once('T') {
        Some((date, clock)) => (date, Some(clock)),
        None if text.contains(':') => ("", Some(text)),
        None => (text, None),
    };
    clock.is_none_or(is_clock) && (is_date(date) || (date.is_empty() && clock.is_some()))
}

/// `20:00`, `8:00:30PM`.
fn is_clock(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    let lower = lower.strip_suffix("am").or(lower.strip_suffix("pm")).unwrap_or(&lower);
    let parts: Vec<Option<u8>> = lower.split(':').map(|part| part.parse().ok()).collect();
    match parts.as_slice() {
        [Some(h), Some(m)] => *h < 24 && *m < 60,
        [Some(h), Some(m), Some(s)] => *h < 24 && *m < 60 && *s < 60,
        _ => false,
    }
}

/// `2030-12-31`, `12/31`, `12/31/30`, `12.31.30`, `123130`, `1231`.
fn is_date(text: &str) -> bool {
    let days = |month: &str, day: &str| {
        let within = |text: &str, most: u8| {
            text.len() <= 2 && text.parse::<u8>().is_ok_and(|n| (1..=most).contains(&n))
        };
        within(month, 12) && within(day, 31)
    };
    let year = |text: &str, len: usize| text.len() == len && is_number(text);
    if let [y, m, d] = *text.split('-').collect::<Vec<_>>() {
        return year(y, 4) && m.len() == 2 && d.len() == 2 && days(m, d);
    }
    match *text.split(['/', '.']).collect::<Vec<_>>() {
        [m, d] => days(m, d),
        [m, d, y] => days(m, d) && year(y, 2),
        [digits] if matches!(digits.len(), 4 | 6) && is_number(digits) => {
            days(&digits[..2], &digits[2..4])
        }
        _ => false,
    }
}

/// The signals that sbatch knows by name (`sig_name2num` in src/common/proc_args.c).
const SIGNALS: [&str; 16] = [
    "HUP", "INT", "QUIT", "ABRT", "KILL", "ALRM", "TERM", "USR1", "USR2", "URG", "CONT", "STOP",
    "TSTP", "TTIN", "TTOU", "XCPU",
];

fn is_signal(text: &str) -> bool {
    let upper = text.to_ascii_uppercase();
    let (to, signal) = upper.split_once(':').unwrap_or(("", &upper));
    let (name, seconds) = signal.split_once('@').unwrap_or((signal, ""));
    let name = name.strip_prefix("SIG").unwrap_or(name);
    let number = name.strip_prefix('-').unwrap_or(name);
    to.chars().all(|c| matches!(c, 'B' | 'R'))
        && (SIGNALS.contains(&name) || number.parse::<u32>().is_ok_and(|number| number > 0))
        && (seconds.is_empty() || seconds.parse::<u16>().is_ok())
}

/// `0-15`, `1,3,7` or `0-99:10%4`.
fn is_array(text: &str) -> bool {
    let numbers = text.split('%').next().unwrap_or_default();
    let numbers = numbers.trim_start_matches('[').trim_end_matches(']');
    let number = |text: &str| text.parse::<u32>().ok();
    let is_range = |text: &str| {
        let (range, step) = text.split_once(':').unwrap_or((text, "1"));
        match range.split_once('-') {
            Some((first, last)) => {
                number(first).zip(number(last)).is_some_and(|(first, last)| first <= last)
                    && is_count(step)
            }
            None => number(range).is_some() && !text.contains(':'),
        }
    };
    numbers.split(',').all(|text| text.is_empty() || is_range(text))
}

/// `gpu`, `gpu:4`, `gpu:a100:4` or `gpu:1,nvme:2`.
fn is_gres(text: &str) -> bool {
    text.eq_ignore_ascii_case("none")
        || text.split([',', ';']).all(|part| {
            let (name, rest) = part.split_once(':').unwrap_or((part, "1"));
            is_name(name) && is_typed(rest)
        })
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "_-./+".contains(c))
}

/// A number, a type, or both: `4`, `a100`, `a100:4`. The last of two parts is a number, and what
/// begins with a digit and has nothing before it is one, too.
fn is_typed(text: &str) -> bool {
    let number = |text: &str| with_unit(text, &['k', 'm', 'g', 't']).is_some();
    match *text.split([':', '=']).collect::<Vec<_>>() {
        [one] if one.starts_with(|c: char| c.is_ascii_digit()) => number(one),
        [one] => is_name(one),
        [kind, n] => is_name(kind) && number(n),
        _ => false,
    }
}

/// `afterok:1:2,afterany:3`, `after:1+5`, `singleton`.
fn is_dependency(text: &str) -> bool {
    const KINDS: [&str; 7] =
        ["after", "afterany", "afterburstbuffer", "aftercorr", "afternotok", "afterok", "expand"];
    let is_job = |text: &str| {
        let (job, minutes) = text.split_once('+').unwrap_or((text, "0"));
        let (job, task) = job.split_once('_').unwrap_or((job, ""));
        is_number(job) && is_number(minutes) && task.chars().all(|c| "0123456789[]-*".contains(c))
    };
    text.is_empty()
        || text.split([',', '?']).all(|part| match part.split_once(':') {
            Some((kind, jobs)) => {
                KINDS.contains(&kind.to_ascii_lowercase().as_str()) && jobs.split(':').all(is_job)
            }
            None => part.eq_ignore_ascii_case("singleton") || is_job(part),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What sbatch 22.05 takes and refuses.
    #[test]
    fn values_are_judged_as_sbatch_judges_them() {
        for (form, right, wrong) in [
            (Form::Count, "4 04 1", "0 -1 2-4 1.5 four 1k 2,4"),
            (Form::Nodes, "4 2-4 4k 0 1k-2k", "2-1 max 1.5 1- 1-2-3 k = =2"),
            (Form::Size, "4 4G 4g 4gb 4000M 1T 0 00 +4G", "-1 1.5G 4KiB 4B 4P 1e3 G4 4G, max"),
            (
                Form::Time,
                "10 0 10:00 1:0:0 1-0 1-2:3 -1 unlimited 99:99:99",
                "10m 1h 1:2:3:4 :30:00 1:: - INF abc 1-1-1 +5 1,5",
            ),
            (
                Form::Moment,
                "now now+60 now+1week now+10minutes fika tomorrow 20:00 8:00PM T10:00 2030-01-01 \
                 2030-01-01T10:00 010130 1/1 01.01.30 0101",
                "xx monday TOMORROW now+ now+1h now+1month 25:00 2030-1-1 2030-13-01 2030-01-32 12 \
                 10am tomorrow+1hour 30/12/2030 2030-01-01T10 01-01-2030 nowx +1hour elevenses",
            ),
            (
                Form::Signal,
                "USR1 10 SIGUSR1@60 usr1@60 B:10@60 RB:USR1@10 BR:USR1 B:USR1@ URG XCPU@65535",
                "FOO@1 B:USR1@x USR1@65536 USR1@-5 B: B SEGV 0 X:USR1 USR1@60@60 USR",
            ),
            (
                Form::Array,
                "0-15 1,3,7 0-99:10%4 5 1-4%2,6 [1-4] 1-4, 01-04",
                "1..4 0:15 a 1- 4-1 -1 1-3:0",
            ),
            (
                Form::Gres,
                "gpu gpu:4 gpu:a100:4 gpu:1,nvme:2 none gpu:two gpu:1k gpu:a100",
                "gpu=4 gpu: gpu:a:b:1 gpu:2.5 gpu:2x gpu:a100:two gpu:1, :1 gpu::1",
            ),
            (Form::Gpus, "4 0 a100:4 1k a100 1,2", "1.5 2x a100: a100:x a100:1:2 :1 gpu:a100:1"),
            (
                Form::Dependency,
                "singleton afterok:1 afterok:1:2 afterok:1,afterany:2 after:1+5 1 AFTEROK:1 \
                 afterok:1_2",
                "foo afterok:x afterok afterok: afterok=1 none",
            ),
        ] {
            for value in right.split_whitespace() {
                assert_eq!(form.fault(value), None, "{form:?}: {value}");
            }
            for value in wrong.split_whitespace() {
                assert!(form.fault(value).is_some(), "{form:?}: {value}");
            }
        }
        let layout = Form::Distribution;
        assert!(layout.fault("cyclic:block,NoPack").is_none() && layout.fault("em=4G").is_some());
        let mail = Form::Any(&["begin", "end"]);
        assert!(mail.fault("END,BAD").is_none() && mail.fault("BAD").is_some());
        let mode = Form::Beginning(&["a", "t"]);
        assert!(mode.fault("Append").is_none() && mode.fault("overwrite").is_some());
    }
}
