//! The `#SBATCH` lines of a script.

use super::options::{MORE, OPTIONS, PLUGINS, SHORT};
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
    pub(crate) settings: Vec<Setting>,
    /// The first line that is a command.
    pub(crate) first_command: usize,
}

impl Header {
    pub(crate) fn get(&self, name: &str) -> Option<&Setting> {
        self.settings
            .iter()
            .rev()
            .find(|setting| setting.name == name && setting.line < self.first_command)
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
        let (name, value) = if let Some(long) = word.strip_prefix("--") {
            let (name, value) =
                long.split_once('=').map_or((long, None), |(name, value)| (name, Some(value)));
            (name.to_owned(), value.map(str::to_owned))
        } else if let Some(letter) = word.strip_prefix('-').and_then(|rest| rest.chars().next()) {
            let value = word
                .get(1 + letter.len_utf8()..)
                .filter(|value| !value.is_empty())
                .map(str::to_owned);
            match SHORT.iter().find(|(short, _)| *short == letter) {
                Some((_, name)) => ((*name).to_owned(), value),
                None if matches!(letter, 'I' | 'Q' | 'v' | 'W' | 'h' | 'V' | 'S') => continue,
                None => (word.to_owned(), value),
            }
        } else if matches!(word, "hetjob" | "packjob") {
            continue;
        } else {
            let what = format!("`{word}` does not belong to an option");
            report.add(&rules::SBATCH_WORD, n, what);
            return;
        };
        let value = value
            .or_else(|| words.next_if(|next| !next.starts_with('-')).map(str::to_owned))
            .unwrap_or_default();
        // An unambiguous beginning is enough for sbatch.
        let known = || OPTIONS.iter().chain(&MORE);
        let mut beginnings = known().filter(|option| option.starts_with(&name));
        let is_plugins = PLUGINS.contains(&name.as_str());
        let name = match (beginnings.next(), beginnings.next()) {
            (Some(only), None) if !is_plugins => (*only).to_owned(),
            _ => name,
        };
        if !is_plugins && !known().any(|option| *option == name) {
            let near = known().min_by_key(|option| crate::spelling::distance(option, &name));
            let most = if name.len() < 6 { 1 } else { 2 };
            let near = near.filter(|option| crate::spelling::distance(option, &name) <= most);
            let longer: Vec<String> = known()
                .filter(|option| option.starts_with(&name) && name.len() > 2)
                .map(|option| format!("`--{option}`"))
                .collect();
            let near = near.filter(|_| longer.is_empty());
            let what = format!("sbatch has no option `{name}`");
            let finding = report.add(&rules::SBATCH_OPTION, n, what);
            match near {
                _ if !longer.is_empty() => {
                    finding.fix(format!("write one of {}", longer.join(", ")));
                }
                Some(near) => {
                    finding.fix(format!("write `--{near}`"));
                }
                None => {}
            }
        }
        header.settings.push(Setting { line: n, name, value });
    }
}
