//! Reads what HTCondor says of jobs: `condor_q -better-analyze`, `condor_q -long` and `-json`,
//! `condor_history -long`, and the job's event log.

use std::collections::BTreeMap;
use std::iter;

use serde_json::{Deserializer, Value};

use super::causes::{CAUSES, Match, Sign};
use super::{JobReason, JobState};

/// `12.000.000` and `12.000` are job 12.0.
fn id(text: &str) -> Option<String> {
    let mut parts = text.split('.').map(|part| part.parse::<u64>().ok());
    Some(format!("{}.{}", parts.next()??, parts.next()??))
}

/// The job and the words of a line such as `12.000:  Job is held.`
fn verdict(line: &str) -> Option<(String, &str)> {
    let (job, said) = line.split_once(":  ")?;
    Some((id(job)?, said))
}

/// The output of `condor_q -better-analyze`, for each job.
pub(super) fn analysis(text: &str) -> Vec<JobReason> {
    let mut found: Vec<JobReason> = Vec::new();
    let mut conditions: Vec<(u64, &str)> = Vec::new();
    let mut values: Vec<(&str, &str)> = Vec::new();
    let mut lines = text.lines().map(str::trim).peekable();
    while let Some(line) = lines.next() {
        if line.starts_with("The Requirements expression for job") && line.ends_with(" is") {
            (conditions, values) = (Vec::new(), Vec::new());
        }
        if let Some((name, value)) = line.split_once(" = ")
            && name.starts_with("Request")
        {
            values.push((name, value));
        }
        // `[5]   0  TARGET.Memory >= RequestMemory`
        if let Some((_, rest)) = line.strip_prefix('[').and_then(|rest| rest.split_once(']'))
            && let Some((n, condition)) = rest.trim().split_once(char::is_whitespace)
            && let Ok(n) = n.parse()
        {
            conditions.push((n, condition.trim()));
        }
        let Some((job, said)) = verdict(line) else { continue };
        if said.starts_with("Job is held") {
            let is_of_job = |line: &&str| {
                verdict(line).is_none() && !line.starts_with("The Requirements expression for job")
            };
            let mut rest = iter::from_fn(|| lines.next_if(is_of_job));
            let reason = rest.find_map(|line| line.strip_prefix("Hold reason: "));
            found.push(held(&job, None, None, reason.unwrap_or_default()));
        } else if said.starts_with("Job is running") {
            found.push(JobReason::new(&job, JobState::Running));
        } else if said.starts_with("Job is completed") {
            found.push(JobReason::new(&job, JobState::Done));
        } else if said.starts_with("Run analysis summary")
            && !found.iter().any(|known| known.job == job)
        {
            let mut counts = Vec::new();
            while let Some(line) = lines.next_if(|line| !line.is_empty()) {
                if let Some((n, what)) = line.split_once(' ')
                    && let Ok(n) = n.parse::<u64>()
                {
                    counts.push((n, what));
                }
            }
            found.push(summary(&job, &counts, &conditions, &values));
        }
    }
    found
}

/// Why a job waits, from how many machines look at it in which way.
fn summary(
    job: &str,
    counts: &[(u64, &str)],
    conditions: &[(u64, &str)],
    values: &[(&str, &str)],
) -> JobReason {
    let idle = JobReason::new(job, JobState::Idle);
    let count = |words: &[&str]| -> u64 {
        let fits = counts.iter().filter(|(_, what)| words.iter().any(|word| what.contains(word)));
        fits.map(|(n, _)| n).sum()
    };
    let willing = count(&["able to run your job", "willing to run your job"]);
    let busy = count(&["already running your jobs", "serving other users", "if drained"]);
    let own = count(&["their own requirements"]);
    let said = |n: u64, what: &str| format!("{n} machines or slots {what}");
    if willing > 0 {
        let said = said(willing, "are able to run the job");
        return JobReason { said, ..idle.because(&[Sign::Match(Match::Willing)]) };
    }
    if busy > 0 {
        let said = said(busy, "match, but are in use");
        return JobReason { said, ..idle.because(&[Sign::Match(Match::Busy)]) };
    }
    if own > 0 {
        let said = said(own, "reject the job because of their own requirements");
        return JobReason { said, ..idle.because(&[Sign::Match(Match::Own)]) };
    }
    let is_simple = |condition: &str| !condition.starts_with('[');
    let none = conditions.iter().find(|(n, condition)| *n == 0 && is_simple(condition));
    let Some((_, condition)) = none else {
        let together = conditions.iter().any(|(n, condition)| *n == 0 && !is_simple(condition));
        // The two that fewest machines meet.
        let mut scarce: Vec<_> = conditions.iter().filter(|(_, c)| is_simple(c)).collect();
        scarce.sort();
        let scarce = scarce.into_iter().take(2).map(|(n, c)| format!("{c} ({n} match)"));
        let said = scarce.collect::<Vec<_>>().join(", ");
        let sign = if together { Match::Together } else { Match::Refuse };
        return JobReason { said, ..idle.because(&[Sign::Match(sign)]) };
    };
    let needs = CAUSES.iter().map(|cause| cause.sign).find(|sign| match sign {
        Sign::Needs(name) => names(condition, name),
        _ => false,
    });
    let values = values.iter().filter(|(name, _)| condition.contains(name));
    let values: String = values.map(|(name, value)| format!(", {name} = {value}")).collect();
    let signs = [needs.unwrap_or(Sign::Match(Match::Refuse))];
    JobReason { said: format!("{condition}{values}"), ..idle.because(&signs) }
}

/// Whether a condition asks for the attribute `name`: `TARGET.Memory`, `OSGVO_OS_STRING`,
/// `HasSingularity`, `RequestGPUs`.
fn names(condition: &str, name: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let mut words = condition.split(|c: char| !is_part(c));
    let is_gpu = |word: &str| word.contains("GPU") || word.contains("CUDA");
    words.any(|word| match name {
        "GPUs" => is_gpu(word),
        "OpSys" => word.starts_with("OpSys") || word.contains("OS_STRING"),
        "Singularity" | "Container" | "Docker" => {
            word.to_lowercase().contains(&name.to_lowercase())
        }
        _ => word == name || word == format!("Request{name}"),
    })
}

/// A job's attributes, their names in lower case.
type Ad = Vec<(String, String)>;

/// Attributes as `condor_q -long` or `-json` prints them, for each job.
pub(super) fn ads(text: &str) -> Vec<JobReason> {
    let ads = json_ads(text).unwrap_or_else(|| ads_by_line(text));
    ads.iter().filter_map(|ad| of_ad(ad)).collect()
}

/// The ads of JSON texts: arrays of objects, or one object after the other. `None` for other texts,
/// and for JSON that is not whole.
fn json_ads(text: &str) -> Option<Vec<Ad>> {
    if !text.trim_start().starts_with(['[', '{']) {
        return None;
    }
    let mut ads = Vec::new();
    for value in Deserializer::from_str(text).into_iter::<Value>() {
        let objects = match value.ok()? {
            Value::Array(objects) => objects,
            object => vec![object],
        };
        for object in objects {
            let Value::Object(members) = object else { continue };
            let members = members.into_iter().map(|(name, value)| match value {
                Value::String(text) => (name.to_lowercase(), text),
                other => (name.to_lowercase(), other.to_string()),
            });
            ads.push(members.collect());
        }
    }
    Some(ads)
}

/// The ads of a text with one attribute per line.
fn ads_by_line(text: &str) -> Vec<Ad> {
    let mut ads: Vec<Ad> = vec![Vec::new()];
    for line in text.lines().map(str::trim) {
        // Jobs are apart by an empty line or a bracket.
        if line.is_empty() || line.starts_with(['{', '}', ',']) {
            if ads.last().is_some_and(|ad| !ad.is_empty()) {
                ads.push(Vec::new());
            }
            continue;
        }
        let json = line.strip_prefix('"').and_then(|rest| rest.split_once("\":"));
        let json = json.map(|(key, value)| (key, value.trim().trim_end_matches(',')));
        let Some((key, value)) = json.or_else(|| line.split_once('=')) else { continue };
        let value = value.trim();
        let text = value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
        let value = text.unwrap_or(value).replace("\\\"", "\"");
        if let Some(ad) = ads.last_mut() {
            ad.push((key.trim().to_lowercase(), value));
        }
    }
    ads
}

fn of_ad(ad: &[(String, String)]) -> Option<JobReason> {
    let get = |name: &str| {
        let name = name.to_lowercase();
        ad.iter().find(|(key, _)| *key == name).map(|(_, value)| value.as_str())
    };
    let number = |name: &str| get(name).and_then(|value| value.parse::<i64>().ok());
    let code_in = |name: &str| number(name).and_then(|number| u32::try_from(number).ok());
    let job = match (number("ClusterId"), number("ProcId")) {
        (Some(cluster), Some(process)) => format!("{cluster}.{process}"),
        _ => "?".to_owned(),
    };
    let code = code_in("HoldReasonCode");
    let is_held = code.is_some() || get("HoldReason").is_some();
    let status = number("JobStatus").or(is_held.then_some(5))?;
    Some(match status {
        1 => {
            let found = JobReason::new(&job, JobState::Idle);
            let said = get("LastRejMatchReason").unwrap_or_default().to_owned();
            JobReason { said, ..found.because(&[Sign::Match(Match::Unasked)]) }
        }
        2 | 6 | 7 => JobReason::new(&job, JobState::Running),
        3 => {
            let found = JobReason::new(&job, JobState::Removed);
            JobReason { said: get("RemoveReason").unwrap_or_default().to_owned(), ..found }
        }
        4 => {
            let by_signal = get("ExitBySignal").is_some_and(|is| is.eq_ignore_ascii_case("true"));
            let (code, signal) = match by_signal {
                true => (None, number("ExitSignal")),
                false => (number("ExitCode"), None),
            };
            JobReason::ended(&job, code, signal)
        }
        5 => held(&job, code, code_in("HoldReasonSubCode"), get("HoldReason").unwrap_or_default()),
        _ => return None,
    })
}

/// The table of `condor_q -hold`, with its header.
pub(super) fn holds(text: &str) -> Vec<JobReason> {
    let mut lines = text.lines();
    let Some(at) = lines.find_map(|line| line.find("HOLD_REASON")) else { return Vec::new() };
    let held = lines.filter_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let job = id(words.first()?)?;
        // The reason is behind owner, date and time.
        let reason = match words.as_slice() {
            [_, _, date, time, reason @ ..] if date.contains('/') && time.contains(':') => {
                reason.join(" ")
            }
            _ => line.get(at..).unwrap_or_default().to_owned(),
        };
        Some(held(&job, None, None, &reason))
    });
    held.collect()
}

/// A held job: HTCondor's message says more than its codes.
fn held(job: &str, code: Option<u32>, subcode: Option<u32>, message: &str) -> JobReason {
    let found = JobReason::new(job, JobState::Held).says(message);
    if !found.why.is_empty() {
        return found;
    }
    let by_message = || transfer(message).map(|(code, subcode)| (code, Some(subcode)));
    let codes = code.map(|code| (code, subcode)).or_else(by_message);
    let Some((code, subcode)) = codes else { return found };
    let found = found.because(&[Sign::Hold(code, subcode), Sign::Hold(code, None)]);
    let is_known = !found.why.is_empty();
    let codes = match subcode {
        Some(subcode) => format!("code {code}, subcode {subcode}"),
        None => format!("code {code}"),
    };
    let said = match (found.said.as_str(), is_known) {
        ("", _) => codes,
        (said, true) => said.to_owned(),
        (said, false) => format!("{said} ({codes})"),
    };
    JobReason { said, ..found }
}

/// The hold code and subcode of a message about a transfer between the access point and the
/// machine, for tools that print the message alone: its `errno` is the subcode.
fn transfer(message: &str) -> Option<(u32, u32)> {
    let message = message.to_lowercase();
    let has = |words: &[&str]| words.iter().all(|word| message.contains(word));
    let code = if has(&["transfer input files failure"]) {
        13
    } else if has(&["transfer output files failure"]) {
        12
    } else if has(&["shadow at", "failed to send file"]) {
        // The messages of HTCondor 9 and older.
        13
    } else if has(&["starter at", "failed to send file"]) {
        12
    } else {
        return None;
    };
    let errno = message.split_once("(errno ").and_then(|(_, rest)| rest.split_once(')'));
    Some((code, errno.and_then(|(number, _)| number.trim().parse().ok()).unwrap_or(0)))
}

/// A job's event log.
pub(super) fn log(text: &str) -> Vec<JobReason> {
    let mut log = EventLog::default();
    text.lines().for_each(|line| log.line(line));
    log.finish()
}

/// Reads a job's event log line by line: the last event that changes a job's state counts.
///
/// Its size depends on the number of jobs, not on that of the lines.
#[derive(Debug, Default)]
pub struct EventLog {
    found: Vec<JobReason>,
    /// Where each job is in `found`.
    places: BTreeMap<String, usize>,
    event: Option<Event>,
}

/// The event of which lines are being read.
#[derive(Debug)]
struct Event {
    number: String,
    job: String,
    body: Vec<String>,
}

impl EventLog {
    /// Reads the next line, without its end.
    pub fn line(&mut self, line: &str) {
        // HTCondor's events have some tens of lines.
        const MAX_EVENT_LINES: usize = 1_000;
        if let Some((number, job)) = event(line) {
            self.end_event();
            self.event = Some(Event { number: number.to_owned(), job, body: Vec::new() });
        } else if line.trim() == "..." {
            self.end_event();
        } else if let Some(event) = &mut self.event
            && event.body.len() < MAX_EVENT_LINES
        {
            event.body.push(line.trim().to_owned());
        }
    }

    /// The reason of each job of the log.
    #[must_use]
    pub fn finish(mut self) -> Vec<JobReason> {
        self.end_event();
        self.found
    }

    fn end_event(&mut self) {
        let Some(event) = self.event.take() else { return };
        let Some(reason) = event.reason() else { return };
        match self.places.get(&event.job).and_then(|place| self.found.get_mut(*place)) {
            Some(known) => *known = reason,
            None => {
                self.places.insert(event.job, self.found.len());
                self.found.push(reason);
            }
        }
    }
}

impl Event {
    /// What the event says of its job; `None` if the job's state stays as it was.
    fn reason(&self) -> Option<JobReason> {
        let (job, body) = (&self.job, &self.body);
        let first = || body.first().cloned().unwrap_or_default();
        let number_in = |name: &str| {
            let rest = body.iter().find_map(|line| line.split_once(name)).map(|(_, rest)| rest)?;
            rest.split(')').next()?.trim().parse::<i64>().ok()
        };
        let idle = |why: Match| JobReason::new(job, JobState::Idle).because(&[Sign::Match(why)]);
        Some(match self.number.as_str() {
            "000" | "013" => idle(Match::Unasked),
            "001" => JobReason::new(job, JobState::Running),
            "004" => idle(Match::Evicted),
            "005" => JobReason::ended(job, number_in("(return value"), number_in("(signal")),
            "007" | "024" => JobReason { said: first(), ..idle(Match::Evicted) },
            "009" => JobReason { said: first(), ..JobReason::new(job, JobState::Removed) },
            "012" => {
                let found = body.iter().enumerate().rev();
                let codes = { found }.find_map(|(at, line)| Some((at, hold_codes(line)?)));
                let (len, (code, subcode)) = match codes {
                    Some((at, (code, subcode))) => (at, (Some(code), subcode)),
                    None => (body.len(), (None, None)),
                };
                held(job, code, subcode, &body.get(..len).unwrap_or_default().join(" "))
            }
            _ => return None,
        })
    }
}

/// The codes of the line `Code 34 Subcode 102`.
fn hold_codes(line: &str) -> Option<(u32, Option<u32>)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    match words.as_slice() {
        ["Code", code] => Some((code.parse().ok()?, None)),
        ["Code", code, "Subcode", subcode] => Some((code.parse().ok()?, subcode.parse().ok())),
        _ => None,
    }
}

/// The number and the job of a line such as `012 (123.000.000) 2026-05-01 10:00:00 Job was held.`
fn event(line: &str) -> Option<(&str, String)> {
    let (number, rest) = line.split_once(" (")?;
    let (job, _) = rest.split_once(") ")?;
    let is_number = number.len() == 3 && number.chars().all(|c| c.is_ascii_digit());
    if is_number { Some((number, id(job)?)) } else { None }
}

#[cfg(test)]
mod tests {
    use super::super::why;
    use super::*;

    fn one(text: &str) -> JobReason {
        let found = why(text);
        let [found] = found.as_slice() else { panic!("{found:?} in {text}") };
        found.clone()
    }

    fn analyzed(conditions: &str, counts: [u64; 5]) -> String {
        let [refuse, own, mine, other, able] = counts;
        format!(
            "-- Schedd: ap1.example.org : <10.0.0.1:9618?...\nThe Requirements expression for job 781.000 is\n\n    (TARGET.Arch == \"X86_64\") && (TARGET.Memory >= RequestMemory)\n\nJob 781.000 defines the following attributes:\n\n    RequestDisk = 10240 (kb)\n    RequestMemory = 8388608 (mb)\n\nThe Requirements expression for job 781.000 reduces to these conditions:\n\n         Slots\nStep    Matched  Condition\n-----  --------  ---------\n{conditions}\nNo successful match recorded.\n\n781.000:  Run analysis summary ignoring user priority.  Of 100 machines,\n    {refuse} are rejected by your job's requirements\n    {own} reject your job because of their own requirements\n    {mine} match and are already running your jobs\n    {other} match but are serving other users\n    {able} are able to run your job\n\nWARNING:  Be advised:\n   No machines matched the jobs's constraints\n"
        )
    }

    #[test]
    fn an_analysis_names_the_condition_that_nobody_meets() {
        let check = |condition: &str, part: &str| {
            let text = analyzed(
                &format!(
                    "[0]         100  TARGET.Arch == \"X86_64\"\n[5]           0  {condition}\n[6]           0  [0] && [5]\n"
                ),
                [100, 0, 0, 0, 0],
            );
            let found = one(&text);
            assert_eq!((found.job.as_str(), found.state), ("781.0", JobState::Idle));
            assert!(found.why.contains(part) && found.said.contains(condition), "{found:?}");
        };
        check("TARGET.Memory >= RequestMemory", "memory");
        check("TARGET.Disk >= RequestDisk", "disk");
        check("TARGET.GPUs >= RequestGPUs", "GPUs");
        check("OSGVO_OS_STRING == \"RHEL 5\"", "operating system");
        check("TARGET.HasSingularity", "container");
        check("stringListIMember(\"s3\",TARGET.HasFileTransferPluginMethods)", "URL");
        check("TARGET.Machine == \"n1\"", "meets its requirements");
        let memory = one(&analyzed("[5]  0  TARGET.Memory >= RequestMemory\n", [100, 0, 0, 0, 0]));
        assert_eq!(memory.said, "TARGET.Memory >= RequestMemory, RequestMemory = 8388608 (mb)");
    }

    #[test]
    fn an_analysis_says_who_has_the_machines() {
        let check = |conditions: &str, counts: [u64; 5], part: &str| {
            let found = one(&analyzed(conditions, counts));
            assert!(found.why.contains(part), "{found:?}");
        };
        let met = "[0]  90  TARGET.Arch == \"X86_64\"\n[5]  7  TARGET.Memory >= RequestMemory\n";
        check(met, [90, 0, 0, 0, 10], "not its turn");
        check(met, [90, 0, 4, 6, 0], "in use");
        check(met, [90, 10, 0, 0, 0], "only other jobs");
        check(&format!("{met}[6]  0  [0] && [5]\n"), [100, 0, 0, 0, 0], "no machine meets all");
        let new = "3.002:  Run analysis summary ignoring user priority.  Of 2 slots on 2 machines,\n      0 slots are rejected by your job's requirements\n      0 slots match and are willing to run your job\n      1 slots would match if drained\n";
        assert!(one(new).why.contains("in use"));
        let held = "12.000:  Job is held.\n\nHold reason: Error from slot1@n: memory usage exceeded request_memory\n\n12.000:  Run analysis summary ignoring user priority.  Of 2 machines,\n      2 are able to run your job\n";
        let found = one(held);
        assert_eq!(
            (found.state, found.why.as_str()),
            (JobState::Held, "it used more memory than it asked for")
        );
    }

    #[test]
    fn the_last_event_of_a_log_counts() {
        let event = |number: u32, rest: &str| {
            format!("{number:03} (123.000.000) 2026-05-01 10:00:00 {rest}\n...\n")
        };
        let submitted =
            event(0, "Job submitted from host: <10.0.0.1:9618?alias=a>\n    DAG Node: a");
        let started = event(1, "Job executing on host: <10.0.0.2:9618?alias=n>");
        let check = |events: &[String], state: JobState, part: &str| {
            let found = one(&events.concat());
            assert_eq!((found.job.as_str(), found.state), ("123.0", state));
            assert!(found.why.contains(part), "{found:?}");
        };
        check(std::slice::from_ref(&submitted), JobState::Idle, "no machine has started it");
        check(&[submitted.clone(), started.clone()], JobState::Running, "");
        let memory = event(
            12,
            "Job was held.\n\tError from slot1@n: memory usage exceeded request_memory\n\tCode 34 Subcode 102",
        );
        check(&[submitted.clone(), started.clone(), memory.clone()], JobState::Held, "memory");
        let released = event(13, "Job was released.\n\tvia condor_release (by user me)");
        check(&[submitted.clone(), memory, released], JobState::Idle, "no machine");
        let input = event(
            12,
            "Job was held.\n\tTransfer input files failure at access point ap1 while sending files to the execution point. Details: reading from file /home/me/a.csv: (errno 2) No such file or directory\n\tCode 13 Subcode 2",
        );
        check(&[submitted.clone(), input], JobState::Held, "an input does not exist");
        let ends = |text: &str| {
            event(
                5,
                &format!(
                    "Job terminated.\n\t{text}\n\t\tUsr 0 00:00:00, Sys 0 00:00:00  -  Run Remote Usage"
                ),
            )
        };
        check(&[ends("(1) Normal termination (return value 127)")], JobState::Failed, "not found");
        check(&[ends("(1) Normal termination (return value 0)")], JobState::Done, "");
        check(&[ends("(0) Abnormal termination (signal 9)")], JobState::Failed, "killed");
        check(&[event(9, "Job was aborted.\n\tvia condor_rm (by user me)")], JobState::Removed, "");
        let two = format!("{submitted}{}", submitted.replace("(123.", "(124."));
        assert_eq!(why(&two).len(), 2);
    }

    #[test]
    fn messages_of_pelican_say_more_than_their_code() {
        let check = |message: &str, part: &str| {
            let details = format!(
                "Transfer input files failure at execution point slot1@n using protocol osdf. Details: Pelican Client Error: {message} (Version: 7.26.0; Site: A)"
            );
            let found = one(&format!(
                "ClusterId = 7\nProcId = 0\nJobStatus = 5\nHoldReasonCode = 13\nHoldReasonSubCode = 256\nHoldReason = \"{details}\"\n"
            ));
            assert!(found.why.contains(part) && !found.remedy.is_empty(), "{found:?}");
        };
        check(
            "Attempt #3: from cache.example.org:8443: Specification.FileNotFound Error: Error code 5011: request failed (HTTP status 404): Unable to open (...Path...)",
            "does not exist",
        );
        check(
            "Authorization.TokenNotFound Error: Error code 4010: credential is required for osdf:///a",
            "needs a token",
        );
        check(
            "Authorization Error: Error code 4000: request failed (HTTP status 403)",
            "did not accept",
        );
        check(
            "Contact.Director Error: Error code 3001: error while querying the director",
            "director",
        );
        check("dial tcp 10.0.0.1:8443: connect: connection refused", "could not be reached");
        check("Transfer.TimedOut Error: Error code 6002: timed out", "too slow");
        check("remote object already exists, upload aborted", "already taken");
        check("something new", "could not transfer");
    }

    #[test]
    fn the_table_of_held_jobs_is_read() {
        let text = "-- Schedd: ap1.example.org : <10.0.0.1:9618?...\n ID      OWNER          HELD_SINCE  HOLD_REASON\n  12.0   me              5/1  10:05 Error from slot1@n: memory usage exceeded request_memory\n  12.1   me              5/1  10:06 via condor_hold (by user me)\n\nTotal for query: 2 jobs; 2 held\n";
        let found = why(text);
        let [memory, user] = found.as_slice() else { panic!("{found:?}") };
        assert!(memory.job == "12.0" && memory.why.contains("memory"), "{memory:?}");
        assert!(user.why.contains("condor_hold") && user.said.starts_with("via"), "{user:?}");
    }

    #[test]
    fn a_transfer_that_failed_is_known_by_its_message() {
        let check = |message: &str, part: &str| {
            let table = format!(
                " ID      OWNER          HELD_SINCE  HOLD_REASON\n  12.0   me              5/1  10:05 {message}\n"
            );
            let analysis = format!("12.000:  Job is held.\n\nHold reason: {message}\n");
            let short = format!(" ID OWNER HELD_SINCE HOLD_REASON\n12.0 me 5/1 10:05 {message}\n");
            for text in [table, analysis, short] {
                let found = one(&text);
                assert!(found.why.contains(part) && !found.remedy.is_empty(), "{found:?}");
                assert!(message.starts_with(&found.said), "{found:?}");
            }
        };
        let input = "Transfer input files failure at access point ap1 while sending files to the execution point. Details: reading from file /home/me/a.csv: (errno";
        check(&format!("{input} 2) No such file or directory"), "an input does not exist");
        check(&format!("{input} 13) Permission denied"), "may not be read");
        check("Transfer input files failure at access point ap1", "inputs could not be");
        check(
            "Transfer output files failure at execution point slot1@n while sending files to access point ap1. Details: reading from file /var/x/out.csv: (errno 2) No such file or directory",
            "was not there when it ended",
        );
        check(
            "Error from slot1@n: SHADOW at 10.0.0.1 failed to send file(s) to <10.0.0.2:9618>: error reading from /home/me/a.csv: (errno 2) No such file or directory; STARTER failed to receive file(s) from <10.0.0.1:9618>",
            "an input does not exist",
        );
    }

    #[test]
    fn attributes_are_read_from_long_and_json() {
        let long = "ClusterId = 12\nProcId = 3\nJobStatus = 5\nHoldReasonCode = 21\nHoldReasonSubCode = 102\nHoldReason = \"policy \\\"x\\\"\"\n\nClusterId = 12\nProcId = 4\nJobStatus = 1\nLastRejMatchReason = \"no match found\"\n\nClusterId = 12\nProcId = 5\nJobStatus = 4\nExitBySignal = true\nExitSignal = 11\n";
        let json = "[\n{\n  \"ClusterId\": 12,\n  \"ProcId\": 3,\n  \"JobStatus\": 5,\n  \"HoldReasonCode\": 21,\n  \"HoldReasonSubCode\": 102,\n  \"HoldReason\": \"policy \\\"x\\\"\"\n}\n,\n{\n  \"ClusterId\": 12,\n  \"JobStatus\": 1,\n  \"LastRejMatchReason\": \"no match found\",\n  \"ProcId\": 4\n}\n,\n{\n  \"ClusterId\": 12,\n  \"ProcId\": 5,\n  \"JobStatus\": 4,\n  \"ExitBySignal\": true,\n  \"ExitSignal\": 11\n}\n]\n";
        assert_eq!(why(long), why(json));
        let found = why(long);
        let [held, idle, crashed] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!((held.job.as_str(), held.said.as_str()), ("12.3", "policy \"x\""));
        assert!(held.why.contains("memory") && idle.said == "no match found");
        assert!(crashed.why.contains("native code"));
        let new = one("JobStatus = 5\nHoldReasonCode = 99\nHoldReason = \"odd\"\n");
        assert_eq!((new.why.as_str(), new.said.as_str()), ("", "odd (code 99)"));
        assert_eq!(one("HoldReason = \"Disk quota exceeded\"\n").job, "?");
    }

    #[test]
    fn each_held_job_of_an_analysis_has_its_own_reason() {
        let text = "12.000:  Job is held.\n\n12.001:  Run analysis summary ignoring user priority.  Of 2 machines,\n      2 are able to run your job\n\n12.002:  Job is held.\n\nHold reason: memory usage exceeded\n";
        let found = why(text);
        let [unsaid, idle, memory] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!((unsaid.state, unsaid.said.as_str()), (JobState::Held, ""));
        assert_eq!((idle.job.as_str(), idle.state), ("12.1", JobState::Idle));
        assert!(memory.job == "12.2" && memory.why.contains("memory"), "{memory:?}");
        let analysis = analyzed("[5]  0  TARGET.Memory >= RequestMemory\n", [2, 0, 0, 0, 0]);
        let found = why(&format!("12.000:  Job is held.\n\n{analysis}"));
        let [_, memory] = found.as_slice() else { panic!("{found:?}") };
        assert!(memory.said.ends_with("RequestMemory = 8388608 (mb)"), "{memory:?}");
    }

    #[test]
    fn only_an_exit_code_of_0_is_done() {
        let check = |end: &str, event: &str, state: JobState, said: &str| {
            let ad = format!("ClusterId = 1\nProcId = 0\nJobStatus = 4\n{end}\n");
            let log =
                format!("005 (1.0.0) 2026-05-01 10:00:00 Job terminated.\n\t({event})\n...\n");
            for text in [ad, log] {
                let found = one(&text);
                assert_eq!((found.state, found.said.as_str()), (state, said), "{text}");
            }
        };
        let normal = |code: &str| format!("1) Normal termination (return value {code}");
        check("ExitCode = 0", &normal("0"), JobState::Done, "");
        check("ExitCode = -1", &normal("-1"), JobState::Failed, "exit code -1");
        let unknown = "it ended, without an exit code";
        check("", &normal("?"), JobState::Unread, unknown);
        check("ExitBySignal = true", "0) Abnormal termination", JobState::Unread, unknown);
        let signal = "ExitBySignal = true\nExitSignal = 4294967290";
        let event = "0) Abnormal termination (signal 4294967290";
        check(signal, event, JobState::Failed, "signal 4294967290");
        let largest = format!("ExitBySignal = true\nExitSignal = {}", i64::MAX);
        assert_eq!(one(&format!("JobStatus = 4\n{largest}\n")).state, JobState::Failed);
    }

    #[test]
    fn codes_of_a_hold_are_those_of_their_own_line() {
        let text = "012 (1.0.0) 2026-05-01 10:00:00 Job was held.\n\tsomething new: HTTP Response\n\tCode 404 was unexpected\n\tCode 13 Subcode 2\n...\n";
        assert_eq!(why(text)[0].source, held("1.0", Some(13), Some(2), "").source);
        let text =
            text.replace("13 Subcode 2", "99 Subcode 7").replace("Response\n\t", "Response ");
        assert_eq!(
            one(&text).said,
            "something new: HTTP Response Code 404 was unexpected (code 99, subcode 7)"
        );
    }

    #[test]
    fn json_is_read_however_it_is_laid_out() {
        let ad = |process: u32| {
            format!(
                r#"{{"ClusterId":12,"ProcId":{process},"JobStatus":4,"ExitBySignal":false,"ExitCode":127,"Env":["a",{{}}]}}"#
            )
        };
        let (a, b) = (ad(0), ad(1));
        for text in [
            format!("[{a},{b}]"),
            format!("{a}\n{b}\n"),
            format!("[\n{a}\n]\n[\n{b}\n]\n"),
            format!(" [ {} ,\n{b} ]", a.replace(',', "\n ,\n")),
        ] {
            let found = why(&text);
            let jobs: Vec<&str> = found.iter().map(|reason| reason.job.as_str()).collect();
            assert_eq!(jobs, ["12.0", "12.1"], "{text}");
            assert!(found.iter().all(|reason| reason.why.contains("not found")), "{found:?}");
        }
        for odd in ["[", "{}", "[1, [], {}]", "[[[[", "{\"JobStatus\": {}}", "[{\"JobStatus\":1}"] {
            assert_eq!(why(odd), [], "{odd}");
        }
    }

    #[test]
    fn the_log_of_a_large_dag_is_read_in_time() {
        let n = 60_000;
        let begin = std::time::Instant::now();
        let events = ["000", "001"].map(|number| {
            let event =
                |job: u32| format!("{number} ({job}.000.000) 2026-05-01 10:00:00 Job\n...\n");
            (0..n).map(event).collect::<String>()
        });
        let found = why(&events.concat());
        assert!(found.len() == 60_000 && found.iter().all(|job| job.state == JobState::Running));
        assert!(begin.elapsed().as_secs() < 30, "{:?}", begin.elapsed());
    }
}
