//! A sum around the ring, as two byte streams: one to the next rank, one from the previous rank.
//!
//! ```text
//! n ranks cut their numbers into n segments. Rank r
//!   sends     segment r, r-1, r-2, …            2(n-1) of them
//!   receives  segment r-1, r-2, r-3, …          2(n-1) of them
//! The first n-1 it receives are added to its own, the others are whole sums
//! and replace them. What it sends after the first segment is what it received before,
//! so each number is forwarded as soon as it arrives; nothing waits for a whole segment.
//! ```
//!
//! Each sum is made once, in the order of the ranks around the ring, then copied: all ranks have
//! the same bits, and a repetition gives the same bits again.

use std::ops::Range;

use super::operation::{HEADER_BYTES, Operation};
use super::summable::Summable;
use crate::Error;

/// An operation as a stream of bytes to send, and one of bytes to receive.
pub(super) trait Flow {
    /// Writes bytes that can be sent now to the front of `out`, and returns how many.
    fn fill(&mut self, out: &mut [u8]) -> usize;
    /// Whether anything is left to be sent, now or later.
    fn sends(&self) -> bool;
    /// How many bytes are still to come, at least 1 while that is not known.
    fn wanted(&self) -> usize;
    /// Takes bytes from the front of `bytes`, and returns how many.
    fn take(&mut self, bytes: &[u8]) -> Result<usize, Error>;
}

/// A position in a stream of segments.
#[derive(Debug, Clone, Copy)]
struct Cursor {
    /// The segment of the stream, from 0.
    step: usize,
    /// The number of the element in this segment.
    offset: usize,
}

/// [`Group::all_reduce`](crate::Group::all_reduce).
pub(super) struct Reduce<'a, T> {
    values: &'a mut [T],
    operation: Operation,
    rank: u64,
    rank_before: u64,
    world: usize,
    /// This rank's position in the ring.
    place: usize,
    header_sent: bool,
    header_came: bool,
    sent: Cursor,
    came: Cursor,
    /// Bytes that are still expected after the header.
    coming: usize,
}

impl<'a, T: Summable> Reduce<'a, T> {
    /// `world` is at least 2 and `rank` below it.
    pub(super) fn new(
        values: &'a mut [T],
        operation: Operation,
        rank: u64,
        world_size: u64,
    ) -> Self {
        // There cannot be more ranks than memory addresses.
        let world = usize::try_from(world_size).unwrap_or(usize::MAX);
        let place = usize::try_from(rank).unwrap_or(usize::MAX);
        let start = Cursor { step: 0, offset: 0 };
        let rank_before = (rank + world_size - 1) % world_size;
        let mut flow = Self {
            values,
            operation,
            rank,
            rank_before,
            world,
            place,
            header_sent: false,
            header_came: false,
            sent: start,
            came: start,
            coming: 0,
        };
        let numbers: usize = (0..flow.steps()).map(|step| flow.coming_segment(step).len()).sum();
        flow.coming = numbers * T::BYTES;
        flow
    }

    fn steps(&self) -> usize {
        2 * (self.world - 1)
    }

    /// Segment `index`, counted around the ring: the first ones are longer by one.
    fn segment(&self, index: usize) -> Range<usize> {
        let (base, longer) = (self.values.len() / self.world, self.values.len() % self.world);
        let start = |index: usize| index * base + index.min(longer);
        start(index)..start(index + 1)
    }

    /// The segment that is sent in `step`: one back around the ring each time.
    fn sent_segment(&self, step: usize) -> Range<usize> {
        self.segment((self.place + 2 * self.world - step) % self.world)
    }

    fn coming_segment(&self, step: usize) -> Range<usize> {
        self.segment((self.place + 2 * self.world - step - 1) % self.world)
    }

    /// The numbers of the segment being sent that are ready and not sent yet.
    fn ready(&self) -> Range<usize> {
        let segment = self.sent_segment(self.sent.step);
        let until = match self.sent.step.checked_sub(1) {
            None => segment.len(),
            Some(needs) if self.came.step > needs => segment.len(),
            Some(needs) if self.came.step == needs => self.came.offset,
            Some(_) => 0,
        };
        segment.start + self.sent.offset..segment.start + until.max(self.sent.offset)
    }
}

impl<T: Summable> Flow for Reduce<'_, T> {
    fn fill(&mut self, out: &mut [u8]) -> usize {
        let mut filled = 0;
        if !self.header_sent {
            let Some(head) = out.first_chunk_mut() else { return 0 };
            *head = self.operation.encode();
            (self.header_sent, filled) = (true, HEADER_BYTES);
        }
        while self.sent.step < self.steps() {
            let room = out.get_mut(filled..).unwrap_or_default();
            let ready = self.ready();
            let n = ready.len().min(room.len() / T::BYTES);
            let values = self.values.get(ready.start..ready.start + n).unwrap_or_default();
            T::put(values, room);
            filled += n * T::BYTES;
            self.sent.offset += n;
            if self.sent.offset < self.sent_segment(self.sent.step).len() {
                break;
            }
            self.sent = Cursor { step: self.sent.step + 1, offset: 0 };
        }
        filled
    }

    fn sends(&self) -> bool {
        !self.header_sent || self.sent.step < self.steps()
    }

    fn wanted(&self) -> usize {
        if self.header_came { self.coming } else { HEADER_BYTES + self.coming }
    }

    fn take(&mut self, bytes: &[u8]) -> Result<usize, Error> {
        let mut taken = 0;
        if !self.header_came {
            let Some(header) = bytes.first_chunk() else { return Ok(0) };
            self.operation.agree(self.rank, self.rank_before, header)?;
            (self.header_came, taken) = (true, HEADER_BYTES);
        }
        while self.came.step < self.steps() {
            let bytes = bytes.get(taken..).unwrap_or_default();
            let segment = self.coming_segment(self.came.step);
            let left = segment.len() - self.came.offset;
            let n = left.min(bytes.len() / T::BYTES);
            let start = segment.start + self.came.offset;
            let values = self.values.get_mut(start..start + n).unwrap_or_default();
            if self.came.step < self.world - 1 {
                T::add(values, bytes);
            } else {
                T::set(values, bytes);
            }
            taken += n * T::BYTES;
            self.coming -= n * T::BYTES;
            self.came.offset += n;
            if n < left {
                break;
            }
            self.came = Cursor { step: self.came.step + 1, offset: 0 };
        }
        Ok(taken)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::operation::OperationKind;
    use super::*;

    /// Runs the flows of all ranks in one thread; `chunk` bytes go at a time, and the
    /// ranks take turns in the order of `turns`.
    fn run(inputs: &[Vec<f32>], chunk: usize, turns: &[usize]) -> Vec<Vec<f32>> {
        let mut values = inputs.to_vec();
        let world = u64::try_from(inputs.len()).unwrap();
        let len = u64::try_from(inputs[0].len()).unwrap();
        let operation =
            Operation { number: 1, kind: OperationKind::AllReduce, dtype: (1, "f32"), len };
        let mut flows: Vec<_> = (0..).zip(&mut values).collect();
        let mut flows: Vec<_> = flows
            .iter_mut()
            .map(|(rank, values)| Reduce::new(values, operation, *rank, world))
            .collect();
        let mut wires = vec![Vec::new(); inputs.len()];
        let mut still = 0;
        for turn in turns.iter().cycle() {
            let me = turn % flows.len();
            let mut out = vec![0; chunk];
            let n = flows[me].fill(&mut out);
            let next = (me + 1) % flows.len();
            wires[next].extend(&out[..n]);
            let come = wires[me].len().min(flows[me].wanted());
            let taken = flows[me].take(&wires[me][..come]).unwrap();
            wires[me].drain(..taken);
            if flows.iter().all(|flow| !flow.sends() && flow.wanted() == 0) {
                break;
            }
            still = if n + taken > 0 { 0 } else { still + 1 };
            assert!(still < 1000 * turns.len(), "nothing moves any more");
        }
        assert!(wires.iter().all(Vec::is_empty));
        values
    }

    proptest! {
        #[test]
        fn sums_are_right_and_equal_whatever_the_chunks(
            world in 2_usize..7,
            len in 0_usize..40,
            chunk in 24_usize..200,
            turns in prop::collection::vec(0_usize..7, 1..20),
        ) {
            let inputs: Vec<Vec<f32>> = (0..world)
                .map(|rank| (0..len).map(|i| 0.1 + (rank * 41 + i) as f32 * 1.7).collect())
                .collect();
            // Each rank has a turn first; then the random order follows.
            let turns: Vec<usize> = (0..world).chain(turns).collect();
            let sums = run(&inputs, chunk, &turns);
            let in_order = run(&inputs, 100_000, &(0..world).collect::<Vec<_>>());
            for rank in 0..world {
                prop_assert_eq!(&sums[rank], &sums[0]);
                prop_assert_eq!(&sums[rank], &in_order[rank]);
            }
            for i in 0..len {
                let exact: f64 = inputs.iter().map(|values| f64::from(values[i])).sum();
                prop_assert!((f64::from(sums[0][i]) - exact).abs() <= exact * 1e-6);
            }
        }
    }
}
