//! `gular job new`.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use gular_jobs::write::{Folder, Order, Parameters, Select, Site, Stages, Written, write};
use serde_json::json;

use super::data::{self, FetchArg};
use super::image::Asked;
use super::plan::seconds;
use crate::exit::{Exit, Failure};
use crate::network::Access;
use crate::shared::Output;
use crate::{show, units};

/// Write a job's folder: submit file or batch script, wrapper, README
///
/// DIR is made, with all that the batch system reads: nothing is submitted. Behind `--` is the
/// command: `{data}` is where the data is, `{NAME}` a parameter of `--sweep`. Files of this folder
/// that the command names are copied and travel with the job. Everything that the program writes
/// to `output/` comes back.
///
/// With `--data`, HTCondor brings manifest, shards and indexes, and the program finds them in its
/// own folder, `.`; where they are more than a job's disk, the job fetches them. On Slurm they
/// are fetched once, before.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  gular job new run1 --site ospool --image osdf:///lab/train-v3.sif --gpus 1 -- python3 train.py")]
pub(super) struct NewArgs {
    /// The folder to make; its name is the job's
    dir: PathBuf,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
    /// ospool, chtc, jsc, slurm or generic (HTCondor) [default: generic]
    ///
    /// Of the others, chtc is CHTC in Madison, jsc a machine in Jülich, slurm any with Slurm.
    #[arg(long, value_enum, default_value_t = SiteArg::Generic, hide_default_value = true, hide_possible_values = true)]
    site: SiteArg,
    /// The container image: osdf:///….sif, docker://…, or a file
    ///
    /// A .sif, or for Slurm also an OCI layout or archive. Its size is counted as disk; one that
    /// `gular image build` made says by its labels which GPUs and drivers it needs.
    #[arg(long, value_name = "IMAGE")]
    image: Option<String>,
    /// The image's size, where it cannot be seen here
    #[arg(long, value_name = "SIZE", value_parser = units::bytes, hide_short_help = true)]
    image_size: Option<u64>,
    /// What the image needs, a file of `gular image export facts`: size, capability, CUDA
    #[arg(long, value_name = "FILE", requires = "image", hide_short_help = true)]
    facts: Option<PathBuf>,
    /// The bundle, as `gular publish` prints it: URL#blake3=…
    #[arg(long, value_name = "URL")]
    data: Option<String>,
    /// Who brings the data: `batch` (HTCondor) or `job` [default: batch, if it fits]
    #[arg(long, value_enum, value_name = "WHO", hide_short_help = true)]
    fetch: Option<FetchArg>,
    /// The parameter that counts parts of the data from 1: a job gets the shards of its part alone
    ///
    /// For `gular-train predict --part {part}/8` and the like: part 3 of 8 is the third eighth of
    /// each split in stored order, give or take a batch (`--batch-size` of the command, or 32).
    /// HTCondor brings each job the indexes of all shards and its own shards.
    #[arg(
        long,
        value_name = "NAME",
        requires = "data",
        requires = "sweep",
        hide_short_help = true
    )]
    shards_by: Option<String>,
    /// Another file that travels with the job; may be repeated. A Python wheel is unpacked in the
    /// job, for its programs to import
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    input: Vec<PathBuf>,
    /// Told to stop, the program saves to DIR and ends with 85
    #[arg(long, value_name = "DIR")]
    checkpoint: Option<String>,
    /// A job for each value: `lr=1e-3,3e-4` or `seed=1..8`
    ///
    /// May be repeated: one job for each combination. `{NAME}` in the command is the value.
    #[arg(long, value_name = "NAME=VALUES")]
    sweep: Vec<String>,
    /// A command for the output of each job of a sweep, which is in `{trained}`
    ///
    /// The last line that it prints is a JSON object of numbers. Writes a DAG.
    #[arg(long, value_name = "COMMAND", requires = "sweep", hide_short_help = true)]
    evaluate: Option<String>,
    /// Pick the job with the best evaluation: `accuracy`, or `min:loss` for the lowest
    #[arg(long, value_name = "METRIC", requires = "evaluate", hide_short_help = true)]
    select: Option<String>,
    /// A command for the output of all jobs of a sweep: `{each}/FILE` becomes each job's FILE
    ///
    /// Writes a DAG.
    #[arg(long, value_name = "COMMAND", requires = "sweep", hide_short_help = true)]
    merge: Option<String>,
    /// Cores of each process
    #[arg(long, value_name = "N", default_value = "1", hide_short_help = true, value_parser = clap::value_parser!(u64).range(1..=4096))]
    cpus: u64,
    /// Memory
    #[arg(long, value_name = "SIZE", default_value = "4GB", value_parser = units::bytes)]
    memory: u64,
    /// What the program keeps in /dev/shm, which counts as memory
    #[arg(long, value_name = "SIZE", value_parser = units::bytes, hide_short_help = true)]
    shm: Option<u64>,
    /// What the program writes to disk
    #[arg(
        long,
        value_name = "SIZE",
        default_value = "2GB",
        value_parser = units::bytes,
        hide_short_help = true
    )]
    disk: u64,
    /// GPUs on each node
    #[arg(long, value_name = "N", default_value = "0", value_parser = clap::value_parser!(u64).range(0..=64))]
    gpus: u64,
    /// Memory that a GPU must have
    #[arg(long, value_name = "SIZE", value_parser = units::bytes, hide_short_help = true)]
    gpu_memory: Option<u64>,
    /// Compute capability that a GPU must have, such as 8.0
    #[arg(long, value_name = "X.Y", value_parser = version, hide_short_help = true)]
    capability: Option<String>,
    /// CUDA version that the driver must support, such as 12.4
    #[arg(long, value_name = "X.Y", value_parser = version, hide_short_help = true)]
    cuda: Option<String>,
    /// How long one run may take
    #[arg(long, value_name = "TIME", default_value = "10h", value_parser = seconds)]
    time: f64,
    /// Nodes, for Slurm
    #[arg(long, value_name = "N", default_value = "1", hide_short_help = true, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    nodes: u64,
    /// Processes on each node, for Slurm
    #[arg(long, value_name = "N", default_value = "1", hide_short_help = true, value_parser = clap::value_parser!(u64).range(1..=4096))]
    tasks: u64,
    /// Slurm's account
    #[arg(long, value_name = "NAME", hide_short_help = true)]
    account: Option<String>,
    /// Slurm's partition
    #[arg(long, value_name = "NAME", hide_short_help = true)]
    partition: Option<String>,
    /// The data must stay on the site's own machines
    #[arg(long, hide_short_help = true)]
    stay: bool,
    /// The pool's service that has tokens for data that is not public, such as `igwn`
    ///
    /// HTCondor asks you once for a token, keeps it fresh, and gives it to the job.
    #[arg(long, value_name = "SERVICE", hide_short_help = true)]
    credentials: Option<String>,
    /// Show the files and write nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    access: Access,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum SiteArg {
    /// The OSPool
    Ospool,
    /// CHTC in Madison
    Chtc,
    /// Jülich's machines, with Slurm
    Jsc,
    /// Any pool of HTCondor
    Generic,
    /// Any machine with Slurm
    Slurm,
}

impl From<SiteArg> for Site {
    fn from(site: SiteArg) -> Self {
        match site {
            SiteArg::Ospool => Self::Ospool,
            SiteArg::Chtc => Self::Chtc,
            SiteArg::Jsc => Self::Jsc,
            SiteArg::Generic => Self::Generic,
            SiteArg::Slurm => Self::Slurm,
        }
    }
}

/// Commands of the stages, in words.
struct Later {
    evaluate: Option<Vec<String>>,
    merge: Option<Vec<String>>,
}

impl Later {
    fn of(args: &NewArgs) -> Result<Self, Failure> {
        Ok(Self {
            evaluate: args.evaluate.as_deref().map(words).transpose()?,
            merge: args.merge.as_deref().map(words).transpose()?,
        })
    }
}

/// Splits a command as a shell does.
fn words(command: &str) -> Result<Vec<String>, Failure> {
    shlex::split(command).ok_or_else(|| {
        let message = format!("`{command}` has a quote that does not end, or ends with `\\`");
        Failure::new(message, Some("quote it as for a shell".to_owned()))
    })
}

pub(super) fn run(args: &NewArgs, output: &Output) -> Result<Exit, Failure> {
    let later = Later::of(args)?;
    let sources = sources(args, &later)?;
    let order = order(args, &later, &sources)?;
    let folder =
        write(&order).map_err(|refusal| Failure::new(&refusal, Some(refusal.fix.clone())))?;
    finish(&args.dir, &folder, &sources, args.dry_run, output)
}

/// Writes the folder, or shows what would be in it.
pub(super) fn finish(
    dir: &Path,
    folder: &Folder,
    sources: &[Source],
    dry_run: bool,
    output: &Output,
) -> Result<Exit, Failure> {
    if !dry_run {
        make(dir, folder, sources)?;
    }
    if output.json {
        let files: Vec<_> = folder
            .files
            .iter()
            .map(|file| json!({ "name": file.name, "text": file.text }))
            .collect();
        show::json(
            &json!({ "dir": dir, "files": files, "notes": folder.notes, "dry_run": dry_run }),
        )?;
    } else if dry_run {
        show::text(&shown(folder))?;
    } else if !output.quiet {
        show::text(&made(dir, folder))?;
    }
    Ok(Exit::Done)
}

/// A file that travels: where it is, its name in the job, its length.
pub(super) struct Source {
    pub(super) path: PathBuf,
    pub(super) name: String,
    pub(super) bytes: u64,
}

/// Files that are named with `--input`, and those of the command that are here.
fn sources(args: &NewArgs, later: &Later) -> Result<Vec<Source>, Failure> {
    let mut found: Vec<Source> = Vec::new();
    let named = args.input.iter().map(|path| (path.clone(), true));
    let later = [&later.evaluate, &later.merge].into_iter().flatten().flatten();
    let words = args.command.iter().chain(later).map(|word| (PathBuf::from(word), false));
    for (path, wanted) in named.chain(words) {
        let length = match fs::metadata(&path) {
            Ok(about) if about.is_file() => about.len(),
            Ok(_) if wanted => {
                let hint = "pack it with tar, or publish it";
                return Err(Failure::new(
                    format!("`{}` is a folder", path.display()),
                    Some(hint.to_owned()),
                ));
            }
            Err(error) if wanted => {
                return Err(gular_files::Error::new("read", &path, error).into());
            }
            _ => continue,
        };
        let name =
            path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        // A program of the system, by its path, is not a file of the user.
        if (!wanted && path.is_absolute()) || found.iter().any(|source| source.path == path) {
            continue;
        }
        found.push(Source { path, name, bytes: length });
    }
    Ok(found)
}

fn order(args: &NewArgs, later: &Later, sources: &[Source]) -> Result<Order, Failure> {
    let site = Site::from(args.site);
    let name =
        args.dir.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let image = args
        .image
        .as_deref()
        .map(|image| Asked::look(image, args.image_size, args.facts.as_deref(), site));
    let Asked { image, capability, cuda } = image.transpose()?.unwrap_or_default();
    let in_folder = |word: &str| {
        let source = sources.iter().find(|source| source.path == Path::new(word));
        source.map_or_else(
            || word.to_owned(),
            |source| {
                if word.starts_with("./") {
                    format!("./{}", source.name)
                } else {
                    source.name.clone()
                }
            },
        )
    };
    let all = |command: &[String]| command.iter().map(|word| in_folder(word)).collect();
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
    Ok(Order {
        name,
        site,
        command: all(&args.command),
        image,
        data,
        inputs: inputs.collect(),
        checkpoint: args.checkpoint.clone(),
        parameters,
        stages: Stages {
            evaluate: later.evaluate.as_deref().map(all),
            select: args.select.as_deref().map(select),
            merge: later.merge.as_deref().map(all),
        },
        cpus: args.cpus,
        memory_bytes: args.memory,
        shm_bytes: args.shm.unwrap_or(0),
        scratch_bytes: args.disk,
        gpus: args.gpus,
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
        shared: false,
    })
}

/// Whether a file is a Python program with a line that imports the package.
fn imports_gular(source: &Source) -> bool {
    const MAX_BYTES: u64 = 1 << 20;
    let is_program = source.name.ends_with(".py") && source.bytes <= MAX_BYTES;
    let text = is_program.then(|| fs::read_to_string(&source.path).ok()).flatten();
    let imports = |line: &str| {
        let line = line.trim_start();
        ["import gular", "from gular "].iter().any(|start| line.starts_with(start))
    };
    text.is_some_and(|text| text.lines().any(imports))
}

/// All combinations of `name=a,b` and `name=1..8`.
fn parameters(sweep: &[String]) -> Result<Option<Parameters>, Failure> {
    let wrong = |text: &str| {
        let hint = "write `--sweep lr=1e-3,3e-4` or `--sweep seed=1..8`";
        Failure::new(format!("`{text}` is not a parameter with values"), Some(hint.to_owned()))
    };
    let mut names = Vec::new();
    let mut rows: Vec<Vec<String>> = vec![Vec::new()];
    for text in sweep {
        let (name, values) = text
            .split_once('=')
            .filter(|(_, values)| !values.is_empty())
            .ok_or_else(|| wrong(text))?;
        let range = values
            .split_once("..")
            .and_then(|(from, to)| Some((from.parse::<i64>().ok()?, to.parse::<i64>().ok()?)));
        let values: Vec<String> = match range {
            Some((from, to)) if from <= to && to - from < 100_000 => {
                (from..=to).map(|n| n.to_string()).collect()
            }
            Some(_) => return Err(wrong(text)),
            None => values.split(',').map(|value| value.trim().to_owned()).collect(),
        };
        if rows.len().saturating_mul(values.len()) > 100_000 {
            return Err(Failure::new(
                "more than 100000 jobs",
                Some("sweep fewer values".to_owned()),
            ));
        }
        let name = name.trim().to_owned();
        if names.contains(&name) {
            let message = format!("the parameter `{name}` is swept twice");
            let hint = format!("write all its values at once, as in `--sweep {name}=1,2,3`");
            return Err(Failure::new(message, Some(hint)));
        }
        names.push(name);
        let with = |row: &Vec<String>, value: &String| {
            [row.as_slice(), std::slice::from_ref(value)].concat()
        };
        rows =
            rows.iter().flat_map(|row| values.iter().map(move |value| with(row, value))).collect();
    }
    Ok((!names.is_empty()).then_some(Parameters { names, rows }))
}

/// `accuracy`, `max:accuracy`, `min:loss`
fn select(text: &str) -> Select {
    let (lowest, metric) = match text.split_once(':') {
        Some(("min", metric)) => (true, metric),
        Some(("max", metric)) => (false, metric),
        _ => (false, text),
    };
    Select { metric: metric.to_owned(), lowest }
}

/// Writes the folder, which must not be there.
fn make(dir: &Path, folder: &Folder, sources: &[Source]) -> Result<(), Failure> {
    let failed = |action, path: &Path, e| Failure::from(gular_files::Error::new(action, path, e));
    if let Some(parent) = dir.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        fs::create_dir_all(parent).map_err(|e| failed("create", parent, e))?;
    }
    fs::create_dir(dir).map_err(|e| {
        let mut failure = failed("create", dir, e);
        if dir.exists() {
            let hint = "nothing is overwritten: name a new folder";
            failure =
                Failure::new(format!("`{}` exists already", dir.display()), Some(hint.to_owned()));
        }
        failure
    })?;
    for name in &folder.folders {
        let path = dir.join(name);
        fs::create_dir(&path).map_err(|e| failed("create", &path, e))?;
    }
    for source in sources {
        let to = dir.join(&source.name);
        fs::copy(&source.path, &to).map_err(|e| failed("copy to", &to, e))?;
    }
    for Written { name, text, executable } in &folder.files {
        let path = dir.join(name);
        let mode = if *executable { 0o755 } else { 0o644 };
        let mut temp = gular_files::temp_with_mode(dir, mode)?;
        temp.write_all(text.as_bytes()).map_err(|e| failed("write", &path, e))?;
        gular_files::persist(temp, &path)?;
    }
    Ok(())
}

fn shown(folder: &Folder) -> String {
    let mut text = String::new();
    for file in &folder.files {
        let _ = write!(text, "== {}\n{}\n", file.name, file.text);
    }
    text
}

fn made(dir: &Path, folder: &Folder) -> String {
    let mut text = String::new();
    for note in &folder.notes {
        let _ = writeln!(text, "note: {note}");
    }
    let first = folder.files.first().map_or("", |file| file.name.as_str());
    let has = |name: &str| folder.files.iter().any(|file| file.name == name);
    let (lint, submit) = match first.rsplit_once('.').map_or("", |(_, end)| end) {
        "sub" => (first, format!("condor_submit {first}")),
        "dag" => (first, format!("condor_submit_dag {first}")),
        _ if has("submit.sh") => ("*.sbatch", "sh submit.sh".to_owned()),
        _ => (first, format!("sbatch {first}")),
    };
    let _ = writeln!(text, "next: cd {} && gular job lint {lint} && {submit}", dir.display());
    text
}

/// `8.0`
fn version(text: &str) -> Result<String, String> {
    let right = text.split('.').count() <= 2
        && text.split('.').all(|part| {
            !part.is_empty() && part.len() < 4 && part.chars().all(|c| c.is_ascii_digit())
        });
    if right { Ok(text.to_owned()) } else { Err(format!("`{text}` is not a version such as 8.0")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_split_as_a_shell_does() {
        assert_eq!(
            words("python3 'my eval.py' --title \"a b\"").unwrap(),
            ["python3", "my eval.py", "--title", "a b"]
        );
        assert!(words("python3 'eval.py").is_err());
    }

    #[test]
    fn a_sweep_has_every_combination() {
        let sweep = |texts: &[&str]| {
            parameters(&texts.iter().map(|&text| text.to_owned()).collect::<Vec<_>>())
        };
        let found = sweep(&["lr=1e-3,3e-4", "seed=1..2"]).unwrap().unwrap();
        assert_eq!(found.names, ["lr", "seed"]);
        let rows: Vec<String> = found.rows.iter().map(|row| row.join(" ")).collect();
        assert_eq!(rows, ["1e-3 1", "1e-3 2", "3e-4 1", "3e-4 2"]);
        assert!(sweep(&[]).unwrap().is_none());
        for bad in ["lr", "lr=", "seed=5..1", "seed=1..9999999"] {
            assert!(sweep(&[bad]).is_err(), "{bad}");
        }
        assert!(sweep(&["lr=1", "lr=2"]).is_err());
    }
}
