//! Writes a bundle as plain files: `split/key` (or `key`, if all keys begin with their split), and
//! `split/samples.tsv`.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use gular_bundle::{
    Bundle, BundleNames, BundlePath, Field, FieldIdx, Index, Row, SAMPLES_NAME, SampleId, ShardIdx,
    Split, file_head, samples_header,
};
use gular_files::{rename_synced, write_file};

use crate::convert::conversion::Conversion;
use crate::error::Error;
use crate::shards::{STATE_DIR, gone, remove_gone};

/// Whether folder `out` is what this bundle is converted to: its lists have all samples in order,
/// and the files that they name have their lengths.
pub(crate) fn is_finished(source: &Bundle, out: &Path) -> Result<bool, Error> {
    if out.join(STATE_DIR).exists() {
        return Ok(false);
    }
    let fields = &source.manifest().fields;
    for split in Split::ALL {
        let shards = &source.manifest().shards;
        let mut of_split = ShardIdx::first(shards.len())
            .zip(shards)
            .filter(|(_, entry)| entry.split == split)
            .peekable();
        if of_split.peek().is_none() {
            continue;
        }
        let dir = out.join(split.to_string());
        let path = dir.join(SAMPLES_NAME);
        let list = match File::open(&path) {
            Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                return Ok(false);
            }
            list => list.map_err(|e| Error::io("read", &path, e))?,
        };
        let mut lines = BufReader::new(list).lines();
        let mut next = || lines.next().transpose().map_err(|e| Error::io("read", &path, e));
        if next()?.as_deref() != Some(samples_header(fields).trim_end_matches('\n')) {
            return Ok(false);
        }
        for (number, _) in of_split {
            let shard = source.shard(number)?;
            let index = shard.index()?;
            for row in index.rows() {
                let Some(line) = next()? else { return Ok(false) };
                if !is_written(&index, row, fields, &dir, &line) {
                    return Ok(false);
                }
            }
        }
        if next()?.is_some() {
            return Ok(false);
        }
    }
    // A run that was killed when all was done, but for the name of its own folder.
    remove_gone(&gone(out))?;
    Ok(true)
}

/// Whether `line` describes this sample, and its files exist in full length.
fn is_written(index: &Index, row: Row, fields: &[Field], dir: &Path, line: &str) -> bool {
    let key = index.key(row).unwrap_or_default();
    let Some(places) = line.strip_prefix(key).and_then(|rest| rest.strip_prefix('\t')) else {
        return false;
    };
    // File names contain no TAB, since keys contain none.
    let places: Vec<&str> = places.split('\t').collect();
    places.len() == fields.len()
        && fields.iter().zip(places).zip(FieldIdx::first(fields.len())).all(
            |((field, place), n)| {
                if field.is_label() {
                    return index.label(row).is_some_and(|label| place == label.to_string());
                }
                let len = index.range(row, n).map(|(_, len)| (file_head(field).len() + len) as u64);
                fs::metadata(dir.join(place)).ok().map(|found| found.len()) == len
            },
        )
}

/// Writes the files of shard `number`; `resumed` says that some may be there.
pub(crate) fn shard(
    work: &Conversion<'_>,
    number: ShardIdx,
    names: &BundleNames,
    resumed: bool,
) -> Result<(), Error> {
    let manifest = work.source.manifest();
    let Some(entry) = number.of(&manifest.shards) else { return Ok(()) };
    let heads: Vec<Vec<u8>> = manifest.fields.iter().map(file_head).collect();
    let dir = work.out.path.join(entry.split.to_string());
    let lines_path = lines_path(work, number);
    let source = work.source.shard(number)?.index()?;
    let list_folder = &*format!("{SAMPLES_NAME}/");
    let mut made = BTreeSet::new();
    let mut lines = String::new();
    work.samples(number, &mut |row, values| {
        let key = BundlePath::parse(source.key(row).unwrap_or_default());
        let key = key.map_err(gular_bundle::Error::from)?;
        let files = names.of(SampleId { shard: number, row }, &key, values);
        if files.names.iter().flatten().any(|name| name.starts_with(list_folder)) {
            let reason = format!("the name `{SAMPLES_NAME}` is needed for the list of samples, but the bundle has a folder of that name");
            return Err(gular_bundle::Error::Value { key: key.to_string(), reason }.into());
        }
        for ((name, value), head) in files.names.iter().zip(values).zip(&heads) {
            let Some(name) = name else { continue };
            let path = dir.join(name);
            if let Some(folder) = path.parent().filter(|f| !made.contains(*f)) {
                fs::create_dir_all(folder).map_err(|e| Error::io("create", folder, e))?;
                made.insert(folder.to_owned());
            }
            put(&path, head, value, resumed)?;
        }
        lines.push_str(&files.line);
        Ok(())
    })?;
    // One call syncs all files: an fsync of each would take minutes.
    let synced = File::open(&work.out.path).and_then(|d| Ok(rustix::fs::syncfs(&d)?));
    synced.map_err(|e| Error::io("sync", &work.out.path, e))?;
    Ok(write_file(&lines_path, lines.as_bytes())?)
}

/// Writes a new file. A file of this name is one that an interrupted run left, and is replaced,
/// since no other sample of the bundle has it.
fn put(path: &Path, head: &[u8], value: &[u8], resumed: bool) -> Result<(), Error> {
    let io = |e| Error::io("write", path, e);
    if resumed {
        match fs::remove_file(path) {
            Err(e) if e.kind() != ErrorKind::NotFound => return Err(io(e)),
            _ => {}
        }
    }
    let mut file = match File::create_new(path) {
        Err(e) if e.kind() == ErrorKind::AlreadyExists => {
            return Err(Error::Exists(path.display().to_string()));
        }
        file => file.map_err(io)?,
    };
    file.write_all(head).map_err(io)?;
    file.write_all(value).map_err(io)
}

/// Joins the lists of the shards, and gives the bytes of all files.
pub(crate) fn finish(work: &Conversion<'_>) -> Result<u64, Error> {
    let manifest = work.source.manifest();
    let mut bytes = 0;
    for split in Split::ALL {
        let mut list = samples_header(&manifest.fields);
        let mut any = false;
        for (number, entry) in ShardIdx::first(manifest.shards.len()).zip(&manifest.shards) {
            if entry.split == split {
                let path = lines_path(work, number);
                let lines = fs::read_to_string(&path).map_err(|e| Error::io("read", &path, e))?;
                list.push_str(&lines);
                any = true;
            }
        }
        if any {
            // Made elsewhere: what a kill leaves among the samples nobody would remove.
            let made = work.out.state.join(SAMPLES_NAME);
            write_file(&made, list.as_bytes())?;
            let path = work.out.path.join(split.to_string()).join(SAMPLES_NAME);
            // Before the folder of state goes, from which alone it could be made again.
            rename_synced(&made, &path)?;
        }
    }
    for number in ShardIdx::first(manifest.shards.len()) {
        let shard = work.source.shard(number)?;
        let index = shard.index()?;
        for row in index.rows() {
            for field in FieldIdx::first(manifest.fields.len()) {
                bytes += index.range(row, field).map_or(0, |(_, len)| len) as u64;
            }
        }
    }
    if !manifest.classes.is_empty() {
        let classes = manifest.classes.join("\n") + "\n";
        write_file(&work.out.path.join("classes.txt"), classes.as_bytes())?;
    }
    let _ = fs::remove_dir(&work.out.data);
    Ok(bytes)
}

fn lines_path(work: &Conversion<'_>, number: ShardIdx) -> PathBuf {
    work.out.state.join(format!("lines-{number}.tsv"))
}
