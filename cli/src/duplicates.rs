//! Images that occur twice in a bundle: every verb that makes or shows a bundle looks for them.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
use gular_bundle::{Bundle, OpenOptions};
use gular_pack::{Among, DuplicateGroup, DuplicateOptions, Duplicates, find_duplicates};
use serde::Serialize;

use crate::convert::stopped;
use crate::exit::Failure;
use crate::show;
use crate::stop::Stop;

/// What becomes of them.
#[derive(Debug, Args)]
pub(crate) struct DuplicatesArgs {
    /// Write all duplicate images to a CSV
    ///
    /// Its columns are digest, bundle, split, key and label.
    /// Duplicates have the same bytes, in two splits or twice in one. With and without this option
    /// they are counted, and the first ones are named.
    #[arg(long, value_name = "FILE")]
    pub(crate) duplicates_out: Option<PathBuf>,
}

impl DuplicatesArgs {
    /// Looks in the bundle in folder `dir`, which is whole.
    pub(crate) fn find_in(&self, dir: &Path, stop: &Stop) -> Result<Duplicates, Failure> {
        let bundle = Bundle::open(dir, OpenOptions::default())?;
        self.find(&Among { bundle: &bundle, has: &|_| true }, None, stop)
    }

    /// Looks in a bundle, or in both for what they share.
    pub(crate) fn find(
        &self,
        among: &Among<'_>,
        other: Option<&Among<'_>>,
        stop: &Stop,
    ) -> Result<Duplicates, Failure> {
        let list = self.duplicates_out.clone();
        let options = DuplicateOptions { list, ..DuplicateOptions::default() };
        find_duplicates(among, other, &options, &stop.flag).map_err(|e| stopped(e, stop))
    }
}

/// A report, with the duplicates among its members.
#[derive(Serialize)]
pub(crate) struct With<'a, R> {
    #[serde(flatten)]
    pub(crate) report: &'a R,
    /// Images that occur more than once; absent if no bundle was made, as in a dry run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) duplicates: Option<&'a Duplicates>,
}

/// Describes the duplicates; empty if there are none.
pub(crate) fn text(found: &Duplicates) -> String {
    if found.pictures == 0 {
        return String::new();
    }
    let (leaks, n) = (found.across_splits(), found.pictures);
    let mut text = format!(
        "\nduplicates: {} {} more than once, in {} samples",
        show::count(n, "image"),
        if n == 1 { "occurs" } else { "occur" },
        found.samples
    );
    if leaks > 0 {
        let across: Vec<String> =
            found.across.iter().map(|(splits, n)| format!("{n} in {splits}")).collect();
        let _ = write!(text, "; {}", across.join(", "));
    }
    if found.labelled_differently > 0 {
        let _ = write!(text, "; {} with different labels", found.labelled_differently);
    }
    text.push('\n');
    text.push_str(&groups(found, |_| String::new()));
    text
}

/// Describes the images that a bundle shares with the one in folder `other`.
pub(crate) fn text_against(found: &Duplicates, other: &Path) -> String {
    let other = other.display().to_string();
    if found.pictures == 0 {
        return format!("\nno image is also in `{other}`\n");
    }
    let mut text = format!(
        "\n{} also in `{other}`, in {} samples of both\n",
        match found.pictures {
            1 => "1 image is".to_owned(),
            n => format!("{n} images are"),
        },
        found.samples
    );
    text.push_str(&groups(found, |bundle| match bundle {
        0 => String::new(),
        _ => format!("{other}: "),
    }));
    text
}

/// Returns a line for each group that is listed.
fn groups(found: &Duplicates, bundle: impl Fn(usize) -> String) -> String {
    let mut text = String::new();
    for group in &found.named {
        let DuplicateGroup { samples, n, .. } = group;
        let named: Vec<String> = samples
            .iter()
            .map(|s| format!("{}{} ({})", bundle(s.bundle), show::plain(&s.key), s.split))
            .collect();
        let more = match n.saturating_sub(samples.len() as u64) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let _ = writeln!(text, "  {}{more}", named.join(" = "));
    }
    if found.pictures > found.named.len() as u64 {
        text.push_str("  … `--duplicates-out FILE` lists all\n");
    }
    text
}
