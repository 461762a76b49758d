//! Measures our loader for `cargo xtask bench loader`: one process per row, which takes turns with
//! the processes of other loaders.
//!
//! ```text
//! loader_rates WHAT DIR …          starts, and prints {"contestants": […], "facts": {…}}
//!     ◀─ gular<TAB>2.0             a turn: this contestant, so many seconds
//!     ─▶ {"samples": …, "seconds": …, "cpu_seconds": …}   or {"error": "…"}
//! ```
//!
//! `loader_rates images DIR N` writes N photograph-like JPEGs instead.

#![allow(clippy::print_stdout, reason = "a program whose output is its answers")]

mod images;
mod passes;
mod pictures;
mod raw;
mod shards;
mod stream;
mod tally;
mod turn;

use std::error::Error;
use std::io::{BufRead as _, Write as _, stdin, stdout};
use std::path::Path;

use serde_json::json;

use turn::Host;

const USAGE: &str = "usage: loader_rates pictures|feed|centre|first|thread|epochs|whole BUNDLE, \
                     raw BUNDLE SCRATCH, stream GULAR BUNDLE SCRATCH, tally PICTURES RAW, passes DIR, \
                     shards DIR, memory DIR BACKEND [SHARDS SAMPLES pixels], images DIR N";

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let path = Path::new;
    let host = match words[..] {
        ["images", dir, n] => return images::write(path(dir), n.parse()?),
        ["pictures", bundle] => pictures::beside_the_decoder(path(bundle))?,
        ["feed", bundle] => pictures::alone(path(bundle))?,
        ["centre", bundle] => pictures::centre(path(bundle))?,
        ["first", bundle] => pictures::first_batch(path(bundle)),
        ["thread", bundle] => pictures::training_thread(path(bundle))?,
        ["epochs", bundle] => pictures::short_epochs(path(bundle))?,
        ["whole", bundle] => pictures::whole_epochs(path(bundle)),
        ["raw", bundle, scratch] => raw::host(path(bundle), path(scratch))?,
        ["stream", gular, bundle, scratch] => {
            stream::host(path(gular), path(bundle), path(scratch))?
        }
        ["tally", pictures, raw] => tally::host(path(pictures), path(raw))?,
        ["passes", dir] => passes::host(path(dir))?,
        ["shards", dir] => shards::host(path(dir))?,
        ["memory", dir, backend] => shards::memory(path(dir), backend, (2000, 500), false)?,
        ["memory", dir, backend, shards, samples, "pixels"] => {
            shards::memory(path(dir), backend, (shards.parse()?, samples.parse()?), true)?
        }
        _ => return Err(USAGE.into()),
    };
    serve(host)
}

/// Lets contestants have turns until the input ends.
fn serve(mut host: Host) -> Result<(), Box<dyn Error>> {
    let mut out = stdout();
    writeln!(out, "{}", json!({ "contestants": host.names(), "facts": host.facts }))?;
    for line in stdin().lock().lines() {
        let line = line?;
        let (name, seconds) = line.split_once('\t').ok_or("expected NAME<TAB>SECONDS")?;
        let answer = host
            .turn(name, seconds.parse()?)
            .unwrap_or_else(|error| json!({ "error": error.to_string() }));
        writeln!(out, "{answer}")?;
    }
    Ok(())
}
