//! How far an epoch has come, in a form that resumes without reading anything.

use gular_bundle::{Digest, Split};
use serde::{Deserialize, Serialize};

use super::OrderSpec;
use super::epoch::OrderKind;

/// What a checkpoint keeps of a loader.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoaderState {
    /// The bundle, as `blake3:…`.
    pub bundle: String,
    /// The split.
    pub split: Split,
    /// The order and its seed.
    #[serde(flatten)]
    pub order: OrderSpec,
    /// The epoch.
    pub epoch: u64,
    /// Positions of the epoch's global sequence that all ranks together have consumed.
    pub consumed: u64,
    /// The world size that consumed them.
    pub world_size: u64,
}

/// Why a loader cannot go on from a state.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StateError {
    /// The state is of another bundle.
    #[error("the state is of bundle {found}, this loader reads {expected}")]
    OtherBundle {
        /// The loader's bundle.
        expected: String,
        /// The state's.
        found: String,
    },
    /// The state is of another split, order or seed.
    #[error("the state has {what} {found}, this loader has {expected}")]
    OtherOrder {
        /// What differs.
        what: &'static str,
        /// The loader's.
        expected: String,
        /// The state's.
        found: String,
    },
}

impl StateError {
    /// What the user can do next.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::OtherBundle { .. } => Some(
                "resume with the bundle the training began with, or begin a new training in another checkpoint folder",
            ),
            Self::OtherOrder { .. } => Some(
                "resume with the options the training began with; only `elastic` and `window` take another world size",
            ),
        }
    }
}

impl LoaderState {
    /// Whether a loader of `bundle`, `split`, `order` and `world_size` can go on from here.
    ///
    /// # Errors
    /// [`StateError`] names what differs.
    pub fn check(
        &self,
        bundle: &Digest,
        split: Split,
        order: &OrderSpec,
        world_size: u64,
    ) -> Result<(), StateError> {
        let expected = bundle.to_string();
        if self.bundle != expected {
            return Err(StateError::OtherBundle { expected, found: self.bundle.clone() });
        }
        let differs = |what, expected: String, found: String| {
            if expected == found {
                Ok(())
            } else {
                Err(StateError::OtherOrder { what, expected, found })
            }
        };
        differs("split", split.to_string(), self.split.to_string())?;
        differs("order", format!("{:?}", order.kind), format!("{:?}", self.order.kind))?;
        differs("seed", order.seed.to_string(), self.order.seed.to_string())?;
        differs("drop_last", order.drop_last.to_string(), self.order.drop_last.to_string())?;
        if matches!(order.kind, OrderKind::Torch { .. }) {
            differs("world size", world_size.to_string(), self.world_size.to_string())?;
        }
        Ok(())
    }
}
