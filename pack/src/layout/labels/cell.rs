//! One cell of a table.

/// The value of a cell.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Cell {
    Missing,
    Bool(bool),
    Integer(i64),
    Float(f64),
    Text(String),
    /// A text in a format without types: a number, if all cells of the column are.
    Written(String),
    List(Vec<Cell>),
    /// A value that is not read, for this reason.
    Other(String),
}

impl Cell {
    /// A cell of a format without types, where an empty or blank cell is missing.
    pub(super) fn written(text: &str) -> Self {
        if text.trim().is_empty() { Self::Missing } else { Self::Written(text.to_owned()) }
    }

    /// The cell's integer, if it is one or contains one as text.
    pub(super) fn integer(&self) -> Option<i64> {
        match self {
            Self::Integer(n) => Some(*n),
            Self::Written(text) => spelt_integer(text.trim()),
            _ => None,
        }
    }

    /// The cell's number, if it is one or contains one as text.
    pub(super) fn number(&self) -> Option<f64> {
        match self {
            Self::Integer(n) => Some(*n as f64),
            Self::Float(x) => Some(*x),
            Self::Written(text) => spelt_number(text.trim()),
            _ => None,
        }
    }

    /// The number of a class: an integer, also one that is written as a fraction, such as `2.0`,
    /// which is what a column of integers becomes where one of them is missing.
    pub(super) fn class_number(&self) -> Option<i64> {
        if let Some(n) = self.integer() {
            return Some(n);
        }
        let x = self.number().filter(|x| x.fract() == 0.0 && x.abs() < (1_u64 << 53) as f64)?;
        Some(x as i64)
    }

    /// Whether the cell says that there is no value, which is not the name of a class.
    pub(super) fn is_nan(&self) -> bool {
        match self {
            Self::Float(x) => x.is_nan(),
            Self::Text(text) | Self::Written(text) => matches!(text.trim(), "NaN" | "nan"),
            _ => false,
        }
    }

    /// Bytes of memory that the cell takes, nearly.
    pub(super) fn bytes(&self) -> usize {
        size_of::<Self>()
            + match self {
                Self::Text(text) | Self::Written(text) | Self::Other(text) => text.len(),
                Self::List(cells) => cells.iter().map(Self::bytes).sum(),
                _ => 0,
            }
    }

    /// The cell's text as the name of a class or a file, without blanks around it.
    pub(crate) fn word(&self) -> Option<String> {
        match self {
            Self::Text(text) | Self::Written(text) => Some(text.trim().to_owned()),
            Self::Integer(n) => Some(n.to_string()),
            Self::Bool(b) => Some(b.to_string()),
            _ => None,
        }
    }
}

/// Parses an integer without leading zeros, since `007` is a name.
fn spelt_integer(text: &str) -> Option<i64> {
    let n: i64 = text.parse().ok()?;
    (n.to_string() == text).then_some(n)
}

/// Digits, sign, point, exponent: Rust also reads `inf` and `infinity`, which may be names.
fn spelt_number(text: &str) -> Option<f64> {
    if text.eq_ignore_ascii_case("nan") {
        return Some(f64::NAN);
    }
    let plain = |b: u8| b.is_ascii_digit() || matches!(b, b'+' | b'-' | b'.' | b'e' | b'E');
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text).as_bytes();
    let zeros = matches!(digits, [b'0', b'0'..=b'9', ..]);
    if zeros || !text.bytes().all(plain) {
        return None;
    }
    text.parse().ok().filter(|x: &f64| x.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_look_like_numbers_stay_names() {
        let check = |text: &str, integer: Option<i64>, number: Option<f64>| {
            let cell = Cell::written(text);
            assert_eq!((cell.integer(), cell.number()), (integer, number), "{text}");
        };
        check("7", Some(7), Some(7.0));
        check(" 7\t", Some(7), Some(7.0));
        check(" 0.5", None, Some(0.5));
        check("-1", Some(-1), Some(-1.0));
        check("1.5e3", None, Some(1500.0));
        check("007", None, None);
        check("inf", None, None);
        check("1e999", None, None);
        check("", None, None);
        let number = |text: &str| Cell::written(text).class_number();
        assert_eq!((number("2.0"), number("-1.0"), number("2.5")), (Some(2), Some(-1), None));
        assert!(Cell::written(" nan").is_nan() && !Cell::written("Nan").is_nan());
        assert_eq!(Cell::written(" "), Cell::Missing);
        assert!(Cell::written("NaN").number().unwrap().is_nan());
    }
}
