//! Checks that batches arrive undamaged, whatever the two streams are doing.

use std::sync::Arc;

use gular_runtime::cuda::{Gpu, Nccl};
use gular_runtime::group::Group;
use gular_runtime::torch::{
    AllReduce, AxisOrder, Convert, Feed, FeedOptions, Numbers, Pin, Place, Slots,
};
use gular_runtime::{Bundle, Depth, Digest};
use tch::{Device, Kind, Tensor};

use super::{Failure, open_bundle, open_gpu, plan};

/// A batch large enough that its copy takes longer than giving work to the GPU: 19 MB.
const SIZE: u32 = 224;
const BATCH: usize = 128;
/// Side of the matrices whose product keeps the GPU busy: some milliseconds.
const MATRIX: i64 = 6144;

/// Runs all checks, and returns an error if one fails. Under `compute-sanitizer`, which makes a
/// kernel hundreds of times as slow, only those run that it can help with.
pub(crate) fn run(bundles: &[String], base: FeedOptions, sanitized: bool) -> Result<(), Failure> {
    let gpu = open_gpu()?;
    let mut failed = 0;
    let mut tell = |name: &str, result: Result<(), Failure>| match result {
        Ok(()) => println!("ok {name}"),
        Err(error) => {
            failed += 1;
            println!("not ok {name}: {error}");
        }
    };
    for dir in bundles {
        let bundle = open_bundle(dir)?;
        if sanitized {
            tell(&format!("{dir}: every batch whole"), whole(&gpu, &bundle, base, Pace::Copies, 2));
            let options =
                FeedOptions { numbers: Numbers::Bf16, layout: AxisOrder::ChannelsLast, ..base };
            tell(&format!("{dir}: same bits"), same_bits(&gpu, &bundle, options, Depth::Stored));
            continue;
        }
        for pace in Pace::ALL {
            for ahead in [1, 2, 4] {
                let name = format!("{dir}: every batch whole, {ahead} ahead, {}", pace.name());
                tell(&name, whole(&gpu, &bundle, base, pace, ahead));
            }
        }
        for numbers in [Numbers::F32, Numbers::Bf16, Numbers::F16, Numbers::Stored] {
            for layout in [AxisOrder::Contiguous, AxisOrder::ChannelsLast] {
                let name = format!("{dir}: {numbers:?} {layout:?} are the CPU's bits");
                let options = FeedOptions { numbers, layout, ..base };
                tell(&name, same_bits(&gpu, &bundle, options, Depth::Stored));
            }
        }
        for (depth, convert) in [(Depth::U16, Convert::Kernel), (Depth::Stored, Convert::Torch)] {
            let name = format!("{dir}: {depth:?} by {convert:?} are the CPU's bits");
            let options = FeedOptions { numbers: Numbers::Bf16, convert, ..base };
            tell(&name, same_bits(&gpu, &bundle, options, depth));
        }
        for (slots, pin) in [(Slots::Torch, Pin::Alloc), (Slots::Driver, Pin::None)] {
            let name = format!("{dir}: every batch whole, {slots:?} slots, {pin:?} pinned");
            tell(&name, whole(&gpu, &bundle, FeedOptions { slots, pin, ..base }, Pace::Mixed, 2));
        }
        tell(&format!("{dir}: an epoch left anywhere"), left_anywhere(&gpu, &bundle, base));
        tell(&format!("{dir}: memory does not grow"), memory(&gpu, &bundle, base));
    }
    if !sanitized {
        tell("NCCL adds up over one rank", nccl(&gpu));
    }
    if failed > 0 {
        return Err(format!("{failed} checks failed").into());
    }
    Ok(())
}

/// The side that is slower.
#[derive(Clone, Copy)]
enum Pace {
    /// Copies are slower, since nothing is computed.
    Copies,
    /// Much is computed before each batch is asked for, so that copies run ahead.
    Computation,
    /// Each side is slower at times.
    Mixed,
}

impl Pace {
    const ALL: [Self; 3] = [Self::Copies, Self::Computation, Self::Mixed];

    fn name(self) -> &'static str {
        match self {
            Self::Copies => "nothing computed",
            Self::Computation => "the computation behind",
            Self::Mixed => "either behind",
        }
    }

    /// Returns the number of products to compute before batch `i`.
    fn work(self, i: usize) -> usize {
        match self {
            Self::Copies => 0,
            Self::Computation => 4,
            Self::Mixed => [0, 12, 1, 0, 6][i % 5],
        }
    }
}

fn feed(gpu: &Gpu, bundle: &Arc<Bundle>, options: FeedOptions) -> Result<Feed, Failure> {
    super::feed(gpu, bundle, BATCH, SIZE, options)
}

/// Slots are overwritten before they are used again; the bytes of each batch, back from
/// the GPU, have the digest of those of a loader that knows no GPU.
fn whole(
    gpu: &Gpu,
    bundle: &Arc<Bundle>,
    base: FeedOptions,
    pace: Pace,
    ahead: usize,
) -> Result<(), Failure> {
    let options = FeedOptions {
        numbers: Numbers::Stored,
        layout: AxisOrder::ChannelsLast,
        ahead,
        poison: true,
        ..base
    };
    let plain = plan(bundle, BATCH, SIZE, Depth::Stored)?;
    let mut plain = plain.start(Numbers::Stored, AxisOrder::ChannelsLast)?;
    let mut feed = feed(gpu, bundle, options)?;
    let mut side = None;
    for epoch in 0..2 {
        let mut expected = plain.epoch(epoch);
        // Kept on the GPU until the epoch ends: reading one back would wait for its stream.
        let mut kept = Vec::new();
        let mut batches = feed.epoch(epoch);
        let mut work = Vec::new();
        for i in 0.. {
            for _ in 0..pace.work(i) {
                let of_random = || Tensor::rand([MATRIX, MATRIX], (Kind::Float, gpu.device()));
                let side: &Tensor = side.get_or_insert_with(of_random);
                work.push(side.matmul(side));
                work.truncate(4);
            }
            let Some(batch) = batches.next().transpose()? else { break };
            kept.push(batch);
        }
        for (i, batch) in kept.iter().enumerate() {
            let expected = expected.next().ok_or("too many batches")??;
            let bytes = host_bytes(&batch.images.permute([0, 2, 3, 1]))?;
            if Digest::of(&bytes) != Digest::of(expected.images()) {
                let wrong = bytes.iter().zip(expected.images()).filter(|(a, b)| a != b).count();
                return Err(format!("epoch {epoch}, batch {i}: {wrong} bytes differ").into());
            }
            if Vec::<i64>::try_from(&batch.labels)? != expected.labels() {
                return Err(format!("epoch {epoch}, batch {i}: labels differ").into());
            }
        }
        if expected.next().is_some() {
            return Err("batches are missing".into());
        }
    }
    Ok(())
}

fn same_bits(
    gpu: &Gpu,
    bundle: &Arc<Bundle>,
    options: FeedOptions,
    depth: Depth,
) -> Result<(), Failure> {
    let plan = || plan(bundle, BATCH, SIZE, depth);
    let mut here = Feed::new(plan()?, &Place::cpu(), options)?;
    let mut there = Feed::new(plan()?, &Place::Gpu(gpu.clone()), options)?;
    if let Some(error) = there.unfused() {
        return Err(format!("there is no kernel for it: {error}").into());
    }
    let mut expected = here.epoch(3);
    for there in there.epoch(3) {
        let here = expected.next().ok_or("too many batches")??;
        let there = there?;
        if here.images.stride() != there.images.stride() {
            return Err("they lie otherwise in memory".into());
        }
        if !here.images.equal(&there.images.to_device(Device::Cpu)) {
            return Err("they differ".into());
        }
    }
    if expected.next().is_some() {
        return Err("batches are missing".into());
    }
    Ok(())
}

/// An epoch is abandoned after some batches; another feed resumes from the state of the last
/// one, with the same samples and bytes that follow on the CPU.
fn left_anywhere(gpu: &Gpu, bundle: &Arc<Bundle>, base: FeedOptions) -> Result<(), Failure> {
    let options = FeedOptions { numbers: Numbers::Stored, poison: true, ..base };
    let mut first = feed(gpu, bundle, options)?;
    let mut whole = Feed::new(plan(bundle, BATCH, SIZE, Depth::Stored)?, &Place::cpu(), options)?;
    let whole = whole.epoch(1).collect::<Result<Vec<_>, _>>()?;
    for stop in [1, 2, whole.len() / 2, whole.len() - 1] {
        let last = first.epoch(1).take(stop).last().ok_or("no batch")??;
        if (&last.state, first.state()) != (&whole[stop - 1].state, &last.state) {
            return Err(format!("after {stop} batches it stands elsewhere").into());
        }
        let mut second = feed(gpu, bundle, options)?;
        second.restore(&last.state)?;
        let rest = second.epoch(1).collect::<Result<Vec<_>, _>>()?;
        if rest.len() != whole.len() - stop {
            return Err(format!("{} batches after {stop} of {}", rest.len(), whole.len()).into());
        }
        for (found, expected) in rest.iter().zip(&whole[stop..]) {
            let images = found.images.to_device(Device::Cpu);
            if found.sample_ids != expected.sample_ids || !images.equal(&expected.images) {
                return Err(format!("another batch, resumed after {stop}").into());
            }
        }
    }
    Ok(())
}

fn memory(gpu: &Gpu, bundle: &Arc<Bundle>, base: FeedOptions) -> Result<(), Failure> {
    let mut used = Vec::new();
    for _ in 0..6 {
        let mut feed = feed(gpu, bundle, base)?;
        for batch in feed.epoch(0) {
            batch?;
        }
        drop(feed);
        used.push(gpu.memory_used()?);
    }
    // The first rounds fill libtorch's cache, so they are not compared.
    let (early, late) = (used[2], used[5]);
    if late > early + (16 << 20) {
        return Err(format!("{early} bytes were used, then {late}").into());
    }
    Ok(())
}

fn nccl(gpu: &Gpu) -> Result<(), Failure> {
    let (major, minor, patch) = Nccl::version()?;
    eprintln!("NCCL {major}.{minor}.{patch}");
    let group = Group::alone();
    let nccl = Nccl::join(gpu, &group)?;
    for kind in [Kind::Float, Kind::Double] {
        let numbers = Tensor::rand([1_000_003], (kind, gpu.device()));
        let mut sum = numbers.copy();
        AllReduce::sum(&nccl, &mut sum)?;
        AllReduce::wait(&nccl)?;
        if !sum.equal(&numbers) {
            return Err(format!("the sum of {kind:?} over one rank is another").into());
        }
    }
    drop(nccl);
    Ok(group.finish()?)
}

fn host_bytes(tensor: &Tensor) -> Result<Vec<u8>, Failure> {
    let tensor = tensor.contiguous().to_device(Device::Cpu);
    let mut bytes = vec![0; tensor.numel()];
    tensor.f_copy_data_u8(&mut bytes, tensor.numel())?;
    Ok(bytes)
}
