//! Boxes in YOLO's format: a folder of text files, one per image, with one line per box: the class,
//! then centre, width and height as fractions of the image.
//!
//! ```text
//! labels/train/0001.txt    of images/train/0001.jpg
//! labels/classes.txt       names of the classes, if there are names
//! ```

use std::fs;
use std::path::Path;

use super::boxes::{self, Boxed};
use super::rows::{Each, MOST_ROW_BYTES, fault};
use crate::Error;
use crate::scan::walk;

/// The file with the list of classes, which belongs to no image.
const CLASSES: &str = "classes.txt";

/// Names of the classes, where the folder says them.
pub(super) fn classes(folder: &Path) -> Result<Option<Vec<String>>, Error> {
    let path = folder.join(CLASSES);
    match fs::read_to_string(&path) {
        Ok(text) => {
            let names = text.lines().map(|l| l.trim().to_owned()).filter(|l| !l.is_empty());
            Ok(Some(names.collect()))
        }
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(Error::io("read", path, e)),
    }
}

/// Reads the folder as a table; the number of a row is that of its file, in no order.
pub(super) fn read(folder: &Path, each: Each<'_>) -> Result<(), Error> {
    let names = classes(folder)?;
    let mut row = 0;
    walk(folder, &mut |path| {
        // Hidden files are ignored and links are followed, as for images.
        if path.file_name().unwrap_or_default().as_encoded_bytes().starts_with(b".") {
            return Ok(None);
        }
        let metadata = fs::metadata(path);
        if let Some(folder) = metadata.as_ref().ok().filter(|found| found.is_dir()) {
            return Ok(Some(folder.clone()));
        }
        let relative = path.strip_prefix(folder).unwrap_or(path);
        if path.extension().is_none_or(|e| e != "txt") || relative == Path::new(CLASSES) {
            return Ok(None);
        }
        let Some(name) = relative.with_extension("").to_str().map(str::to_owned) else {
            return Err(fault(path, None, "its name is not UTF-8"));
        };
        if metadata.map_err(|e| Error::io("read", path, e))?.len() > MOST_ROW_BYTES {
            return Err(fault(path, None, format!("it has more than {MOST_ROW_BYTES} bytes")));
        }
        let text = fs::read_to_string(path).map_err(|e| Error::io("read", path, e))?;
        row += 1;
        let boxed = boxed(path, &text, names.as_deref())?;
        each(row, &boxes::columns(false), &boxes::cells(&name, boxed.into_iter()))?;
        Ok(None)
    })
}

/// The boxes in a file, whose classes are among `names`.
fn boxed(path: &Path, text: &str, names: Option<&[String]>) -> Result<Vec<Boxed>, Error> {
    let lines = (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty());
    let boxed = lines.map(|(number, line)| {
        let boxed = parse(line).and_then(|boxed| match names {
            Some(names) if boxed.class >= names.len() as i64 => Err(format!(
                "its class number is {}, but `{CLASSES}` lists only {} classes, counted from 0",
                boxed.class,
                names.len()
            )),
            _ => Ok(boxed),
        });
        boxed.map_err(|reason| Error::Table {
            path: path.display().to_string(),
            at: format!(" line {number}"),
            reason,
        })
    });
    boxed.collect()
}

fn parse(line: &str) -> Result<Boxed, String> {
    let expected = "expected a class, and x, y, width and height as fractions of the image";
    let words: Vec<&str> = line.split_whitespace().collect();
    let [class, numbers @ ..] = words.as_slice() else { return Err(expected.to_owned()) };
    let class = class.parse().ok().filter(|class| (0..=i64::from(i32::MAX)).contains(class));
    let class = class.ok_or_else(|| format!("`{}` is not a class; {expected}", words[0]))?;
    let numbers: Option<Vec<f64>> = numbers.iter().map(|word| word.parse().ok()).collect();
    let Some([x, y, width, height]) = numbers.as_deref() else {
        return Err(format!("it has {} numbers, {expected}", words.len()));
    };
    let (x, y, w, h) = (*x, *y, *width / 2.0, *height / 2.0);
    // A box may end slightly outside of the image because of rounding.
    let corners = [x - w, y - h, x + w, y + h];
    if !corners.iter().all(|corner| (-0.01..=1.01).contains(corner)) {
        return Err(format!("its box is not within the image; {expected}"));
    }
    Ok(Boxed { corners, class, crowd: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_boxes_or_said_not_to_be() {
        let boxed = parse("3 0.5 0.25 0.5 0.5").unwrap();
        assert_eq!((boxed.class, boxed.corners), (3, [0.25, 0.0, 0.75, 0.5]));
        for (line, expected) in [
            ("3 0.5 0.25 0.5", "it has 4 numbers"),
            ("3 0.1 0.2 0.3 0.4 0.5 0.6", "it has 7 numbers"),
            ("cat 0.5 0.5 0.5 0.5", "`cat` is not a class"),
            ("-1 0.5 0.5 0.5 0.5", "`-1` is not a class"),
            ("1 320 240 64 64", "not within the image"),
            ("1 NaN 0.5 0.1 0.1", "not within the image"),
        ] {
            let error = parse(line).err().unwrap();
            assert!(error.contains(expected), "{line}: {error}");
        }
    }
}
