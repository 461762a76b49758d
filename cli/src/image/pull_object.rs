//! Fetches a SIF from a federation for `gular image pull`.

use std::path::{Path, PathBuf};

use gular_bundle::{BlockTree, Digest};
use gular_pelican::Client;
use gular_transfer::{BundleUrl, FetchReport, fetch_object, fetch_object_by_blocks, read_blocks};
use serde::Serialize;

use super::pull::PullArgs;
use crate::exit::{Exit, Failure};
use crate::progress::watched;
use crate::shared::Output;
use crate::stop::Stop;
use crate::{network, show};

/// Hexadecimal digits of a digest in an image's name.
const NAME_DIGITS: usize = 16;

/// What `--json` shows.
#[derive(Debug, Serialize)]
struct ObjectReport {
    /// The path of the fetched image.
    path: PathBuf,
    #[serde(flatten)]
    fetched: FetchReport,
    /// Blocks that were each checked as they arrived; none where their digests are not published.
    #[serde(skip_serializing_if = "Option::is_none")]
    blocks: Option<usize>,
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
        let hint = "give a folder: the image keeps its name, which contains its digest";
        return Err(Failure::new(message, Some(hint.to_owned())));
    }
    let expected = match (&url.digest, hash_in(url.url.name())) {
        (None, None) => {
            let message =
                format!("the file name in `{}` does not contain the image's digest", url.url);
            let hint = "use the URL that `gular publish x.sif URL/` printed, or add `#blake3=…` to yours; for objects other than images use `gular fetch`";
            return Err(Failure::new(message, Some(hint.to_owned())));
        }
        (_, name) => name,
    };
    let client = network::client(&args.access)?;
    let is_wanted = |found: Digest| {
        url.digest.is_none_or(|expected| expected == found)
            && expected.is_none_or(|expected| found.hex().starts_with(expected))
    };
    let tree = read_blocks(&client, &url.url, &is_wanted, stop.watch())
        .map_err(|error| network::ended(error, &stop))?;
    let fetching = Fetching { url: &url, dir: &dir, max_size: args.max_size, output, stop: &stop };
    let (fetched, path) = fetching.all(&client, tree.as_ref())?;
    let found = fetched.digest.map(|digest| digest.to_string()).unwrap_or_default();
    let found = found.trim_start_matches("blake3:");
    if let Some(expected) = expected.filter(|expected| !found.starts_with(expected)) {
        std::fs::remove_file(&path)
            .map_err(|e| Failure::new(format!("cannot remove `{}`: {e}", path.display()), None))?;
        let url = &url.url;
        let message =
            format!("`{url}` has the BLAKE3 digest {found}, expected {expected}… as in its name");
        let hint = "the image was damaged or changed, and was not kept: fetch it again, or ask its publisher";
        let mut failure = Failure::new(message, Some(hint.to_owned()));
        failure.exit = Exit::Unsound;
        return Err(failure);
    }
    if output.json {
        let blocks = tree.as_ref().map(BlockTree::n_blocks);
        show::json(&ObjectReport { path, fetched, blocks })?;
    } else if !output.quiet {
        let pace = show::pace(fetched.bytes_fetched, fetched.seconds);
        let size = show::size(fetched.bytes);
        let how = if tree.is_some() { ", checked block by block" } else { "" };
        show::text(&format!("{}: {size}{pace}{how}\nblake3:{found}\n", path.display()))?;
    }
    Ok(Exit::Done)
}

/// The object that is fetched, and where it is stored.
struct Fetching<'a> {
    url: &'a BundleUrl,
    dir: &'a Path,
    max_size: u64,
    output: &'a Output,
    stop: &'a Stop,
}

impl Fetching<'_> {
    /// Block by block where the digests of its blocks are known.
    fn all(
        &self,
        client: &Client,
        tree: Option<&BlockTree>,
    ) -> Result<(FetchReport, PathBuf), Failure> {
        let Self { url, dir, stop, .. } = *self;
        let len = self.len(client, tree)?;
        let fetched = watched("fetch", self.output, stop, |watch, _| match tree {
            Some(tree) => fetch_object_by_blocks(client, url, tree, dir, watch),
            None => fetch_object(client, url, len, dir, false, watch),
        });
        fetched.map_err(|error| network::ended(error, stop))
    }

    /// Returns the object's length, unless it is over the limit.
    fn len(&self, client: &Client, tree: Option<&BlockTree>) -> Result<u64, Failure> {
        let url = &self.url.url;
        let len = match tree {
            Some(tree) => tree.len_bytes(),
            None => {
                let stat = client.stat(url, self.stop.watch());
                let stat = stat.map_err(|error| network::ended(error, self.stop))?;
                stat.len_bytes.ok_or_else(|| {
                    Failure::new(format!("no server reports the length of `{url}`"), None)
                })?
            }
        };
        if len > self.max_size {
            let (found, limit) = (show::size(len), show::size(self.max_size));
            let message = format!("`{url}` has {found}, more than the limit of {limit}");
            let hint = "if you trust the image, raise `--max-size`";
            return Err(Failure::new(message, Some(hint.to_owned())));
        }
        Ok(len)
    }
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
