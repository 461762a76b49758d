//! `gular job lint`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::PathBuf;

use clap::Args;
use gular_jobs::lint::lint;
use gular_jobs::rules::{self, Rule};
use gular_jobs::{Disk as _, Edit, JobFinding, Severity, difference};
use serde_json::json;

use super::overlay::Overlay;
use crate::exit::{Exit, Failure};
use crate::shared::Output;
use crate::show;

/// Most rounds of repairs. One repair can uncover the next; no file needs more rounds.
const MAX_ROUNDS: usize = 20;

/// Find traps in submit files, DAGs, batch scripts and what they run
///
/// Reads HTCondor submit files, DAGMan files, sbatch scripts, and the wrapper scripts and Python
/// programs that they name. Each finding has its line, why it matters, and what to write instead;
/// `docs/jobs.md` lists all rules. Paths are looked up from the file's own folder. Nothing is
/// submitted.
///
/// Exit codes: 0 no errors (there may be warnings), 1 errors were found, or warnings with
/// `--strict`, 2 a file could not be read.
#[derive(Debug, Args)]
#[command(after_help = "\
Exit codes: 0 no errors, 1 errors found, 2 a file could not be read

Example:
  gular job lint train.sub --fix --dry-run")]
pub(super) struct LintArgs {
    /// Submit files, DAGs, sbatch scripts or wrappers
    #[arg(required_unless_present = "explain", value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Say what a rule finds, why it matters, and what it rests on
    #[arg(long, value_name = "RULE", conflicts_with_all = ["files", "fix"])]
    explain: Option<String>,
    /// Fix findings that have only one possible fix
    ///
    /// Changes each FILE, and the submit files and shell scripts that it names. Each changed file
    /// is replaced as a whole. What is left is reported.
    #[arg(long)]
    fix: bool,
    /// With --fix, show the changes and write nothing
    #[arg(long, requires = "fix")]
    dry_run: bool,
    /// Exit with 1 for warnings, too
    #[arg(long)]
    strict: bool,
    /// Leave out the findings of these rules, such as `stale-name`
    #[arg(long, value_name = "RULES", value_delimiter = ',')]
    allow: Vec<String>,
}

pub(super) fn run(args: &LintArgs, output: &Output) -> Result<Exit, Failure> {
    if let Some(name) = &args.explain {
        return explain(name, output);
    }
    let mut overlay = Overlay::default();
    let mut findings = all(args, &overlay)?;
    let mut n_fixed = 0;
    if args.fix {
        for _ in 0..MAX_ROUNDS {
            let fixed = repair(&mut overlay, &findings);
            if fixed == 0 {
                break;
            }
            n_fixed += fixed;
            findings = all(args, &overlay)?;
        }
        for (path, text) in &overlay.texts {
            if args.dry_run {
                let before = fs::read_to_string(path).unwrap_or_default();
                if !output.json {
                    show::text(&difference(path, &before, text))?;
                }
            } else {
                write(path, text)?;
            }
        }
    }
    let count = |severity| findings.iter().filter(|finding| finding.severity == severity).count();
    let (errors, warnings) = (count(Severity::Error), count(Severity::Warning));
    let notes = count(Severity::Note);
    if output.json {
        let changed: Vec<&String> = overlay.texts.keys().collect();
        show::json(&json!({
            "findings": findings, "errors": errors, "warnings": warnings,
            "notes": notes,
            "fixed": n_fixed, "changed": changed, "dry_run": args.dry_run,
        }))?;
    } else {
        show::text(&words(&findings, args, n_fixed, output.quiet))?;
    }
    let bad = errors > 0 || (args.strict && warnings > 0);
    Ok(if bad { Exit::Unsound } else { Exit::Done })
}

/// Prints what is known of the rules of one name.
fn explain(name: &str, output: &Output) -> Result<Exit, Failure> {
    let rules: Vec<&Rule> = rules::explain(name).collect();
    if rules.is_empty() {
        let hint = "`docs/jobs.md` lists all rules; findings have their rule in brackets";
        let message = format!("there is no rule `{name}`");
        return Err(Failure::new(message, Some(hint.to_owned())));
    }
    if output.json {
        show::json(&json!({ "rules": rules }))?;
        return Ok(Exit::Done);
    }
    let mut text = String::new();
    for Rule { severity, finds, why, fix, source, versions, .. } in rules {
        let severity = word(*severity);
        let _ = writeln!(text, "{severity}[{name}]: {finds}\n  why: {why}\n  fix: {fix}");
        if !versions.is_empty() {
            let _ = writeln!(text, "  versions: {versions}");
        }
        let _ = writeln!(text, "  source: {source}");
    }
    show::text(&text)?;
    Ok(Exit::Done)
}

fn word(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Note => "note",
    }
}

/// Findings of all files, each once: two submit files may name one wrapper.
fn all(args: &LintArgs, overlay: &Overlay) -> Result<Vec<JobFinding>, Failure> {
    let mut findings: Vec<JobFinding> = Vec::new();
    for file in &args.files {
        let name = file.to_string_lossy();
        let Some(found) = lint(&name, overlay) else {
            let why = if overlay.exists(&name) {
                "it is a folder, too large, or not a text file"
            } else {
                "it does not exist"
            };
            let message = format!("cannot read `{}`: {why}", file.display());
            return Err(Failure::new(
                message,
                Some("give submit files, DAGs or scripts".to_owned()),
            ));
        };
        for finding in found {
            if !args.allow.iter().any(|rule| rule == finding.rule) && !findings.contains(&finding) {
                findings.push(finding);
            }
        }
    }
    Ok(findings)
}

/// Makes the repairs in memory; how many files' findings were repaired.
fn repair(overlay: &mut Overlay, findings: &[JobFinding]) -> usize {
    let mut edits: BTreeMap<&str, Vec<&Edit>> = BTreeMap::new();
    for finding in findings {
        edits.entry(&finding.file).or_default().extend(&finding.edit);
    }
    let mut n = 0;
    for (path, edits) in edits {
        let Some(text) = overlay.text(path) else { continue };
        let lines: BTreeSet<usize> = edits.iter().map(|edit| edit.line).collect();
        let better = gular_jobs::repair(path, &text, &edits);
        if better != text {
            n += lines.len();
            overlay.texts.insert(path.to_owned(), better);
        }
    }
    n
}

/// Replaces the file as a whole, with its permissions; a link's target, not the link.
fn write(path: &str, text: &str) -> Result<(), Failure> {
    let failed = |e| Failure::from(gular_files::Error::new("write", path, e));
    let target = fs::canonicalize(path).map_err(failed)?;
    let permissions = fs::metadata(&target).map_err(failed)?.permissions();
    let mut temp = gular_files::temp_in(gular_files::folder_of(&target))?;
    temp.write_all(text.as_bytes()).map_err(failed)?;
    temp.as_file().set_permissions(permissions).map_err(failed)?;
    gular_files::persist(temp, &target)?;
    Ok(())
}

fn words(findings: &[JobFinding], args: &LintArgs, n_fixed: usize, quiet: bool) -> String {
    let mut text = String::new();
    for finding in findings {
        let JobFinding { rule, file, line, what, why, fix, .. } = finding;
        let severity = word(finding.severity);
        let by_flag = if finding.edit.is_some() { " (`--fix` does it)" } else { "" };
        let _ = write!(
            text,
            "{file}:{line}: {severity}[{rule}]: {what}\n  why: {why}\n  fix: {fix}{by_flag}\n"
        );
    }
    if quiet {
        return text;
    }
    let count =
        |severity| findings.iter().filter(|finding| finding.severity == severity).count() as u64;
    let notes = match count(Severity::Note) {
        0 => String::new(),
        n => format!(", {}", show::count(n, "note")),
    };
    let counts = match (count(Severity::Error), count(Severity::Warning)) {
        (0, 0) if notes.is_empty() => "no traps found".to_owned(),
        (errors, warnings) => {
            format!("{}, {}{notes}", show::count(errors, "error"), show::count(warnings, "warning"))
        }
    };
    let fixed = match (n_fixed as u64, args.dry_run) {
        (0, _) => String::new(),
        (n, false) => format!("; {} repaired", show::count(n, "line")),
        (n, true) => format!("; {} would be repaired", show::count(n, "line")),
    };
    let _ = writeln!(text, "{counts}{fixed}");
    text
}
