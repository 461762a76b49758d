//! Shows the progress of `gular image` on stderr.

use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use gular_containers::make::{ImageWatch, Note, Relocked, Step};
use indicatif::ProgressBar;

use crate::progress::{bytes_bar, counter, is_shown, running};
use crate::shared::Output;
use crate::show;
use crate::stop::Stop;

/// Shows one bar at a time, and stops when a signal came.
pub(crate) struct Bars<'a> {
    output: &'a Output,
    stop: &'a Stop,
    bar: Mutex<Option<(Step, ProgressBar)>>,
    scripts: Mutex<Running>,
}

/// The scripts that run.
struct Running {
    /// Names them.
    what: String,
    /// When something was last told of them.
    told: Instant,
}

/// How often a line is written where nothing can be written over: enough to see that something happens.
const EACH_LINE: Duration = Duration::from_secs(20);

impl<'a> Bars<'a> {
    pub(crate) fn new(output: &'a Output, stop: &'a Stop) -> Self {
        let scripts = Mutex::new(Running { what: String::new(), told: Instant::now() });
        Self { output, stop, bar: Mutex::default(), scripts }
    }

    /// Does something with the bar of a step, which takes the place of the one before.
    fn with(&self, step: Step, act: impl FnOnce(&ProgressBar)) {
        let mut bar = self.bar.lock().unwrap_or_else(PoisonError::into_inner);
        if bar.as_ref().is_none_or(|(of, _)| *of != step)
            && let Some((_, old)) = bar.replace((step, self.make(step)))
        {
            old.finish_and_clear();
        }
        if let Some((_, bar)) = bar.as_ref() {
            act(bar);
        }
    }

    fn make(&self, step: Step) -> ProgressBar {
        match step {
            Step::Resolve => counter(word(step), self.output),
            Step::Scripts => running(word(step), self.output),
            _ => bytes_bar(word(step), 0, self.output),
        }
    }
}

/// The first of some paths, and how many more there are.
fn some_of(paths: &[String]) -> String {
    const SHOWN: usize = 5;
    let shown = paths.iter().take(SHOWN).map(|path| format!("`{}`", show::plain(path)));
    let shown = shown.collect::<Vec<_>>().join(", ");
    match paths.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

fn word(step: Step) -> &'static str {
    match step {
        Step::Resolve => "resolve",
        Step::Fetch => "fetch",
        Step::Unpack => "unpack",
        Step::Scripts => "run",
        _ => "write",
    }
}

impl ImageWatch for Bars<'_> {
    fn cancel(&self) -> &AtomicBool {
        &self.stop.flag
    }

    fn working_on(&self, step: Step, what: &str) {
        if step == Step::Scripts {
            *self.scripts.lock().unwrap_or_else(PoisonError::into_inner) =
                Running { what: what.to_owned(), told: Instant::now() };
        }
        self.with(step, |bar| {
            bar.set_message(show::masked(&format!("{} {what}", word(step))));
            if step == Step::Resolve {
                bar.inc(1);
            }
        });
    }

    fn said(&self, step: Step, line: &str) {
        let mut scripts = self.scripts.lock().unwrap_or_else(PoisonError::into_inner);
        // Without the script's first line, which would leave no room on a terminal.
        let name = scripts.what.split(" (`").next().unwrap_or_default();
        let text = format!("{name}: {}", show::plain(line));
        if is_shown(self.output) {
            let text = format!("{} {text}", word(step));
            self.with(step, |bar| bar.set_message(show::masked(&text)));
        } else if !self.output.quiet && scripts.told.elapsed() >= EACH_LINE {
            scripts.told = Instant::now();
            show::message(word(step), &text);
        }
    }

    fn progress(&self, step: Step, done: u64, total: u64) {
        self.with(step, |bar| {
            bar.set_length(total);
            bar.set_position(done);
        });
    }

    fn ended(&self, _step: Step) {
        let mut bar = self.bar.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, bar)) = bar.take() {
            bar.finish_and_clear();
        }
    }

    fn note(&self, note: &Note<'_>) {
        if self.output.quiet {
            return;
        }
        let text = match note {
            Note::Relocked { path, why } => {
                let why = match why {
                    Relocked::Missing => "there was none",
                    Relocked::RecipeChanged => "the recipe changed",
                    Relocked::StepsRun => "it has the results of the steps now",
                };
                format!("wrote `{}`: {why}", path.display())
            }
            Note::Brought(library) => {
                let library = library.display();
                format!("`{library}` of this machine is added: the program names its folder")
            }
            Note::Waiting(dir) => {
                format!("waiting for another process that works in `{}`", dir.display())
            }
            Note::OneOf { name, taken, others } => {
                let (name, others) = (show::plain(name), others.join(", "));
                format!(
                    "`{name}` holds several images: the one for {taken} is taken (others: {others}; see `--platform`)"
                )
            }
            Note::ScriptsNotRun { why, unknown } => {
                let rest = match unknown {
                    [] => "what programs need of them is known and was done".to_owned(),
                    names => {
                        format!("what these packages would do is missing: {}", names.join(", "))
                    }
                };
                format!(
                    "Debian's maintainer scripts were not run, since {why}: {rest}; the locale `en_US.UTF-8` and caches are missing, so the bytes differ from those of an image whose scripts were run"
                )
            }
            Note::NotReproducible { package, path } => format!(
                "`{path}` differs each time the maintainer script of `{package}` is run: the image cannot be made again with the same bytes"
            ),
            Note::StepNotReproducible { step, paths } => {
                let step = show::plain(step);
                format!(
                    "{step} of `[[run]]` is not reproducible: when it was run twice, {} differed; another machine makes other bytes",
                    some_of(paths)
                )
            }
            Note::LeftOut { by, left } => {
                let left = left.iter().map(|one| format!("{}: {}", one.path, one.what));
                format!(
                    "{} made what no image can have, and it was left out: {}",
                    show::plain(by),
                    some_of(&left.collect::<Vec<_>>())
                )
            }
            Note::StepDiffers { step, found, locked } => {
                let step = show::plain(step);
                format!(
                    "{step} of `[[run]]` is not reproducible: it made a layer with digest {found} here, and the lock file has {locked}"
                )
            }
            Note::BasePython { program, version, kind, others } => {
                let others = match others {
                    [] => String::new(),
                    others => format!(
                        "; not {}: `interpreter` in `[python]` chooses another",
                        show::plain(&others.join(", "))
                    ),
                };
                let program = show::plain(program);
                format!("packages are added to Python {version}, `{program}` ({kind}){others}")
            }
            Note::Kept { names } => {
                format!("the base image has already: {}", show::plain(&names.join(", ")))
            }
            Note::Replaced { name, before, now } => {
                format!("`{}` {before} of the base image is replaced by {now}", show::plain(name))
            }
            Note::NotCached(why) => format!("the next build will compress everything again: {why}"),
            _ => return,
        };
        show::message("note", &text);
    }
}
