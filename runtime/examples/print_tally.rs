//! Prints the tally of the first positions of an epoch, order `elastic`, of split `train`:
//! `print_tally BUNDLE SEED EPOCH POSITIONS`. Peer tests compare it with the Python reader's.
#![expect(clippy::print_stdout, reason = "a program, not a library")]

use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use gular_runtime::order::{OrderKind, OrderSpec};
use gular_runtime::{Bundle, Loader, LoaderOptions, OpenOptions, Split};

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [bundle, seed, epoch, positions] = args.as_slice() else {
        return Err("expected BUNDLE SEED EPOCH POSITIONS".into());
    };
    let bundle = Arc::new(Bundle::open(Path::new(bundle), OpenOptions::default())?);
    let order = OrderSpec { kind: OrderKind::Elastic, seed: seed.parse()?, drop_last: false };
    let options = LoaderOptions { order, ..LoaderOptions::new(Split::Train) };
    let loader = Loader::new(bundle, options)?;
    let tally = loader.expected_tally(epoch.parse()?, 0..positions.parse()?)?;
    println!("{}", serde_json::to_string(&tally)?);
    Ok(())
}
