//! The forms that values of commands have, and what a universe needs.
//!
//! What HTCondor's own code says of each is compared in `cargo xtask peers`.

use super::check::Context;
use super::classad;
use super::expand::Expanded;
use crate::finding::FileFindings;
use crate::rules;
use crate::severity::Severity;
use crate::units::condor_bytes;

/// The form of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// `true`, `false`, or an expression of which condor_submit makes one of the two.
    Truth,
    /// A number, or an expression of which condor_submit makes one.
    Number,
    /// Any expression, or a size.
    Expression,
    /// A text without spaces.
    Word,
    /// `SIGTERM`, or the number of a signal.
    Signal,
}
use Form::{Expression, Number, Signal, Truth, Word};

/// Forms of commands' values (HTCondor 24.12, condor_submit(1) and src/condor_utils/submit_utils.cpp).
const FORMS: [(Form, &[&str]); 5] = [
    (Word, &["accounting_group", "accounting_group_user"]),
    (Signal, &["hold_kill_sig", "kill_sig", "remove_kill_sig"]),
    (
        Truth,
        &[
            "allow_arguments_v1",
            "docker_override_entrypoint",
            "encrypt_execute_directory",
            "erase_output_and_error_on_restart",
            "hold",
            "load_profile",
            "log_xml",
            "manifest",
            "nice_user",
            "preserve_relative_paths",
            "run_as_owner",
            "skip_if_dataflow",
            "stream_error",
            "stream_input",
            "stream_output",
            "transfer_error",
            "transfer_input",
            "transfer_output",
        ],
    ),
    (
        Number,
        &[
            "checkpoint_exit_code",
            "core_size",
            "coresize",
            "max_retries",
            "prio",
            "priority",
            "success_exit_code",
        ],
    ),
    (
        Expression,
        &[
            "allowed_execute_duration",
            "allowed_job_duration",
            "buffer_size",
            "deferral_time",
            "job_lease_duration",
            "job_max_vacate_time",
            "keep_claim_idle",
            "leave_in_queue",
            "max_idle",
            "max_transfer_input_mb",
            "max_transfer_output_mb",
            "next_job_start_delay",
            "noop_job",
            "on_exit_hold",
            "on_exit_remove",
            "periodic_hold",
            "periodic_release",
            "periodic_remove",
            "periodic_vacate",
            "rank",
            "request_cpus",
            "request_disk",
            "request_gpus",
            "request_memory",
            "requirements",
            "require_gpus",
            "retry_until",
            "stack_size",
            "want_graceful_removal",
        ],
    ),
];

/// What a universe needs, of which one is enough.
const NEEDS: [(&str, &[&str]); 5] = [
    ("container", &["container_image", "docker_image"]),
    ("docker", &["docker_image"]),
    ("grid", &["grid_resource"]),
    ("parallel", &["machine_count", "node_count"]),
    ("vm", &["vm_type"]),
];

pub(super) fn check(context: &Context<'_>, report: &mut FileFindings) {
    for (form, names) in FORMS {
        for name in names {
            // Without its macros, a value is not known.
            let known = context.value(name).filter(|(_, value)| is_whole(value));
            let Some((set, value)) = known else { continue };
            let Some((at, text)) = fault(form, value.text.trim()) else { continue };
            if is_refused(report, set.line) {
                continue;
            }
            let (what, fix) = match form {
                Expression => {
                    unread(report, set.line, name, at, text);
                    continue;
                }
                Truth => ("true or false", "write `true` or `false`"),
                Number => ("a number", "write a whole number"),
                Word => ("one word", "write it without spaces"),
                Signal => ("a signal", "write its name, such as `SIGTERM`, or its number"),
            };
            let what = format!("`{name} = {text}` is not {what}");
            let rule = if form == Number { &rules::BAD_NUMBER } else { &rules::BAD_FORM };
            report.add(rule, set.line, what).fix(fix);
        }
    }
    for set in context.submit.sets.iter().filter(|set| set.attribute) {
        let value = context.expand(&set.value);
        if let Some((at, text)) = fault(Expression, value.text.trim())
            && is_whole(&value)
            && !is_refused(report, set.line)
        {
            unread(report, set.line, &format!("+{}", set.name), at, text);
        }
    }
    for queue in &context.submit.queues {
        let count = context.expand(&queue.count);
        let text = count.text.trim();
        if (fault(Number, text).is_some() || text.starts_with('-')) && is_whole(&count) {
            let what = format!("`queue {text}` has no number of jobs");
            report
                .add(&rules::BAD_NUMBER, queue.line, what)
                .fix("write `queue N`, or `queue NAME from FILE`, `in (…)`, `matching *.x`");
        }
    }
    let Some((set, universe)) = context.value("universe") else { return };
    let needs = NEEDS.iter().find(|(name, _)| universe.text.trim().eq_ignore_ascii_case(name));
    if let Some((name, needed)) = needs
        && let Some(first) = needed.first()
        && !context.submit.includes
        && context.submit.any(needed).is_none()
    {
        let what = format!("the universe is `{name}`, but `{first}` is not set");
        report.add(&rules::BAD_WORD, set.line, what).fix(format!("set `{first}`"));
    }
}

/// Whether all macros of a value are known. Undefined ones may be set on the command line.
fn is_whole(value: &Expanded) -> bool {
    !value.varies && value.undefined.is_empty()
}

/// Whether an error says already why this line is refused.
fn is_refused(report: &FileFindings, line: usize) -> bool {
    let mut findings = report.findings.iter();
    findings.any(|finding| finding.line == line && finding.severity == Severity::Error)
}

/// Where a value is wrong, and the value; an empty one is not set.
fn fault(form: Form, text: &str) -> Option<(usize, &str)> {
    // Macros of the job or the machine, and comments, which have a rule of their own.
    if text.is_empty() || text.contains('$') || text.contains(" #") {
        return None;
    }
    let is_name = text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        && !text.starts_with(|c: char| c.is_ascii_digit());
    let is_truth = text.eq_ignore_ascii_case("true") || text.eq_ignore_ascii_case("false");
    let at = match form {
        Word => text.find(char::is_whitespace)?,
        Signal => {
            let is_known = text.get(..3).is_some_and(|start| start.eq_ignore_ascii_case("SIG"));
            let is_number = text.parse::<u8>().is_ok_and(|number| (1..=64).contains(&number));
            (!is_known && !is_number).then_some(0)?
        }
        Truth | Number if is_name && !is_truth => 0,
        Number if text.starts_with('"') => 0,
        Expression if condor_bytes(text, 1).is_some() => return None,
        _ => classad::unread(text)?,
    };
    Some((at, text))
}

fn unread(report: &mut FileFindings, line: usize, name: &str, at: usize, text: &str) {
    let rest: String = text.get(at..).unwrap_or_default().chars().take(40).collect();
    let what = match rest.as_str() {
        "" => format!("the expression `{name}` is cut at its end"),
        rest => format!("the expression `{name}` cannot be read from `{rest}` on"),
    };
    report.add(&rules::BAD_EXPRESSION, line, what);
}
