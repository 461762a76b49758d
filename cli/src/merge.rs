//! `gular pack --merge`.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::parser::ValueSource;
use clap::{ArgMatches, Args};
use gular_pack::MergeOptions;

use crate::convert::{stopped, with_bar};
use crate::duplicates::{self, DuplicatesArgs, With};
use crate::exit::{Exit, Failure};
use crate::shared::{Jobs, Output};
use crate::show;
use crate::stop::Stop;

/// Making one bundle of parts, and what it has in common with packing.
#[derive(Debug, Args)]
pub(crate) struct MergeArgs {
    /// Make one bundle of finished parts: PART… OUT
    ///
    /// Name the folders that --part packed, in any order, then the new bundle's folder. It gets the
    /// bytes and the digest that one machine would have made. On one file system the parts' files
    /// are hard-linked; otherwise they are copied and checked against their digests. Missing and
    /// repeated parts, and parts of another source or with other options, are errors. Give options
    /// that choose the content when you pack the parts, not here.
    #[arg(long, value_name = "PART", num_args = 2.., help_heading = "Versions and parts")]
    pub(crate) merge: Vec<PathBuf>,
    /// Only scan and plan: show counts, bytes and shards
    ///
    /// No image is decoded and nothing is written.
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// The options that `--merge` can be combined with.
const USED: [&str; 6] = ["merge", "dry_run", "jobs", "duplicates_out", "json", "quiet"];

/// The first argument that a merge would not use, if it is one, as the user gave it.
pub(crate) fn unused(command: &clap::Command, pack: &ArgMatches) -> Option<String> {
    let given = |id: &str| pack.value_source(id) == Some(ValueSource::CommandLine);
    // Groups have the names of types as ids.
    let is_arg = |id: &str| id.starts_with(|c: char| c.is_ascii_lowercase());
    let ids = pack.ids().map(clap::Id::as_str);
    let mut unused = ids.filter(|id| is_arg(id) && given(id) && !USED.contains(id));
    let id = unused.next().filter(|_| given("merge"))?;
    let long = command.get_arguments().find(|arg| arg.get_id() == id).and_then(clap::Arg::get_long);
    Some(long.map_or_else(|| id.to_uppercase(), |long| format!("--{long}")))
}

pub(crate) fn run(
    args: &MergeArgs,
    jobs: Jobs,
    duplicates: &DuplicatesArgs,
    output: &Output,
) -> Result<Exit, Failure> {
    let Some((out, parts)) = args.merge.split_last() else {
        return Err(Failure::new("there is nothing to pack", None));
    };
    let stop = Stop::install()?;
    let options = MergeOptions { jobs: jobs.count(), dry_run: args.dry_run };
    let result = with_bar("merge", output, |progress| {
        gular_pack::merge(parts, out, &options, progress, &stop.flag)
    });
    let report = result.map_err(|e| stopped(e, &stop))?;
    let found = match report.dry_run {
        true => None,
        false => Some(duplicates.find_in(out, &stop)?),
    };
    if output.json {
        show::json(&With { report: &report, duplicates: found.as_ref() })?;
        return Ok(Exit::Done);
    }
    if output.quiet {
        return Ok(Exit::Done);
    }
    let n_parts = show::count(report.parts, "part");
    let (samples, shards, size) = (
        show::count(report.samples, "sample"),
        show::count(report.shards, "shard"),
        show::size(report.bytes),
    );
    let mut text = String::new();
    if report.skipped > 0 {
        let _ = match report.dry_run {
            true => writeln!(text, "left out by the parts: {}", report.skipped),
            false => {
                let list = out.join(gular_pack::SKIPPED_NAME);
                writeln!(text, "left out: {}, listed in `{}`", report.skipped, list.display())
            }
        };
    }
    if report.empty_tiles > 0 {
        let tiles = show::count(report.empty_tiles, "tile");
        let _ = writeln!(text, "left out: {tiles} with too few valid pixels (--min-valid)");
    }
    let digest = report.digest;
    text.push_str(&match (report.dry_run, report.already_done) {
        (true, _) => format!(
            "dry run: {samples}, {size} in {shards} of {n_parts}; nothing was written\n{digest}\n"
        ),
        (_, true) => format!("nothing to do: {n_parts} were merged before\n{digest}\n"),
        _ => {
            let how = match report.copied {
                0 => String::new(),
                copied => format!(", {} copied", show::size(copied)),
            };
            format!(
                "merged {n_parts}: {samples}, {size} in {shards}{how}, {:.2} s\n{digest}\nnext: gular verify {}\n",
                report.seconds,
                show::quoted(&out.display().to_string())
            )
        }
    });
    text.push_str(&found.map(|found| duplicates::text(&found)).unwrap_or_default());
    show::text(&text)?;
    Ok(Exit::Done)
}
