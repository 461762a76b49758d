//! Which type of values an encoding's name stands for.

use crate::Dtype;

/// How the values of a column are stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Encoding {
    /// Plain bytes, such as images and JSON.
    Bytes,
    /// UTF-8.
    Text,
    /// An integer in decimal digits.
    Digits,
    /// A `u64`, which is not a type of fields.
    Unsigned,
    /// Little-endian values of this type and shape, row-major.
    Fixed(Dtype, Vec<u64>),
    /// An array behind its shape; if the type is `None`, it is stored before the array, too.
    Array(Option<Dtype>),
    /// Pixels behind width, height and mode.
    Pixels,
    /// It cannot be read in place, for this reason.
    Refused(String),
}

impl Encoding {
    pub(super) fn parse(text: &str) -> Self {
        let (name, rest) = match text.split_once(':') {
            Some((name, rest)) => (name, Some(rest)),
            None => (text, None),
        };
        match (name, rest) {
            ("bytes" | "jpeg" | "png" | "json", None) => Self::Bytes,
            ("str" | "str_float" | "str_decimal", None) => Self::Text,
            ("str_int", None) => Self::Digits,
            ("int", None) => Self::Fixed(Dtype::I64, Vec::new()),
            ("uint64", None) => Self::Unsigned,
            ("pil", None) => Self::Pixels,
            ("ndarray", rest) => Self::array(rest),
            ("jpeg_array" | "jpegarray" | "list[jpeg]" | "list[pil]" | "list[png]", None) => {
                Self::Refused("each value holds several images".to_owned())
            }
            ("pkl", None) => Self::Refused("its values are Python pickles".to_owned()),
            (_, None) => match dtype(text) {
                Some(dtype) => Self::Fixed(dtype, Vec::new()),
                None => Self::unknown(text),
            },
            _ => Self::unknown(text),
        }
    }

    fn unknown(text: &str) -> Self {
        let short: String = text.chars().take(64).collect();
        Self::Refused(format!("encoding `{short}` is not known"))
    }

    /// Parses the arguments of an array, `[<dtype>[:<shape>]]`.
    fn array(rest: Option<&str>) -> Self {
        let Some(rest) = rest else { return Self::Array(None) };
        let (name, shape) = match rest.split_once(':') {
            Some((name, shape)) => (name, Some(shape)),
            None => (rest, None),
        };
        let Some(dtype) = dtype(name) else { return Self::unknown(&format!("ndarray:{rest}")) };
        match shape {
            None => Self::Array(Some(dtype)),
            Some(shape) => {
                let dims = shape.split(',').map(|n| n.trim().parse().ok().filter(|n| *n > 0));
                match dims.collect::<Option<Vec<u64>>>() {
                    Some(shape) => Self::Fixed(dtype, shape),
                    None => Self::unknown(&format!("ndarray:{rest}")),
                }
            }
        }
    }

    /// Returns the bytes of every value; `None` if each sample has its own size.
    pub(super) fn size(&self) -> Option<u64> {
        match self {
            Self::Fixed(dtype, shape) => {
                shape.iter().try_fold(dtype.size_bytes(), |acc, n| acc.checked_mul(*n))
            }
            Self::Unsigned => Some(8),
            _ => None,
        }
    }
}

/// Returns the type with this NumPy name, such as `float32`.
fn dtype(name: &str) -> Option<Dtype> {
    Some(match name {
        "uint8" => Dtype::U8,
        "int8" => Dtype::I8,
        "uint16" => Dtype::U16,
        "int16" => Dtype::I16,
        "uint32" => Dtype::U32,
        "int32" => Dtype::I32,
        "int64" => Dtype::I64,
        "float16" => Dtype::F16,
        "float32" => Dtype::F32,
        "float64" => Dtype::F64,
        _ => return None,
    })
}

/// Returns the type with the number that is stored before an array; `None` if no field has it.
pub(super) fn dtype_of(number: u8) -> Option<Dtype> {
    Some(match number {
        8 => Dtype::U8,
        9 => Dtype::I8,
        16 => Dtype::U16,
        17 => Dtype::I16,
        18 => Dtype::F16,
        32 => Dtype::U32,
        33 => Dtype::I32,
        34 => Dtype::F32,
        65 => Dtype::I64,
        66 => Dtype::F64,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_what_values_are() {
        let fixed = |dtype, shape: &[u64]| Encoding::Fixed(dtype, shape.to_vec());
        for (text, expected, size) in [
            ("jpeg", Encoding::Bytes, None),
            ("str_int", Encoding::Digits, None),
            ("int", fixed(Dtype::I64, &[]), Some(8)),
            ("float16", fixed(Dtype::F16, &[]), Some(2)),
            ("uint64", Encoding::Unsigned, Some(8)),
            ("ndarray", Encoding::Array(None), None),
            ("ndarray:uint8", Encoding::Array(Some(Dtype::U8)), None),
            ("ndarray:int16:4,5,3", fixed(Dtype::I16, &[4, 5, 3]), Some(120)),
        ] {
            let found = Encoding::parse(text);
            assert_eq!((&found, found.size()), (&expected, size), "{text}");
        }
        for text in [
            "pkl",
            "jpeg_array",
            "list[png]",
            "wav",
            "int:3",
            "ndarray:uint64",
            "ndarray:uint8:0",
            "ndarray:uint8:4:5",
        ] {
            assert!(matches!(Encoding::parse(text), Encoding::Refused(_)), "{text}");
        }
    }
}
