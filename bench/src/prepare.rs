//! Makes bundles of every envelope and payload, and plain files, in a separate folder.
//!
//! ```text
//! scratch/images/…                links to the images used
//! scratch/encoded/shards/         the first bundle; the others are converted from it
//! scratch/encoded/arrow/ …
//! scratch/encoded/files/…         plain files
//! scratch/raw/shards/ …
//! ```

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use gular_bundle::{Bundle, CheckWhen, Envelope, OpenOptions, Payload, SAMPLES_NAME, Split};
use gular_pack::{
    ConvertOptions, Labels, LayoutError, OnBadInput, PackOptions, Pattern, PayloadOptions,
    PlanOptions, Target, convert, pack,
};

use crate::Error;
use crate::input::{self, Input};
use crate::matrix::payload_name;
use crate::options::BenchOptions;
use crate::set::{Of, Set};

/// The folder of links.
const LINKS: &str = "images";
/// The folder of plain files.
const FILES: &str = "files";

/// All bundles and files that are measured.
pub(crate) struct Prepared {
    pub(crate) sets: Vec<Set>,
    pub(crate) notes: Vec<String>,
}

/// The bundles and files to write for one payload.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Planned {
    pub(crate) payload: Payload,
    /// How the payload is made; `None` if the bundle has it already.
    pub(crate) made: Option<PayloadOptions>,
    /// Bundles, that first which the others are converted from.
    pub(crate) envelopes: Vec<Envelope>,
    /// Whether the samples are also written as files.
    pub(crate) files: bool,
}

impl Planned {
    /// The name of a bundle in progress messages.
    pub(crate) fn bundle_name(&self, envelope: Envelope) -> String {
        format!("{}, {envelope}", payload_name(self.payload))
    }

    /// The name of the files in progress messages.
    pub(crate) fn files_name(&self) -> String {
        format!("{}, plain files", payload_name(self.payload))
    }
}

/// Returns what is written for `input`, and notes on what cannot be written.
pub(crate) fn plan(input: &Input, options: &BenchOptions) -> (Vec<Planned>, Vec<String>) {
    let (payloads, notes) = payloads(input, options);
    let own = input::payload(input);
    let mut envelopes = vec![Envelope::Shards];
    envelopes.extend(options.envelopes.iter().filter(|e| **e != Envelope::Shards));
    let n = payloads.len();
    let planned = |(number, made): (usize, Option<PayloadOptions>)| {
        let payload = made.as_ref().map_or(own.unwrap_or(Payload::Encoded), payload_of);
        // The images of a bundle, for its other payloads.
        let needed = own.is_some() && number == 0 && n > 1;
        Planned {
            payload,
            made,
            envelopes: envelopes.clone(),
            files: payload != Payload::Raw && (options.baselines || needed),
        }
    };
    (payloads.into_iter().enumerate().map(planned).collect(), notes)
}

/// Payloads that can be made of `input`, and what cannot.
fn payloads(input: &Input, options: &BenchOptions) -> (Vec<Option<PayloadOptions>>, Vec<String>) {
    let Some(own) = input::payload(input) else {
        return (options.payloads.iter().copied().map(Some).collect(), Vec::new());
    };
    // `None` stands for the payload that the bundle has.
    let (mut made, mut notes) = (vec![None], Vec::new());
    for &payload in &options.payloads {
        let wanted = payload_of(&payload);
        if wanted == own {
            continue;
        }
        if own == Payload::Raw || wanted == Payload::Encoded {
            notes.push(format!(
                "payload {} is left out: it cannot be made from a bundle with payload {}",
                payload_name(wanted),
                payload_name(own)
            ));
        } else {
            made.push(Some(payload));
        }
    }
    (made, notes)
}

/// Returns the payload's name in the manifest.
fn payload_of(options: &PayloadOptions) -> Payload {
    match options {
        PayloadOptions::Encoded => Payload::Encoded,
        PayloadOptions::Reencoded(_) => Payload::Reencoded,
        PayloadOptions::Raw(_) => Payload::Raw,
    }
}

/// The values that are needed to make all bundles and files.
pub(crate) struct Work<'a> {
    pub(crate) source: &'a Path,
    pub(crate) scratch: &'a Path,
    pub(crate) options: &'a BenchOptions,
    /// Is called with the number of bytes that were written.
    pub(crate) progress: &'a (dyn Fn(&str, u64) + Sync),
    pub(crate) cancel: &'a AtomicBool,
}

impl Work<'_> {
    /// Makes all bundles and files.
    pub(crate) fn prepare(&self, input: &Input) -> Result<Prepared, Error> {
        let (planned, mut notes) = plan(input, self.options);
        let written = AtomicU64::new(0);
        let mut images = None;
        if let Input::Images(chosen) = input {
            let links = self.scratch.join(LINKS);
            input::link(self.source, chosen, &links)?;
            images = Some(links);
        }
        let mut sets: Vec<Set> = Vec::new();
        for planned in &planned {
            let dir = self.scratch.join(payload_name(planned.payload));
            let base = dir.join(Envelope::Shards.name());
            fs::create_dir_all(&dir).map_err(|e| Error::io("create", &dir, e))?;
            let what = planned.bundle_name(Envelope::Shards);
            match (input, planned.made, &images) {
                (Input::Bundle { bundle, split, step }, None, _) => {
                    let told = |n| self.tell(&what, n, &written);
                    input::subset(bundle, *split, *step, &base, &told, self.cancel)?;
                }
                (_, made, Some(images)) => {
                    self.pack(images, &base, made.unwrap_or_default(), &what, &written)?;
                }
                (_, _, None) => continue,
            }
            let set = self.set(planned, base, &written, &mut notes)?;
            if images.is_none() && !set.files.is_empty() {
                images = Some(dir.join(FILES));
            }
            sets.push(set);
        }
        Ok(Prepared { sets, notes })
    }

    fn tell(&self, what: &str, bytes: u64, written: &AtomicU64) {
        (self.progress)(what, written.fetch_add(bytes, Ordering::Relaxed) + bytes);
    }

    fn pack(
        &self,
        images: &Path,
        out: &Path,
        payload: PayloadOptions,
        what: &str,
        written: &AtomicU64,
    ) -> Result<(), Error> {
        // All samples are in one split without labels, since the meaning of folders does not matter
        // here.
        let any = Pattern::parse("{key}").map_err(|e| Error::Pack(LayoutError::from(e).into()))?;
        let plan = PlanOptions {
            images: vec![any],
            labels: Labels::None,
            on_error: OnBadInput::Skip,
            payload,
            ..PlanOptions::default()
        };
        let temp_dir = self.scratch.to_owned();
        let jobs = self.options.jobs;
        let options = PackOptions { plan, jobs, dry_run: false, part: None, temp_dir };
        let progress = |p: gular_pack::Progress| {
            if let gular_pack::Progress::Packed(_, bytes) = p {
                self.tell(what, bytes, written);
            }
        };
        pack(images, out, &options, &progress, self.cancel).map_err(cancelled)?;
        Ok(())
    }

    /// Converts the bundle `base` to everything else.
    fn set(
        &self,
        planned: &Planned,
        base: PathBuf,
        written: &AtomicU64,
        notes: &mut Vec<String>,
    ) -> Result<Set, Error> {
        let dir = base.parent().unwrap_or(self.scratch).to_owned();
        let of = of(&base)?;
        let mut made = Vec::new();
        for &envelope in &planned.envelopes {
            if envelope == Envelope::Shards {
                made.push((envelope, base.clone()));
                continue;
            }
            let out = dir.join(envelope.name());
            let what = planned.bundle_name(envelope);
            match self.convert(&base, &out, Target::Bundle(envelope), &what, written) {
                Ok(()) => made.push((envelope, out)),
                // The error is about one format, so the others can still be compared.
                Err(Error::Pack(gular_pack::Error::Run(gular_pack::RunError::Bundle(error))))
                    if !matches!(error, gular_bundle::Error::Io(_)) =>
                {
                    notes.push(format!(
                        "envelope {envelope} is left out for payload {}: {error}",
                        payload_name(planned.payload)
                    ));
                }
                Err(error) => return Err(error),
            }
        }
        let wanted = self.options.envelopes.iter();
        let bundles = wanted.filter_map(|e| made.iter().find(|(m, _)| m == e).cloned()).collect();
        let mut files = Vec::new();
        if planned.files {
            let out = dir.join(FILES);
            self.convert(&base, &out, Target::Directory, &planned.files_name(), written)?;
            files = listed(&base, &out, of)?;
        }
        Ok(Set { payload: planned.payload, base, bundles, files, of })
    }

    fn convert(
        &self,
        base: &Path,
        out: &Path,
        target: Target,
        what: &str,
        written: &AtomicU64,
    ) -> Result<(), Error> {
        let options = ConvertOptions { target, jobs: self.options.jobs, dry_run: false };
        let progress = |p: gular_pack::Progress| {
            if let gular_pack::Progress::Packed(_, bytes) = p {
                self.tell(what, bytes, written);
            }
        };
        convert(base, out, &options, &progress, self.cancel).map_err(cancelled)?;
        Ok(())
    }
}

/// A stop that was asked for is not a failure of packing.
fn cancelled(error: gular_pack::Error) -> Error {
    match error {
        gular_pack::Error::Run(gular_pack::RunError::Cancelled)
        | gular_pack::Error::Shard(gular_pack::ShardError::Unfinished { .. }) => Error::Cancelled,
        error => error.into(),
    }
}

/// The only split of the bundle in `base`, and its field of pictures.
fn of(base: &Path) -> Result<Of, Error> {
    let open = OpenOptions { check: CheckWhen::OnFetch, ..OpenOptions::default() };
    let bundle = Bundle::open(base, open)?;
    let image = bundle.manifest().image().unwrap_or_default();
    let filled = Split::ALL.into_iter().find(|split| bundle.n_samples(*split) > 0);
    let split = filled.ok_or_else(|| Error::Nothing { path: base.display().to_string() })?;
    let samples = bundle.n_samples(split);
    let too_many = |_| Error::Option(format!("{samples} samples are too many: set a limit"));
    let samples = u32::try_from(samples).map_err(too_many)? as usize;
    Ok(Of { split, image, samples })
}

/// The files of a bundle's samples that `convert` wrote below `out`, in order.
fn listed(base: &Path, out: &Path, of: Of) -> Result<Vec<PathBuf>, Error> {
    let bundle = Bundle::open(base, OpenOptions::default())?;
    let dir = out.join(of.split.to_string());
    let list = dir.join(SAMPLES_NAME);
    let text = fs::read_to_string(&list).map_err(|e| Error::io("read", &list, e))?;
    let name = of.image.of(&bundle.manifest().fields).map(|f| f.name.as_str());
    let mut lines = text.lines();
    let column = lines.next().and_then(|head| head.split('\t').position(|c| Some(c) == name));
    let file = |line: &str| Some(dir.join(line.split('\t').nth(column?)?));
    let files: Vec<PathBuf> = lines.filter_map(file).collect();
    if files.len() == of.samples {
        return Ok(files);
    }
    let path = list.display();
    Err(Error::Option(format!(
        "`{path}` lists {} files, expected {}, one per sample",
        files.len(),
        of.samples
    )))
}
