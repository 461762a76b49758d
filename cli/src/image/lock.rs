//! `gular image lock`.

use std::collections::BTreeMap;
use std::fs;

use gular_containers::lock::{self, Lock};
use gular_containers::{Package, Sha256};
use serde::Serialize;

use super::args::{LockArgs, PlaceArgs, SourceArgs};
use super::places::{Cache, Place, sources};
use super::transport::Web;
use crate::exit::{Exit, Failure};
use crate::network::ended;
use crate::progress::{bytes_bar, counter};
use crate::shared::Output;
use crate::show;
use crate::stop::Stop;

/// What `--json` shows.
#[derive(Debug, Serialize)]
struct Report {
    lock: String,
    dry_run: bool,
    written: bool,
    debian_packages: usize,
    wheels: usize,
    bytes: u64,
    added: Vec<String>,
    removed: Vec<String>,
    changed: Vec<String>,
    vendor: Option<String>,
}

pub(super) fn run(args: &LockArgs, output: &Output) -> Result<Exit, Failure> {
    let stop = Stop::install()?;
    let place = Place::open(&args.recipe)?;
    let shown = place.lock_path.display().to_string();
    if args.check {
        return fits(&place, &shown);
    }
    // What cannot be read is made anew.
    let old = place.lock().unwrap_or_default();
    let web = Web::new(&stop)?;
    let lock = resolve(&place, &args.sources, &args.place, &web, output, &stop)?;
    let text = lock.to_text();
    let same = fs::read_to_string(&place.lock_path).is_ok_and(|there| there == text);
    if !args.dry_run && !same {
        write(&place, &text)?;
    }
    if let Some(dir) = &args.vendor {
        let cache = Cache::new(&args.place)?;
        let archives = cache.archives(std::slice::from_ref(dir), args.place.offline);
        let bar = bytes_bar("fetch", lock.bytes(), output);
        let told = |name: &str, done: u64| {
            bar.set_message(format!("fetch {name}"));
            bar.set_position(done);
        };
        let done = lock::vendor(&lock, &archives, dir, &web, &told, &stop.flag);
        bar.finish_and_clear();
        done.map_err(|error| ended(error, &stop))?;
    }
    let (added, removed, changed) = changes(old.as_ref(), &lock);
    let report = Report {
        lock: shown,
        dry_run: args.dry_run,
        written: !args.dry_run && !same,
        debian_packages: lock.debs.len(),
        wheels: lock.wheels.len(),
        bytes: lock.bytes(),
        added,
        removed,
        changed,
        vendor: args.vendor.as_ref().map(|dir| dir.display().to_string()),
    };
    if output.json {
        show::json(&report)?;
    } else if !output.quiet {
        show::text(&words(&report))?;
    }
    Ok(Exit::Done)
}

/// Whether the lock is there and fits the recipe.
fn fits(place: &Place, shown: &str) -> Result<Exit, Failure> {
    let mut unfit = match place.lock()? {
        Some(lock) => match lock.check(&place.recipe, shown) {
            Ok(()) => return Ok(Exit::Done),
            Err(error) => Failure::from(error),
        },
        None => {
            let hint = "make it: `gular image lock`";
            Failure::new(format!("there is no `{shown}`"), Some(hint.to_owned()))
        }
    };
    unfit.exit = Exit::Unsound;
    Err(unfit)
}

/// Resolves the recipe against the archives.
pub(super) fn resolve(
    place: &Place,
    from: &SourceArgs,
    places: &PlaceArgs,
    web: &Web<'_>,
    output: &Output,
    stop: &Stop,
) -> Result<Lock, Failure> {
    if places.offline && place.recipe.needs_network() {
        let hint = "lock once without `--offline`; with image.lock nothing is resolved again";
        let message = "what an image takes cannot be found out without a network";
        return Err(Failure::new(message, Some(hint.to_owned())));
    }
    let bar = counter("resolve", output);
    let told = |what: &str| {
        bar.set_message(format!("resolve {what}"));
        bar.inc(1);
    };
    let lock = lock::lock(&place.recipe, &sources(from, &place.dir), web, &told);
    bar.finish_and_clear();
    lock.map_err(|error| ended(error, stop))
}

/// Writes the lock beside its place and renames it.
pub(super) fn write(place: &Place, text: &str) -> Result<(), Failure> {
    let path = &place.lock_path;
    let failed =
        |e: std::io::Error| Failure::new(format!("cannot write `{}`: {e}", path.display()), None);
    let mut temp = tempfile::NamedTempFile::new_in(&place.dir).map_err(failed)?;
    std::io::Write::write_all(&mut temp, text.as_bytes()).map_err(failed)?;
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    temp.as_file().set_permissions(mode).map_err(failed)?;
    temp.as_file().sync_all().map_err(failed)?;
    temp.persist(path).map_err(|e| failed(e.error))?;
    Ok(())
}

/// Names with versions: new, gone, of another version or digest.
fn changes(old: Option<&Lock>, new: &Lock) -> (Vec<String>, Vec<String>, Vec<String>) {
    let all = |lock: &Lock| -> BTreeMap<String, (String, Sha256)> {
        let one =
            |package: &Package| (package.name.clone(), (package.version.clone(), package.sha256));
        lock.packages().map(one).collect()
    };
    let (old, new) = (old.map(all).unwrap_or_default(), all(new));
    let shown = |name: &String, version: &String| format!("{name} {version}");
    let added = new.iter().filter(|(name, _)| !old.contains_key(*name));
    let removed = old.iter().filter(|(name, _)| !new.contains_key(*name));
    let changed = new.iter().filter_map(|(name, (version, sha))| {
        let (before, old_sha) = old.get(name)?;
        (old_sha != sha).then(|| format!("{name} {before} -> {version}"))
    });
    (
        added.map(|(name, (version, _))| shown(name, version)).collect(),
        removed.map(|(name, (version, _))| shown(name, version)).collect(),
        changed.collect(),
    )
}

fn words(report: &Report) -> String {
    let what = format!(
        "{} and {} ({} to fetch)",
        show::count(report.debian_packages as u64, "Debian package"),
        show::count(report.wheels as u64, "wheel"),
        show::size(report.bytes)
    );
    let lock = &report.lock;
    let mut text = match report {
        Report { dry_run: true, .. } => format!("dry run: {what}; nothing was written\n"),
        Report { written: true, .. } => format!("`{lock}`: {what}\n"),
        _ => format!("`{lock}` is up to date: {what}\n"),
    };
    for (sign, names) in [("+", &report.added), ("-", &report.removed), ("~", &report.changed)] {
        for name in names {
            text.push_str(&format!("  {sign} {name}\n"));
        }
    }
    if let Some(dir) = &report.vendor {
        text.push_str(&format!("all of them are in `{dir}`\n"));
    }
    text
}
