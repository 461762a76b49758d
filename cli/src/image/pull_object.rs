//! A SIF of a federation, by `gular image pull`.

use std::path::{Path, PathBuf};

use gular_pelican::Client;
use gular_transfer::{BundleUrl, FetchReport, Watch, fetch_object};
use serde::Serialize;

use super::pull::PullArgs;
use crate::exit::{Exit, Failure};
use crate::progress::bytes_bar;
use crate::shared::Output;
use crate::stop::Stop;
use crate::{network, show};

/// Hexadecimal digits of a digest in an image's name.
const NAME_DIGITS: usize = 16;

/// What `--json` shows.
#[derive(Debug, Serialize)]
struct Report {
    /// Where it is now.
    path: PathBuf,
    #[serde(flatten)]
    fetched: FetchReport,
}

/// Whether a text is the URL of an object, and not the name of an image in a registry.
pub(super) fn is_object(text: &str) -> bool {
    ["pelican://", "osdf://", "https://", "file://"].iter().any(|start| text.starts_with(start))
}

/// Fetches an image whose digest is in its URL, or the beginning of it in its name.
pub(super) fn run(args: &PullArgs, output: &Output) -> Result<Exit, Failure> {
    let stop = Stop::install()?;
    let url: BundleUrl = args.from.parse()?;
    let dir = args.to.clone().unwrap_or_else(|| ".".into());
    if dir.extension().is_some_and(|end| end == "sif") {
        let message = format!("`{}` is not a folder", dir.display());
        let hint = "name a folder: the image keeps its name, which has its digest";
        return Err(Failure::new(message, Some(hint.to_owned())));
    }
    let expected = match (&url.digest, hash_in(url.url.name())) {
        (None, None) => {
            let message = format!("the name in `{}` does not have the image's digest", url.url);
            let hint = "give a URL as `gular publish x.sif URL/` prints it, or add `#blake3=…` to it; `gular fetch` takes any object";
            return Err(Failure::new(message, Some(hint.to_owned())));
        }
        (_, name) => name,
    };
    let client = network::client(&args.access)?;
    let (fetched, path) = fetch(&client, &url, &dir, args.max_size, output, &stop)?;
    let found = fetched.digest.map(|digest| digest.to_string()).unwrap_or_default();
    let found = found.trim_start_matches("blake3:");
    if let Some(expected) = expected.filter(|expected| !found.starts_with(expected)) {
        std::fs::remove_file(&path)
            .map_err(|e| Failure::new(format!("cannot remove `{}`: {e}", path.display()), None))?;
        let url = &url.url;
        let message =
            format!("`{url}` has the BLAKE3 {found}, its name says that it begins with {expected}");
        let hint = "it was damaged or changed on the way: nothing was kept";
        let mut failure = Failure::new(message, Some(hint.to_owned()));
        failure.exit = Exit::Unsound;
        return Err(failure);
    }
    if output.json {
        show::json(&Report { path, fetched })?;
    } else if !output.quiet {
        let pace = show::pace(fetched.bytes_fetched, fetched.seconds);
        let size = show::size(fetched.bytes);
        show::text(&format!("{}: {size}{pace}\nblake3:{found}\n", path.display()))?;
    }
    Ok(Exit::Done)
}

fn fetch(
    client: &Client,
    url: &BundleUrl,
    dir: &Path,
    max_size: u64,
    output: &Output,
    stop: &Stop,
) -> Result<(FetchReport, PathBuf), Failure> {
    let stat = client.stat(&url.url, &stop.flag).map_err(|error| network::ended(error, stop))?;
    let len = stat.len_bytes.ok_or_else(|| {
        Failure::new(format!("no server reports the length of `{}`", url.url), None)
    })?;
    if len > max_size {
        let (found, limit) = (show::size(len), show::size(max_size));
        let message = format!("`{}` has {found}, over the limit of {limit}", url.url);
        let hint = "if you trust it, raise `--max-size`";
        return Err(Failure::new(message, Some(hint.to_owned())));
    }
    let bar = bytes_bar("fetch", len, output);
    let progress = |done: u64, total: u64| {
        bar.set_length(total);
        bar.set_position(done);
    };
    let watch = Watch { progress: &progress, ..Watch::silent(&stop.flag) };
    let fetched = fetch_object(client, url, len, dir, false, watch);
    bar.finish_and_clear();
    fetched.map_err(|error| network::ended(error, stop))
}

/// The beginning of a digest that `NAME-HASH.sif` has.
fn hash_in(name: &str) -> Option<&str> {
    let (_, word) = name.strip_suffix(".sif")?.rsplit_once('-')?;
    let is_hash = word.len() == NAME_DIGITS && word.bytes().all(|b| b.is_ascii_hexdigit());
    is_hash.then_some(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_tells_the_beginning_of_a_digest() {
        for (name, expected) in [
            ("train-0123456789abcdef.sif", Some("0123456789abcdef")),
            ("train-v1.sif", None),
            ("0123456789abcdef.sif", None),
            ("train-0123456789abcdef.tar", None),
        ] {
            assert_eq!(hash_in(name), expected, "{name}");
        }
        assert!(is_object("osdf:///lab/x.sif") && !is_object("docker://x") && !is_object("x/y"));
    }
}
