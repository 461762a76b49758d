//! `gular image inspect`.

use super::args::InspectArgs;
use crate::args::Output;
use crate::exit::{Exit, Failure};

pub(super) fn run(_args: &InspectArgs, _output: &Output) -> Result<Exit, Failure> {
    Err(Failure::new("not yet", None))
}
