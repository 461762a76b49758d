//! Benchmarks, `cargo xtask bench VERB`: each compares Gular with another tool in the same run, and
//! prints a dated record. They are a separate package, so that no other task waits until it is
//! compiled.

#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program, not a library")]

mod envelopes;
mod fetch;
mod gpu;
mod image;
mod loader;
mod pack;
mod python_image;
mod rates;
mod scale;
mod shuffle;
mod soak;
mod squashfs;
mod timed;

use std::path::PathBuf;
use std::process::{Command, exit};

use anyhow::{Result, bail, ensure};
use clap::Parser;
use gular_plot::Bar;
use serde_json::{Value, json};
use xtask::cargo::{self, Set};
use xtask::peers::venv;
use xtask::setup::{self, Line};
use xtask::workspace::Workspace;

/// Measure against the peers, in one run; a table on stderr, a record on stdout.
#[derive(Debug, Parser)]
#[command(
    name = "cargo xtask bench",
    bin_name = "cargo xtask bench",
    disable_help_subcommand = true
)]
struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// `gular pack` against `tar` and `sync` of the same warm files; pixels against decoding and
    /// resizing alone; zip and tar against files; tiles against rasterio; a view of 1 % and the join
    /// of digests of a million samples.
    Pack {
        /// A folder of images, `class/file` or `split/class/file`
        #[arg(long, value_name = "DIR")]
        images: PathBuf,
        /// Only these: `tar`, `raw`, `archives`, `tiles`, `index`
        #[arg(long, value_name = "NAMES", value_delimiter = ',')]
        only: Vec<String>,
        /// The Python with rasterio [default: that of the peer tests]
        #[arg(long, value_name = "FILE")]
        python: Option<PathBuf>,
        /// Each image is packed this many times, under other names
        #[arg(long, default_value_t = 8)]
        copies: usize,
        /// Measured rounds; four more come before them
        #[arg(long, default_value_t = 5)]
        rounds: usize,
    },
    /// Reading rates of all envelopes, and of a hand-written loop over the same bytes, by
    /// `gular bench`; writes docs/bench/envelopes-DATE.json.
    Envelopes {
        /// A folder of images, or a bundle
        #[arg(long, value_name = "DIR")]
        images: PathBuf,
        /// Measured rounds
        #[arg(long, default_value_t = 9)]
        rounds: usize,
        /// Seconds a row and round
        #[arg(long, default_value_t = 0.5)]
        seconds: f64,
    },
    /// `gular fetch` against `curl | b3sum`, one zip, and file by file with pelicanfs, from
    /// an XRootD origin on this machine limited to 500 MB/s; writes docs/bench/fetch.svg.
    Fetch {
        /// Bytes of the large bundle, in MB
        #[arg(long, default_value_t = 2000)]
        large: u64,
        /// Small images
        #[arg(long, default_value_t = 13_000)]
        images: usize,
        /// How many of them pelicanfs fetches one by one; the time is scaled to all
        #[arg(long, default_value_t = 500)]
        singles: usize,
        /// Measured rounds; one more comes before them
        #[arg(long, default_value_t = 5)]
        rounds: usize,
    },
    /// Our SquashFS writer against `mksquashfs`: time, memory and size by setting.
    Squashfs {
        /// A folder
        source: PathBuf,
        /// Threads each may use
        #[arg(long, default_value_t = 2)]
        jobs: usize,
        /// Measured rounds; one more comes before them
        #[arg(long, default_value_t = 3)]
        rounds: usize,
    },
    /// The GPU path: checks, copies, images and training steps a second beside PyTorch's
    /// DataLoader, as a folder, target/bench/gpu/kit, to carry to a machine with a GPU, where
    /// it needs PyTorch and no Rust: `sh kit/run.sh out`. Run at once where there is a GPU;
    /// writes docs/bench/gpu-DATE.json.
    Gpu(gpu::Settings),
    /// Container images of torch's CUDA libraries: ours, ours again with another program,
    /// and `mksquashfs`: time, memory and size; writes docs/bench/image.svg.
    Image(image::Settings),
    /// A Python program's image: rebuilds after a change of the program (OCI and SIF), and a cold
    /// `import torch` from the SIF beside the same virtual environment. As root; the caches of
    /// images are those of `gular image` ($GULAR_IMAGE_CACHE).
    PythonImage(python_image::Settings),
    /// The loader, as a training step sees it, against bounds and with `--peers` against other
    /// loaders on the same bytes; writes docs/bench/loader-DATE.json and its plot.
    Loader(loader::Settings),
    /// Is `loader` now.
    #[command(hide = true)]
    Load(Old),
    /// Is `loader --peers` now.
    #[command(hide = true)]
    Peers(Old),
    /// How well orders mix samples that are stored class by class, by the batches they make;
    /// writes docs/bench/shuffle.svg.
    Shuffle,
    /// Time and memory of a bundle of 10⁵ shards and 10⁹ samples, and a simulated fleet of 1,000
    /// nodes behind 10 caches: what reaches the origin and the director.
    Scale(scale::Settings),
    /// Four processes publish and fetch through servers that fail in every way we know, and are
    /// killed at random moments; at the end every byte is compared. A failure names its seed.
    Soak(soak::Settings),
    /// Draw docs/bench/rates.svg, README's picture, from the newest records of `loader` and `gpu`.
    Rates,
}

/// The arguments of what has another name now.
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
struct Old {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    _rest: Vec<String>,
}

fn main() {
    if let Err(error) = run(&Args::parse()) {
        eprintln!("error: {error:#}");
        exit(2);
    }
}

fn run(args: &Args) -> Result<()> {
    match &args.what {
        What::Load(_) => bail!("`bench load` is `bench loader` now"),
        What::Peers(_) => bail!("`bench peers` is `bench loader --peers` now"),
        _ => {}
    }
    let workspace = Workspace::locate()?;
    if let What::Rates = args.what {
        return rates::write(&workspace.root.join("docs/bench"));
    }
    if let What::Soak(settings) = &args.what {
        let work = workspace.target.join("bench/soak");
        if let Some(gular) = &settings.gular {
            return soak::run(&std::path::absolute(gular)?, settings, &work);
        }
        let ready = setup::without_libtorch(&workspace)?;
        // The program with its debug assertions, as tests have it.
        let [gular] = cargo::build(&workspace, &ready, Set::Plain, [&cargo::GULAR])?;
        return soak::run(&gular, settings, &work);
    }
    let ready = setup::prepare(&workspace, Line::Current)?;
    let work = workspace.target.join("bench");
    std::fs::create_dir_all(&work)?;
    let release = |artifact| cargo::build_release(&workspace, &ready, artifact);
    match &args.what {
        What::Pack { images, only, python, copies, rounds } => {
            ensure!(*rounds > 0 && *copies > 0, "`--rounds` and `--copies` are at least 1");
            let known = |name: &&String| *name == "tar" || pack::RATES.contains(&name.as_str());
            if let Some(name) = only.iter().find(|name| !known(name)) {
                bail!(
                    "`{name}` is not a measurement; expected `tar` or {}",
                    pack::RATES.join(", ")
                );
            }
            let is_wanted = |name: &str| only.is_empty() || only.iter().any(|only| only == name);
            if is_wanted("tar") {
                pack::run(&release(&cargo::GULAR)?, images, *copies, *rounds, &work)?;
            }
            let rest: Vec<&str> = pack::RATES.into_iter().filter(|name| is_wanted(name)).collect();
            if rest.is_empty() {
                return Ok(());
            }
            let python = match python {
                Some(python) => std::path::absolute(python)?,
                None => {
                    venv::prepare(&workspace, &workspace.target.join("peers"))?.join("bin/python")
                }
            };
            let programs = pack::Programs { rates: release(&cargo::PACK_RATES)?, python };
            pack::rates(&programs, images, *rounds, &rest, &work.join("pack"))
        }
        What::Envelopes { images, rounds, seconds } => {
            ensure!(*rounds > 0, "`--rounds` is at least 1");
            let gular = release(&cargo::GULAR)?;
            envelopes::run(&workspace, &gular, images, (*rounds, *seconds), &work)
        }
        What::Fetch { large, images, singles, rounds } => {
            ensure!(*rounds > 0 && *images > 0, "`--rounds` and `--images` are at least 1");
            let programs = fetch::Programs {
                gular: release(&cargo::GULAR)?,
                director: release(&cargo::DIRECTOR)?,
            };
            let sizes = fetch::Sizes {
                large: large * 1_000_000,
                images: *images,
                singles: *singles,
                rounds: *rounds,
            };
            fetch::run(&workspace, &programs, &sizes, &work.join("fetch"))
        }
        What::Squashfs { source, jobs, rounds } => {
            ensure!(*rounds > 0 && *jobs > 0, "`--rounds` and `--jobs` are at least 1");
            squashfs::run(&release(&cargo::SQUASH_DIR)?, source, *jobs, *rounds, &work)
        }
        What::Gpu(settings) => gpu::run(&workspace, &ready, settings, &work.join("gpu")),
        What::Image(settings) => {
            let example = release(&cargo::SIF_OF_DIR)?;
            image::run(&workspace, &example, settings, &work.join("image"))
        }
        What::PythonImage(settings) => {
            python_image::run(&workspace, &release(&cargo::GULAR)?, settings, &work.join("python"))
        }
        What::Loader(settings) => {
            let loader_rates = release(&cargo::LOADER_RATES)?;
            // The time of packing is not measured here.
            let [gular] = cargo::build(&workspace, &ready, Set::Plain, [&cargo::GULAR])?;
            // Without Python, our own rows are still measured.
            let python = match &settings.python {
                Some(python) => Ok(std::path::absolute(python)?),
                None if settings.needs_python() => {
                    venv::prepare(&workspace, &workspace.target.join("peers"))
                        .map(|venv| venv.join("bin/python"))
                        .map_err(|error| format!("{error:#}"))
                }
                None => Err("run without `--peers`".to_owned()),
            };
            let large = workspace.root.join("crates/codec/examples/large_photos.rs");
            let large_photos = match () {
                () if !settings.asks_for("large") => Err("it was not asked for".to_owned()),
                () if !large.exists() => Err(format!("there is no `{}`", large.display())),
                () => release(&cargo::LARGE_PHOTOS).map_err(|error| format!("{error:#}")),
            };
            let library_path = ready.library_path(std::env::var_os("LD_LIBRARY_PATH"));
            let programs =
                loader::Programs { gular, loader_rates, python, large_photos, library_path };
            loader::run(&workspace, &programs, settings, &work.join("loader"))
        }
        What::Load(_) | What::Peers(_) | What::Rates | What::Soak(_) => unreachable!("done before"),
        What::Scale(settings) => {
            scale::run(&release(&cargo::SCALE)?, settings, &work.join("scale"))
        }
        What::Shuffle => shuffle::run(&workspace, &release(&cargo::PRINT_ORDER)?),
    }
}

/// A bar of a plot, ours in colour; its value is shown with so many digits behind the point.
pub(crate) fn bar(name: &str, value: f64, digits: usize) -> Bar {
    Bar {
        name: name.to_owned(),
        value,
        range: (value, value),
        baseline: !name.starts_with("gular"),
        picked: false,
        text: format!("{value:.digits$}"),
    }
}

/// Describes the machine, for a record.
pub(crate) fn machine() -> Value {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let cpu = read("/proc/cpuinfo");
    let model = cpu.lines().find_map(|l| l.strip_prefix("model name")).unwrap_or("unknown");
    let memory = read("/proc/meminfo");
    json!({
        "cpu": model.trim_start_matches(['\t', ' ', ':']),
        "cores": std::thread::available_parallelism().map_or(1, usize::from),
        "memory": memory.lines().next().unwrap_or_default().trim_start_matches("MemTotal:").trim(),
        "kernel": read("/proc/sys/kernel/osrelease").trim(),
        "load": read("/proc/loadavg").trim(),
        "date": date(),
    })
}

fn date() -> String {
    let output = Command::new("date").args(["-u", "+%Y-%m-%d"]).output();
    output.map(|o| String::from_utf8_lossy(&o.stdout).trim().to_owned()).unwrap_or_default()
}

/// Returns the median of `values`, which must not be empty.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let half = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[half] } else { f64::midpoint(sorted[half - 1], sorted[half]) }
}
