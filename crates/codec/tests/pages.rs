//! TIFF files with several pages, and with smaller copies and masks beside the picture.

use gular_codec::{
    Error, Limits,
    tiff::{Chunks, Pages, Tiff},
};

/// A page of bytes whose first value is `first`, and the next ones each one more.
#[derive(Clone)]
struct Page {
    size: (u32, u32),
    bands: u32,
    first: u8,
    /// `NewSubfileType`.
    kind: u32,
    description: String,
    /// Further tags, with one number each.
    tags: Vec<(u16, u32)>,
}

fn page(first: u8) -> Page {
    Page { size: (3, 2), bands: 1, first, kind: 0, description: String::new(), tags: Vec::new() }
}

/// Writes pages one after another, each as one strip; all strips are in front.
fn file(pages: &[Page]) -> Vec<u8> {
    let mut file = b"II*\0\0\0\0\0".to_vec();
    let mut places = Vec::new();
    for page in pages {
        let n = (page.size.0 * page.size.1 * page.bands) as u8;
        places.push((file.len() as u32, u32::from(n)));
        file.extend((0..n).map(|i| page.first.wrapping_add(i)));
    }
    let mut link = 4;
    for (page, (offset, length)) in pages.iter().zip(places) {
        let text = format!("{}\0", page.description);
        let at_text = file.len() as u32;
        file.extend(text.as_bytes());
        let mut entries = vec![
            (254_u16, 4_u16, 1, page.kind),
            (256, 4, 1, page.size.0),
            (257, 4, 1, page.size.1),
            (258, 3, 1, 8),
            (262, 3, 1, 1),
            (270, 2, text.len() as u32, at_text),
            (273, 4, 1, offset),
            (277, 3, 1, page.bands),
            (278, 4, 1, page.size.1),
            (279, 4, 1, length),
        ];
        entries.retain(|(tag, _, n, _)| *tag != 270 || *n > 4);
        entries.extend(page.tags.iter().map(|(tag, value)| (*tag, 4, 1, *value)));
        let at = file.len() as u32;
        file[link..link + 4].copy_from_slice(&at.to_le_bytes());
        file.extend((entries.len() as u16).to_le_bytes());
        for (tag, kind, n, value) in entries {
            file.extend([tag.to_le_bytes(), kind.to_le_bytes()].concat());
            file.extend([n.to_le_bytes(), value.to_le_bytes()].concat());
        }
        link = file.len();
        file.extend([0; 4]);
    }
    file
}

fn read(file: &[u8], pages: Pages) -> Result<(Tiff, Vec<u8>), Error> {
    let tiff = Tiff::read_pages(file, &Limits { max_pixels: 1 << 20 }, pages)?;
    let mut out = vec![0; tiff.window_bytes(tiff.whole())?];
    tiff.read_window(file, 0, tiff.whole(), &mut Chunks::new(1 << 20), &mut out)?;
    Ok((tiff, out))
}

fn refused(file: &[u8], pages: Pages) -> String {
    let error = read(file, pages).unwrap_err();
    assert!(matches!(error, Error::Pages { .. }), "{error:?}");
    error.to_string()
}

#[test]
fn pages_are_bands_where_the_file_or_the_caller_says_so() {
    let several = [page(0), page(10), page(20)];
    let bytes = file(&several);
    let expected = "the TIFF has 3 pages of 3 x 2 pixels, and does not say what they are";
    assert_eq!(refused(&bytes, Pages::AsSaid), expected);
    let (tiff, values) = read(&bytes, Pages::Bands).unwrap();
    assert_eq!((tiff.width, tiff.height, tiff.bands), (3, 2, 3));
    let as_bands: Vec<u8> = (0..6).flat_map(|i| [i, 10 + i, 20 + i]).collect();
    assert_eq!(values, as_bands);
    let (tiff, values) = read(&bytes, Pages::First).unwrap();
    assert_eq!((tiff.bands, values), (1, (0..6).collect()));

    let said = |text: &str| {
        let mut pages = several.clone();
        pages[0].description = text.to_owned();
        file(&pages)
    };
    let channels = said("ImageJ=1.54f\nimages=3\nchannels=3\nhyperstack=true");
    assert_eq!(read(&channels, Pages::AsSaid).unwrap().1, as_bands);
    let slices = said("ImageJ=1.54f\nimages=3\nslices=3\n");
    let expected = "the TIFF has 3 pages of 3 x 2 pixels, and says that they are 3 slices";
    assert_eq!(refused(&slices, Pages::AsSaid), expected);
    assert_eq!(read(&slices, Pages::Bands).unwrap().1, as_bands);
    let named = said(
        "<OME><Image><Pixels SizeC=\"3\" SizeZ=\"1\" SizeT=\"1\"><Channel Name=\"DAPI\"/>\
         <Channel Name=\"GFP\"/><Channel Name=\"RFP\"/></Pixels></Image></OME>",
    );
    assert_eq!(read(&named, Pages::AsSaid).unwrap().0.geo.bands, ["DAPI", "GFP", "RFP"]);
    let times = said("<OME><Image><Pixels SizeC=\"1\" SizeZ=\"1\" SizeT=\"3\"/></Image></OME>");
    assert!(refused(&times, Pages::AsSaid).ends_with("says that they are 3 times"));
}

#[test]
fn pages_with_several_bands_follow_each_other() {
    let pages = [Page { bands: 2, ..page(0) }, Page { bands: 2, ..page(100) }];
    let (tiff, values) = read(&file(&pages), Pages::Bands).unwrap();
    assert_eq!(tiff.bands, 4);
    let expected: Vec<u8> =
        (0..6).flat_map(|i| [2 * i, 2 * i + 1, 100 + 2 * i, 101 + 2 * i]).collect();
    assert_eq!(values, expected);
}

#[test]
fn pages_that_differ_are_not_bands() {
    let small = Page { size: (2, 1), ..page(9) };
    let sizes = file(&[page(0), small]);
    let expected = "the TIFF has 2 pages of 3 x 2, 2 x 1 pixels, which cannot be the bands of one picture: their sizes differ";
    assert_eq!(refused(&sizes, Pages::Bands), expected);
    assert!(
        refused(&sizes, Pages::AsSaid).contains("2 pages of 3 x 2, 2 x 1 pixels, and does not")
    );
    assert!(read(&sizes, Pages::First).is_ok());
    let bands = file(&[page(0), Page { bands: 2, ..page(9) }]);
    assert!(refused(&bands, Pages::Bands).ends_with("their types or numbers of bands differ"));
}

#[test]
fn smaller_copies_and_masks_are_no_pages() {
    let small = Page { size: (2, 1), kind: 1, ..page(50) };
    let mask = Page { kind: 4, ..page(60) };
    let plain: Vec<u8> = (0..6).collect();
    for pages in [&[page(0), small.clone(), mask.clone()][..], &[small.clone(), page(0)]] {
        for choice in [Pages::AsSaid, Pages::Bands, Pages::First] {
            let (tiff, values) = read(&file(pages), choice).unwrap();
            assert_eq!((tiff.width, tiff.height), (3, 2), "{choice:?}");
            assert_eq!(values, plain);
        }
    }
    // Nothing else is in these files.
    assert_eq!(read(&file(std::slice::from_ref(&small)), Pages::AsSaid).unwrap().0.width, 2);
    assert_eq!(read(&file(&[mask]), Pages::AsSaid).unwrap().1[0], 60);
    let raw = Page { tags: vec![(330, 8)], ..small };
    let error = read(&file(&[raw]), Pages::AsSaid).unwrap_err().to_string();
    assert!(error.contains("its first page is a reduced-size image"), "{error}");
}

#[test]
fn a_stack_with_one_directory_is_not_its_first_image() {
    let stack = |text: &str| {
        let mut pages = [page(0)];
        pages[0].description = text.to_owned();
        let mut bytes = file(&pages);
        // The images follow each other, and the strip is the first of them.
        let at = bytes.len() as u32;
        let place = bytes.windows(8).position(|entry| entry == [17, 1, 4, 0, 1, 0, 0, 0]).unwrap();
        bytes[place + 8..place + 12].copy_from_slice(&at.to_le_bytes());
        bytes.extend((0..12).map(|i| i * 3));
        bytes
    };
    let channels = stack("ImageJ=1.54f\nimages=2\nchannels=2\n");
    let (tiff, values) = read(&channels, Pages::AsSaid).unwrap();
    assert_eq!(tiff.bands, 2);
    assert_eq!(values, [0, 18, 3, 21, 6, 24, 9, 27, 12, 30, 15, 33]);
    let slices = stack("ImageJ=1.54f\nimages=2\nslices=2\n");
    assert!(refused(&slices, Pages::AsSaid).contains("2 pages of 3 x 2 pixels, and says"));
    assert_eq!(read(&slices, Pages::First).unwrap().1, [0, 3, 6, 9, 12, 15]);
    // A description that was copied with one image of the stack.
    let one = stack("ImageJ=1.54f\nimages=3\nchannels=3\n");
    assert_eq!(read(&one, Pages::AsSaid).unwrap().0.bands, 1);
    let deep = file(&[Page { tags: vec![(32_997, 4)], ..page(0) }]);
    let error = read(&deep, Pages::AsSaid).unwrap_err().to_string();
    assert!(error.contains("4 planes of 3 x 2 pixels in one page"), "{error}");
}

#[test]
fn a_chain_of_pages_ends() {
    let mut circle = file(&[page(0), page(1)]);
    let first: [u8; 4] = circle[4..8].try_into().unwrap();
    let end = circle.len() - 4;
    circle[end..].copy_from_slice(&first);
    let error = read(&circle, Pages::AsSaid).unwrap_err().to_string();
    assert!(error.contains("its page 3 is again that at byte"), "{error}");
    assert_eq!(read(&circle, Pages::First).unwrap().1[0], 0);
    let mut past = file(&[page(0)]);
    let end = past.len() - 4;
    past[end..].copy_from_slice(&99_999_u32.to_le_bytes());
    assert!(matches!(read(&past, Pages::AsSaid), Err(Error::Truncated { .. })));
    // As in libtiff, the offset of the next page may be missing.
    past.truncate(end);
    assert!(read(&past, Pages::AsSaid).is_ok());
    for end in 0..past.len() {
        let _ = read(&past[..end], Pages::Bands);
    }
}
