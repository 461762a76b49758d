//! Measures what it costs to prove that each sample was delivered once.

use std::error::Error;
use std::hint::black_box;
use std::path::Path;

use gular_runtime::order::{Tally, Visit, term};
use gular_runtime::{Backend, Digest, Numbers, Transform};
use serde_json::json;

use crate::pictures::{feed, loader, open, run};
use crate::raw::AS_STORED;
use crate::turn::{Host, Watch};

const SAMPLES: u64 = 1_000_000;

/// Nanoseconds of CPU time per sample: of the tally, and of a loader that makes batches.
pub(crate) fn host(pictures: &Path, raw: &Path) -> Result<Host, Box<dyn Error>> {
    let mut host = Host::default();
    let bundle = open(pictures, Backend::Pread)?;
    host.add("the tally", move |_| {
        let digest = Digest::of(b"a sample");
        let watch = Watch::begin();
        let mut tally = Tally::default();
        for position in 0..SAMPLES {
            let visit = Visit { epoch: 0, position, sample: position };
            tally.add(term(visit, &digest), position, SAMPLES);
        }
        black_box(&tally);
        let delivered = watch.cpu_seconds();
        let loader = loader(&bundle, Transform::train(224), 1)?;
        let due_watch = Watch::begin();
        let mut due = 0;
        while due < SAMPLES {
            due += loader.expected_tally(due, 0..loader.n_positions())?.count.max(1);
        }
        let each = |seconds: f64, n: u64| seconds * 1e9 / n as f64;
        let (delivered, due) = (each(delivered, SAMPLES), each(due_watch.cpu_seconds(), due));
        Ok(json!({
            "samples": SAMPLES, "seconds": watch.seconds(), "cpu_seconds": watch.cpu_seconds(),
            "ns_per_sample": delivered + due, "delivered_ns": delivered, "due_ns": due,
        }))
    });
    for (name, dir, transform) in
        [("a photograph", pictures, Transform::train(224)), ("raw pixels", raw, AS_STORED)]
    {
        let mut feed = feed(&open(dir, Backend::Pread)?, transform, 0, Numbers::F32)?;
        let mut epoch = 0;
        host.add(name, move |seconds| {
            let mut answer = run(&mut feed, &mut epoch, seconds)?;
            let (samples, cpu) = (answer["samples"].as_f64(), answer["cpu_seconds"].as_f64());
            answer["ns_per_sample"] = samples.zip(cpu).map(|(n, cpu)| cpu * 1e9 / n).into();
            Ok(answer)
        });
    }
    Ok(host)
}
