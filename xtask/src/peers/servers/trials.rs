//! Repeats checks whose server does not behave the same way each time.
//!
//! A check that fails each time is our fault. A check that sometimes fails is reported with its
//! count, and is also our fault unless a server's log explains it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// One trial of the whole suite.
#[derive(Debug, Default)]
pub(super) struct Trial {
    /// The name of each check that passed.
    pub(super) passed: Vec<String>,
    /// The text `NAME: why` for each check that failed.
    pub(super) failed: Vec<String>,
    /// Whether every check ran, since the suite ended by itself.
    pub(super) is_whole: bool,
    /// What the servers' logs say, if that would explain a failure.
    pub(super) reason: Option<String>,
}

/// The result of all trials.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Outcome {
    /// Checks that failed each time, or without a reason.
    pub(super) failed: Vec<String>,
    /// Checks that passed too, each with how often it failed, and why.
    pub(super) unsteady: Vec<String>,
}

/// Judges the checks of `trials`, which were made on `server`.
pub(super) fn outcome(server: &str, trials: &[Trial]) -> Outcome {
    let mut of_check: BTreeMap<&str, Vec<&Trial>> = BTreeMap::new();
    for trial in trials {
        for check in &trial.failed {
            of_check.entry(check).or_default().push(trial);
        }
    }
    let mut outcome = Outcome::default();
    for (check, failures) in of_check {
        let name = name_of(check);
        let passes = trials.iter().filter(|trial| has_passed(trial, name)).count();
        let (n, of) = (failures.len(), failures.len() + passes);
        if passes == 0 {
            outcome.failed.push(check.to_owned());
            continue;
        }
        let count = format!("{name}: failed in {n} of {of} trials");
        match reasons(&failures) {
            Some(reasons) => outcome.unsteady.push(format!("{count}: {reasons}")),
            None => outcome.failed.push(format!("{count}, and no server's log says why")),
        }
    }
    let cut: Vec<&Trial> = trials.iter().filter(|trial| !trial.is_whole).collect();
    if !cut.is_empty() {
        let count = format!("{server}: cut short in {} of {} trials", cut.len(), trials.len());
        match reasons(&cut) {
            Some(reasons) if cut.len() < trials.len() => {
                outcome.unsteady.push(format!("{count}: {reasons}"));
            }
            Some(reasons) => outcome.failed.push(format!("{count}: {reasons}")),
            None => outcome.failed.push(format!("{count}, and no server's log says why")),
        }
    }
    outcome
}

/// Whether every check has passed once: no further trial would tell more.
pub(super) fn is_settled(trials: &[Trial]) -> bool {
    let mut failed = trials.iter().flat_map(|trial| &trial.failed);
    trials.iter().any(|trial| trial.is_whole)
        && failed.all(|check| trials.iter().any(|trial| has_passed(trial, name_of(check))))
}

fn has_passed(trial: &Trial, name: &str) -> bool {
    trial.passed.iter().any(|passed| passed == name)
}

/// The name of the check in a line `NAME: why`.
fn name_of(check: &str) -> &str {
    check.split_once(": ").map_or(check, |(name, _)| name)
}

/// Returns the reasons of all `trials`; `None` if one has none.
fn reasons(trials: &[&Trial]) -> Option<String> {
    let mut reasons =
        trials.iter().map(|trial| trial.reason.as_deref()).collect::<Option<Vec<&str>>>()?;
    reasons.sort_unstable();
    reasons.dedup();
    Some(reasons.join("; "))
}

/// Messages of XRootD 5.5.3 when it fails by itself and continues to run, whatever clients asked
/// for; word by word from its sources, with the file. None of them was in the log of a suite that
/// passed. (If glibc finds a damaged heap, the process ends, and that message is its last line.)
const COMPLAINTS: [&str; 10] = [
    // XrdNet.cc, seen with too few file descriptors; XrdInet.cc, once per minute of that.
    "Unable to perform accept",
    "Unable to accept connections!",
    // XrdInet.cc, XrdLinkCtl.cc, XrdScheduler.cc: no memory, no thread.
    "Unable to allocate new link",
    "Unable to create link",
    "Unable to create worker thread",
    "Thread limit has been reached!",
    // XrdLinkCtl.cc, XrdLinkXeq.cc, XrdLink.cc: it takes one connection for another, as it does
    // when several end in the same moment.
    "attempt to reuse active link",
    "Dispatch on closed link",
    "Negative use count for",
    // A socket or file of its own that it has closed before; of clients it says `connection
    // reset by peer` or `broken pipe`.
    "; bad file descriptor",
];

/// Returns the first complaint in a server's log.
pub(super) fn complaint(log: &Path) -> Option<String> {
    let text = String::from_utf8_lossy(&fs::read(log).ok()?).into_owned();
    let complains = |line: &&str| COMPLAINTS.iter().any(|word| line.contains(word));
    text.lines().find(complains).map(quoted)
}

/// The last line of a server's log, to say how it ended: nothing but its end tells of a
/// segmentation fault.
pub(super) fn last_words(log: &Path) -> Option<String> {
    let text = String::from_utf8_lossy(&fs::read(log).ok()?).into_owned();
    text.lines().rev().find(|line| !line.trim().is_empty()).map(quoted)
}

fn quoted(line: &str) -> String {
    format!("its log says `{}`", line.chars().take(200).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trial(passed: &[&str], failed: &[&str], reason: Option<&str>) -> Trial {
        let passed = passed.iter().map(|name| format!("s::{name}")).collect();
        let failed = failed.iter().map(|name| format!("s::{name}: what it said")).collect();
        Trial { passed, failed, is_whole: true, reason: reason.map(str::to_owned) }
    }

    fn cut(passed: &[&str], reason: Option<&str>) -> Trial {
        Trial { is_whole: false, ..trial(passed, &[], reason) }
    }

    fn check(trials: &[Trial], failed: &[&str], unsteady: &[&str]) {
        let found = outcome("s", trials);
        assert_eq!(found.failed, failed);
        assert_eq!(found.unsteady, unsteady);
    }

    #[test]
    fn what_fails_each_time_is_our_fault() {
        let trials =
            [trial(&[], &["a", "b"], Some("crashed")), trial(&["b"], &["a"], Some("crashed"))];
        check(&trials, &["s::a: what it said"], &["s::b: failed in 1 of 2 trials: crashed"]);
        assert!(!is_settled(&trials));
    }

    #[test]
    fn what_passed_later_is_counted_and_needs_a_reason() {
        let trials = [
            trial(&[], &["a", "b"], None),
            trial(&["a"], &["b"], Some("crashed")),
            trial(&["a", "b"], &[], None),
        ];
        check(
            &trials,
            &[
                "s::a: failed in 1 of 3 trials, and no server's log says why",
                "s::b: failed in 2 of 3 trials, and no server's log says why",
            ],
            &[],
        );
        assert!(is_settled(&trials));
    }

    #[test]
    fn a_check_that_passed_before_is_counted_too() {
        let trials = [trial(&["a"], &[], None), trial(&[], &["a"], Some("crashed"))];
        check(&trials, &[], &["s::a: failed in 1 of 2 trials: crashed"]);
        assert!(is_settled(&trials));
    }

    #[test]
    fn a_check_that_a_crash_left_out_has_not_passed() {
        let mut trials = vec![cut(&["a"], Some("crashed"))];
        check(&trials, &["s: cut short in 1 of 1 trials: crashed"], &[]);
        assert!(!is_settled(&trials));
        trials.push(trial(&["a"], &["b"], Some("complained")));
        trials.push(cut(&["a"], Some("crashed")));
        assert!(!is_settled(&trials));
        trials.push(trial(&["a", "b"], &[], None));
        let unsteady =
            ["s::b: failed in 1 of 2 trials: complained", "s: cut short in 2 of 4 trials: crashed"];
        check(&trials, &[], &unsteady);
        assert!(is_settled(&trials));
        trials.push(cut(&[], None));
        let failed = ["s: cut short in 3 of 5 trials, and no server's log says why"];
        check(&trials, &failed, &unsteady[..1]);
    }

    #[test]
    fn a_log_is_searched_for_what_explains_a_failure() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("xrootd.log");
        assert_eq!(complaint(&log), None);
        // The server printed these lines itself, with 48 file descriptors and 90 clients.
        let full = "261123 00:22:57 19118 XrdAccept: Unable to perform accept; too many open files";
        fs::write(
            &log,
            format!("261123 XrdProtocol: anon.0:21@[::127.0.0.1] terminated\n{full}\n"),
        )
        .unwrap();
        assert_eq!(complaint(&log), Some(format!("its log says `{full}`")));
        // Messages about what clients do, and about missing files, are usual.
        let usual = "261123 XrdLink: Unable to send to unknown.1:23@[::127.0.0.1]; connection reset by peer\n\
                     261123 ofs_open: unknown.1:23@[::127.0.0.1] Unable to open /test/x; not a directory\n";
        fs::write(&log, usual).unwrap();
        assert_eq!(complaint(&log), None);
        fs::write(&log, format!("{usual}free(): double free detected in tcache 2\n\n")).unwrap();
        let last = "its log says `free(): double free detected in tcache 2`";
        assert_eq!(last_words(&log).as_deref(), Some(last));
    }
}
