//! `gular job new`: generates the files of a job as texts.
//!
//! ```text
//! NAME.sub or NAME.sbatch   what the batch system reads
//! run.sh                    the wrapper, safe to run again in the same folder
//! parameters.txt            one line for each job of a sweep
//! README.md                 how to submit, watch and collect
//! logs/ results/            made now: Slurm and older versions of HTCondor make no folders
//! ```
//!
//! With [`Stages`] also `NAME.dag`, and a submit file and a wrapper for each stage; for Slurm a
//! batch script for each, and `submit.sh`.

use serde::Deserialize;

mod accept;
mod condor;
mod dag;
mod readme;
mod select;
mod site;
mod slurm;
mod start;
mod wheels;
mod wrapper;

use std::fmt;

pub use site::Site;
pub(crate) use slurm::apptainer;

/// A job: its command, and its needs.
#[derive(Debug, Clone, PartialEq)]
pub struct JobSpec {
    /// The job's name: letters, digits, `-` and `_`.
    pub name: String,
    /// The site at which the job runs.
    pub site: Site,
    /// The program and its arguments. `{data}` is where the data is, `{lr}` a parameter.
    pub command: Vec<String>,
    /// The container image.
    pub image: Option<JobImage>,
    /// The bundle that the job reads.
    pub data: Option<Data>,
    /// Names of files that travel from the folder, with their bytes.
    pub inputs: Vec<(String, u64)>,
    /// URLs of more inputs, which HTCondor's plug-ins fetch: `osdf:///…`, `file:///staging/…`.
    pub input_urls: Vec<String>,
    /// The folder with checkpoints, for programs that end with 85 when they saved.
    pub checkpoint: Option<String>,
    /// How long the program runs until it has to save, for HTCondor.
    pub checkpoint_hours: f64,
    /// The sweep: names of parameters, and their values for each job.
    pub parameters: Option<Parameters>,
    /// The stages that follow the jobs.
    pub stages: Stages,
    /// Cores of each process.
    pub cpus: u64,
    /// Memory of the job, for Slurm on each node, /dev/shm not included; `None` for all that a node
    /// has, where nodes are given as a whole.
    pub memory_bytes: Option<u64>,
    /// Memory with which HTCondor starts a job again that used more than it asked for.
    pub retry_memory_bytes: Option<u64>,
    /// The level of x86-64 that the CPU must have, from 1 to 4.
    pub cpu_level: Option<u64>,
    /// More lines for the submit file, or more options for sbatch.
    pub lines: Vec<JobLine>,
    /// Shell lines that run before the program.
    pub before: Vec<JobLine>,
    /// Text behind the name of the node where ranks meet; `None` for the site's own.
    pub master_suffix: Option<String>,
    /// Bytes that the job keeps in /dev/shm, which counts as memory.
    pub shm_bytes: u64,
    /// Bytes that the program writes to disk.
    pub scratch_bytes: u64,
    /// GPUs on each node.
    pub gpus: u64,
    /// GPUs of each evaluation.
    pub evaluate_gpus: u64,
    /// Memory that a GPU must have.
    pub gpu_memory_bytes: Option<u64>,
    /// Compute capability that a GPU must have, such as `8.0`.
    pub capability: Option<String>,
    /// CUDA version that the driver must support, such as `12.4`.
    pub cuda: Option<String>,
    /// How long the job may run.
    pub hours: f64,
    /// Nodes, for Slurm.
    pub nodes: u64,
    /// Processes on each node, for Slurm.
    pub tasks: u64,
    /// Slurm's account.
    pub account: Option<String>,
    /// Slurm's partition.
    pub partition: Option<String>,
    /// The data must stay on the site's own machines.
    pub stay: bool,
    /// A service whose tokens HTCondor keeps for the user, for data that is not public.
    pub credentials: Option<String>,
    /// A program of the command imports Gular's Python package.
    pub imports_gular: bool,
    /// Modules that programs of the command import and the image does not have, each with the program.
    pub not_in_image: Vec<(String, String)>,
    /// Folders of this machine that the command names and that do not travel.
    pub left_here: Vec<String>,
    /// Files that the command seems to read, and that neither are here nor are fetched.
    pub absent: Vec<String>,
    /// Files and folders of this machine that the command names by their whole path, for Slurm:
    /// images have none of them.
    pub binds: Vec<String>,
    /// The command names files by paths that all machines see, and stages need no results sent.
    pub shared: bool,
}

/// A line of a user or a site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobLine {
    /// The line.
    pub text: String,
    /// The page that it rests on and that page's date; empty for lines of the user.
    pub source: String,
}

impl JobLine {
    /// The line with `head`, below a comment with its source.
    fn written(&self, head: &str) -> String {
        match self.source.as_str() {
            "" => format!("{head}{}\n", self.text),
            source => format!("# {source}\n{head}{}\n", self.text),
        }
    }
}

/// One second: `timeout` takes 0 for no limit.
const SHORTEST_RUN_HOURS: f64 = 1.0 / 3600.0;

impl JobSpec {
    /// Hours that the program runs on HTCondor until it is told to save: its interval, or earlier,
    /// a tenth before the end of the job, at most half an hour.
    fn run_hours(&self) -> f64 {
        let before_end = self.hours - (self.hours / 10.0).min(0.5);
        self.checkpoint_hours.min(before_end).max(SHORTEST_RUN_HOURS)
    }
}

impl JobSpec {
    /// Names in `{…}` of the commands that nothing is filled in for.
    fn unknown_places(&self) -> Vec<String> {
        let own = self.parameters.iter().flat_map(|parameters| &parameters.names);
        let known: Vec<&str> = own.map(String::as_str).chain(["data", "trained", "each"]).collect();
        let is_name = |text: &&str| {
            text.starts_with(|c: char| c.is_ascii_alphabetic())
                && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        };
        let words = JobStage::of(self).into_iter().flat_map(|stage| stage.command);
        let places = words.flat_map(|word| word.split('{').skip(1));
        let names = places.filter_map(|rest| rest.split_once('}')).map(|(name, _)| name);
        let mut names: Vec<&str> = names.filter(is_name).filter(|n| !known.contains(n)).collect();
        names.sort_unstable();
        names.dedup();
        names.into_iter().map(str::to_owned).collect()
    }
}

/// A container image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobImage {
    /// `osdf:///….sif`, `docker://…`, or a file.
    pub source: String,
    /// The image's length, if it is known.
    pub bytes: Option<u64>,
}

/// A published bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Data {
    /// The bundle's URL with its digest: `URL#blake3=…`.
    pub url: String,
    /// The bundle's digest, `blake3:…`. It is a text, since it is only written here.
    pub digest: String,
    /// URLs of manifest, shards and indexes; paths of files that the access point sends.
    pub files: Vec<String>,
    /// Bytes of all these files.
    pub bytes: u64,
    /// Who fetches the data.
    pub fetch: Fetch,
    /// The shards of each job, if each needs only some.
    pub shares: Option<Shares>,
    /// The bundle's folder, if it is on this machine.
    pub local: Option<Local>,
    /// Whether it was read with a token, which the jobs do not have.
    pub with_token: bool,
}

/// A bundle that was not published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Local {
    /// The folder's absolute path.
    pub folder: String,
    /// Bytes of the largest file.
    pub largest_bytes: u64,
}

/// The files of a bundle that each job of a sweep needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shares {
    /// URLs that all jobs need: manifest and indexes.
    pub common: Vec<String>,
    /// For each job, the URLs of its shards.
    pub each: Vec<Vec<String>>,
    /// The most bytes that one job has of all these files.
    pub bytes: u64,
}

impl Data {
    /// The files that each job gets, and their bytes.
    fn of_job(&self) -> (&[String], u64) {
        match &self.shares {
            Some(shares) => (&shares.common, shares.bytes),
            None => (&self.files, self.bytes),
        }
    }

    /// Whether machines of CHTC read the bundle from a folder that they share.
    fn is_on_staging(&self) -> bool {
        self.local.is_some() && self.files.iter().all(|file| file.starts_with("file://"))
    }

    /// The macro that has the shards of job `i`, as DAGMan's VARS take it.
    fn macro_of(&self, i: usize) -> Option<String> {
        let shards = self.shares.as_ref()?.each.get(i)?;
        Some(format!(" {SHARDS}=\"{}\"", shards.join(", ")))
    }
}

/// The macro that names the shards of a job.
const SHARDS: &str = "shards";

/// Who fetches the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Fetch {
    /// HTCondor fetches it, before the job starts.
    Batch,
    /// The job itself fetches it, with `gular`.
    #[serde(rename = "job")]
    Runtime,
}

/// Parameters of a sweep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parameters {
    /// Names of the parameters.
    pub names: Vec<String>,
    /// Values of the parameters, a row for each job.
    pub rows: Vec<Vec<String>>,
}

/// The stages that follow the jobs of a sweep; DAGMan keeps the order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stages {
    /// A command for the results of each job, which are below `{trained}`. The last line that it
    /// prints is a JSON object.
    pub evaluate: Option<Vec<String>>,
    /// How the best job is chosen, by the evaluations.
    pub select: Option<Select>,
    /// A command for the results of all jobs: a word with `{each}` stands there once for each.
    pub merge: Option<Vec<String>>,
}

impl Stages {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// How the best job is chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Select {
    /// The member of the evaluations' JSON objects that is compared.
    pub metric: String,
    /// Whether the lowest value is the best.
    pub lowest: bool,
}

/// A file of the folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// The file's name.
    pub name: String,
    /// The file's text.
    pub text: String,
    /// Whether the file is executable.
    pub executable: bool,
}

/// The files that were written, and notes for the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Folder {
    /// The files.
    pub files: Vec<Written>,
    /// Folders to make.
    pub folders: Vec<&'static str>,
    /// Notes on this site.
    pub notes: Vec<String>,
    /// Commands that bring what the jobs need, run in the folder once.
    pub once: Vec<String>,
    /// Commands that check and submit it, run in the folder.
    pub start: Vec<String>,
}

/// Why no files can be written for a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// What is wrong with the job.
    pub what: String,
    /// What the user can do.
    pub fix: String,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for Refusal {}

pub(crate) fn refuse(what: impl Into<String>, fix: &str) -> Refusal {
    Refusal { what: what.into(), fix: fix.to_owned() }
}

/// Writes the files of `spec`.
///
/// # Errors
/// [`Refusal`] for what the site cannot do, or texts that cannot be passed on.
pub fn write(spec: &JobSpec) -> Result<Folder, Refusal> {
    accept::accept(spec)?;
    let slurm = spec.site.is_slurm();
    let mut files = Vec::new();
    let mut file = |name: &str, text: String, executable: bool| {
        files.push(Written { name: name.to_owned(), text, executable });
    };
    if slurm {
        for stage in JobStage::of(spec) {
            file(&format!("{}.sbatch", stage.name), slurm::script(spec, &stage), false);
        }
        if spec.stages.select.is_some() {
            file("select.sbatch", slurm::select(spec), false);
        }
        if JobStage::in_dag(spec) && !spec.shared {
            file("submit.sh", slurm::submit(spec), true);
        }
    } else {
        if !spec.stages.is_empty() {
            file(&job_file(spec), dag::graph(spec), false);
        }
        for stage in JobStage::of(spec) {
            file(&format!("{}.sub", stage.name), condor::submit_file(spec, &stage), false);
            file(&stage.wrapper(), wrapper::script(spec, &stage), true);
        }
    }
    if let Some(select) = &spec.stages.select {
        file("select.py", select::program(spec, select), true);
    }
    if let Some(parameters) = &spec.parameters {
        // In a DAG, the nodes' VARS name the shards.
        let shares = spec.data.as_ref().and_then(|data| data.shares.as_ref());
        let shares = shares.filter(|_| !JobStage::in_dag(spec));
        let row = |(i, row): (usize, &Vec<String>)| {
            let own = shares.and_then(|shares| shares.each.get(i)).into_iter().flatten();
            let words: Vec<&str> = row.iter().chain(own).map(String::as_str).collect();
            format!("{}\n", words.join(", "))
        };
        let rows: String = parameters.rows.iter().enumerate().map(row).collect();
        file("parameters.txt", rows, false);
    }
    let notes = site::notes(spec);
    file("README.md", readme::page(spec, &notes), false);
    let results = !slurm || spec.stages.evaluate.is_some();
    let folders = if results { vec!["logs", "results"] } else { vec!["logs"] };
    Ok(Folder { files, folders, notes, once: start::once(spec), start: start::start(spec) })
}

/// The file that is submitted to the batch system.
fn job_file(spec: &JobSpec) -> String {
    let end = match (spec.site.is_slurm(), spec.stages.is_empty()) {
        (true, _) => "sbatch",
        (false, true) => "sub",
        (false, false) => "dag",
    };
    format!("{}.{end}", spec.name)
}

/// One submit file and its wrapper.
struct JobStage<'a> {
    /// The name of the submit file.
    name: &'a str,
    runs: Runs,
    command: &'a [String],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Runs {
    /// The jobs of the sweep.
    Jobs,
    /// A job for the results of each job.
    Evaluate,
    /// One job for the results of all jobs.
    Merge,
}

impl<'a> JobStage<'a> {
    /// Returns all stages that HTCondor runs for a job.
    fn of(spec: &'a JobSpec) -> Vec<Self> {
        let jobs = Self { name: &spec.name, runs: Runs::Jobs, command: &spec.command };
        let more = [
            ("evaluate", Runs::Evaluate, &spec.stages.evaluate),
            ("merge", Runs::Merge, &spec.stages.merge),
        ];
        let more = more.into_iter().filter_map(|(name, runs, command)| {
            Some(Self { name, runs, command: command.as_deref()? })
        });
        [jobs].into_iter().chain(more).collect()
    }

    /// The bundle, where the stage needs it: the jobs always, the others if their command says so.
    fn data(&self, spec: &'a JobSpec) -> Option<&'a Data> {
        let needs =
            self.runs == Runs::Jobs || self.command.iter().any(|word| word.contains("{data}"));
        spec.data.as_ref().filter(|_| needs)
    }

    fn gpus(&self, spec: &JobSpec) -> u64 {
        match self.runs {
            Runs::Jobs => spec.gpus,
            Runs::Evaluate => spec.evaluate_gpus,
            Runs::Merge => 0,
        }
    }

    /// Memory of the stage. A stage that follows the jobs is one process, and gets the share of
    /// one.
    fn memory_bytes(&self, spec: &JobSpec) -> Option<u64> {
        let of_job = spec.memory_bytes?.saturating_add(spec.shm_bytes);
        Some(match self.runs {
            Runs::Jobs => of_job,
            _ => of_job.div_ceil(spec.tasks.max(1)),
        })
    }

    /// Returns the stage's command, with a word that contains `{each}` once for each job: `place`
    /// says where the output of a job is. A program among the inputs is started from the job's
    /// folder; with an image, a program that is not a script is one of the image's.
    fn words(&self, spec: &JobSpec, place: impl Fn(usize) -> String) -> Vec<String> {
        let each = |word: &String| match self.runs == Runs::Merge && word.contains("{each}") {
            true => (0..dag::n_jobs(spec)).map(|i| word.replace("{each}", &place(i))).collect(),
            false => vec![word.clone()],
        };
        let mut words: Vec<String> = self.command.iter().flat_map(each).collect();
        if let Some(first) = words.first_mut()
            && spec.inputs.iter().any(|(name, _)| name == first)
            && (spec.image.is_none() || first.contains('.'))
        {
            first.insert_str(0, "./");
        }
        words
    }

    fn wrapper(&self) -> String {
        match self.runs {
            Runs::Jobs => "run.sh".to_owned(),
            _ => format!("{}.sh", self.name),
        }
    }

    /// Whether the jobs are nodes of a DAG, which sets the macros.
    fn in_dag(spec: &JobSpec) -> bool {
        !spec.stages.is_empty()
    }
}

/// A command as a shell reads it, with the places of data and results, and parameters. A place
/// may be a variable of the shell.
fn shell_command(spec: &JobSpec, command: &[String], places: &[(&str, &str)]) -> String {
    let word = |word: &String| {
        let mut text = word.clone();
        let mut variables = false;
        for (place, path) in places {
            variables |= path.contains('$') && text.contains(place);
            text = text.replace(place, path);
        }
        for name in spec.parameters.iter().flat_map(|parameters| &parameters.names) {
            let place = format!("{{{name}}}");
            variables |= text.contains(&place);
            text = text.replace(&place, &format!("${{{name}}}"));
        }
        let plain = |c: char| c.is_ascii_alphanumeric() || "._+-/:=,%@".contains(c);
        match (variables, text.chars().all(plain)) {
            (true, _) => format!("\"{text}\""),
            (false, true) if !text.is_empty() => text,
            _ => format!("'{text}'"),
        }
    };
    command.iter().map(word).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests;
