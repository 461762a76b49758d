//! Progress bars on stderr; none when it is not a terminal or `--quiet` is given.

use std::io::IsTerminal as _;
use std::path::Path;
use std::time::Duration;

use gular_transfer::Watch;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::shared::Output;
use crate::show;
use crate::stop::Stop;

/// A bar over bytes with rate and time left, in the units of the summary.
pub(crate) fn bytes_bar(what: &'static str, total: u64, output: &Output) -> ProgressBar {
    let template =
        "{msg} {bar:30} {decimal_bytes}/{decimal_total_bytes}  {decimal_bytes_per_sec}  {eta} left";
    bar(what, Some(total), template, output)
}

/// Does `work`, which moves bytes, under a bar that is gone when it returns; says for whom this
/// process waits.
pub(crate) fn watched<T>(
    what: &'static str,
    output: &Output,
    stop: &Stop,
    work: impl FnOnce(Watch<'_>, &ProgressBar) -> T,
) -> T {
    let bar = bytes_bar(what, 0, output);
    let progress = |done: u64, total: u64| {
        bar.set_length(total);
        bar.set_position(done);
    };
    let waiting = |dir: &Path| {
        if !output.quiet {
            let note = format!("waiting for another process that writes to `{}`", dir.display());
            bar.suspend(|| show::message("note", &note));
        }
    };
    let watch = Watch { progress: &progress, waiting: &waiting, cancel: &stop.flag };
    let done = work(watch, &bar);
    bar.finish_and_clear();
    done
}

/// A bar that counts steps and shows the time left.
pub(crate) fn steps_bar(what: &'static str, total: u64, output: &Output) -> ProgressBar {
    bar(what, Some(total), "{msg} {bar:30} {pos}/{len}  {eta} left", output)
}

/// A counter without a known end.
pub(crate) fn counter(what: &'static str, output: &Output) -> ProgressBar {
    bar(what, None, "{msg} {human_pos}", output)
}

/// Something that runs for a time that is not known, on one line of the terminal.
pub(crate) fn running(what: &'static str, output: &Output) -> ProgressBar {
    bar(what, None, "{wide_msg} {elapsed}", output)
}

/// Whether bars are drawn: on a terminal, unless the user wants none.
pub(crate) fn is_shown(output: &Output) -> bool {
    !output.quiet && std::io::stderr().is_terminal()
}

fn bar(what: &'static str, total: Option<u64>, template: &str, output: &Output) -> ProgressBar {
    let shown = is_shown(output);
    let target = if shown { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
    let bar = ProgressBar::with_draw_target(total, target).with_message(what);
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style.progress_chars("=> "));
    }
    if shown {
        bar.enable_steady_tick(Duration::from_millis(200));
    }
    bar
}
