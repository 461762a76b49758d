//! What only a GPU can show: one program to carry to a machine that has one.
//!
//! ```text
//! gpu check BUNDLE...    batches arrive whole, numbers are the processor's, NCCL adds up
//! gpu sanitize BUNDLE... the part of it that `compute-sanitizer` is to look at
//! gpu bench BUNDLE...    copies, images and training steps a second, as JSON on stdout
//!                        --pin=none after the verb: without page-locked memory
//! ```
//!
//! `cargo xtask bench gpu` builds it and runs it, or says how. It needs libtorch with its
//! CUDA half: `LD_LIBRARY_PATH=$(python3 -c 'import torch;print(torch.__path__[0]+"/lib")')`.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program; results go to stdout")]

mod bench;
mod check;
mod resnet;

use std::error::Error;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use gular_runtime::cuda::Gpu;
use gular_runtime::torch::{Feed, FeedOptions, Pin, Place, set_threads};
use gular_runtime::{
    Bundle, Env, Loader, LoaderOptions, OpenOptions, Split, Transform, available_cores,
};

/// Whatever went wrong, in words.
type Failure = Box<dyn Error>;

const PIN_NONE: &str = "--pin=none";

/// How batches are prepared, by the command line.
fn pin() -> Pin {
    if std::env::args().any(|arg| arg == PIN_NONE) { Pin::None } else { Pin::Register }
}

/// What libtorch computes with on the processor: beside the loader's threads, more of its own
/// would wait for each other in busy loops.
const TORCH_THREADS: usize = 4;

fn main() -> ExitCode {
    set_threads(TORCH_THREADS);
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != PIN_NONE).collect();
    let result = match args.split_first() {
        Some((verb, bundles)) if verb == "check" && !bundles.is_empty() => {
            check::run(bundles, false)
        }
        Some((verb, bundles)) if verb == "sanitize" && !bundles.is_empty() => {
            check::run(bundles, true)
        }
        Some((verb, bundles)) if verb == "bench" && !bundles.is_empty() => bench::run(bundles),
        _ => Err("usage: gpu check|sanitize|bench [--pin=none] BUNDLE...".into()),
    };
    match result {
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

fn open_gpu() -> Result<Gpu, Failure> {
    let gpu = Gpu::open(None, 0)?;
    eprintln!("{gpu}");
    Ok(gpu)
}

fn open_bundle(dir: &str) -> Result<Arc<Bundle>, Failure> {
    Ok(Arc::new(Bundle::open(Path::new(dir), OpenOptions::default())?))
}

/// The training split in batches of `batch_size` random crops of `size` pixels a side.
fn loader(bundle: &Arc<Bundle>, batch_size: usize, size: u32) -> Result<Loader, Failure> {
    let options = LoaderOptions {
        batch_size,
        threads: available_cores(&Env::process()),
        slots: 6,
        transform: Transform::train(size),
        ..LoaderOptions::new(Split::Train)
    };
    Ok(Loader::new(Arc::clone(bundle), options)?)
}

/// That loader's batches on `gpu`.
fn feed(
    gpu: &Gpu,
    bundle: &Arc<Bundle>,
    batch_size: usize,
    size: u32,
    options: FeedOptions,
) -> Result<Feed, Failure> {
    let feed = Feed::new(loader(bundle, batch_size, size)?, &Place::Gpu(gpu.clone()), options)?;
    if let Some(error) = feed.unpinned() {
        eprintln!("warning: batches are not page-locked: {error}");
    }
    Ok(feed)
}
