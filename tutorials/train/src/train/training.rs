//! A training run from its beginning, or from where it was stopped, to its end.

use std::io::Write as _;
use std::time::Instant;

use anyhow::{Result, ensure};
use gular_runtime::checkpoint::Checkpoints;
use gular_runtime::metrics::Metrics;
use gular_runtime::schedule::Cosine;
use gular_runtime::torch::{self, AdamW, DataParallel, Feed, Place, Saver, TrainState};
use gular_runtime::{Deadline, Normalise, Ranks, Stats, StopFlag, jpeg_backend};
use serde_json::{Value, json};
use tch::nn::VarStore;

use super::End;
use super::losses::Losses;
use crate::args::{Resume, TrainArgs};
use crate::network::Network;
use crate::progress::{loader_json, say};
use crate::{decoder, weights};

/// The whole state that changes during training.
pub(super) struct Training<'a> {
    pub(super) args: &'a TrainArgs,
    /// The names of the classes.
    pub(super) classes: &'a [String],
    /// The way in which pixels become numbers.
    pub(super) normalise: &'a Normalise,
    pub(super) ranks: Ranks,
    pub(super) net: Network,
    pub(super) store: VarStore,
    pub(super) optimiser: AdamW,
    pub(super) schedule: Cosine,
    pub(super) parallel: DataParallel,
    pub(super) place: &'a Place,
    /// Losses of steps that are done, but not read yet.
    pub(super) losses: Losses,
    pub(super) state: TrainState,
    /// The files of the run, which only rank 0 writes.
    pub(super) files: Option<Files>,
    pub(super) stop: StopFlag,
    pub(super) deadline: Deadline,
    /// Time at which the last checkpoint was begun.
    pub(super) saved_at: Instant,
    /// The step to stop after, if any.
    pub(super) last_step: Option<u64>,
    /// The step of the checkpoint it was resumed from.
    pub(super) resumed_at: Option<u64>,
    /// Whether the next checkpoint is the best so far.
    pub(super) is_best: bool,
}

/// The files that a training run writes.
pub(super) struct Files {
    pub(super) saver: Saver,
    pub(super) metrics: Option<Metrics>,
}

impl Training<'_> {
    /// Trains from where an earlier run was stopped, if there was one; at the end rank 0
    /// writes the weights and has a summary.
    pub(super) fn go(&mut self, train: &mut Feed, val: &mut Feed) -> Result<(End, Option<Value>)> {
        if self.ranks.rank == 0 {
            self.load()?;
        }
        // The others take weights and position from rank 0.
        self.parallel.share(&mut self.store, &mut self.optimiser, &mut self.state)?;
        if self.state.step > 0 {
            self.resumed_at = Some(self.state.step);
            train.restore(&self.state.loader)?;
        }
        self.args.remember(&self.ranks, &mut self.state.figures);
        self.last_step = self.args.stop_after_steps.map(|n| self.state.step.saturating_add(n));
        for epoch in self.state.loader.epoch..self.args.epochs {
            if self.epoch(train, epoch)? == End::Stopped
                || self.evaluate(val, epoch)? == End::Stopped
            {
                return Ok((End::Stopped, None));
            }
            // The next run is to begin with the next epoch.
            self.state.loader.begin(epoch + 1);
            self.checkpoint()?;
        }
        if let Some(files) = &mut self.files {
            files.saver.finish()?;
        }
        let summary = self.files.is_some().then(|| self.finish(&train.stats())).transpose()?;
        Ok((End::Done, summary))
    }

    /// Opens the files, and goes to the newest checkpoint.
    pub(super) fn load(&mut self) -> Result<()> {
        let TrainArgs { checkpoint_dir, keep, resume, metrics, .. } = self.args;
        let bundle = self.state.loader.bundle;
        let checkpoints = Checkpoints::open(checkpoint_dir, bundle, *keep)?;
        let (store, optimiser) = (&mut self.store, &mut self.optimiser);
        if let Some((found, loaded)) = torch::load_newest(&checkpoints, store, optimiser)? {
            let path = loaded.path.display();
            ensure!(
                *resume == Resume::Auto,
                "the checkpoint `{path}` exists, but `--resume never` was given"
            );
            loaded.warnings.iter().for_each(|warning| say!("warning: {warning}"));
            if let Some(warning) = decoder::compare(&found.decoder, &self.state.decoder)? {
                say!("warning: {warning}");
            }
            if let (Some(was), Some(now)) = (&found.machine, &self.state.machine) {
                for (what, was, now) in now.changes(was) {
                    say!(
                        "warning: the {what} is now `{now}`, but was `{was}` before: sums differ in their last bits"
                    );
                }
            }
            for (name, was, now) in self.args.changes(&self.ranks, &found.figures) {
                say!(
                    "warning: the training began with `--{name} {was}`, and now it is {now}: the weights will differ"
                );
            }
            say!("resuming at step {} from `{path}`", found.step);
            // Machine and decoder are those of this process, which computes from here on.
            let (machine, decoder) = (self.state.machine.take(), self.state.decoder.clone());
            self.state = TrainState { machine, decoder, ..found };
        }
        let resumed_at = Some(self.state.step).filter(|step| *step > 0);
        let metrics = metrics.as_deref().map(|dir| Metrics::open(dir, resumed_at)).transpose()?;
        let about = weights::about(self.args, self.normalise, self.classes);
        self.files = Some(Files { saver: Saver::new(checkpoints).about(about), metrics });
        Ok(())
    }

    /// Writes the weights, and says what there is to say.
    pub(super) fn finish(&self, stats: &Stats) -> Result<Value> {
        let path = self.args.checkpoint_dir.join("weights.safetensors");
        // The texts say how the pictures were prepared, for users of the weights.
        let about = weights::about(self.args, self.normalise, self.classes);
        let digest = torch::write_weights_about(&self.store, &about, &path)?;
        if self.tells() {
            let of = if self.ranks.world_size > 1 { "of rank 0:\n" } else { "" };
            say!("{of}{stats}\nweights {digest} in `{}`", path.display());
        }
        let figures = &self.state.figures;
        Ok(json!({
            "world_size": self.ranks.world_size,
            "images": figures.get("images").map(|n| *n as u64),
            "steps": self.state.step,
            "resumed_at_step": self.resumed_at,
            "images_per_second": stats.images_per_second(),
            "loss_first": figures.get("loss_first"),
            "loss_last": figures.get("loss_last"),
            "val_loss": figures.get("val_loss"),
            "val_accuracy": figures.get("val_accuracy"),
            "best_val_accuracy": figures.get("best_val_accuracy"),
            "weights": digest.to_string(),
            "weights_file": path,
            "decoder": jpeg_backend(),
            "loader": loader_json(stats),
        }))
    }
}
