//! What `gular job new` knows about a bundle: its files, how they get to the job, and which job
//! needs which.

use std::collections::HashSet;
use std::ops::Range;
use std::path::{Component, Path};

use gular_bundle::{FileEntry, Manifest, ShardEntry, Split};
use gular_jobs::write::{Data, Fetch, Local, Parameters, Shares, Site};
use gular_pelican::{Scheme, Url};
use gular_transfer::{BundleUrl, Error, RemoteBundle};

use crate::exit::Failure;
use crate::network::{self, Access};
use crate::stop::Stop;

/// With more inputs than this, the job fetches the bundle itself.
const MAX_LISTED: usize = 2000;
/// More disk than most pools have for one job.
const MAX_DISK_BYTES: u64 = 200 << 30;
/// The default batch size of `gular-train`.
const BATCH_SIZE: u64 = 32;

/// The requirements on the data.
pub(super) struct Wanted<'a> {
    pub(super) site: Site,
    pub(super) fetch: Option<Fetch>,
    pub(super) scratch_bytes: u64,
    /// The parameter that is the number of a part, and all parameters.
    pub(super) parts: Option<(&'a str, &'a Parameters)>,
    pub(super) command: &'a [String],
}

/// Reads the manifest: which files there are, and how much they are.
pub(super) fn of(url: &str, wanted: &Wanted<'_>, access: &Access) -> Result<Data, Failure> {
    let stop = Stop::install()?;
    if !url.contains("://") && of_folder(url).is_none() {
        let hint = "give the URL that `gular publish` printed, or the folder of a bundle";
        let what = format!("`{url}` is neither a URL nor a folder here");
        return Err(Failure::new(what, Some(hint.to_owned())));
    }
    let folder = url.split('#').next().unwrap_or(url);
    if !url.contains("://") && !Path::new(folder).join("manifest.json").is_file() {
        let what = format!("`{folder}` is not a bundle: it has no `manifest.json`");
        let hint = "make a bundle of the images with `gular pack`, or leave out `--data` and give files and folders with `--input`";
        return Err(Failure::new(what, Some(hint.to_owned())));
    }
    let url: BundleUrl = of_folder(url).as_deref().unwrap_or(url).parse()?;
    let client = network::client(access)?;
    let ended = |error| network::ended(error, &stop);
    let bundle = RemoteBundle::open(&client, &url, stop.watch()).map_err(ended)?;
    let manifest = bundle.manifest();
    let places = Places {
        site: wanted.site,
        manifest: bundle.published().manifest().clone(),
        of_manifest: bundle.manifest_bytes().len() as u64,
        folder: bundle.data_folder(&client, stop.watch()).map_err(ended)?,
    };
    let mut files = vec![places.listed(&places.manifest)];
    let mut bytes = places.of_manifest;
    for file in manifest.files() {
        files.push(places.of(file)?);
        bytes = bytes.saturating_add(file.bytes);
    }
    let shares = match wanted.parts {
        None => None,
        Some((name, parameters)) => {
            let parts = parts(name, parameters, wanted.command)?;
            let batch_size = batch_size(wanted.command)?;
            Some(shares(&places, manifest, &parts, batch_size)?)
        }
    };
    let (n, of_job) = match &shares {
        None => (files.len(), bytes),
        Some(shares) => {
            let own = shares.each.iter().map(Vec::len).max().unwrap_or(0);
            (shares.common.len() + own, shares.bytes)
        }
    };
    let fits = n <= MAX_LISTED
        && of_job.saturating_add(wanted.scratch_bytes) <= MAX_DISK_BYTES
        && !wanted.site.is_slurm();
    let is_local = url.url.scheme() == Scheme::File;
    let fetch = match wanted.fetch {
        Some(fetch) => fetch,
        None if fits || is_local => Fetch::Batch,
        None => Fetch::Runtime,
    };
    let local = is_local.then(|| Local {
        folder: url.url.path().to_owned(),
        largest_bytes: manifest.files().map(|file| file.bytes).max().unwrap_or(0),
    });
    let url = BundleUrl { url: url.url, digest: Some(bundle.digest()) };
    let digest = bundle.digest().to_string();
    let with_token = client.sent_token();
    Ok(Data { url: url.to_string(), digest, files, bytes, fetch, shares, local, with_token })
}

/// The URL of a folder of this machine, with its digest where one is given.
fn of_folder(text: &str) -> Option<String> {
    let (folder, digest) = text.split_once('#').unwrap_or((text, ""));
    let path = Path::new(folder);
    // A URL has no `..`; without one the folder keeps the name that it was given by.
    let path = match path.components().any(|part| part == Component::ParentDir) {
        _ if !path.is_dir() => return None,
        true => std::fs::canonicalize(path).ok()?,
        false => std::path::absolute(path).ok()?,
    };
    let url = Url::parse("file:///").ok()?.join(path.to_str()?.trim_matches('/'))?;
    let mark = if digest.is_empty() { "" } else { "#" };
    Some(format!("{url}{mark}{digest}"))
}

/// URLs of the bundle's files, in the form of submit files.
struct Places {
    site: Site,
    manifest: Url,
    of_manifest: u64,
    /// The folder with the shards and indexes.
    folder: Url,
}

impl Places {
    fn of(&self, file: &FileEntry) -> Result<String, Failure> {
        let name = file.name.as_str();
        let url = self.folder.join(name);
        let url = url.ok_or_else(|| Error::ObjectName { name: name.to_owned() })?;
        Ok(self.listed(&url))
    }

    fn listed(&self, url: &Url) -> String {
        if url.scheme() == Scheme::File {
            let path = url.path();
            // Machines of CHTC read there themselves; elsewhere the access point sends the file.
            let is_shared = self.site == Site::Chtc && path.starts_with("/staging/");
            return if is_shared { format!("file://{path}") } else { path.to_owned() };
        }
        let url = url.to_string();
        // More machines have the plug-in for `osdf`.
        match url.strip_prefix("pelican://osg-htc.org/") {
            Some(path) => format!("osdf:///{path}"),
            None => url,
        }
    }
}

/// The part of each job, from 0, and how many there are.
struct Parts {
    of_jobs: Vec<u64>,
    n: u64,
}

/// The values of parameter `name`, which are 1, 2, 3 …, and as many as the command counts.
fn parts(name: &str, parameters: &Parameters, command: &[String]) -> Result<Parts, Failure> {
    let hint = format!(
        "add `--sweep {name}=1..8`, and write `{{{name}}}/8` in the command, which becomes 1/8, 2/8 and so on"
    );
    let at = parameters.names.iter().position(|other| other == name).ok_or_else(|| {
        Failure::new(format!("`--sweep` does not set the parameter `{name}`"), Some(hint.clone()))
    })?;
    let values = parameters.rows.iter().filter_map(|row| row.get(at));
    let numbers: Option<Vec<u64>> = values.map(|value| value.parse().ok()).collect();
    let numbers = numbers.unwrap_or_default();
    let n = numbers.iter().copied().max().unwrap_or(0);
    if n == 0 || !(1..=n).all(|part| numbers.contains(&part)) || numbers.contains(&0) {
        let what =
            format!("the values of `{name}` must be the numbers of parts: 1, 2, 3 and so on");
        return Err(Failure::new(what, Some(hint)));
    }
    let place = format!("{{{name}}}/");
    let words = command.iter().flat_map(|word| word.split([' ', '=']));
    for of in words.filter_map(|word| word.strip_prefix(&place)) {
        if of.starts_with('{') {
            let what = format!("all jobs need the same number of parts: `{place}{of}`");
            return Err(Failure::new(what, Some(hint)));
        }
        // If the text is not a number, it is a path.
        if let Ok(of) = of.parse::<u64>()
            && of != n
        {
            let what =
                format!("`--sweep` makes {n} parts, but the command has {of}: `{place}{of}`");
            let hint = format!(
                "sweep all parts, `--sweep {name}=1..{of}`, or write `{place}{n}` in the command"
            );
            return Err(Failure::new(what, Some(hint)));
        }
    }
    Ok(Parts { of_jobs: numbers.iter().map(|part| part - 1).collect(), n })
}

/// The last `--batch-size N` of the command: parts start and end at batch boundaries.
fn batch_size(command: &[String]) -> Result<u64, Failure> {
    let flag = "--batch-size";
    let mut found = None;
    let mut words = command.iter();
    while let Some(word) = words.next() {
        match word.strip_prefix(flag) {
            Some("") => found = words.next().map(String::as_str),
            Some(value) => found = value.strip_prefix('=').or(found),
            None => {}
        }
    }
    let Some(value) = found else { return Ok(BATCH_SIZE) };
    value.parse().map_err(|_| {
        let what = format!("all jobs need the same number of samples in a batch: `{flag} {value}`");
        let hint =
            format!("write a number, such as `{flag} 64`: the shards of each job are chosen by it");
        Failure::new(what, Some(hint))
    })
}

/// The shards of each job's part, and what all jobs need.
fn shares(
    places: &Places,
    manifest: &Manifest,
    parts: &Parts,
    batch_size: u64,
) -> Result<Shares, Failure> {
    let mut common = vec![places.listed(&places.manifest)];
    let mut common_bytes = places.of_manifest;
    let mut seen = HashSet::new();
    for listing in manifest.shards.iter().flat_map(ShardEntry::listings) {
        if seen.insert(&listing.name) {
            common.push(places.of(listing)?);
            common_bytes = common_bytes.saturating_add(listing.bytes);
        }
    }
    let mut of_parts = Vec::new();
    for part in 0..parts.n {
        let (mut names, mut bytes, mut seen) = (Vec::new(), common_bytes, HashSet::new());
        for split in Split::ALL {
            let range = samples(part, parts.n, manifest.n_samples(split), batch_size);
            let mut end = 0_u64;
            for shard in manifest.of_split(split) {
                let start = end;
                end = end.saturating_add(shard.samples);
                // A shard that has samples of two jobs' parts is listed for both.
                if start < range.end && end > range.start && seen.insert(&shard.file.name) {
                    names.push(places.of(&shard.file)?);
                    bytes = bytes.saturating_add(shard.file.bytes);
                }
            }
        }
        of_parts.push((names, bytes));
    }
    let of_job = |part: &u64| usize::try_from(*part).ok().and_then(|part| of_parts.get(part));
    let each = parts.of_jobs.iter().filter_map(of_job).map(|(names, _)| names.clone()).collect();
    let bytes = of_parts.iter().map(|(_, bytes)| *bytes).max().unwrap_or(common_bytes);
    Ok(Shares { common, each, bytes })
}

/// Part `part` of `of` of `n` samples, wherever it was rounded to whole batches.
fn samples(part: u64, of: u64, n: u64, batch_size: u64) -> Range<u64> {
    let cut = |part: u64| {
        let cut = u128::from(n) * u128::from(part) / u128::from(of);
        u64::try_from(cut).unwrap_or(u64::MAX)
    };
    let end = cut(part + 1).saturating_add(batch_size).min(n);
    cut(part).saturating_sub(batch_size)..end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_has_every_sample_that_whole_batches_may_give_it() {
        for (n, batch, of) in [(53, 8, 3), (5, 8, 3), (64, 8, 3), (9, 1, 4), (1000, 32, 7)] {
            let batches = |part: u64| (n_batches(n, batch) * part / of * batch).min(n);
            for part in 0..of {
                let found = samples(part, of, n, batch);
                let (from, to) = (batches(part), batches(part + 1));
                assert!(
                    from == to || found.start <= from && to <= found.end,
                    "{part} of {of}: {n}"
                );
            }
        }
    }

    fn n_batches(n: u64, batch: u64) -> u64 {
        n.div_ceil(batch)
    }

    #[test]
    fn the_batch_size_is_that_of_the_command() {
        let of = |command: &str| batch_size(&words(command)).ok();
        assert_eq!(of("predict --batch-size 64"), Some(64));
        assert_eq!(of("predict --batch-size=8 --part 1/3"), Some(8));
        assert_eq!(of("predict --batch-size-of x"), Some(BATCH_SIZE));
        assert_eq!(of("predict --batch-size 8 --batch-size=64 --batch-size-of 3"), Some(64));
        // A parameter of the sweep: each job would need shards of its own.
        assert_eq!(of("predict --batch-size {bs}"), None);
        assert_eq!(of("predict --batch-size 8 --batch-size={bs}"), None);
    }

    fn words(command: &str) -> Vec<String> {
        command.split(' ').map(str::to_owned).collect()
    }

    fn sweep(values: &[&str]) -> Parameters {
        Parameters {
            names: vec!["part".to_owned()],
            rows: values.iter().map(|&value| vec![value.to_owned()]).collect(),
        }
    }

    #[test]
    fn parts_are_counted_from_1() {
        let of =
            |values: &[&str]| parts("part", &sweep(values), &[]).ok().map(|p| (p.of_jobs, p.n));
        assert_eq!(of(&["1", "2", "2"]), Some((vec![0, 1, 1], 2)));
        for wrong in [&["0", "1"][..], &["1", "3"], &["a"], &[]] {
            assert_eq!(of(wrong), None, "{wrong:?}");
        }
        assert!(parts("seed", &sweep(&["1"]), &[]).is_err());
    }

    #[test]
    fn the_sweep_has_as_many_parts_as_the_command_counts() {
        let of = |command: &str| {
            parts("part", &sweep(&["1", "2", "3", "4"]), &words(command)).ok().map(|p| p.n)
        };
        for right in ["--part {part}/4", "--part={part}/4", "score.sh {part}", "--out {part}/a.csv"]
        {
            assert_eq!(of(right), Some(4), "{right}");
        }
        for wrong in ["--part {part}/8", "--part={part}/3", "--part {part}/{n}"] {
            assert_eq!(of(wrong), None, "{wrong}");
        }
    }
}
