//! Masks whose classes are colours.
//!
//! ```text
//! name,r,g,b            pixel (0, 0, 255) ─▶ 1
//! road,255,255,255
//! building,0,0,255
//! ```

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use gular_bundle::Dtype;
use gular_codec::tiff::Pages;
use gular_codec::{Decoder, Format, encode_png};
use serde::Serialize;

use crate::facts::{Fault, array, setting};
use crate::plan::PlanError;

/// The value of pixels beyond a scene, which no class has.
pub(super) const BEYOND: u8 = 255;
/// Larger files are not tables of colours.
const MOST_BYTES: u64 = 1 << 20;

/// The class of each colour of a mask.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct MaskColours {
    classes: Vec<ColourOfMask>,
    /// The table that they were read from.
    #[serde(skip)]
    pub(crate) file: PathBuf,
}

/// A colour, and the class that it means.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct ColourOfMask {
    class: u8,
    #[serde(skip_serializing_if = "String::is_empty")]
    name: String,
    rgb: [u8; 3],
}

impl MaskColours {
    /// Reads a table with a line for each class: three numbers from 0 to 255 (red, green, blue), or
    /// `#rrggbb`, and a name, separated by commas, semicolons, tabs or blanks. The first line may name
    /// the columns: `r`, `g` and `b` (or `red` …), `name`, and `id` for the numbers of classes. Else
    /// classes are counted from 0.
    ///
    /// # Errors
    /// [`PlanError::Run`] if the file cannot be read, a line is not a colour, or a colour occurs
    /// twice.
    pub fn read(path: &Path) -> Result<Self, PlanError> {
        let io = |e| PlanError::io("read", path, e);
        let len = fs::metadata(path).map_err(io)?.len();
        let fail = |text: String| {
            let text = format!("`{}` is not a table of colours: {text}", path.display());
            setting(&["mask_colours"], text)
        };
        if len > MOST_BYTES {
            return Err(fail(format!("it has {len} bytes")));
        }
        let bytes = fs::read(path).map_err(io)?;
        let text = std::str::from_utf8(&bytes).map_err(|e| fail(e.to_string()))?;
        let classes = Self::parse(text.trim_start_matches('\u{feff}')).map_err(fail)?;
        Ok(Self { classes, file: path.to_owned() })
    }

    fn parse(text: &str) -> Result<Vec<ColourOfMask>, String> {
        let lines = text.lines().enumerate().map(|(i, line)| (i + 1, line.trim()));
        let mut lines = lines.filter(|(_, line)| !line.is_empty() && !is_comment(line)).peekable();
        let is_value = |word: &&str| word.parse::<u32>().is_ok() || hex(word).is_some();
        let header = lines.next_if(|(_, line)| !words(line).iter().any(is_value));
        let columns = match header {
            None => None,
            Some((number, line)) => Some((
                Columns::of(&cells(line)).ok_or_else(|| {
                    format!("line {number} names columns, but not `r`, `g` and `b`: `{line}`")
                })?,
                cells(line),
            )),
        };
        let lines: Vec<(usize, &str)> = lines.collect();
        if let Some((columns, names)) = &columns {
            let rows: Vec<Vec<&str>> = lines.iter().map(|(_, line)| cells(line)).collect();
            columns.check(names, &rows)?;
        }
        let mut colours: Vec<ColourOfMask> = Vec::new();
        for (number, line) in lines {
            let row = match &columns {
                Some((columns, _)) => columns.row(&cells(line)),
                None => of_cvat(line).or_else(|| without_names(line)),
            };
            let wrong = || format!("line {number} is not a colour: `{line}`");
            let (id, name, rgb) = row.ok_or_else(wrong)?;
            let class = id.or(u8::try_from(colours.len()).ok()).filter(|class| *class < BEYOND);
            let class = class.ok_or_else(|| {
                format!("line {number} would be class {BEYOND} or more, and masks have 8 bits")
            })?;
            if colours.iter().any(|known| known.rgb == rgb) {
                return Err(format!("line {number} has a colour for the second time: `{line}`"));
            }
            colours.push(ColourOfMask { class, name, rgb });
        }
        if colours.is_empty() { Err("it has no colours".to_owned()) } else { Ok(colours) }
    }

    /// The colours in words, for the manifest.
    pub(crate) fn note(&self) -> String {
        let of = |ColourOfMask { class, name, rgb: [r, g, b] }: &ColourOfMask| {
            let name = if name.is_empty() { String::new() } else { format!(" {name}") };
            format!("{class}={r},{g},{b}{name}")
        };
        self.classes.iter().map(of).collect::<Vec<_>>().join("; ")
    }

    /// The mask of a picture: a PNG of one channel with the number of each pixel's class.
    pub(crate) fn mask(
        &self,
        file: &[u8],
        decoder: &mut Decoder,
        pages: Pages,
    ) -> Result<Vec<u8>, Fault> {
        if Format::sniff(file) == Some(Format::Jpeg) {
            let reason = "it is a JPEG, which changes colours".to_owned();
            return Err(Fault::new(reason, Some("save it as PNG from its source")));
        }
        let limits = decoder.options().limits;
        if let Some((width, height, bands)) = array::size(file, &limits, pages)? {
            let shape = [height.into(), width.into(), if bands == 1 { 1 } else { 3 }];
            let array = array::values(file, Dtype::U8, &shape, &limits, pages)?;
            let classes = match bands {
                1 => self.classes(&Self::in_colour(&array.values), None, width as usize)?,
                _ => self.classes(&array.values, None, width as usize)?,
            };
            return Ok(encode_png(&classes, width, height)?);
        }
        let picture = decoder.decode(file)?;
        let (width, height) = (picture.width(), picture.height());
        let classes = self.classes(picture.data(), None, width as usize)?;
        Ok(encode_png(&classes, width, height)?)
    }

    /// Grey pixels as pixels of three bytes.
    pub(crate) fn in_colour(grey: &[u8]) -> Vec<u8> {
        grey.iter().flat_map(|value| [*value; 3]).collect()
    }

    /// The class of each pixel of three bytes; those that are beyond a scene, where `inside` is 0,
    /// have none.
    pub(crate) fn classes(
        &self,
        rgb: &[u8],
        inside: Option<&[u8]>,
        width: usize,
    ) -> Result<Vec<u8>, Fault> {
        let classes: HashMap<[u8; 3], u8> =
            self.classes.iter().map(|ColourOfMask { class, rgb, .. }| (*rgb, *class)).collect();
        let pixels = rgb.as_chunks::<3>().0;
        let mut made = Vec::with_capacity(pixels.len());
        // Neighbours mostly have the same colour.
        let mut last = None;
        for (i, pixel) in pixels.iter().enumerate() {
            if inside.is_some_and(|inside| inside.get(i) == Some(&0)) {
                made.push(BEYOND);
                continue;
            }
            let class = match last {
                Some((known, class)) if known == pixel => class,
                _ => *classes.get(pixel).ok_or_else(|| {
                    let [r, g, b] = *pixel;
                    let (x, y) = (i % width.max(1), i / width.max(1));
                    let reason = format!(
                        "its pixel ({x}, {y}) has the colour {r},{g},{b}, which the table of colours does not have"
                    );
                    Fault::new(reason, Some("add the colour to the table"))
                })?,
            };
            last = Some((pixel, class));
            made.push(class);
        }
        Ok(made)
    }
}

/// The places of columns that are named.
struct Columns {
    rgb: [usize; 3],
    name: Option<usize>,
    id: Option<usize>,
}

/// The number of a class if it is given, its name and its colour.
type Row = (Option<u8>, String, [u8; 3]);

impl Columns {
    fn of(cells: &[&str]) -> Option<Self> {
        let find = |names: &[&str]| {
            cells.iter().position(|cell| names.contains(&cell.to_lowercase().as_str()))
        };
        let rgb = [find(&["r", "red"])?, find(&["g", "green"])?, find(&["b", "blue"])?];
        let name = find(&["name", "class_name", "class", "label", "category"]);
        let id = find(&["id", "class_id", "label_id", "index", "value", "train_id"]);
        Some(Self { rgb, name, id })
    }

    /// Refuses columns of whole numbers that may be those of classes.
    fn check(&self, names: &[&str], rows: &[Vec<&str>]) -> Result<(), String> {
        let known = |at: usize| self.rgb.contains(&at) || self.id == Some(at);
        let is_number = |at: usize| {
            rows.iter().all(|row| row.get(at).is_some_and(|cell| cell.parse::<i64>().is_ok()))
        };
        match (0..names.len()).find(|at| !known(*at) && is_number(*at)) {
            Some(at) => {
                let name = names.get(at).copied().unwrap_or_default();
                Err(format!(
                    "column `{name}` has numbers that may be those of the classes: call it `id` if they are, or leave it out"
                ))
            }
            None => Ok(()),
        }
    }

    fn row(&self, cells: &[&str]) -> Option<Row> {
        let number = |at: usize| cells.get(at)?.parse::<u8>().ok();
        let [r, g, b] = self.rgb;
        let name = self.name.and_then(|at| cells.get(at)).copied().unwrap_or_default();
        let id = match self.id {
            Some(at) => Some(number(at)?),
            None => None,
        };
        Some((id, name.to_owned(), [number(r)?, number(g)?, number(b)?]))
    }
}

/// Whether a line is for people; `#ff0000` is a colour.
fn is_comment(line: &str) -> bool {
    ["//", "# "].iter().any(|start| line.starts_with(start))
}

/// A line of CVAT's `labelmap.txt`: `name:r,g,b:parts:actions`.
fn of_cvat(line: &str) -> Option<Row> {
    let [name, rgb, _, _] = line.split(':').collect::<Vec<_>>().try_into().ok()?;
    let (_, _, rgb) = without_names(rgb)?;
    Some((None, name.trim().to_owned(), rgb))
}

/// A line of three numbers, or a number in hexadecimal, and a name, such as `64,128,64 Animal`.
fn without_names(line: &str) -> Option<Row> {
    let words = words(line);
    let numbers: Option<Vec<u8>> = words
        .iter()
        .filter_map(|word| word.parse::<u32>().ok())
        .map(|n| u8::try_from(n).ok())
        .collect();
    let of_name = words.iter().filter(|word| word.parse::<u32>().is_err() && hex(word).is_none());
    let name = of_name.copied().collect::<Vec<_>>().join(" ");
    let rgb = match (numbers?.as_slice(), words.iter().find_map(|word| hex(word))) {
        ([], Some(rgb)) => rgb,
        ([r, g, b], None) => [*r, *g, *b],
        _ => return None,
    };
    Some((None, name, rgb))
}

/// All words and numbers of a line.
fn words(line: &str) -> Vec<&str> {
    let words = line.split(|c: char| c.is_whitespace() || matches!(c, ',' | ';'));
    words.map(|word| word.trim_matches('"')).filter(|word| !word.is_empty()).collect()
}

/// The cells of a line.
fn cells(line: &str) -> Vec<&str> {
    let separator = [',', ';', '\t'].into_iter().find(|separator| line.contains(*separator));
    match separator {
        None => line.split_whitespace().map(|cell| cell.trim().trim_matches('"')).collect(),
        Some(separator) => {
            line.split(separator).map(|cell| cell.trim().trim_matches('"')).collect()
        }
    }
}

fn hex(cell: &str) -> Option<[u8; 3]> {
    let digits = cell.strip_prefix('#').filter(|digits| digits.len() == 6)?;
    let [_, r, g, b] = u32::from_str_radix(digits, 16).ok()?.to_be_bytes();
    Some([r, g, b])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(classes: Vec<ColourOfMask>) -> MaskColours {
        MaskColours { classes, file: PathBuf::new() }
    }

    #[test]
    fn tables_of_colours_are_read_as_datasets_have_them() {
        let check = |text: &str, expected: &str| {
            assert_eq!(
                MaskColours::parse(text).map(of).map(|colours| colours.note()).as_deref(),
                Ok(expected),
                "{text}"
            );
        };
        // CamVid and DeepGlobe on Kaggle; CamVid's own; hexadecimal; with numbers of classes.
        check(
            "name,r,g,b\nurban_land, 0,255,255\nwater,0,0,255\n",
            "0=0,255,255 urban_land; 1=0,0,255 water",
        );
        check(
            "64 128 64\tAnimal\r\n192 0 128\tArchway\n",
            "0=64,128,64 Animal; 1=192,0,128 Archway",
        );
        check("#ff0000;a b\n#00FF00;c\n", "0=255,0,0 a b; 1=0,255,0 c");
        check("id,label,red,green,blue\n7,x,1,2,3\n7,y,1,2,4\n", "7=1,2,3 x; 7=1,2,4 y");
        check("255,255,255 a b\n0 0 0\tc", "0=255,255,255 a b; 1=0,0,0 c");
        check(",name,r,g,b\na,b,1,2,3\n", "0=1,2,3 b");
        check("0,0,0\n255,255,255\n", "0=0,0,0; 1=255,255,255");
        check(
            "# label:color_rgb:parts:actions\nbackground:0,0,0::\nred fox:128,0,0::\n",
            "0=0,0,0 background; 1=128,0,0 red fox",
        );
    }

    #[test]
    fn other_tables_are_refused_with_their_line() {
        let check = |text: &str, expected: &str| {
            let error = MaskColours::parse(text).unwrap_err();
            assert!(error.contains(expected), "{error}");
        };
        check("", "no colours");
        check("name,colour\nx,1\n", "line 1 names columns");
        check("1,2,3\n1,2\n", "line 2 is not a colour");
        check("1,2,300\n", "line 1 is not a colour");
        check("1,2,3,4\n", "line 1 is not a colour");
        check("1,2,3\n1,2,3\n", "line 2 has a colour for the second time");
        check("id,r,g,b\n255,1,2,3\n", "line 2 would be class 255");
        check("class,r,g,b\n3,1,2,3\n1,4,5,6\n", "column `class` has numbers");
        check("n,name,r,g,b\n3,x,1,2,3\n", "column `n` has numbers");
        let many: String = (0..256).map(|i| format!("{},{},0\n", i % 16, i / 16)).collect();
        check(&many, "line 256 would be class 255");
    }
}
