//! `checkpoint.json`: lists what a checkpoint contains, with the digests that prove it.

use gular_bundle::Digest;
use serde::{Deserialize, Serialize};

/// The file of a checkpoint that describes the others.
pub const RECORD_NAME: &str = "checkpoint.json";

/// The version of checkpoints that this build writes, and the newest it reads.
pub const CHECKPOINT_VERSION: u64 = 1;

pub(crate) const FORMAT: &str = "gular-checkpoint";

// The key of the record's own digest, with which it ends in every version: BLAKE3 of all bytes
// before this key. A flipped bit in the bundle's digest or the version therefore counts as damage,
// so that an older checkpoint is used, and not as a refusal, which ends the job.
const DIGEST_KEY: &str = "  \"digest\": ";

/// One file of a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FileRecord {
    pub(crate) name: String,
    pub(crate) bytes: u64,
    pub(crate) digest: Digest,
}

/// The record without its own digest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) format: String,
    pub(crate) version: u64,
    pub(crate) bundle: Digest,
    pub(crate) step: u64,
    pub(crate) files: Vec<FileRecord>,
}

/// Why bytes are not a record of this version.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum RecordFault {
    Damaged(String),
    TooNew(u64),
}

impl Record {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut text = serde_json::to_string_pretty(self)
            .expect("a record has only strings and numbers, which JSON can say");
        text.truncate(text.trim_end_matches(['}', '\n']).len());
        text.push_str(",\n");
        let digest = Digest::of(text.as_bytes());
        text.push_str(&format!("{DIGEST_KEY}\"{digest}\"\n}}\n"));
        text.into_bytes()
    }

    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, RecordFault> {
        #[derive(Deserialize)]
        struct Head {
            format: String,
            version: u64,
        }
        let damaged = |reason: String| RecordFault::Damaged(format!("`{RECORD_NAME}` {reason}"));
        let text = std::str::from_utf8(bytes).map_err(|e| damaged(format!("is not UTF-8: {e}")))?;
        let (body, tail) = text
            .rfind(DIGEST_KEY)
            .and_then(|at| text.split_at_checked(at))
            .ok_or_else(|| damaged("is cut short: it does not end with its digest".into()))?;
        let found = Digest::of(body.as_bytes());
        if tail != format!("{DIGEST_KEY}\"{found}\"\n}}\n") {
            return Err(damaged(format!(
                "is damaged: its digest is {found}, not the one at its end"
            )));
        }
        let head: Head = serde_json::from_str(text).map_err(|e| damaged(e.to_string()))?;
        if head.format != FORMAT {
            return Err(damaged(format!("has format `{}`, expected `{FORMAT}`", head.format)));
        }
        if head.version > CHECKPOINT_VERSION {
            return Err(RecordFault::TooNew(head.version));
        }
        serde_json::from_str(text).map_err(|e| damaged(e.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record {
        Record {
            format: FORMAT.into(),
            version: CHECKPOINT_VERSION,
            bundle: Digest::of(b"bundle"),
            step: 12,
            files: vec![FileRecord {
                name: "model.safetensors".into(),
                bytes: 3,
                digest: Digest::of(b"abc"),
            }],
        }
    }

    #[test]
    fn record_is_json_and_reads_back() {
        let bytes = record().encode();
        let json: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
        assert_eq!(json["format"], "gular-checkpoint");
        assert_eq!(json["files"][0]["name"], "model.safetensors");
        assert_eq!(Record::parse(&bytes), Ok(record()));
        let empty = Record { files: vec![], ..record() };
        assert_eq!(Record::parse(&empty.encode()), Ok(empty));
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_damage() {
        let bytes = record().encode();
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut other = bytes.clone();
                other[at] ^= 1 << bit;
                assert!(
                    matches!(Record::parse(&other), Err(RecordFault::Damaged(_))),
                    "byte {at} bit {bit}"
                );
            }
            assert!(
                matches!(Record::parse(&bytes[..at]), Err(RecordFault::Damaged(_))),
                "cut {at}"
            );
        }
    }

    #[test]
    fn newer_version_is_told_from_damage() {
        let newer = Record { version: 7, ..record() }.encode();
        assert_eq!(Record::parse(&newer), Err(RecordFault::TooNew(7)));
    }
}
