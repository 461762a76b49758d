//! All that is known about one sample.

use gular_bundle::{Bundle, Dtype, Field, FieldIdx, FieldKind, Npy, Row, SampleId, ShardIdx};
use gular_codec::{Limits, read_header};
use serde_json::{Map, Value, json};

use crate::array::{Cells, number};
use crate::error::PictureError;
use crate::overlay::legend;
use crate::sample_name::name;
use crate::{Error, values};

/// The longest text that is shown, and the most numbers.
const MOST_TEXT: usize = 1 << 16;
const MOST_NUMBERS: usize = 4096;
/// Words in the names of fields whose rows are points.
const POINTS: [&str; 5] = ["point", "landmark", "corner", "vertex", "joint"];

/// Describes a sample: its key, class and fields.
pub(crate) fn describe(bundle: &Bundle, sample: SampleId) -> Result<Value, Error> {
    let manifest = bundle.manifest();
    let index = bundle.index(sample.shard)?;
    let Some(entry) = sample.shard.of(&manifest.shards) else { return Ok(Value::Null) };
    let before = manifest.shards.iter().take(sample.shard.0);
    let before: u64 = before.filter(|s| s.split == entry.split).map(|s| s.samples).sum();
    let mut fields = Vec::new();
    for (at, field) in manifest.fields.iter().enumerate() {
        let (at, is_label) = (FieldIdx(at), field.is_label());
        let range = index.range(sample.row, at);
        let mut about = Map::new();
        about.insert("name".into(), json!(field.name));
        about.insert("type".into(), json!(type_of(field)));
        about.insert("bytes".into(), json!(range.map(|(_, len)| len)));
        about.insert("offset".into(), json!(range.map(|(start, _)| start)));
        let digest = index.digest(sample.row, at);
        about.insert("digest".into(), json!(digest.map(|digest| digest.to_string())));
        if !is_label {
            // What is wrong with one field is said there, and the others are shown.
            let seen = values::read(bundle, sample, at).and_then(|bytes| {
                value(field, &bytes).map_err(|source| Error::picture(bundle, sample, field, source))
            });
            match seen {
                Ok(mut more) => about.append(&mut more),
                Err(error) => {
                    about.insert("fault".into(), json!(error.to_string()));
                }
            }
        }
        fields.push(Value::Object(about));
    }
    let label = index.label(sample.row);
    let class = label.and_then(|label| manifest.classes.get(usize::try_from(label).ok()?));
    Ok(json!({
        "id": name(sample),
        "key": index.key(sample.row),
        "split": entry.split,
        "number": before + sample.row.0 as u64,
        "label": label,
        "class": class,
        "shard": entry.file.name,
        "row": sample.row.0,
        "previous": beside(bundle, sample, false).map(name),
        "next": beside(bundle, sample, true).map(name),
        "source": index.source(sample.row).map(|digest| digest.to_string()),
        "fields": fields,
    }))
}

/// The sample before or after it in the bundle.
fn beside(bundle: &Bundle, sample: SampleId, after: bool) -> Option<SampleId> {
    let shards = &bundle.manifest().shards;
    let samples = |at: usize| shards.get(at).and_then(|entry| usize::try_from(entry.samples).ok());
    let SampleId { shard, row } = sample;
    let within = if after { row.0.checked_add(1) } else { row.0.checked_sub(1) };
    if let Some(row) = within.filter(|row| samples(shard.0).is_some_and(|n| *row < n)) {
        return Some(SampleId { shard, row: Row(row) });
    }
    let at = if after { shard.0.checked_add(1)? } else { shard.0.checked_sub(1)? };
    let row = if after { 0 } else { samples(at)?.checked_sub(1)? };
    (samples(at)? > 0).then_some(SampleId { shard: ShardIdx(at), row: Row(row) })
}

/// Type and shape, or media types, in words.
pub(crate) fn type_of(field: &Field) -> String {
    match &field.kind {
        FieldKind::Fixed { dtype, shape } if shape.is_empty() => {
            format!("{}, one number", dtype_name(*dtype))
        }
        FieldKind::Fixed { dtype, shape } => {
            let axes = field.known_axes().map(|axes| format!(" {axes}")).unwrap_or_default();
            format!("{}{shape:?}{axes}", dtype_name(*dtype))
        }
        FieldKind::Bytes { media_types } => media_types.join(", "),
    }
}

fn dtype_name(dtype: Dtype) -> String {
    format!("{dtype:?}").to_lowercase()
}

/// How many bands its pictures have; encoded ones are shown as red, green and blue.
pub(crate) fn n_bands(field: &Field) -> u64 {
    let FieldKind::Fixed { shape, .. } = &field.kind else { return 3 };
    let place = field.known_axes().and_then(|axes| axes.place('c'));
    place.and_then(|place| shape.get(place)).copied().unwrap_or(1)
}

/// Whether values of the field are pictures.
pub(crate) fn is_pictured(field: &Field) -> bool {
    match &field.kind {
        FieldKind::Fixed { shape, .. } => {
            let name = field.name.as_str();
            let grid = field.known_axes().and_then(|axes| axes.grid(shape));
            grid.is_some_and(|grid| grid.width > 1 && grid.height > 1)
                && !are_boxes(name, shape)
                && !are_points(name, shape)
        }
        FieldKind::Bytes { media_types } => {
            media_types.iter().any(|media| media.starts_with("image/"))
        }
    }
}

fn are_boxes(name: &str, shape: &[u64]) -> bool {
    name == "boxes" && matches!(shape, [_, 4])
}

fn are_points(name: &str, shape: &[u64]) -> bool {
    matches!(shape, [_, 2 | 3]) && POINTS.iter().any(|word| name.contains(word))
}

fn value(field: &Field, bytes: &[u8]) -> Result<Map<String, Value>, PictureError> {
    let mut about = Map::new();
    let mut say = |name: &str, value: Value| {
        about.insert(name.to_owned(), value);
    };
    let name = field.name.as_str();
    if is_pictured(field) {
        let (width, height, bands) = match field.as_fixed() {
            Some(_) => {
                let cells = Cells::new(field, bytes)?;
                (cells.width, cells.height, cells.n_bands)
            }
            None => {
                let header = read_header(bytes, &Limits::default())?;
                let (width, height) = header.upright_size();
                // Grey pictures may have alpha, too, which is not shown.
                let bands = if field.is_mask() || header.channels < 3 { 1 } else { 3 };
                (width as usize, height as usize, bands)
            }
        };
        say("picture", json!({ "width": width, "height": height, "bands": bands }));
        if field.is_on_image() && !field.is_image() {
            say("legend", json!(legend(field, bytes)?));
        }
        return Ok(about);
    }
    let texts = integers(field, bytes);
    let numbers = numbers(field, bytes);
    match (&numbers, field.as_fixed()) {
        (Some((shape, numbers)), _) => {
            let rows = |columns: usize| numbers.chunks_exact(columns).collect::<Vec<_>>();
            if are_boxes(name, shape) {
                say("boxes", json!(rows(4)));
            } else if are_points(name, shape) {
                say("points", json!(rows(if shape.ends_with(&[3]) { 3 } else { 2 })));
            }
            say("shape", json!(shape));
            // A number of JavaScript has 53 bits: larger ones are told as texts.
            say("numbers", texts.map_or_else(|| json!(numbers), |texts| json!(texts)));
        }
        (None, None) => {
            let cut = bytes.get(..MOST_TEXT).unwrap_or(bytes);
            let is_text = matches!(&field.kind, FieldKind::Bytes { media_types }
                if media_types.iter().any(|m| m.starts_with("text/") || m == "application/json"));
            if is_text {
                say("text", json!(String::from_utf8_lossy(cut)));
                say("cut", json!(cut.len() < bytes.len()));
            }
        }
        (None, Some(_)) => {}
    }
    Ok(about)
}

/// A small array's type, shape, bytes, and whether they are big-endian.
type SmallArray<'a> = (Dtype, Vec<u64>, &'a [u8], bool);

fn small_array<'a>(field: &Field, bytes: &'a [u8]) -> Option<SmallArray<'a>> {
    let array = match field.as_fixed() {
        Some((dtype, shape)) => (dtype, shape.to_vec(), bytes, false),
        None => {
            let npy = Npy::parse(bytes).ok()?;
            let data = bytes.get(usize::try_from(npy.data_at).ok()?..)?;
            let is_plain = !npy.fortran || npy.shape.len() < 2;
            (npy.dtype, npy.shape, is_plain.then_some(data)?, npy.big_endian)
        }
    };
    let size = usize::try_from(array.0.size_bytes()).ok()?;
    (array.2.len() / size <= MOST_NUMBERS).then_some(array)
}

/// The numbers of a small array of `i64`, as texts.
fn integers(field: &Field, bytes: &[u8]) -> Option<Vec<String>> {
    let (Dtype::I64, _, data, is_big) = small_array(field, bytes)? else { return None };
    let cells = data.as_chunks::<8>().0.iter();
    let number = |cell: &[u8; 8]| match is_big {
        true => i64::from_be_bytes(*cell),
        false => i64::from_le_bytes(*cell),
    };
    Some(cells.map(|cell| number(cell).to_string()).collect())
}

/// The shape and the numbers of a small array.
pub(crate) fn numbers(field: &Field, bytes: &[u8]) -> Option<(Vec<u64>, Vec<f64>)> {
    let (dtype, shape, data, is_big) = small_array(field, bytes)?;
    let size = usize::try_from(dtype.size_bytes()).ok()?;
    let cell = |cell: &[u8]| match is_big {
        true => number(dtype, &cell.iter().rev().copied().collect::<Vec<_>>()),
        false => number(dtype, cell),
    };
    // What is not finite is shown as nothing by JSON, too.
    let numbers = data.chunks_exact(size).map(|bytes| cell(bytes).unwrap_or(f64::NAN));
    Some((shape, numbers.collect()))
}

#[cfg(test)]
mod tests {
    use gular_bundle::{FieldName, npy_header};
    use gular_codec::encode_png;

    use super::*;

    /// A PNG of one grey pixel.
    const GREY: &[u8] = b"\x89\x50\x4e\x47\x0d\x0a\x1a\x0a\x00\x00\x00\x0d\x49\x48\x44\x52\x00\x00\x00\x01\x00\x00\x00\x01\x08\x00\x00\x00\x00\x3a\x7e\x9b\x55\x00\x00\x00\x0a\x49\x44\x41\x54\x78\x9c\x63\x60\x07\x00\x00\x09\x00\x08\x20\x23\xc3\x8c\x00\x00\x00\x00\x49\x45\x4e\x44\xae\x42\x60\x82";

    #[test]
    fn boxes_points_texts_and_numbers_are_told_apart() {
        let named = |name: &str| FieldName::parse(name).unwrap();
        let npy = |shape: &[u64], values: &[f64]| {
            let values: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
            [npy_header(Dtype::F64, shape), values].concat()
        };
        let arrays = |name| Field::bytes(named(name), vec!["application/x-npy".to_owned()]);
        let found = value(&arrays("boxes"), &npy(&[1, 4], &[0.0, 0.1, 0.5, 1.0])).unwrap();
        assert_eq!(found["boxes"], json!([[0.0, 0.1, 0.5, 1.0]]));
        let found = value(&arrays("keypoints"), &npy(&[2, 2], &[1.0, 2.0, 3.0, 4.0])).unwrap();
        assert_eq!(found["points"], json!([[1.0, 2.0], [3.0, 4.0]]));
        // Arrays of one shape are not pictures of two columns.
        let fixed = Field::fixed(named("landmarks"), Dtype::U8, vec![2, 2]);
        assert_eq!(value(&fixed, &[1, 2, 3, 4]).unwrap()["points"], found["points"]);
        let text = Field::bytes(named("caption"), vec!["text/plain".to_owned()]);
        assert_eq!(value(&text, b"<b>").unwrap()["text"], json!("<b>"));
        let one = Field::fixed(named("area"), Dtype::I16, Vec::new());
        assert_eq!(value(&one, &[255, 255]).unwrap()["numbers"], json!([-1.0]));
        let id = Field::fixed(named("scene"), Dtype::I64, Vec::new());
        let large = 9_007_199_254_740_993_i64.to_le_bytes();
        assert_eq!(value(&id, &large).unwrap()["numbers"], json!(["9007199254740993"]));
        let image = Field::bytes(named("image"), vec!["image/png".to_owned()]);
        for (file, bands) in [(GREY, 1), (&encode_png(&[7; 3], 1, 1).unwrap()[..], 3)] {
            let found = value(&image, file).unwrap();
            assert_eq!(found["picture"], json!({"width": 1, "height": 1, "bands": bands}));
        }
        assert!(value(&text, &[b'x'; MOST_TEXT + 1]).unwrap()["cut"].as_bool().unwrap());
    }
}
