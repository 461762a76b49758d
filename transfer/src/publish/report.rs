//! What a publish did.

use gular_bundle::Digest;
use gular_pelican::{Uploaded, Url};
use serde::{Serialize, Serializer};

use crate::BundleUrl;

/// What was published.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PublishReport {
    /// `URL#blake3=…` of a bundle, the URL of a file.
    pub url: BundleUrl,
    /// The bundle's identity; none for a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<Digest>,
    /// Objects that are published now.
    pub objects: usize,
    /// Those of them that were sent.
    pub uploaded: usize,
    /// Those that were there already.
    pub identical: usize,
    /// Bytes of all objects.
    pub bytes: u64,
    /// Bytes of those that were sent.
    pub bytes_uploaded: u64,
    /// The names of objects whose first names were burned.
    #[serde(serialize_with = "urls")]
    pub renamed: Vec<Url>,
    /// Whether nothing was written.
    pub dry_run: bool,
    /// Wall-clock time.
    pub seconds: f64,
}

impl PublishReport {
    /// Of nothing yet.
    pub(super) fn new(url: BundleUrl, dry_run: bool) -> Self {
        Self {
            digest: url.digest,
            url,
            objects: 0,
            uploaded: 0,
            identical: 0,
            bytes: 0,
            bytes_uploaded: 0,
            renamed: Vec::new(),
            dry_run,
            seconds: 0.0,
        }
    }

    /// Counts the object that was to be stored at `asked`.
    pub(super) fn add(&mut self, asked: &Url, uploaded: Uploaded) {
        self.objects += 1;
        self.bytes = self.bytes.saturating_add(uploaded.len_bytes);
        if uploaded.identical {
            self.identical += 1;
        } else {
            self.uploaded += 1;
            self.bytes_uploaded = self.bytes_uploaded.saturating_add(uploaded.len_bytes);
        }
        if *asked != uploaded.url {
            self.renamed.push(uploaded.url);
        }
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
            report.add(&asked, Uploaded { url: to, len_bytes: 7, identical: false });
            report.add(&asked, Uploaded { url: asked.clone(), len_bytes: 5, identical: true });
            let expected = format!(
                r#"{{{expected},"objects":2,"uploaded":1,"identical":1,"bytes":12,"bytes_uploaded":7,"renamed":["file:///a/data/x~1"],"dry_run":false,"seconds":0.0}}"#
            );
            assert_eq!(serde_json::to_string(&report).unwrap(), expected);
        };
        let hex = Digest::of(b"").hex();
        check("file:///a/v1", r#""url":"file:///a/v1""#);
        let url = format!("file:///a/v1#blake3={hex}");
        check(&url, &format!(r#""url":"{url}","digest":"blake3:{hex}""#));
    }
}
