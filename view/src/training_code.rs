//! The lines that bring the settings of the page into a program.

use std::fmt::Write as _;

use gular_bundle::Split;
use gular_runtime::augment::Blend;
use gular_runtime::{AxisOrder, Draw, LoaderOptions, NormaliseBy, Numbers, Transform};
use serde_json::{Map, Value};

/// The settings of the page that Python has under the same name.
const SAME: [&str; 14] = [
    "seed",
    "drop_last",
    "mixup",
    "cutmix",
    "numbers",
    "layout",
    "depth",
    "axes",
    "mask_fill",
    "bands",
    "fields",
    "on_bad_sample",
    "unknown_labels",
    "scaling",
];

/// `gular.DataLoader(…)` with the settings that were `given`.
pub(crate) fn python(source: &str, split: Split, given: &Map<String, Value>) -> String {
    let mut code = format!("gular.DataLoader({}, \"{split}\"", text(source));
    if let Some(n) = given.get("batch_size") {
        let _ = write!(code, ", {n}");
    }
    if let Some(transform) = given.get("transform").and_then(transform) {
        let _ = write!(code, ", transform={transform}");
    }
    let changes = given.get("augment").and_then(Value::as_array);
    if let Some(changes) = changes.filter(|changes| !changes.is_empty()) {
        let changes: Vec<String> = changes.iter().filter_map(change).collect();
        let _ = write!(code, ", augment=[{}]", changes.join(", "));
    }
    match given.get("normalise") {
        Some(Value::String(name)) => {
            let _ = write!(code, ", normalise={}", text(name));
        }
        Some(Value::Object(by)) => {
            let part = |name| by.get("by").and_then(|by| by.get(name)).map(literal);
            let parts: Vec<String> = ["mean", "std", "scale"]
                .into_iter()
                .filter_map(part)
                .filter(|p| p != "None")
                .collect();
            let _ = write!(code, ", normalise=({})", parts.join(", "));
        }
        _ => {}
    }
    match given.get("order") {
        Some(Value::Object(order)) => {
            if let Some(torch) = order.get("torch") {
                match torch.get("shuffle").and_then(Value::as_bool) {
                    Some(false) => code.push_str(", shuffle=False"),
                    _ => code.push_str(", order=\"torch\""),
                }
            } else if let Some(shards) = order.get("window").and_then(|of| of.get("shards")) {
                let _ = write!(code, ", order=\"window\", window={shards}");
            }
        }
        Some(Value::String(name)) if name != "elastic" => {
            let _ = write!(code, ", order={}", text(name));
        }
        _ => {}
    }
    match given.get("draw") {
        Some(Value::Object(draw)) => {
            if let Some(weights) = draw.get("weights") {
                let _ = write!(code, ", draw={}", literal(weights));
            }
        }
        Some(Value::String(name)) => {
            let _ = write!(code, ", draw={}", text(name));
        }
        _ => {}
    }
    if let Some(Value::Bool(false)) = given.get("apply_orientation") {
        code.push_str(", orientation=False");
    }
    for (name, value) in SAME.into_iter().filter_map(|name| Some((name, given.get(name)?))) {
        if !value.is_null() {
            let _ = write!(code, ", {name}={}", literal(value));
        }
    }
    code.push(')');
    code
}

/// `gular.RandomCrop(…)` and its like.
fn transform(value: &Value) -> Option<String> {
    let (kind, of) = value.as_object()?.iter().next()?;
    let number = |name: &str| of.get(name).filter(|n| !n.is_null()).map(literal);
    let (width, height) = (number("width")?, number("height")?);
    let size = if width == height { width.clone() } else { format!("({height}, {width})") };
    let mut code = match kind.as_str() {
        "random" => format!("gular.RandomCrop({size}"),
        "pad" => format!("gular.PadCrop({size}"),
        "center" => format!("gular.CenterCrop({size}"),
        "whole" => format!("gular.Whole({size}"),
        "resize" => format!("gular.Resize({height}, {width}"),
        _ => return None,
    };
    for name in ["scale", "ratio", "padding", "flip", "resize_short"] {
        if let Some(value) = number(name) {
            let _ = write!(code, ", {name}={value}");
        }
    }
    code.push(')');
    Some(code)
}

/// `gular.ColorJitter(…)` and its like.
fn change(value: &Value) -> Option<String> {
    let (name, of) = value.as_object()?.iter().next()?;
    let class: String = name
        .split('_')
        .map(|word| {
            let (first, rest) = word.split_at_checked(1).unwrap_or((word, ""));
            first.to_uppercase() + rest
        })
        .collect();
    let arguments =
        of.as_object()?.iter().map(|(name, value)| format!("{name}={}", literal(value)));
    Some(format!("gular.{class}({})", arguments.collect::<Vec<_>>().join(", ")))
}

/// A value as Python writes it.
fn literal(value: &Value) -> String {
    match value {
        Value::Null => "None".to_owned(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        Value::String(name) => text(name),
        Value::Array(values) => {
            let values: Vec<String> = values.iter().map(literal).collect();
            format!("[{}]", values.join(", "))
        }
        other => other.to_string(),
    }
}

/// A text as Python writes it, in ASCII.
fn text(text: &str) -> String {
    let mut code = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => {
                code.push('\\');
                code.push(c);
            }
            ' '..='~' => code.push(c),
            c => {
                let _ = match u32::from(c) {
                    n @ ..0x1_0000 => write!(code, "\\u{n:04x}"),
                    n => write!(code, "\\U{n:08x}"),
                };
            }
        }
    }
    code.push('"');
    code
}

/// `LoaderOptions { … }` with what differs from [`LoaderOptions::new`].
pub(crate) fn rust(options: &LoaderOptions, given: &Map<String, Value>) -> String {
    let base = LoaderOptions::new(options.split);
    let mut code = String::from("LoaderOptions {\n");
    let mut say = |name: &str, value: String| {
        let _ = writeln!(code, "    {name}: {value},");
    };
    if options.batch_size != base.batch_size {
        say("batch_size", options.batch_size.to_string());
    }
    if options.order != base.order {
        let order = options.order;
        say(
            "order",
            format!(
                "OrderSpec {{ kind: OrderKind::{:?}, seed: {}, drop_last: {} }}",
                order.kind, order.seed, order.drop_last
            ),
        );
    }
    if options.transform != base.transform {
        say("transform", of_transform(&options.transform));
    }
    let changes = given.get("augment").and_then(Value::as_array);
    if let Some(changes) = changes.filter(|_| options.augment.is_some()) {
        let changes: Vec<String> = changes.iter().filter_map(rust_change).collect();
        say("augment", format!("Augment::of_changes(vec![{}])?", changes.join(", ")));
    }
    match options.blend {
        Some(Blend::MixUp { alpha }) => {
            say("blend", format!("Some(Blend::MixUp {{ alpha: {alpha:?} }})"));
        }
        Some(Blend::CutMix { alpha }) => {
            say("blend", format!("Some(Blend::CutMix {{ alpha: {alpha:?} }})"));
        }
        Some(Blend::Either { mixup, cutmix }) => {
            say("blend", format!("Some(Blend::Either {{ mixup: {mixup:?}, cutmix: {cutmix:?} }})"));
        }
        None => {}
    }
    if options.numbers != Numbers::Stored {
        say("numbers", format!("Numbers::{:?}", options.numbers));
    }
    if options.layout != AxisOrder::ChannelsLast {
        say("layout", format!("AxisOrder::{:?}", options.layout));
    }
    match &options.normalise {
        NormaliseBy::Kind => {}
        NormaliseBy::Bundle => say("normalise", "NormaliseBy::Bundle".to_owned()),
        NormaliseBy::Given(by) => {
            let list = |numbers: &[f32]| format!("vec!{numbers:?}");
            say(
                "normalise",
                format!(
                    "Normalise {{ scale: {:?}, mean: {}, std: {} }}.into()",
                    by.scale,
                    list(&by.mean),
                    list(&by.std)
                ),
            );
        }
    }
    if let Some(bands) = &options.bands {
        say("bands", format!("Some(vec!{bands:?})"));
    }
    if options.only_grey {
        say("only_grey", "true".to_owned());
    }
    if options.depth != base.depth {
        say("depth", format!("Depth::{:?}", options.depth));
    }
    if let Some(axes) = &options.axes {
        say("axes", format!("Some(\"{axes}\".parse()?)"));
    }
    match &options.draw {
        Draw::EachOnce => {}
        Draw::ByClass => say("draw", "Draw::ByClass".to_owned()),
        Draw::ByWeight(_) => {
            // The weights as they were given: those of the options are scaled.
            let weights = given.get("draw").and_then(|draw| draw.get("weights"));
            let weights = weights.and_then(Value::as_array).into_iter().flatten();
            let weights: Vec<f64> = weights.filter_map(Value::as_f64).collect();
            say("draw", format!("Draw::ByWeight(Weights::try_from(vec!{weights:?})?)"));
        }
    }
    if options.orientation != base.orientation {
        say("orientation", format!("OrientationPolicy::{:?}", options.orientation));
    }
    if options.scaling != base.scaling {
        say("scaling", format!("Scaling::{:?}", options.scaling));
    }
    if let Some(fill) = options.mask_fill {
        say("mask_fill", format!("Some({fill})"));
    }
    if !options.fields.is_empty() {
        let names = options.fields.iter().map(|name| format!("{name:?}.to_owned()"));
        say("fields", format!("vec![{}]", names.collect::<Vec<_>>().join(", ")));
    }
    if options.on_error != base.on_error {
        say("on_error", format!("OnBadSample::{:?}", options.on_error));
    }
    if options.unknown_labels != base.unknown_labels {
        say("unknown_labels", format!("UnknownLabels::{:?}", options.unknown_labels));
    }
    let _ = write!(code, "    ..LoaderOptions::new(Split::{:?})\n}}", options.split);
    code
}

fn of_transform(transform: &Transform) -> String {
    format!("Transform::{transform:?}")
}

/// `Change::ColorJitter { … }` and its like.
fn rust_change(value: &Value) -> Option<String> {
    let change: gular_runtime::augment::Change = serde_json::from_value(value.clone()).ok()?;
    Some(format!("Change::{change:?}"))
}

#[cfg(test)]
mod tests {
    use gular_runtime::augment::{Augment, Change};
    use gular_runtime::order::{OrderKind, OrderSpec};
    use gular_runtime::{Env, LoaderSettings};
    use serde_json::json;

    use super::*;

    /// The text of Rust code and the code itself.
    macro_rules! code {
        ($code:expr) => {
            (stringify!($code), $code)
        };
    }

    fn given() -> Map<String, Value> {
        let given = json!({
            "split": "train", "batch_size": 16, "seed": 3,
            "transform": {"random": {"width": 96, "height": 64, "scale": [0.5, 1.0], "ratio": [0.75, 1.5], "flip": 0.5}},
            "augment": [{"vertical_flip": {"p": 0.5}}, {"color_jitter": {"brightness": 0.4, "contrast": 0.0, "saturation": 0.0, "hue": 0.1}}],
            "mixup": 0.2, "normalise": "scaled", "bands": [2, 1, 0], "fields": ["mask"], "unknown_labels": "ignore",
            "depth": "u16", "axes": "cyx", "apply_orientation": false, "scaling": "full", "draw": {"weights": [1.0, 0.5]},
        });
        given.as_object().unwrap().clone()
    }

    #[test]
    fn python_gets_the_same_settings() {
        let expected = "gular.DataLoader(\"b \\\"q\\\" \\u00e9\", \"train\", 16, \
            transform=gular.RandomCrop((64, 96), scale=[0.5, 1.0], ratio=[0.75, 1.5], flip=0.5), \
            augment=[gular.VerticalFlip(p=0.5), gular.ColorJitter(brightness=0.4, contrast=0.0, hue=0.1, saturation=0.0)], \
            normalise=\"scaled\", draw=[1.0, 0.5], orientation=False, seed=3, mixup=0.2, depth=\"u16\", axes=\"cyx\", bands=[2, 1, 0], fields=[\"mask\"], unknown_labels=\"ignore\", scaling=\"full\")";
        assert_eq!(python("b \"q\" é", Split::Train, &given()), expected);
        let plain = json!({"order": {"torch": {"shuffle": false}}, "apply_orientation": false});
        let found = python("b", Split::Val, plain.as_object().unwrap());
        assert_eq!(found, "gular.DataLoader(\"b\", \"val\", shuffle=False, orientation=False)");
    }

    /// The text compiles, and gives the options that the settings give.
    #[test]
    fn rust_gets_the_same_settings() -> Result<(), Box<dyn std::error::Error>> {
        use gular_runtime::order::Weights;
        use gular_runtime::{Depth, Normalise, OrientationPolicy, Scaling, UnknownLabels};
        let settings: LoaderSettings = serde_json::from_value(Value::Object(given())).unwrap();
        let options = settings.loader(&Env::default(), None).unwrap();
        let found = rust(&options, &given());
        let (text, same) = code!(LoaderOptions {
            batch_size: 16,
            order: OrderSpec { kind: OrderKind::Elastic, seed: 3, drop_last: false },
            transform: Transform::Train {
                width: 96,
                height: 64,
                scale: (0.5, 1.0),
                ratio: (0.75, 1.5),
                flip: 0.5
            },
            augment: Augment::of_changes(vec![
                Change::VerticalFlip { p: 0.5 },
                Change::ColorJitter { brightness: 0.4, contrast: 0.0, saturation: 0.0, hue: 0.1 }
            ])?,
            blend: Some(Blend::MixUp { alpha: 0.2 }),
            numbers: Numbers::F32,
            layout: AxisOrder::Contiguous,
            normalise: Normalise { scale: None, mean: vec![0.0], std: vec![1.0] }.into(),
            bands: Some(vec![2, 1, 0]),
            depth: Depth::U16,
            axes: Some("cyx".parse()?),
            draw: Draw::ByWeight(Weights::try_from(vec![1.0, 0.5])?),
            orientation: OrientationPolicy::Ignore,
            scaling: Scaling::Full,
            fields: vec!["mask".to_owned()],
            unknown_labels: UnknownLabels::Ignore,
            ..LoaderOptions::new(Split::Train)
        });
        let words = |text: &str| text.split_whitespace().collect::<String>().replace(",}", "}");
        assert_eq!(words(&found), words(text));
        let LoaderOptions { threads: _, augment: _, .. } = &options;
        let all = |options: &LoaderOptions| {
            format!("{:?}", LoaderOptions { threads: 0, ..options.clone() })
        };
        assert_eq!(all(&options), all(&same));
        Ok(())
    }
}
