//! The wrapper that HTCondor starts.

use std::fmt::Write as _;

use super::{Fetch, Order, condor};

pub(super) fn script(order: &Order) -> String {
    let mut text = String::from(
        "#!/bin/bash\n# Started by HTCondor in the job's folder; after a checkpoint again in the same one, with all\n# that the run before left there.\nset -uo pipefail\n",
    );
    if let Some(parameters) = &order.parameters {
        for (i, name) in parameters.names.iter().enumerate() {
            let _ = writeln!(text, "{name}=${{{}}}", i + 1);
        }
    }
    text.push_str("mkdir -p output");
    if let Some(folder) = &order.checkpoint {
        let _ = write!(text, " {folder}");
    }
    text.push('\n');
    if let Some(data) = order.data.as_ref().filter(|data| data.fetch == Fetch::Runtime) {
        let _ = write!(
            text,
            "\n# Resumes an earlier fetch; 75 means that servers are busy, and the job is tried again.\n\
             gular fetch '{}' data || {{\n  code=$?\n  tar -cf results.tar output\n  exit \"$code\"\n}}\n",
            data.url
        );
    }
    if order.image.is_some() {
        text.push_str("export HOME=$PWD\n");
    }
    let command = condor::command(order);
    text.push('\n');
    if order.checkpoint.is_some() {
        let stop = stop_seconds(order);
        let _ = write!(
            text,
            "# Before the limit, and when the job is evicted, the program is told to save; it ends with 85.\n\
             timeout --signal=TERM --preserve-status --kill-after=300 {stop} {command} &\n\
             program=$!\n\
             told=\n\
             trap 'told=1; kill -TERM \"$program\"' TERM\n\
             wait \"$program\"\n\
             code=$?\n\
             # The signal ended `wait` while the program still saves.\n\
             if [ -n \"$told\" ]; then\n  wait \"$program\"\n  code=$?\nfi\n"
        );
    } else {
        let _ = write!(text, "{command}\ncode=$?\n");
    }
    text.push_str("\n# One file that always exists: a listed output that is missing would put the job on hold.\ntar -cf results.tar output\nexit \"$code\"\n");
    text
}

/// When the program is told to stop: a tenth before the end, at most half an hour.
pub(super) fn stop_seconds(order: &Order) -> u64 {
    let seconds = order.hours * 3600.0;
    (seconds - (seconds / 10.0).min(1800.0)).max(60.0) as u64
}
