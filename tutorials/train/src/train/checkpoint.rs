//! Saves checkpoints, and decides when the last one is written.

use std::io::Write as _;
use std::time::Instant;

use anyhow::Result;

use super::End;
use super::training::Training;
use crate::progress::say;

impl Training<'_> {
    /// Begins a checkpoint, which rank 0 writes while training continues.
    pub(super) fn checkpoint(&mut self) -> Result<()> {
        self.settle()?;
        self.parallel.share_buffers(&mut self.store)?;
        self.saved_at = Instant::now();
        // Weights that a lost rank had a part in are not to be kept.
        self.parallel.check()?;
        let Some(files) = &mut self.files else { return Ok(()) };
        let (saver, state) = (&mut files.saver, &self.state);
        let before = match std::mem::take(&mut self.is_best) {
            true => saver.begin_best(state, &self.store, &self.optimiser)?,
            false => saver.begin(state, &self.store, &self.optimiser)?,
        };
        before.iter().for_each(|saved| self.deadline.saved(saved.took));
        Ok(())
    }

    /// Sees how the checkpoint that is being written does.
    pub(super) fn poll(&mut self) -> Result<()> {
        let Some(files) = &mut self.files else { return Ok(()) };
        files.saver.poll()?.iter().for_each(|saved| self.deadline.saved(saved.took));
        Ok(())
    }

    /// Saves the last checkpoint of this run, and says so.
    pub(super) fn stopped(&mut self, when: &str) -> Result<End> {
        self.settle()?;
        self.parallel.share_buffers(&mut self.store)?;
        self.parallel.check()?;
        let path = self.save_alone()?;
        self.say_stopped(when, path);
        Ok(End::Stopped)
    }

    /// Saves without asking other ranks; gives the folder, on rank 0.
    pub(super) fn save_alone(&mut self) -> Result<Option<String>> {
        let Some(files) = &mut self.files else { return Ok(None) };
        let (saver, state) = (&mut files.saver, &self.state);
        if !std::mem::take(&mut self.is_best) {
            let saved = saver.save(state, &self.store, &self.optimiser)?;
            return Ok(Some(saved.path.display().to_string()));
        }
        // The checkpoint that would have become the best one was not saved. The error of the save
        // before is ignored, as there.
        let _ = saver.finish();
        saver.begin_best(state, &self.store, &self.optimiser)?;
        Ok(saver.finish()?.map(|saved| saved.path.display().to_string()))
    }

    pub(super) fn say_stopped(&self, when: &str, path: Option<String>) {
        if let Some(path) = path {
            say!("stopped {when} step {}; saved `{path}`", self.state.step);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use clap::Parser as _;
    use gular_runtime::checkpoint::Checkpoints;
    use gular_runtime::group;
    use gular_runtime::order::{DrawnBy, LoaderState, OrderKind, OrderSpec};
    use gular_runtime::schedule::Cosine;
    use gular_runtime::torch::{AdamW, DataParallel, Place, Saver, TrainState};
    use gular_runtime::{
        Deadline, Digest, Normalise, RankSource, Ranks, Split, StopFlag, jpeg_backend,
    };
    use tch::nn::VarStore;

    use super::super::losses::Losses;
    use super::super::training::Files;
    use super::*;
    use crate::args::{Cli, Verb};
    use crate::network::Network;

    /// Checks the checkpoint that rank 0 saves if the other ranks no longer answer.
    #[test]
    fn a_best_checkpoint_that_is_saved_alone_is_named_too() {
        let dir = tempfile::tempdir().unwrap();
        let cli = Cli::try_parse_from(["t", "train", "b"]).unwrap();
        let Verb::Train(args) = cli.verb else { unreachable!("the verb is `train`") };
        let place = Place::cpu();
        let store = VarStore::new(place.device());
        let net = Network::new(args.network, &store.root(), 3, 2, 0.0);
        let checkpoints = Checkpoints::open(dir.path(), Digest::of(b"b"), args.keep).unwrap();
        let loader = LoaderState {
            bundle: Digest::of(b"b"),
            split: Split::Train,
            order: OrderSpec { kind: OrderKind::Elastic, seed: 0, drop_last: false },
            epoch: 1,
            consumed: 0,
            world_size: 1,
            left_out: 0,
            selection: None,
            drawn_by: DrawnBy::EachOnce,
            tally: None,
        };
        let mut training = Training {
            args: &args,
            classes: &[],
            normalise: &Normalise::default(),
            ranks: Ranks { rank: 0, world_size: 1, local_rank: 0, source: RankSource::Single },
            net,
            optimiser: AdamW::new(&store),
            schedule: Cosine::new(args.lr, 1),
            parallel: DataParallel::new(group::Group::alone(), &store, &place).unwrap(),
            place: &place,
            losses: Losses::new(0),
            store,
            state: TrainState {
                step: 3,
                seed: 0,
                loader,
                decoder: jpeg_backend().to_owned(),
                machine: None,
                figures: BTreeMap::new(),
            },
            files: Some(Files { saver: Saver::new(checkpoints), metrics: None }),
            stop: StopFlag::default(),
            deadline: Deadline::new(None, None),
            saved_at: Instant::now(),
            last_step: None,
            resumed_at: None,
            is_best: true,
        };
        let best = || std::fs::read_to_string(dir.path().join("best")).unwrap_or_default();
        let saved = training.save_alone().unwrap().unwrap();
        assert!(saved.ends_with("step-0000000003"), "{saved}");
        assert_eq!(best(), "step-0000000003\n");
        training.state.step = 4;
        training.save_alone().unwrap().unwrap();
        assert_eq!(best(), "step-0000000003\n");
    }
}
