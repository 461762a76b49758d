//! What the steps of a recipe do: from the store, or run now.

use std::collections::BTreeMap;

use serde::Serialize;

use super::maintainer_scripts::other_arch;
use super::{BuildOptions, ImageWatch, Note, Project, Relocked, Step};
use crate::assemble::BeforeProgram;
use crate::lock::{ImageLock, LockedStep};
use crate::recipe::RunStep;
use crate::rootfs::Layer;
use crate::scripts::{self, StepRun};
use crate::store::Listing;
use crate::{Error, OciDigest, Result, Sha256};

/// What became of a step; also its JSON form.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct BuiltStep {
    /// First line of the step's script.
    pub script: String,
    /// Digest of what the step did, as in the lock.
    pub layer: OciDigest,
    /// Whether two runs, side by side, did the same.
    pub reproducible: bool,
    /// Whether the result was in the cache, so that nothing was run.
    pub was_there: bool,
}

/// Characters of a script's line that name its step.
const SHOWN: usize = 60;

/// Runs the steps, unless their results are known, and writes them into the lock.
pub(super) fn steps(
    options: &BuildOptions<'_>,
    project: &Project,
    lock: &ImageLock,
    before: &mut BeforeProgram,
    watch: &dyn ImageWatch,
) -> Result<Vec<BuiltStep>> {
    let mut env = before.env.clone();
    env.extend(project.recipe.env.clone());
    let (mut built, mut locked) = (Vec::new(), Vec::new());
    for (number, step) in (0..).zip(&project.recipe.run) {
        let made =
            StepWork { options, project, lock, env: &env, watch, step, number }.made(before)?;
        made.listing.lay_over(&mut before.tree, Layer::Run(number))?;
        built.push(made.built);
        locked.push(made.locked);
    }
    if locked == lock.steps {
        return Ok(built);
    }
    if options.locked {
        return Err(Error::Stale { path: project.lock_path.display().to_string() });
    }
    if !options.dry_run {
        project.write_lock(&ImageLock { steps: locked, ..lock.clone() })?;
        watch.note(&Note::Relocked { path: &project.lock_path, why: Relocked::StepsRun });
    }
    Ok(built)
}

/// A step that is worked on.
struct StepWork<'a> {
    options: &'a BuildOptions<'a>,
    project: &'a Project,
    lock: &'a ImageLock,
    /// The variables that all steps see.
    env: &'a BTreeMap<String, String>,
    watch: &'a dyn ImageWatch,
    step: &'a RunStep,
    /// Its number, from 0.
    number: u8,
}

/// The result of a step.
struct StepResult {
    listing: Listing,
    built: BuiltStep,
    /// What the lock says of it from now on.
    locked: LockedStep,
}

impl StepWork<'_> {
    fn made(&self, before: &BeforeProgram) -> Result<StepResult> {
        let Self { options, step, watch, lock, .. } = *self;
        let name = self.name();
        let inputs = scripts::inputs(step, &before.tree, self.env, lock.time)?;
        let known = lock.steps.get(usize::from(self.number));
        let known = known.filter(|known| known.inputs.0 == inputs);
        let (store, key) = (options.cache.store(), format!("run-{inputs}"));
        let was_there = store.has(&key);
        if let Some(reason) = self.obstacle(was_there)? {
            return Err(Error::StepRefused { step: name, reason, is_here: true });
        }
        if options.locked && known.is_none() {
            let path = self.project.lock_path.display().to_string();
            return Err(Error::StepNotLocked { step: name, path });
        }
        watch.working_on(Step::Scripts, &name);
        let made = store.listing(&key, |filling| {
            let run = StepRun {
                name: &name,
                step,
                tree: &before.tree,
                env: self.env,
                time: lock.time,
                proxies: &options.proxies,
                unshare: options.tools.unshare.as_deref().unwrap_or("unshare".as_ref()),
                temp: options.cache.folder()?,
                limits: &options.limits,
                on_line: &|line| watch.said(Step::Scripts, line),
                cancel: watch.cancel(),
            };
            scripts::run_step(&run, filling)
        });
        watch.ended(Step::Scripts);
        let mut listing = made?;
        let differing = scripts::take_differing(&mut listing)?;
        let paths: Vec<String> = differing.into_iter().map(|one| one.path).collect();
        if !paths.is_empty() {
            watch.note(&Note::StepNotReproducible { step: &name, paths: &paths });
        }
        super::maintainer_scripts::note_left_out(&name, &listing, watch);
        let layer = OciDigest(scripts::layer_digest(&listing));
        let made = LockedStep {
            script: Sha256::of(step.script.as_bytes()).into(),
            inputs: inputs.into(),
            layer,
            reproducible: paths.is_empty(),
        };
        let locked = self.compared(made, known, &name, paths)?;
        let (script, reproducible) = (step.first_line().to_owned(), locked.reproducible);
        Ok(StepResult {
            listing,
            built: BuiltStep { script, layer, reproducible, was_there },
            locked,
        })
    }

    /// What the lock says of the step from now on: what it says already, if that has the same inputs.
    fn compared(
        &self,
        made: LockedStep,
        known: Option<&LockedStep>,
        name: &str,
        paths: Vec<String>,
    ) -> Result<LockedStep> {
        let Some(known) = known else { return Ok(made) };
        let (found, expected) = (made.layer, known.layer);
        if found == expected {
            return Ok(LockedStep {
                reproducible: made.reproducible && known.reproducible,
                ..made
            });
        }
        if known.reproducible {
            return Err(Error::StepChanged { step: name.to_owned(), found, expected, paths });
        }
        self.watch.note(&Note::StepDiffers { step: name, found, locked: expected });
        Ok(known.clone())
    }

    /// Why the step is not run; what is in the store need not be.
    fn obstacle(&self, was_there: bool) -> Result<Option<String>> {
        let Self { options, step, lock, .. } = *self;
        if options.no_scripts {
            return Ok(Some("the build was told to run no scripts".to_owned()));
        }
        if was_there {
            return Ok(None);
        }
        if step.network && options.offline {
            return Ok(Some("it needs a network, and fetching is turned off".to_owned()));
        }
        if let Some(why) = other_arch(lock) {
            return Ok(Some(why));
        }
        let Some(unshare) = &options.tools.unshare else {
            return Ok(Some("`unshare` of util-linux is not installed".to_owned()));
        };
        let why = scripts::allowed(unshare, options.cache.folder()?)?;
        Ok(why.map(|why| format!("this machine does not allow user namespaces ({why})")))
    }

    /// Names the step in messages.
    fn name(&self) -> String {
        let line = self.step.first_line();
        let shown: String = line.chars().take(SHOWN).collect();
        let end = if shown.len() < line.len() { "…" } else { "" };
        format!("step {} (`{shown}{end}`)", u16::from(self.number) + 1)
    }
}
