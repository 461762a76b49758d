//! The shards that are open: a bounded number, the longest unused closed first.

use std::collections::HashMap;
use std::sync::Arc;

use crate::{Shard, ShardIdx};

#[derive(Debug, Default)]
pub(crate) struct OpenShards {
    shards: HashMap<ShardIdx, (Arc<Shard>, u64)>,
    clock: u64,
}

impl OpenShards {
    pub(crate) fn get(&mut self, shard: ShardIdx) -> Option<Arc<Shard>> {
        self.clock = self.clock.wrapping_add(1);
        let now = self.clock;
        self.shards.get_mut(&shard).map(|(shard, used)| {
            *used = now;
            Arc::clone(shard)
        })
    }

    /// Keeps `opened` unless another thread was first, and drops the longest unused.
    pub(crate) fn insert(
        &mut self,
        shard: ShardIdx,
        opened: Arc<Shard>,
        most: usize,
    ) -> Arc<Shard> {
        if let Some(first) = self.get(shard) {
            return first;
        }
        while self.shards.len() >= most {
            let oldest = self.shards.iter().min_by_key(|(_, (_, used))| *used).map(|(k, _)| *k);
            match oldest {
                Some(oldest) => drop(self.shards.remove(&oldest)),
                None => break,
            }
        }
        self.shards.insert(shard, (Arc::clone(&opened), self.clock));
        opened
    }
}
