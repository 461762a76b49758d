//! The ring of device slots: batches on their way to the GPU while it computes.
//!
//! ```text
//!   loader's slots (page-locked)      device slots          libtorch
//!   batch k+2  ──copy stream──▶ [ k+2 ]
//!   batch k+1  ─────done──────▶ [ k+1 ]
//!   batch k    given back       [  k  ] ──compute stream──▶ tensors of its own
//! ```
//!
//! Each device slot has two events. `copied` is recorded after a batch's copy: the
//! compute stream waits for it before it reads the slot, and the host before the
//! batch's own memory is filled again. `consumed` is recorded after the last read of
//! the slot: the copy stream waits for it before the next batch is written there. So
//! neither side ever waits for more than it needs, and the host for nothing but a copy
//! that is behind.
//!
//! The order of these steps is all there is to it, and lives here, apart from the driver
//! ([`Lanes`]), so that tests can run it on streams that are as slow and as fast as can be.

use std::collections::VecDeque;

use tch::Tensor;

use crate::Error;

/// The two streams of a device, and its memory slots.
pub(crate) trait Lanes {
    /// A point in a stream's work.
    type Event;

    /// Makes an event that nothing waits for yet.
    fn event(&self) -> Result<Self::Event, Error>;
    /// Records `event` after all work that was given to the copy stream.
    fn copy_records(&self, event: &Self::Event) -> Result<(), Error>;
    /// Makes later work of the copy stream begin after `event`.
    fn copy_waits(&self, event: &Self::Event) -> Result<(), Error>;
    /// Records `event` after all work that was given to the compute stream, which is libtorch's.
    fn compute_records(&self, event: &Self::Event) -> Result<(), Error>;
    /// Makes later work of the compute stream begin after `event`.
    fn compute_waits(&self, event: &Self::Event) -> Result<(), Error>;
    /// Whether the work before `event`, as last recorded, is done; true if it was never recorded.
    fn is_past(&self, event: &Self::Event) -> Result<bool, Error>;
    /// Makes the host wait for `event`.
    fn wait(&self, event: &Self::Event) -> Result<(), Error>;
    /// Tells the copy stream to copy the batch to slot `slot`. The batch's memory must not change
    /// until the stream has done so.
    fn upload(&mut self, slot: usize, batch: &[u8]) -> Result<(), Error>;
    /// Waits until both streams have done all they were given.
    fn finish(&self);
}

/// Lanes whose slots can be used as tensors.
pub(crate) trait Views: Lanes {
    /// The memory of `slot`, `u8` of one dimension: only for work that is given to the compute
    /// stream before the slot is handed back.
    fn memory(&self, slot: usize) -> &Tensor;
}

/// A batch in the host's memory.
pub(crate) trait Held {
    /// The bytes that are copied: its images, then its labels at [`labels_at`].
    fn bytes(&self) -> &[u8];
}

/// The offset of the labels of a batch whose images are `images` bytes.
pub(crate) fn labels_at(images: usize) -> usize {
    images.next_multiple_of(size_of::<i64>())
}

/// A slot whose batch the compute stream may read until it is handed back by
/// [`DeviceSlots::consumed`].
#[derive(Debug)]
pub(crate) struct Lent {
    slot: usize,
}

impl Lent {
    /// The number of the slot.
    pub(crate) fn slot(&self) -> usize {
        self.slot
    }
}

struct Slot<E> {
    copied: E,
    consumed: E,
}

/// Device slots, used in turn. `B` is a batch on the host, `A` what is known of it.
pub(crate) struct DeviceSlots<L: Lanes, B: Held, A> {
    lanes: L,
    slots: Vec<Slot<L::Event>>,
    /// The slot of the next upload.
    next: usize,
    /// Batches that were uploaded and not taken yet, oldest first.
    ahead: VecDeque<(usize, A)>,
    /// Batches whose memory a copy may still read, oldest first.
    copying: VecDeque<(usize, B)>,
}

impl<L: Lanes, B: Held, A> DeviceSlots<L, B, A> {
    /// Makes a ring of the `n_slots` slots of `lanes`: one is computed on, the others are ahead.
    pub(crate) fn new(lanes: L, n_slots: usize) -> Result<Self, Error> {
        let slot = |_| Ok(Slot { copied: lanes.event()?, consumed: lanes.event()? });
        let slots = (0..n_slots).map(slot).collect::<Result<_, Error>>()?;
        Ok(Self { lanes, slots, next: 0, ahead: VecDeque::new(), copying: VecDeque::new() })
    }

    /// Returns the streams and slots.
    pub(crate) fn lanes(&self) -> &L {
        &self.lanes
    }

    /// Whether a batch can be uploaded while another is computed on.
    pub(crate) fn has_room(&self) -> bool {
        self.ahead.len() + 1 < self.slots.len()
    }

    /// Whether there is no batch to take.
    pub(crate) fn is_empty(&self) -> bool {
        self.ahead.is_empty()
    }

    /// Begins to copy `batch` to the device, and returns at once. There must be a free slot.
    pub(crate) fn upload(&mut self, batch: B, about: A) -> Result<(), Error> {
        debug_assert!(self.has_room());
        let at = self.next;
        // The host's memory of the slot's last batch: `copied` is about to mean another.
        while self.copying.iter().any(|(slot, _)| *slot == at) {
            self.give_back_oldest()?;
        }
        if let Err(error) = self.begin_copy(at, &batch) {
            // A part of it may be in progress, and `batch` is about to be filled again.
            self.lanes.finish();
            return Err(error);
        }
        self.next = (at + 1) % self.slots.len();
        self.ahead.push_back((at, about));
        self.copying.push_back((at, batch));
        Ok(())
    }

    fn begin_copy(&mut self, at: usize, batch: &B) -> Result<(), Error> {
        let slot = &self.slots[at];
        self.lanes.copy_waits(&slot.consumed)?;
        self.lanes.upload(at, batch.bytes())?;
        self.lanes.copy_records(&slot.copied)
    }

    /// The oldest batch: its slot, which the compute stream can read from now on.
    pub(crate) fn take(&mut self) -> Result<Option<(Lent, A)>, Error> {
        let Some((slot, about)) = self.ahead.pop_front() else { return Ok(None) };
        self.lanes.compute_waits(&self.slots[slot].copied)?;
        Ok(Some((Lent { slot }, about)))
    }

    /// Notes that no work submitted to the compute stream after now reads the slot.
    #[expect(clippy::needless_pass_by_value, reason = "a slot is handed back once")]
    pub(crate) fn consumed(&mut self, lent: Lent) -> Result<(), Error> {
        self.lanes.compute_records(&self.slots[lent.slot].consumed)
    }

    /// Gives batches whose copy is done back to the loader; how many are not.
    pub(crate) fn give_back_copied(&mut self) -> Result<usize, Error> {
        while let Some((slot, _)) = self.copying.front() {
            if !self.lanes.is_past(&self.slots[*slot].copied)? {
                break;
            }
            self.copying.pop_front();
        }
        Ok(self.copying.len())
    }

    /// Waits for the oldest copy and gives its batch back; whether there was one.
    pub(crate) fn give_back_oldest(&mut self) -> Result<bool, Error> {
        let Some((slot, _)) = self.copying.front() else { return Ok(false) };
        self.lanes.wait(&self.slots[*slot].copied)?;
        self.copying.pop_front();
        Ok(true)
    }

    /// Drops batches that were uploaded and not taken.
    pub(crate) fn abandon(&mut self) {
        if self.ahead.is_empty() && self.copying.is_empty() {
            return;
        }
        self.lanes.finish();
        self.ahead.clear();
        self.copying.clear();
    }
}

impl<L: Lanes, B: Held, A> Drop for DeviceSlots<L, B, A> {
    /// Batches and slots are freed when nothing reads or writes them any more.
    fn drop(&mut self) {
        self.lanes.finish();
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::rc::Rc;

    use super::*;
    use gular_order::key;

    /// A piece of work for a stream.
    enum Work {
        Wait {
            event: usize,
            generation: u64,
        },
        Record {
            event: usize,
            generation: u64,
        },
        /// Reads the host's memory of a batch, in two halves: a copy is not atomic.
        Copy {
            slot: usize,
            half: usize,
            from: usize,
            len: usize,
        },
        /// Compares a slot with the batch that was uploaded.
        Read {
            slot: usize,
            half: usize,
            expected: u8,
        },
    }

    const LEN: usize = 4;
    const POISON: u8 = 0xEE;

    /// Streams whose work is done whenever a seed says so, in any order that events allow.
    #[derive(Default)]
    struct Device {
        copy: VecDeque<Work>,
        compute: VecDeque<Work>,
        /// For each event, the last record that the stream has passed.
        past: Vec<u64>,
        /// For each event, how often it was recorded.
        recorded: Vec<u64>,
        slots: Vec<[u8; LEN]>,
        /// The loader's memory; a batch refers to a part by number.
        host: Vec<[u8; LEN]>,
        draws: u64,
        seed: u64,
        torn: usize,
        reads: usize,
    }

    impl Device {
        fn draw(&mut self, n: u64) -> u64 {
            self.draws += 1;
            key(self.seed, self.draws, 0) % n
        }

        /// Does a random amount of work.
        fn run(&mut self) {
            for _ in 0..self.draw(8) {
                let copy = self.draw(2) == 0;
                self.step(copy);
            }
        }

        /// Does one piece of work of one stream, unless the stream waits or has none.
        fn step(&mut self, copy: bool) -> bool {
            let queue = if copy { &mut self.copy } else { &mut self.compute };
            let Some(work) = queue.front() else { return false };
            if matches!(*work, Work::Wait { event, generation } if self.past[event] < generation) {
                return false;
            }
            match queue.pop_front() {
                None | Some(Work::Wait { .. }) => {}
                Some(Work::Record { event, generation }) => self.past[event] = generation,
                Some(Work::Copy { slot, half, from, len }) => {
                    let at = half * LEN / 2..((half + 1) * LEN / 2).min(len.max(half * LEN / 2));
                    self.slots[slot][at.clone()].copy_from_slice(&self.host[from][at]);
                }
                Some(Work::Read { slot, half, expected }) => {
                    let at = half * LEN / 2..(half + 1) * LEN / 2;
                    self.reads += 1;
                    self.torn += usize::from(self.slots[slot][at] != [expected; LEN / 2]);
                }
            }
            true
        }

        fn drain(&mut self) {
            while self.step(true) || self.step(false) {}
        }
    }

    /// A way to break the ring, to see that the tests would find it.
    #[derive(Clone, Copy, PartialEq, Eq)]
    enum Forget {
        Nothing,
        WaitForConsumed,
        WaitForCopied,
        HostWait,
    }

    struct Simulated {
        device: Rc<RefCell<Device>>,
        forget: Forget,
    }

    impl Lanes for Simulated {
        type Event = usize;

        fn event(&self) -> Result<usize, Error> {
            let mut device = self.device.borrow_mut();
            device.past.push(0);
            device.recorded.push(0);
            Ok(device.past.len() - 1)
        }

        fn copy_records(&self, event: &usize) -> Result<(), Error> {
            let mut device = self.device.borrow_mut();
            device.recorded[*event] += 1;
            let generation = device.recorded[*event];
            device.copy.push_back(Work::Record { event: *event, generation });
            Ok(())
        }

        fn copy_waits(&self, event: &usize) -> Result<(), Error> {
            let mut device = self.device.borrow_mut();
            let generation = device.recorded[*event];
            if self.forget != Forget::WaitForConsumed {
                device.copy.push_back(Work::Wait { event: *event, generation });
            }
            Ok(())
        }

        fn compute_records(&self, event: &usize) -> Result<(), Error> {
            let mut device = self.device.borrow_mut();
            device.recorded[*event] += 1;
            let generation = device.recorded[*event];
            device.compute.push_back(Work::Record { event: *event, generation });
            Ok(())
        }

        fn compute_waits(&self, event: &usize) -> Result<(), Error> {
            let mut device = self.device.borrow_mut();
            let generation = device.recorded[*event];
            if self.forget != Forget::WaitForCopied {
                device.compute.push_back(Work::Wait { event: *event, generation });
            }
            Ok(())
        }

        fn is_past(&self, event: &usize) -> Result<bool, Error> {
            let mut device = self.device.borrow_mut();
            device.run();
            Ok(self.forget == Forget::HostWait || device.past[*event] >= device.recorded[*event])
        }

        fn wait(&self, event: &usize) -> Result<(), Error> {
            let mut device = self.device.borrow_mut();
            while self.forget != Forget::HostWait && device.past[*event] < device.recorded[*event] {
                assert!(device.step(true) || device.step(false), "both streams wait for ever");
            }
            Ok(())
        }

        fn upload(&mut self, slot: usize, batch: &[u8]) -> Result<(), Error> {
            let (part, images) = batch.split_last().unwrap();
            let (from, len) = (usize::from(*part), images.len());
            let mut device = self.device.borrow_mut();
            for half in 0..2 {
                device.copy.push_back(Work::Copy { slot, half, from, len });
            }
            device.run();
            Ok(())
        }

        fn finish(&self) {
            self.device.borrow_mut().drain();
        }
    }

    /// A batch in a part of the host's memory, whose number comes last; given back, it is
    /// overwritten at once.
    struct Lease {
        device: Rc<RefCell<Device>>,
        bytes: [u8; LEN + 1],
        free: Rc<RefCell<Vec<usize>>>,
        given_back: Rc<Cell<usize>>,
    }

    impl Held for Lease {
        fn bytes(&self) -> &[u8] {
            &self.bytes
        }
    }

    fn bytes_of(value: u8, part: usize) -> [u8; LEN + 1] {
        let mut bytes = [value; LEN + 1];
        bytes[LEN] = u8::try_from(part).unwrap();
        bytes
    }

    impl Drop for Lease {
        fn drop(&mut self) {
            let part = usize::from(self.bytes[LEN]);
            self.device.borrow_mut().host[part] = [POISON; LEN];
            self.free.borrow_mut().push(part);
            self.given_back.set(self.given_back.get() + 1);
        }
    }

    /// Brings `n` batches through; returns how many reads saw another batch's bytes.
    fn torn(seed: u64, n_slots: usize, n: usize, forget: Forget) -> usize {
        torn_or_left(seed, n_slots, n, forget, None)
    }

    /// Does the same as [`torn`], but drops the batches that are ahead after some batches, and
    /// begins again.
    fn torn_or_left(
        seed: u64,
        n_slots: usize,
        n: usize,
        forget: Forget,
        abandon_after: Option<usize>,
    ) -> usize {
        let n_parts = n_slots + 2;
        let device = Rc::new(RefCell::new(Device {
            slots: vec![[POISON; LEN]; n_slots],
            host: vec![[POISON; LEN]; n_parts],
            seed,
            ..Device::default()
        }));
        let free = Rc::new(RefCell::new((0..n_parts).collect::<Vec<_>>()));
        let given_back = Rc::new(Cell::new(0));
        let lanes = Simulated { device: Rc::clone(&device), forget };
        let mut ring = DeviceSlots::new(lanes, n_slots).unwrap();
        let (mut uploaded, mut taken) = (0_usize, 0);
        while taken < n {
            while uploaded < n && ring.has_room() {
                while free.borrow().is_empty() {
                    assert!(ring.give_back_oldest().unwrap(), "nothing to wait for");
                }
                let part = free.borrow_mut().pop().unwrap();
                let value = u8::try_from(uploaded % 200).unwrap();
                device.borrow_mut().host[part] = [value; LEN];
                let lease = Lease {
                    device: Rc::clone(&device),
                    bytes: bytes_of(value, part),
                    free: Rc::clone(&free),
                    given_back: Rc::clone(&given_back),
                };
                ring.upload(lease, value).unwrap();
                uploaded += 1;
            }
            let (lent, expected) = ring.take().unwrap().unwrap();
            for half in 0..2 {
                let slot = lent.slot();
                device.borrow_mut().compute.push_back(Work::Read { slot, half, expected });
            }
            device.borrow_mut().run();
            ring.consumed(lent).unwrap();
            ring.give_back_copied().unwrap();
            taken += 1;
            if Some(taken) == abandon_after {
                // This happens at the end of an abandoned epoch: batches that were ahead are made
                // again.
                ring.abandon();
                uploaded = taken;
            }
        }
        drop(ring);
        assert!(given_back.get() >= n && free.borrow().len() == n_parts, "all is given back");
        let device = device.borrow();
        assert_eq!(device.reads, 2 * n, "every batch is read");
        device.torn
    }

    #[test]
    fn no_order_of_the_streams_tears_a_batch() {
        for seed in 0..400 {
            for n_slots in 2..5 {
                assert_eq!(torn(seed, n_slots, 40, Forget::Nothing), 0, "{seed} {n_slots}");
                let left = torn_or_left(seed, n_slots, 40, Forget::Nothing, Some(17));
                assert_eq!(left, 0, "{seed} {n_slots}");
            }
        }
    }

    #[test]
    fn each_wait_is_needed() {
        for forget in [Forget::WaitForConsumed, Forget::WaitForCopied, Forget::HostWait] {
            let torn: usize = (0..50).map(|seed| torn(seed, 3, 40, forget)).sum();
            assert!(torn > 0);
        }
    }

    #[test]
    fn what_was_not_taken_is_given_back() {
        let device = Rc::new(RefCell::new(Device {
            slots: vec![[POISON; LEN]; 3],
            host: vec![[7; LEN]; 2],
            ..Device::default()
        }));
        let given_back = Rc::new(Cell::new(0));
        let lanes = Simulated { device: Rc::clone(&device), forget: Forget::Nothing };
        let mut ring = DeviceSlots::new(lanes, 3).unwrap();
        for part in 0..2 {
            let (device, given_back) = (Rc::clone(&device), Rc::clone(&given_back));
            let free = Rc::default();
            let lease = Lease { device, bytes: bytes_of(7, part), free, given_back };
            ring.upload(lease, ()).unwrap();
        }
        assert!(!ring.has_room() && !ring.is_empty());
        ring.abandon();
        assert_eq!((ring.is_empty(), given_back.get()), (true, 2));
        assert!(ring.take().unwrap().is_none());
    }
}
