//! The report of publishing.

use gular_bundle::{Digest, MANIFEST_NAME};
use gular_pelican::{Compared, Uploaded, Url};
use serde::{Serialize, Serializer};

use crate::{BundleUrl, Error};

/// The result of publishing a bundle or a file.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PublishReport {
    /// For a bundle, `URL#blake3=…`; for a file, its URL.
    pub url: BundleUrl,
    /// The bundle's digest; absent for a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<Digest>,
    /// Number of objects that are published now.
    pub objects: usize,
    /// Number of objects that were sent.
    pub uploaded: usize,
    /// Number of objects that already existed.
    pub identical: usize,
    /// Number of objects that were compared only by their length.
    pub by_length: usize,
    /// Number of objects that were sent but not compared, since the token may not read them.
    pub not_read_back: usize,
    /// Number of objects that already existed but were not compared, since the token may not read
    /// them.
    pub not_compared: usize,
    /// Whether the manifest is among the objects that were not compared: then a different bundle
    /// may have this version.
    pub manifest_not_compared: bool,
    /// Objects that the origin refused, which are assumed to be there already.
    #[serde(skip)]
    pub(super) presumed: usize,
    /// Bytes of all objects.
    pub bytes: u64,
    /// Bytes of the objects that were sent.
    pub bytes_uploaded: u64,
    /// URLs of objects that were stored under another name, since an interrupted upload had left
    /// their first name unusable.
    #[serde(serialize_with = "urls")]
    pub renamed: Vec<Url>,
    /// Whether nothing was written.
    pub dry_run: bool,
    /// Wall-clock time.
    pub seconds: f64,
}

impl PublishReport {
    /// Makes an empty report.
    pub(crate) fn new(url: BundleUrl, dry_run: bool) -> Self {
        Self {
            digest: url.digest,
            url,
            objects: 0,
            uploaded: 0,
            identical: 0,
            by_length: 0,
            not_read_back: 0,
            not_compared: 0,
            manifest_not_compared: false,
            presumed: 0,
            bytes: 0,
            bytes_uploaded: 0,
            renamed: Vec::new(),
            dry_run,
            seconds: 0.0,
        }
    }

    /// Counts the object that was to be stored at `asked`.
    pub(crate) fn add(&mut self, asked: &Url, uploaded: Uploaded) {
        self.objects += 1;
        self.bytes = self.bytes.saturating_add(uploaded.len_bytes);
        if uploaded.identical {
            self.identical += 1;
        } else {
            self.uploaded += 1;
            self.bytes_uploaded = self.bytes_uploaded.saturating_add(uploaded.len_bytes);
        }
        let unread = matches!(uploaded.compared, Compared::Nothing | Compared::Presumed);
        self.by_length += usize::from(uploaded.compared == Compared::Length);
        self.presumed += usize::from(uploaded.compared == Compared::Presumed);
        if !self.dry_run && unread {
            self.not_compared += usize::from(uploaded.identical);
            self.not_read_back += usize::from(!uploaded.identical);
            let manifest = asked.name() == MANIFEST_NAME && self.digest.is_some();
            self.manifest_not_compared |= manifest && uploaded.identical;
        }
        if *asked != uploaded.url {
            self.renamed.push(uploaded.url);
        }
    }

    /// Returns the report, unless all objects were refused: servers refuse objects that exist in
    /// the same way as they refuse everything. If one object was accepted, the token is good.
    pub(crate) fn judged(self) -> Result<Self, Error> {
        if self.presumed > 0 && self.presumed == self.objects {
            let (url, refused) = (self.url.url.to_string(), self.presumed);
            return Err(Error::NoneAccepted { url, refused });
        }
        Ok(self)
    }
}

fn urls<S: Serializer>(urls: &[Url], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(urls.iter().map(Url::to_string))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_is_texts_and_numbers() {
        let check = |url: &str, expected: &str| {
            let mut report = PublishReport::new(url.parse().unwrap(), false);
            let asked = Url::parse("file:///a/data/x").unwrap();
            let to = asked.renamed(1);
            let compared = Compared::Bytes;
            report.add(&asked, Uploaded { url: to, len_bytes: 7, identical: false, compared });
            let url = asked.clone();
            report.add(&asked, Uploaded { url, len_bytes: 5, identical: true, compared });
            let expected = format!(
                r#"{{{expected},"objects":2,"uploaded":1,"identical":1,"by_length":0,"not_read_back":0,"not_compared":0,"manifest_not_compared":false,"bytes":12,"bytes_uploaded":7,"renamed":["file:///a/data/x~1"],"dry_run":false,"seconds":0.0}}"#
            );
            assert_eq!(serde_json::to_string(&report).unwrap(), expected);
        };
        let hex = Digest::of(b"").hex();
        check("file:///a/v1", r#""url":"file:///a/v1""#);
        let url = format!("file:///a/v1#blake3={hex}");
        check(&url, &format!(r#""url":"{url}","digest":"blake3:{hex}""#));
    }
}
