//! The `#SBATCH` lines of a script.

use super::options::{OPTIONS, PLUGINS, SbatchOption, Takes, by_name};
use crate::finding::FileFindings;
use crate::rules;
use crate::script::shell::Script;

/// One option of a `#SBATCH` line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Setting {
    pub(crate) line: usize,
    /// The option's long name.
    pub(crate) name: String,
    pub(crate) value: String,
}

#[derive(Debug, Default)]
pub(crate) struct Header {
    /// Those above the first command, which are all that sbatch reads.
    pub(crate) settings: Vec<Setting>,
    /// The first line that is a command.
    pub(crate) first_command: usize,
    /// Whether the job has several parts, each with options of its own (`hetjob`).
    pub(crate) has_parts: bool,
}

impl Header {
    pub(crate) fn get(&self, name: &str) -> Option<&Setting> {
        self.settings.iter().rev().find(|setting| setting.name == name)
    }

    pub(crate) fn number(&self, name: &str) -> Option<u64> {
        self.get(name)?.value.split('-').next()?.parse().ok()
    }
}

/// Whether a text is a script for sbatch.
pub(crate) fn is_sbatch(text: &str) -> bool {
    text.starts_with("#!")
        && text.lines().any(|line| line.starts_with("#SBATCH") || line.starts_with("# SBATCH"))
}

pub(crate) fn header(lines: &[&str], script: &Script, report: &mut FileFindings) -> Header {
    // sbatch stops at the first line that is neither empty nor a comment.
    let is_command = |line: &&str| !line.trim().is_empty() && !line.starts_with('#');
    let first_command = lines.iter().position(is_command).map_or(usize::MAX, |i| i + 1);
    let mut header = Header { first_command, ..Header::default() };
    for (i, line) in lines.iter().enumerate() {
        let n = i + 1;
        // A line of a here-document is not a comment of this script.
        if n > first_command && script.tokens.is_some() && !script.comments.contains(&n) {
            continue;
        }
        let near = line.trim_start().trim_start_matches('#').trim_start();
        let written = line.strip_prefix("#SBATCH").filter(|rest| rest.starts_with([' ', '\t']));
        let Some(rest) = written else {
            let meant = line.trim_start().starts_with('#')
                && is_meant(near, line.starts_with("#s"))
                && !line.trim_start().starts_with("##");
            let glued = line.starts_with("#SBATCH-");
            if meant || glued {
                let what = "this line is a comment, not an option";
                report.add(&rules::SBATCH_COMMENT, n, what);
            }
            continue;
        };
        if n > first_command {
            let what =
                format!("`{}` comes after the first command, in line {first_command}", line.trim());
            report.add(&rules::SBATCH_LATE, n, what);
            continue;
        }
        options(n, rest, &mut header, report);
    }
    header
}

/// The words of a line, as sbatch parts them: quotes and backslashes join, and the rest from a `#`
/// outside of quotes is a comment, also within a word (`_get_argument` in src/sbatch/opt.c).
fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let (mut word, mut quote) = (String::new(), None);
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        match (c, quote) {
            ('\\', _) => word.extend(rest.next()),
            (c, Some(open)) if c == open => quote = None,
            ('"' | '\'', None) => quote = Some(c),
            ('#', None) => break,
            (c, None) if c.is_whitespace() => words.extend(Some(std::mem::take(&mut word))),
            _ => word.push(c),
        }
    }
    words.push(word);
    words.retain(|word| !word.is_empty());
    words
}

/// Whether a comment was meant as options. `# sbatch --array=1-5 run.sh` is a command to type.
fn is_meant(comment: &str, is_glued: bool) -> bool {
    let Some(rest) = comment.get(..6).and_then(|_| comment.get(6..)) else { return false };
    let is_word = comment.starts_with("SBATCH")
        || (is_glued && comment.get(..6).is_some_and(|w| w.eq_ignore_ascii_case("sbatch")));
    // `# SBATCH --time, OUTPUT and so on` is a sentence.
    let first = rest.split_whitespace().next().unwrap_or_default();
    is_word && rest.starts_with(' ') && first.starts_with('-') && !first.ends_with([',', '.', ':'])
}

/// Reads the options of one line.
fn options(n: usize, text: &str, header: &mut Header, report: &mut FileFindings) {
    // A place of a template: what it will be is not known.
    if text.contains("{{") {
        return;
    }
    let words = words(text);
    let mut words = words.iter().map(String::as_str).peekable();
    while let Some(word) = words.next() {
        if let Some(long) = word.strip_prefix("--") {
            let (name, value) =
                long.split_once('=').map_or((long, None), |(name, value)| (name, Some(value)));
            // An unambiguous beginning is enough for sbatch.
            let mut beginnings = OPTIONS.iter().filter(|option| option.name.starts_with(name));
            let only = beginnings.next().filter(|_| beginnings.next().is_none());
            let is_plugins = PLUGINS.contains(&name);
            let Some(option) = by_name(name).or(only).filter(|_| !is_plugins) else {
                let value = value.or_else(|| words.next_if(|next| !next.starts_with('-')));
                let value = value.unwrap_or_default().to_owned();
                header.settings.push(Setting { line: n, name: name.to_owned(), value });
                if !is_plugins {
                    unknown(n, name, report);
                }
                continue;
            };
            let value = match option.takes {
                Takes::Nothing if value.is_some() => {
                    let what = format!("`--{}` takes no value", option.name);
                    report.add(&rules::BAD_OPTION_VALUE, n, what).fix("remove the value");
                    None
                }
                Takes::Nothing | Takes::Maybe => value,
                Takes::Value => value.or_else(|| words.next_if(|next| !next.starts_with("--"))),
            };
            push(n, option, value, header, report);
        } else if let Some(mut letters) = word.strip_prefix('-').filter(|rest| !rest.is_empty()) {
            while let Some(letter) = letters.chars().next() {
                let rest = letters.get(letter.len_utf8()..).unwrap_or_default();
                let option = OPTIONS.iter().find(|option| option.letter == Some(letter));
                let Some(option) = option else {
                    unknown(n, &format!("-{letter}"), report);
                    break;
                };
                let given = Some(rest).filter(|rest| !rest.is_empty());
                let value = match option.takes {
                    Takes::Nothing => None,
                    Takes::Maybe => given,
                    Takes::Value => given.or_else(|| words.next_if(|next| !next.starts_with("--"))),
                };
                push(n, option, value, header, report);
                letters = if option.takes == Takes::Nothing { rest } else { "" };
            }
        } else if matches!(word, "hetjob" | "packjob") {
            header.has_parts = true;
        } else {
            let what = format!("`{word}` does not belong to an option");
            report.add(&rules::SBATCH_WORD, n, what);
            return;
        }
    }
}

fn push(
    line: usize,
    option: &SbatchOption,
    value: Option<&str>,
    header: &mut Header,
    report: &mut FileFindings,
) {
    if value.is_none() && option.takes == Takes::Value {
        let what = format!("`--{}` has no value", option.name);
        report.add(&rules::BAD_OPTION_VALUE, line, what).fix("write `--option=value`");
    } else {
        let value = value.unwrap_or_default().to_owned();
        header.settings.push(Setting { line, name: option.name.to_owned(), value });
    }
}

/// Reports an option that sbatch does not have, with those that were probably meant.
fn unknown(line: usize, name: &str, report: &mut FileFindings) {
    let what = format!("sbatch has no option `{name}`");
    let names = || OPTIONS.iter().map(|option| option.name);
    let longer: Vec<String> = names()
        .filter(|option| option.starts_with(name) && name.len() > 2)
        .map(|option| format!("`--{option}`"))
        .collect();
    let distance = |option: &&str| crate::spelling::distance(option, name);
    let most = if name.len() < 6 { 1 } else { 2 };
    let near = names().min_by_key(distance).filter(|option| distance(option) <= most);
    // A plug-in may have any short name.
    let rule = match longer.is_empty() && (near.is_none() || name.len() <= 4) {
        true => &rules::SBATCH_OPTION,
        false => &rules::SBATCH_MISSPELT,
    };
    let finding = report.add(rule, line, what);
    if !longer.is_empty() {
        finding.fix(format!("write one of {}", longer.join(", ")));
    } else if let Some(near) = near {
        finding.fix(format!("write `--{near}`"));
    }
}
