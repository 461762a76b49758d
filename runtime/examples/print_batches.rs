//! Prints the batches of an epoch of split `train`, one JSON object per line, with the SHA-256 of
//! each field's numbers: `print_batches BUNDLE NUMBERS LAYOUT ORDER EPOCH RANK WORLD [FIELD]`.
//! Peer tests compare them with those of the Python package.
#![expect(clippy::print_stdout, reason = "a program, not a library")]

use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use gular_runtime::order::{OrderKind, OrderSpec};
use gular_runtime::{
    AxisOrder, Bundle, Loader, LoaderOptions, Numbers, OpenOptions, Split, Transform, Values,
};
use serde_json::json;
use sha2::{Digest as _, Sha256};

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [bundle, numbers, layout, order, epoch, rank, world, fields @ ..] = args.as_slice() else {
        return Err("expected BUNDLE NUMBERS LAYOUT ORDER EPOCH RANK WORLD [FIELD]".into());
    };
    let bundle = Arc::new(Bundle::open(Path::new(bundle), OpenOptions::default())?);
    let kind = match order.as_str() {
        "torch" => OrderKind::Torch { shuffle: true },
        "window" => OrderKind::Window { shards: 2 },
        _ => OrderKind::Elastic,
    };
    let options = LoaderOptions {
        batch_size: 7,
        order: OrderSpec { kind, seed: 5, drop_last: false },
        rank: rank.parse()?,
        world_size: world.parse()?,
        transform: Transform::train(32),
        numbers: match numbers.as_str() {
            "f16" => Numbers::F16,
            "bf16" => Numbers::Bf16,
            "stored" => Numbers::Stored,
            _ => Numbers::F32,
        },
        layout: if layout == "NCHW" { AxisOrder::Contiguous } else { AxisOrder::ChannelsLast },
        fields: fields.to_vec(),
        ..LoaderOptions::new(Split::Train)
    };
    let mut loader = Loader::new(bundle, options)?;
    for batch in loader.epoch(epoch.parse()?) {
        let batch = batch?;
        let fields: BTreeMap<&str, String> = batch
            .fields()
            .map(|(name, values)| {
                let mut hash = Sha256::new();
                match values {
                    Values::Array(array) => hash.update(array.bytes),
                    Values::Bytes(values) => values.iter().for_each(|value| hash.update(value)),
                }
                (name, hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
            })
            .collect();
        let (labels, keys) = (batch.labels(), batch.keys());
        println!(
            "{}",
            json!({"fields": fields, "label": labels, "index": batch.sample_ids(), "key": keys})
        );
    }
    Ok(())
}
