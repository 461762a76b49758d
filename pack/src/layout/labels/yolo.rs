//! Boxes in YOLO's format: a folder of text files, one per image, with one line per box: the class,
//! then centre, width and height as fractions of the image; or the corners of an outline, of which
//! the box around it is taken.
//!
//! ```text
//! labels/train/0001.txt    of images/train/0001.jpg
//! labels/classes.txt       names of the classes, if there are names; or
//! data.yaml                beside the folder or above: `names: [car, dog]`
//! ```
//!
//! Source: <https://docs.ultralytics.com/datasets/detect/>.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};

use saphyr::{LoadableYamlNode as _, Scalar, Yaml};
use saphyr_parser::{Event, Parser};

use super::boxes::{self, Boxed};
use super::rows::{Each, fault};
use crate::layout::LayoutError;
use crate::source::MOST_ROW_BYTES;

/// The file with the list of classes, which belongs to no image: in the folder, or beside it as Label
/// Studio writes it.
const CLASSES: &str = "classes.txt";
/// The same of CVAT and Darknet.
const NAMES: &str = "obj.names";
/// The same of Roboflow's export for Darknet, in each folder.
const DARKNET: &str = "_darknet.labels";

/// The files that describe a whole dataset, the names of its classes among other things.
const DESCRIPTIONS: [&str; 4] = ["data.yaml", "data.yml", "dataset.yaml", "dataset.yml"];
/// Such a file is beside the labels, or at most so many folders above.
const MOST_ABOVE: usize = 2;
/// The longest line with a box that a folder's format is recognised by.
const MOST_LINE_BYTES: u64 = 4096;
/// What is wrong with lines of a box and points, some of which could be taken for outlines.
const POINTS: &str =
    "it has `kpt_shape`, so each line has points behind the box, and these are not read";
/// The same where no file says so.
const POSES: &str = "all its longer lines have as many numbers, which are a box and points within it, as poses have them; points are not read";
/// The numbers of a triangle.
const FEWEST_OF_OUTLINE: usize = 6;
/// Most lists and mappings in one another in such a file.
const MOST_DEPTH: u32 = 32;

/// Names of the classes, and the file that says them.
pub(super) struct ClassNames {
    pub(super) names: Vec<String>,
    file: PathBuf,
}

/// Names of the classes, where the folder or a description says them.
pub(super) fn classes(folder: &Path) -> Result<Option<ClassNames>, LayoutError> {
    let lists = [
        folder.join(CLASSES),
        folder.join(DARKNET),
        folder.with_file_name(CLASSES),
        folder.with_file_name(NAMES),
    ];
    for file in lists {
        let Some(text) = text_of(&file)? else { continue };
        let names = text.trim_end().lines().map(|line| line.trim().to_owned());
        return ClassNames::new(names.collect(), file).map(Some);
    }
    let whole = folder.canonicalize().map_err(|e| LayoutError::io("open", folder, e))?;
    for above in whole.ancestors().take(MOST_ABOVE + 1) {
        let named = DESCRIPTIONS.map(|name| above.join(name));
        for file in named.into_iter().chain(of_own_name(above)) {
            let Some(text) = text_of(&file)? else { continue };
            check_yaml(&file, &text)?;
            let yaml = Yaml::load_from_str(&text)
                .map_err(|e| fault(&file, None, format!("it is not YAML: {e}")))?;
            if yaml.first().is_some_and(|yaml| yaml.as_mapping_get("kpt_shape").is_some()) {
                return Err(fault(&file, None, POINTS));
            }
            if let Some(listed) = yaml.first().and_then(|yaml| yaml.as_mapping_get("names")) {
                let names = names_in(listed).ok_or_else(|| {
                    let reason = "`names` is neither a list of names, nor a mapping of the numbers from 0 on to names";
                    fault(&file, None, reason)
                })?;
                return ClassNames::new(names, file).map(Some);
            }
        }
    }
    Ok(None)
}

/// The description of a dataset that bears the dataset's own name, as Ultralytics ask for: the only
/// file of YAML in a folder, if it names classes.
fn of_own_name(folder: &Path) -> Option<PathBuf> {
    let files = fs::read_dir(folder).ok()?.filter_map(|entry| Some(entry.ok()?.path()));
    let is_yaml = |file: &PathBuf| file.extension().is_some_and(|e| e == "yaml" || e == "yml");
    let mut files = files.filter(is_yaml);
    let one = files.next().filter(|_| files.next().is_none())?;
    let text = text_of(&one).ok()??;
    text.lines().any(|line| line.starts_with("names:")).then_some(one)
}

impl ClassNames {
    fn new(names: Vec<String>, file: PathBuf) -> Result<Self, LayoutError> {
        if names.iter().any(String::is_empty) {
            return Err(fault(&file, None, "a class has no name"));
        }
        let mut sorted: Vec<&String> = names.iter().collect();
        sorted.sort();
        if let Some(pair) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(fault(&file, None, format!("two classes have the name `{}`", pair[0])));
        }
        Ok(Self { names, file })
    }
}

/// Refuses what would take much memory: each alias is a copy, so that a short text may be a large
/// one, and what is deep is freed by recursion.
fn check_yaml(file: &Path, text: &str) -> Result<(), LayoutError> {
    let mut depth = 0_u32;
    for (event, _) in Parser::new_from_str(text).map_while(Result::ok) {
        match event {
            Event::Alias(_) => {
                return Err(fault(file, None, "it has aliases (`*`), which are not read"));
            }
            Event::SequenceStart(..) | Event::MappingStart(..) => depth += 1,
            Event::SequenceEnd | Event::MappingEnd => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > MOST_DEPTH {
            return Err(fault(file, None, "its lists and mappings are nested too deeply"));
        }
    }
    Ok(())
}

/// The names of a list, or of a mapping of numbers to names.
fn names_in(listed: &Yaml<'_>) -> Option<Vec<String>> {
    let text = |yaml: &Yaml<'_>| match yaml {
        Yaml::Value(Scalar::String(text)) => Some(text.trim().to_owned()),
        Yaml::Value(Scalar::Integer(n)) => Some(n.to_string()),
        _ => None,
    };
    if let Some(list) = listed.as_sequence() {
        return list.iter().map(text).collect();
    }
    let mut numbered: Vec<(usize, String)> = Vec::new();
    for (number, name) in listed.as_mapping()? {
        numbered.push((usize::try_from(number.as_integer()?).ok()?, text(name)?));
    }
    numbered.sort_unstable();
    let is_whole = numbered.iter().map(|(number, _)| *number).eq(0..numbered.len());
    is_whole.then(|| numbered.into_iter().map(|(_, name)| name).collect())
}

/// The text of a file, if there is one.
fn text_of(path: &Path) -> Result<Option<String>, LayoutError> {
    let is_large = fs::metadata(path).is_ok_and(|found| found.len() > MOST_ROW_BYTES);
    match fs::read_to_string(path) {
        _ if is_large => Err(fault(path, None, format!("it has more than {MOST_ROW_BYTES} bytes"))),
        Ok(text) => Ok(Some(text)),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(LayoutError::io("read", path, e)),
    }
}

/// Reads the folder as a table; the number of a row is that of its file, in no order.
pub(super) fn read(folder: &Path, each: Each<'_>) -> Result<(), LayoutError> {
    let names = classes(folder)?;
    let mut row = 0;
    boxes::texts(folder, "txt", &mut |path, name, text| {
        if name == CLASSES.trim_end_matches(".txt") {
            return Ok(());
        }
        row += 1;
        let boxed = boxed(path, text, names.as_ref())?;
        each(row, &boxes::columns(false), &boxes::cells(name, boxed.into_iter()))
    })
}

/// The boxes in a file, whose classes are among `names`.
fn boxed(path: &Path, text: &str, names: Option<&ClassNames>) -> Result<Vec<Boxed>, LayoutError> {
    let lines = (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty());
    let boxed = lines.map(|(number, line)| {
        let boxed = parse(line).and_then(|boxed| match names {
            Some(ClassNames { names, file }) if boxed.class >= names.len() as i64 => Err(format!(
                "its class number is {}, but `{}` lists only {} classes, counted from 0",
                boxed.class,
                file.display(),
                names.len()
            )),
            _ => Ok(boxed),
        });
        boxed.map_err(|reason| fault(path, Some(number), reason))
    });
    boxed.collect()
}

/// Whether a line is a box.
pub(super) fn is_line(line: &str) -> bool {
    parse(line).is_ok()
}

/// The first line of a file, which says the format.
pub(super) fn first_line(path: &Path) -> String {
    let mut line = String::new();
    let file = fs::File::open(path).map(|file| BufReader::new(file.take(MOST_LINE_BYTES)));
    // What cannot be read has no line of any format.
    let _ = file.and_then(|mut file| file.read_line(&mut line));
    line
}

fn parse(line: &str) -> Result<Boxed, String> {
    let expected = "expected a class, and x, y, width and height as fractions of the image";
    let words: Vec<&str> = line.split_whitespace().collect();
    let [class, numbers @ ..] = words.as_slice() else { return Err(expected.to_owned()) };
    let class = class.parse().ok().filter(|class| (0..=i64::from(i32::MAX)).contains(class));
    let class = class.ok_or_else(|| format!("`{}` is not a class; {expected}", words[0]))?;
    let numbers: Option<Vec<f64>> = numbers.iter().map(|word| word.parse().ok()).collect();
    // A box may end slightly outside of the image because of rounding.
    let corners = match numbers.as_deref() {
        Some([x, y, width, height]) => {
            let (w, h) = (width / 2.0, height / 2.0);
            [x - w, y - h, x + w, y + h]
        }
        Some(outline) if outline.len() >= FEWEST_OF_OUTLINE && outline.len().is_multiple_of(2) => {
            around(outline)
        }
        _ => return Err(format!("it has {} numbers, {expected}", words.len())),
    };
    if !corners.iter().all(|corner| (-0.01..=1.01).contains(corner)) {
        return Err(format!("its box is not within the image; {expected}"));
    }
    Ok(Boxed { corners, class, crowd: None })
}

/// The box around an outline, which is `x y` of each of its corners.
fn around(outline: &[f64]) -> [f64; 4] {
    let side = |from: usize, of: fn(f64, f64) -> f64| {
        let numbers = outline.iter().skip(from).step_by(2).copied();
        numbers.reduce(|a, b| if a.is_nan() || b.is_nan() { f64::NAN } else { of(a, b) })
    };
    let sides = [side(0, f64::min), side(1, f64::min), side(0, f64::max), side(1, f64::max)];
    sides.map(|side| side.unwrap_or(f64::NAN))
}

/// The number of outlines in a folder.
pub(super) fn outlines(folder: &Path) -> Result<u64, LayoutError> {
    let (mut n, mut lens, mut may_be_poses) = (0, BTreeSet::new(), true);
    boxes::texts(folder, "txt", &mut |_, _, text| {
        for line in text.lines() {
            let numbers = line.split_whitespace().skip(1).map(|word| word.parse::<f64>().ok());
            let numbers: Vec<f64> = numbers.flatten().collect();
            if numbers.len() >= FEWEST_OF_OUTLINE {
                n += 1;
                lens.insert(numbers.len());
                may_be_poses &= is_pose(&numbers);
            }
        }
        Ok(())
    })?;
    if n > 0 && lens.len() == 1 && may_be_poses {
        return Err(fault(folder, None, POSES));
    }
    Ok(n)
}

/// Whether these numbers are a box, and points within it; points that are not seen are at 0.
fn is_pose(numbers: &[f64]) -> bool {
    let [x, y, width, height, points @ ..] = numbers else { return false };
    points.chunks_exact(2).all(|point| {
        let [px, py] = *point else { return false };
        let is_within = |p: f64, centre: f64, side: f64| (p - centre).abs() <= side / 2.0 + 0.01;
        (px == 0.0 && py == 0.0) || (is_within(px, *x, *width) && is_within(py, *y, *height))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn poses_are_told_from_outlines() {
        assert!(is_pose(&[0.5, 0.5, 0.4, 0.4, 0.5, 0.6, 0.0, 0.0, 0.31, 0.69]));
        assert!(!is_pose(&[0.1, 0.1, 0.9, 0.1, 0.9, 0.9, 0.1, 0.9]));
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
        write("1.txt", "0 0.5 0.5 0.4 0.4 0.5 0.6 0 0\n0 0.3 0.3 0.2 0.2 0.3 0.3 0.25 0.35\n");
        let error = outlines(dir.path()).unwrap_err().to_string();
        assert!(error.contains("as poses have them"), "{error}");
        write("2.txt", "0 0.1 0.1 0.9 0.1 0.9 0.9\n0 0.5 0.5 0.1 0.1\n");
        assert_eq!(outlines(dir.path()).unwrap(), 3);
    }

    #[test]
    fn lines_are_boxes_or_said_not_to_be() {
        let boxed = parse("3 0.5 0.25 0.5 0.5").unwrap();
        assert_eq!((boxed.class, boxed.corners), (3, [0.25, 0.0, 0.75, 0.5]));
        let outline = parse("2 0.5 0.25 0.1 0.75 0.3 0.125 0.2 0.5").unwrap();
        assert_eq!((outline.class, outline.corners), (2, [0.1, 0.125, 0.5, 0.75]));
        for (line, expected) in [
            ("3 0.5 0.25 0.5", "it has 4 numbers"),
            ("3 0.1 0.2 0.3 0.4 0.5", "it has 6 numbers"),
            ("3 0.1 0.2 0.3 0.4 0.5 0.6 0.7", "it has 8 numbers"),
            ("3 0.1 0.2 0.3 0.4 0.5 2", "not within the image"),
            ("3 0.1 0.2 0.3 0.4 NaN 0.6", "not within the image"),
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
