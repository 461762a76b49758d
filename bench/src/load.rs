//! Measures batches of decoded images: from the loader, and from other sources with the same work.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use gular_codec::{DecodeOptions, Decoder, Limits, Scaling, read_header};
use gular_order::KeyedRng;
use gular_runtime::{
    Bundle, Depth, Loader, LoaderOptions, OnBadSample, Split, Transform, UnknownLabels,
};

use crate::Error;
use crate::clock::Watch;
use crate::measure::{Length, Shot, Sink};
use crate::options::BenchOptions;

/// Batches of `bundle` on `threads` threads; `begin` is when it was about to be opened.
pub(crate) fn shoot(
    bundle: Bundle,
    split: Split,
    options: &BenchOptions,
    threads: usize,
    length: Length,
    begin: Instant,
    cancel: &AtomicBool,
) -> Result<Shot, Error> {
    let shards = bundle.manifest().shards.iter().filter(|s| s.split == split);
    let (samples, bytes) = shards.fold((0, 0), |(n, b), s| (n + s.samples, b + s.file.bytes));
    let loader = LoaderOptions {
        batch_size: options.batch_size,
        threads,
        transform: Transform::train(options.size),
        on_error: OnBadSample::Skip,
        unknown_labels: UnknownLabels::Ignore,
        depth: Depth::U8,
        // The last pass must not pay for work on the next one.
        across_epochs: false,
        ..LoaderOptions::new(split)
    };
    let mut loader = Loader::new(Arc::new(bundle), loader)?;
    let mut first_ms = None;
    let mut taken = 0_u64;
    let watch = Watch::begin();
    for epoch in 0.. {
        for batch in loader.epoch(epoch) {
            let batch = batch?;
            first_ms.get_or_insert_with(|| begin.elapsed().as_secs_f64() * 1e3);
            taken += (batch.len() + batch.skipped().len()) as u64;
            if cancel.load(Ordering::Relaxed) {
                return Err(Error::Cancelled);
            }
            if watch.seconds() >= length.seconds {
                break;
            }
        }
        if watch.seconds() >= length.seconds || taken >= length.samples {
            break;
        }
    }
    Ok(Shot {
        samples: taken,
        bytes: (bytes as f64 / samples.max(1) as f64 * taken as f64) as u64,
        elapsed: watch.end(),
        first_ms: first_ms.unwrap_or(0.0),
        latencies: Vec::new(),
    })
}

/// Decodes pictures as the loader does, for samples that others read.
pub(crate) struct Decode {
    decoder: Decoder,
    transform: Transform,
    limits: Limits,
    out: Vec<u8>,
}

impl Decode {
    /// Decodes to pictures of `size` pixels a side.
    pub(crate) fn new(size: u32) -> Self {
        let options = DecodeOptions { scaling: Scaling::Reduced, ..DecodeOptions::default() };
        Self {
            decoder: Decoder::new(options),
            transform: Transform::train(size),
            limits: Limits::default(),
            out: vec![0; size as usize * size as usize * 3],
        }
    }

    fn decode(&mut self, sample: usize, bytes: &[u8]) -> Result<(), gular_codec::Error> {
        let (width, height) = read_header(bytes, &self.limits)?.upright_size();
        let mut rng = KeyedRng::of_sample(0, 0, sample as u64);
        let place = self.transform.place(width, height, &mut rng);
        self.decoder.crop_resize(bytes, place.region, &place.resize, &mut self.out)
    }
}

impl Sink for Decode {
    fn take(&mut self, sample: usize, bytes: &[u8]) -> Result<(), Error> {
        // A picture that cannot be decoded is passed over, as the loader does here.
        let _ = self.decode(sample, bytes);
        Ok(())
    }
}
