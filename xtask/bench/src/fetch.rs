//! Measures fetching: one large bundle as fast as the server sends it, and many small images.
//!
//! ```text
//! XRootD, throttled to 500 MB/s ─┬─ gular fetch             checked, fsynced
//!   (its own plug-in)            ├─ curl | tee FILE | b3sum, then sync FILE
//!                                ├─ curl one zip of the images, then sync
//!                                └─ pelicanfs, image by image
//! ```
//!
//! Server and client share the machine; a round runs one after the other, so that
//! a noisy minute hits all.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use gular_plot::{Panel, chart};
use serde_json::{Value, json};

use xtask::peers::servers::director::Director;
use xtask::peers::servers::xrootd::{Mode, NAMESPACE, Started, XRootD};
use xtask::workspace::Workspace;

use super::{bar, machine, median};

/// The rate of the server, in bytes per second.
const LIMIT: f64 = 500e6;

/// The programs that are run.
pub(crate) struct Programs {
    pub(crate) gular: PathBuf,
    pub(crate) director: PathBuf,
}

/// How much is fetched, and how often.
pub(crate) struct Sizes {
    /// Bytes of the large bundle.
    pub(crate) large: u64,
    pub(crate) images: usize,
    pub(crate) singles: usize,
    pub(crate) rounds: usize,
}

pub(crate) fn run(
    workspace: &Workspace,
    programs: &Programs,
    sizes: &Sizes,
    work: &Path,
) -> Result<()> {
    let gular = programs.gular.as_path();
    let _ = fs::remove_dir_all(work);
    fs::create_dir_all(work)?;
    let b3sum = b3sum(&workspace.target.join("bench/tools"))?;
    let python = pelicanfs(&workspace.target.join("bench/venv"))?;
    let scripts = workspace.root.join("tests/peers/xrootd");
    let lines = [
        "xrootd.fslib libXrdThrottle-5.so default",
        &format!("throttle.throttle data {}m", LIMIT / 1e6),
    ];
    let server = work.join("server");
    let origin = match XRootD::start_with(&scripts, &server, Mode::Open, &lines)? {
        Started::Ready(origin) => origin,
        Started::Missing(what) => bail!("{what}"),
    };
    let base = format!("{}{NAMESPACE}", origin.url);
    let director =
        Director::start(&programs.director, &work.join("director"), &origin.url, &[], false)?;

    let large = publish(gular, &work.join("large"), &base, "large", |dir| {
        files(dir, (0..sizes.large / 50_000_000).map(|_| 50_000_000))
    })?;
    let small = publish(gular, &work.join("small"), &base, "small", |dir| {
        files(dir, image_sizes(sizes.images))
    })?;
    let data = server.join("data").join(NAMESPACE.trim_start_matches('/'));
    zip(&work.join("small/images"), &data.join("small.zip"))?;
    copy_some(&work.join("small/images"), &data.join("singles"), sizes.singles)?;
    drop_sources(work)?;

    let mut record = Record::default();
    for round in 0..=sizes.rounds {
        eprintln!("round {round} of {}", sizes.rounds);
        let to = work.join("to");
        let fetched = gular_fetch(gular, &large, &to)?;
        let piped = curl_b3sum(&b3sum, &base, &large, &to)?;
        let bundle = gular_fetch(gular, &small, &to)?;
        let one = curl_zip(&format!("{base}/small.zip"), &to)?;
        // Round 0 gives the page cache its memory and the throttle its rhythm.
        if round > 0 {
            record.fetch.push(fetched.0);
            record.curl.push(piped);
            record.bundle.push(bundle.0);
            record.zip.push(one);
            record.peak_kib = record.peak_kib.max(fetched.1).max(bundle.1);
        }
    }
    let singles = one_by_one(&python, &director, &to_list(sizes.singles), work)?;
    let singles = singles / sizes.singles.max(1) as f64 * sizes.images as f64;
    drop(origin);
    fs::remove_dir_all(work)?;
    report(workspace, sizes, &large, &small, &record, singles)
}

#[derive(Default)]
struct Record {
    fetch: Vec<f64>,
    curl: Vec<f64>,
    bundle: Vec<f64>,
    zip: Vec<f64>,
    /// Largest resident memory of `gular fetch`, in KiB.
    peak_kib: u64,
}

/// A published bundle.
struct Published {
    url: String,
    /// Names of its data files, and their bytes in all.
    files: Vec<String>,
    bytes: u64,
    name: &'static str,
}

/// Makes files, packs them as they are, and publishes the bundle.
fn publish(
    gular: &Path,
    dir: &Path,
    base: &str,
    name: &'static str,
    make: impl FnOnce(&Path) -> Result<()>,
) -> Result<Published> {
    let (images, bundle) = (dir.join("images"), dir.join("bundle"));
    make(&images)?;
    eprintln!("packing and publishing the {name} bundle");
    let mut pack = Command::new(gular);
    // The bytes are noise: what is in an image does not matter to a network.
    pack.arg("pack").arg(&images).arg(&bundle).args(["--check-images", "none", "--quiet"]);
    quiet(&mut pack)?;
    let mut publish = Command::new(gular);
    publish.arg("publish").arg(&bundle).arg(format!("{base}/{name}/v1")).arg("--json");
    let report: Value = serde_json::from_slice(&publish.output()?.stdout)
        .context("`gular publish` printed no report")?;
    let mut files: Vec<String> = fs::read_dir(bundle.join("data"))?
        .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
        .collect::<Result<_>>()?;
    files.sort();
    let bytes = report["bytes"].as_u64().context("a report without `bytes`")?;
    let url = report["url"].as_str().context("a report without `url`")?.to_owned();
    Ok(Published { url, files, bytes, name })
}

/// Writes files of noise of these lengths below `dir/class`.
fn files(dir: &Path, lens: impl Iterator<Item = u64>) -> Result<()> {
    fs::create_dir_all(dir.join("class"))?;
    let noise = noise();
    for (number, len) in lens.enumerate() {
        let path = dir.join("class").join(format!("{number:06}.jpg"));
        let mut file = fs::File::create(path)?;
        let (mut left, mut at) = (usize::try_from(len)?, number * 7919 % 1_000_003);
        while left > 0 {
            let n = left.min(noise.len() - at);
            file.write_all(&noise[at..at + n])?;
            (left, at) = (left - n, 0);
        }
    }
    Ok(())
}

/// Returns 8 MiB that do not compress.
fn noise() -> Vec<u8> {
    let mut state = 88_172_645_463_325_252_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    (0..1 << 20).flat_map(|_| next()).collect()
}

/// Lengths from 20 to 200 kB, 110 kB on average, as photographs of a few hundred pixels have.
fn image_sizes(n: usize) -> impl Iterator<Item = u64> {
    (0..n as u64).map(|i| 20_000 + i.wrapping_mul(2_654_435_761) % 180_001)
}

fn zip(images: &Path, to: &Path) -> Result<()> {
    let script = "import sys, zipfile, pathlib\n\
                  root = pathlib.Path(sys.argv[1])\n\
                  with zipfile.ZipFile(sys.argv[2], 'w', zipfile.ZIP_STORED) as z:\n    \
                  [z.write(p, p.relative_to(root)) for p in sorted(root.rglob('*.jpg'))]\n";
    quiet(Command::new("python3").args(["-c", script]).arg(images).arg(to))
}

fn copy_some(images: &Path, to: &Path, n: usize) -> Result<()> {
    fs::create_dir_all(to)?;
    for name in to_list(n) {
        fs::copy(images.join("class").join(&name), to.join(&name))?;
    }
    Ok(())
}

fn to_list(n: usize) -> Vec<String> {
    (0..n).map(|number| format!("{number:06}.jpg")).collect()
}

/// Removes the sources of the bundles, since the server has copies of its own.
fn drop_sources(work: &Path) -> Result<()> {
    for name in ["large", "small"] {
        fs::remove_dir_all(work.join(name))?;
    }
    Ok(())
}

/// Seconds, and the peak of resident memory in KiB.
fn gular_fetch(gular: &Path, from: &Published, to: &Path) -> Result<(f64, u64)> {
    let start = Instant::now();
    let mut fetch = Command::new(gular);
    fetch.arg("fetch").arg(&from.url).arg(to).arg("--quiet").stdin(Stdio::null());
    let mut child = fetch.spawn()?;
    let (status_file, mut peak) = (format!("/proc/{}/status", child.id()), 0);
    let status = loop {
        let text = fs::read_to_string(&status_file).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|l| l.split_whitespace().next()?.parse().ok()).unwrap_or(0);
        peak = peak.max(kib);
        if let Some(status) = child.try_wait()? {
            break status;
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let seconds = start.elapsed().as_secs_f64();
    ensure!(status.success(), "`gular fetch` ended with {status}");
    fs::remove_dir_all(to)?;
    Ok((seconds, peak))
}

/// Fetches the same files with curl; they are hashed on the way, and synced.
fn curl_b3sum(b3sum: &Path, base: &str, from: &Published, to: &Path) -> Result<f64> {
    fs::create_dir_all(to)?;
    let start = Instant::now();
    for file in &from.files {
        let pipe = format!(
            "set -o pipefail; curl -sf '{base}/{}/data/{file}' | tee '{file}' | '{}' --no-names; sync '{file}'",
            from.name,
            b3sum.display()
        );
        quiet(Command::new("bash").args(["-c", &pipe]).current_dir(to))?;
    }
    let seconds = start.elapsed().as_secs_f64();
    fs::remove_dir_all(to)?;
    Ok(seconds)
}

fn curl_zip(url: &str, to: &Path) -> Result<f64> {
    fs::create_dir_all(to)?;
    let start = Instant::now();
    quiet(Command::new("curl").args(["-sf", "-o", "x.zip", url]).current_dir(to))?;
    quiet(Command::new("sync").arg("x.zip").current_dir(to))?;
    let seconds = start.elapsed().as_secs_f64();
    fs::remove_dir_all(to)?;
    Ok(seconds)
}

/// Fetches the images as a `Dataset` does that opens each by its URL, without decoding.
fn one_by_one(python: &Path, director: &Director, names: &[String], work: &Path) -> Result<f64> {
    let list = work.join("names");
    fs::write(&list, names.join("\n"))?;
    let script = "import sys, time\n\
                  from pelicanfs.core import PelicanFileSystem\n\
                  host, base = sys.argv[1], sys.argv[2]\n\
                  fs = PelicanFileSystem('pelican://' + host)\n\
                  names = open(sys.argv[3]).read().split()\n\
                  fs.cat(base + '/' + names[0])\n\
                  start = time.perf_counter()\n\
                  n_bytes = 0\n\
                  for n in names:\n    n_bytes += len(fs.cat(base + '/' + n))\n\
                  print(time.perf_counter() - start, n_bytes)\n";
    let rest = director.url.trim_start_matches("pelican://");
    let (host, _) = rest.split_once('/').context("a director has a namespace")?;
    let output = Command::new(python)
        .args(["-c", script, host, &format!("{NAMESPACE}/singles")])
        .arg(&list)
        .env("SSL_CERT_FILE", &director.ca)
        .stderr(Stdio::inherit())
        .output()?;
    ensure!(output.status.success(), "pelicanfs ended with {}", output.status);
    let said = String::from_utf8_lossy(&output.stdout);
    let (seconds, bytes) = said.trim().split_once(' ').context("the script printed no figures")?;
    let expected: u64 = image_sizes(names.len()).sum();
    ensure!(bytes.parse() == Ok(expected), "pelicanfs read {bytes} bytes, expected {expected}");
    Ok(seconds.parse()?)
}

/// Builds the reference program of BLAKE3, once.
fn b3sum(dir: &Path) -> Result<PathBuf> {
    let program = dir.join("bin/b3sum");
    if !program.exists() {
        let mut install = Command::new("cargo");
        install.args(["install", "--locked", "--quiet", "b3sum", "--root"]).arg(dir);
        quiet(&mut install)?;
    }
    Ok(program)
}

fn pelicanfs(dir: &Path) -> Result<PathBuf> {
    let python = dir.join("bin/python");
    if !dir.join("whole").exists() {
        quiet(Command::new("python3").args(["-m", "venv"]).arg(dir))?;
        quiet(Command::new(&python).args(["-m", "pip", "install", "-q", "pelicanfs==1.5.0"]))?;
        fs::write(dir.join("whole"), "")?;
    }
    Ok(python)
}

fn quiet(command: &mut Command) -> Result<()> {
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).status();
    let status =
        status.with_context(|| format!("cannot start `{}`", command.get_program().display()))?;
    ensure!(status.success(), "`{}` ended with {status}", command.get_program().display());
    Ok(())
}

fn report(
    workspace: &Workspace,
    sizes: &Sizes,
    large: &Published,
    small: &Published,
    record: &Record,
    singles: f64,
) -> Result<()> {
    let rate = |bytes: u64, seconds: &[f64]| bytes as f64 / 1e6 / median(seconds);
    let (ours, curl) = (rate(large.bytes, &record.fetch), rate(large.bytes, &record.curl));
    let (bundle, zip) = (median(&record.bundle), median(&record.zip));
    eprintln!(
        "{:<44}{:>10}",
        format!("{:.1} GB in large shards", large.bytes as f64 / 1e9),
        "MB/s"
    );
    eprintln!("{:<44}{ours:>10.0}", "gular fetch, checked and fsynced");
    eprintln!("{:<44}{curl:>10.0}", "curl | tee FILE | b3sum, sync");
    eprintln!(
        "{:<44}{:>10}",
        format!("{} images, {:.2} GB", sizes.images, small.bytes as f64 / 1e9),
        "seconds"
    );
    eprintln!("{:<44}{bundle:>10.2}", "gular fetch, ready to read");
    eprintln!("{:<44}{zip:>10.2}", "curl of one zip, still packed");
    eprintln!("{:<44}{singles:>10.1}", format!("pelicanfs, one by one (from {})", sizes.singles));
    eprintln!("peak memory of gular fetch: {:.1} MiB", record.peak_kib as f64 / 1024.0);

    let machine = machine();
    let panels = [
        Panel {
            title: "One large bundle: MB/s, more is better".to_owned(),
            bars: vec![bar("gular fetch", ours, 0), bar("curl | tee | b3sum", curl, 0)],
            limit: Some((LIMIT / 1e6, "the server's limit, 500")),
        },
        Panel {
            title: format!("{} small images here: seconds, less is better", sizes.images),
            bars: vec![
                bar("gular fetch, ready to read", bundle, 1),
                bar("one zip, still packed", zip, 1),
                bar("one by one, pelicanfs", singles, 1),
            ],
            limit: None,
        },
    ];
    let caption = format!(
        "XRootD on loopback, throttled; {} cores; median of {} rounds; {}",
        machine["cores"],
        sizes.rounds,
        machine["date"].as_str().unwrap_or_default()
    );
    let plot = workspace.root.join("docs/bench/fetch.svg");
    fs::write(&plot, chart(&panels, &caption))?;
    eprintln!("plot: {}", workspace.relative(&plot).display());
    let record = json!({
        "bench": "fetch", "machine": machine, "limit_bytes_per_second": LIMIT,
        "large_bytes": large.bytes, "gular_fetch_seconds": record.fetch,
        "curl_b3sum_seconds": record.curl, "fetch_over_curl_rate": ours / curl,
        "images": sizes.images, "small_bytes": small.bytes,
        "bundle_ready_seconds": record.bundle, "zip_seconds": record.zip,
        "bundle_over_zip": bundle / zip,
        "pelicanfs_one_by_one_seconds_scaled": singles, "pelicanfs_files": sizes.singles,
        "gular_peak_kib": record.peak_kib,
    });
    println!("{record}");
    Ok(())
}
