//! Measures the time from a URL to the first step of a training run, and how much of it the shards
//! of its first window take alone. The federation is a process on this machine; every turn begins
//! with an empty cache.

use std::error::Error;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use gular_bundle::{MANIFEST_NAME, NotBrought, ShardIdx, ShardSource};
use gular_runtime::order::{OrderKind, OrderSpec};
use gular_runtime::{
    Bundle, BundleOptions, Env, Loader, LoaderOptions, Split, UnknownLabels, Watch, open_bundle,
};

use crate::turn::{Host, Watch as Clock};

/// Number of shards in a window, as in `gular-train`.
const WINDOW: usize = 16;

/// Shards that the loader, and `gular fetch`, bring at a time.
const AT_ONCE: usize = 4;

/// `bundle` at a URL that `gular` serves below `scratch`.
pub(crate) fn host(gular: &Path, bundle: &Path, scratch: &Path) -> Result<Host, Box<dyn Error>> {
    let site = Rc::new(Site::start(gular, bundle, scratch)?);
    let mut host = Host::default();
    let served = Rc::clone(&site);
    host.add("first step", move |_| {
        served.forget()?;
        let clock = Clock::begin();
        let order = OrderKind::Window { shards: WINDOW as u64 };
        let options = LoaderOptions {
            order: OrderSpec { kind: order, seed: 0, drop_last: false },
            unknown_labels: UnknownLabels::Ignore,
            ..LoaderOptions::new(Split::Train)
        };
        let bundle = served.open()?;
        let opened = clock.seconds();
        let mut loader = Loader::new(Arc::new(bundle), options)?;
        let batch = loader.epoch(0).next().ok_or("no batch")??;
        let mut answer = clock.answer(batch.len() as u64);
        answer["ms"] = (clock.seconds() * 1e3).into();
        answer["open_ms"] = (opened * 1e3).into();
        Ok(answer)
    });
    host.add("the window alone", move |_| {
        site.forget()?;
        let bundle = site.open()?;
        let source = bundle.source().ok_or("its shards are not brought")?;
        let clock = Clock::begin();
        bring(&**source, WINDOW.min(bundle.manifest().shards.len()))?;
        let mut answer = clock.answer(WINDOW as u64);
        answer["ms"] = (clock.seconds() * 1e3).into();
        Ok(answer)
    });
    Ok(host)
}

/// Fetches the first `n` shards.
fn bring(source: &dyn ShardSource, n: usize) -> Result<(), NotBrought> {
    let (next, cancel) = (AtomicUsize::new(0), AtomicBool::new(false));
    let work = || {
        loop {
            let shard = ShardIdx(next.fetch_add(1, Ordering::Relaxed));
            if shard.0 >= n {
                return Ok(());
            }
            let _hold = source.hold(shard, &cancel)?;
            source.bring(shard, &|_| 0, &cancel)?;
        }
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(work)).collect();
        threads.into_iter().try_for_each(|thread| match thread.join() {
            Ok(brought) => brought,
            Err(panic) => std::panic::resume_unwind(panic),
        })
    })
}

/// A federation with the bundle, and an empty cache.
struct Site {
    server: Child,
    url: String,
    env: Env,
    cache: PathBuf,
}

impl Site {
    fn start(gular: &Path, bundle: &Path, scratch: &Path) -> Result<Self, Box<dyn Error>> {
        let served = scratch.join("federation");
        let set = served.join("origin/gular/set");
        if !set.exists() {
            publish(bundle, &set)?;
        }
        let mut serve = Command::new(gular);
        serve.args(["federation", "serve"]).arg(&served).args([
            "--public-read",
            "--json",
            "--quiet",
        ]);
        let mut server = serve.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        BufReader::new(server.stdout.take().ok_or("no output")?).read_line(&mut line)?;
        let told: serde_json::Value = serde_json::from_str(&line)?;
        let (url, ca) =
            (told["url"].as_str().ok_or("no URL")?, told["ca"].as_str().ok_or("no CA")?);
        Ok(Self {
            server,
            url: format!("{url}/set/v1"),
            env: Env::from_pairs(&[("SSL_CERT_FILE", ca)]),
            cache: scratch.join("cache"),
        })
    }

    fn open(&self) -> Result<Bundle, Box<dyn Error>> {
        let options = BundleOptions {
            cache: Some(self.cache.clone()),
            streamed: true,
            ..BundleOptions::default()
        };
        let cancel = AtomicBool::new(false);
        Ok(open_bundle(&self.url, &options, &self.env, Watch::silent(&cancel))?.bundle)
    }

    fn forget(&self) -> Result<(), Box<dyn Error>> {
        if self.cache.exists() {
            fs::remove_dir_all(&self.cache)?;
        }
        Ok(())
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        // The server has nothing to lose.
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// Lays a bundle out as `gular publish` does, with links where they can be made.
fn publish(bundle: &Path, set: &Path) -> Result<(), Box<dyn Error>> {
    let (data, version) = (set.join("data"), set.join("v1"));
    fs::create_dir_all(&data)?;
    fs::create_dir_all(&version)?;
    for entry in fs::read_dir(bundle.join("data"))? {
        let entry = entry?;
        let to = data.join(entry.file_name());
        fs::hard_link(entry.path(), &to).or_else(|_| fs::copy(entry.path(), &to).map(drop))?;
    }
    fs::copy(bundle.join(MANIFEST_NAME), version.join(MANIFEST_NAME))?;
    Ok(())
}
