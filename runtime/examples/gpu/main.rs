//! Checks and measurements that need a GPU, as one program that can be copied to a machine with
//! one.
//!
//! ```text
//! gpu look               what is there: driver, GPU, libtorch's CUDA half, NVRTC
//! gpu check BUNDLE...    batches arrive whole, numbers are the CPU's, NCCL adds up
//! gpu sanitize BUNDLE... the part of it that `compute-sanitizer` is to look at
//! gpu copies             bytes per second beside a plain copy, as JSON on stdout
//! gpu images BUNDLE...   images per second, as JSON on stdout
//! gpu steps BUNDLE...    training steps per second beside those on data that stays on the GPU,
//!                        as JSON on stdout
//! gpu compile CC...      the kernels for other compute capabilities, such as 7.0; needs no GPU
//! ```
//!
//! `--slots=torch|driver`, `--pin=register|alloc|none` and `--convert=kernel|torch` choose how
//! batches come to the GPU. `cargo xtask bench gpu` builds it and runs it, or says how. It needs
//! libtorch with its CUDA half:
//! `LD_LIBRARY_PATH=$(python3 -c 'import torch;print(torch.__path__[0]+"/lib")')`.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program; results go to stdout")]

mod bench;
mod check;
mod look;
mod resnet;

use std::error::Error;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use gular_runtime::cuda::Gpu;
use gular_runtime::torch::{Feed, FeedOptions, Place, set_threads};
use gular_runtime::{
    Bundle, Depth, Env, LoaderOptions, LoaderPlan, OpenOptions, Split, Transform, available_cores,
};

/// Any error, in words.
type Failure = Box<dyn Error>;

/// Number of threads that libtorch uses on the CPU. With more, they and the loader's threads would
/// wait for each other in busy loops.
const TORCH_THREADS: usize = 4;

const USAGE: &str = "usage: gpu look | check BUNDLE... | sanitize BUNDLE... | copies | \
                     images BUNDLE... | steps BUNDLE... | compile CC...\n\
                     switches: --slots=torch|driver --pin=register|alloc|none \
                     --convert=kernel|torch";

fn main() -> ExitCode {
    set_threads(TORCH_THREADS);
    let args: Vec<String> = std::env::args().skip(1).collect();
    match switches(args).and_then(|(args, options)| run(&args, options)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            let own = error.downcast_ref::<gular_runtime::Error>();
            if let Some(hint) = own.and_then(gular_runtime::Error::hint) {
                eprintln!("hint: {hint}");
            }
            ExitCode::from(2)
        }
    }
}

fn run(args: &[String], options: FeedOptions) -> Result<(), Failure> {
    let Some((verb, rest)) = args.split_first() else { return Err(USAGE.into()) };
    match (verb.as_str(), rest.is_empty()) {
        ("look", true) => look::run(),
        ("compile", false) => look::compile(rest),
        ("check", false) => check::run(rest, options, false),
        ("sanitize", false) => check::run(rest, options, true),
        ("copies", true) => bench::run_copies(options),
        ("images", false) => bench::run_images(rest, options),
        ("steps", false) => bench::run_steps(rest, options),
        _ => Err(USAGE.into()),
    }
}

/// Returns `args` without the switches, and the options that these set.
fn switches(args: Vec<String>) -> Result<(Vec<String>, FeedOptions), Failure> {
    let (mut rest, mut options) = (Vec::new(), FeedOptions::default());
    for arg in args {
        match arg.split_once('=') {
            Some(("--slots", slots)) => options.slots = slots.parse()?,
            Some(("--pin", pin)) => options.pin = pin.parse()?,
            Some(("--convert", convert)) => options.convert = convert.parse()?,
            _ if arg.starts_with("--") => return Err(format!("`{arg}`?\n{USAGE}").into()),
            _ => rest.push(arg),
        }
    }
    Ok((rest, options))
}

fn open_gpu() -> Result<Gpu, Failure> {
    let gpu = Gpu::open(None, 0)?;
    eprintln!("{gpu}");
    Ok(gpu)
}

fn open_bundle(dir: &str) -> Result<Arc<Bundle>, Failure> {
    Ok(Arc::new(Bundle::open(Path::new(dir), OpenOptions::default())?))
}

/// The training split in batches of `batch_size` random crops of `size` pixels a side.
fn plan(
    bundle: &Arc<Bundle>,
    batch_size: usize,
    size: u32,
    depth: Depth,
) -> Result<LoaderPlan, Failure> {
    let options = LoaderOptions {
        batch_size,
        threads: available_cores(&Env::process()),
        slots: 6,
        transform: Transform::train(size),
        depth,
        ..LoaderOptions::new(Split::Train)
    };
    Ok(LoaderPlan::new(Arc::clone(bundle), options)?)
}

/// Returns a feed of that loader's batches on `gpu`.
fn feed(
    gpu: &Gpu,
    bundle: &Arc<Bundle>,
    batch_size: usize,
    size: u32,
    options: FeedOptions,
) -> Result<Feed, Failure> {
    let plan = plan(bundle, batch_size, size, Depth::Stored)?;
    let feed = Feed::new(plan, &Place::Gpu(gpu.clone()), options)?;
    if let Some(error) = feed.unpinned() {
        eprintln!("warning: batches are not page-locked in place: {error}");
    }
    if let Some(error) = feed.unfused() {
        eprintln!("warning: libtorch's operations make the numbers: {error}");
    }
    Ok(feed)
}

#[cfg(test)]
mod tests {
    use gular_runtime::torch::{Convert, Pin, Slots};

    use super::*;

    #[test]
    fn switches_may_stand_anywhere_and_others_are_refused() {
        let of = |args: &[&str]| switches(args.iter().map(|arg| (*arg).to_owned()).collect());
        let (rest, options) =
            of(&["--pin=alloc", "check", "a", "--slots=driver", "b", "--convert=torch"]).unwrap();
        assert_eq!(rest, ["check", "a", "b"]);
        let found = (options.pin, options.slots, options.convert);
        assert_eq!(found, (Pin::Alloc, Slots::Driver, Convert::Torch));
        assert!(of(&["--pin=all", "check"]).unwrap_err().to_string().contains("register, alloc"));
        assert!(of(&["check", "--pine=none"]).unwrap_err().to_string().contains("--pine"));
    }
}
