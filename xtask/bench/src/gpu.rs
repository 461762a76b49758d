//! Makes a folder with the measurements that need a GPU, which runs on a machine with a GPU and
//! without Rust.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use gular_plot::{Bar, Panel, chart};
use serde_json::Value;

use xtask::cargo;
use xtask::process::{self, command, find};
use xtask::python_package;
use xtask::setup::Ready;
use xtask::workspace::Workspace;

use super::pack::walk;
use super::{bar, median};

/// What is measured and how.
#[derive(Debug, clap::Args)]
pub(crate) struct Settings {
    /// A folder of images, `class/file`
    #[arg(long, value_name = "DIR", required_unless_present = "record")]
    images: Option<PathBuf>,
    /// Images are packed again and again under other names, until there are about so many
    #[arg(long, default_value_t = 12_000)]
    samples: usize,
    /// How many bytes of images travel, in MB; the first of each class
    #[arg(long, default_value_t = 16)]
    limit: u64,
    /// Make the folder, and run nothing
    #[arg(long)]
    no_run: bool,
    /// Keep the `record.json` of a run on another machine, with its plot; makes and runs nothing
    #[arg(long, value_name = "FILE", conflicts_with = "images")]
    record: Option<PathBuf>,
}

/// Makes the kit; runs it on a machine with a GPU, else says how.
pub(crate) fn run(
    workspace: &Workspace,
    ready: &Ready,
    settings: &Settings,
    work: &Path,
) -> Result<()> {
    if let Some(record) = &settings.record {
        return keep(workspace, record);
    }
    let images = settings.images.as_deref().context("`--images` is missing")?;
    let kit = work.join("kit");
    let _ = fs::remove_dir_all(&kit);
    fs::create_dir_all(&kit)?;
    // This is done before building, which takes minutes.
    let (n, bytes) = copy_images(images, &kit.join("images"), settings.limit * 1_000_000)?;
    let release = |artifact| cargo::build_release(workspace, ready, artifact);
    let (gular, train) = (release(&cargo::GULAR)?, release(&cargo::TRAIN)?);
    let gpu = release(&cargo::GPU)?;
    for (name, program) in [("gular", gular), ("gular-train", train), ("gpu", gpu)] {
        copy(&program, &kit.join(name))?;
    }
    let library = cargo::build_python_release(workspace, ready)?;
    python_package::make(workspace, &library, &kit.join("python"))?;
    for name in ["run.sh", "peers.py", "python_check.py"] {
        copy(&workspace.root.join("xtask/bench/gpu").join(name), &kit.join(name))?;
    }
    eprintln!("{n} images, {:.1} MB, in `{}`", bytes as f64 / 1e6, kit.display());

    let out = work.join("out");
    let driver = find("nvidia-smi").is_some();
    if settings.no_run || !driver {
        let why = if driver { "" } else { "This machine has no `nvidia-smi`, so no GPU. " };
        eprintln!(
            "{why}Carry the folder to a machine with a GPU and PyTorch 2.11, and run there\n  \
             sh kit/run.sh --dry-run\n  SAMPLES={} sh kit/run.sh out\n\
             Then, here: cargo xtask bench gpu --record out/record.json",
            settings.samples
        );
        return Ok(());
    }
    let mut run = command("sh");
    run.arg(kit.join("run.sh")).arg(&out).env("SAMPLES", settings.samples.to_string());
    process::run(&mut run)?;
    keep(workspace, &out.join("record.json"))
}

/// Copies a run's record to `docs/bench`, and draws its plot.
fn keep(workspace: &Workspace, record: &Path) -> Result<()> {
    let shown = record.display();
    let text = fs::read_to_string(record).with_context(|| format!("cannot read `{shown}`"))?;
    let found: Value =
        serde_json::from_str(&text).with_context(|| format!("`{shown}` is not JSON"))?;
    ensure!(found["bench"] == "gpu", "`{shown}` is not a record of `bench gpu`");
    let date = found["date"].as_str().with_context(|| format!("`{shown}` has no date"))?;
    let folder = workspace.root.join("docs/bench");
    let kept = folder.join(format!("gpu-{date}.json"));
    // Written from memory: `record` may be this file, whose plot is to be drawn again.
    fs::write(&kept, &text).with_context(|| format!("cannot write `{}`", kept.display()))?;
    eprintln!("record `{}`", kept.display());
    let panels = panels(&found);
    if panels.is_empty() {
        eprintln!("no plot: the record has no rates");
    } else {
        let gpu = found["nvidia_smi"].as_str().unwrap_or_default();
        let caption = format!("{gpu}; {} cores; medians; {date}", found["cores"]);
        let plot = folder.join("gpu.svg");
        fs::write(&plot, chart(&panels, &caption))?;
        eprintln!("plot `{}`", plot.display());
    }
    Ok(())
}

/// Rates of the stages that ran, ours beside what each is measured against.
fn panels(record: &Value) -> Vec<Panel> {
    let rates = |values: &Value| -> Option<f64> {
        let values: Vec<f64> = values.as_array()?.iter().filter_map(Value::as_f64).collect();
        (!values.is_empty()).then(|| median(&values))
    };
    let mut panels = Vec::new();
    let mut panel = |title: &str, bars: Vec<Bar>| {
        if !bars.is_empty() {
            panels.push(Panel { title: title.to_owned(), bars, limit: None });
        }
    };
    let copies = &record["copies"]["found"]["copies"];
    let both = [("gular, the ring", &copies["ring"]), ("a plain pinned copy", &copies["plain"])];
    let of = |(name, values)| Some(bar(name, rates(values)? / 1e9, 1));
    panel("Copies to the GPU: GB/s, more is better", both.into_iter().filter_map(of).collect());
    let of_stage = |stage: &str| record[stage]["found"]["bundles"].as_array().cloned();
    let images = of_stage("images").unwrap_or_default();
    let of = |row: &Value| {
        let payload = row["payload"].as_str()?;
        let rate = row["images_per_second"]["to_gpu"].as_f64()?;
        Some(bar(&format!("gular, {payload}"), rate, 0))
    };
    panel("Numbers on the GPU: images/s, more is better", images.iter().filter_map(of).collect());
    let mut steps = Vec::new();
    for row in of_stage("steps").unwrap_or_default() {
        let payload = row["payload"].as_str().unwrap_or_default().to_owned();
        steps.extend(rates(&row["steps"]["ours"]).map(|n| bar(&format!("gular, {payload}"), n, 2)));
        let resident = rates(&row["steps"]["synthetic"]);
        steps.extend(resident.map(|n| bar(&format!("data on the GPU ({payload})"), n, 2)));
    }
    let in_python = [
        ("gular", "gular, in Python"),
        ("DataLoader", "PyTorch's DataLoader"),
        ("DALI", "DALI, in Python"),
        ("synthetic", "data on the GPU, in Python"),
    ];
    let peers = &record["peers"]["found"];
    steps.extend(
        in_python.iter().filter_map(|(name, shown)| {
            Some(bar(shown, rates(&peers[name]["steps_per_second"])?, 2))
        }),
    );
    panel("ResNet-50 in bf16, batches of 128: steps/s, more is better", steps);
    panels
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::copy(from, to)
        .with_context(|| format!("cannot copy `{}` to `{}`", from.display(), to.display()))?;
    Ok(())
}

/// Takes files of all classes in turn, up to `limit` bytes.
fn copy_images(from: &Path, to: &Path, limit: u64) -> Result<(usize, u64)> {
    let mut classes = Vec::new();
    for entry in fs::read_dir(from).with_context(|| format!("cannot read `{}`", from.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            let mut files = Vec::new();
            walk(&path, &mut files)?;
            files.sort();
            files.reverse();
            classes.push((path, files));
        }
    }
    classes.sort();
    ensure!(
        !classes.is_empty(),
        "`{}` contains no folders; expected images in class/file",
        from.display()
    );
    let (mut n, mut bytes, mut took) = (0, 0, true);
    while std::mem::take(&mut took) {
        for (class, files) in &mut classes {
            let Some(file) = files.pop() else { continue };
            let len = fs::metadata(&file)?.len();
            if bytes + len > limit {
                continue;
            }
            let folder = to.join(class.file_name().unwrap_or_default());
            fs::create_dir_all(&folder)?;
            copy(&file, &folder.join(file.file_name().unwrap_or_default()))?;
            (n, bytes, took) = (n + 1, bytes + len, true);
        }
    }
    ensure!(n > 0, "no image in `{}` is smaller than {limit} bytes", from.display());
    Ok((n, bytes))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_record_of_any_stages_is_drawn() {
        assert!(panels(&json!({ "check": { "found": ["ok"] } })).is_empty());
        let record = json!({
            "copies": { "found": { "copies": { "plain": [2e9, 4e9, 3e9], "ring": [2.5e9] } } },
            "images": { "found": { "bundles": [
                { "payload": "raw", "images_per_second": { "to_gpu": 9000.0 } },
                { "payload": "encoded", "images_per_second": { "error": "none" } },
            ] } },
            "steps": { "found": { "bundles": [
                { "payload": "raw", "steps": { "ours": [20.0], "synthetic": [21.0] } },
            ] } },
            "peers": { "found": { "torch": "2.11", "DALI": { "steps_per_second": [19.0] } } },
        });
        let panels = panels(&record);
        let bars = |i: usize| -> Vec<(String, f64)> {
            panels[i].bars.iter().map(|bar| (bar.name.clone(), bar.value)).collect()
        };
        let named = |name: &str, value| (name.to_owned(), value);
        assert_eq!(bars(0), [named("gular, the ring", 2.5), named("a plain pinned copy", 3.0)]);
        assert_eq!(bars(1), [named("gular, raw", 9000.0)]);
        let (ours, resident) = (named("gular, raw", 20.0), named("data on the GPU (raw)", 21.0));
        assert_eq!(bars(2), [ours, resident, named("DALI, in Python", 19.0)]);
    }

    #[test]
    fn the_script_is_one() {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("gpu/run.sh");
        let output = command("sh").arg("-n").arg(&script).output().expect("there is a shell");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}
