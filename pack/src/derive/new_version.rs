//! A new version of a bundle: what is new or changed is packed, the rest stays in its shards.
//!
//! ```text
//! images/ ─ same key, same bytes as in the base? ─ yes ▶ a view of the base ──────┐
//!                                                └ no ─▶ packed, in a folder beside ├▶ one bundle
//! ```

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use gular_bundle::{
    About, Bundle, DATA_DIR, Digest, Dtype, Field, FieldIdx, MadeValue, Manifest, OpenOptions,
    Payload, Row, ShardIdx,
};
use gular_files::{TEMP_PREFIX, folder_of, parallel, persist, sync_folder, temp_in};
use serde::Serialize;

use super::derivation::{Version, derive_from};
use super::derive_report::DeriveReport;
use super::options::{DeriveOptions, Unlisted};
use crate::error::BadInput;
use crate::input::check_bytes;
use crate::labels::Table;
use crate::out::{SKIPPED_NAME, finished_bundle};
use crate::packing::{PackOptions, open_source};
use crate::payload::{Depths, Recipe, is_of_arrays};
use crate::plan::check_options;
use crate::sort::Sorter;
use crate::source::Source;
use crate::{
    Classes, Depth, Error, FieldColumns, Inputs, Labels, PackReport, PayloadOptions, PlanOptions,
    Progress, TableOptions, Unlabelled, pack, scan,
};

/// What a new version took from its base, and what it packed.
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
    /// What was packed; null if no image is new or changed, or if all of these were left out.
    pub packed: Option<PackReport>,
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
/// Those of [`pack`](crate::pack) and [`derive`](super::derive); [`Error::NoSources`] for bundles
/// whose values are neither files as they were found nor have digests of them; [`Error::Option`]
/// where values that stay would be unlike those that are packed. The same call resumes an
/// interrupted one.
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
        crate::packing::check_apart(folder, out)?;
    }
    let bundle = Bundle::open(base, OpenOptions { index_bytes: 0, ..OpenOptions::default() })?;
    let mut options = options.clone();
    check(&bundle, &mut options)?;
    let options = &options;
    let io = |e| Error::io("create a folder in", &options.temp_dir, e);
    let temp = tempfile::tempdir_in(&options.temp_dir).map_err(io)?;
    let kept = temp.path().join("kept");
    let compared = Compared::new(&bundle, source, options, (temp.path(), &kept), cancel);
    let compared = compared.map_err(|e| as_of(out, e))?;
    let digest = bundle.digest();
    let report =
        |packed: Option<PackReport>, skipped: u64, made: Option<DeriveReport>| BaseReport {
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
    let (mut packed, mut skipped) = (None::<PackReport>, compared.skipped.clone());
    if compared.images > compared.unchanged {
        let mut some = options.clone();
        some.plan.leave_out = vec![kept.clone()];
        // The version after this one is compared with it, too.
        some.plan.source_digests |= bundle.manifest().payload != Payload::Encoded;
        if some.plan.classes.is_none() && bundle.manifest().has_labels() {
            // New classes behind the old ones, whose numbers stay.
            some.plan.classes = Some(Classes::Names(compared.classes(&bundle)));
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
    // Of what stays, or of what is packed: there is none where no JPEG was decoded.
    let of_new = if packed.is_some() { finished_bundle(&new)? } else { None };
    let mut of_both = [Some(&bundle), of_new.as_ref()].into_iter().flatten();
    let decoder = of_both.find_map(|bundle| bundle.manifest().made.get("decoder").cloned());
    let version = Version { base: digest, about, skipped, decoder };
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
) -> Result<PackReport, Error> {
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
        Error::Unfinished { done, total, .. } => Error::Unfinished { path, done, total },
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

/// Whether the base can have such a new version. What the options leave to be found of the images
/// is what it is in the base.
fn check(bundle: &Bundle, options: &mut PackOptions) -> Result<(), Error> {
    check_options(&options.plan)?;
    let manifest = bundle.manifest();
    let fail = |text: &str| Err(Error::Option(text.to_owned()));
    if matches!(options.plan.inputs, Inputs::Pixels { .. }) {
        return fail(
            "a table of pixels cannot be packed as a new version of a base; pack it into a new bundle",
        );
    }
    let unlike = |setting, old: String, new: String| {
        Err(Error::UnlikeBase { setting, old: Some(old), new: Some(new) })
    };
    let (old, new) = (manifest.payload, options.plan.manifest_payload());
    if old != new {
        let name = |payload| format!("{payload:?}").to_lowercase();
        return unlike("payload", name(old), name(new));
    }
    let (old, new) = (manifest.envelope, options.plan.envelope);
    if old != new {
        return unlike("envelope", old.to_string(), new.to_string());
    }
    let (old, new) = (manifest.has_labels(), options.plan.labels != Labels::None);
    if old != new {
        let labels = |are: bool| if are { "labels" } else { "no labels" };
        return fail(&format!(
            "a new version needs labels as in its base: the base has {}, this pack has {}",
            labels(old),
            labels(new)
        ));
    }
    if manifest.image().is_some() == (options.plan.inputs == Inputs::Bytes) {
        return fail("a new version needs files of the same kind as its base");
    }
    let other = options.plan.tile.is_some() || !options.plan.fields.is_empty();
    let own = manifest.fields.iter().filter(|field| !is_of_arrays(field)).count();
    if other || own > 1 + usize::from(manifest.has_labels()) {
        return Err(Error::BaseFields);
    }
    if options.part.is_some() {
        return fail("a new version of a bundle is packed in one part");
    }
    if let (Labels::Name(new), Some(MadeValue::Text(old))) =
        (&options.plan.labels, manifest.made.get("label_from"))
        && new.as_str() != old
    {
        return fail(&format!(
            "the label expression must be the same as in the base, since unchanged images keep their labels: the base has `{old}`, this pack has `{new}`",
            new = new.as_str()
        ));
    }
    if manifest.payload != Payload::Encoded {
        if !(manifest.shards.is_empty() || has_sources(bundle)?) {
            return Err(Error::NoSources { path: bundle.dir().display().to_string() });
        }
        same_recipe(manifest, &mut options.plan)?;
    }
    if let Labels::Table(tables) = &options.plan.labels
        && (tables.fields != FieldColumns::Named(Vec::new()) || tables.separator.is_some())
    {
        return fail(
            "with a base, a table can only give one label per image, and splits; its other columns cannot become fields",
        );
    }
    Ok(())
}

/// Whether the indexes say which files the images were made from.
fn has_sources(bundle: &Bundle) -> Result<bool, Error> {
    for shard in ShardIdx::first(bundle.manifest().shards.len()) {
        if bundle.shard(shard)?.source(Row(0))?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether the images of the base were made as those of its new version will be. The depth is that
/// of the base, if none was asked for.
fn same_recipe(manifest: &Manifest, plan: &mut PlanOptions) -> Result<(), Error> {
    let image = manifest.fields.iter().find(|field| field.is_image());
    let stored = image.and_then(Field::as_fixed);
    let (mut made, mut new) = (BTreeMap::new(), None);
    if plan.inputs == Inputs::Arrays {
        // Type and shape are known when they are packed, and compared then.
        made.insert("decoder".to_owned(), MadeValue::Text(gular_codec::jpeg_backend().to_owned()));
    } else {
        if let PayloadOptions::Raw(raw) = &mut plan.payload {
            let of_base = match stored {
                Some((Dtype::U16, _)) => Depth::U16,
                _ => Depth::U8,
            };
            raw.depth.get_or_insert(of_base);
        }
        let jpeg = ["image/jpeg".to_owned()];
        let recipe = Recipe::new(plan, Depths::default(), &jpeg)?;
        recipe.note(&mut made);
        new = Some(recipe.field(&jpeg));
    }
    for name in ["decoder", "encoder", "fit", "max_side", "quality", "size"] {
        let (old, new) = (manifest.made.get(name), made.get(name));
        // There is none where no JPEG was decoded.
        if old != new && !(name == "decoder" && old.is_none()) {
            let text = |value: &MadeValue| match value {
                MadeValue::Text(text) => text.clone(),
                MadeValue::Number(n) => n.to_string(),
            };
            let (old, new) = (old.map(text), new.map(text));
            return Err(Error::UnlikeBase { setting: name, old, new });
        }
    }
    let Some(new) = new.filter(|new| new.as_fixed() != stored) else { return Ok(()) };
    let shown = |kind: Option<(Dtype, &[u64])>| match kind {
        Some((dtype, shape)) => format!("{} {shape:?}", dtype.safetensors_name()),
        None => "files".to_owned(),
    };
    let (old, new) = (Some(shown(stored)), Some(shown(new.as_fixed())));
    Err(Error::UnlikeBase { setting: "image", old, new })
}

/// What the source and the base have in common.
struct Compared {
    images: u64,
    unchanged: u64,
    changed: u64,
    of_base: u64,
    /// The classes of the source.
    classes: Vec<String>,
    /// Files that cannot be inputs.
    skipped: Vec<BadInput>,
}

/// In records of the sort: a sample of the base, and a file of the source.
const OF_BASE: u8 = 0;
const OF_SOURCE: u8 = 1;
/// Files that are looked at before what stays of them is written down.
const AT_ONCE: usize = 1 << 14;

/// A file of the source whose key the base has.
struct Known {
    key: String,
    bytes: u64,
    place: (ShardIdx, Row),
    is_same: AtomicBool,
}

impl Compared {
    /// The classes of the base, then new ones.
    fn classes(&self, base: &Bundle) -> Vec<String> {
        let old = &base.manifest().classes;
        let known: HashSet<&String> = old.iter().collect();
        let new = self.classes.iter().filter(|class| !known.contains(class));
        old.iter().chain(new).cloned().collect()
    }

    /// Compares all files; the keys of those that stay go to the file `kept`, one per line. What
    /// memory does not hold is in folder `temp`.
    fn new(
        bundle: &Bundle,
        source: &Path,
        options: &PackOptions,
        (temp, kept): (&Path, &Path),
        cancel: &AtomicBool,
    ) -> Result<Self, Error> {
        let mut sorter = Sorter::new(temp, options.plan.memory_bytes);
        let sorting = |e| Error::io("sort in", temp, e);
        let mut of_base = 0_u64;
        for shard in ShardIdx::first(bundle.manifest().shards.len()) {
            let index = bundle.index(shard)?;
            of_base += index.n_samples() as u64;
            for row in index.rows() {
                let key = index.key(row).unwrap_or_default().as_bytes();
                let place = [shard.0 as u64, row.0 as u64].map(u64::to_le_bytes);
                let record = [&[OF_BASE], place.as_flattened()].concat();
                sorter.push(key, &record).map_err(sorting)?;
            }
        }
        let source = open_source(source, &options.plan, temp, cancel)?;
        let mut images = 0;
        let found = scan::scan(&source, &options.plan, &mut |key, bytes| {
            images += 1;
            let record = [&[OF_SOURCE][..], &bytes.to_le_bytes()].concat();
            sorter.push(key.as_str().as_bytes(), &record).map_err(sorting)
        })?;
        let writing = |e| Error::io("write", kept, e);
        let mut out = BufWriter::new(fs::File::create(kept).map_err(writing)?);
        let (mut known, mut unchanged, mut n_known) = (Vec::new(), 0, 0_u64);
        let mut compare = |known: &mut Vec<Known>| {
            parallel(known, options.jobs, cancel, |known: &Known, _| {
                let same = is_same(bundle, known.place, &source, &known.key, known.bytes)?;
                known.is_same.store(same, Ordering::Relaxed);
                Ok::<_, Error>(())
            })?;
            if cancel.load(Ordering::Relaxed) {
                return Err(Error::Cancelled);
            }
            for known in known.drain(..).filter(|known| known.is_same.load(Ordering::Relaxed)) {
                unchanged += 1;
                writeln!(out, "{}", known.key).map_err(writing)?;
            }
            Ok(())
        };
        // Of a key the sample comes before the file.
        let mut sample: Option<(Vec<u8>, (ShardIdx, Row))> = None;
        for pair in sorter.finish().map_err(sorting)? {
            let (key, record) = pair.map_err(sorting)?;
            let numbers = record.get(1..).unwrap_or_default().as_chunks::<8>().0;
            let number = |i: usize| numbers.get(i).map_or(0, |n| u64::from_le_bytes(*n));
            let index = |i: usize| usize::try_from(number(i)).unwrap_or(usize::MAX);
            if record.first() == Some(&OF_BASE) {
                sample = Some((key, (ShardIdx(index(0)), Row(index(1)))));
            } else if let Some((same, place)) = sample.take().filter(|(same, _)| *same == key) {
                n_known += 1;
                let key = String::from_utf8_lossy(&same).into_owned();
                known.push(Known { key, bytes: number(0), place, is_same: AtomicBool::default() });
                if known.len() == AT_ONCE {
                    compare(&mut known)?;
                }
            }
        }
        compare(&mut known)?;
        out.flush().map_err(writing)?;
        let classes = match &options.plan.labels {
            Labels::Table(tables) => of_table(tables, bundle)?,
            _ => found.classes.into_iter().collect(),
        };
        let (changed, skipped) = (n_known - unchanged, found.skipped);
        Ok(Self { images, unchanged, changed, of_base, classes, skipped })
    }
}

/// The classes that a table names. Numbers are those of the base's classes.
fn of_table(tables: &TableOptions, base: &Bundle) -> Result<Vec<String>, Error> {
    let table = Table::open(tables, None)?;
    let fail = |text: &str| Err(Error::Option(text.to_owned()));
    if !table.fields.is_empty() {
        return fail(
            "with a base, a table can only give one label per image; this table gives other values too",
        );
    }
    if table.labelled() != base.manifest().has_labels() {
        return fail("either both the base and the table must have labels, or neither");
    }
    Ok(if table.by_name() { table.classes } else { Vec::new() })
}

/// Whether a file has the bytes that the base has of it, or that its value was made from. One that
/// cannot be read is packed, and named there.
fn is_same(
    bundle: &Bundle,
    (shard, row): (ShardIdx, Row),
    source: &Source,
    key: &str,
    bytes: u64,
) -> Result<bool, Error> {
    let image = bundle.manifest().image().unwrap_or(FieldIdx(0));
    let shard = bundle.shard(shard)?;
    let expected = match bundle.manifest().payload {
        Payload::Encoded => {
            let len = shard.len_of(row, image)?.map(|len| len as u64);
            shard.digest(row, image)?.filter(|_| len == Some(bytes))
        }
        Payload::Reencoded | Payload::Raw => shard.source(row)?,
    };
    let Some(expected) = expected.filter(|_| check_bytes(bytes).is_ok()) else { return Ok(false) };
    let Ok((found, _)) = source.read(key, bytes) else { return Ok(false) };
    Ok(Digest::of(&found) == expected)
}

#[cfg(test)]
mod tests {
    use super::super::link::WITHOUT_HARD_LINKS;
    use super::*;

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
