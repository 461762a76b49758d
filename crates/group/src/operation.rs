//! An operation that all ranks perform together, as each announces it at the start.

use crate::Error;

/// Number u64, length u64, kind u8, type u8, six zeros.
pub(super) const HEADER_BYTES: usize = 24;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OperationKind {
    AllReduce,
    /// A broadcast of any length, which rank 0 announces.
    Broadcast,
    /// A broadcast of a length that all ranks know.
    BroadcastInto,
    Barrier,
    Finish,
}

/// One operation, as ranks tell it to each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Operation {
    /// The operation's number, counted from 1.
    pub(super) number: u64,
    pub(super) kind: OperationKind,
    /// The type of the elements: its code and its name.
    pub(super) dtype: (u8, &'static str),
    pub(super) len: u64,
}

impl Operation {
    pub(super) fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        let kind = match self.kind {
            OperationKind::AllReduce => 1,
            OperationKind::Broadcast => 2,
            OperationKind::BroadcastInto => 3,
            OperationKind::Barrier => 4,
            OperationKind::Finish => 5,
        };
        let parts = self.number.to_le_bytes().into_iter().chain(self.len.to_le_bytes());
        for (out, byte) in bytes.iter_mut().zip(parts.chain([kind, self.dtype.0])) {
            *out = byte;
        }
        bytes
    }

    fn parse(bytes: &[u8; HEADER_BYTES]) -> Option<Self> {
        let (number, rest) = bytes.split_first_chunk()?;
        let (len, rest) = rest.split_first_chunk()?;
        let [kind, dtype, zeros @ ..] = rest else { return None };
        let kind = match kind {
            1 => OperationKind::AllReduce,
            2 => OperationKind::Broadcast,
            3 => OperationKind::BroadcastInto,
            4 => OperationKind::Barrier,
            5 => OperationKind::Finish,
            _ => return None,
        };
        let names = ["bytes", "f32", "f64", "i32", "i64", "u64"];
        let name = names.get(usize::from(*dtype))?;
        let [number, len] = [*number, *len].map(u64::from_le_bytes);
        let whole = Self { number, kind, dtype: (*dtype, name), len };
        zeros.iter().all(|zero| *zero == 0).then_some(whole)
    }

    /// Compares with what rank `other` does, and gives its length.
    pub(super) fn agree(
        &self,
        rank: u64,
        other: u64,
        bytes: &[u8; HEADER_BYTES],
    ) -> Result<u64, Error> {
        let Some(theirs) = Self::parse(bytes) else {
            let reason = format!("rank {rank} is in {self}, rank {other} in something unknown");
            return Err(Error::Mismatch { reason });
        };
        let same_len = self.len == theirs.len || self.kind == OperationKind::Broadcast;
        if !same_len || (Self { len: self.len, ..theirs }) != *self {
            let reason = format!("rank {rank} is in {self}, rank {other} in {theirs}");
            return Err(Error::Mismatch { reason });
        }
        Ok(theirs.len)
    }
}

impl std::fmt::Display for Operation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { number, kind, dtype: (_, name), len } = self;
        write!(f, "operation {number}, ")?;
        match kind {
            OperationKind::AllReduce => write!(f, "all-reduce of {len} {name}"),
            OperationKind::Broadcast => write!(f, "broadcast"),
            OperationKind::BroadcastInto => write!(f, "broadcast of {len} bytes"),
            OperationKind::Barrier => write!(f, "barrier"),
            OperationKind::Finish => write!(f, "finish"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: Operation =
        Operation { number: 7, kind: OperationKind::AllReduce, dtype: (1, "f32"), len: 5 };

    #[test]
    fn equal_operations_agree_and_others_are_named_on_both_sides() {
        assert_eq!(OURS.agree(1, 0, &OURS.encode()), Ok(5));
        let check = |theirs: [u8; HEADER_BYTES], expected: &str| {
            let error = OURS.agree(1, 0, &theirs).unwrap_err();
            let ours = "the ranks are not at the same operation: rank 1 is in operation 7, all-reduce of 5 f32";
            assert_eq!(error.to_string(), format!("{ours}, rank 0 in {expected}"));
        };
        check(Operation { len: 6, ..OURS }.encode(), "operation 7, all-reduce of 6 f32");
        check(Operation { dtype: (5, "u64"), ..OURS }.encode(), "operation 7, all-reduce of 5 u64");
        check(Operation { kind: OperationKind::Barrier, ..OURS }.encode(), "operation 7, barrier");
        check(Operation { number: 8, ..OURS }.encode(), "operation 8, all-reduce of 5 f32");
        check([9; HEADER_BYTES], "something unknown");
    }

    #[test]
    fn length_of_a_broadcast_is_rank_0s() {
        let kind = OperationKind::Broadcast;
        let ours = Operation { kind, dtype: (0, "bytes"), len: 0, number: 1 };
        assert_eq!(ours.agree(1, 0, &Operation { len: 9, ..ours }.encode()), Ok(9));
    }
}
