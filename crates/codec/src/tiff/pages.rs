//! The pages of a file: which one is the picture, and which ones are bands of one picture.
//!
//! ```text
//! header ─▶ page ─▶ page ─▶ reduced-size image ─▶ mask      a chain of directories
//!            └──────┴─ bands of one picture, or the first one; the others are beside it
//! ```

use std::collections::BTreeSet;

use serde::Deserialize;

use super::directory::{Directory, FileHeader, corrupt};
use super::layout::MOST_BANDS;
use super::page_words::PageWords;
use super::{Geo, Positioned, Tiff, outside, unpack};
use crate::{Error, Limits};

/// What the pages of a file become. Reduced-size images and masks beside a picture do not count as pages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pages {
    /// Bands, if the file itself says that they are channels; otherwise several pages are an error.
    #[default]
    AsSaid,
    /// Bands of one picture, in their order.
    Bands,
    /// The first page is the picture, and the others are left out.
    First,
}

// A page has some 15 entries, so these are 70,000 pages.
const MOST_ENTRIES: usize = 1 << 20;
/// Most chunks of all pages together; one page may have as many.
const MOST_CHUNKS: usize = 4 << 20;
/// Most sizes of pages that an error names.
const MOST_NAMED: usize = 4;

/// A directory of the chain.
#[derive(Debug, Clone, Copy)]
struct Page {
    at: u64,
    size: (u64, u64),
    /// Whether it is a smaller version of another page.
    is_reduced: bool,
    /// Whether it says which pixels of another page are valid.
    is_mask: bool,
    /// Whether it has directories of its own, beside the chain.
    has_inner: bool,
}

impl Page {
    /// TIFF 6.0, "NewSubfileType" and "SubfileType".
    fn of<S: Positioned + ?Sized>(of: &Directory<'_, S>, at: u64) -> Result<Self, Error> {
        let kind = match of.integer(254)? {
            Some(bits) => bits,
            None if of.integer(255)? == Some(2) => 1,
            None => 0,
        };
        Ok(Self {
            at,
            size: (of.integer(256)?.unwrap_or(0), of.integer(257)?.unwrap_or(0)),
            is_reduced: kind & 1 != 0,
            is_mask: kind & 4 != 0 || of.integer(262)? == Some(4),
            has_inner: of.n_values(330) > 0,
        })
    }

    fn is_beside(&self) -> bool {
        self.is_reduced || self.is_mask
    }
}

impl Tiff {
    /// Reads header and directory; no pixel is read. Several pages become bands, if the file says
    /// that they are channels.
    ///
    /// # Errors
    /// [`Error::Truncated`], [`Error::Corrupt`]; [`Error::TiffKind`] for a kind that is not
    /// read; [`Error::Pages`] for several pages of which the file does not say that they are bands;
    /// [`Error::TooLarge`] when one strip or tile has more pixels than `limits` allow.
    pub fn read<S: Positioned + ?Sized>(source: &S, limits: &Limits) -> Result<Self, Error> {
        Self::read_pages(source, limits, Pages::AsSaid)
    }

    /// Reads header and directories like [`read`](Self::read), and takes the pages of a file as
    /// `choice` says.
    ///
    /// # Errors
    /// Those of `read`; [`Error::Pages`] for pages that cannot be bands of one picture.
    pub fn read_pages<S: Positioned + ?Sized>(
        source: &S,
        limits: &Limits,
        choice: Pages,
    ) -> Result<Self, Error> {
        let header = FileHeader::read(source)?;
        let first = Directory::read(source, &header, header.first)?;
        if choice == Pages::First && !Page::of(&first, header.first)?.is_beside() {
            return Ok(Self::of(&first, limits)?.with_mask(source, &header, first.next, limits));
        }
        let all = chain(source, &header)?;
        let mut pages: Vec<Page> = all.iter().filter(|page| !page.is_beside()).copied().collect();
        if pages.is_empty() {
            // Nothing else is in the chain, so that this is the picture.
            pages.extend(all.first().filter(|page| !page.has_inner));
        }
        let Some(page) = pages.first() else {
            let detail = "its first page is a reduced-size image, and the picture itself is in a directory beside the chain (SubIFDs)";
            return Err(outside::other(detail));
        };
        let directory = Directory::read(source, &header, page.at)?;
        let tiff = Self::of(&directory, limits)?;
        let tiff = tiff.with_mask(source, &header, directory.next, limits);
        if choice == Pages::First {
            return Ok(tiff);
        }
        let words = PageWords::of(&directory, pages.len())?;
        if let [page] = pages.as_slice() {
            return tiff.stack(&directory, *page, &words, choice);
        }
        let names = match (choice, words) {
            (Pages::Bands, PageWords::Bands(names)) => names,
            (Pages::Bands, _) => Vec::new(),
            (_, PageWords::Bands(names)) => names,
            (_, PageWords::Axes(axes)) => {
                return Err(refused(&pages, &format!(", and says that they are {axes}")));
            }
            (_, PageWords::Nothing) => {
                return Err(refused(&pages, ", and does not say what they are"));
            }
        };
        tiff.joined(source, &header, limits, &pages, names)
    }

    /// Adds the other pages as bands.
    fn joined<S: Positioned + ?Sized>(
        mut self,
        source: &S,
        header: &FileHeader,
        limits: &Limits,
        pages: &[Page],
        names: Vec<String>,
    ) -> Result<Self, Error> {
        let cannot = |what: &str| {
            let detail = format!(", which cannot be the bands of one picture: {what} differ");
            Err(refused(pages, &detail))
        };
        let (bands, planes) = (self.bands, self.planes);
        let mut scales = self.geo.scales_of(bands.into());
        self.check_bands(pages.len() as u64)?;
        for page in pages.iter().skip(1) {
            let directory = Directory::read(source, header, page.at)?;
            let mut other = Self::of(&directory, limits)?;
            if (other.width, other.height) != (self.width, self.height) {
                return cannot("their sizes");
            }
            if (other.number, other.bits, other.bands) != (self.number, self.bits, bands) {
                return cannot("their types or numbers of bands");
            }
            if (other.chunk, other.tiled, other.planes) != (self.chunk, self.tiled, planes)
                || (&other.compression, other.predictor) != (&self.compression, self.predictor)
            {
                return cannot("the ways in which they are stored");
            }
            let has_other_place =
                other.geo.transform.is_some_and(|of| Some(of) != self.geo.transform)
                    || other.geo.crs.as_ref().is_some_and(|of| Some(of) != self.geo.crs.as_ref());
            let is_nan = |geo: &Geo| geo.nodata.is_some_and(f64::is_nan);
            let same_nodata =
                other.geo.nodata == self.geo.nodata || (is_nan(&other.geo) && is_nan(&self.geo));
            if has_other_place || !same_nodata {
                return cannot("their places on the Earth, or their nodata values,");
            }
            scales.append(&mut other.geo.scales_of(bands.into()));
            self.offsets.append(&mut other.offsets);
            self.lengths.append(&mut other.lengths);
            if self.offsets.len() > MOST_CHUNKS {
                return Err(corrupt(format!("its pages have more than {MOST_CHUNKS} chunks")));
            }
        }
        let mut whole = self.with_planes(pages.len() as u64, names)?;
        whole.geo.set_scales(scales);
        Ok(whole)
    }

    /// Returns the picture of a file with one page, or all that the page stands for: ImageJ writes
    /// one directory for the contiguous images of a large stack.
    fn stack<S: Positioned + ?Sized>(
        mut self,
        of: &Directory<'_, S>,
        page: Page,
        words: &PageWords,
        choice: Pages,
    ) -> Result<Self, Error> {
        // SGI's ImageDepth, and a tag of MetaMorph with a value for each plane.
        let depth = of.integer(32_997)?.unwrap_or(1).max(of.n_values(33_629));
        if depth > 1 {
            let (width, height) = page.size;
            let detail = format!("{depth} planes of {width} x {height} pixels in one page");
            return Err(outside::other(detail));
        }
        let n = PageWords::images(of)?;
        let (Some(n), true) = (n.filter(|n| *n > 1), self.is_one_run()) else { return Ok(self) };
        let Some(bytes) = self.lengths.iter().try_fold(0_u64, |sum, n| sum.checked_add(*n)) else {
            return Ok(self);
        };
        let end = self.offsets.first().and_then(|at| at.checked_add(bytes.checked_mul(n)?));
        // The description may be that of the stack from which this page was taken.
        if bytes == 0 || end.is_none_or(|end| end > of.len) {
            return Ok(self);
        }
        let names = match (choice, words) {
            (_, PageWords::Bands(names)) => names.clone(),
            (Pages::Bands, _) => Vec::new(),
            (_, PageWords::Axes(axes)) => {
                let detail = format!(", and says that they are {axes}");
                return Err(refused_all(n, &[page], &detail));
            }
            (_, PageWords::Nothing) => {
                return Err(refused_all(n, &[page], ", and does not say what they are"));
            }
        };
        self.check_bands(n)?;
        if n.saturating_mul(self.offsets.len() as u64) > MOST_CHUNKS as u64 {
            return Err(corrupt(format!("its pages have more than {MOST_CHUNKS} chunks")));
        }
        let (offsets, lengths) = (self.offsets.clone(), self.lengths.clone());
        for image in 1..n {
            self.offsets.extend(offsets.iter().map(|at| at + image * bytes));
            self.lengths.extend_from_slice(&lengths);
        }
        self.with_planes(n, names)
    }

    /// Whether all numbers are stored one after another, as they are.
    fn is_one_run(&self) -> bool {
        let pairs = self.offsets.iter().zip(&self.lengths).zip(self.offsets.iter().skip(1));
        self.compression == unpack::Compression::None
            && !self.tiled
            && pairs.into_iter().all(|((at, n), next)| at.checked_add(*n) == Some(*next))
    }

    fn check_bands(&self, pages: u64) -> Result<(), Error> {
        let bands = pages.saturating_mul(self.bands.into());
        if bands > MOST_BANDS {
            let detail = format!("its {pages} pages have {bands} bands, more than {MOST_BANDS}");
            return Err(outside::other(detail));
        }
        Ok(())
    }

    /// Returns this picture with the bands of so many pages, whose chunks it has.
    fn with_planes(mut self, pages: u64, names: Vec<String>) -> Result<Self, Error> {
        let of = |n: u16| u64::from(n).checked_mul(pages).and_then(|n| u16::try_from(n).ok());
        let too_many = || corrupt("it has too many bands");
        self.bands = of(self.bands).ok_or_else(too_many)?;
        self.planes = of(self.planes).ok_or_else(too_many)?;
        // They are those of the first page alone.
        (self.alpha, self.mask) = (None, None);
        // Names in the first page are those of its own bands.
        let is_whole = names.len() == usize::from(self.bands);
        let bands = if is_whole { names } else { Vec::new() };
        let (wavelengths, scales) = (Vec::new(), Vec::new());
        self.geo = Geo { bands, wavelengths, scales, ..self.geo };
        Ok(self)
    }
}

/// Returns every directory of the chain.
fn chain<S: Positioned + ?Sized>(source: &S, header: &FileHeader) -> Result<Vec<Page>, Error> {
    let (mut pages, mut seen, mut entries) = (Vec::new(), BTreeSet::new(), 0);
    let mut at = header.first;
    loop {
        if !seen.insert(at) {
            return Err(corrupt(format!(
                "its page {} is again that at byte {at}",
                pages.len() + 1
            )));
        }
        let directory = Directory::read(source, header, at)?;
        entries += directory.n_entries() + 1;
        if entries > MOST_ENTRIES {
            return Err(corrupt(format!("its pages have more than {MOST_ENTRIES} entries")));
        }
        pages.push(Page::of(&directory, at)?);
        if directory.next == 0 {
            return Ok(pages);
        }
        at = directory.next;
    }
}

fn refused(pages: &[Page], detail: &str) -> Error {
    refused_all(pages.len() as u64, pages, detail)
}

fn refused_all(n: u64, pages: &[Page], detail: &str) -> Error {
    let sizes: BTreeSet<(u64, u64)> = pages.iter().map(|page| page.size).collect();
    // The largest first.
    let named = sizes.iter().rev().take(MOST_NAMED).map(|(w, h)| format!("{w} x {h}"));
    let more = if sizes.len() > MOST_NAMED { ", …" } else { "" };
    let sizes = named.collect::<Vec<_>>().join(", ") + more;
    Error::Pages { n, sizes, detail: detail.to_owned() }
}
