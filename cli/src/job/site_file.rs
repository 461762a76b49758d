//! The lines that jobs of a site need, as a file of the user has them.
//!
//! ```toml
//! master-suffix = "i"
//!
//! [[line]]
//! text = "--threads-per-core=1"
//! page = "https://…"
//! date = "2026-08"
//!
//! [[before]]
//! text = "export NCCL_SOCKET_IFNAME=ib0"
//! page = "https://…"
//! date = "2026-08"
//! ```

use std::fs;
use std::path::Path;

use gular_jobs::write::JobLine;
use serde::Deserialize;

use crate::exit::Failure;

/// What `--site-file` names.
#[derive(Debug, Default)]
pub(super) struct SiteFile {
    pub(super) lines: Vec<JobLine>,
    pub(super) before: Vec<JobLine>,
    pub(super) master_suffix: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct SiteText {
    #[serde(default)]
    line: Vec<SourcedLine>,
    #[serde(default)]
    before: Vec<SourcedLine>,
    master_suffix: Option<String>,
}

/// A line with the page that it rests on.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SourcedLine {
    text: String,
    page: String,
    date: String,
}

impl SiteFile {
    pub(super) fn read(path: &Path) -> Result<Self, Failure> {
        let text = fs::read_to_string(path)
            .map_err(|e| Failure::from(gular_files::Error::new("read", path, e)))?;
        let read: SiteText = toml::from_str(&text).map_err(|e| {
            let hint = "write `[[line]]` or `[[before]]` with `text`, `page` and `date`, and `master-suffix`";
            let before = e.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
            let line = before.matches('\n').count() + 1;
            let what = e.message();
            let message = format!("`{}` is not a site file: line {line}: {what}", path.display());
            Failure::new(message, Some(hint.to_owned()))
        })?;
        let is_plain =
            |suffix: &String| suffix.chars().all(|c| c.is_ascii_alphanumeric() || ".-".contains(c));
        if let Some(suffix) = read.master_suffix.as_ref().filter(|suffix| !is_plain(suffix)) {
            let hint = "write the end of a host name, such as `i` or `-ib`";
            let message = format!(
                "`{}`: the `master-suffix` `{suffix}` is not a part of a host name",
                path.display()
            );
            return Err(Failure::new(message, Some(hint.to_owned())));
        }
        let line = |line: SourcedLine| JobLine {
            text: line.text,
            source: format!("{}, {}", line.page, line.date),
        };
        Ok(Self {
            lines: read.line.into_iter().map(line).collect(),
            before: read.before.into_iter().map(line).collect(),
            master_suffix: read.master_suffix,
        })
    }
}
