//! The depth of a set's samples, found before anything is decided.

use super::{Depth, PayloadOptions};
use crate::Error;
use crate::scan::media_type_of;
use crate::source::Source;

/// Which depths occur, each with the first key that has it.
///
/// Of PNG files 25 bytes are read; JPEG has 8 bits and is not opened. A file
/// that cannot be read says nothing here: packing it will fail.
#[derive(Debug, Default)]
pub(crate) struct Depths {
    u8: Option<String>,
    u16: Option<String>,
}

impl Depths {
    /// Looks at one file, when `options` leave something to be found.
    pub(crate) fn look(&mut self, options: &PayloadOptions, source: &Source, key: &str) {
        let PayloadOptions::Raw(raw) = options else { return };
        if raw.depth.is_some() {
            return;
        }
        let bits = if media_type_of(key) == Some("image/png") {
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

    /// The depth of all.
    pub(crate) fn depth(self) -> Result<Depth, Error> {
        match (self.u8, self.u16) {
            (Some(narrow), Some(wide)) => Err(Error::MixedDepth { narrow, wide }),
            (None, Some(_)) => Ok(Depth::U16),
            (_, None) => Ok(Depth::U8),
        }
    }
}
