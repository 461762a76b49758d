//! Writes a shard of envelope `squashfs`.

use std::io::{self, Read as _};

use gular_squashfs::write::{self as image, FileData, Meta, Options, Tree, TreeNode};

use crate::envelope::foreign::squashfs::folders::{spread, step_aside};
use crate::envelope::foreign::squashfs::list::Lines;
use crate::envelope::foreign::squashfs::sink::{Feed, Sink};
use crate::envelope::foreign::unique::FileNames;
use crate::envelope::{Finished, Layout, Out, SAMPLES_NAME, ShardSpec, file_head, samples_header};
use crate::index::{Places, Rows};
use crate::{BundlePath, Error, Field};

/// 1980-01-01, the time of every entry of the image, since some tools accept no earlier one.
const MTIME: u32 = 315_532_800;
const FILE: Meta = Meta { mode: 0o444, uid: 0, gid: 0, mtime: MTIME };
const FOLDER: Meta = Meta { mode: 0o555, ..FILE };
/// The longest name of a file or folder that Linux opens.
const MAX_NAME: usize = 255;

#[derive(Debug)]
pub(crate) struct Writer {
    image: image::Writer<Sink>,
    sink: Sink,
    names: FileNames,
    /// For each field, the bytes before its values in their files.
    heads: Vec<Vec<u8>>,
    /// The files, sample by sample.
    files: Vec<(String, FileData)>,
    labels: Vec<i64>,
    places: Vec<Places>,
}

impl Writer {
    pub(crate) fn begin(out: &Out, spec: &ShardSpec<'_>) -> Result<Self, Error> {
        let mut options = Options::stored();
        (options.block_size, options.mtime) = (1 << 20, MTIME);
        let sink = Sink::default();
        let image = image::Writer::new(sink.clone(), options).map_err(|e| failed(out, e))?;
        let places = |field: &Field| match field.is_label() {
            true => Places::IndexOnly,
            false => Places::Offsets(Vec::new()),
        };
        Ok(Self {
            image,
            sink,
            names: FileNames::new(spec.fields),
            heads: spec.fields.iter().map(file_head).collect(),
            files: Vec::new(),
            labels: Vec::new(),
            places: spec.fields.iter().map(places).collect(),
        })
    }
}

impl Layout for Writer {
    fn push(&mut self, out: &mut Out, key: &BundlePath, values: &[&[u8]]) -> Result<(), Error> {
        let names = self.names.next(key, values);
        if let Some(reason) = names.iter().flatten().find_map(|name| fault(name)) {
            return Err(Error::Value { key: key.to_string(), reason });
        }
        let fields = names.into_iter().zip(values).zip(&self.heads).zip(&mut self.places);
        for (((name, value), head), places) in fields {
            let Some(name) = name else {
                self.labels.push(value.first_chunk::<8>().map_or(-1, |b| i64::from_le_bytes(*b)));
                continue;
            };
            let bytes = head.chain(*value);
            let mut feed = Feed { bytes, sink: &self.sink, out: &mut *out };
            let data = self.image.data(&mut feed).map_err(|e| failed(out, e))?;
            if let (Places::Offsets(offsets), Some((start, _))) = (places, data.stored_run()) {
                offsets.push(start.saturating_add(head.len() as u64));
            }
            self.files.push((name, data));
        }
        Ok(())
    }

    fn finish(self: Box<Self>, out: &mut Out, rows: &Rows<'_>) -> Result<Finished, Error> {
        let Self { mut image, sink, names, files, labels, places, .. } = *self;
        drop(names);
        let header = samples_header(rows.fields);
        let (mut paths, files): (Vec<String>, Vec<FileData>) = files.into_iter().unzip();
        step_aside(&mut paths);
        let paths = spread(&paths);
        // Paths are checked again, since renamed files and new folders have changed some of them.
        if let Some((at, reason)) =
            paths.iter().enumerate().find_map(|(at, path)| Some((at, fault(path)?)))
        {
            let of_each = rows.fields.iter().filter(|f| !f.is_label()).count();
            let key = key(rows, at.checked_div(of_each).unwrap_or(0)).to_owned();
            return Err(Error::Value { key, reason });
        }
        let bytes = Lines::new(header, lines(rows, &paths, &labels));
        let mut feed = Feed { bytes, sink: &sink, out: &mut *out };
        let list = image.data(&mut feed).map_err(|e| failed(out, e))?;
        let mut tree = Tree::new(FOLDER);
        tree.add(SAMPLES_NAME, FILE, TreeNode::File(list)).map_err(|e| failed(out, e))?;
        for (path, data) in paths.iter().zip(files) {
            tree.add(path, FILE, TreeNode::File(data)).map_err(|e| failed(out, e))?;
        }
        let (head, sink) = image.finish(&tree).map_err(|e| failed(out, e))?;
        sink.drain(out).map_err(|e| Error::io("write", out.dir(), e))?;
        Ok(Finished { head: head.to_vec(), places })
    }
}

/// Returns the lines of the list of samples.
fn lines(rows: &Rows<'_>, paths: &[String], labels: &[i64]) -> impl Iterator<Item = String> {
    let (mut paths, mut labels) = (paths.iter(), labels.iter());
    (0..rows.key_offsets.len().saturating_sub(1)).map(move |row| {
        let mut line = key(rows, row).to_owned();
        for field in rows.fields {
            line.push('\t');
            if field.is_label() {
                line.push_str(&labels.next().map_or(String::new(), ToString::to_string));
            } else {
                line.push_str(paths.next().map_or("", String::as_str));
            }
        }
        line.push('\n');
        line
    })
}

/// Returns the key of sample `row`.
fn key<'a>(rows: &Rows<'a>, row: usize) -> &'a str {
    let at = |i: usize| rows.key_offsets.get(i).and_then(|o| usize::try_from(*o).ok());
    let range = at(row).unwrap_or(0)..at(row.saturating_add(1)).unwrap_or(0);
    rows.key_bytes.get(range).and_then(|b| std::str::from_utf8(b).ok()).unwrap_or_default()
}

/// Says why no image can contain a file with this path; `None` if one can.
fn fault(path: &str) -> Option<String> {
    if path.starts_with(&format!("{SAMPLES_NAME}/")) {
        return Some(format!(
            "the name `{SAMPLES_NAME}` is needed for the list of samples, but the bundle has a folder of that name"
        ));
    }
    if path.len() > BundlePath::MAX_LEN {
        return Some(format!(
            "the path of its file has {} bytes, more than the limit of 4095",
            path.len()
        ));
    }
    let long = path.split('/').find(|name| name.len() > MAX_NAME)?;
    Some(format!("the name `{long}` has {} bytes, more than the limit of {MAX_NAME}", long.len()))
}

fn failed(out: &Out, error: image::Error) -> Error {
    let source = match error {
        // The source of the bytes is in memory, so it was the output that failed.
        image::Error::Read(source) | image::Error::Write(source) => source,
        other => io::Error::other(other),
    };
    Error::io("write", out.dir(), source)
}
