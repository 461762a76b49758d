//! What the description of a file says of its pages.

use super::Positioned;
use super::directory::Directory;
use crate::Error;

/// Longer descriptions are ignored; OME's has some 200 bytes for each page.
const MOST_BYTES: usize = 4 << 20;

/// The meaning of the pages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PageWords {
    /// The file does not say it.
    Nothing,
    /// They are channels in their order, with these names if all of them have one.
    Bands(Vec<String>),
    /// They are something else, in words such as `2 channels, 3 slices and 1 frame`.
    Axes(String),
}

impl PageWords {
    /// Reads what the first page of `pages` pages says.
    pub(super) fn of<S: Positioned + ?Sized>(
        of: &Directory<'_, S>,
        pages: usize,
    ) -> Result<Self, Error> {
        let Some(text) = description(of)? else { return Ok(Self::Nothing) };
        let found = match text.starts_with("ImageJ=") {
            true => imagej(&text, pages),
            false => ome(&text, pages),
        };
        Ok(found.unwrap_or(Self::Nothing))
    }

    /// The number of images of a stack of ImageJ.
    pub(super) fn images<S: Positioned + ?Sized>(
        of: &Directory<'_, S>,
    ) -> Result<Option<u64>, Error> {
        let text = description(of)?.filter(|text| text.starts_with("ImageJ="));
        Ok(text.and_then(|text| number_of(&text, "images")))
    }
}

fn description<S: Positioned + ?Sized>(of: &Directory<'_, S>) -> Result<Option<String>, Error> {
    Ok(of.text(270)?.filter(|text| text.len() <= MOST_BYTES))
}

/// A number in the lines `name=value` of ImageJ.
fn number_of(text: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines().filter_map(|line| line.split_once('='));
    lines.find(|(of, _)| *of == name).and_then(|(_, value)| value.trim().parse().ok())
}

/// ImageJ's description. Source: `FileInfo` and `TiffEncoder` of ImageJ 1.54.
fn imagej(text: &str, pages: usize) -> Option<PageWords> {
    let images = number_of(text, "images").filter(|n| *n > 1)?;
    // One page may stand for all images. Other numbers are those of another file.
    if pages > 1 && images != pages as u64 {
        return None;
    }
    let of = |name| number_of(text, name).unwrap_or(1);
    let (channels, slices, frames) = (of("channels"), of("slices"), of("frames"));
    if channels == images && slices == 1 && frames == 1 {
        return Some(PageWords::Bands(Vec::new()));
    }
    let all = [channels, slices, frames];
    (all != [1, 1, 1]).then(|| axes(all, ["channel", "slice", "frame"]))
}

fn axes(sizes: [u64; 3], names: [&str; 3]) -> PageWords {
    let words: Vec<String> = sizes
        .iter()
        .zip(names)
        .filter(|(n, _)| **n > 1)
        .map(|(n, name)| format!("{n} {name}s"))
        .collect();
    PageWords::Axes(words.join(" and "))
}

/// OME-XML, schema 2016-06: `Pixels`, `Channel` and `TiffData`.
fn ome(text: &str, pages: usize) -> Option<PageWords> {
    if !text.contains("<OME") {
        return None;
    }
    let document = roxmltree::Document::parse(text).ok()?;
    let is = |name: &'static str| {
        move |node: &roxmltree::Node<'_, '_>| node.is_element() && node.tag_name().name() == name
    };
    let mut pictures = document.descendants().filter(is("Pixels"));
    let picture = pictures.next()?;
    let n_more = pictures.count();
    if n_more > 0 {
        return Some(PageWords::Axes(format!("{} pictures", n_more + 1)));
    }
    let of = |name: &str| picture.attribute(name).and_then(|n| n.parse::<u64>().ok()).unwrap_or(1);
    let (z, t) = (of("SizeZ"), of("SizeT"));
    let channels: Vec<_> = picture.children().filter(is("Channel")).collect();
    let n = if channels.is_empty() { of("SizeC") } else { channels.len() as u64 };
    if z != 1 || t != 1 {
        return Some(axes([n, z, t], ["channel", "slice", "time"]));
    }
    if n != pages as u64 {
        return None;
    }
    let number = |node: &roxmltree::Node<'_, '_>, name: &str| match node.attribute(name) {
        None => Some(0),
        Some(text) => text.parse::<u64>().ok(),
    };
    let data: Vec<_> = picture.children().filter(is("TiffData")).collect();
    let in_order = data.iter().all(|node| {
        let (page, channel) = (number(node, "IFD"), number(node, "FirstC"));
        page.is_some() && page == channel
    });
    if !in_order {
        return Some(PageWords::Axes(format!("{n} channels in another order")));
    }
    let names = channels.iter().map(|channel| channel.attribute("Name").map(str::to_owned));
    let names = names.collect::<Option<Vec<String>>>().unwrap_or_default();
    Some(PageWords::Bands(names))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn imagej_says_channels_slices_and_frames() {
        let check = |lines: &str, pages: usize, expected: Option<PageWords>| {
            assert_eq!(imagej(&format!("ImageJ=1.54f\n{lines}"), pages), expected, "{lines}");
        };
        let axes = |text: &str| Some(PageWords::Axes(text.to_owned()));
        for pages in [1, 3] {
            let bands = Some(PageWords::Bands(Vec::new()));
            check("images=3\nchannels=3\nhyperstack=true", pages, bands);
        }
        check("images=3\nchannels=3\n", 2, None);
        check("images=5\nslices=5\n", 5, axes("5 slices"));
        check("images=6\nchannels=2\nframes=3\n", 6, axes("2 channels and 3 frames"));
        check("images=5\nloop=false\n", 5, None);
        check("images=1\nchannels=1", 1, None);
        check("channels=3", 3, None);
    }

    #[test]
    fn ome_says_channels_with_their_names_slices_and_times() {
        let check = |sizes: &str, inner: &str, pages: usize, expected: Option<PageWords>| {
            let text = format!(
                "<?xml version=\"1.0\"?><OME xmlns=\"http://www.openmicroscopy.org/Schemas/OME/2016-06\">\
                 <Image ID=\"Image:0\"><Pixels DimensionOrder=\"XYCZT\" {sizes}>{inner}</Pixels></Image></OME>"
            );
            assert_eq!(ome(&text, pages), expected, "{text}");
        };
        let axes = |text: &str| Some(PageWords::Axes(text.to_owned()));
        let two = "<Channel ID=\"a\" Name=\"DAPI\"/><Channel ID=\"b\" Name=\"GFP\"/>";
        let names = vec!["DAPI".to_owned(), "GFP".to_owned()];
        check("SizeC=\"2\" SizeZ=\"1\" SizeT=\"1\"", two, 2, Some(PageWords::Bands(names)));
        check("SizeC=\"2\"", "<TiffData/>", 2, Some(PageWords::Bands(Vec::new())));
        check("SizeC=\"2\" SizeZ=\"3\" SizeT=\"1\"", two, 6, axes("2 channels and 3 slices"));
        check("SizeC=\"1\" SizeZ=\"1\" SizeT=\"4\"", "", 4, axes("4 times"));
        check("SizeC=\"3\"", "", 2, None);
        let turned = "<TiffData IFD=\"0\" FirstC=\"1\"/><TiffData IFD=\"1\" FirstC=\"0\"/>";
        check("SizeC=\"2\"", turned, 2, axes("2 channels in another order"));
        let right = "<TiffData IFD=\"0\"/><TiffData IFD=\"1\" FirstC=\"1\"/>";
        check("SizeC=\"2\"", right, 2, Some(PageWords::Bands(Vec::new())));
        assert_eq!(ome("<OME", 2), None);
        assert_eq!(ome("a map", 2), None);
    }
}
