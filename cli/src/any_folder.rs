//! What the verbs that transfer any folder share: one error per object that failed, and the exit
//! code that these errors give together.

use gular_transfer::{BundleUrl, Failed, FolderFetch, FolderReport};
use serde::Serialize;

use crate::exit::{Exit, Failure};
use crate::shared::Output;
use crate::{hints, show};

/// Refuses a URL with a digest, since a folder has none.
pub(crate) fn no_digest(url: &BundleUrl) -> Result<(), Failure> {
    match url.digest {
        None => Ok(()),
        Some(_) => {
            let message = format!(
                "`--recursive` fetches a plain folder, and a folder has no digest, so `{url}` must not end in one"
            );
            let hint =
                "to fetch the folder, leave out `#…`; to fetch a bundle, leave out `--recursive`";
            Err(Failure::new(message, Some(hint.to_owned())))
        }
    }
}

/// What is said on stdout, as JSON.
#[derive(Serialize)]
struct Said<'a, R> {
    #[serde(flatten)]
    report: &'a R,
    /// The objects that failed.
    failed: Vec<FailedObject<'a>>,
    /// Number of objects that were not begun, since the servers or the disk failed for all objects
    /// before them.
    not_tried: usize,
}

#[derive(Serialize)]
struct FailedObject<'a> {
    /// Path of the object below the folder.
    name: &'a str,
    /// Why the object failed.
    error: String,
}

/// Shows what was done and what failed; the exit code of all of it. `verb` is what is done to each
/// file: `publish` or `fetch`.
pub(crate) fn report<R: Serialize>(
    done: &FolderReport<R>,
    verb: &str,
    text: &str,
    output: &Output,
) -> Result<Exit, Failure> {
    let FolderReport { report, failed, not_tried, .. } = done;
    failures(failed, *not_tried);
    if output.json {
        let failed = failed.iter().map(|failed| {
            let error = failed.error.to_string();
            FailedObject { name: &failed.name, error }
        });
        show::json(&Said { report, failed: failed.collect(), not_tried: *not_tried })?;
    } else if !output.quiet {
        show::text(text)?;
        if !failed.is_empty() {
            let n = show::count(failed.len() as u64, "error");
            let rest = match not_tried {
                0 => String::new(),
                n => format!(", {} not tried", show::count(*n as u64, "object")),
            };
            // An error that will happen again is not worth the same command.
            let again = match failed.iter().any(|failed| failed.error.is_passing()) {
                true => format!("; run the same command again to {verb} what is missing"),
                false => String::new(),
            };
            show::text(&format!("{n}{rest}{again}\n"))?;
        }
    }
    Ok(exit(failed))
}

/// Prints one error per object, or for all objects with the same cause, and the next step of the
/// first that has one.
pub(crate) fn failures(failed: &[Failed], not_tried: usize) {
    let mut causes: Vec<(Option<String>, &Failed, u64)> = Vec::new();
    for failed in failed {
        let cause = failed.cause();
        match causes.iter_mut().find(|(seen, ..)| seen.is_some() && *seen == cause) {
            Some((_, _, others)) => *others += 1,
            None => causes.push((cause, failed, 0)),
        }
    }
    for (_, first, others) in causes {
        let others = match others {
            0 => String::new(),
            n => format!(" and {}", show::count(n, "more object")),
        };
        let name = show::plain(&first.name);
        show::message("error", &format!("{name}{others}: {}", first.error));
    }
    if not_tried > 0 {
        let n = show::count(not_tried as u64, "object");
        show::message(
            "note",
            &format!("{n} not tried, since they would probably fail in the same way"),
        );
    }
    if let Some(hint) = failed.iter().find_map(|failed| hint(&failed.error)) {
        show::message("hint", &hint);
    }
}

fn hint(error: &gular_transfer::Error) -> Option<String> {
    use gular_pelican::Error::Taken;
    match error {
        gular_transfer::Error::Pelican(Taken { .. }) => {
            let hint = "publish below another URL: a name is written only once, since caches do not notice changes. If this object was left behind by an interrupted upload, ask the origin's operators to remove it";
            Some(hint.to_owned())
        }
        other => hints::transfer(other),
    }
}

/// Bad bytes are the worst of it; that all may go well later is said of all alone.
pub(crate) fn exit(failed: &[Failed]) -> Exit {
    let exits: Vec<Exit> = failed.iter().map(|failed| Exit::of(&failed.error)).collect();
    let any = |wanted: Exit| exits.contains(&wanted).then_some(wanted);
    let worst = any(Exit::Unsound).or(any(Exit::Failed)).or(any(Exit::Later));
    worst.unwrap_or(Exit::Done)
}

/// Summarises what was fetched.
pub(crate) fn text(done: &FolderReport<FolderFetch>) -> String {
    let report = &done.report;
    let moved = show::size(report.bytes_fetched);
    let files = show::count(report.files as u64, "file");
    let mut text = match (report.dry_run, report.fetched) {
        (true, n) => format!(
            "dry run: {moved} in {} would be fetched, {} already here (by their length); nothing \
             was written\n",
            show::count(n as u64, "file"),
            report.kept
        ),
        (false, 0) if !done.failed.is_empty() => {
            let kept = show::count(report.kept as u64, "file");
            format!("fetched nothing; already there: {kept}\n")
        }
        (false, 0) => format!(
            "nothing to fetch: {files}, {} already in `{}`, {:.2} s\n",
            show::size(report.bytes),
            report.dir.display(),
            report.seconds
        ),
        (false, n) => {
            let kept = match report.kept {
                0 => String::new(),
                kept => format!(", {kept} were already there"),
            };
            let pace = show::pace(report.bytes_fetched, report.seconds);
            let fetched = show::count(n as u64, "file");
            format!("fetched {fetched}, {moved}, to `{}`{kept}{pace}\n", report.dir.display())
        }
    };
    if report.by_length > 0 && !report.dry_run {
        let n = show::count(report.by_length as u64, "file");
        text.push_str(&format!("{n} checked only by length: no server reports a checksum\n"));
    }
    for line in hints::wrong_copies(&report.wrong_copies) {
        text.push_str(&format!("{line}\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exit_code_says_the_worst_that_happened() {
        use gular_pelican::{Attempts, Error as Pelican};
        let url = || "pelican://h/x".to_owned();
        let corrupt = || Pelican::Corrupt { url: url(), attempts: Attempts::default() };
        let (host, reason) = (|| "h".to_owned(), || "down".to_owned());
        let cause = gular_pelican::Cause::Other;
        let later = || Pelican::Discovery { host: host(), reason: reason(), passes: true, cause };
        let taken = || Pelican::Taken { url: url(), found: "1 byte".into() };
        let check = |errors: Vec<Pelican>, expected: Exit| {
            let failed = |error: Pelican| Failed { name: "x".into(), error: error.into() };
            let failed: Vec<Failed> = errors.into_iter().map(failed).collect();
            assert_eq!(exit(&failed), expected, "{failed:?}");
        };
        check(vec![], Exit::Done);
        check(vec![later(), later()], Exit::Later);
        check(vec![later(), taken()], Exit::Failed);
        check(vec![taken(), corrupt(), later()], Exit::Unsound);
    }
}
