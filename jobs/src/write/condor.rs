//! Writes the submit file.

use std::fmt::Write as _;

use super::{Data, Fetch, JobSpec, JobStage, Runs, SHARDS, Site, dag, shell_command};
use crate::units::request;

/// Disk for an image of unknown size.
const IMAGE_BYTES: u64 = 10 << 30;
/// Disk for logs and other small files.
const SPARE_BYTES: u64 = 1 << 30;

pub(super) fn submit_file(spec: &JobSpec, stage: &JobStage<'_>) -> String {
    let in_dag = JobStage::in_dag(spec);
    let mut text = format!(
        "# Written by `gular job new`; `gular job lint {}` checks it after a change.\n",
        super::job_file(spec)
    );
    let mut line = |name: &str, value: &str| {
        let _ = writeln!(text, "{name} = {value}");
    };
    match &spec.image {
        Some(image) => {
            line("universe", "container");
            line("container_image", &image.source);
        }
        None => line("universe", "vanilla"),
    }
    line("executable", &stage.wrapper());
    let of = (stage.runs == Runs::Evaluate).then(|| "$(of)".to_owned());
    let names = spec.parameters.iter().flat_map(|parameters| &parameters.names);
    let names = names.filter(|_| stage.runs != Runs::Merge).map(|name| format!("$({name})"));
    let words: Vec<String> = of.into_iter().chain(names).collect();
    if !words.is_empty() {
        line("arguments", &words.join(" "));
    }
    line("request_cpus", &spec.cpus.to_string());
    if let Some(bytes) = stage.memory_bytes(spec) {
        line("request_memory", &request(bytes));
    }
    if let Some(bytes) = spec.retry_memory_bytes.filter(|_| stage.runs == Runs::Jobs) {
        line("retry_request_memory", &request(bytes.saturating_add(spec.shm_bytes)));
    }
    line("request_disk", &request(disk(spec, stage)));
    let gpus = stage.gpus(spec);
    if gpus > 0 {
        line("request_gpus", &gpus.to_string());
        if let Some(capability) = &spec.capability {
            line("gpus_minimum_capability", capability);
        }
        if let Some(bytes) = spec.gpu_memory_bytes {
            line("gpus_minimum_memory", &request(bytes));
        }
        if let Some(cuda) = &spec.cuda {
            line("gpus_minimum_runtime", cuda);
        }
    }
    site(spec, stage, &mut line);
    let requirements = requirements(spec, stage);
    if !requirements.is_empty() {
        line("requirements", &requirements.join(" && "));
    }
    if let Some(service) = &spec.credentials {
        // HTCondor asks for a token at the first submission, and keeps it fresh in the job.
        line("use_oauth_services", service);
    }
    let mut inputs: Vec<&str> = spec.inputs.iter().map(|(name, _)| name.as_str()).collect();
    inputs.extend(spec.input_urls.iter().map(String::as_str));
    let results = dag::results(spec);
    match stage.runs {
        Runs::Jobs => {}
        Runs::Evaluate => inputs.push("results/$(of).tar"),
        Runs::Merge if spec.shared => {}
        Runs::Merge => inputs.extend(results.iter().map(String::as_str)),
    }
    let own = format!("$({SHARDS})");
    if let Some(data) = stage.data(spec).filter(|data| data.fetch == Fetch::Batch) {
        let files: &[String] =
            if stage.runs == Runs::Merge { &data.files } else { data.of_job().0 };
        inputs.extend(files.iter().map(String::as_str));
        inputs
            .extend(data.shares.iter().filter(|_| stage.runs != Runs::Merge).map(|_| own.as_str()));
    }
    if !inputs.is_empty() {
        line("transfer_input_files", &inputs.join(", "));
    }
    line("should_transfer_files", "YES");
    line("when_to_transfer_output", "ON_EXIT");
    // The job sends one file, which always exists, under a name of its own.
    let name = match in_dag {
        true => "$(JOB)".to_owned(),
        false => format!("{}-$(Cluster)-$(Process)", spec.name),
    };
    if stage.runs == Runs::Evaluate {
        line("transfer_output_files", "results.tar, evaluation.json");
        line(
            "transfer_output_remaps",
            &format!("\"results.tar = results/{name}.tar; evaluation.json = results/{name}.json\""),
        );
    } else {
        line("transfer_output_files", "results.tar");
        line("transfer_output_remaps", &format!("\"results.tar = results/{name}.tar\""));
    }
    if let Some(folder) = spec.checkpoint.as_ref().filter(|_| stage.runs == Runs::Jobs) {
        line("checkpoint_exit_code", "85");
        let files = if folder == "output" { folder.clone() } else { format!("{folder}, output") };
        line("transfer_checkpoint_files", &files);
    }
    // In a DAG the nodes are tried again; with both, the numbers would multiply.
    if !in_dag {
        line("max_retries", "3");
    }
    line("log", "logs/$(Cluster).log");
    let said = if in_dag { "$(JOB)-$(Cluster)" } else { "$(Cluster)-$(Process)" };
    line("output", &format!("logs/{said}.out"));
    line("error", &format!("logs/{said}.err"));
    for extra in &spec.lines {
        text.push_str(&extra.written(""));
    }
    match &spec.parameters {
        Some(parameters) if !in_dag => {
            let shares = spec.data.as_ref().filter(|data| data.shares.is_some());
            let shards = shares.map(|_| SHARDS);
            let names: Vec<&str> =
                parameters.names.iter().map(String::as_str).chain(shards).collect();
            let _ = writeln!(text, "queue {} from parameters.txt", names.join(", "));
        }
        _ => text.push_str("queue\n"),
    }
    text
}

fn site(spec: &JobSpec, stage: &JobStage<'_>, line: &mut impl FnMut(&str, &str)) {
    match spec.site {
        Site::Ospool => {
            let length = if spec.hours > 20.0 { "\"Long\"" } else { "\"Medium\"" };
            line("+JobDurationCategory", length);
        }
        Site::Chtc => {
            if stage.gpus(spec) > 0 {
                line("+WantGPULab", "true");
                let length = if spec.hours <= 12.0 {
                    "\"short\""
                } else if spec.hours <= 24.0 {
                    "\"medium\""
                } else {
                    "\"long\""
                };
                line("+GPUJobLength", length);
            }
            if spec.checkpoint.is_some() && stage.runs == Runs::Jobs {
                line("+is_resumable", "true");
            }
            if spec.stay {
                line("+WantFlocking", "false");
                line("+WantGlidein", "false");
            }
        }
        _ => {}
    }
}

/// What a machine must have beside the numbers that are asked for.
fn requirements(spec: &JobSpec, stage: &JobStage<'_>) -> Vec<String> {
    let staging = spec.shared || stage.data(spec).is_some_and(Data::is_on_staging);
    let staging =
        (spec.site == Site::Chtc && staging).then(|| "(TARGET.HasCHTCStaging == true)".to_owned());
    let level = spec.cpu_level.map(|level| format!("(TARGET.Microarch >= \"x86_64-v{level}\")"));
    staging.into_iter().chain(level).collect()
}

/// Image, inputs, data and what is written, with a tenth to spare.
pub(super) fn disk(spec: &JobSpec, stage: &JobStage<'_>) -> u64 {
    let image = spec.image.as_ref().map_or(0, |image| image.bytes.unwrap_or(IMAGE_BYTES));
    let inputs: u64 = spec.inputs.iter().map(|(_, bytes)| *bytes).sum();
    let data = stage.data(spec).map_or(0, |data| match stage.runs {
        Runs::Merge => data.bytes,
        _ => data.of_job().1,
    });
    // Results are packed into one file beside what was written.
    let mut written = spec.scratch_bytes.saturating_mul(2);
    // The results of other jobs, packed and unpacked.
    written = written.saturating_mul(match stage.runs {
        Runs::Jobs => 1,
        Runs::Evaluate => 2,
        Runs::Merge if spec.shared => 1,
        Runs::Merge => 1 + dag::n_jobs(spec) as u64,
    });
    let sum = image
        .saturating_add(inputs)
        .saturating_add(data)
        .saturating_add(written)
        .saturating_add(SPARE_BYTES);
    sum.saturating_add(sum / 10)
}

/// The command, as it is run in the job's folder.
pub(super) fn command(spec: &JobSpec, stage: &JobStage<'_>) -> String {
    let data = match &spec.data {
        None => "",
        Some(data) if data.fetch == Fetch::Batch => ".",
        Some(_) => "data",
    };
    let command = stage.words(spec, |i| format!("all/job{i}/output"));
    shell_command(spec, &command, &[("{data}", data), ("{trained}", "trained/output")])
}
