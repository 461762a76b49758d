//! Files whose names end in that of a band, which may be parts of one sample.

use std::collections::{BTreeMap, BTreeSet, HashSet};

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
/// Where a product of Sentinel-2 has its bands; beside them are masks whose names end in those of
/// bands. Source: ESA, Sentinel-2 Products Specification Document, section 4.9 (SAFE).
const SAFE_BANDS: &str = "IMG_DATA";

/// How many files have names that end in that of a band.
#[derive(Debug, Default)]
pub(crate) struct BandFiles {
    files: u64,
    /// Files such as `a_B02.tif`, and files such as `a/B02.tif`.
    behind: u64,
    whole: u64,
    /// The bands of each resolution behind them, such as `_10m`.
    bands: BTreeMap<String, BTreeSet<String>>,
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
    /// The folders between [`SAFE_BANDS`] and the bands, if these are of such a product.
    below_safe: Option<usize>,
}

impl BandFiles {
    /// Counts a file.
    pub(crate) fn add(&mut self, path: &str) {
        let is_split = path.split_once('/').is_some_and(|(top, _)| split_of(top).is_some());
        self.in_splits = is_split && (self.files == 0 || self.in_splits);
        self.files += 1;
        let below = path.split('/').rev().skip(1).position(|name| name == SAFE_BANDS);
        // What was seen before of such a product is beside its bands.
        if self.below_safe.is_none() && below.is_some() {
            *self = Self { files: self.files, below_safe: below, ..Self::default() };
        }
        if self.below_safe.is_some() && below.is_none() {
            return;
        }
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
        let n_bands: usize = self.bands.values().map(BTreeSet::len).sum();
        if n_bands < MOST_BANDS {
            self.bands.entry(resolution).or_default().insert(band.to_owned());
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
        let mut bands: Vec<&str> = self
            .bands
            .values()
            .flatten()
            .map(String::as_str)
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect();
        bands.sort_by_key(|band| natural(band));
        let several = self.of_samples >= 2 * self.samples.len() as u64;
        let nearly_all = n * 10 >= self.files * 9;
        let many = bands.len() >= 3 && n * 3 >= self.files;
        if bands.len() < 2 || !several || !(nearly_all || many) {
            return None;
        }
        let names = counted(n, "name ends", "names end");
        let text = format!("{names} in that of a band: {}", named(bands.iter().copied()));
        let split = if self.in_splits { "{split}/" } else { "" };
        // Other files of the sample would be bands, too.
        let chosen = n < self.files || bands.iter().any(|band| band.contains('_'));
        let of = |bands: &[&str]| format!("{{band:{}}}", bands.join("|"));
        let resolutions = self.bands.len();
        let whole = self.samples.len() as u64 * bands.len() as u64;
        let is_whole = !self.is_apart
            && n == self.files
            && self.of_samples == n
            && n == whole
            && resolutions == 1
            && !chosen;
        let proof = is_whole.then(|| {
            let bands = named(bands.iter().copied());
            format!(
                "files of {bands} are read as bands of one sample, as each sample has one of each"
            )
        });
        let each =
            WayToRead::new("if each file is a sample", &[&format!("{split}{{key}}.{{ext}}")]);
        if self.is_twice && resolutions > 1 {
            let mut ways = self.by_resolution(form);
            ways.push(each);
            return Some(Doubt::new(text, ways));
        }
        let band = if chosen { of(&bands) } else { "{band}".to_owned() };
        let resolution = match self.bands.keys().next() {
            Some(_) if resolutions > 1 => "_{*}",
            only => only.map_or("", String::as_str),
        };
        let folders = self.below_safe.map_or(String::new(), safe_folders);
        let pattern = form.replace("{band}", &band);
        let together = WayToRead {
            proof,
            leaves_out: n < self.files,
            // Bands of a product of level 1 do not name their resolutions.
            resamples: resolutions > 1 || self.below_safe.is_some(),
            ..WayToRead::new(
                "if all bands together are one sample",
                &[&format!("{split}{folders}{pattern}{resolution}.{{ext}}")],
            )
        };
        Some(Doubt::new(text, vec![together, each]))
    }

    /// The ways to read bands that are there in several resolutions: those of the finest one, or all
    /// bands, each in its finest.
    fn by_resolution(&self, form: &str) -> Vec<WayToRead> {
        let mut resolutions: Vec<_> = self.bands.iter().collect();
        resolutions.sort_by_key(|(metres, _)| natural(metres));
        // Files of one sample are in a folder for each resolution.
        let (folders, key) = match (self.below_safe, self.is_apart) {
            (Some(below), _) => (safe_folders(below), "{key}"),
            (None, true) => ("{**}/".to_owned(), "{key:[^/]+}"),
            (None, false) => (String::new(), "{key}"),
        };
        let split = if self.in_splits { "{split}/" } else { "" };
        let mut seen = BTreeSet::new();
        let mut patterns = Vec::new();
        for (metres, bands) in resolutions {
            let mut new: Vec<&str> =
                bands.iter().map(String::as_str).filter(|band| seen.insert(*band)).collect();
            new.sort_by_key(|band| natural(band));
            if !new.is_empty() {
                let form = form.replace("{key}", key);
                let form = form.replace("{band}", &format!("{{band:{}}}", new.join("|")));
                patterns.push(format!("{split}{folders}{form}{metres}.{{ext}}"));
            }
        }
        let patterns: Vec<&str> = patterns.iter().map(String::as_str).collect();
        let way = |when, patterns: &[&str], resamples| WayToRead {
            leaves_out: true,
            resamples,
            ..WayToRead::new(when, patterns)
        };
        let finest = patterns.get(..1).unwrap_or_default();
        let mut ways =
            vec![way("if the bands of the finest resolution are one sample", finest, false)];
        if patterns.len() > 1 {
            ways.push(way(
                "if all bands are one sample, each in its finest resolution",
                &patterns,
                true,
            ));
        }
        ways
    }
}

/// The folders above the bands of a product of Sentinel-2.
fn safe_folders(below: usize) -> String {
    format!("{{**}}/{SAFE_BANDS}/{}", "{*}/".repeat(below))
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
            files.doubt()
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
        let all = check(&twice, Some("{**}/{key:[^/]+}_{band:B02|B03}_10m.{ext}"));
        let all = &all.unwrap().readings[1];
        assert_eq!(all.images[1], "{**}/{key:[^/]+}_{band:B05}_20m.{ext}");
        assert!(all.resamples);
        let safe = [
            "a.SAFE/GRANULE/L1C/QI_DATA/MSK_CLASSI_B00.jp2",
            "a.SAFE/GRANULE/L1C/IMG_DATA/T32_20230501_B02.jp2",
            "a.SAFE/GRANULE/L1C/IMG_DATA/T32_20230501_B03.jp2",
            "a.SAFE/GRANULE/L1C/IMG_DATA/T32_20230501_B8A.jp2",
            "a.SAFE/GRANULE/L1C/IMG_DATA/T32_20230501_TCI.jp2",
            "a.SAFE/GRANULE/L1C/QI_DATA/MSK_QUALIT_B02.jp2",
        ];
        check(&safe, Some("{**}/IMG_DATA/{key}_{band:B02|B03|B8A}.{ext}"));
        let safe =
            safe.map(|path| path.replace("DATA/T32", "DATA/R10m/T32").replace(".jp2", "_10m.jp2"));
        let safe = safe.each_ref().map(String::as_str);
        check(&safe, Some("{**}/IMG_DATA/{*}/{key}_{band:B02|B03|B8A}_10m.{ext}"));
        let once = ["a/a_B02_10m.tif", "a/a_B05_20m.tif", "a/a_B01_60m.tif"];
        check(&once, Some("{key}_{band}_{*}.{ext}"));
        // One band of each, or names of something else.
        check(&["a_B02.tif", "b_B02.tif"], None);
        check(&["a_B02.tif", "b_B03.tif"], None);
        check(&["a_1.tif", "a_2.tif", "b_big.tif"], None);
        check(&["B02.tif"], None);
    }
}
