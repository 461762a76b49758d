//! The samples that are measured: a subset spread evenly over the source.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use gular_bundle::{
    Bundle, BundlePath, CheckWhen, DATA_DIR, Envelope, FieldIdx, MANIFEST_NAME, Manifest,
    OpenOptions, Payload, ShardEntry, ShardSpec, ShardWriter, Split, write_manifest,
};

use crate::Error;
use crate::bench_report::{Data, SourceBundle};

/// Extensions of the files that `gular pack` takes.
const EXTENSIONS: [&str; 4] = ["jpg", "jpeg", "jpe", "png"];
/// Bytes of a shard, as in `gular pack`.
const SHARD_BYTES: u64 = 1 << 30;

/// The place that samples come from.
pub(crate) enum Input {
    /// Files below the source.
    Images(Vec<PathBuf>),
    /// Every `step`-th sample of a split.
    Bundle { bundle: Box<Bundle>, split: Split, step: usize },
}

/// Finds samples of up to `limit` bytes, at least one.
pub(crate) fn look(source: &Path, limit: u64, cancel: &AtomicBool) -> Result<(Input, Data), Error> {
    if source.join(MANIFEST_NAME).is_file() {
        return of_bundle(source, limit);
    }
    let (chosen, mut data) = images(source, limit, cancel)?;
    data.source = source.display().to_string();
    if chosen.is_empty() {
        return Err(Error::Nothing { path: data.source });
    }
    Ok((Input::Images(chosen), data))
}

fn of_bundle(source: &Path, limit: u64) -> Result<(Input, Data), Error> {
    let open = OpenOptions { check: CheckWhen::Always, ..OpenOptions::default() };
    let bundle = Bundle::open(source, open)?;
    let largest = Split::ALL.into_iter().max_by_key(|split| bundle.n_samples(*split));
    let split = largest.filter(|split| bundle.n_samples(*split) > 0);
    let split = split.ok_or_else(|| Error::Nothing { path: source.display().to_string() })?;
    let of_samples = bundle.n_samples(split);
    let shards = bundle.manifest().shards.iter().filter(|s| s.split == split);
    let of_bytes: u64 = shards.map(|s| s.file.bytes).sum();
    let step = of_bytes.div_ceil(limit.max(1)).clamp(1, of_samples);
    let samples = of_samples.div_ceil(step);
    let source = source.display().to_string();
    let bytes = (of_bytes as f64 * samples as f64 / of_samples as f64) as u64;
    let (envelope, payload) = (bundle.manifest().envelope, bundle.manifest().payload);
    let of = Some(SourceBundle { envelope, payload });
    let data = Data { source, bundle: of, samples, bytes, of_samples, of_bytes };
    let step = usize::try_from(step).unwrap_or(usize::MAX);
    Ok((Input::Bundle { bundle: Box::new(bundle), split, step }, data))
}

/// Images below `source`, relative to it, with what there is.
fn images(source: &Path, limit: u64, cancel: &AtomicBool) -> Result<(Vec<PathBuf>, Data), Error> {
    let mut kept: Vec<(PathBuf, u64)> = Vec::new();
    let (mut bytes, mut stride) = (0_u64, 1_u64);
    let mut data = Data {
        source: String::new(),
        bundle: None,
        samples: 0,
        bytes: 0,
        of_samples: 0,
        of_bytes: 0,
    };
    let top = fs::metadata(source).map_err(|e| Error::io("open", source, e))?;
    let mut seen = HashSet::from([(top.dev(), top.ino())]);
    let mut folders = vec![source.to_owned()];
    while let Some(folder) = folders.pop() {
        if cancel.load(Ordering::Relaxed) {
            return Err(Error::Cancelled);
        }
        for (path, metadata) in listed(&folder)? {
            if metadata.is_dir() {
                // Links may form a circle, so each folder is read once.
                if seen.insert((metadata.dev(), metadata.ino())) {
                    folders.push(path);
                }
                continue;
            }
            let Some(relative) = image(source, &path).filter(|_| metadata.is_file()) else {
                continue;
            };
            if data.of_samples.is_multiple_of(stride) {
                kept.push((relative, metadata.len()));
                bytes += metadata.len();
            }
            data.of_samples += 1;
            data.of_bytes += metadata.len();
            // Memory stays that of twice the limit, however many images there are.
            if bytes > limit.saturating_mul(2) && kept.len() > 1 {
                stride *= 2;
                kept = kept.into_iter().step_by(2).collect();
                bytes = kept.iter().map(|(_, len)| len).sum();
            }
        }
    }
    let step = usize::try_from(bytes.div_ceil(limit.max(1)).max(1)).unwrap_or(usize::MAX);
    let chosen: Vec<(PathBuf, u64)> = kept.into_iter().step_by(step).collect();
    data.samples = chosen.len() as u64;
    data.bytes = chosen.iter().map(|(_, len)| len).sum();
    Ok((chosen.into_iter().map(|(path, _)| path).collect(), data))
}

/// Entries of a folder by name, hidden and unreadable ones left out.
fn listed(folder: &Path) -> Result<Vec<(PathBuf, fs::Metadata)>, Error> {
    let io = |e| Error::io("list", folder, e);
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(io)? {
        let entry = entry.map_err(io)?;
        let hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
        // Links are followed, as by `gular pack`.
        if let (false, Ok(metadata)) = (hidden, fs::metadata(entry.path())) {
            found.push((entry.path(), metadata));
        }
    }
    found.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(found)
}

/// The path below `source` of what can be packed.
fn image(source: &Path, path: &Path) -> Option<PathBuf> {
    let extension = path.extension()?.to_str()?.to_ascii_lowercase();
    let relative = path.strip_prefix(source).ok()?;
    BundlePath::parse(relative.to_str()?).ok()?;
    EXTENSIONS.contains(&extension.as_str()).then(|| relative.to_owned())
}

/// Links `chosen` below `to` under their own paths: packed, they are the files.
pub(crate) fn link(source: &Path, chosen: &[PathBuf], to: &Path) -> Result<(), Error> {
    let source = fs::canonicalize(source).map_err(|e| Error::io("open", source, e))?;
    let mut made = HashSet::new();
    for relative in chosen {
        let link = to.join(relative);
        if let Some(folder) = link.parent().filter(|folder| !made.contains(*folder)) {
            fs::create_dir_all(folder).map_err(|e| Error::io("create", folder, e))?;
            made.insert(folder.to_owned());
        }
        symlink(source.join(relative), &link).map_err(|e| Error::io("create", &link, e))?;
    }
    Ok(())
}

/// Writes every `step`-th sample of `split` to a new bundle in folder `out`.
pub(crate) fn subset(
    bundle: &Bundle,
    split: Split,
    step: usize,
    out: &Path,
    progress: &dyn Fn(u64),
    cancel: &AtomicBool,
) -> Result<(), Error> {
    let manifest = bundle.manifest();
    let data = out.join(DATA_DIR);
    fs::create_dir_all(&data).map_err(|e| Error::io("create", &data, e))?;
    let spec = ShardSpec {
        envelope: Envelope::Shards,
        split,
        fields: &manifest.fields,
        classes: &manifest.classes,
    };
    let mut shards: Vec<ShardEntry> = Vec::new();
    let mut writer = None;
    let mut written = 0_u64;
    let mut values: Vec<Vec<u8>> = vec![Vec::new(); manifest.fields.len()];
    for number in (0..bundle.n_samples(split)).step_by(step) {
        if cancel.load(Ordering::Relaxed) {
            return Err(Error::Cancelled);
        }
        let id = bundle.locate(split, number)?;
        for (field, value) in values.iter_mut().enumerate() {
            bundle.read(id, FieldIdx(field), value)?;
        }
        let lent: Vec<&[u8]> = values.iter().map(Vec::as_slice).collect();
        let open = match &mut writer {
            Some(open) => open,
            none => none.insert(ShardWriter::create(&data, &spec)?),
        };
        open.push(&bundle.key(id)?, &lent)?;
        let bytes: u64 = lent.iter().map(|value| value.len() as u64).sum();
        progress(bytes);
        written += bytes;
        if written >= SHARD_BYTES {
            written = 0;
            shards.extend(writer.take().map(ShardWriter::finish).transpose()?);
        }
    }
    shards.extend(writer.map(ShardWriter::finish).transpose()?);
    let manifest = Manifest { envelope: Envelope::Shards, shards, ..manifest.clone() };
    write_manifest(out, &manifest)?;
    Ok(())
}

/// Returns how `input` already stores its images; `None` for a folder of images.
pub(crate) fn payload(input: &Input) -> Option<Payload> {
    match input {
        Input::Images(_) => None,
        Input::Bundle { bundle, .. } => Some(bundle.manifest().payload),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(dir: &Path, name: &str, len: usize) {
        let path = dir.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, vec![0; len]).unwrap();
    }

    #[test]
    fn a_part_is_spread_over_all_images() {
        let dir = tempfile::tempdir().unwrap();
        for i in 0..64 {
            put(dir.path(), &format!("c{}/{i:02}.jpg", i / 16), 100);
        }
        put(dir.path(), ".hidden/x.jpg", 100);
        put(dir.path(), "c0/notes.txt", 100);
        symlink(dir.path(), dir.path().join("c0/up")).unwrap();
        let never = AtomicBool::new(false);
        let chosen = |limit| {
            let (input, data) = look(dir.path(), limit, &never).unwrap();
            let Input::Images(chosen) = input else { panic!("these are images") };
            (chosen, data)
        };
        let (all, data) = chosen(1 << 30);
        assert_eq!((all.len(), data.of_samples, data.of_bytes), (64, 64, 6400));
        let (part, data) = chosen(1600);
        assert!((8..=16).contains(&part.len()) && data.bytes <= 1600, "{data:?}");
        assert_eq!((data.of_samples, data.of_bytes), (64, 6400));
        for class in ["c0", "c1", "c2", "c3"] {
            assert!(part.iter().any(|path| path.starts_with(class)), "{part:?}");
        }
        assert_eq!(chosen(1).0.len(), 1);
        assert!(matches!(look(dir.path(), 1, &AtomicBool::new(true)), Err(Error::Cancelled)));
        let empty = tempfile::tempdir().unwrap();
        assert!(matches!(look(empty.path(), 1, &never), Err(Error::Nothing { .. })));
    }

    #[test]
    fn links_lead_to_the_files() {
        let dir = tempfile::tempdir().unwrap();
        put(dir.path(), "from/a/1.png", 7);
        let to = dir.path().join("to");
        link(&dir.path().join("from"), &[PathBuf::from("a/1.png")], &to).unwrap();
        assert_eq!(fs::read(to.join("a/1.png")).unwrap().len(), 7);
    }
}
