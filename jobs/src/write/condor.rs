//! The submit file.

use std::fmt::Write as _;

use super::{Fetch, Order, Site, shell_command};
use crate::units::request;

/// For an image of unknown size.
const IMAGE_BYTES: u64 = 10 << 30;
/// For logs, and what nobody thinks of.
const SPARE_BYTES: u64 = 1 << 30;

pub(super) fn submit_file(order: &Order) -> String {
    let mut text = format!(
        "# Written by `gular job new`; `gular job lint {0}.sub` checks it after a change.\n",
        order.name
    );
    let mut line = |name: &str, value: &str| {
        let _ = writeln!(text, "{name} = {value}");
    };
    match &order.image {
        Some(image) => {
            line("universe", "container");
            line("container_image", &image.source);
        }
        None => line("universe", "vanilla"),
    }
    line("executable", "run.sh");
    if let Some(parameters) = &order.parameters {
        let words: Vec<String> = parameters.names.iter().map(|name| format!("$({name})")).collect();
        line("arguments", &words.join(" "));
    }
    line("request_cpus", &order.cpus.to_string());
    line("request_memory", &request(order.memory_bytes.saturating_add(order.shm_bytes)));
    line("request_disk", &request(disk(order)));
    if order.gpus > 0 {
        line("request_gpus", &order.gpus.to_string());
        if let Some(capability) = &order.capability {
            line("gpus_minimum_capability", capability);
        }
        if let Some(bytes) = order.gpu_memory_bytes {
            line("gpus_minimum_memory", &request(bytes));
        }
        if let Some(cuda) = &order.cuda {
            line("gpus_minimum_runtime", cuda);
        }
    }
    site(order, &mut line);
    let mut inputs: Vec<&str> = order.inputs.iter().map(|(name, _)| name.as_str()).collect();
    if let Some(data) = order.data.as_ref().filter(|data| data.fetch == Fetch::Batch) {
        inputs.extend(data.files.iter().map(String::as_str));
    }
    if !inputs.is_empty() {
        line("transfer_input_files", &inputs.join(", "));
    }
    line("should_transfer_files", "YES");
    line("when_to_transfer_output", "ON_EXIT");
    // One file that always exists, under a name of its own.
    line("transfer_output_files", "results.tar");
    line(
        "transfer_output_remaps",
        &format!("\"results.tar = results/{}-$(Cluster)-$(Process).tar\"", order.name),
    );
    if let Some(folder) = &order.checkpoint {
        line("checkpoint_exit_code", "85");
        line("transfer_checkpoint_files", &format!("{folder}, output"));
    }
    line("max_retries", "3");
    line("log", "logs/$(Cluster).log");
    line("output", "logs/$(Cluster)-$(Process).out");
    line("error", "logs/$(Cluster)-$(Process).err");
    match &order.parameters {
        Some(parameters) => {
            let _ = writeln!(text, "queue {} from parameters.txt", parameters.names.join(", "));
        }
        None => text.push_str("queue\n"),
    }
    text
}

fn site(order: &Order, line: &mut impl FnMut(&str, &str)) {
    match order.site {
        Site::Ospool => {
            let length = if order.hours > 20.0 { "\"Long\"" } else { "\"Medium\"" };
            line("+JobDurationCategory", length);
        }
        Site::Chtc => {
            if order.gpus > 0 {
                line("+WantGPULab", "true");
                let length = if order.hours <= 12.0 {
                    "\"short\""
                } else if order.hours <= 24.0 {
                    "\"medium\""
                } else {
                    "\"long\""
                };
                line("+GPUJobLength", length);
            }
            if order.checkpoint.is_some() {
                line("+is_resumable", "true");
            }
            if order.stay {
                line("+WantFlocking", "false");
                line("+WantGlidein", "false");
            }
        }
        _ => {}
    }
}

/// Image, inputs, data and what is written, with a tenth to spare.
fn disk(order: &Order) -> u64 {
    let image = order.image.as_ref().map_or(0, |image| image.bytes.unwrap_or(IMAGE_BYTES));
    let inputs: u64 = order.inputs.iter().map(|(_, bytes)| *bytes).sum();
    let data = order.data.as_ref().map_or(0, |data| data.bytes);
    // Results are packed into one file beside what was written.
    let written = order.scratch_bytes.saturating_mul(2);
    let sum = image
        .saturating_add(inputs)
        .saturating_add(data)
        .saturating_add(written)
        .saturating_add(SPARE_BYTES);
    sum.saturating_add(sum / 10)
}

/// The command in the job's folder.
pub(super) fn command(order: &Order) -> String {
    let place = match &order.data {
        None => "",
        Some(data) if data.fetch == Fetch::Batch => ".",
        Some(_) => "data",
    };
    shell_command(order, place)
}
