//! Files whose names end in that of a band, which may be parts of one sample.

use std::collections::{BTreeSet, HashSet};

use super::natural::natural;
use crate::facts::{Doubt, WayToRead, counted, named, split_of, stem_and_extension};

/// Names of bands, in lower case, beside `B` and a number. Source: the products of Sentinel-1 and of
/// Landsat, and 38-Cloud.
const NAMES: [&str; 12] =
    ["vv", "vh", "hh", "hv", "red", "green", "blue", "nir", "swir", "swir1", "swir2", "pan"];
/// Most samples that are told apart to see how many files each has.
const MOST_SAMPLES: usize = 4096;
/// Most bands that are told apart.
const MOST_BANDS: usize = 64;

/// How many files have names that end in that of a band.
#[derive(Debug, Default)]
pub(crate) struct BandFiles {
    files: u64,
    /// Files such as `a_B02.tif`, and files such as `a/B02.tif`.
    behind: u64,
    whole: u64,
    bands: BTreeSet<String>,
    /// The resolutions behind the bands, such as `_10m`.
    resolutions: BTreeSet<String>,
    /// The first pairs of sample and band, whatever their resolution.
    pairs: HashSet<[u8; 16]>,
    /// Whether a sample has a band several times.
    is_twice: bool,
    /// The first samples, by a hash of their names, and the number of files that these have.
    samples: HashSet<[u8; 16]>,
    of_samples: u64,
    /// Whether files are in folders that do not name their samples, and may be of classes.
    is_apart: bool,
    /// Whether each file is in a folder whose name is a split.
    in_splits: bool,
}

impl BandFiles {
    /// Counts a file.
    pub(crate) fn add(&mut self, path: &str) {
        let is_split = path.split_once('/').is_some_and(|(top, _)| split_of(top).is_some());
        self.in_splits = is_split && (self.files == 0 || self.in_splits);
        self.files += 1;
        let mut folders = path.rsplit('/').skip(1).filter(|name| split_of(name).is_none());
        let name = path.rsplit('/').next().unwrap_or(path);
        // As in `p1/p1_B02.tif` and `p1/B02.tif`.
        let is_own = |folder: &str| {
            let behind = name.strip_prefix(folder);
            behind.is_some_and(|rest| rest.starts_with(['_', '-', '.']))
                || is_band(stem_and_extension(name).0)
        };
        self.is_apart |= folders.next().is_some_and(|folder| !is_own(folder));
        self.is_apart |= folders.next().is_some();
        let stem = path.rsplit_once('.').map_or(path, |(stem, _)| stem);
        let (stem, resolution) = match stem.rsplit_once('_') {
            Some((stem, metres)) if is_resolution(metres) => (stem, format!("_{metres}")),
            _ => (stem, String::new()),
        };
        let Some((mut sample, mut band)) =
            stem.rsplit_once(['_', '/']).filter(|(_, band)| is_band(band))
        else {
            return;
        };
        // Landsat's products of level 2 are called `SR_B4`.
        if let Some(first) = ["_SR", "_ST"].iter().find_map(|product| sample.strip_suffix(product))
        {
            (sample, band) = (first, &stem[first.len() + 1..]);
        }
        match stem.as_bytes().get(sample.len()) {
            Some(b'/') => self.whole += 1,
            _ => self.behind += 1,
        }
        if self.resolutions.len() < MOST_BANDS {
            self.resolutions.insert(resolution);
        }
        if self.bands.len() < MOST_BANDS {
            self.bands.insert(band.to_owned());
        }
        let pair = hash(&format!("{}/{band}", of_name(sample)));
        if self.pairs.len() < MOST_SAMPLES {
            self.is_twice |= !self.pairs.insert(pair);
        }
        let hash = hash(sample);
        if self.samples.contains(&hash) || self.samples.len() < MOST_SAMPLES {
            self.samples.insert(hash);
            self.of_samples += 1;
        }
    }

    /// Asks whether the files are bands, if nearly all have such names and samples have several.
    pub(crate) fn doubt(&self) -> Option<Doubt> {
        let (n, form) = match self.whole > self.behind {
            true => (self.whole, "{key}/{band}"),
            false => (self.behind, "{key}_{band}"),
        };
        let several = self.of_samples >= 2 * self.samples.len() as u64;
        let nearly_all = n * 10 >= self.files * 9;
        let many = self.bands.len() >= 3 && n * 3 >= self.files;
        if self.bands.len() < 2 || !several || !(nearly_all || many) {
            return None;
        }
        let names = counted(n, "name ends", "names end");
        let text = format!("{names} in that of a band: {}", named(self.bands.iter()));
        let split = if self.in_splits { "{split}/" } else { "" };
        // Other files of the sample would be bands, too.
        let chosen = n < self.files || self.bands.iter().any(|band| band.contains('_'));
        let mut bands: Vec<&str> = self.bands.iter().map(String::as_str).collect();
        bands.sort_by_key(|band| natural(band));
        let form = match chosen {
            true => form.replace("{band}", &format!("{{band:{}}}", bands.join("|"))),
            false => form.to_owned(),
        };
        // Of a band that is there several times, the finest is taken.
        let finest = self.resolutions.iter().min_by_key(|metres| natural(metres));
        let several = self.resolutions.len() > 1;
        let resolution = match finest {
            Some(_) if several && !self.is_twice => "_{*}",
            finest => finest.map_or("", String::as_str),
        };
        let resamples = several && !self.is_twice;
        let when = match several && self.is_twice {
            true => "if the bands of the finest resolution are one sample",
            false => "if all bands together are one sample",
        };
        let whole = self.samples.len() as u64 * self.bands.len() as u64;
        let is_whole = !self.is_apart
            && n == self.files
            && self.of_samples == n
            && n == whole
            && !several
            && !chosen;
        let proof = is_whole.then(|| {
            let bands = named(bands.iter().copied());
            format!(
                "files of {bands} are read as bands of one sample, as each sample has one of each"
            )
        });
        let ways = vec![
            WayToRead {
                proof,
                leaves_out: (several && self.is_twice) || n < self.files,
                resamples,
                ..WayToRead::new(when, &[&format!("{split}{form}{resolution}.{{ext}}")])
            },
            WayToRead::new("if each file is a sample", &[&format!("{split}{{key}}.{{ext}}")]),
        ];
        Some(Doubt::new(text, ways))
    }
}

/// Whether a name is that of a band.
pub(super) fn is_band(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let number = name.strip_prefix('b').map(|rest| rest.strip_suffix('a').unwrap_or(rest));
    let is_number = number.is_some_and(|number| {
        matches!(number.len(), 1 | 2) && number.bytes().all(|b| b.is_ascii_digit())
    });
    is_number || NAMES.contains(&name.as_str())
}

/// The name of a sample, without its folders, of which a band may be in several.
fn of_name(sample: &str) -> &str {
    sample.rsplit('/').next().unwrap_or(sample)
}

fn hash(text: &str) -> [u8; 16] {
    blake3::hash(text.as_bytes()).as_bytes().first_chunk().copied().unwrap_or_default()
}

fn is_resolution(text: &str) -> bool {
    let metres = text.strip_suffix('m').unwrap_or_default();
    !metres.is_empty() && metres.bytes().all(|b| b.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bands_are_recognised_if_samples_have_several() {
        let check = |paths: &[&str], expected: Option<&str>| {
            let mut files = BandFiles::default();
            paths.iter().for_each(|path| files.add(path));
            let found = files.doubt().map(|doubt| doubt.readings[0].images[0].clone());
            assert_eq!(found.as_deref(), expected, "{paths:?}");
        };
        check(
            &["a/a_B02.tif", "a/a_B8A.tif", "b/b_B02.tif", "b/b_B8A.tif"],
            Some("{key}_{band}.{ext}"),
        );
        check(&["a/VV.tif", "a/VH.tif"], Some("{key}/{band}.{ext}"));
        check(
            &["train/a_red.tif", "train/a_nir.tif", "test/b_red.tif", "test/b_nir.tif"],
            Some("{split}/{key}_{band}.{ext}"),
        );
        let landsat = ["L_SR_B1.TIF", "L_SR_B2.TIF", "L_ST_B10.TIF", "L_QA_PIXEL.TIF", "L_ANG.TIF"];
        check(&landsat, Some("{key}_{band:SR_B1|SR_B2|ST_B10}.{ext}"));
        let twice = [
            "R10m/a_B02_10m.tif",
            "R10m/a_B03_10m.tif",
            "R20m/a_B02_20m.tif",
            "R20m/a_B05_20m.tif",
        ];
        check(&twice, Some("{key}_{band}_10m.{ext}"));
        let once = ["a/a_B02_10m.tif", "a/a_B05_20m.tif", "a/a_B01_60m.tif"];
        check(&once, Some("{key}_{band}_{*}.{ext}"));
        // One band of each, or names of something else.
        check(&["a_B02.tif", "b_B02.tif"], None);
        check(&["a_B02.tif", "b_B03.tif"], None);
        check(&["a_1.tif", "a_2.tif", "b_big.tif"], None);
        check(&["B02.tif"], None);
    }
}
