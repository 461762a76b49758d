//! The main job on one machine: packs, publishes, fetches, verifies, and trains, with a stop and a
//! resume in between.
//!
//! ```text
//! images ─ gular pack ─▶ bundle ─ gular publish ─▶ federation (gular federation serve)
//!                                                      │ URL#blake3=…
//!      job/ ◀─ gular fetch ────────────────────────────┤
//!       ├─ gular verify ─▶ sound                       │
//!       └─ gular-train, undisturbed ─▶ weights A       │
//!             gular-train train URL, SIGTERM, 85, again ◀────┘ ─▶ weights B = A ?
//! ```
//!
//! The second training reads the bundle by its URL, through the node's cache.
//!
//! Everything it writes is in the target folder's `demo`, which is made again each time.

mod federation;
mod stages;
mod summary;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};

use self::federation::Federation;
use self::stages::{Training, run as run_stage};
use self::summary::Summary;
use crate::cargo::{self, Set};
use crate::process::{self, command};
use crate::setup::{self, Line, Ready};
use crate::workspace::Workspace;

/// Set up, then do the main job: pack, publish, fetch, verify, train, be stopped,
/// resume.
///
/// Example: `cargo xtask demo --images ~/photos`, a folder `split/class/file`
/// or `class/file`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A folder of JPEG and PNG images; without it the demo makes 400 of its own
    #[arg(long, value_name = "DIR")]
    images: Option<PathBuf>,
    /// Epochs to train, at least 2
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(u32).range(2..))]
    epochs: u32,
    /// Print the summary as JSON on stdout
    #[arg(long)]
    json: bool,
}

/// `cargo xtask demo`.
pub(crate) fn run(args: &Args) -> Result<()> {
    let workspace = Workspace::locate()?;
    if let Some(images) = &args.images {
        ensure!(images.is_dir(), "`{}` is not a folder of images", images.display());
    }
    let ready = setup::prepare(&workspace, Line::Current)?;
    demo(&workspace, &ready, args)
}

/// The whole of it, on a machine that is set up.
fn demo(workspace: &Workspace, ready: &Ready, args: &Args) -> Result<()> {
    let programs = [&cargo::GULAR, &cargo::DEMO_IMAGES];
    let [gular, demo_images] = cargo::build(workspace, ready, Set::Plain, programs)?;
    let [train] = cargo::build(workspace, ready, Set::Torch, [&cargo::TRAIN])?;

    let start = Instant::now();
    let out = workspace.target.join("demo");
    if out.exists() {
        fs::remove_dir_all(&out).with_context(|| format!("cannot clear `{}`", out.display()))?;
    }
    fs::create_dir_all(&out)?;
    let source = match &args.images {
        Some(images) => images.clone(),
        None => make_images(&demo_images, &out)?,
    };

    heading("pack", &source, workspace);
    let bundle = out.join("bundle");
    let mut pack = Command::new(&gular);
    pack.arg("pack").arg(&source).arg(&bundle).arg("--json");
    if !has_split(&source, "val") {
        pack.args(["--fractions", "train=0.8,val=0.2"]);
    }
    let packed = run_stage(pack, "gular pack")?;
    let digest = text(&packed.report, "digest")?;
    eprintln!("{digest}");

    let federation = Federation::start(&gular, &out.join("federation"))?;
    heading("publish", &out.join("federation"), workspace);
    let mut publish = federation.with_token(&gular, "publish")?;
    publish.arg(&bundle).arg(format!("{}/demo/v1", federation.url)).arg("--json");
    let published = run_stage(publish, "gular publish")?;
    let url = text(&published.report, "url")?;
    eprintln!("{url}");

    // The rest is what a job does: it has its own folder, the URL, and a token for reading.
    let job = out.join("job");
    fs::create_dir_all(&job)?;
    let fetched_to = job.join("bundle");
    heading("fetch", &fetched_to, workspace);
    let mut fetch = federation.with_token(&gular, "fetch")?;
    fetch.current_dir(&job).arg(&url).arg("bundle").arg("--json");
    let fetched = run_stage(fetch, "gular fetch")?;

    heading("verify", &fetched_to, workspace);
    let mut verify = Command::new(&gular);
    verify.arg("verify").arg(&fetched_to).args(["--full", "--digest", &digest, "--json"]);
    let verified = run_stage(verify, "gular verify")?;

    let training = |name: &str, bundle: &str| -> Result<Training> {
        let mut command = Command::new(&train);
        ready.apply(&mut command);
        federation.apply(&mut command)?;
        let (bundle, digest, epochs) = (bundle.to_owned(), digest.clone(), args.epochs);
        Ok(Training {
            command,
            bundle,
            digest,
            epochs,
            out: out.join(name),
            cache: job.join("cache"),
        })
    };
    heading("train, undisturbed", &out.join("undisturbed"), workspace);
    let local = fetched_to.to_str().context("the path of the folder `target` is not UTF-8")?;
    let undisturbed = training("undisturbed", local)?.undisturbed()?;
    let what = "train by URL, stopped by SIGTERM in mid-epoch, resumed";
    heading(what, &out.join("resumed"), workspace);
    let steps = undisturbed.report["steps_per_epoch"]
        .as_u64()
        .context("the trainer's report has no `steps_per_epoch`")?;
    let after = steps + steps.div_ceil(2);
    let resumed = training("resumed", &url)?.stopped_and_resumed(after)?;

    let stages = [
        ("pack", &packed),
        ("publish", &published),
        ("fetch", &fetched),
        ("verify", &verified),
        ("train, undisturbed", &undisturbed),
        ("train by URL, resumed", &resumed),
    ];
    let summary = Summary::new(&stages, &undisturbed, &resumed, &packed, start.elapsed())?;
    eprintln!("\n{summary}");
    eprintln!("everything is in `{}`", workspace.relative(&out).display());
    if args.json {
        println!("{}", summary.to_json());
    }
    ensure!(summary.bit_equal, "the resumed run's weights differ from the undisturbed run's");
    Ok(())
}

fn make_images(program: &Path, out: &Path) -> Result<PathBuf> {
    let dir = out.join("images");
    eprintln!("making 400 images of discs, rings, squares and stripes");
    process::run(command(program).arg(&dir))?;
    Ok(dir)
}

fn heading(stage: &str, path: &Path, workspace: &Workspace) {
    eprintln!("\n== {stage}: {}", workspace.relative(path).display());
}

fn has_split(source: &Path, split: &str) -> bool {
    source.join(split).is_dir()
}

fn text(report: &serde_json::Value, key: &str) -> Result<String> {
    let value = report[key].as_str().with_context(|| format!("a report has no `{key}`"))?;
    Ok(value.to_owned())
}
