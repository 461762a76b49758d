//! Ways to read sample *i* of a split: Gular's, hand-written loops, plain files.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use gular_bundle::{Backend, Bundle, CheckWhen, OpenOptions};
use gular_files::Map;

use crate::Error;
use crate::matrix::RowReader;
use crate::set::{Of, Set};

/// Receives a sample's bytes.
pub(crate) type Look<'a> = &'a mut dyn FnMut(&[u8]);

/// Something that reads samples by their number.
pub(crate) trait Source: Send + Sync {
    /// Gives the bytes of `sample` to `look`; `buffer` is the calling thread's own.
    fn read(&self, sample: usize, buffer: &mut Vec<u8>, look: Look<'_>) -> Result<(), Error>;
}

/// Opens what `what` reads of `set`. Digests are not compared: the time of reading
/// is asked for, and `gular fetch` compares them on arrival.
pub(crate) fn open(what: RowReader, set: &Set) -> Result<Box<dyn Source>, Error> {
    Ok(match what {
        RowReader::Bundle(envelope, backend) => {
            Box::new(Ours { bundle: bundle(set.bundle(envelope)?, backend)?, set: set.of })
        }
        RowReader::Hand(backend) => hand(set, backend)?,
        RowReader::Files => Box::new(Files(set.files.clone())),
    })
}

/// Opens the bundle in folder `dir`.
pub(crate) fn bundle(dir: &Path, backend: Backend) -> Result<Bundle, Error> {
    let options = OpenOptions { backend, check: CheckWhen::OnFetch, ..OpenOptions::default() };
    Ok(Bundle::open(dir, options)?)
}

struct Ours {
    bundle: Bundle,
    set: Of,
}

impl Source for Ours {
    fn read(&self, sample: usize, buffer: &mut Vec<u8>, look: Look<'_>) -> Result<(), Error> {
        let id = self.bundle.locate(self.set.split, sample as u64)?;
        look(self.bundle.shard(id.shard)?.view(id.row, self.set.image, buffer)?);
        Ok(())
    }
}

/// Shard, first byte, length.
type Place = (usize, u64, usize);

/// Returns all places, which are read from the indexes beforehand.
fn places(bundle: &Bundle, of: Of) -> Result<Vec<Place>, Error> {
    (0..of.samples)
        .map(|i| {
            let id = bundle.locate(of.split, i as u64)?;
            let shard = bundle.shard(id.shard)?;
            let place = shard.range(id.row, of.image)?;
            let (offset, len) = place
                .ok_or_else(|| Error::Option(format!("the place of sample {i} is not known")))?;
            Ok((id.shard.0, offset, len))
        })
        .collect()
}

/// The fastest that can be done with the first bundle's files.
fn hand(set: &Set, backend: Backend) -> Result<Box<dyn Source>, Error> {
    let bundle = bundle(&set.base, Backend::Pread)?;
    let places = places(&bundle, set.of)?;
    let paths: Vec<PathBuf> =
        bundle.manifest().shards.iter().map(|s| bundle.path_of(&s.file)).collect();
    let files: Vec<File> = paths
        .iter()
        .map(|p| File::open(p).map_err(|e| Error::io("open", p, e)))
        .collect::<Result<_, _>>()?;
    let beyond = Error::Option("the files of the first bundle differ from its index".into());
    Ok(match backend {
        Backend::Pread => Box::new(HandPread { files, places, paths }),
        Backend::Map => {
            let mut maps = Vec::new();
            for (file, path) in files.iter().zip(&paths) {
                maps.push(Map::of(file).map_err(|e| Error::io("map", path, e))?);
            }
            let fits = |(shard, offset, len): &Place| {
                let end = usize::try_from(*offset).ok().and_then(|o| o.checked_add(*len));
                end.zip(maps.get(*shard)).is_some_and(|(end, map): (usize, &Map)| end <= map.len())
            };
            if !places.iter().all(fits) {
                return Err(beyond);
            }
            Box::new(HandMap { maps, places })
        }
    })
}

struct HandPread {
    files: Vec<File>,
    paths: Vec<PathBuf>,
    places: Vec<Place>,
}

impl Source for HandPread {
    fn read(&self, sample: usize, buffer: &mut Vec<u8>, look: Look<'_>) -> Result<(), Error> {
        let (shard, offset, len) = self.places[sample];
        if buffer.len() < len {
            buffer.resize(len, 0);
        }
        let out = &mut buffer[..len];
        let read = self.files[shard].read_exact_at(out, offset);
        read.map_err(|e| Error::io("read", &self.paths[shard], e))?;
        look(out);
        Ok(())
    }
}

struct HandMap {
    maps: Vec<Map>,
    places: Vec<Place>,
}

impl Source for HandMap {
    fn read(&self, sample: usize, _: &mut Vec<u8>, look: Look<'_>) -> Result<(), Error> {
        let (shard, offset, len) = self.places[sample];
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        look(&self.maps[shard][start..start + len]);
        Ok(())
    }
}

/// Plain files, one per sample.
struct Files(Vec<PathBuf>);

impl Source for Files {
    fn read(&self, sample: usize, buffer: &mut Vec<u8>, look: Look<'_>) -> Result<(), Error> {
        let path = &self.0[sample];
        buffer.clear();
        let read = File::open(path).and_then(|mut f| f.read_to_end(buffer));
        read.map_err(|e| Error::io("read", path, e))?;
        look(buffer);
        Ok(())
    }
}
