//! The type of a set's pixels, found before anything is decided.

use gular_bundle::{Dtype, Npy};

use super::{Depth, PayloadOptions};
use crate::array;
use crate::scan::media_type_of;
use crate::source::Source;
use crate::{Error, Inputs, PlanOptions};

/// Which depths occur, each with the first key that has it.
///
/// Of PNG files 25 bytes are read; JPEG has 8 bits and is not opened. A file
/// that cannot be read says nothing here: packing it will fail.
#[derive(Debug, Default)]
pub(crate) struct Depths {
    u8: Option<String>,
    u16: Option<String>,
    /// Types and shapes of arrays.
    arrays: Vec<(Dtype, Vec<u64>, String)>,
}

/// Two are wrong already; more than these are not told apart.
const MOST_KINDS: usize = 16;

impl Depths {
    /// Looks at one file, when `options` leave something to be found.
    pub(crate) fn look(&mut self, options: &PlanOptions, source: &Source, key: &str) {
        if options.inputs == Inputs::Arrays {
            return self.look_at_array(source, key);
        }
        let PayloadOptions::Raw(raw) = &options.payload else { return };
        if raw.depth.is_some() {
            return;
        }
        let bits = if media_type_of(key, options.inputs) == Some("image/png") {
            source.start::<25>(key).ok().and_then(|start| gular_codec::bit_depth(&start))
        } else {
            Some(8)
        };
        let Some(bits) = bits else { return };
        let first = if bits == 16 { &mut self.u16 } else { &mut self.u8 };
        // Whatever order the folder was listed in.
        if first.as_deref().is_none_or(|first| key < first) {
            *first = Some(key.to_owned());
        }
    }

    fn look_at_array(&mut self, source: &Source, key: &str) {
        let packed = key.to_ascii_lowercase().ends_with(".npz");
        let most = if packed { usize::MAX } else { Npy::HEAD_BYTES };
        let Some(npy) = source.head(key, most).ok().and_then(|head| array::start(&head).ok())
        else {
            return;
        };
        let known = self.arrays.iter().position(|(d, s, _)| *d == npy.dtype && *s == npy.shape);
        match known {
            Some(at) => {
                if let Some((.., first)) =
                    self.arrays.get_mut(at).filter(|(.., f)| key < f.as_str())
                {
                    key.clone_into(first);
                }
            }
            None if self.arrays.len() < MOST_KINDS => {
                self.arrays.push((npy.dtype, npy.shape, key.to_owned()));
            }
            None => {}
        }
    }

    /// Type and shape of all arrays.
    pub(crate) fn array(mut self) -> Result<(Dtype, Vec<u64>), Error> {
        self.arrays.sort_by(|(.., a), (.., b)| a.cmp(b));
        let mut arrays = self.arrays.into_iter();
        // Where none can be read, each says why when it is packed.
        let Some((dtype, shape, first)) = arrays.next() else {
            return Ok((Dtype::U8, Vec::new()));
        };
        if let Some((other, other_shape, second)) = arrays.next() {
            return Err(Error::MixedArrays {
                first,
                found: format!("{dtype:?} {shape:?}"),
                second,
                other: format!("{other:?} {other_shape:?}"),
            });
        }
        Ok((dtype, shape))
    }

    /// The depth of all.
    pub(crate) fn depth(self) -> Result<Depth, Error> {
        match (self.u8, self.u16) {
            (Some(narrow), Some(wide)) => Err(Error::MixedDepth { narrow, wide }),
            (None, Some(_)) => Ok(Depth::U16),
            (_, None) => Ok(Depth::U8),
        }
    }
}
