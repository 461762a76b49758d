//! A new version of a bundle: what is new or changed is packed, the rest stays in its shards.
//!
//! ```text
//! images/ ─ same key, same bytes as in the base? ─ yes ▶ a view of the base ──────┐
//!                                                └ no ─▶ packed, in a folder beside ├▶ one bundle
//! ```

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use gular_bundle::{
    About, Bundle, DATA_DIR, Digest, FieldIdx, OpenOptions, Payload, Row, ShardIdx,
};
use gular_files::{TEMP_PREFIX, folder_of, parallel, persist, sync_folder, temp_in};
use serde::Serialize;

use super::key_list::hash;
use super::options::{DeriveOptions, Unlisted};
use super::report::DeriveReport;
use super::run::{Version, derive_from};
use crate::error::BadInput;
use crate::labels::Table;
use crate::out::{SKIPPED_NAME, finished_bundle};
use crate::run::{PackOptions, open_source};
use crate::source::Source;
use crate::{
    Error, FieldColumns, Inputs, Labels, PayloadOptions, Progress, Report, TableOptions,
    Unlabelled, pack, scan,
};

/// What became of the base.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BaseReport {
    /// The digest of the base.
    pub base: Digest,
    /// Samples of it that stay as they are.
    pub unchanged: u64,
    /// Samples of it that are packed again, since their file has other bytes.
    pub changed: u64,
    /// Samples of it that the source no longer has.
    pub removed: u64,
    /// Images that it does not have.
    pub added: u64,
    /// What was packed; nothing where no image is new or changed, or all of those were left out.
    pub packed: Option<Report>,
    /// Inputs left out, all listed in `skipped.jsonl`.
    pub skipped: u64,
    /// The new bundle; nothing in a dry run.
    pub bundle: Option<DeriveReport>,
    /// Wall-clock time.
    pub seconds: f64,
}

/// Packs the images in `source` into a new bundle in `out`, as a version of the bundle in `base`:
/// images that it has already, byte for byte, stay in its shards, which are linked.
///
/// # Errors
/// Those of [`pack`](crate::pack) and [`derive`](super::derive); [`Error::Option`] for bundles
/// whose values are not files as they were found. The same call resumes an interrupted one.
pub fn pack_onto(
    base: &Path,
    source: &Path,
    out: &Path,
    options: &PackOptions,
    progress: &(dyn Fn(Progress) + Sync),
    cancel: &AtomicBool,
) -> Result<BaseReport, Error> {
    let start = Instant::now();
    for folder in [base, source] {
        crate::run::check_apart(folder, out)?;
    }
    let bundle = Bundle::open(base, OpenOptions { index_bytes: 0, ..OpenOptions::default() })?;
    check(&bundle, options)?;
    let io = |e| Error::io("create a folder in", &options.temp_dir, e);
    let temp = tempfile::tempdir_in(&options.temp_dir).map_err(io)?;
    let compared = Compared::new(&bundle, source, options, temp.path(), cancel);
    let compared = compared.map_err(|e| as_of(out, e))?;
    let kept = temp.path().join("kept");
    fs::write(&kept, &compared.kept).map_err(|e| Error::io("write", &kept, e))?;
    let digest = bundle.digest();
    let report = |packed: Option<Report>, skipped: u64, made: Option<DeriveReport>| BaseReport {
        base: digest,
        unchanged: compared.unchanged,
        changed: compared.changed,
        removed: compared.of_base - compared.unchanged - compared.changed,
        added: compared.images - compared.unchanged - compared.changed,
        packed,
        skipped,
        bundle: made,
        seconds: start.elapsed().as_secs_f64(),
    };
    let derive = DeriveOptions { jobs: options.jobs, ..DeriveOptions::new(temp.path().to_owned()) };
    // Beside the result, so that its shards are on the same file system and can be linked.
    let new = beside(out);
    if !options.dry_run {
        // An earlier run may have ended before it did this.
        bring(&new, out)?;
    }
    // What is packed below says of these too.
    let (mut packed, mut skipped) = (None::<Report>, compared.skipped.clone());
    if compared.images > compared.unchanged {
        let mut some = options.clone();
        some.plan.leave_out = vec![kept.clone()];
        if some.plan.classes.is_none() && bundle.manifest().has_labels() {
            // New classes behind the old ones, whose numbers stay.
            let classes = temp.path().join("classes");
            let io = |e| Error::io("write", &classes, e);
            fs::write(&classes, compared.classes(&bundle)).map_err(io)?;
            some.plan.classes = Some(classes);
        }
        match pack_new(source, &new, &some, progress, cancel) {
            Err(Error::NoImages { left_out, .. })
                if !left_out.is_empty() && compared.unchanged > 0 =>
            {
                skipped = left_out;
            }
            // None of what is new is in the table.
            Err(Error::NothingJoins { .. })
                if some.plan.unlabelled == Unlabelled::Skip && compared.unchanged > 0 => {}
            made => packed = Some(made.map_err(|e| as_of(out, e))?),
        }
    }
    if options.dry_run {
        return Ok(report(packed, skipped.len() as u64, None));
    }
    let mut parts = Vec::new();
    let folder = folder_of(out);
    fs::create_dir_all(folder).map_err(|e| Error::io("create", folder, e))?;
    // Beside the result too: a link to it must not end elsewhere.
    let nearby = tempfile::Builder::new().prefix(TEMP_PREFIX).tempdir_in(folder);
    let nearby = nearby.map_err(|e| Error::io("create a folder in", folder, e))?;
    if compared.unchanged > 0 {
        let part = nearby.path().join("base");
        let some = DeriveOptions { keys: vec![kept], ..derive.clone() };
        let made = derive_from(&[base.to_owned()], &part, &some, None, &|_| {}, cancel);
        made.map_err(|e| as_of(out, e))?;
        parts.push(part);
    }
    if packed.is_some() {
        skipped = left_out(&new)?;
        parts.push(new.clone());
    }
    let n_skipped = skipped.len() as u64;
    let about = about(&options.plan.about, &bundle.manifest().about);
    let version = Version { base: digest, about, skipped };
    // A table may say something else of what stays.
    let labels = match &options.plan.labels {
        Labels::Table(tables) => Some(tables.clone()),
        _ => None,
    };
    let unlisted = match options.plan.unlabelled {
        Unlabelled::Fail => Unlisted::Fail,
        Unlabelled::Skip => Unlisted::Skip,
    };
    let derive = DeriveOptions { labels, unlisted, ..derive };
    let mut made = derive_from(&parts, out, &derive, Some(&version), &|_| {}, cancel)?;
    if let Some(packed) = &mut packed {
        // Rows of what stays are of no image that was packed.
        packed.unused_rows = made.unused_rows.as_ref().map_or(0, |rows| rows.n);
    }
    let brought = bring(&new, out)?;
    made.symbolic_links = made.symbolic_links.saturating_sub(brought);
    remove(&new)?;
    Ok(report(packed, n_skipped, Some(made)))
}

/// Packs what is new; what an earlier run left of another source goes first.
fn pack_new(
    source: &Path,
    new: &Path,
    options: &PackOptions,
    progress: &(dyn Fn(Progress) + Sync),
    cancel: &AtomicBool,
) -> Result<Report, Error> {
    if options.dry_run {
        return pack(source, new, options, progress, cancel);
    }
    if finished_bundle(new)?.is_some_and(|made| made.check_lengths().is_err()) {
        // Some of its shards were brought into the result.
        remove(new)?;
    }
    match pack(source, new, options, progress, cancel) {
        Err(Error::OtherPlan { .. } | Error::AlreadyBundle { .. } | Error::NotEmpty { .. }) => {
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
        Error::Busy { .. } => Error::Busy { path },
        Error::Cancelled { done, total, .. } => Error::Cancelled { path, done, total },
        error => error,
    }
}

/// What the new version says of itself, else what the base says.
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

/// Makes shards in folder `new` those of the bundle in `out`, where that has symbolic links to
/// them because the file system has no hard ones: `new` is removed. How many these were.
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
            // `out` is a file system of its own.
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

/// Where the new shards are until the bundle is made.
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

fn check(bundle: &Bundle, options: &PackOptions) -> Result<(), Error> {
    let manifest = bundle.manifest();
    let fail = |text: &str| Err(Error::Option(text.to_owned()));
    let encoded =
        options.plan.payload == PayloadOptions::Encoded && options.plan.inputs != Inputs::Arrays;
    if manifest.payload != Payload::Encoded || !encoded {
        return fail(
            "a base needs payload `encoded`: only then can files be compared with stored values",
        );
    }
    let (old, new) = (manifest.envelope, options.plan.envelope);
    if old != new {
        return fail(&format!(
            "the base has envelope `{old}` and its new version `{new}`: both need the same"
        ));
    }
    let (old, new) = (manifest.has_labels(), options.plan.labels != Labels::None);
    if old != new {
        let labels = |are: bool| if are { "labels" } else { "no labels" };
        return fail(&format!(
            "the base has {} and its new version {}: both need the same",
            labels(old),
            labels(new)
        ));
    }
    if manifest.image().is_some() != (options.plan.inputs == Inputs::Images) {
        return fail("the base and its new version need files of the same kind");
    }
    let other = options.plan.tile.is_some() || !options.plan.fields.is_empty();
    if other || manifest.fields.len() > 1 + usize::from(manifest.has_labels()) {
        return fail(
            "a base cannot be compared with files if its samples have more fields than image and label, or are tiles",
        );
    }
    if options.part.is_some() {
        return fail("a new version of a bundle is packed in one part");
    }
    if matches!(options.plan.inputs, Inputs::Pixels { .. }) {
        return fail("rows of pixels cannot be compared with a base; pack them into a new bundle");
    }
    if let Labels::Table(tables) = &options.plan.labels
        && (tables.fields != FieldColumns::Named(Vec::new()) || tables.separator.is_some())
    {
        return fail(
            "with a base, a table gives one label per image, and splits: its further columns are not fields",
        );
    }
    Ok(())
}

/// What the source and the base have in common.
struct Compared {
    /// The keys that stay, one per line.
    kept: String,
    images: u64,
    unchanged: u64,
    changed: u64,
    of_base: u64,
    /// The classes of the source.
    classes: Vec<String>,
    /// Files that cannot be inputs.
    skipped: Vec<BadInput>,
}

impl Compared {
    /// The classes of the base, then new ones, one per line.
    fn classes(&self, base: &Bundle) -> String {
        let old = &base.manifest().classes;
        let new = self.classes.iter().filter(|class| !old.contains(class));
        old.iter().chain(new).map(|class| format!("{class}\n")).collect()
    }

    fn new(
        bundle: &Bundle,
        source: &Path,
        options: &PackOptions,
        temp: &Path,
        cancel: &AtomicBool,
    ) -> Result<Self, Error> {
        let mut places: HashMap<u128, (ShardIdx, Row)> = HashMap::new();
        for shard in ShardIdx::first(bundle.manifest().shards.len()) {
            let index = bundle.index(shard)?;
            for row in index.rows() {
                places.insert(hash(index.key(row).unwrap_or_default()), (shard, row));
            }
        }
        let of_base = places.len() as u64;
        let source = open_source(source, &options.plan, temp, cancel)?;
        let (mut images, mut known) = (0, Vec::new());
        let found = scan::scan(&source, &options.plan, &mut |key, bytes| {
            images += 1;
            if let Some(place) = places.get(&hash(key.as_str())) {
                known.push((key.to_string(), bytes, *place));
            }
            Ok(())
        })?;
        drop(places);
        let same: Mutex<Vec<String>> = Mutex::default();
        let chunks: Vec<&[_]> = known.chunks(256).collect();
        parallel(&chunks, options.jobs, cancel, |chunk, stop| {
            for (key, bytes, place) in *chunk {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                if is_same(bundle, *place, &source, key, *bytes)? {
                    same.lock().unwrap_or_else(PoisonError::into_inner).push(key.clone());
                }
            }
            Ok::<_, Error>(())
        })?;
        if cancel.load(Ordering::Relaxed) {
            let path = temp.display().to_string();
            return Err(Error::Cancelled { path, done: 0, total: 0 });
        }
        let classes = match &options.plan.labels {
            Labels::Table(tables) => of_table(tables, bundle)?,
            _ => found.classes.into_iter().collect(),
        };
        let mut same = same.into_inner().unwrap_or_else(PoisonError::into_inner);
        same.sort_unstable();
        let unchanged = same.len() as u64;
        let changed = known.len() as u64 - unchanged;
        let kept = same.iter().map(|key| format!("{key}\n")).collect();
        let skipped = found.skipped;
        Ok(Self { kept, images, unchanged, changed, of_base, classes, skipped })
    }
}

/// The classes that a table names. Numbers are those of the base's classes.
fn of_table(tables: &TableOptions, base: &Bundle) -> Result<Vec<String>, Error> {
    let table = Table::open(tables, None)?;
    let fail = |text: &str| Err(Error::Option(text.to_owned()));
    if !table.fields.is_empty() {
        return fail(
            "with a base, a table gives one label per image, and this one gives other values too",
        );
    }
    if table.labelled() != base.manifest().has_labels() {
        return fail("only one of the base and the table has labels");
    }
    Ok(if table.by_name() { table.classes } else { Vec::new() })
}

/// Whether a file has the bytes that the base has of it. One that cannot be read is packed, and
/// named there.
fn is_same(
    bundle: &Bundle,
    (shard, row): (ShardIdx, Row),
    source: &Source,
    key: &str,
    bytes: u64,
) -> Result<bool, Error> {
    let image = bundle.manifest().image().unwrap_or(FieldIdx(0));
    let shard = bundle.shard(shard)?;
    if shard.len_of(row, image)?.map(|len| len as u64) != Some(bytes) {
        return Ok(false);
    }
    let Ok((found, _)) = source.read(key, bytes) else { return Ok(false) };
    Ok(shard.digest(row, image)? == Some(Digest::of(&found)))
}

#[cfg(test)]
mod tests {
    use super::super::link::WITHOUT_HARD_LINKS;
    use super::*;
    use crate::PlanOptions;

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
        // The base's shard and index.
        assert_eq!(links(onto()), 2);
        let expected = vec![b"one".to_vec(), b"three".to_vec()];
        assert_eq!(all_values(&out), expected);
        // As if it had ended before they moved: then another run moves them.
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
