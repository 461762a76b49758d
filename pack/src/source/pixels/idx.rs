//! MNIST's idx files: numbers of one type in an array of any shape.
//!
//! ```text
//! 0 0 │ type │ dimensions │ the size of each, u32 big-endian │ numbers, row by row
//! ```
//!
//! Source: the section on file formats of <http://yann.lecun.com/exdb/mnist/>. The images of EMNIST
//! are stored transposed; they are taken as they are, as by torchvision.

use std::collections::BTreeMap;
use std::io::{BufReader, Read};
use std::path::Path;

use super::files::{IdxFiles, base_name};
use super::ids::KnownWords;
use super::pixel_source::PixelSource;
use super::rows::{
    Form, PixelColumns, PixelRows, Places, RowSplits, Rows, bad, check_shape, wants_labels,
};
use crate::facts::setting;
use crate::source::{LabelColumn, SourceError, SourceOptions, archive::Opening, window::Window};

/// The type of unsigned bytes.
const UBYTE: u8 = 8;
/// The type of integers of 32 bits.
const INT: u8 = 12;

/// Opens idx files of one or several splits.
pub(super) fn open(
    source: &PixelSource,
    files: &[IdxFiles],
    options: &SourceOptions<'_>,
    opening: &Opening<'_>,
) -> Result<PixelRows, SourceError> {
    if let Some(LabelColumn::Named(name)) = options.label_column {
        let text = format!("idx files have no columns, so none can be called `{name}`");
        return Err(setting(&["label_column"], text));
    }
    let labelled = wants_labels(options);
    let mut parts: Vec<Rows> = Vec::new();
    let mut shape: Option<([u64; 3], &str)> = None;
    for of_split in files {
        let (rows, found) = rows_of(source, of_split, options, opening)?;
        let images = &of_split.images;
        let ([height, width, _], first) = *shape.get_or_insert((found, images));
        if [height, width, 1] != found {
            let reason = format!(
                "its images have {} x {} pixels, those of `{first}` {width} x {height}",
                found[1], found[0]
            );
            return Err(bad(&source.path_of(images), "images", reason));
        }
        parts.push(rows);
    }
    let quoted = |name: &String| format!("`{}`", base_name(name));
    let names = files.iter().filter_map(|files| files.labels.as_ref()).map(quoted);
    let labels = labelled.then(|| names.collect::<Vec<_>>().join(", "));
    let most = parts.iter().flat_map(|part| part.labels.iter().copied()).max();
    let most = most.and_then(|most| u8::try_from(most).ok());
    let classes = match labels.as_ref().zip(most) {
        Some((labels, most)) => {
            let shown = source.path().display().to_string();
            KnownWords::numbers(most).number(&mut parts, options, labels, &shown)?
        }
        None => Vec::new(),
    };
    let columns = PixelColumns {
        labels,
        is_transposed: files.iter().any(|files| is_of_emnist(&files.images)),
        shape: shape.map(|(shape, _)| shape).unwrap_or_default(),
        ..PixelColumns::default()
    };
    let split_words = files.iter().map(|of| (base_name(&of.images).to_owned(), of.split)).collect();
    let (path, ignored) = (source.path().to_owned(), BTreeMap::new());
    Ok(PixelRows { path, parts, labelled, classes, columns, split_words, ignored })
}

fn is_of_emnist(name: &str) -> bool {
    base_name(name).to_lowercase().starts_with("emnist")
}

/// The rows of one split, and the shape of its images.
fn rows_of(
    source: &PixelSource,
    files: &IdxFiles,
    options: &SourceOptions<'_>,
    opening: &Opening<'_>,
) -> Result<(Rows, [u64; 3]), SourceError> {
    let IdxFiles { split, images, labels } = files;
    let file = source.file(images, opening)?;
    let path = source.path_of(images);
    let [n, height, width] = header(&path, &file, "images")?;
    let len = height.saturating_mul(width);
    if len == 0 {
        return Err(bad(&path, "images", format!("its images have {width} x {height} pixels")));
    }
    let shape = [height, width, 1];
    check_shape(shape, options).map_err(|e| bad(&path, "images", e.to_string()))?;
    let labels = match (wants_labels(options), labels) {
        (false, _) => Vec::new(),
        (true, None) => {
            let missing = base_name(images).replace("images", "labels").replace("idx3", "idx1");
            return Err(SourceError::NoLabels { images: path.display().to_string(), missing });
        }
        (true, Some(labels)) => labels_of(source, labels, opening, (n, base_name(images)))?,
    };
    // The header has compared the numbers with the length of the file.
    let start = file.len().saturating_sub(n.saturating_mul(len));
    let rows = Rows {
        name: split.to_string(),
        first: 0,
        file,
        places: Places::Every { start, stride: len, len, n },
        form: Form::Pixels,
        labels,
        splits: RowSplits::All(*split),
        bad: Vec::new(),
    };
    Ok((rows, shape))
}

fn labels_of(
    source: &PixelSource,
    name: &str,
    opening: &Opening<'_>,
    (n_images, images): (u64, &str),
) -> Result<Vec<i32>, SourceError> {
    let file = source.file(name, opening)?;
    let path = source.path_of(name);
    let check_n = |n| match n == n_images {
        true => Ok(()),
        false => {
            let reason = format!("it has {n} labels, and `{images}` has {n_images} images");
            Err(bad(&path, "labels", reason))
        }
    };
    if let Some(rows) = qmnist(&path, &file)? {
        return check_n(rows.len() as u64).map(|()| rows);
    }
    let [n] = header(&path, &file, "labels")?;
    check_n(n)?;
    let mut labels = Vec::new();
    let mut reader = file.reader();
    std::io::Seek::seek(&mut reader, std::io::SeekFrom::Start(file.len() - n))
        .and_then(|_| BufReader::new(reader).read_to_end(&mut labels))
        .map_err(|e| SourceError::io("read", &path, e))?;
    Ok(labels.into_iter().map(i32::from).collect())
}

/// The labels of QMNIST: the first of a row of integers for each image. `None` for another file.
/// Source: <https://github.com/facebookresearch/qmnist>.
fn qmnist(path: &Path, file: &Window) -> Result<Option<Vec<i32>>, SourceError> {
    let io = |e| SourceError::io("read", path, e);
    let mut reader = BufReader::new(file.reader());
    let mut head = [0; 12];
    if file.len() < 12 {
        return Ok(None);
    }
    reader.read_exact(&mut head).map_err(io)?;
    let [0, 0, INT, 2, sizes @ ..] = head else { return Ok(None) };
    let [n, columns] = [0, 4].map(|at| {
        let bytes = sizes.get(at..).and_then(<[u8]>::first_chunk).copied();
        u64::from(u32::from_be_bytes(bytes.unwrap_or_default()))
    });
    let expected = n.saturating_mul(columns).saturating_mul(4).saturating_add(12);
    // QMNIST has 8 columns.
    if columns == 0 || columns > 64 {
        return Ok(None);
    }
    if file.len() != expected {
        let reason = IdxError::Len { found: file.len(), expected }.to_string();
        return Err(bad(path, "labels", reason));
    }
    let (mut labels, mut row) = (Vec::new(), vec![0; usize::try_from(columns * 4).unwrap_or(0)]);
    for _ in 0..n {
        reader.read_exact(&mut row).map_err(io)?;
        let label = row.first_chunk().copied().map_or(-1, i32::from_be_bytes);
        if !(0..10).contains(&label) {
            return Err(bad(path, "labels", format!("it has the label {label}, expected 0 to 9")));
        }
        labels.push(label);
    }
    Ok(Some(labels))
}

/// Reads the `N` sizes in the header of a file of bytes, and compares them with its length.
fn header<const N: usize>(
    path: &Path,
    file: &Window,
    content: &'static str,
) -> Result<[u64; N], SourceError> {
    let mut head = Vec::new();
    file.reader()
        .take(4 + 4 * N as u64)
        .read_to_end(&mut head)
        .map_err(|e| SourceError::io("read", path, e))?;
    parse_header(&head, file.len()).map_err(|e| bad(path, content, e.to_string()))
}

/// What is wrong with an idx file.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
enum IdxError {
    #[error("it does not begin with the header of an idx file")]
    NoHeader,
    #[error("its numbers have the type 0x{0:02x}, expected 0x08 (unsigned bytes)")]
    Type(u8),
    #[error("it has {found} dimensions, expected {expected}")]
    Dimensions { found: u8, expected: usize },
    #[error("it has {found} bytes, its header says {expected}")]
    Len { found: u64, expected: u64 },
}

fn parse_header<const N: usize>(head: &[u8], len: u64) -> Result<[u64; N], IdxError> {
    let Some(([0, 0, dtype, dimensions], mut rest)) = head.split_first_chunk::<4>() else {
        return Err(IdxError::NoHeader);
    };
    if *dtype != UBYTE {
        return Err(IdxError::Type(*dtype));
    }
    if usize::from(*dimensions) != N {
        return Err(IdxError::Dimensions { found: *dimensions, expected: N });
    }
    let mut sizes = [0; N];
    for size in &mut sizes {
        let (bytes, after) = rest.split_first_chunk::<4>().ok_or(IdxError::NoHeader)?;
        *size = u64::from(u32::from_be_bytes(*bytes));
        rest = after;
    }
    let numbers = sizes.iter().fold(1_u64, |n, size| n.saturating_mul(*size));
    let expected = numbers.saturating_add(4 + 4 * N as u64);
    match len == expected {
        true => Ok(sizes),
        false => Err(IdxError::Len { found: len, expected }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_says_the_length() {
        let head = [0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 1, 0];
        assert_eq!(parse_header(&head, 16 + 2 * 3 * 256), Ok([2, 3, 256]));
        let check = |head: &[u8], len, expected: &str| {
            let error = parse_header::<3>(head, len).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        };
        check(&head, 16, "it has 16 bytes, its header says 1552");
        check(&head[..9], 16, "header of an idx file");
        check(b"not an idx file", 15, "header of an idx file");
        check(&[0, 0, 12, 2], 4, "type 0x0c, expected 0x08");
        check(&[0, 0, 8, 1], 4, "it has 1 dimensions, expected 3");
        check(&[[0, 0, 8, 3], [255; 4], [255; 4], [255; 4]].concat(), 16, "its header says");
    }
}
