//! One question at a time: if another thread is already asking the same question, a caller waits
//! for that answer.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// A lock for each question; a thread holds it while it asks the question.
#[derive(Debug, Default)]
pub(crate) struct Gates(Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>);

impl Gates {
    /// Returns the gate of a question. A thread that has passed it first checks whether the
    /// answer is there by now.
    pub(crate) fn of(&self, question: &str) -> Arc<tokio::sync::Mutex<()>> {
        let mut gates = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Gates that no thread holds are not needed any more.
        gates.retain(|_, gate| Arc::strong_count(gate) > 1);
        Arc::clone(gates.entry(question.to_owned()).or_default())
    }
}
