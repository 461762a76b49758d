//! Derived bundles and new versions load the same samples as a bundle that was packed in one run.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use crate::fixtures::{CLASSES, image, label, open};
use gular_bundle::{
    About, BundlePath, DATA_DIR, Envelope, Field, FieldName, Manifest, Payload, Row, ShardEntry,
    ShardSpec, ShardWriter, Split, View, write_manifest,
};
use gular_runtime::order::{OrderKind, OrderSpec};
use gular_runtime::{Batch, Bundle, Loader, LoaderOptions, Transform};
use tempfile::TempDir;

/// Ids, labels and images of a batch.
type Copied = (Vec<u64>, Vec<i64>, Vec<u8>);

fn fields() -> Vec<Field> {
    let types = vec!["image/jpeg".into(), "image/png".into()];
    vec![Field::bytes(FieldName::image(), types), Field::label()]
}

fn shard(data: &Path, samples: &[(usize, i64)]) -> ShardEntry {
    let fields = fields();
    let spec = ShardSpec::new(Envelope::Shards, Split::Train, &fields);
    let mut writer = ShardWriter::create(data, &spec).unwrap();
    for (i, label) in samples {
        let key = BundlePath::parse(&format!("{i:04}.img")).unwrap();
        writer.push(&key, &[&image(*i), &label.to_le_bytes()]).unwrap();
    }
    writer.finish().unwrap()
}

/// Makes a bundle of the shards that `make` writes.
fn bundle(make: impl FnOnce(&Path) -> Vec<ShardEntry>) -> (TempDir, Arc<Bundle>) {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join(DATA_DIR);
    fs::create_dir(&data).unwrap();
    let manifest = Manifest {
        envelope: Envelope::Shards,
        payload: Payload::Encoded,
        fields: fields(),
        classes: (0..CLASSES).map(|c| format!("class {c}")).collect(),
        made: [].into(),
        about: About::default(),
        statistics: None,
        shards: make(&data),
    };
    write_manifest(dir.path(), &manifest).unwrap();
    let bundle = open(dir.path());
    (dir, bundle)
}

fn copied(batch: &Batch) -> Copied {
    (batch.sample_ids().to_vec(), batch.labels().to_vec(), batch.images().to_vec())
}

#[test]
fn a_view_beside_new_shards_trains_and_resumes_as_its_samples_packed_alone() {
    let labelled =
        |range: std::ops::Range<usize>| -> Vec<_> { range.map(|i| (i, label(i))).collect() };
    // Four samples of the base's first shard stay, one of them with another class; its second shard
    // stays whole; a third one is new.
    let taken = [0, 2, 3, 7];
    let (_version_dir, version) = bundle(|data| {
        let base = shard(data, &labelled(0..9));
        let view = View::new(9, taken.map(Row), vec![(Row(3), 2)]).unwrap();
        let (file, bytes) = view.file(Split::Train, base.index.digest).unwrap();
        fs::write(data.join(file.name.as_str()), bytes).unwrap();
        let part = ShardEntry { samples: 4, view: Some(file), ..base };
        vec![part, shard(data, &labelled(9..16)), shard(data, &labelled(16..23))]
    });
    assert_ne!(label(3), 2);
    let (_alone_dir, alone) = bundle(|data| {
        let part: Vec<_> = taken.iter().map(|&i| (i, if i == 3 { 2 } else { label(i) })).collect();
        vec![shard(data, &part), shard(data, &labelled(9..16)), shard(data, &labelled(16..23))]
    });
    assert!(version.manifest().is_derived() && !alone.manifest().is_derived());
    for kind in
        [OrderKind::Torch { shuffle: true }, OrderKind::Elastic, OrderKind::Window { shards: 2 }]
    {
        let options = LoaderOptions {
            batch_size: 4,
            order: OrderSpec { kind, seed: 5, drop_last: false },
            threads: 2,
            transform: Transform::train(16),
            ..LoaderOptions::new(Split::Train)
        };
        let loader =
            |bundle: &Arc<Bundle>| Loader::new(Arc::clone(bundle), options.clone()).unwrap();
        let mut whole = loader(&alone);
        let expected: Vec<Copied> = whole.epoch(3).map(|b| copied(&b.unwrap())).collect();
        // Stopped in the middle, and resumed by another process.
        let mut first = loader(&version);
        let mut batches = first.epoch(3);
        let mut found: Vec<Copied> =
            batches.by_ref().take(2).map(|b| copied(&b.unwrap())).collect();
        let state = batches.state();
        let mut second = loader(&version);
        second.restore(&state).unwrap();
        let mut batches = second.epoch(3);
        found.extend(batches.by_ref().map(|b| copied(&b.unwrap())));
        let state = batches.state();
        drop(batches);
        assert_eq!(found, expected, "{kind:?}");
        // The delivered samples have the digests of the other bundle.
        assert_eq!(state.tally, whole.state().tally, "{kind:?}");
        assert!(state.tally.is_some());
        assert!(second.check_delivered(&state).is_ok(), "{kind:?}");
    }
}
