//! Lists a collection: PROPFIND for programs, an HTML page for browsers.

use std::fs::{File, Metadata};
use std::path::Path;

use hyper::http::request::Parts;
use hyper::{Method, StatusCode};

use super::body::Body;
use super::multistatus::{self, Entry};
use super::name::Name;
use super::object::{blocking, digest, fault_answer};
use super::reply::{Answer, refuse};
use super::store::{Fault, Store};
use gular_pelican::protocol::{Algorithm, encode_path};

/// Collections with more entries are not listed: the answer is made in memory.
const MAX_ENTRIES: usize = 100_000;

/// What listings say, and how.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Listing {
    /// Names are spelled as they are stored, instead of percent-encoded.
    pub(super) raw_names: bool,
    /// The checksum of each object is told.
    pub(super) checksums: bool,
}

/// Returns the answer to PROPFIND. Depth `infinity`, or none, counts as depth 0, as in XRootD.
pub(super) async fn propfind(
    parts: &Parts,
    store: Store,
    name: Name,
    listing: Listing,
) -> Result<Answer, Answer> {
    let below = match parts.headers.get("depth").map(hyper::http::HeaderValue::as_bytes) {
        Some(b"1") => true,
        None | Some(b"0" | b"infinity") => false,
        Some(_) => return Err(refuse(StatusCode::BAD_REQUEST, "depth is 0 or 1")),
    };
    // Escaping changes nothing in an encoded path.
    let href =
        move |path: &str| if listing.raw_names { path.to_owned() } else { encode_path(path) };
    let summed = store.clone();
    let entries = entries(store, name, below).await?.ok_or_else(too_many)?;
    let entries = blocking(move || {
        let entry = |(path, metadata): (String, Metadata)| {
            let wants_sum = listing.checksums && metadata.is_file();
            let name = Name::parse(&encode_path(&path)).filter(|_| wants_sum);
            let found = name.and_then(|name| summed.find(&name).ok());
            let checksum = found.and_then(|found| checksum(&found.path).ok());
            Entry { href: escape(&href(&path)), metadata, checksum }
        };
        Ok(entries.into_iter().map(entry).collect::<Vec<_>>())
    });
    let entries = entries.await.map_err(|fault| fault_answer(&fault))?;
    let text = multistatus::document(entries);
    Ok(Answer::new(StatusCode::MULTI_STATUS, Body::Text(text.into()))
        .with("content-type", "text/xml; charset=utf-8"))
}

/// The answer to GET or HEAD: a page, as XRootD has it, which clients must not take
/// for an object.
pub(super) async fn page(parts: &Parts, store: Store, name: Name) -> Result<Answer, Answer> {
    let body = if parts.method == Method::HEAD {
        Body::empty()
    } else {
        let title = escape(&name.text());
        let list = entries(store, name, true).await?.ok_or_else(too_many)?;
        let mut text = format!("<!DOCTYPE html>\n<title>{title}</title>\n<h1>{title}</h1>\n<ul>\n");
        for (path, metadata) in list.iter().skip(1) {
            let end = if metadata.is_dir() { "/" } else { "" };
            let shown = escape(path.rsplit('/').next().unwrap_or_default());
            text.push_str(&format!(
                "<li><a href=\"{}{end}\">{shown}{end}</a>\n",
                encode_path(path)
            ));
        }
        text.push_str("</ul>\n");
        Body::Text(text.into())
    };
    Ok(Answer::new(StatusCode::OK, body).with("content-type", "text/html; charset=utf-8"))
}

/// Returns the entry `name`, and those below it if they are asked for: full names, with their
/// kinds. `None` if there are too many.
async fn entries(
    store: Store,
    name: Name,
    below: bool,
) -> Result<Option<Vec<(String, Metadata)>>, Answer> {
    let list = move || -> Result<_, Fault> {
        let found = store.find(&name)?;
        let base = name.text();
        let is_collection = found.is_collection();
        let mut entries = vec![(base.clone(), found.metadata)];
        if below && is_collection {
            let Some(list) = store.list(&found.path, MAX_ENTRIES)? else { return Ok(None) };
            entries.extend(list.into_iter().map(|(name, m)| (format!("{base}/{name}"), m)));
        }
        Ok(Some(entries))
    };
    blocking(list).await.map_err(|fault| fault_answer(&fault))
}

/// dCache has this one of every file.
fn checksum(path: &Path) -> std::io::Result<String> {
    digest(&mut File::open(path)?, Algorithm::Adler32)
}

fn too_many() -> Answer {
    refuse(
        StatusCode::INSUFFICIENT_STORAGE,
        &format!("the collection has more than {MAX_ENTRIES} entries"),
    )
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
