//! HTCondor submit files: parses them, and checks for settings that HTCondor accepts and users
//! regret.
//!
//! ```text
//! name = value          a command, or a macro of the user's own
//! +Name = value         an attribute of the job's ClassAd
//! if … elif … else … endif, include, use, name @=end … @end
//! queue [n] [a,b from FILE | in (…) | matching *.x]
//! ```

mod check;
mod classad;
mod commands;
mod expand;
mod expressions;
mod files;
mod forms;
mod job_outputs;
mod parse;
mod programs;
mod queue;
mod quotes;
mod sandbox;
mod scripts;
#[cfg(test)]
mod tests;
mod values;

pub(crate) use check::{Given, check};
pub(crate) use commands::{command_name, is_known, sets};
pub(crate) use expand::{Variables, expand};
pub(crate) use job_outputs::{brought_back, writers};
pub(crate) use parse::{Set, Submit};
pub(crate) use queue::MAX_ITEMS;
