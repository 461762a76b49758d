//! What a loader delivers, asked of the loader itself.

use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use gular_bundle::{Bundle, Dtype, Field, FieldKind, Split};
use gular_codec::encode_png;
use gular_runtime::order::{OrderKind, OrderSpec};
use gular_runtime::{
    Array, Batch, Env, Error as LoaderError, Loader, LoaderOptions, LoaderSettings, Numbers,
    OnBadSample, StopFlag, Turns, UnknownLabels, Values,
};
use serde_json::{Map, Value, json};

use crate::Error;
use crate::array::{number, percentiles};
use crate::overlay::coloured;
use crate::sample_name::name;
use crate::training_code::{python, rust};

/// The most samples of a batch that are shown, and the most epochs of one sample.
const MOST_SHOWN: usize = 64;
const MOST_EPOCHS: u64 = 24;
/// The most bytes of a batch, of which the loader has two: 400 samples of 224 x 224 pixels of three
/// `f32`.
const MOST_BYTES: u64 = 256 << 20;
/// Bytes per pixel that drawing one sample takes for a while: of masks, numbers and colours.
const DRAWN_BYTES: u64 = 32;
/// Leads from a row's pixels to those of the stored picture; the loader computes it.
const AFFINE: &str = "image_affine";
/// Threads of a loader that makes one batch.
const BATCH_THREADS: usize = 2;
/// The settings that are used, and that the lines of code have. Others are refused: they change no
/// batch, or say which bundle is opened.
const USED: [&str; 22] = [
    "split",
    "batch_size",
    "order",
    "seed",
    "drop_last",
    "transform",
    "augment",
    "mixup",
    "cutmix",
    "numbers",
    "layout",
    "normalise",
    "depth",
    "bands",
    "axes",
    "mask_fill",
    "fields",
    "on_bad_sample",
    "unknown_labels",
    "apply_orientation",
    "scaling",
    "draw",
];

/// Settings as a request has them.
pub(crate) struct Asked<'a> {
    /// The JSON of [`LoaderSettings`].
    pub(crate) settings: &'a str,
    /// The bundle's folder or URL.
    pub(crate) source: &'a str,
}

impl Asked<'_> {
    fn parse(&self) -> Result<(LoaderSettings, Map<String, Value>), Error> {
        let wrong = |reason| Error::Parameter { name: "settings", reason };
        let json = |e: serde_json::Error| wrong(e.to_string());
        let settings = serde_json::from_str(self.settings).map_err(json)?;
        let given: Map<String, Value> = serde_json::from_str(self.settings).map_err(json)?;
        match given.keys().find(|name| !USED.contains(&name.as_str())) {
            Some(name) => {
                let used = USED.join("`, `");
                Err(wrong(format!("`{name}` is not used here; expected only `{used}`")))
            }
            None => Ok((settings, given)),
        }
    }

    /// The options of the loader, and the lines that give a program the same ones.
    fn options(&self, bundle: &Bundle, stop: &StopFlag) -> Result<(LoaderOptions, Value), Error> {
        let (settings, mut given) = self.parse()?;
        let unchosen = settings.unchosen();
        // The page is told no variable of the environment: threads do not change a batch.
        let options = settings.loader(&Env::default(), None)?;
        let options = with_places(bundle, options.fitted(bundle, unchosen, stop.flag())?);
        let (row_bytes, n) = (row_bytes(bundle, &options), options.batch_size);
        let (width, height) = options.transform.size();
        let one = u64::from(width).saturating_mul(u64::from(height)).saturating_mul(DRAWN_BYTES);
        if row_bytes.saturating_mul(n as u64).max(one) > MOST_BYTES {
            let reason = format!(
                "a batch of {n} samples with {row_bytes} bytes each, of {width} x {height} pixels, takes too much memory; expected at most {MOST_BYTES} bytes together, and {} pixels each",
                MOST_BYTES / DRAWN_BYTES
            );
            return Err(Error::Parameter { name: "settings", reason });
        }
        // What is shown of a batch is in the lines, but for what the page alone needs.
        let is_asked = |name: &String| {
            let given = given.get("fields").and_then(Value::as_array);
            name != AFFINE || given.is_some_and(|given| given.iter().any(|given| given == AFFINE))
        };
        let fields = options.fields.iter().filter(|name| is_asked(name));
        let fields: Vec<String> = fields.cloned().collect();
        if !fields.is_empty() {
            given.insert("fields".into(), json!(fields));
        }
        let shown = LoaderOptions { fields, ..options.clone() };
        let code = json!({
            "python": python(self.source, options.split, &given),
            "rust": rust(&shown, &given),
            "fitted": options.fitted,
        });
        let options = LoaderOptions {
            threads: BATCH_THREADS,
            slots: 2,
            across_epochs: false,
            read_ahead_bytes: 0,
            stop: Some(stop.clone()),
            ..options
        };
        Ok((options, code))
    }
}

/// Bytes of one sample of a batch, at the most: image, masks and other fields on its pixels, and
/// fields of one size.
fn row_bytes(bundle: &Bundle, options: &LoaderOptions) -> u64 {
    let (width, height) = options.transform.size();
    let plane = u64::from(width).saturating_mul(u64::from(height));
    let manifest = bundle.manifest();
    let loaded = |field: &&Field| {
        field.is_image() || options.fields.iter().any(|name| name == field.name.as_str())
    };
    let of_field = |field: &Field| {
        let chosen = options.bands.as_ref().filter(|_| field.is_image()).map(|b| b.len() as u64);
        let stored = field.as_fixed().map_or(1, |(dtype, _)| dtype.size_bytes());
        let number = match (options.numbers, field.is_image()) {
            (Numbers::F32, true) => 4.max(stored),
            // Encoded images may have 16 bits.
            _ => 2.max(stored),
        };
        // All axes but rows and columns: bands, times and depths.
        let layers = match field.as_fixed() {
            None if field.is_mask() => 1,
            None => chosen.unwrap_or(3),
            Some((_, shape)) => {
                let axes = options.axes.clone().filter(|_| field.is_image());
                let axes = axes.or_else(|| field.known_axes());
                let at = |letter| axes.as_ref().and_then(|axes| axes.place(letter));
                let sides = [at('y'), at('x')];
                if sides.contains(&None) {
                    return field.size_bytes().unwrap_or(0);
                }
                let (bands, sides) = (at('c'), sides.map(Option::unwrap_or_default));
                let rest = shape.iter().enumerate().filter(|(axis, _)| !sides.contains(axis));
                let len = |(axis, len): (usize, &u64)| match chosen {
                    Some(chosen) if bands == Some(axis) => chosen,
                    _ => *len,
                };
                rest.map(len).fold(1, u64::saturating_mul)
            }
        };
        match field.is_image() || field.is_on_image() {
            true => plane.saturating_mul(layers).saturating_mul(number),
            false => field.size_bytes().unwrap_or(0),
        }
    };
    manifest.fields.iter().filter(loaded).map(of_field).fold(0, u64::saturating_add)
}

/// Fields that a batch gets beside its images: those on their pixels, boxes, and where they lie.
fn with_places(bundle: &Bundle, options: LoaderOptions) -> LoaderOptions {
    // Where pictures are blended, the loader refuses what would have to be blended with them.
    if options.blend.is_some() {
        return options;
    }
    let mut fields = options.fields.clone();
    let mut add = |name: &str| {
        if !fields.iter().any(|field| field == name) {
            fields.push(name.to_owned());
        }
    };
    let is_shown = |field: &&Field| {
        !field.is_image()
            && !field.is_label()
            && (field.is_on_image() || matches!(field.name.as_str(), "boxes" | "box_labels"))
    };
    bundle.manifest().fields.iter().filter(is_shown).for_each(|field| add(field.name.as_str()));
    if bundle.manifest().image().is_some() {
        add(AFFINE);
    }
    LoaderOptions { fields, ..options }
}

/// One batch as it leaves the loader.
pub(crate) fn batch(
    bundle: &Arc<Bundle>,
    asked: &Asked<'_>,
    epoch: u64,
    step: u64,
    stop: &StopFlag,
) -> Result<Value, Error> {
    let (options, code) = asked.options(bundle, stop)?;
    let mut loader = Loader::new(Arc::clone(bundle), options)?;
    let n_steps = loader.n_steps();
    let last = n_steps.saturating_sub(1);
    let step = step.min(last);
    loader.set_turns(Turns { first: step, of: u64::MAX });
    loader.begin(epoch);
    let batch = loader.next_batch().transpose()?;
    let split = loader.options().split;
    let rows = batch.as_ref().map(|batch| rows(bundle, split, batch)).transpose()?;
    let left_behind = loader.left_behind();
    let fitted = loader.fitted();
    Ok(json!({
        "epoch": epoch, "step": step, "steps": n_steps, "samples": rows,
        "about": batch.as_ref().map(about),
        "skipped": batch.iter().flat_map(Batch::skipped).map(LoaderError::to_string).collect::<Vec<_>>(),
        "left_behind": left_behind, "fitted": fitted, "code": code,
    }))
}

/// One sample in several epochs: its crops, and what they become.
pub(crate) fn epochs(
    bundle: &Arc<Bundle>,
    asked: &Asked<'_>,
    (split, number): (Split, u64),
    (first, n): (u64, u64),
    stop: &StopFlag,
) -> Result<Value, Error> {
    let (options, code) = asked.options(bundle, stop)?;
    // Crops depend on seed, epoch and sample, in whatever order samples come. Blending depends on
    // the batch, which a single sample does not have.
    let order = OrderSpec { kind: OrderKind::Torch { shuffle: false }, ..options.order };
    let options = LoaderOptions {
        split,
        batch_size: 1,
        order: OrderSpec { drop_last: false, ..order },
        blend: None,
        draw: Default::default(),
        // Nothing may leave out samples or replace them: they are found by their number.
        select: Default::default(),
        unknown_labels: UnknownLabels::Ignore,
        on_error: OnBadSample::Fail,
        rank: 0,
        world_size: 1,
        threads: 1,
        ..options
    };
    // Without blending, fields that the settings alone do not permit can be shown.
    let mut loader = Loader::new(Arc::clone(bundle), with_places(bundle, options))?;
    loader.set_turns(Turns { first: number, of: u64::MAX });
    let mut of_epochs = Vec::new();
    for epoch in first..first.saturating_add(n.min(MOST_EPOCHS)) {
        loader.begin(epoch);
        let Some(batch) = loader.next_batch().transpose()? else { continue };
        if batch.sample_ids() != [number] {
            return Err(Error::OtherSample { wanted: number, found: batch.sample_ids().to_vec() });
        }
        let mut rows = rows(bundle, split, &batch)?;
        if let Some(Value::Object(row)) = rows.first_mut() {
            row.insert("epoch".into(), json!(epoch));
        }
        of_epochs.append(&mut rows);
    }
    Ok(json!({ "epochs": of_epochs, "code": code, "fitted": loader.fitted() }))
}

/// Type, shape and numbers of the images.
fn about(batch: &Batch) -> Value {
    let Some(Values::Array(images)) = batch.field("image") else { return Value::Null };
    let size = usize::try_from(images.dtype.size_bytes()).unwrap_or(1);
    let (mut n, mut sum, mut squares) = (0_u64, 0.0, 0.0);
    let (mut least, mut most) = (f64::MAX, f64::MIN);
    for value in images.bytes.chunks_exact(size).filter_map(|cell| number(images.dtype, cell)) {
        (n, sum, squares) = (n + 1, sum + value, squares + value * value);
        (least, most) = (least.min(value), most.max(value));
    }
    let mean = sum / n.max(1) as f64;
    let std = (squares / n.max(1) as f64 - mean * mean).max(0.0).sqrt();
    let shape = images.shape.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    json!({
        "type": format!("{:?}", images.dtype).to_lowercase(), "shape": shape,
        "mean": mean, "std": std, "least": (n > 0).then_some(least), "most": (n > 0).then_some(most),
    })
}

fn rows(bundle: &Bundle, split: Split, batch: &Batch) -> Result<Vec<Value>, Error> {
    let manifest = bundle.manifest();
    let (width, height) = batch.size();
    let images = batch.field("image");
    let shades = images.as_ref().and_then(Values::array).map(Shades::of);
    let mut rows = Vec::new();
    for row in 0..batch.len().min(MOST_SHOWN) {
        let key = batch.keys().get(row).cloned().unwrap_or_default();
        let label = batch.labels().get(row).copied();
        let class = label.and_then(|label| manifest.classes.get(usize::try_from(label).ok()?));
        let id = batch.sample_ids().get(row).map(|number| bundle.locate(split, *number));
        let mut shown = json!({
            "id": id.transpose()?.map(name), "key": key, "number": batch.sample_ids().get(row), "label": label, "class": class,
            "width": width, "height": height,
        });
        if let (Some(Values::Array(array)), Some(shades)) = (&images, &shades) {
            shown["image"] =
                shades.png(array, row).map_or(Value::Null, |png| json!(data_url(&png)));
        }
        if let Some(blended) = batch.blended().get(row) {
            let other = usize::try_from(blended.label).ok();
            let class = other.and_then(|label| manifest.classes.get(label));
            shown["blended"] = json!({
                "weight": blended.weight, "label": blended.label, "class": class,
            });
        }
        let mut overlays = Vec::new();
        for (of, values) in batch.fields().filter(|(of, _)| *of != "image") {
            let field = manifest.fields.iter().find(|field| field.name.as_str() == of);
            match (&values, of) {
                (Values::Array(array), AFFINE) => {
                    if let Some(t) = row_of(array, row).first_chunk::<6>() {
                        shown["crop"] = json!(corners(t, (width, height)));
                    }
                }
                (Values::Array(array), _) if field.is_some_and(Field::is_on_image) => {
                    let cells = row_of(array, row);
                    let plane = (width as usize) * (height as usize);
                    let cells: Vec<Option<f64>> =
                        cells.iter().take(plane).map(|n| n.is_finite().then_some(*n)).collect();
                    if cells.len() == plane
                        && let Ok(made) = coloured(width as usize, height as usize, &cells)
                    {
                        let url = data_url(&made.png);
                        overlays.push(json!({ "name": of, "image": url, "legend": made.legend }));
                    }
                }
                (Values::Bytes(values), "boxes" | "box_labels") => {
                    let array = Field {
                        kind: FieldKind::Bytes { media_types: Vec::new() },
                        ..Field::label()
                    };
                    let value = values.get(row).map_or(&[][..], Vec::as_slice);
                    if let Some((_, numbers)) = crate::sample::numbers(&array, value) {
                        shown[of] = match of {
                            "boxes" => json!(numbers.chunks_exact(4).collect::<Vec<_>>()),
                            _ => json!(numbers),
                        };
                    }
                }
                _ => {}
            }
        }
        shown["overlays"] = json!(overlays);
        rows.push(shown);
    }
    Ok(rows)
}

/// Where the corners of a row lie on the stored picture.
fn corners(t: &[f64; 6], (width, height): (u32, u32)) -> [[f64; 2]; 4] {
    let (w, h) = (f64::from(width), f64::from(height));
    [[0.0, 0.0], [w, 0.0], [w, h], [0.0, h]]
        .map(|[x, y]| [t[0] + x * t[1] + y * t[2], t[3] + x * t[4] + y * t[5]])
}

/// The bytes of one sample, and of a number.
fn bytes_of<'a>(array: &Array<'a>, row: usize) -> (&'a [u8], usize) {
    let size = usize::try_from(array.dtype.size_bytes()).unwrap_or(1);
    let len: usize = array.shape.iter().skip(1).product::<usize>() * size;
    (array.bytes.get(row * len..(row + 1) * len).unwrap_or_default(), size)
}

/// The numbers of one sample.
fn row_of(array: &Array<'_>, row: usize) -> Vec<f64> {
    let (bytes, size) = bytes_of(array, row);
    bytes.chunks_exact(size).map(|cell| number(array.dtype, cell).unwrap_or(f64::NAN)).collect()
}

/// How the numbers of a batch's images are shown: one scale for all of them.
struct Shades {
    least: f64,
    spread: f64,
}

impl Shades {
    /// Bytes as they are; other numbers between the 1st and the last of the batch, without the
    /// rarest.
    fn of(array: &Array<'_>) -> Self {
        if array.dtype == Dtype::U8 {
            return Self { least: 0.0, spread: 255.0 };
        }
        let size = usize::try_from(array.dtype.size_bytes()).unwrap_or(1);
        let step = (array.bytes.len() / size / 100_000).max(1);
        let cells = array.bytes.chunks_exact(size).step_by(step);
        let numbers = cells.filter_map(|cell| number(array.dtype, cell)).collect();
        let (least, most) = percentiles(numbers).unwrap_or((0.0, 1.0));
        Self { least, spread: (most - least).max(f64::MIN_POSITIVE) }
    }

    fn png(&self, array: &Array<'_>, row: usize) -> Option<Vec<u8>> {
        let (bytes, size) = bytes_of(array, row);
        // The last three axes, of the first time and depth.
        let [.., a, b, c] = array.shape[..] else { return None };
        let (height, width, channels) = if array.channels_last { (a, b, c) } else { (b, c, a) };
        let at = |y: usize, x: usize, channel: usize| match array.channels_last {
            true => (y * width + x) * channels + channel,
            false => (channel * height + y) * width + x,
        };
        let shown: &[usize] = if channels < 3 { &[0, 0, 0] } else { &[0, 1, 2] };
        let mut rgb = Vec::with_capacity(width * height * 3);
        for y in 0..height {
            for x in 0..width {
                let value = |channel: &usize| {
                    let cell = at(y, x, *channel) * size;
                    let cell = bytes.get(cell..).and_then(|cells| cells.get(..size));
                    let value = cell.and_then(|cell| number(array.dtype, cell)).unwrap_or(f64::NAN);
                    ((value - self.least) / self.spread * 255.0) as u8
                };
                rgb.extend(shown.iter().map(value));
            }
        }
        encode_png(&rgb, u32::try_from(width).ok()?, u32::try_from(height).ok()?).ok()
    }
}

fn data_url(png: &[u8]) -> String {
    format!("data:image/png;base64,{}", BASE64_STANDARD.encode(png))
}
