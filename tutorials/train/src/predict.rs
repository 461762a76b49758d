//! `predict`: what a network takes each sample for, in the order of keys.

use std::fs::Permissions;
use std::io::{BufWriter, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context as _, Result, anyhow, ensure};
use gular_runtime::{Split, UnknownLabels};
use serde_json::json;

use crate::args::PredictArgs;
use crate::predictions::{Kept, Predictions, Rows, is_broken_pipe};
use crate::report::say;
use crate::score::{Scorer, check_folder_of, rate, softmax};

pub(crate) fn run(args: &PredictArgs) -> Result<()> {
    let since = Instant::now();
    ensure!(
        args.out.is_some() || !args.score.data.json,
        "`--json` and the predictions both go to stdout; name a file for these with `--out`"
    );
    args.out.as_deref().map_or(Ok(()), check_folder_of)?;
    let scorer = Scorer::new(&args.score, args.split.into_iter().collect())?;
    scorer.or_tell(|| {
        let (bundle, n_classes) = (&scorer.bundle, scorer.n_classes);
        let names = scorer
            .classes(args.other_classes)
            .map_err(|error| anyhow!("{error}; `--other-classes` predicts those of the weights"))?;
        // Of classes that are not the bundle's, labels would say nothing.
        let labels = bundle.manifest().has_labels()
            && names.as_ref().is_some_and(|names| *names == bundle.manifest().classes);
        let names = names.unwrap_or_else(|| (0..n_classes).map(|i| i.to_string()).collect());
        let wanted = |split: &Split| args.split.is_none_or(|only| only == *split);
        let splits = Split::ALL.into_iter().filter(wanted);
        let splits: Vec<Split> = splits.filter(|split| bundle.n_samples(*split) > 0).collect();
        let of = args.split.map(|split| format!(" of split `{split}`")).unwrap_or_default();
        ensure!(!splits.is_empty(), "the bundle has no samples{of}");
        let kept = match args.top {
            None => Kept::All,
            Some(n) => Kept::Top(usize::try_from(n).unwrap_or(usize::MAX).min(n_classes)),
        };
        let mut all = Vec::new();
        for split in splits {
            let mut rows = Rows::new(split, bundle.n_samples(split), n_classes, kept)?;
            let mut row = Vec::new();
            scorer.each(split, UnknownLabels::Ignore, |scores| {
                let of_samples = scores.rows.chunks_exact(n_classes);
                for (sample, scores) in scores.sample_ids.iter().zip(of_samples) {
                    row.clear();
                    row.extend_from_slice(scores);
                    if !args.logits {
                        softmax(&mut row);
                    }
                    rows.set(*sample, &row)?;
                }
                Ok(())
            })?;
            rows.add_up(&scorer.parallel)?;
            all.push(rows);
        }
        if scorer.ranks.rank > 0 {
            return Ok(());
        }
        let unit = if args.logits { "score" } else { "probability" };
        let predictions = Predictions::new(bundle, all, names, labels, unit)?;
        match &args.out {
            None => {
                let written = predictions.write_csv(&mut BufWriter::new(std::io::stdout()));
                written
                    .or_else(|error| if is_broken_pipe(&error) { Ok(()) } else { Err(error) })?;
            }
            Some(path) => write(&predictions, path)
                .with_context(|| format!("cannot write `{}`", path.display()))?,
        }
        if args.score.data.json {
            let summary = json!({
                "bundle": bundle.digest().to_string(),
                "weights": scorer.weights.digest.to_string(),
                "samples": predictions.len(),
                "out": args.out,
                "world_size": scorer.ranks.world_size,
                "place": scorer.place.to_string(),
            });
            writeln!(std::io::stdout(), "{summary}").context("cannot write the summary")?;
        }
        if !args.score.data.quiet {
            say!("{}", rate(predictions.len() as u64, since));
        }
        Ok(())
    })?;
    scorer.finish()
}

/// Writes the file whole or not at all.
fn write(predictions: &Predictions, path: &Path) -> Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let mut temp = tempfile::Builder::new();
    // As any other file; the umask takes from it.
    let temp = temp.permissions(Permissions::from_mode(0o666)).prefix(".gular-tmp-");
    let temp = temp.tempfile_in(folder.unwrap_or(Path::new(".")))?;
    if path.extension().is_some_and(|extension| extension == "parquet") {
        predictions.write_parquet(BufWriter::new(temp.as_file()))?;
    } else {
        predictions.write_csv(&mut BufWriter::new(temp.as_file()))?;
    }
    temp.as_file().sync_all()?;
    temp.persist(path)?;
    Ok(())
}
