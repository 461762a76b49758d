//! Measures what many shards cost: images per second from one shard and from many with the same
//! images, and the memory that is not mapped.

use std::error::Error;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use gular_bundle::{
    About, BundlePath, DATA_DIR, Dtype, Envelope, Field, FieldName, Manifest, Payload, ShardEntry,
    ShardSpec, ShardWriter, write_manifest,
};
use gular_codec::encode_jpeg;
use gular_runtime::{
    Backend, Bundle, Loader, LoaderOptions, OpenOptions, Split, Transform, UnknownLabels,
};

use crate::turn::{Answer, Host, Watch};

/// Pixels of a side: a decoder needs 0.1 ms for them, a tenth of a photograph's time, so that
/// what shards cost shows ten times as much.
const SIDE: u32 = 64;

const SHARDS: usize = 2000;
const SAMPLES: usize = 500;

/// Writes both bundles to `dir`, unless they exist.
pub(crate) fn host(dir: &Path) -> Result<Host, Box<dyn Error>> {
    let (many, one) = (dir.join("many"), dir.join("one"));
    write(&many, SHARDS, SAMPLES, false)?;
    write(&one, 1, SHARDS * SAMPLES, false)?;
    let mut host = Host::default();
    for (name, backend) in [("pread", Backend::Pread), ("map", Backend::Map)] {
        // The one shard is read under the best conditions: its index is in memory, and its pages
        // were touched as often.
        for (what, dir, index_bytes) in [
            ("2,000 shards", &many, OpenOptions::default().index_bytes),
            ("one shard", &one, u64::MAX),
        ] {
            let (mut loader, mut epoch) = (loader(dir, backend, false, index_bytes)?, 0);
            // The first turns open all shards, which this is not about.
            turn(&mut loader, &mut epoch, 3.0)?;
            host.add(format!("{what}, {name}"), move |seconds| {
                turn(&mut loader, &mut epoch, seconds)
            });
        }
    }
    Ok(host)
}

/// Memory that no file holds after reading from all shards, without the batches.
pub(crate) fn memory(
    dir: &Path,
    backend: &str,
    (shards, samples): (usize, usize),
    pixels: bool,
) -> Result<Host, Box<dyn Error>> {
    let name = backend.to_owned();
    let backend = match backend {
        "pread" => Backend::Pread,
        "map" => Backend::Map,
        _ => return Err("the back end is `pread` or `map`".into()),
    };
    // Memory of libtorch, which is in this process too, is counted apart.
    let before = anonymous()?;
    write(dir, shards, samples, pixels)?;
    let (mut loader, mut epoch) =
        (loader(dir, backend, pixels, OpenOptions::default().index_bytes)?, 0);
    let mut host = Host::default();
    host.add(name, move |seconds| {
        let mut answer = turn(&mut loader, &mut epoch, seconds)?;
        answer["mib"] = (anonymous()? - before - batches(&loader)).into();
        answer["shards_open"] = loader.bundle().opened().open.into();
        Ok(answer)
    });
    Ok(host)
}

fn loader(
    dir: &Path,
    backend: Backend,
    pixels: bool,
    index_bytes: u64,
) -> Result<Loader, Box<dyn Error>> {
    let open = OpenOptions { backend, index_bytes, ..OpenOptions::default() };
    let bundle = Arc::new(Bundle::open(dir, open)?);
    let size = if pixels { 8 } else { SIDE };
    let transform = Transform::Resize { width: size, height: size };
    let unknown_labels = UnknownLabels::Ignore;
    let options = LoaderOptions { transform, unknown_labels, ..LoaderOptions::new(Split::Train) };
    Ok(Loader::new(bundle, options)?)
}

/// Images over one turn, each time of another epoch.
fn turn(loader: &mut Loader, epoch: &mut u64, seconds: f64) -> Answer {
    *epoch += 1;
    let (watch, mut images) = (Watch::begin(), 0);
    for batch in loader.epoch(*epoch) {
        images += batch?.len() as u64;
        if watch.seconds() > seconds {
            break;
        }
    }
    Ok(watch.answer(images))
}

/// Returns the MiB of this process that are not pages of files.
fn anonymous() -> Result<f64, Box<dyn Error>> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find(|line| line.starts_with("RssAnon")).ok_or("no RssAnon")?;
    let kib: f64 = line.split_whitespace().nth(1).ok_or("no number")?.parse()?;
    Ok(kib / 1024.0)
}

/// Returns the MiB of the batches of `loader`.
fn batches(loader: &Loader) -> f64 {
    let (width, height) = loader.options().transform.size();
    let row = f64::from(width) * f64::from(height) * 3.0;
    row * (loader.options().batch_size * loader.options().slots) as f64 / f64::from(1 << 20)
}

/// A bundle of `shards` shards of `samples` samples in `dir`, unless it is there.
fn write(dir: &Path, shards: usize, samples: usize, pixels: bool) -> Result<(), Box<dyn Error>> {
    if dir.join("manifest.json").exists() {
        return Ok(());
    }
    let data = dir.join(DATA_DIR);
    fs::create_dir_all(&data)?;
    let image = match pixels {
        true => Field::fixed(FieldName::image(), Dtype::U8, vec![8, 8, 3]),
        false => Field::bytes(FieldName::image(), vec!["image/jpeg".into()]),
    };
    let fields = vec![image, Field::label()];
    let images: Vec<Vec<u8>> = (0..64).map(|i| picture(i, pixels)).collect::<Result<_, _>>()?;
    let mut entries: Vec<ShardEntry> = Vec::new();
    for shard in 0..shards {
        let spec = ShardSpec::new(Envelope::Shards, Split::Train, &fields);
        let mut writer = ShardWriter::create(&data, &spec)?;
        for i in (0..samples).map(|row| shard * samples + row) {
            let key = BundlePath::parse(&format!("class {:03}/image {i:08}.jpg", i % 1000))?;
            let image = images.get((i * 7 + i / 64) % 64).ok_or("an image")?;
            writer.push(&key, &[image, &((i % 1000) as i64).to_le_bytes()])?;
        }
        entries.push(writer.finish()?);
    }
    let manifest = Manifest {
        envelope: Envelope::Shards,
        payload: if pixels { Payload::Raw } else { Payload::Encoded },
        classes: (0..1000).map(|class| format!("class {class:03}")).collect(),
        fields,
        made: [].into(),
        about: About::default(),
        statistics: None,
        shards: entries,
    };
    write_manifest(dir, &manifest)?;
    Ok(())
}

fn picture(i: u32, pixels: bool) -> Result<Vec<u8>, Box<dyn Error>> {
    let side = if pixels { 8 } else { SIDE };
    let waves = |p: u32| {
        let (x, y, c) = (p / 3 % side, p / 3 / side, p % 3);
        (x * (3 + i % 5) + y * (2 + i % 7) + c * 40 + i * 11) as u8
    };
    let rgb: Vec<u8> = (0..side * side * 3).map(waves).collect();
    Ok(if pixels { rgb } else { encode_jpeg(&rgb, side, side, 85)? })
}
