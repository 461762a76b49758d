//! `gular adopt`.

use std::fmt::Write as _;

use gular_pack::{AdoptOptions, AdoptReport, adopt};

use crate::args::{AdoptArgs, Output};
use crate::convert::{stopped, with_bar};
use crate::exit::{Exit, Failure};
use crate::show;
use crate::stop::Stop;

pub(crate) fn run(args: &AdoptArgs, output: &Output) -> Result<Exit, Failure> {
    let stop = Stop::install()?;
    let options = AdoptOptions {
        image: args.image.clone(),
        label: args.label.clone(),
        key: args.key.as_ref().map(|k| (k != "none").then(|| k.clone())),
        split: args.split.unwrap_or_default(),
        about: (&args.about).into(),
        jobs: args.jobs.count(),
        memory: usize::try_from(args.memory).unwrap_or(usize::MAX),
        dry_run: args.dry_run,
    };
    let result = with_bar("adopt", output, |progress| {
        adopt(&args.paths, &args.out, &options, progress, &stop.flag)
    });
    let report = result.map_err(|e| stopped(e, &stop))?;
    for warning in &report.warnings {
        show::message("warning", warning);
    }
    if output.json {
        show::json(&report)?;
    } else if !output.quiet {
        show::text(&table(&report, args))?;
    }
    Ok(Exit::Done)
}

fn table(report: &AdoptReport, args: &AdoptArgs) -> String {
    let mut text = format!(
        "{} of {}, {}\n",
        show::count(report.shards, "file"),
        report.envelope,
        show::size(report.bytes)
    );
    for (split, samples) in &report.splits {
        let _ = writeln!(text, "{split:<8}{samples:>12} samples");
    }
    for (field, column) in &report.fields {
        let _ = writeln!(text, "field {field}: column `{column}`");
    }
    let _ = writeln!(text, "keys: {}", report.keys);
    if report.classes > 0 {
        let _ = writeln!(text, "classes: {}", report.classes);
    }
    for (column, reason) in &report.left_out {
        let _ = writeln!(text, "left out: column `{column}`: {reason}");
    }
    match &report.digest {
        None => text.push_str("dry run: nothing was written\n"),
        Some(digest) => {
            let _ = writeln!(
                text,
                "adopted in {:.2} s; nothing was copied, the files must stay as they are\n{digest}\nnext: gular verify {}",
                report.seconds,
                args.out.display()
            );
        }
    }
    text
}
