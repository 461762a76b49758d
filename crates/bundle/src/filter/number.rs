//! Numbers in conditions and samples, compared exactly.

use std::cmp::Ordering;

use crate::Dtype;

/// A number as it is written or stored; no integer is rounded when it is compared.
#[derive(Debug, Clone, Copy)]
pub(super) enum Number {
    Int(i64),
    Float(f64),
}

impl Number {
    /// Reads a number that is compared with those of type `dtype`. If that is `f32`, 0.1 is rounded
    /// as an `f32` is; a number that no integer type can hold is a float.
    pub(super) fn parse(text: &str, dtype: Option<Dtype>) -> Option<Self> {
        match dtype {
            Some(Dtype::F32) => text.parse::<f32>().map(|number| Self::Float(number.into())).ok(),
            Some(Dtype::F64) => text.parse().map(Self::Float).ok(),
            _ => {
                let int = text.parse().map(Self::Int);
                int.or_else(|_| text.parse().map(Self::Float)).ok()
            }
        }
    }
}

impl PartialEq for Number {
    fn eq(&self, other: &Self) -> bool {
        self.partial_cmp(other) == Some(Ordering::Equal)
    }
}

impl PartialOrd for Number {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        match (*self, *other) {
            (Self::Int(a), Self::Int(b)) => Some(a.cmp(&b)),
            (Self::Float(a), Self::Float(b)) => a.partial_cmp(&b),
            (Self::Int(a), Self::Float(b)) => compared(a, b),
            (Self::Float(a), Self::Int(b)) => compared(b, a).map(Ordering::reverse),
        }
    }
}

/// Compares an integer with a float, as exact numbers; `None` for NaN.
#[expect(clippy::cast_possible_truncation, reason = "the float is between the limits of i64")]
fn compared(int: i64, float: f64) -> Option<Ordering> {
    // Whole floats from -2^63 up to, but without, 2^63 are i64.
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    if float.is_nan() {
        None
    } else if float >= LIMIT {
        Some(Ordering::Less)
    } else if float < -LIMIT {
        Some(Ordering::Greater)
    } else {
        let rest = 0.0_f64.partial_cmp(&float.fract());
        Some(int.cmp(&(float.trunc() as i64)).then(rest?))
    }
}

/// Reads a stored scalar.
pub(super) fn number(dtype: Dtype, bytes: &[u8]) -> Option<Number> {
    macro_rules! le {
        ($t:ty, $kind:ident) => {
            bytes.first_chunk().map(|b| Number::$kind(<$t>::from_le_bytes(*b).into()))
        };
    }
    match dtype {
        Dtype::U8 => le!(u8, Int),
        Dtype::I8 => le!(i8, Int),
        Dtype::U16 => le!(u16, Int),
        Dtype::I16 => le!(i16, Int),
        Dtype::U32 => le!(u32, Int),
        Dtype::I32 => le!(i32, Int),
        Dtype::I64 => le!(i64, Int),
        Dtype::F32 => le!(f32, Float),
        Dtype::F64 => le!(f64, Float),
        Dtype::F16 | Dtype::Bf16 => None,
    }
}
