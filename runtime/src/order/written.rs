//! A loader's state as checkpoints hold it: the members of its order between its own.

use gular_bundle::{Digest, Split};
use serde::{Deserialize, Serialize};

use super::{LoaderState, OrderKind, OrderSpec, Tally};

/// [`LoaderState`] as it is written.
#[derive(Serialize, Deserialize)]
pub(super) struct Written {
    bundle: Digest,
    split: Split,
    order: Name,
    /// Of `torch`.
    #[serde(skip_serializing_if = "Option::is_none")]
    shuffle: Option<bool>,
    /// Of `window`.
    #[serde(skip_serializing_if = "Option::is_none")]
    shards: Option<u64>,
    seed: u64,
    drop_last: bool,
    epoch: u64,
    consumed: u64,
    world_size: u64,
    /// Where samples are left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    left_out: Option<u64>,
    /// Not in states of earlier builds.
    #[serde(skip_serializing_if = "Option::is_none")]
    tally: Option<Tally>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Name {
    Torch,
    Elastic,
    Window,
}

impl From<LoaderState> for Written {
    fn from(state: LoaderState) -> Self {
        let LoaderState { bundle, split, order, epoch, consumed, world_size, left_out, tally } =
            state;
        let OrderSpec { kind, seed, drop_last } = order;
        let (order, shuffle, shards) = match kind {
            OrderKind::Torch { shuffle } => (Name::Torch, Some(shuffle), None),
            OrderKind::Elastic => (Name::Elastic, None, None),
            OrderKind::Window { shards } => (Name::Window, None, Some(shards)),
        };
        let left_out = Some(left_out).filter(|n| *n > 0);
        Self {
            bundle,
            split,
            order,
            shuffle,
            shards,
            seed,
            drop_last,
            epoch,
            consumed,
            world_size,
            left_out,
            tally,
        }
    }
}

impl TryFrom<Written> for LoaderState {
    type Error = &'static str;

    fn try_from(written: Written) -> Result<Self, &'static str> {
        let Written { bundle, split, seed, drop_last, epoch, consumed, world_size, .. } = written;
        let kind = match (written.order, written.shuffle, written.shards) {
            (Name::Torch, Some(shuffle), _) => OrderKind::Torch { shuffle },
            (Name::Torch, None, _) => return Err("order `torch` has no `shuffle`"),
            (Name::Elastic, ..) => OrderKind::Elastic,
            (Name::Window, _, Some(shards)) => OrderKind::Window { shards },
            (Name::Window, _, None) => return Err("order `window` has no `shards`"),
        };
        let order = OrderSpec { kind, seed, drop_last };
        let left_out = written.left_out.unwrap_or(0);
        let tally = written.tally;
        Ok(Self { bundle, split, order, epoch, consumed, world_size, left_out, tally })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is said of a state when `from` in it is `to`.
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
    }
}
