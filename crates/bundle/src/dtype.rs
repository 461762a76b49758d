//! Element types of fixed fields. Format: `FORMAT.md`, "Fields".

use std::fmt;

use serde::{Deserialize, Serialize};

/// The element type of a fixed field or tensor, always little-endian.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "each variant is the type it names")]
pub enum Dtype {
    U8,
    I8,
    U16,
    I16,
    U32,
    I32,
    I64,
    F16,
    Bf16,
    F32,
    F64,
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{self:?}").to_ascii_lowercase())
    }
}

impl Dtype {
    /// Every element type a bundle may hold.
    pub const ALL: [Self; 11] = [
        Self::U8,
        Self::I8,
        Self::U16,
        Self::I16,
        Self::U32,
        Self::I32,
        Self::I64,
        Self::F16,
        Self::Bf16,
        Self::F32,
        Self::F64,
    ];

    /// Bytes of one element.
    #[must_use]
    pub const fn size_bytes(self) -> u64 {
        match self {
            Self::U8 | Self::I8 => 1,
            Self::U16 | Self::I16 | Self::F16 | Self::Bf16 => 2,
            Self::U32 | Self::I32 | Self::F32 => 4,
            Self::I64 | Self::F64 => 8,
        }
    }

    /// NumPy's name of this type, little-endian; `None` for `bf16`, which NumPy does not have.
    #[must_use]
    pub const fn numpy(self) -> Option<&'static str> {
        Some(match self {
            Self::U8 => "|u1",
            Self::I8 => "|i1",
            Self::U16 => "<u2",
            Self::I16 => "<i2",
            Self::U32 => "<u4",
            Self::I32 => "<i4",
            Self::I64 => "<i8",
            Self::F16 => "<f2",
            Self::Bf16 => return None,
            Self::F32 => "<f4",
            Self::F64 => "<f8",
        })
    }

    /// Whether elements are integers.
    #[must_use]
    pub const fn is_integer(self) -> bool {
        !matches!(self, Self::F16 | Self::Bf16 | Self::F32 | Self::F64)
    }

    /// Returns the integer in these little-endian bytes of this type; there must be as many as
    /// [`Dtype::size_bytes`] says.
    #[must_use]
    pub fn integer(self, bytes: &[u8]) -> i64 {
        let signed = matches!(self, Self::I8 | Self::I16 | Self::I32 | Self::I64);
        let negative = signed && bytes.last().is_some_and(|b| b & 0x80 != 0);
        let mut wide = [if negative { 0xff } else { 0 }; 8];
        wide.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
        i64::from_le_bytes(wide)
    }

    /// The name safetensors gives this type.
    #[must_use]
    pub const fn safetensors_name(self) -> &'static str {
        match self {
            Self::U8 => "U8",
            Self::I8 => "I8",
            Self::U16 => "U16",
            Self::I16 => "I16",
            Self::U32 => "U32",
            Self::I32 => "I32",
            Self::I64 => "I64",
            Self::F16 => "F16",
            Self::Bf16 => "BF16",
            Self::F32 => "F32",
            Self::F64 => "F64",
        }
    }

    /// The type that safetensors calls `name`, when a bundle may hold it.
    #[must_use]
    pub fn from_safetensors_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|d| d.safetensors_name() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_keep_their_sign() {
        assert_eq!(Dtype::I8.integer(&[0xfe]), -2);
        assert_eq!(Dtype::U8.integer(&[0xfe]), 254);
        assert_eq!(Dtype::U32.integer(&[0xff; 4]), i64::from(u32::MAX));
        assert_eq!(Dtype::I64.integer(&i64::MIN.to_le_bytes()), i64::MIN);
    }

    #[test]
    fn names_round_trip() {
        for dtype in Dtype::ALL {
            assert_eq!(Dtype::from_safetensors_name(dtype.safetensors_name()), Some(dtype));
        }
        assert_eq!(Dtype::from_safetensors_name("U64"), None);
    }
}
