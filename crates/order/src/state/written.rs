//! A loader's state as checkpoints store it: one flat object with the members of its order among
//! its own.

use gular_bundle::{Digest, Split};
use serde::{Deserialize, Serialize};

use crate::{DrawnBy, LoaderState, OrderKind, OrderSpec, Tally};

/// [`LoaderState`] in its stored form.
#[derive(Serialize, Deserialize)]
pub(super) struct Written {
    bundle: Digest,
    split: Split,
    order: Name,
    /// Whether samples are shuffled; only for order `torch`.
    #[serde(skip_serializing_if = "Option::is_none")]
    shuffle: Option<bool>,
    /// Number of shards in a window; only for order `window`.
    #[serde(skip_serializing_if = "Option::is_none")]
    shards: Option<u64>,
    /// Checksum of the weights; only for order `weighted`.
    #[serde(skip_serializing_if = "Option::is_none")]
    weights: Option<u64>,
    seed: u64,
    drop_last: bool,
    epoch: u64,
    consumed: u64,
    world_size: u64,
    /// Number of samples that are left out, if there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    left_out: Option<u64>,
    /// Checksum of the selection, if samples were selected.
    #[serde(skip_serializing_if = "Option::is_none")]
    selection: Option<u64>,
    /// The tally, which states of earlier builds lack.
    #[serde(skip_serializing_if = "Option::is_none")]
    tally: Option<Tally>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Name {
    Torch,
    Elastic,
    Window,
    Weighted,
    Balanced,
}

impl From<LoaderState> for Written {
    fn from(state: LoaderState) -> Self {
        let OrderSpec { kind, seed, drop_last } = state.order;
        let (order, shuffle, shards) = match (state.drawn_by, kind) {
            (DrawnBy::Weight(_), _) => (Name::Weighted, None, None),
            (DrawnBy::Class, _) => (Name::Balanced, None, None),
            (DrawnBy::EachOnce, OrderKind::Torch { shuffle }) => (Name::Torch, Some(shuffle), None),
            (DrawnBy::EachOnce, OrderKind::Elastic) => (Name::Elastic, None, None),
            (DrawnBy::EachOnce, OrderKind::Window { shards }) => (Name::Window, None, Some(shards)),
        };
        Self {
            bundle: state.bundle,
            split: state.split,
            order,
            shuffle,
            shards,
            weights: match state.drawn_by {
                DrawnBy::Weight(checksum) => Some(checksum),
                DrawnBy::EachOnce | DrawnBy::Class => None,
            },
            seed,
            drop_last,
            epoch: state.epoch,
            consumed: state.consumed,
            world_size: state.world_size,
            left_out: Some(state.left_out).filter(|n| *n > 0),
            selection: state.selection,
            tally: state.tally,
        }
    }
}

impl TryFrom<Written> for LoaderState {
    type Error = &'static str;

    fn try_from(written: Written) -> Result<Self, &'static str> {
        let each_once = |kind| (kind, DrawnBy::EachOnce);
        let (kind, drawn_by) = match written.order {
            Name::Torch => {
                let shuffle = written.shuffle.ok_or("order `torch` has no `shuffle`")?;
                each_once(OrderKind::Torch { shuffle })
            }
            Name::Elastic => each_once(OrderKind::Elastic),
            Name::Window => {
                let shards = written.shards.ok_or("order `window` has no `shards`")?;
                each_once(OrderKind::Window { shards })
            }
            Name::Weighted => {
                let checksum = written.weights.ok_or("order `weighted` has no `weights`")?;
                (OrderKind::Elastic, DrawnBy::Weight(checksum))
            }
            Name::Balanced => (OrderKind::Elastic, DrawnBy::Class),
        };
        Ok(Self {
            bundle: written.bundle,
            split: written.split,
            order: OrderSpec { kind, seed: written.seed, drop_last: written.drop_last },
            epoch: written.epoch,
            consumed: written.consumed,
            world_size: written.world_size,
            left_out: written.left_out.unwrap_or(0),
            selection: written.selection,
            drawn_by,
            tally: written.tally,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The error for a state in which `from` is replaced by `to`.
    fn refusal(from: &str, to: &str) -> String {
        let bundle = Digest::of(b"bundle");
        let text = format!(
            r#"{{"bundle":"{bundle}","split":"train","order":"torch","shuffle":true,"seed":7,"drop_last":true,"epoch":3,"consumed":4096,"world_size":4}}"#
        );
        assert_eq!(text.matches(from).count(), 1, "{from}");
        let text = text.replace(from, to);
        let mut json = serde_json::Deserializer::from_str(&text);
        let read = serde_path_to_error::deserialize::<_, LoaderState>(&mut json);
        read.expect_err("it is damaged").to_string()
    }

    #[test]
    fn a_damaged_state_names_the_member_that_is_wrong() {
        let check = |from: &str, to: &str, words: &[&str]| {
            let said = refusal(from, to);
            assert!(words.iter().all(|word| said.contains(word)), "{from} → {to}: {said}");
        };
        check("\"seed\":7", "\"seed\":\"7\"", &["seed: ", "\"7\"", "u64"]);
        check("\"epoch\":3", "\"epoch\":-3", &["epoch: ", "-3", "u64"]);
        check("\"shuffle\":true", "\"shuffle\":1", &["shuffle: ", "`1`", "boolean"]);
        check("\"torch\"", "\"random\"", &["order: ", "`random`", "`elastic`"]);
        check("\"seed\":7,", "", &["missing field `seed`"]);
        check("\"shuffle\":true,", "", &["order `torch` has no `shuffle`"]);
        check("\"torch\"", "\"window\"", &["order `window` has no `shards`"]);
        check("\"torch\"", "\"weighted\"", &["order `weighted` has no `weights`"]);
    }
}
