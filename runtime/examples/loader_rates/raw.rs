//! Measures samples that are pixels: our loader, and hand-written loops over the same pixels.

use std::error::Error;
use std::fs::{self, File};
use std::hint::black_box;
use std::io::{self, BufWriter, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use gular_runtime::order::{KeyedPermutation, key};
use gular_runtime::torch::set_threads;
use gular_runtime::{Backend, Bundle, Env, FieldIdx, Numbers, Split, Transform, available_cores};
use tch::{Device, Kind, Tensor};

use crate::pictures::{BATCH, feed, open, run};
use crate::turn::{Answer, Host, Watch};

const SIDE: u32 = 256;

/// Keeps the stored size, so that rows are copied.
pub(crate) const AS_STORED: Transform = Transform::Resize { width: SIDE, height: SIDE };

const IMAGE: FieldIdx = FieldIdx(0);
const BYTES: usize = (SIDE * SIDE * 3) as usize;

pub(crate) fn host(dir: &Path, scratch: &Path) -> Result<Host, Box<dyn Error>> {
    let mut host = Host::default();
    for (name, backend) in [("map", Backend::Map), ("pread", Backend::Pread)] {
        let bundle = open(dir, backend)?;
        for (what, numbers) in [("f32", Numbers::F32), ("u8", Numbers::Stored)] {
            let (mut feed, mut epoch) = (feed(&bundle, AS_STORED, 0, numbers)?, 0);
            host.add(format!("gular, {what}, {name}"), move |seconds| {
                run(&mut feed, &mut epoch, seconds)
            });
        }
        let mut pass = 0;
        host.add(format!("bare loop, u8, {name}"), move |seconds| {
            pass += 1;
            bare(&bundle, backend, pass, seconds)
        });
    }
    let bundle = open(dir, Backend::Pread)?;
    let file = scratch.join("channels-first");
    channels_first(&bundle, &file)?;
    let n = bundle.n_samples(Split::Train);
    host.add("memory map by hand", by_hand(&file, n)?);
    Ok(host)
}

/// Rows into two buffers per thread, on all cores; where they are is known beforehand.
fn bare(bundle: &Arc<Bundle>, backend: Backend, pass: u64, seconds: f64) -> Answer {
    let n = bundle.n_samples(Split::Train);
    let order = KeyedPermutation::new(n, key(pass, 0, 0));
    let files: Vec<File> = bundle
        .manifest()
        .shards
        .iter()
        .map(|shard| File::open(bundle.path_of(&shard.file)))
        .collect::<Result<_, _>>()?;
    let mut shards = Vec::new();
    for i in 0..n {
        let id = bundle.locate(Split::Train, order.at(i))?;
        shards.push((bundle.shard(id.shard)?, id));
    }
    let mut none = vec![Vec::new(); shards.len()];
    let mut rows = Vec::with_capacity(shards.len());
    for ((shard, id), none) in shards.iter().zip(&mut none) {
        rows.push(match backend {
            Backend::Map => Place::Mapped(shard.view(id.row, IMAGE, none)?),
            Backend::Pread => {
                let (offset, _) = shard.range(id.row, IMAGE)?.ok_or("no place")?;
                Place::Stored(files.get(id.shard.0).ok_or("a file")?, offset)
            }
        });
    }
    let (next, watch) = (AtomicUsize::new(0), Watch::begin());
    let fill = || -> io::Result<()> {
        // Two batches are used in turn: one is filled while the other is trained on. On two cores
        // the loader has as many.
        let mut batches = [(); 2].map(|()| vec![0; BATCH * BYTES]);
        while watch.seconds() < seconds {
            let first = next.fetch_add(BATCH, Ordering::Relaxed);
            batches.reverse();
            let batch = &mut batches[0];
            for (i, to) in batch.chunks_exact_mut(BYTES).enumerate() {
                match rows[(first + i) % rows.len()] {
                    Place::Mapped(row) => to.copy_from_slice(row),
                    Place::Stored(file, offset) => file.read_exact_at(to, offset)?,
                }
            }
            black_box(batch);
        }
        Ok(())
    };
    thread::scope(|scope| {
        let threads: Vec<_> =
            (0..available_cores(&Env::process())).map(|_| scope.spawn(fill)).collect();
        threads.into_iter().try_for_each(|thread| match thread.join() {
            Ok(done) => done,
            Err(_) => Err(io::Error::other("a thread panicked")),
        })
    })?;
    Ok(watch.answer(next.into_inner() as u64))
}

#[derive(Clone, Copy)]
enum Place<'a> {
    Mapped(&'a [u8]),
    Stored(&'a File, u64),
}

/// The pixels as their user would store them for a map: `[n, 3, height, width]`.
fn channels_first(bundle: &Bundle, file: &Path) -> Result<(), Box<dyn Error>> {
    let n = bundle.n_samples(Split::Train);
    if fs::metadata(file).is_ok_and(|found| found.len() == n * BYTES as u64) {
        return Ok(());
    }
    let mut out = BufWriter::new(File::create(file)?);
    let mut pixels = Vec::new();
    for i in 0..n {
        bundle.read(bundle.locate(Split::Train, i)?, IMAGE, &mut pixels)?;
        for channel in 0..3 {
            let plane: Vec<u8> = pixels.iter().skip(channel).step_by(3).copied().collect();
            out.write_all(&plane)?;
        }
    }
    Ok(out.flush()?)
}

/// libtorch's own map of that file, normalised image by image into two buffers in turn: the
/// fastest that a Python user reaches without a loader.
fn by_hand(file: &Path, n: u64) -> Result<impl FnMut(f64) -> Answer + use<>, Box<dyn Error>> {
    let (side, count) = (i64::from(SIDE), n as i64);
    let path = file.to_str().ok_or("a path that is not UTF-8")?;
    let place = (Kind::Uint8, Device::Cpu);
    let pixels = Tensor::f_from_file(path, true, n as i64 * BYTES as i64, place)?;
    let pixels = pixels.f_view([count, 3, side, side])?;
    let of = |values: [f64; 3]| Tensor::from_slice(&values).to_kind(Kind::Float).view([3, 1, 1]);
    let (mean, std) = (of([0.485, 0.456, 0.406]), of([0.229, 0.224, 0.225]));
    let (scale, shift) = ((&std * 255.0).reciprocal(), -mean / std);
    let buffers =
        [(); 2].map(|()| Tensor::empty([BATCH as i64, 3, side, side], (Kind::Float, Device::Cpu)));
    let mut pass = 0;
    Ok(move |seconds: f64| {
        pass += 1;
        set_threads(2);
        let order = KeyedPermutation::new(n, key(pass, 0, 0));
        let (mut images, mut watch) = (0, Watch::begin());
        let mut warm = true;
        loop {
            let batch = &buffers[usize::from(images / BATCH as u64 % 2 == 1)];
            for row in 0..BATCH as i64 {
                let picture = pixels.f_get(order.at(images % n) as i64)?;
                let mut to = batch.f_get(row)?;
                to.f_copy_(&picture)?;
                let _ = to.f_mul_(&scale)?.f_add_(&shift)?;
                images += 1;
            }
            if warm && watch.seconds() >= seconds / 4.0 {
                (images, watch, warm) = (0, Watch::begin(), false);
            } else if !warm && watch.seconds() >= seconds {
                return Ok(watch.answer(images));
            }
        }
    })
}
