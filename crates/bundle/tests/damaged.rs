//! Parsers of untrusted bytes never panic, and never allocate more than the file's own size
//! justifies.

use std::fs;

use gular_bundle::{
    BundlePath, Envelope, Field, FieldName, Index, Manifest, ReadAt, ShardEntry, ShardSpec,
    ShardWriter, Split, rebuild_index,
};

use crate::random::Rng;

fn fields() -> Vec<Field> {
    vec![Field::bytes(FieldName::image(), vec!["image/jpeg".into()]), Field::label()]
}

fn shard(dir: &std::path::Path, envelope: Envelope) -> ShardEntry {
    let fields = fields();
    let spec = ShardSpec::new(envelope, Split::Train, &fields);
    let mut writer = ShardWriter::create(dir, &spec).unwrap();
    for i in 0..9_u8 {
        let key = BundlePath::parse(&format!("c/{i}.jpg")).unwrap();
        writer
            .push(&key, &[&vec![i; 50 + usize::from(i)], &i64::from(i % 3).to_le_bytes()])
            .unwrap();
    }
    writer.finish().unwrap()
}

fn mutate(good: &[u8], seed: u64) -> Vec<u8> {
    let mut rng = Rng(seed);
    let mut bytes = good.to_vec();
    for _ in 0..1 + rng.next() % 4 {
        if bytes.is_empty() {
            break;
        }
        let at = rng.next() % bytes.len();
        match rng.next() % 6 {
            0 => bytes[at] ^= 1 << (rng.next() % 8),
            1 => bytes[at] = rng.next() as u8,
            2 => bytes.truncate(at),
            3 => drop(bytes.drain(at..(at + 1 + rng.next() % 40).min(good.len()).min(bytes.len()))),
            4 => bytes.insert(at, b"0123456789-[]{}\",:"[rng.next() % 18]),
            _ => {
                let end = (at + 8).min(bytes.len());
                let extreme = [u64::MAX, 1 << 63, i64::MAX as u64, 1 << 40][rng.next() % 4];
                bytes[at..end].copy_from_slice(&extreme.to_le_bytes()[..end - at]);
            }
        }
    }
    bytes
}

#[test]
fn damaged_manifests_never_panic() {
    let dir = tempfile::tempdir().unwrap();
    let entry = shard(dir.path(), Envelope::Shards);
    let text = format!(
        "{{\"format\":\"gular-bundle\",\"version\":1,\"envelope\":\"shards\",\"payload\":\"encoded\",\"fields\":{},\"classes\":[\"a\"],\"made\":{{\"seed\":1}},\"shards\":[{}]}}",
        serde_json::to_string(&fields()).unwrap(),
        serde_json::to_string(&entry).unwrap()
    );
    let good = Manifest::parse("m", text.as_bytes()).unwrap().to_bytes();
    let mut refused = 0;
    for seed in 0..20_000 {
        match Manifest::parse("m", &mutate(&good, seed)) {
            // A manifest that parses must be written, and parse again to the same value.
            Ok(manifest) => {
                assert_eq!(Manifest::parse("m", &manifest.to_bytes()).unwrap(), manifest);
            }
            Err(_) => refused += 1,
        }
    }
    assert!(refused > 10_000, "{refused}");
}

#[test]
fn damaged_indexes_never_panic_and_never_leave_the_shard() {
    let dir = tempfile::tempdir().unwrap();
    let entry = shard(dir.path(), Envelope::Shards);
    let good = fs::read(dir.path().join(entry.index.name.as_str())).unwrap();
    let shard_bytes = entry.file.bytes;
    assert_eq!(Index::parse("i", good.clone(), &fields(), shard_bytes).unwrap().n_samples(), 9);
    for seed in 0..20_000 {
        let Ok(index) = Index::parse("i", mutate(&good, seed), &fields(), shard_bytes) else {
            continue;
        };
        for row in index.rows() {
            BundlePath::parse(index.key(row).unwrap()).unwrap();
            for field in index.fields() {
                // A label may be in the index only.
                let Some((offset, len)) = index.range(row, field) else { continue };
                assert!(offset + len as u64 <= shard_bytes, "seed {seed}");
            }
        }
    }
}

#[test]
fn damaged_shards_never_panic() {
    for envelope in Envelope::ALL {
        damage(envelope);
    }
}

fn damage(envelope: Envelope) {
    let dir = tempfile::tempdir().unwrap();
    let entry = shard(dir.path(), envelope);
    let good = fs::read(dir.path().join(entry.file.name.as_str())).unwrap();
    for seed in 0..20_000 {
        let file = ReadAt::in_memory("damaged", mutate(&good, seed));
        if let Ok(index) = rebuild_index(&file, envelope, &fields()) {
            Index::parse("i", index, &fields(), file.len_bytes()).unwrap();
        }
    }
}
