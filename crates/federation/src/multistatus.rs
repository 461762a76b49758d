//! The answer to PROPFIND (RFC 4918, section 14.16), with the properties that XRootD's clients
//! read, and the one by which dCache tells checksums.

use std::fmt::Write as _;
use std::fs::Metadata;
use std::time::SystemTime;

use super::object::date;

/// The property by which dCache tells checksums.
pub(super) const CHECKSUMS: &str = "Checksums";

/// An object or collection that is listed.
pub(super) struct Entry {
    /// The path, as XML text.
    pub(super) href: String,
    pub(super) metadata: Metadata,
    /// As in a `Digest` header.
    pub(super) checksum: Option<String>,
}

/// A `multistatus` document of these entries.
pub(super) fn document(entries: impl IntoIterator<Item = Entry>) -> String {
    let mut text = String::from(
        "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<D:multistatus xmlns:D=\"DAV:\" \
         xmlns:ns0=\"DAV:\" xmlns:ns1=\"http://apache.org/dav/props/\">\n",
    );
    for entry in entries {
        response(&mut text, &entry);
    }
    text.push_str("</D:multistatus>\n");
    text
}

fn response(text: &mut String, entry: &Entry) {
    let Entry { href: path, metadata, checksum } = entry;
    let checksum = checksum.as_ref().map_or(String::new(), |sum| {
        let name = "http://www.dcache.org/2013/webdav";
        format!("<d1:{CHECKSUMS} xmlns:d1=\"{name}\">{sum}</d1:{CHECKSUMS}>")
    });
    let modified = date(metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH));
    let (kind, collection, len) = if metadata.is_dir() {
        ("<lp1:resourcetype><D:collection/></lp1:resourcetype>", 1, 0)
    } else {
        ("<lp1:resourcetype/>", 0, metadata.len())
    };
    let _ = writeln!(
        text,
        "<D:response xmlns:lp1=\"DAV:\" xmlns:lp2=\"http://apache.org/dav/props/\">\
         <D:href>{path}</D:href><D:propstat><D:prop>\
         <lp1:getcontentlength>{len}</lp1:getcontentlength>\
         <lp1:getlastmodified>{modified}</lp1:getlastmodified>{kind}\
         <lp1:iscollection>{collection}</lp1:iscollection>{checksum}</D:prop>\
         <D:status>HTTP/1.1 200 OK</D:status></D:propstat></D:response>",
    );
}
