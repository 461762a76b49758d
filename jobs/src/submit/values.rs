//! Checks the values of commands: units, keywords of HTCondor, expressions.

use super::check::Context;
use super::commands::nearest;
use super::parse::{Set, SetForm};
use crate::finding::{Edit, FileFindings};
use crate::rules;
use crate::units::condor_bytes;

pub(super) fn check(context: &Context<'_>, report: &mut FileFindings) {
    sizes(context, report);
    gpus(context, report);
    words(context, report);
    images(context, report);
    attributes(context, report);
    transfer(context, report);
}

/// The value of a setting that should be a size.
enum Size {
    Bytes(u64),
    /// An expression, which HTCondor evaluates later.
    Expression,
    /// A text that HTCondor does not read as a size.
    No,
}

fn size(text: &str, unit: u64) -> Size {
    let text = text.trim();
    if let Some(bytes) = condor_bytes(text, unit) {
        return Size::Bytes(bytes);
    }
    let operators = ["*", "+", "-", "/", "(", "?", "$", ".Memory", "MY.", "TARGET."];
    let is_undefined = text.eq_ignore_ascii_case("undefined");
    if is_undefined || operators.iter().any(|operator| text.contains(operator)) {
        Size::Expression
    } else {
        Size::No
    }
}

/// The size that was probably meant by `16GiB` or `16 gigs`.
fn meant(text: &str) -> Option<String> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, unit) = text.split_at(end);
    let unit = match unit.trim().chars().next()?.to_ascii_uppercase() {
        'K' => "KB",
        'M' => "MB",
        'G' => "GB",
        'T' => "TB",
        _ => return None,
    };
    (!number.is_empty()).then(|| format!("{number} {unit}"))
}

fn sizes(context: &Context<'_>, report: &mut FileFindings) {
    // Smaller bare numbers were meant as GB: no job runs in so little.
    let rows = [
        ("request_memory", 1 << 20, 64 << 20, "MB"),
        ("request_disk", 1 << 10, 100_000 << 10, "KB"),
        ("gpus_minimum_memory", 1 << 20, 256 << 20, "MB"),
    ];
    for (name, unit, least, unit_name) in rows {
        let Some((set, value)) = context.value(name) else { continue };
        let text = value.text.trim();
        let is_known = !value.varies && value.undefined.is_empty();
        if text.is_empty() || !is_known || text.contains(" #") {
            continue;
        }
        match size(text, unit) {
            // A value with a unit is what its author wants.
            Size::Bytes(bytes)
                if bytes < least && text.chars().all(|c| c.is_ascii_digit() || c == '.') =>
            {
                let what = format!("`{name} = {text}` is {text} {unit_name}");
                report.add(&rules::UNIT_BARE, set.line, what);
            }
            Size::No => {
                let what = format!("`{text}` is not a size");
                let edit = meant(text).and_then(|text| context.with_value(set, &text));
                report.add(&rules::UNIT_UNKNOWN, set.line, what).edit = edit;
            }
            _ => {}
        }
    }
    let is_absent = |name: &&str| {
        // A name that is misspelt, or in a comment, is reported by another rule.
        context.submit.get(name).is_none()
            && !context
                .raw
                .iter()
                .any(|line| line.trim_start().to_ascii_lowercase().starts_with(name))
            && !context.submit.sets.iter().any(|set| nearest(&set.name) == Some(name))
    };
    let absent = ["request_memory", "request_disk", "request_cpus"].into_iter().filter(is_absent);
    let absent: Vec<&str> = absent.collect();
    if let Some(queue) = context.submit.queues.first()
        && !absent.is_empty()
        && !context.submit.includes
    {
        let what = format!("not set: `{}`", absent.join("`, `"));
        report.add(&rules::NO_REQUEST, queue.line, what);
    }
}

fn gpus(context: &Context<'_>, report: &mut FileFindings) {
    let needs = [
        "gpus_minimum_capability",
        "gpus_maximum_capability",
        "gpus_minimum_memory",
        "gpus_minimum_runtime",
        "require_gpus",
    ];
    let asked = context
        .submit
        .any(&["request_gpus", "request_gpu"])
        .map(|set| context.expand(&set.value).text);
    let none = asked.as_deref().is_none_or(|text| text.trim() == "0");
    // Another branch of an `if` may ask for them.
    let may_ask = context.submit.sets.iter().any(|set| {
        let is_request = ["request_gpus", "request_gpu"];
        let is_request = is_request.iter().any(|name| set.name.eq_ignore_ascii_case(name));
        is_request && set.conditional && context.expand(&set.value).text.trim() != "0"
    });
    if none && !may_ask {
        let set = needs.iter().find_map(|name| context.submit.get(name));
        let label =
            ["WantGPULab", "GPUJobLength"].iter().find_map(|name| context.submit.attribute(name));
        if let Some(set) = set.or(label) {
            let what = format!("`{}` without `request_gpus`", set.name);
            let is_certain = !set.attribute && context.submit.get("request_gpus").is_none();
            report.add(&rules::GPUS_WITHOUT_REQUEST, set.line, what).edit =
                is_certain.then(|| Context::after(set, "request_gpus = 1".to_owned()));
        }
    }
    for name in ["gpus_minimum_capability", "gpus_maximum_capability", "gpus_minimum_runtime"] {
        let Some((set, value)) = context.value(name) else { continue };
        let text = value.text.trim();
        let number: Option<f64> = text.parse().ok();
        let runtime = name.ends_with("runtime");
        match number {
            _ if value.varies || text.contains(" #") => {}
            None => {
                let what = format!("`{name} = {text}` is not a number");
                report.add(&rules::BAD_CAPABILITY, set.line, what);
            }
            Some(number) if !runtime && number >= 20.0 => {
                let what = format!("`{name} = {text}` is more than any GPU has");
                let right = format!("{:.1}", number / 10.0);
                report
                    .add(&rules::BAD_CAPABILITY, set.line, what)
                    .fix(format!("write {right}"))
                    .edit = context.with_value(set, &right).filter(|_| number < 200.0);
            }
            Some(_) => {}
        }
    }
    // For a GPU this is the CUDA version that its driver supports, not the driver's own version.
    for set in
        context.submit.sets.iter().filter(|set| set.name.eq_ignore_ascii_case("require_gpus"))
    {
        let lower = set.text.to_ascii_lowercase();
        let asked = lower.split_once("driverversion").map_or("", |(_, behind)| behind);
        let number: String = asked
            .trim_start_matches(|c: char| " =<>!?".contains(c))
            .chars()
            .take_while(|c| c.is_ascii_digit() || *c == '.')
            .collect();
        if number.parse::<f64>().is_ok_and(|number| number >= 100.0) {
            let what = format!("`require_gpus` compares `DriverVersion` with {number}");
            report.add(&rules::OLD_GPU_ATTRIBUTE, set.line, what);
        }
    }
    for (name, old, new) in [
        ("requirements", "CUDADriverVersion", "gpus_minimum_runtime"),
        ("requirements", "CUDACapability", "gpus_minimum_capability"),
        ("requirements", "CUDAGlobalMemoryMb", "gpus_minimum_memory"),
    ] {
        for set in context
            .submit
            .sets
            .iter()
            .filter(|set| !set.attribute && set.name.eq_ignore_ascii_case(name))
        {
            if set.text.to_ascii_lowercase().contains(&old.to_ascii_lowercase()) {
                let what = format!("`{name}` asks for `{old}`");
                report
                    .add(&rules::OLD_GPU_ATTRIBUTE, set.line, what)
                    .fix(format!("write `{new} = …` instead"));
            }
        }
    }
}

/// Checks commands whose value is one of some words.
fn words(context: &Context<'_>, report: &mut FileFindings) {
    let rows: [(&str, &[&str]); 5] = [
        ("when_to_transfer_output", &["ON_EXIT", "ON_EXIT_OR_EVICT", "ON_SUCCESS", "NEVER"]),
        (
            "should_transfer_files",
            &["YES", "NO", "IF_NEEDED", "TRUE", "FALSE", "ALWAYS", "NEVER", "AUTO"],
        ),
        (
            "universe",
            &[
                "vanilla",
                "container",
                "docker",
                "parallel",
                "java",
                "scheduler",
                "local",
                "grid",
                "vm",
            ],
        ),
        ("transfer_executable", &["true", "false", "yes", "no", "t", "f", "y", "n", "1", "0"]),
        ("notification", &["always", "complete", "error", "never"]),
    ];
    for (name, known) in rows {
        let Some((set, value)) = context.value(name) else { continue };
        let text = value.text.trim().trim_matches('"');
        if value.varies
            || text.is_empty()
            || text.contains(" #")
            || text.parse::<u32>().is_ok()
            || known.iter().any(|word| word.eq_ignore_ascii_case(text))
        {
            continue;
        }
        let what = format!("`{name}` cannot be `{text}`");
        let near = known.iter().min_by_key(|word| {
            crate::spelling::distance(&word.to_lowercase(), &text.to_lowercase())
        });
        let near = near.filter(|word| {
            crate::spelling::distance(&word.to_lowercase(), &text.to_lowercase()) <= 2
        });
        let rule = if name == "transfer_executable" { &rules::BAD_TRUTH } else { &rules::BAD_WORD };
        report.add(rule, set.line, what).fix(format!("write one of {}", known.join(", "))).edit =
            near.and_then(|word| context.with_value(set, word));
    }
}

fn images(context: &Context<'_>, report: &mut FileFindings) {
    let container = context.submit.get("container_image");
    let docker = context.submit.get("docker_image");
    if let (Some(container), Some(docker)) = (container, docker)
        && !container.conditional
        && !docker.conditional
    {
        report
            .add(
                &rules::BAD_WORD,
                container.line.max(docker.line),
                "both `container_image` and `docker_image` are set",
            )
            .fix("keep one of the two");
    }
    let is_given = |name: &&str| context.submit.get(name).is_some_and(|set| !set.value.is_empty());
    let programs = ["executable", "shell"].iter().any(is_given);
    if !programs
        && container.is_none()
        && docker.is_none()
        && !context.submit.includes
        && !context.submit.queues.is_empty()
    {
        let line = context.submit.queues.first().map_or(1, |queue| queue.line);
        report.add(
            &rules::NO_EXECUTABLE,
            line,
            "`executable` is not set, so there is no program to run",
        );
    }
}

/// Checks attributes of sites whose value is a text.
fn attributes(context: &Context<'_>, report: &mut FileFindings) {
    let rows: [(&str, &[&str]); 3] = [
        ("GPUJobLength", &["short", "medium", "long"]),
        ("JobDurationCategory", &["Medium", "Long"]),
        ("ProjectName", &[]),
    ];
    for (name, known) in rows {
        let Some(set) = context.submit.attribute(name) else { continue };
        let value = context.expand(&set.value);
        let text = value.text.trim();
        let bare = text.trim_matches('"');
        if value.varies || text.is_empty() {
            continue;
        }
        if !text.starts_with('"') {
            let text = text.trim_matches('\'');
            let what = format!("the text of `+{name}` has no double quotes");
            report
                .add(&rules::ATTRIBUTE_QUOTES, set.line, what)
                .fix(format!("write \"{text}\""))
                .edit = context.with_value(set, &format!("\"{text}\""));
        } else if !known.is_empty() && !known.iter().any(|word| word.eq_ignore_ascii_case(bare)) {
            let what = format!("`+{name}` cannot be \"{bare}\"");
            report
                .add(&rules::BAD_SITE_VALUE, set.line, what)
                .fix(format!("write one of {}", known.join(", ")));
        }
    }
}

/// Checks when outputs and checkpoints are sent.
fn transfer(context: &Context<'_>, report: &mut FileFindings) {
    let lists = context.submit.get("transfer_output_files");
    let evict = context
        .value("when_to_transfer_output")
        .filter(|(_, value)| value.text.trim().eq_ignore_ascii_case("ON_EXIT_OR_EVICT"));
    if let (Some((set, _)), Some(_)) = (&evict, lists) {
        let what = "ON_EXIT_OR_EVICT is used with `transfer_output_files`";
        report.add(&rules::EVICT_WITH_OUTPUTS, set.line, what);
    }
    let needed = context
        .value("should_transfer_files")
        .filter(|(_, value)| value.text.trim().eq_ignore_ascii_case("IF_NEEDED"));
    if let (Some((set, _)), Some(_)) = (&needed, &evict) {
        report
            .add(
                &rules::BAD_WORD,
                set.line,
                "`should_transfer_files = IF_NEEDED` with ON_EXIT_OR_EVICT",
            )
            .fix("write `should_transfer_files = YES`")
            .edit = context.with_value(set, "YES");
    }
    let old = context.submit.attribute("SuccessCheckpointExitCode");
    if let Some(set) = old.filter(|_| context.submit.attribute("WantFTOnCheckpoint").is_none()) {
        report
            .add(
                &rules::CHECKPOINT_NOT_SENT,
                set.line,
                "`+SuccessCheckpointExitCode` alone does not save checkpoints",
            )
            .edit = checkpoint_command(set);
    }
    let code = context.submit.get("checkpoint_exit_code");
    if let Some(set) = code.filter(|_| context.submit.get("transfer_checkpoint_files").is_none()) {
        report.add(
            &rules::CHECKPOINT_FILES,
            set.line,
            "`checkpoint_exit_code` is set, but `transfer_checkpoint_files` is not",
        );
    }
}

fn checkpoint_command(set: &Set) -> Option<Edit> {
    (set.form == SetForm::Plain).then(|| Edit {
        line: set.line,
        count: set.count,
        lines: vec![format!("checkpoint_exit_code = {}", set.value)],
    })
}
