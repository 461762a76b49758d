//! The limits of each site.

use serde::Deserialize;

use super::{Fetch, JobSpec, JobStage, Refusal, condor, refuse, wheels};
use crate::units::words;

/// The place where a job runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Site {
    /// The OSPool.
    Ospool,
    /// CHTC in Madison.
    Chtc,
    /// Jülich, with Slurm.
    Jsc,
    /// Any pool of HTCondor.
    Generic,
    /// Any machine with Slurm.
    Slurm,
}

impl Site {
    /// All sites, by name.
    pub const ALL: [(&'static str, Self); 5] = [
        ("ospool", Self::Ospool),
        ("chtc", Self::Chtc),
        ("jsc", Self::Jsc),
        ("generic", Self::Generic),
        ("slurm", Self::Slurm),
    ];

    /// Whether Slurm starts the job.
    #[must_use]
    pub fn is_slurm(self) -> bool {
        matches!(self, Self::Jsc | Self::Slurm)
    }

    /// The longest time of a job, in hours.
    pub(super) fn max_hours(self, gpus: u64) -> f64 {
        match self {
            // Held after 40 in category `Long`: portal.osg-htc.org, "Indicating your Job Duration".
            Self::Ospool => 40.0,
            // GPU Lab, `long`: chtc.cs.wisc.edu, "Use GPUs".
            Self::Chtc if gpus > 0 => 168.0,
            // The limit is from chtc.cs.wisc.edu, "Checkpointing Jobs".
            Self::Chtc => 72.0,
            // This is the setting of JSC's partitions; no page of JSC names it.
            Self::Jsc => 24.0,
            Self::Generic | Self::Slurm => 24.0 * 365.0,
        }
    }

    /// The quotas of users who did not ask for more, by the site's own pages; docs/jobs.md has
    /// their dates.
    fn quotas(self) -> Quotas {
        let none = u64::MAX;
        match self {
            Self::Chtc => Quotas {
                // "Check Disk Quota and Usage"; the others there and in "Manage large data".
                results: 40 * GB,
                data: 100 * GB,
                items: 1000,
                place: "/staging",
                source: "chtc.cs.wisc.edu",
            },
            Self::Ospool => Quotas {
                // "Overview: Data Staging and Transfer to Jobs".
                results: 50 * GB,
                data: 100 * GB,
                items: usize::MAX,
                place: "the access point's OSDF folder",
                source: "portal.osg-htc.org",
            },
            Self::Jsc => Quotas {
                // "What data quotas do exist": soft limits of $PROJECT.
                results: 16_000 * GB,
                data: 16_000 * GB,
                items: 3_000_000,
                place: "$PROJECT",
                source: "fz-juelich.de",
            },
            Self::Generic | Self::Slurm => {
                Quotas { results: none, data: none, items: usize::MAX, place: "", source: "" }
            }
        }
    }

    /// Files above this must not come from the access point: "Overview: Data Staging and Transfer
    /// to Jobs" of the OSPool, "Manage large data in /staging" of CHTC.
    fn max_input_bytes(self) -> u64 {
        match self {
            Self::Ospool | Self::Chtc => 1 << 30,
            _ => u64::MAX,
        }
    }
}

/// A gigabyte, as quotas count.
const GB: u64 = 1_000_000_000;

struct Quotas {
    /// Bytes of the folder that jobs are submitted from.
    results: u64,
    /// Bytes and items of the place for data that jobs fetch.
    data: u64,
    items: usize,
    place: &'static str,
    /// The site whose pages name these quotas.
    source: &'static str,
}

pub(super) fn accept(spec: &JobSpec) -> Result<(), Refusal> {
    if !(0.0..).contains(&spec.hours) || spec.hours > spec.site.max_hours(spec.gpus) {
        let what = format!(
            "`--time` is {} hours, but the site allows at most {}",
            spec.hours,
            spec.site.max_hours(spec.gpus)
        );
        return Err(refuse(
            what,
            "ask for less time, and save checkpoints (`--checkpoint DIR`), so that the job continues where it stopped",
        ));
    }
    if spec.shared && spec.site == Site::Ospool {
        return Err(refuse(
            "jobs of the OSPool do not share a folder",
            "choose a site whose machines share a folder: `--site chtc`, `jsc`, `slurm` or `generic`",
        ));
    }
    let most = spec.site.max_input_bytes();
    let inputs = spec.inputs.iter().map(|(name, bytes)| (name, *bytes));
    let data = spec.data.iter().filter(|data| !data.is_on_staging());
    let data = data.filter_map(|data| data.local.as_ref());
    let data = data.map(|local| (&local.folder, local.largest_bytes));
    if let Some((name, bytes)) = inputs.chain(data).find(|(_, bytes)| *bytes > most) {
        let what = format!(
            "`{name}` has a file of {}, too large to be sent from the access point to each job",
            words(bytes)
        );
        return Err(refuse(what, "publish it with `gular publish`, and give its `osdf:///` URL"));
    }
    Ok(())
}

/// More disk than most machines of a pool have for one job.
const MOST_DISK_BYTES: u64 = 500 << 30;

/// The end of every message about a quota.
const UNLESS: &str = "unless you asked for more; sites change their limits";

fn gigabytes(bytes: u64) -> String {
    format!("{:.1} GB", bytes as f64 / GB as f64)
}

/// Notes for users of the site.
pub(super) fn notes(spec: &JobSpec) -> Vec<String> {
    let mut notes = Vec::new();
    let mut note = |text: &str| notes.push(text.to_owned());
    let limit = spec.checkpoint.is_none() && matches!(spec.site, Site::Ospool) && spec.hours > 20.0;
    if limit {
        note(
            "a job that needs more than 20 hours is put on hold after 40 hours, and loses everything if it is evicted: save checkpoints with `--checkpoint DIR`",
        );
    }
    if let Some(image) = &spec.image {
        let local = !image.source.contains("://");
        if local && matches!(spec.site, Site::Ospool | Site::Chtc) {
            note(
                "the image is sent from the access point to each job: publish the image instead, and give its `osdf:///` URL",
            );
        }
        if spec.site == Site::Ospool && image.source.starts_with("docker://") {
            note(
                "machines of the OSPool convert a `docker://` image each time that they fetch it: convert it once, `apptainer build train-v1.sif docker://…`, and publish the file",
            );
        }
        if image.bytes.is_none() && !spec.site.is_slurm() {
            note(
                "the size of the image is not known: the jobs ask for 10 GB of disk for it; give the size with `--image-size`",
            );
        }
    } else if !spec.site.is_slurm() && !spec.shared {
        note(
            "no image was given: the program runs with the Python and the libraries of each machine, which differ; `--image` gives the jobs their own",
        );
    }
    if let Some(data) = &spec.data {
        let slurm = spec.site.is_slurm();
        if data.local.is_some() && !slurm && !data.is_on_staging() {
            note(
                "the data is sent from this machine to each job: publish it with `gular publish`, so that caches near the jobs keep a copy",
            );
        } else if data.fetch == Fetch::Runtime && !slurm {
            note(
                "the job fetches the data itself, for which it needs the program `gular`: in the image, or sent with `--input`",
            );
        }
        if data.with_token && spec.credentials.is_none() && !slurm {
            note(
                "the data was read with a token, and the jobs have none: without `--credentials SERVICE` HTCondor puts them on hold, unless the data can be read without a token, too",
            );
        }
        let Quotas { data: most, items, place, source, .. } = spec.site.quotas();
        if data.bytes > most {
            let (has, most) = (gigabytes(data.bytes), gigabytes(most));
            note(&format!(
                "the data has {has}, but {place} usually holds at most {most} ({source}) {UNLESS}"
            ));
        }
        if data.files.len() > items {
            let n = data.files.len();
            note(&format!(
                "the data has {n} files, but {place} usually holds at most {items} ({source}) {UNLESS}; larger shards make fewer files"
            ));
        }
    }
    let n_jobs = spec.parameters.as_ref().map_or(1, |sweep| sweep.rows.len()) as u64;
    let results = n_jobs.saturating_mul(spec.scratch_bytes);
    let Quotas { results: most, source, .. } = spec.site.quotas();
    if results > most {
        let (has, most) = (gigabytes(results), gigabytes(most));
        note(&format!(
            "the results of all {n_jobs} jobs may take {has} (`--disk`), but the folder that they are sent to usually holds at most {most} ({source}) {UNLESS}"
        ));
    }
    if !spec.site.is_slurm() {
        for stage in JobStage::of(spec) {
            let bytes = condor::disk(spec, &stage);
            if bytes > MOST_DISK_BYTES {
                note(&format!(
                    "`{}.sub` asks for {} of disk, which few machines have: `--disk` says what each program writes, and counts for each result that is unpacked",
                    stage.name,
                    words(bytes)
                ));
            }
        }
    }
    let wheel = spec.inputs.iter().any(|(name, _)| wheels::is_wheel(name));
    if spec.imports_gular && !wheel {
        note(
            "a program imports the Python package `gular`: install it in the image, or send its wheel with `--input gular-….whl`; the job unpacks it without a network",
        );
    }
    for (program, module) in &spec.not_in_image {
        note(&format!(
            "`{program}` imports `{module}`, which is neither in the image nor sent: install it in the image, or send its wheel with `--input`"
        ));
    }
    if spec.retry_memory_bytes.is_some() {
        note(
            "HTCondor before 25.2 does not know `retry_request_memory`: there, a job that needs more memory is held (`condor_version` says which version yours is)",
        );
    }
    let made_by_job = |folder: &str| {
        folder.trim_end_matches('/') == "output" || spec.checkpoint.as_deref() == Some(folder)
    };
    for folder in spec.left_here.iter().filter(|folder| !made_by_job(folder)) {
        note(&format!(
            "the command names `{folder}`, a folder here that the job does not have: `--input {folder}` sends a small one, `--data` a bundle"
        ));
    }
    for file in &spec.absent {
        note(&format!(
            "the command names `{file}`, which is not here: if the program reads it, send it with `--input`, as a file or a URL; each job fails without it"
        ));
    }
    for name in spec.unknown_places() {
        note(&format!(
            "the command has `{{{name}}}`, which is not a parameter, and stays as it is: `--sweep {name}=1,2` gives it values"
        ));
    }
    if spec.shared {
        note("all machines must have the folders in the command, with the same paths");
    }
    if spec.gpus > 0 && spec.capability.is_none() && !spec.site.is_slurm() {
        note(
            "no compute capability was given, so the job may get a GPU that the image has no code for; `gular image export facts` writes which GPUs the image has code for, and `--facts` reads that file",
        );
    }
    if spec.gpus > 0 && spec.cpus == 1 {
        note(
            "each process has one core, so the GPU may wait while images are decoded: ask for more cores with `--cpus`; `gular job measure` shows how many a command uses",
        );
    }
    if spec.site == Site::Jsc && spec.account.is_none() {
        note("JSC needs an account: give `--account`");
    }
    notes
}
