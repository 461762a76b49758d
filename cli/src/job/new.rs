//! `gular job new`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use clap::Args;
use gular_jobs::write::{Fetch, JobLine, JobSpec, Parameters, Site, Stages, write};

use super::data;
use super::folder::finish;
use super::image::Asked;
use super::plan::seconds;
use super::site_file::SiteFile;
use super::sources::{
    Source, absent, imports_gular, left_here, not_in_image, of_machine, option_value, sources,
};
use super::sweep::{parameters, select, words};
use crate::exit::{Exit, Failure};
use crate::named::described;
use crate::network::Access;
use crate::shared::Output;
use crate::units;

/// What the help says of `--site`.
pub(super) const SITES: &[&str] = &[
    "The OSPool",
    "CHTC in Madison",
    "Jülich's machines, with Slurm",
    "Any pool of HTCondor",
    "Any machine with Slurm",
];
/// What the help says of `--fetch`.
const FETCHES: &[&str] = &["HTCondor, before the job starts", "The job, by `gular`"];

/// Write a job's folder: submit file or batch script, wrapper, README
///
/// DIR is made, with all that the batch system reads; nothing is submitted. The command follows
/// `--`: in it, `{data}` is where the data is, `{NAME}` a parameter of `--sweep`. Files in the
/// current folder that the command names are copied and travel with the job. Everything that the
/// program writes to `output/` comes back.
///
/// With `--data`, HTCondor brings manifest, shards and indexes, and the program finds them in its
/// own folder, `.`; if they are many or large (see `--fetch`), the job fetches them itself. On
/// Slurm you fetch them once, before the job starts.
#[derive(Debug, Args)]
#[command(
    next_help_heading = "Site and files",
    after_help = "\
Example:
  gular job new run1 --site ospool --image osdf:///lab/train-v3.sif --gpus 1 -- python3 train.py"
)]
pub(super) struct NewArgs {
    /// The folder to make; its name becomes the job's name
    #[arg(help_heading = None)]
    dir: PathBuf,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND", help_heading = None)]
    command: Vec<String>,
    /// ospool, chtc, jsc, slurm, or generic (any HTCondor) [default: generic]
    ///
    /// `ospool`: the OSPool. `chtc`: CHTC in Madison. `jsc`: a machine in Jülich, with Slurm.
    /// `slurm`: any other machine with Slurm. `generic`: any other HTCondor pool.
    #[arg(long, value_parser = described::<Site>(SITES), default_value = "generic", hide_default_value = true, hide_possible_values = true)]
    site: Site,
    /// The container image: osdf:///….sif, docker://…, or a file
    ///
    /// A .sif, or for Slurm also an OCI layout or archive. Its size is counted as disk; one that
    /// `gular image build` made says by its labels which GPUs and drivers it needs.
    #[arg(long, value_name = "IMAGE", help_heading = "Data and image")]
    image: Option<String>,
    /// The image's size, if --image is a URL: it is counted as disk
    #[arg(long, value_name = "SIZE", value_parser = units::request, requires = "image", help_heading = "Data and image")]
    image_size: Option<u64>,
    /// A file from `gular image export facts`
    ///
    /// It has the image's size, GPU capability and CUDA version.
    #[arg(long, value_name = "FILE", requires = "image", help_heading = "Data and image")]
    facts: Option<PathBuf>,
    /// The bundle: URL#blake3=…, as `gular publish` prints it, or a folder
    #[arg(long, value_name = "URL", help_heading = "Data and image")]
    data: Option<String>,
    /// HTCondor: who fetches data, `batch` or `job`
    ///
    /// [default: batch; job if large]
    ///
    /// `batch`: HTCondor, before the job starts. `job`: the job itself, with `gular`. Large: one job needs more than 2000 files, or more than 200 GiB of data and `--disk` together.
    /// On Slurm you fetch the data yourself, before the job starts.
    #[arg(
        long,
        value_parser = described::<Fetch>(FETCHES),
        value_name = "WHO",
        requires = "data",
        help_heading = "Data and image",
        hide_possible_values = true
    )]
    fetch: Option<Fetch>,
    /// The --sweep parameter that numbers parts of the data
    ///
    /// From 1; a job gets only its part.
    /// For `gular-train predict --part {part}/8` and the like. HTCondor brings each job the indexes
    /// of all shards, but only the shards of its part: for part 3 of 8, the shards that hold the
    /// third eighth of each split, in stored order, plus up to one batch before and after it. A
    /// batch is the command's `--batch-size`, or 32.
    #[arg(
        long,
        value_name = "NAME",
        requires = "data",
        requires = "sweep",
        help_heading = "Data and image"
    )]
    shards_by: Option<String>,
    /// Another file, folder or URL for the job; may be repeated
    ///
    /// A URL such as osdf:///…, https://… or file:///staging/… is fetched by HTCondor; the program
    /// finds the file by its name in the job's folder. Its size is not known: add it to `--disk`.
    /// A Python wheel is unpacked in the job, where programs can import it. If a Python program
    /// imports modules from its own folder, these travel too, without being named.
    #[arg(long, value_name = "FILE", help_heading = "Data and image")]
    input: Vec<PathBuf>,
    /// Where your program saves when told to stop
    ///
    /// It must then exit with 85.
    /// SIGTERM tells it to stop. HTCondor sends SIGTERM every hour (`--every`): DIR is then copied
    /// to the access point, and the program starts again. A job that is evicted goes back to the
    /// last copy. Slurm sends it before the end of `--time`: DIR stays where it is, and the job is
    /// queued again.
    #[arg(long, value_name = "DIR", help_heading = "Checkpoints and sweeps")]
    checkpoint: Option<String>,
    /// How often the program must save to DIR on HTCondor [default: 1h]
    ///
    /// An eviction loses the work since the last save. Each save costs a start of the program.
    #[arg(long, value_name = "TIME", requires = "checkpoint", value_parser = seconds, help_heading = "Checkpoints and sweeps")]
    every: Option<f64>,
    /// A job for each value: `lr=1e-3,3e-4` or `seed=1..8`
    ///
    /// May be repeated: one job for each combination. `{NAME}` in the command is the value.
    #[arg(long, value_name = "NAME=VALUES", help_heading = "Checkpoints and sweeps")]
    sweep: Vec<String>,
    /// Command to run on the output of each job of a sweep
    ///
    /// `{trained}` is its folder.
    /// The last line that it prints is a JSON object of numbers. Writes a DAG.
    #[arg(
        long,
        value_name = "COMMAND",
        requires = "sweep",
        help_heading = "Checkpoints and sweeps"
    )]
    evaluate: Option<String>,
    /// GPUs of each evaluation [default: 0]
    #[arg(long, value_name = "N", requires = "evaluate", value_parser = clap::value_parser!(u64).range(0..=64), help_heading = "Checkpoints and sweeps")]
    evaluate_gpus: Option<u64>,
    /// Pick the best job by `accuracy`, or by `min:loss`
    ///
    /// `min:` picks the lowest value.
    #[arg(
        long,
        value_name = "METRIC",
        requires = "evaluate",
        help_heading = "Checkpoints and sweeps"
    )]
    select: Option<String>,
    /// Command to run once, on the output of all jobs
    ///
    /// `{each}/FILE` becomes FILE of every job.
    /// Writes a DAG.
    #[arg(
        long,
        value_name = "COMMAND",
        requires = "sweep",
        help_heading = "Checkpoints and sweeps"
    )]
    merge_command: Option<String>,
    /// Cores of each process
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u64).range(1..=4096), help_heading = "Resources")]
    cpus: u64,
    /// Memory of the job (on Slurm: of each node) [default: 4GB; jsc: all]
    ///
    /// All processes of the node share it. Counted as HTCondor and Slurm do: 1GB is 1024MB. At JSC
    /// a job has whole nodes.
    #[arg(long, value_name = "SIZE", value_parser = units::request, help_heading = "Resources")]
    memory: Option<u64>,
    /// HTCondor: memory for another try, if the job needed more than --memory
    ///
    /// For HTCondor 25.2 and newer; older versions hold the job, as without it.
    #[arg(long, value_name = "SIZE", value_parser = units::request, help_heading = "Resources")]
    retry_memory: Option<u64>,
    /// Level of x86-64 that the CPU must have, such as 3
    ///
    /// Programs that were built for newer CPUs end with "illegal instruction" on older ones. Level 3
    /// has AVX2, level 4 AVX-512.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=4), help_heading = "Resources")]
    cpu_level: Option<u64>,
    /// What the program keeps in /dev/shm, which counts as memory
    #[arg(long, value_name = "SIZE", value_parser = units::request, help_heading = "Resources")]
    shm: Option<u64>,
    /// What the program writes to disk
    #[arg(long, value_name = "SIZE", default_value = "2GB", value_parser = units::request, help_heading = "Resources")]
    disk: u64,
    /// GPUs on each node
    #[arg(long, value_name = "N", default_value = "0", value_parser = clap::value_parser!(u64).range(0..=64), help_heading = "Resources")]
    gpus: u64,
    /// Memory that a GPU must have
    #[arg(long, value_name = "SIZE", value_parser = units::request, help_heading = "Resources")]
    gpu_memory: Option<u64>,
    /// Compute capability that a GPU must have, such as 8.0
    #[arg(long, value_name = "X.Y", value_parser = version, help_heading = "Resources")]
    capability: Option<String>,
    /// CUDA version that the driver must support, such as 12.4
    #[arg(long, value_name = "X.Y", value_parser = version, help_heading = "Resources")]
    cuda: Option<String>,
    /// How long the job may run each time it starts
    #[arg(long, value_name = "TIME", default_value = "10h", value_parser = seconds, help_heading = "Resources")]
    time: f64,
    /// Nodes, for Slurm
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u64).range(1..=100_000), help_heading = "Resources")]
    nodes: u64,
    /// Processes on each node, for Slurm
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u64).range(1..=4096), help_heading = "Resources")]
    tasks: u64,
    /// Slurm's account
    #[arg(long, value_name = "NAME")]
    account: Option<String>,
    /// Slurm's partition
    #[arg(long, value_name = "NAME")]
    partition: Option<String>,
    /// The data must stay on the site's own machines
    #[arg(long, help_heading = "Data and image")]
    stay: bool,
    /// The pool's service with tokens for data, such as `igwn`
    ///
    /// HTCondor asks you once for a token, keeps it fresh, and gives it to the job.
    #[arg(long, value_name = "SERVICE", help_heading = "Data and image")]
    credentials: Option<String>,
    /// Another line of the submit file, or option of sbatch; may be repeated
    ///
    /// For HTCondor such as `--line 'accounting_group = lab'` or `--line '+ProjectName = "lab"'`, for
    /// Slurm such as `--line=--qos=normal`.
    #[arg(long = "line", value_name = "LINE")]
    lines: Vec<String>,
    /// A TOML file with your site's lines, each with its page and date
    ///
    /// `[[line]]` with `text`, `page` and `date` is as --line, `[[before]]` a line of the shell before
    /// the program, `master-suffix` what follows the node's name in MASTER_ADDR.
    #[arg(long, value_name = "FILE")]
    site_file: Option<PathBuf>,
    /// Show the files and write nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    access: Access,
}

/// Memory of a job by default.
const MEMORY_BYTES: u64 = 4 << 30;

pub(super) fn run(args: &NewArgs, output: &Output) -> Result<Exit, Failure> {
    let evaluate = args.evaluate.as_deref().map(words).transpose()?;
    let merge = args.merge_command.as_deref().map(words).transpose()?;
    let commands = [Some(&args.command), evaluate.as_ref(), merge.as_ref()];
    let commands: Vec<&[String]> = commands.into_iter().flatten().map(Vec::as_slice).collect();
    let (input_urls, input) = urls(&args.input);
    let filled = filled(parameters(&args.sweep)?.as_ref(), &commands);
    let with_values: Vec<&[String]> = commands.iter().copied().chain([filled.as_slice()]).collect();
    let sources = sources(&input, &with_values)?;
    let absent = absent(&sources, &input_urls, &with_values);
    let left_here = left_here(&sources, &commands);
    let of_machine = of_machine(&commands);
    let stages = Stages { evaluate, select: args.select.as_deref().map(select), merge };
    let spec =
        JobSpec { input_urls, absent, ..spec(args, stages, &sources, left_here, of_machine)? };
    let folder =
        write(&spec).map_err(|refusal| Failure::new(&refusal, Some(refusal.fix.clone())))?;
    finish(&args.dir, &folder, &sources, args.dry_run, output)
}

/// Words of the commands with the values of a sweep, one word for each value: files may be
/// named by them. The first word, which would be a program, is empty.
fn filled(sweep: Option<&Parameters>, commands: &[&[String]]) -> Vec<String> {
    let mut filled = vec![String::new()];
    let Some(sweep) = sweep else { return filled };
    for (at, name) in sweep.names.iter().enumerate() {
        let place = format!("{{{name}}}");
        let words = commands.iter().copied().flatten().filter(|word| word.contains(&place));
        for word in words {
            let values = sweep.rows.iter().filter_map(|row| row.get(at));
            // The job knows the file by its name alone.
            let values = values.filter(|value| !value.contains('/'));
            filled.extend(values.map(|value| word.replace(&place, value)));
        }
    }
    let mut seen = BTreeSet::new();
    filled.retain(|word| seen.insert(word.clone()));
    filled
}

/// URLs among the inputs, and the files.
fn urls(input: &[PathBuf]) -> (Vec<String>, Vec<PathBuf>) {
    let (urls, files): (Vec<&PathBuf>, Vec<&PathBuf>) =
        input.iter().partition(|path| path.to_string_lossy().contains("://"));
    let urls = urls.into_iter().map(|url| url.to_string_lossy().into_owned());
    (urls.collect(), files.into_iter().cloned().collect())
}

fn spec(
    args: &NewArgs,
    stages: Stages,
    sources: &[Source],
    left_here: Vec<String>,
    of_machine: Vec<String>,
) -> Result<JobSpec, Failure> {
    let site = args.site;
    without_effect(args, site)?;
    let name =
        args.dir.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let image = args
        .image
        .as_deref()
        .map(|image| Asked::look(image, args.image_size, args.facts.as_deref(), site));
    let Asked { image, capability, cuda, modules } = image.transpose()?.unwrap_or_default();
    let in_folder = |at: usize, word: &str| {
        let (option, value) = option_value(word);
        let source = sources.iter().find(|source| source.path == Path::new(value));
        let Some(source) = source else { return word.to_owned() };
        // Without a folder, the word would mean a program of the image or the machine.
        let here =
            if value.starts_with("./") || (at == 0 && value.contains('/')) { "./" } else { "" };
        format!("{option}{here}{}", source.name)
    };
    let all = |command: &[String]| {
        command.iter().enumerate().map(|(at, word)| in_folder(at, word)).collect()
    };
    let of_site = args.site_file.as_deref().map(SiteFile::read).transpose()?.unwrap_or_default();
    if of_site.master_suffix.is_some() && !site.is_slurm() {
        let hint = "leave it out of the file: jobs of HTCondor have one node";
        let message = "`master-suffix` has no effect on HTCondor".to_owned();
        return Err(Failure::new(message, Some(hint.to_owned())));
    }
    let of_user = |text: &String| JobLine { text: text.clone(), source: String::new() };
    let lines = args.lines.iter().map(of_user);
    let inputs = sources.iter().map(|source| (source.name.clone(), source.bytes));
    let parameters = parameters(&args.sweep)?;
    let wanted = data::Wanted {
        site,
        fetch: args.fetch,
        scratch_bytes: args.disk,
        parts: args.shards_by.as_deref().zip(parameters.as_ref()),
        command: &args.command,
    };
    let data = args.data.as_ref().map(|url| data::of(url, &wanted, &args.access)).transpose()?;
    Ok(JobSpec {
        name,
        site,
        command: all(&args.command),
        image,
        data,
        inputs: inputs.collect(),
        checkpoint: args.checkpoint.clone(),
        checkpoint_hours: args.every.unwrap_or(3600.0) / 3600.0,
        parameters,
        stages: Stages {
            evaluate: stages.evaluate.as_deref().map(all),
            merge: stages.merge.as_deref().map(all),
            ..stages
        },
        cpus: args.cpus,
        memory_bytes: args.memory.or((site != Site::Jsc).then_some(MEMORY_BYTES)),
        retry_memory_bytes: args.retry_memory,
        cpu_level: args.cpu_level,
        lines: lines.chain(of_site.lines).collect(),
        before: of_site.before,
        master_suffix: of_site.master_suffix,
        shm_bytes: args.shm.unwrap_or(0),
        scratch_bytes: args.disk,
        gpus: args.gpus,
        evaluate_gpus: args.evaluate_gpus.unwrap_or(0),
        gpu_memory_bytes: args.gpu_memory,
        capability: args.capability.clone().or(capability),
        cuda: args.cuda.clone().or(cuda),
        hours: args.time / 3600.0,
        nodes: args.nodes,
        tasks: args.tasks,
        account: args.account.clone(),
        partition: args.partition.clone(),
        stay: args.stay,
        credentials: args.credentials.clone(),
        imports_gular: sources.iter().any(imports_gular),
        not_in_image: modules.map_or_else(Vec::new, |modules| not_in_image(sources, &modules)),
        left_here,
        input_urls: Vec::new(),
        absent: Vec::new(),
        binds: if site.is_slurm() { of_machine } else { Vec::new() },
        shared: false,
    })
}

/// Refuses options that would be taken and change nothing.
fn without_effect(args: &NewArgs, site: Site) -> Result<(), Failure> {
    let has_gpus = args.gpus > 0 || args.evaluate_gpus.unwrap_or(0) > 0;
    let of_gpus = [
        ("--gpu-memory", args.gpu_memory.is_some()),
        ("--capability", args.capability.is_some()),
        ("--cuda", args.cuda.is_some()),
    ];
    let of_condor = [
        ("--every", args.every.is_some()),
        ("--fetch", args.fetch.is_some()),
        ("--image-size", args.image_size.is_some()),
        ("--facts", args.facts.is_some()),
        ("--retry-memory", args.retry_memory.is_some()),
        ("--cpu-level", args.cpu_level.is_some()),
    ];
    let given = |(option, given): &(&'static str, bool)| given.then_some(*option);
    let gpus: Vec<&str> = of_gpus.iter().filter_map(given).collect();
    let condor = of_condor.iter().filter_map(given);
    let (option, why, hint) = if site.is_slurm() {
        let Some(option) = condor.chain(gpus).next() else { return Ok(()) };
        let hint = match option {
            "--every" => {
                "leave it out: on Slurm checkpoints lie on the shared file system, and your program alone decides how often it saves"
            }
            "--fetch" => "leave it out: on Slurm the data is fetched once, before the jobs start",
            "--image-size" | "--facts" => {
                "leave it out: Slurm does not count the size of the image as disk"
            }
            "--retry-memory" => {
                "leave it out: on Slurm submit a job that was killed again, with more memory"
            }
            "--cpu-level" => "choose the CPU by the partition: `--partition NAME`",
            _ => "choose the GPU by the partition: `--partition NAME`",
        };
        (option, "on Slurm", hint)
    } else {
        let Some(option) = gpus.first().filter(|_| !has_gpus) else { return Ok(()) };
        (*option, "without a GPU", "ask for one: `--gpus 1`")
    };
    Err(Failure::new(format!("`{option}` has no effect {why}"), Some(hint.to_owned())))
}

/// Parses a version such as `8.0`.
fn version(text: &str) -> Result<String, String> {
    let right = text.split('.').count() <= 2
        && text.split('.').all(|part| {
            !part.is_empty() && part.len() < 4 && part.chars().all(|c| c.is_ascii_digit())
        });
    if right { Ok(text.to_owned()) } else { Err(format!("`{text}` is not a version such as 8.0")) }
}
