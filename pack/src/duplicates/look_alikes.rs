//! Images that look alike although their bytes differ: candidates for a person to look at.
//!
//! Every image is decoded. Images with the same pixels but other bytes are found by the digest of
//! their pixels. Similar pictures have difference hashes (dHash: of 9 x 8 grey pixels, whether each
//! is darker than the one to its right) that differ in at most 3 of 64 bits. Such hashes agree in
//! at least one of their four quarters, so only pictures that share a quarter are compared.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use gular_bundle::{Digest, Dtype, Field, Row, SampleId, ShardIdx};
use gular_codec::{DecodeOptions, Decoder, Picture, Resize, resize};
use gular_files::parallel;
use serde::Serialize;

use super::find::Among;
use super::groups::DuplicateSample;
use super::join::Place;
use crate::error::Error;
use crate::facts::{RunError, Sorted, Sorter};
use crate::packing::Progress;

/// Most pairs that are kept; all are counted.
const MOST_PAIRS: usize = 200;
/// Bits in which hashes of similar pictures may differ: one less than there are quarters.
const MOST_BITS: u32 = 3;
/// Samples of one shard that a thread takes at a time.
const AT_ONCE: usize = 256;
/// Among images that share a quarter of their hash, each is compared with this many before it:
/// plain images have few different hashes.
const MOST_COMPARED: usize = 4096;

/// Options of [`find_looks`]: which kinds of similarity to look for.
#[derive(Debug, Clone)]
pub struct LookOptions {
    /// Whether to find images with the same pixels but other bytes.
    pub pixels: bool,
    /// Whether to find similar pictures.
    pub near: bool,
    /// Worker threads.
    pub jobs: usize,
    /// Bytes of memory for sorting.
    pub memory_bytes: usize,
    /// The folder for sorting what does not fit in memory.
    pub temp_dir: PathBuf,
}

/// The pairs of images that look alike.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Looks {
    /// Number of images that were decoded and compared.
    pub compared: u64,
    /// Number of samples that could not be decoded as images.
    pub undecodable: u64,
    /// Number of pairs with the same pixels, but different bytes.
    pub same_pixels: u64,
    /// Number of pairs of similar pictures.
    pub near: u64,
    /// The first pairs; those with the same pixels come first.
    pub pairs: Vec<LookPair>,
}

/// Two samples that look alike.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LookPair {
    /// Number of bits, of 64, in which the hashes of the two pictures differ; absent if the pixels
    /// are the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bits: Option<u32>,
    /// The two samples of the pair.
    pub samples: [DuplicateSample; 2],
    /// Where they are, each in its bundle.
    #[serde(skip)]
    pub places: [SampleId; 2],
}

/// Finds pairs among the images of a bundle; with `other`, pairs of one image of each.
///
/// # Errors
/// [`Error::NoPictures`] of a bundle without field `image`; those of reading; a sample
/// whose bytes are not those of its digest; [`RunError::Cancelled`].
pub fn find_looks(
    among: &Among<'_>,
    other: Option<&Among<'_>>,
    options: &LookOptions,
    progress: &(dyn Fn(Progress) + Sync),
    cancel: &AtomicBool,
) -> Result<Looks, Error> {
    let both: Vec<&Among<'_>> = std::iter::once(among).chain(other).collect();
    if let Some(none) = both.iter().find(|shelf| shelf.bundle.manifest().image().is_none()) {
        return Err(Error::NoPictures(none.bundle.dir().display().to_string()));
    }
    let mut jobs = Vec::new();
    let mut total = 0;
    for (bundle, shelf) in both.iter().enumerate() {
        for (shard, samples, _) in shelf.shards() {
            total += samples;
            let samples = usize::try_from(samples).unwrap_or(usize::MAX);
            let starts = (0..samples).step_by(AT_ONCE);
            jobs.extend(starts.map(|from| (bundle, shard, from..(from + AT_ONCE).min(samples))));
        }
    }
    progress(Progress::Planned(total, total));
    let sorter = || Mutex::new(Sorter::new(&options.temp_dir, options.memory_bytes / 2));
    let (by_pixels, by_quarter) = (sorter(), sorter());
    let (compared, undecodable) = (AtomicU64::new(0), AtomicU64::new(0));
    let io = |e| Error::io("sort in", &options.temp_dir, e);
    parallel(&jobs, options.jobs.max(1), cancel, |(bundle, shard, rows), stop| {
        let Some(shelf) = both.get(*bundle) else { return Ok(()) };
        let mut decoder = Decoder::new(DecodeOptions::default());
        let mut bytes = Vec::new();
        for row in rows.clone() {
            if stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            let sample = SampleId { shard: *shard, row: Row(row) };
            shelf.bundle.read(sample, shelf.field(), &mut bytes)?;
            progress(Progress::Packed(1, 1));
            let Some(picture) = shelf.picture(&mut decoder, &bytes) else {
                undecodable.fetch_add(1, Ordering::Relaxed);
                continue;
            };
            compared.fetch_add(1, Ordering::Relaxed);
            let look = Look {
                place: Place::new(*bundle, sample),
                hash: difference_hash(&picture).unwrap_or(0),
                pixels: digest_of(&picture),
            };
            let record = look.encode();
            if options.pixels {
                let mut sorter = by_pixels.lock().unwrap_or_else(PoisonError::into_inner);
                sorter.push(&look.pixels, &record).map_err(io)?;
            }
            if options.near {
                let mut sorter = by_quarter.lock().unwrap_or_else(PoisonError::into_inner);
                for quarter in 0..4_u8 {
                    let [a, b] = part(look.hash, quarter).to_be_bytes();
                    sorter.push(&[quarter, a, b], &record).map_err(io)?;
                }
            }
        }
        Ok::<(), Error>(())
    })?;
    if cancel.load(Ordering::Relaxed) {
        return Err(RunError::Cancelled.into());
    }
    let mut looks = Looks {
        compared: compared.into_inner(),
        undecodable: undecodable.into_inner(),
        ..Looks::default()
    };
    let finish = |sorter: Mutex<Sorter>| {
        sorter.into_inner().unwrap_or_else(PoisonError::into_inner).finish().map_err(io)
    };
    let mut pairs = Pairs { both: &both, looks: &mut looks };
    groups(finish(by_pixels)?, &io, |_, group| pairs.same(group))?;
    groups(finish(by_quarter)?, &io, |key, group| pairs.near(key, group))?;
    Ok(looks)
}

impl Among<'_> {
    /// Returns a stored value as a picture.
    fn picture(&self, decoder: &mut Decoder, bytes: &[u8]) -> Option<Picture> {
        let field = self.field().of(&self.bundle.manifest().fields);
        let Some((dtype, shape)) = field.and_then(Field::as_fixed) else {
            return decoder.decode(bytes).ok();
        };
        let [height, width, channels @ (1 | 3)] = *shape else { return None };
        let size = match dtype {
            Dtype::U8 => 1,
            Dtype::U16 => 2,
            _ => return None,
        };
        // The high byte of each value.
        let values = bytes.iter().skip(size - 1).step_by(size).copied();
        let rgb: Vec<u8> =
            if channels == 1 { values.flat_map(|v| [v; 3]).collect() } else { values.collect() };
        Picture::new(u32::try_from(width).ok()?, u32::try_from(height).ok()?, rgb).ok()
    }
}

/// The values that are stored of a decoded image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Look {
    place: Place,
    hash: u64,
    pixels: [u8; 16],
}

impl Look {
    fn encode(&self) -> Vec<u8> {
        let SampleId { shard, row } = self.place.sample();
        let place = [self.place.bundle(), shard.0, row.0];
        let place = place.into_iter().flat_map(|n| (n as u64).to_be_bytes());
        place.chain(self.hash.to_be_bytes()).chain(self.pixels).collect()
    }

    fn parse(record: &[u8]) -> Option<Self> {
        let (numbers, pixels) = record.split_at_checked(32)?;
        let [bundle, shard, row, hash] = *numbers.as_chunks::<8>().0 else { return None };
        let number = |bytes| usize::try_from(u64::from_be_bytes(bytes)).ok();
        let sample = SampleId { shard: ShardIdx(number(shard)?), row: Row(number(row)?) };
        Some(Self {
            place: Place::new(number(bundle)?, sample),
            hash: u64::from_be_bytes(hash),
            pixels: pixels.try_into().ok()?,
        })
    }
}

/// Calls `each` with all records of each key.
fn groups(
    sorted: Sorted,
    io: &dyn Fn(std::io::Error) -> Error,
    mut each: impl FnMut(&[u8], &[Look]) -> Result<(), Error>,
) -> Result<(), Error> {
    let (mut key, mut group) = (Vec::new(), Vec::<Look>::new());
    for pair in sorted {
        let (next, record) = pair.map_err(io)?;
        if next != key {
            each(&key, &group)?;
            group.clear();
            key = next;
        }
        group.extend(Look::parse(&record));
    }
    each(&key, &group)
}

struct Pairs<'a> {
    both: &'a [&'a Among<'a>],
    looks: &'a mut Looks,
}

impl Pairs<'_> {
    /// Reports, among images with the same pixels, each whose bytes differ from the first's.
    fn same(&mut self, group: &[Look]) -> Result<(), Error> {
        let [first, others @ ..] = group else { return Ok(()) };
        if others.is_empty() {
            return Ok(());
        }
        let stored = self.stored(first)?;
        for other in others {
            let one_of_each = first.place.bundle() != other.place.bundle();
            if (self.both.len() == 1 || one_of_each) && self.stored(other)? != stored {
                self.looks.same_pixels += 1;
                self.keep(first, other, None)?;
            }
        }
        Ok(())
    }

    /// Reports, among images that share quarter `key` of their hash, those whose whole hashes are
    /// close.
    fn near(&mut self, key: &[u8], group: &[Look]) -> Result<(), Error> {
        let quarter = key.first().copied().unwrap_or(0);
        for (i, b) in group.iter().enumerate() {
            for a in &group[i.saturating_sub(MOST_COMPARED)..i] {
                let bits = (a.hash ^ b.hash).count_ones();
                // A pair that shares several quarters is met in each of them.
                let met = (0..quarter).any(|q| part(a.hash, q) == part(b.hash, q));
                let one_of_each = self.both.len() == 1 || a.place.bundle() != b.place.bundle();
                if bits <= MOST_BITS && !met && one_of_each && a.pixels != b.pixels {
                    self.looks.near += 1;
                    self.keep(a, b, Some(bits))?;
                }
            }
        }
        Ok(())
    }

    fn stored(&self, look: &Look) -> Result<Option<Digest>, Error> {
        let Some(shelf) = self.both.get(look.place.bundle()) else { return Ok(None) };
        let SampleId { shard, row } = look.place.sample();
        Ok(shelf.bundle.shard(shard)?.digest(row, shelf.field())?)
    }

    fn keep(&mut self, a: &Look, b: &Look, bits: Option<u32>) -> Result<(), Error> {
        if self.looks.pairs.len() == MOST_PAIRS {
            return Ok(());
        }
        let (mut a, mut b) = (a, b);
        if b.place < a.place {
            std::mem::swap(&mut a, &mut b);
        }
        let sample = |look: &Look| {
            let shelf = self.both.get(look.place.bundle()).ok_or_else(|| {
                RunError::Option("a sample is not of a bundle that was compared".to_owned())
            })?;
            shelf.sample(look.place)
        };
        let pair = LookPair {
            bits,
            samples: [sample(a)?, sample(b)?],
            places: [a, b].map(|look| look.place.sample()),
        };
        self.looks.pairs.push(pair);
        Ok(())
    }
}

/// Returns one quarter of the 64 bits.
fn part(hash: u64, quarter: u8) -> u16 {
    (hash >> (16 * u32::from(quarter))) as u16
}

/// Returns, for each of 8 x 8 grey pixels, whether it is darker than the one to its right.
fn difference_hash(picture: &Picture) -> Option<u64> {
    let small = resize(picture, &Resize::to(9, 8)).ok()?;
    let grey: Vec<u32> = small
        .data()
        .as_chunks::<3>()
        .0
        .iter()
        .map(|[r, g, b]| 299 * u32::from(*r) + 587 * u32::from(*g) + 114 * u32::from(*b))
        .collect();
    let bits = grey.chunks_exact(9).flat_map(|row| row.windows(2).map(|pair| pair[0] < pair[1]));
    Some(bits.fold(0, |hash, bit| hash << 1 | u64::from(bit)))
}

fn digest_of(picture: &Picture) -> [u8; 16] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&picture.width().to_le_bytes()).update(&picture.height().to_le_bytes());
    let digest = hasher.update(picture.data()).finalize();
    digest.as_bytes().first_chunk().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(side: u32, shift: u32) -> Picture {
        let pixel = |i: u32| {
            let (x, y) = (i % side * 64 / side, i / side * 64 / side);
            let v = ((x * x + 3 * y * shift + x * y) / 7 % 256) as u8;
            [v, v.wrapping_mul(3), 255 - v]
        };
        Picture::new(side, side, (0..side * side).flat_map(pixel).collect()).unwrap()
    }

    #[test]
    fn a_smaller_copy_has_nearly_the_hash_and_another_picture_has_not() {
        let hash = |side, shift| difference_hash(&image(side, shift)).unwrap();
        let bits = (hash(256, 1) ^ hash(128, 1)).count_ones();
        assert!(bits <= MOST_BITS, "{bits}");
        assert!((hash(256, 1) ^ hash(256, 9)).count_ones() > 10);
    }

    #[test]
    fn a_look_comes_back_as_it_was() {
        let look = Look {
            place: Place::new(1, SampleId { shard: ShardIdx(7), row: Row(9) }),
            hash: u64::MAX / 3,
            pixels: [5; 16],
        };
        assert_eq!(Look::parse(&look.encode()), Some(look));
    }
}
