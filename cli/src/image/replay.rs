//! Prints which lines of HTCondor were replayed on an image.

use gular_containers::replay::{Outcome, Replay};

/// Returns one line of text for all replayed lines.
pub(super) fn text(replayed: &[Replay]) -> String {
    if replayed.is_empty() {
        return String::new();
    }
    let word = |line: &Replay| {
        let outcome = match line.outcome {
            Outcome::Ok => "ok",
            Outcome::Failed => "failed",
            Outcome::NotPossible => "not possible here",
        };
        format!("{} {outcome}", line.name)
    };
    let words = replayed.iter().map(word).collect::<Vec<_>>().join(", ");
    format!("{:<18}{words}\n", "HTCondor's lines")
}
