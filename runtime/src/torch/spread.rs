//! Broadcasts tensors from rank 0 to all ranks.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use gular_bundle::Digest;
use tch::Tensor;

use super::weights::{PIECE_BYTES, Piece, Pieces};
use crate::Error;
use crate::group::Group;

/// Replaces each of `tensors` by that of rank 0, piece by piece, so that no rank needs memory for a
/// second copy.
pub(super) fn spread(group: &Group, tensors: &BTreeMap<String, Tensor>) -> Result<(), Error> {
    let mut about = String::new();
    for (name, tensor) in tensors {
        let _ = writeln!(about, "{name}: {:?} {:?}", tensor.f_kind()?, tensor.size());
    }
    let here = Digest::of(about.as_bytes()).hex().into_bytes();
    let mut first = here.clone();
    group.broadcast_into(&mut first)?;
    if first != here {
        let reason = "rank 0 has other variables, or another optimiser".to_owned();
        group.fail(&reason);
        return Err(Error::Tensors { reason });
    }
    tch::no_grad(|| {
        let mut load = Load::default();
        for tensor in tensors.values() {
            // A tensor whose memory is not contiguous gets the numbers from a contiguous copy.
            let whole = if tensor.is_contiguous() {
                tensor.f_detach()?
            } else {
                tensor.f_detach()?.f_contiguous()?
            };
            for part in Pieces::of(&whole)? {
                let part = part?;
                if load.bytes + part.len_bytes() > PIECE_BYTES {
                    load.send(group)?;
                }
                load.bytes += part.len_bytes();
                load.parts.push(part);
            }
            if !tensor.is_contiguous() {
                load.send(group)?;
                tensor.shallow_clone().f_copy_(&whole)?;
            }
        }
        load.send(group)
    })
}

/// Parts of tensors that are sent in one message.
#[derive(Default)]
struct Load {
    parts: Vec<Piece>,
    bytes: usize,
    buffer: Vec<u8>,
}

impl Load {
    fn send(&mut self, group: &Group) -> Result<(), Error> {
        self.buffer.resize(self.bytes, 0);
        let first = group.rank() == 0;
        let mut rest = self.buffer.as_mut_slice();
        for part in self.parts.iter().filter(|_| first) {
            let (bytes, after) = rest.split_at_mut(part.len_bytes());
            part.read_into(bytes)?;
            rest = after;
        }
        if self.bytes > 0 {
            group.broadcast_into(&mut self.buffer)?;
        }
        let mut rest = self.buffer.as_slice();
        for part in self.parts.iter_mut().filter(|_| !first) {
            let (bytes, after) = rest.split_at(part.len_bytes());
            part.set(bytes)?;
            rest = after;
        }
        self.parts.clear();
        self.bytes = 0;
        Ok(())
    }
}
