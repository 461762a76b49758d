//! `gular ls`.

use std::fmt::Write as _;

use clap::Args;
use serde_json::json;

use crate::exit::{Exit, Failure};
use crate::network::Access;
use crate::shared::Output;
use crate::stop::Stop;
use crate::{network, show};

/// List a collection (a folder of a federation)
#[derive(Debug, Args)]
#[command(after_help = "\
Exit codes: 0 done, 2 error, 75 try again later

Example:
  gular ls pelican://osg-htc.org/mylab/birds")]
pub(crate) struct LsArgs {
    /// A collection, or an object
    pub(crate) url: String,
    /// Also show lengths, in bytes
    #[arg(long, short)]
    pub(crate) long: bool,
    #[command(flatten)]
    pub(crate) access: Access,
}

pub(crate) fn run(args: &LsArgs, output: &Output) -> Result<Exit, Failure> {
    let stop = Stop::install()?;
    // The digest of a bundle's URL says nothing of a listing.
    let url = network::url(args.url.split('#').next().unwrap_or_default())?;
    let client = network::client(&args.access)?;
    let listing = client.list(&url, stop.watch()).map_err(|e| network::ended(e, &stop))?;
    if output.json {
        let entries: Vec<_> = listing
            .entries
            .iter()
            .map(|e| json!({ "name": e.name, "bytes": e.len_bytes, "collection": e.collection }))
            .collect();
        let skipped = listing.skipped;
        show::json(&json!({ "url": url.to_string(), "entries": entries, "skipped": skipped }))?;
        return Ok(Exit::Done);
    }
    let mut text = String::new();
    for entry in &listing.entries {
        let name = show::plain(&entry.name);
        let slash = if entry.collection { "/" } else { "" };
        if args.long {
            let bytes = entry.len_bytes.map_or("-".to_owned(), |n| n.to_string());
            let _ = writeln!(text, "{bytes:>14}  {name}{slash}");
        } else {
            let _ = writeln!(text, "{name}{slash}");
        }
    }
    show::text(&text)?;
    if listing.skipped > 0 && !output.quiet {
        let left_out = show::count(listing.skipped as u64, "name");
        show::message("note", &format!("{left_out} left out: their names cannot be part of a URL"));
    }
    Ok(Exit::Done)
}
