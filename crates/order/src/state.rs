//! The position in an epoch, in a form from which a loader resumes without reading data.

mod written;

use std::fmt;

use gular_bundle::{Digest, Split};
use serde::{Deserialize, Serialize};

use self::written::Written;
use crate::OrderSpec;
use crate::Tally;
use crate::epoch::OrderKind;

/// The way in which an order draws samples, as a state records it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DrawnBy {
    /// It does not draw: each sample occurs once.
    #[default]
    EachOnce,
    /// Weights with this [`Weights::checksum`](crate::Weights::checksum).
    Weight(u64),
    /// Each class is drawn as often as any other.
    Class,
}

impl fmt::Display for DrawnBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EachOnce => f.write_str("each once"),
            Self::Weight(checksum) => write!(f, "by weights with checksum {checksum}"),
            Self::Class => f.write_str("by class"),
        }
    }
}

/// The state of a loader, as a checkpoint keeps it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "Written")]
pub struct LoaderState {
    /// The bundle.
    pub bundle: Digest,
    /// The split.
    pub split: Split,
    /// The order and its seed.
    pub order: OrderSpec,
    /// The epoch.
    pub epoch: u64,
    /// Positions of the epoch's global sequence that all ranks together have consumed.
    pub consumed: u64,
    /// The world size of the ranks that consumed them.
    pub world_size: u64,
    /// Samples of the split that the order does not have.
    pub left_out: u64,
    /// A checksum of the samples that the order has, where only some were chosen.
    pub selection: Option<u64>,
    /// The way in which samples are drawn; if they are, the kind of the order is `elastic`.
    pub drawn_by: DrawnBy,
    /// The tally of the samples that were delivered in this epoch: by this rank, including those
    /// before the state from which it resumed, or by all ranks once their tallies are added. `None`
    /// if that state had none.
    pub tally: Option<Tally>,
}

/// Why a loader cannot continue from a state.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StateError {
    /// The state is of another bundle.
    #[error("the state was saved with the bundle {found}, but this loader reads {expected}")]
    OtherBundle {
        /// The loader's bundle.
        expected: Digest,
        /// The state's bundle.
        found: Digest,
    },
    /// The state is of another split, order or seed.
    #[error("the state was saved with {what} {found}, but this loader has {expected}")]
    OtherOrder {
        /// What differs.
        what: &'static str,
        /// The loader's value.
        expected: String,
        /// The state's value.
        found: String,
    },
}

impl StateError {
    /// Says what the user can do next.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::OtherBundle { .. } => Some(
                "resume with the bundle that the training began with, or start a new training run in another checkpoint folder",
            ),
            Self::OtherOrder { .. } => Some(
                "resume with the options that the training began with; only the orders `elastic` and `window` allow a different world size",
            ),
        }
    }
}

impl LoaderState {
    /// Sets the state to the start of `epoch`.
    pub fn begin(&mut self, epoch: u64) {
        (self.epoch, self.consumed, self.tally) = (epoch, 0, Some(Tally::default()));
    }

    /// Checks whether `loader`, in whatever epoch it is, can continue from this state.
    ///
    /// # Errors
    /// [`StateError`] names what differs.
    pub fn check(&self, loader: &Self) -> Result<(), StateError> {
        if self.bundle != loader.bundle {
            return Err(StateError::OtherBundle { expected: loader.bundle, found: self.bundle });
        }
        let differs = |what, of: fn(&Self) -> String| {
            let (expected, found) = (of(loader), of(self));
            if expected == found {
                Ok(())
            } else {
                Err(StateError::OtherOrder { what, expected, found })
            }
        };
        differs("split", |s| s.split.to_string())?;
        differs("order", |s| s.order.kind.to_string())?;
        differs("seed", |s| s.order.seed.to_string())?;
        differs("drop_last", |s| s.order.drop_last.to_string())?;
        differs("drawing", |s| s.drawn_by.to_string())?;
        differs("samples left out:", |s| s.left_out.to_string())?;
        differs("selection", |s| s.selection.map_or("none".to_owned(), |sum| sum.to_string()))?;
        if matches!(loader.order.kind, OrderKind::Torch { .. }) {
            differs("world size", |s| s.world_size.to_string())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(kind: OrderKind) -> LoaderState {
        LoaderState {
            bundle: Digest::of(b"bundle"),
            split: Split::Train,
            order: OrderSpec { kind, seed: u64::MAX, drop_last: true },
            epoch: 3,
            consumed: 4096,
            world_size: 4,
            left_out: 0,
            selection: None,
            drawn_by: DrawnBy::EachOnce,
            tally: None,
        }
    }

    const KINDS: [OrderKind; 3] =
        [OrderKind::Torch { shuffle: true }, OrderKind::Elastic, OrderKind::Window { shards: 8 }];

    /// Checkpoints hold this text. Whoever changes it breaks training runs that are to be resumed.
    #[test]
    fn golden_states_read_back() {
        let bundle = Digest::of(b"bundle");
        let orders = [
            r#""order":"torch","shuffle":true"#,
            r#""order":"elastic""#,
            r#""order":"window","shards":8"#,
        ];
        for (kind, order) in KINDS.into_iter().zip(orders) {
            let text = format!(
                r#"{{"bundle":"{bundle}","split":"train",{order},"seed":18446744073709551615,"drop_last":true,"epoch":3,"consumed":4096,"world_size":4}}"#
            );
            assert_eq!(serde_json::to_string(&state(kind)).unwrap(), text);
            assert_eq!(serde_json::from_str::<LoaderState>(&text).unwrap(), state(kind));
            let fewer = LoaderState { left_out: 7, ..state(kind) };
            let text = text.replace('}', r#","left_out":7}"#);
            assert_eq!(serde_json::to_string(&fewer).unwrap(), text);
            assert_eq!(serde_json::from_str::<LoaderState>(&text).unwrap(), fewer);
        }
    }

    #[test]
    fn golden_states_of_samples_that_are_selected_or_drawn_read_back() {
        let elastic = state(OrderKind::Elastic);
        let drawn = |drawn_by, selection| LoaderState { drawn_by, selection, ..elastic.clone() };
        let check = |state: LoaderState, order: &str, after: &str| {
            let text = serde_json::to_string(&state).unwrap();
            assert!(text.contains(&format!(r#""split":"train",{order},"seed":"#)), "{text}");
            assert!(text.ends_with(after), "{text}");
            assert_eq!(serde_json::from_str::<LoaderState>(&text).unwrap(), state);
            let others = [DrawnBy::EachOnce, DrawnBy::Class, DrawnBy::Weight(1)];
            for other in others.into_iter().filter(|other| *other != state.drawn_by) {
                let other = LoaderState { drawn_by: other, ..state.clone() };
                assert!(state.check(&other).is_err());
            }
            let other = LoaderState { selection: Some(8), ..state.clone() };
            assert!(state.check(&other).is_err());
        };
        check(drawn(DrawnBy::Class, None), r#""order":"balanced""#, r#""world_size":4}"#);
        let weighted = drawn(DrawnBy::Weight(u64::MAX), Some(7));
        let order = r#""order":"weighted","weights":18446744073709551615"#;
        check(weighted, order, r#""world_size":4,"selection":7}"#);
    }

    #[test]
    fn a_state_with_its_tally_reads_back_and_is_under_a_kilobyte() {
        let mut tally = Tally::default();
        tally.add(u64::MAX >> 4, 5, 4096);
        let counted = LoaderState { tally: Some(tally), left_out: u64::MAX, ..state(KINDS[2]) };
        let text = serde_json::to_string(&counted).unwrap();
        assert!(text.ends_with("}}") && text.contains(r#","tally":{"count":1,"broken":0,"#));
        assert_eq!(serde_json::from_str::<LoaderState>(&text).unwrap(), counted);
        assert!(counted.selection.is_none());
        let counted = LoaderState {
            selection: Some(u64::MAX),
            drawn_by: DrawnBy::Weight(u64::MAX),
            ..counted
        };
        let text = serde_json::to_string(&counted).unwrap();
        // The text is the longest possible.
        let longest: String =
            text.replace(":0", &format!(":{}", u64::MAX)).replace(",0", &format!(",{}", u64::MAX));
        assert!(longest.len() < 1000, "{}", longest.len());
    }

    #[test]
    fn another_world_size_is_for_orders_that_do_not_depend_on_it() {
        for kind in KINDS {
            let state = state(kind);
            let check = |world_size| {
                state.check(&LoaderState { world_size, epoch: 0, consumed: 0, ..state.clone() })
            };
            assert_eq!(check(4), Ok(()));
            assert_eq!(check(8).is_ok(), !matches!(kind, OrderKind::Torch { .. }), "{kind:?}");
        }
    }

    #[test]
    fn whatever_differs_is_named_with_both_values() {
        let saved = state(OrderKind::Window { shards: 8 });
        let check = |change: fn(&mut LoaderState), words: [&str; 3]| {
            let mut loader = saved.clone();
            change(&mut loader);
            let error = saved.check(&loader).unwrap_err();
            for word in words {
                assert!(error.to_string().contains(word), "{error}: {word}");
            }
            assert!(error.hint().is_some());
        };
        let [ours, other] = [b"bundle".as_slice(), b"other"].map(|b| Digest::of(b).to_string());
        check(|s| s.bundle = Digest::of(b"other"), ["bundle", &ours, &other]);
        check(|s| s.split = Split::Val, ["split", "train", "val"]);
        check(|s| s.order.kind = OrderKind::Window { shards: 9 }, ["order", "8", "9"]);
        check(|s| s.order.seed = 7, ["seed", "18446744073709551615", "7"]);
        check(|s| s.order.drop_last = false, ["drop_last", "true", "false"]);
        check(|s| s.left_out = 5, ["left out", "0", "5"]);
    }
}
