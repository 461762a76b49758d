//! The answer to PROPFIND (RFC 4918, section 14.16), with the properties that XRootD's clients
//! read.

use std::fmt::Write as _;
use std::fs::Metadata;
use std::time::SystemTime;

use super::object::date;

/// A `multistatus` document of these entries, each a path as XML text and what lies there.
pub(super) fn document(entries: impl IntoIterator<Item = (String, Metadata)>) -> String {
    let mut text = String::from(
        "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<D:multistatus xmlns:D=\"DAV:\" \
         xmlns:ns0=\"DAV:\" xmlns:ns1=\"http://apache.org/dav/props/\">\n",
    );
    for (path, metadata) in entries {
        response(&mut text, &path, &metadata);
    }
    text.push_str("</D:multistatus>\n");
    text
}

fn response(text: &mut String, path: &str, metadata: &Metadata) {
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
         <lp1:iscollection>{collection}</lp1:iscollection></D:prop>\
         <D:status>HTTP/1.1 200 OK</D:status></D:propstat></D:response>",
    );
}
