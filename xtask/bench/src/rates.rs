//! Draws README's picture: images per second beside other loaders, from the newest records.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use gular_plot::{Bar, Panel, chart};
use serde_json::Value;

/// The loaders of the record's row `jpeg`, and their names in the picture. Of several decoders of
/// one loader the fastest is drawn, and Pillow, which most programs use. Two are left out, since
/// they are ours: the bound, which only decodes, and our reader in PyTorch's loader.
const LOADERS: [(&str, &str); 9] = [
    ("gular", "Gular"),
    ("files, torchvision", "PyTorch, torchvision"),
    ("files, pillow", "PyTorch, Pillow"),
    ("webdataset, turbo", "WebDataset"),
    ("datasets, turbo", "Hugging Face Datasets"),
    ("streaming, turbo", "MosaicML Streaming"),
    ("litdata-raw, turbo", "LitData"),
    ("lancedb, turbo", "LanceDB"),
    ("grain, turbo", "Grain"),
];

/// What fed the network of the GPU's record.
const ON_A_GPU: [(&str, &str); 3] = [
    ("synthetic", "the same batch each step"),
    ("gular", "Gular"),
    ("DataLoader", "PyTorch, torchvision"),
];

/// Writes `rates.svg` in `dir`, from the records in it.
pub(crate) fn write(dir: &Path) -> Result<()> {
    let path = dir.join("rates.svg");
    fs::write(&path, drawn(dir)?).with_context(|| format!("cannot write `{}`", path.display()))
}

fn drawn(dir: &Path) -> Result<String> {
    let (loader, gpu) = (newest(dir, "loader-")?, newest(dir, "gpu-")?);
    let row = &loader["rows"]["jpeg"];
    let on_cores = on_cores(row).context("the newest record of `bench loader` has no rates")?;
    let on_a_gpu = on_a_gpu(&gpu).context("the newest record of `bench gpu` has no rates")?;
    let text = |value: &Value| value.as_str().unwrap_or("?").to_owned();
    let model = text(&gpu["nvidia_smi"]);
    let model = model.split(',').next().unwrap_or_default();
    let cores = &row["machine"]["cores"];
    let panels = [
        Panel {
            title: format!("Photographs decoded, cropped and batched on {cores} cores: images/s"),
            bars: on_cores,
            limit: None,
        },
        Panel {
            title: format!(
                "Training a ResNet-50 on one {model} and {} cores: images/s",
                gpu["cores"]
            ),
            bars: on_a_gpu,
            limit: None,
        },
    ];
    let caption = format!(
        "More is better. Medians, and lines from the slowest to the fastest round; {} and {}",
        text(&row["machine"]["date"]),
        text(&gpu["date"]),
    );
    Ok(chart(&panels, &caption))
}

/// Returns the last of the records whose names begin with `kind`, which end with their dates.
fn newest(dir: &Path, kind: &str) -> Result<Value> {
    let entries = fs::read_dir(dir).with_context(|| format!("cannot list `{}`", dir.display()))?;
    let paths: Vec<PathBuf> = entries.map(|e| Ok(e?.path())).collect::<Result<_>>()?;
    let is_kind = |path: &&PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with(kind) && name.ends_with(".json")
    };
    let path = paths
        .iter()
        .filter(is_kind)
        .max()
        .with_context(|| format!("`{}` has no `{kind}DATE.json`", dir.display()))?;
    let read = || format!("cannot read `{}`", path.display());
    let text = fs::read_to_string(path).with_context(read)?;
    serde_json::from_str(&text).with_context(read)
}

/// Returns ours first, and then the others, the fastest first.
fn on_cores(row: &Value) -> Option<Vec<Bar>> {
    let contestants = row["contestants"].as_array()?;
    let mut bars = Vec::new();
    for (name, shown) in LOADERS {
        let found = contestants.iter().find(|contestant| contestant["name"] == name)?;
        let value = |member: &str| found[member].as_f64();
        bars.push(bar(shown, value("median")?, (value("min")?, value("max")?)));
    }
    bars.sort_by(|a, b| a.baseline.cmp(&b.baseline).then(b.value.total_cmp(&a.value)));
    Some(bars)
}

fn on_a_gpu(record: &Value) -> Option<Vec<Bar>> {
    let found = &record["peers"]["found"];
    let bar = |(name, shown): (&str, &str)| {
        let value = found[name]["images_per_second"].as_f64()?;
        let rounds = found[name]["steps_per_second"].as_array()?;
        let rounds: Vec<f64> = rounds.iter().filter_map(Value::as_f64).collect();
        // The rounds are in steps, and the rate is their median in images.
        let per_step = value / crate::median(&rounds);
        let least = rounds.iter().copied().fold(f64::INFINITY, f64::min);
        let most = rounds.iter().copied().fold(0.0, f64::max);
        Some(bar(shown, value, (least * per_step, most * per_step)))
    };
    ON_A_GPU.into_iter().map(bar).collect()
}

fn bar(name: &str, value: f64, range: (f64, f64)) -> Bar {
    let is_ours = name == "Gular";
    let text = format!("{value:.0}");
    Bar { name: name.to_owned(), value, range, baseline: !is_ours, picked: is_ours, text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_picture_is_that_of_the_newest_records() {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/bench");
        let kept = fs::read_to_string(dir.join("rates.svg")).unwrap();
        let again = "`cargo xtask bench rates` draws it again";
        assert!(kept == drawn(&dir).unwrap(), "docs/bench/rates.svg is of older records: {again}");
    }
}
