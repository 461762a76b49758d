//! `predict`: writes which class a network predicts for each sample, in the order of keys.

use std::io::{BufWriter, Write as _};
use std::time::Instant;

use anyhow::{Context as _, Result, anyhow, ensure};
use gular_runtime::{Split, UnknownLabels};
use serde_json::json;

use crate::args::PredictArgs;
use crate::predictions::{Kept, Predictions, Rows};
use crate::progress::{print_result, say};
use crate::score::{Scorer, check_folder_of, rate, softmax};
use crate::table;

pub(crate) fn run(args: &PredictArgs) -> Result<()> {
    let since = Instant::now();
    ensure!(
        args.out.is_some() || !args.score.data.json,
        "`--json` and the predictions would both be written to stdout; write the predictions to a file with `--out`"
    );
    args.out.as_deref().map_or(Ok(()), check_folder_of)?;
    let scorer = Scorer::new(&args.score, args.split.into_iter().collect())?;
    scorer.or_tell(|| {
        let (bundle, n_classes) = (&scorer.bundle, scorer.n_classes);
        let names = scorer.classes(args.other_classes).map_err(|error| {
            anyhow!("{error}; to predict the classes of the weights anyway, give `--other-classes`")
        })?;
        // Labels are of no use if the classes are not the bundle's.
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
            let part = args.part.samples(bundle.n_samples(split), args.score.data.batch_size);
            let mut rows = Rows::new(split, part.clone(), n_classes, kept)?;
            if !part.is_empty() {
                let mut row = Vec::new();
                scorer.each(split, UnknownLabels::Ignore, Some(part), |scores| {
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
            }
            rows.add_up(&scorer.parallel)?;
            all.push(rows);
        }
        if scorer.ranks.rank > 0 {
            return Ok(());
        }
        let unit = if args.logits { "score" } else { "probability" };
        let predictions = Predictions::new(bundle, all, names, labels, unit, args.part)?;
        match &args.out {
            None => {
                let out = BufWriter::new(std::io::stdout());
                let written = table::write_csv(out, &predictions.columns(), predictions.rows());
                if let Err(error) = written
                    && !table::is_broken_pipe(&error)
                {
                    return Err(error);
                }
            }
            Some(path) => {
                table::write(path, &predictions.columns(), predictions.rows())
                    .with_context(|| format!("cannot write `{}`", path.display()))?;
            }
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
            print_result(&summary.to_string()).context("cannot write the summary")?;
        }
        if !args.score.data.quiet {
            say!("{}", rate(predictions.len() as u64, since));
        }
        Ok(())
    })?;
    scorer.finish()
}
