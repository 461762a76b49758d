//! Makes a new version of a bundle: new and changed samples are packed, the others stay in their
//! shards.
//!
//! ```text
//! images/ ─ same key, same values as in the base? ─ yes ▶ a view of the base ───────────┐
//!                                                 └ no ─▶ packed, in a folder beside it ├▶ one bundle
//! ```

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use gular_bundle::{About, Bundle, DATA_DIR, Digest, OpenOptions, Payload};
use gular_files::{TEMP_PREFIX, folder_of, persist, sync_folder, temp_in};
use serde::Serialize;

use super::compare::{Comparison, Splits};
use super::derivation::{Version, derive_from};
use super::derive_report::DeriveReport;
use super::like_base;
use super::options::{DeriveOptions, Unlisted};
use crate::error::Error;
use crate::facts::{BadInput, setting};
use crate::layout::{Labels, LayoutError, TableOptions, Unlabelled, Unpacked};
use crate::packing::{
    PackOptions, PackReport, Progress, borne_out, make_plan, open_source, pack, with_known,
};
use crate::shards::{SKIPPED_NAME, ShardError, finished_bundle};
use crate::source::LabelColumn;

/// What a new version took from its base, and what it packed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BaseReport {
    /// Digest of the base.
    pub base: Digest,
    /// Number of samples of the base that are unchanged.
    pub unchanged: u64,
    /// Number of samples of the base that are packed again, since one of their values has changed.
    pub changed: u64,
    /// Number of samples of the base that the new version does not have.
    pub removed: u64,
    /// Number of samples of the source that the base does not have.
    pub added: u64,
    /// The report on packing new and changed samples; `None` if there are none, or if all of them
    /// were left out.
    pub packed: Option<PackReport>,
    /// Number of inputs that were left out, all of which are listed in `skipped.jsonl`.
    pub skipped: u64,
    /// The report on the new bundle; `None` in a dry run.
    pub bundle: Option<DeriveReport>,
    /// Wall-clock time.
    pub seconds: f64,
}

/// Files of the base that are open at a time: each thread keeps some scenes open, too.
const OPEN_FILES: usize = 64;

/// Packs the images in `source` into a new bundle in `out`, as a version of the bundle in `base`:
/// samples of which it has every value already, byte for byte, stay in its shards, which are
/// linked.
///
/// # Errors
/// Those of [`pack`] and [`derive`](super::derive); [`Error::NoSources`] for bundles
/// whose images are neither files as they were found nor have digests of them;
/// [`Error::UnlikeBase`] and [`Error::UnlikeField`] where values that stay would be unlike those
/// that are packed. The same call resumes an interrupted one.
pub fn pack_onto(
    base: &Path,
    source: &Path,
    out: &Path,
    options: &PackOptions,
    progress: &(dyn Fn(Progress) + Sync),
    cancel: &AtomicBool,
) -> Result<BaseReport, Error> {
    borne_out(source, options, progress, cancel, &mut |options| {
        onto(base, source, out, options, progress, cancel)
    })
}

fn onto(
    base: &Path,
    source: &Path,
    out: &Path,
    options: &PackOptions,
    progress: &(dyn Fn(Progress) + Sync),
    cancel: &AtomicBool,
) -> Result<BaseReport, Error> {
    let start = Instant::now();
    for folder in [base, source] {
        crate::packing::check_apart(folder, out)?;
    }
    let bundle = Bundle::open(
        base,
        OpenOptions { index_bytes: 0, open_files: Some(OPEN_FILES), ..OpenOptions::default() },
    )?;
    let mut options = with_known(source, options)?.unwrap_or_else(|| options.clone());
    like_base::check(&bundle, &mut options)?;
    let io = |e| Error::io("create a folder in", &options.temp_dir, e);
    let temp = tempfile::tempdir_in(&options.temp_dir).map_err(io)?;
    let [kept, empty] = ["kept", "empty"].map(|name| temp.path().join(name));
    let opened = open_source(source, &options.plan, temp.path(), cancel)?;
    let tables = match &options.plan.labels {
        Labels::Table(tables) => {
            Some(Unpacked::new(tables, &opened, &options.plan.source(), temp.path(), cancel)?)
        }
        _ => None,
    };
    let tables = tables.as_ref().map(|unpacked| &unpacked.options);
    options.plan.classes = like_base::classes(bundle.manifest(), &options.plan, tables)?;
    let options = &options;
    let (plan, found) = make_plan(&opened, temp.path(), &options.plan, progress, cancel)?;
    like_base::same_fields(bundle.manifest(), &plan)?;
    like_base::same_patterns(bundle.manifest(), &found.layout)?;
    let splits = match &options.plan.labels {
        Labels::Table(tables) if tables.split.is_some() => Splits::Table,
        _ if found.layout.has_splits() => Splits::Folders,
        _ => Splits::Options,
    };
    like_base::same_fractions(bundle.manifest(), &options.plan, splits)?;
    let compared = Comparison {
        base: &bundle,
        source: &opened,
        plan: &plan,
        options,
        splits,
        temp: temp.path(),
        progress,
        cancel,
    };
    let compared = compared.run(&kept, &empty)?;
    let labelled = plan.labelled;
    // Archives that were unpacked for the comparison are unpacked again for packing, elsewhere.
    drop((opened, plan));
    let digest = bundle.digest();
    let report =
        |packed: Option<PackReport>, skipped: u64, made: Option<DeriveReport>| BaseReport {
            base: digest,
            unchanged: compared.unchanged,
            changed: compared.changed,
            removed: compared.of_base - compared.unchanged - compared.changed,
            added: compared.added,
            packed,
            skipped,
            bundle: made,
            seconds: start.elapsed().as_secs_f64(),
        };
    let derive = DeriveOptions { jobs: options.jobs, ..DeriveOptions::new(temp.path().to_owned()) };
    // The folder is beside the result, so that its shards are on the same file system and can be
    // linked.
    let new = beside(out);
    if !options.dry_run {
        // An earlier run may have ended before it did this.
        bring(&new, out)?;
    }
    // If samples are packed below, that report also counts the inputs that were left out here.
    let (mut packed, mut skipped) = (None, found.skipped);
    let is_new = compared.changed + compared.added > 0;
    // If there are no inputs at all, packing says why.
    if is_new || compared.unchanged == 0 {
        let mut some = options.clone();
        some.plan.leave_out = if is_new { vec![kept.clone(), empty] } else { Vec::new() };
        // The version after this one is compared with it, too.
        some.plan.source_digests |= bundle.manifest().payload != Payload::Encoded
            && some.plan.tile.is_none()
            && !some.plan.joins_files();
        match pack_new(source, &new, &some, progress, cancel) {
            Err(Error::Layout(LayoutError::NoImages { left_out, .. }))
                if !left_out.is_empty() && compared.unchanged > 0 =>
            {
                skipped = left_out;
            }
            made => packed = Some(made.map_err(|e| as_of(out, e))?),
        }
    }
    if options.dry_run {
        return Ok(report(packed, skipped.len() as u64, None));
    }
    let (mut parts, mut no_statistics) = (Vec::new(), None);
    let folder = folder_of(out);
    fs::create_dir_all(folder).map_err(|e| Error::io("create", folder, e))?;
    // This folder is also beside the result, since relative links must lead to the same files.
    let nearby = tempfile::Builder::new().prefix(TEMP_PREFIX).tempdir_in(folder);
    let nearby = nearby.map_err(|e| Error::io("create a folder in", folder, e))?;
    if compared.unchanged > 0 {
        let part = nearby.path().join("base");
        let some = DeriveOptions { keys: vec![kept], ..derive.clone() };
        let made = derive_from(&[base.to_owned()], &part, &some, None, &|_| {}, cancel);
        no_statistics = made.map_err(|e| as_of(out, e))?.no_statistics;
        parts.push(part);
    }
    if packed.is_some() {
        skipped = left_out(&new)?;
        parts.push(new.clone());
    }
    let n_skipped = skipped.len() as u64;
    let about = about(&options.plan.about, &bundle.manifest().about);
    // This is the decoder of the kept samples, or of the packed ones; `None` if no JPEG was
    // decoded.
    let of_new = if packed.is_some() { finished_bundle(&new)? } else { None };
    let mut of_both = [Some(&bundle), of_new.as_ref()].into_iter().flatten();
    let decoder = of_both.find_map(|bundle| bundle.manifest().made.get("decoder").cloned());
    let version = Version { base: digest, about, skipped, decoder };
    let labels = tables.and_then(|tables| said_of_kept(tables, labelled));
    let unlisted = match options.plan.unlabelled {
        Unlabelled::Keep => {
            let text =
                "a new version of a bundle cannot keep images without a row: pack all images again";
            return Err(setting(&["unlabelled"], text));
        }
        Unlabelled::Fail => Unlisted::Fail,
        Unlabelled::Skip => Unlisted::Skip,
    };
    let derive = DeriveOptions { labels, unlisted, ..derive };
    let made = derive_from(&parts, out, &derive, Some(&version), &|_| {}, cancel);
    if let Err(Error::Shard(
        ShardError::AlreadyBundle { .. }
        | ShardError::AlreadyPart { .. }
        | ShardError::NotEmpty { .. },
    )) = made
    {
        // Another run cannot use the packed samples, since they name another folder.
        remove(&new)?;
    }
    let mut made = made?;
    // What the base's part has lost is the reason why the whole has none.
    made.no_statistics = no_statistics.or(made.no_statistics);
    let brought = bring(&new, out)?;
    made.symbolic_links = made.symbolic_links.saturating_sub(brought);
    remove(&new)?;
    Ok(report(packed, n_skipped, Some(made)))
}

/// The table that gives new labels and splits to kept samples, if it has any.
fn said_of_kept(tables: &TableOptions, labelled: bool) -> Option<TableOptions> {
    if labelled {
        return Some(tables.clone());
    }
    // The table's other values, several classes per image included, are in fields.
    tables.split.as_ref()?;
    Some(TableOptions { label: LabelColumn::None, separator: None, ..tables.clone() })
}

/// Packs what is new; what an earlier run left of another source goes first.
fn pack_new(
    source: &Path,
    new: &Path,
    options: &PackOptions,
    progress: &(dyn Fn(Progress) + Sync),
    cancel: &AtomicBool,
) -> Result<PackReport, Error> {
    if options.dry_run {
        return pack(source, new, options, progress, cancel);
    }
    if finished_bundle(new)?.is_some_and(|made| made.check_lengths().is_err()) {
        // Some of its shards were moved into the result.
        remove(new)?;
    }
    match pack(source, new, options, progress, cancel) {
        Err(Error::Shard(
            ShardError::OtherPlan { .. }
            | ShardError::AlreadyBundle { .. }
            | ShardError::NotEmpty { .. },
        )) => {
            remove(new)?;
            pack(source, new, options, progress, cancel)
        }
        made => made,
    }
}

/// The error of a run in a folder that the user did not name, as of the one that they did.
fn as_of(out: &Path, error: Error) -> Error {
    let path = out.display().to_string();
    match error {
        Error::Shard(ShardError::Busy { .. }) => ShardError::Busy(path).into(),
        Error::Shard(ShardError::Unfinished { done, total, .. }) => {
            ShardError::Unfinished { path, done, total }.into()
        }
        error => error,
    }
}

/// The description of the new version; where it says nothing, that of the base.
fn about(new: &About, base: &About) -> About {
    let or = |new: &Option<String>, base: &Option<String>| new.clone().or_else(|| base.clone());
    About {
        name: or(&new.name, &base.name),
        description: or(&new.description, &base.description),
        licence: or(&new.licence, &base.licence),
        citation: or(&new.citation, &base.citation),
        source: or(&new.source, &base.source),
    }
}

/// The inputs that the run which packed into folder `new` left out.
fn left_out(new: &Path) -> Result<Vec<BadInput>, Error> {
    let list = new.join(SKIPPED_NAME);
    let lines = match fs::read_to_string(&list) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        lines => lines.map_err(|e| Error::io("read", &list, e))?,
    };
    let input = |line: &str| {
        serde_json::from_str(line).map_err(|e| Error::io("read", &list, io::Error::from(e)))
    };
    lines.lines().map(input).collect()
}

/// Moves shards from folder `new` to the bundle in `out`, if that has symbolic links to them
/// because the file system has no hard links; `new` is removed later. Returns how many shards were
/// moved.
fn bring(new: &Path, out: &Path) -> Result<u64, Error> {
    let data = out.join(DATA_DIR);
    let (Ok(new), Ok(entries)) = (fs::canonicalize(new), fs::read_dir(&data)) else {
        return Ok(0);
    };
    let mut brought = 0;
    for entry in entries {
        let to = entry.map_err(|e| Error::io("list", &data, e))?.path();
        let Some(from) = fs::read_link(&to).ok().filter(|from| from.starts_with(&new)) else {
            continue;
        };
        if fs::rename(&from, &to).is_err() {
            // `out` is on another file system.
            let mut copy = temp_in(&data)?;
            let mut file = fs::File::open(&from).map_err(|e| Error::io("read", &from, e))?;
            io::copy(&mut file, &mut copy).map_err(|e| Error::io("write", &to, e))?;
            persist(copy, &to)?;
        }
        brought += 1;
    }
    if brought > 0 {
        sync_folder(&data)?;
    }
    Ok(brought)
}

/// The folder of the new shards until the bundle is finished.
fn beside(out: &Path) -> PathBuf {
    let name = out.file_name().unwrap_or_default().to_string_lossy();
    out.with_file_name(format!("{TEMP_PREFIX}new-{name}"))
}

fn remove(folder: &Path) -> Result<(), Error> {
    match fs::remove_dir_all(folder) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(Error::io("remove", folder, e)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use gular_bundle::FieldIdx;

    use super::super::link::WITHOUT_HARD_LINKS;
    use super::*;
    use crate::plan::PlanOptions;
    use crate::source::Inputs;

    fn put(dir: &Path, name: &str, text: &str) {
        let path = dir.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn options(temp_dir: &Path) -> PackOptions {
        let plan = PlanOptions { inputs: Inputs::Bytes, ..PlanOptions::default() };
        PackOptions { plan, jobs: 1, dry_run: false, part: None, temp_dir: temp_dir.to_owned() }
    }

    fn all_values(dir: &Path) -> Vec<Vec<u8>> {
        let bundle = Bundle::open(dir, OpenOptions::default()).unwrap();
        let mut values = Vec::new();
        for i in 0..bundle.n_samples(gular_bundle::Split::Train) {
            let id = bundle.locate(gular_bundle::Split::Train, i).unwrap();
            let mut value = Vec::new();
            bundle.read(id, FieldIdx(0), &mut value).unwrap();
            values.push(value);
        }
        values.sort();
        values
    }

    #[test]
    fn without_hard_links_the_new_shards_move_into_the_result() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let (source, base, out, temp) = (at("src"), at("base"), at("out"), at("tmp"));
        fs::create_dir(&temp).unwrap();
        put(&source, "a/1", "one");
        put(&source, "a/2", "two");
        let (some, none) = (options(&temp), AtomicBool::new(false));
        pack(&source, &base, &some, &|_| {}, &none).unwrap();
        put(&source, "a/3", "three");
        fs::remove_file(source.join("a/2")).unwrap();
        let onto = || pack_onto(&base, &source, &out, &some, &|_| {}, &none).unwrap();
        WITHOUT_HARD_LINKS.set(true);
        let links = |report: BaseReport| report.bundle.unwrap().symbolic_links;
        // The base's shard and its index have a second name.
        assert_eq!(links(onto()), 2);
        let expected = vec![b"one".to_vec(), b"three".to_vec()];
        assert_eq!(all_values(&out), expected);
        // This is the state of a run that ended before the shards were moved; another run then
        // moves them.
        let new = beside(&out);
        pack(
            &source,
            &new,
            &{
                let mut some = some.clone();
                let kept = at("kept");
                fs::write(&kept, "a/1\n").unwrap();
                some.plan.leave_out = vec![kept];
                some
            },
            &|_| {},
            &none,
        )
        .unwrap();
        for entry in fs::read_dir(new.join(DATA_DIR)).unwrap() {
            let from = fs::canonicalize(entry.unwrap().path()).unwrap();
            let to = out.join(DATA_DIR).join(from.file_name().unwrap());
            fs::remove_file(&to).unwrap();
            std::os::unix::fs::symlink(&from, &to).unwrap();
        }
        assert!(onto().bundle.unwrap().already_done);
        WITHOUT_HARD_LINKS.set(false);
        assert_eq!(all_values(&out), expected);
        let hidden = fs::read_dir(dir.path()).unwrap().flatten();
        let hidden = hidden.filter(|e| e.file_name().to_string_lossy().starts_with('.'));
        assert_eq!(hidden.count(), 0);
        assert_eq!(fs::read_dir(&temp).unwrap().count(), 0);
    }
}
