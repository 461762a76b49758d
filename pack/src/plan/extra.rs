//! The last value of a sample's line in the plan: what is read for it besides the file of its key.

use serde_json::Value;

use crate::plan::Stack;

/// What a sample is made of, if it is not the file of its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Extra {
    /// A tile of a scene, which has so many bytes.
    Scene(u64),
    /// Several files, or a tile of these.
    Stack(Stack),
}

impl Extra {
    /// Reads what [`Self::to_value`] made.
    pub(crate) fn of_value(value: Value) -> Option<Self> {
        match value.as_u64() {
            Some(bytes) => Some(Self::Scene(bytes)),
            None => serde_json::from_value(value).ok().map(Self::Stack),
        }
    }

    pub(super) fn parse(text: &[u8]) -> Option<Self> {
        Self::of_value(serde_json::from_slice(text).ok()?)
    }

    pub(super) fn to_value(&self) -> Value {
        match self {
            Self::Scene(bytes) => (*bytes).into(),
            Self::Stack(stack) => serde_json::to_value(stack).unwrap_or_default(),
        }
    }

    /// Bytes of all files.
    pub(super) fn bytes(&self) -> u64 {
        match self {
            Self::Scene(bytes) => *bytes,
            Self::Stack(stack) => stack.bytes(),
        }
    }

    /// The path that says what the sample is, if that is not its key.
    pub(super) fn first_path(&self) -> Option<&str> {
        match self {
            Self::Scene(_) => None,
            Self::Stack(stack) => Some(stack.first_path()),
        }
    }
}
