//! The types of numbers that ranks sum.

mod sealed {
    pub trait Sealed {}
}

/// A number that [`Group::all_reduce`](crate::Group::all_reduce) adds: `f32`, `f64`,
/// `i32`, `i64`, `u64`. Integers wrap around.
pub trait Summable: Copy + Send + Sync + sealed::Sealed + 'static {
    /// The type's name in messages.
    #[doc(hidden)]
    const NAME: &'static str;
    /// The type's number in headers.
    #[doc(hidden)]
    const CODE: u8;
    /// The type's length on the wire in bytes; numbers are little-endian.
    #[doc(hidden)]
    const BYTES: usize;
    #[doc(hidden)]
    const ONE: Self;
    /// Writes numbers as bytes, as many as both have.
    #[doc(hidden)]
    fn put(values: &[Self], out: &mut [u8]);
    /// Adds the numbers in `bytes` to `values`.
    #[doc(hidden)]
    fn add(values: &mut [Self], bytes: &[u8]);
    /// Replaces `values` by the numbers in `bytes`.
    #[doc(hidden)]
    fn set(values: &mut [Self], bytes: &[u8]);
}

macro_rules! number {
    ($type:ident, $code:literal, $one:literal, |$a:ident, $b:ident| $sum:expr) => {
        impl sealed::Sealed for $type {}

        impl Summable for $type {
            const NAME: &'static str = stringify!($type);
            const CODE: u8 = $code;
            const BYTES: usize = size_of::<$type>();
            const ONE: Self = $one;

            fn put(values: &[Self], out: &mut [u8]) {
                for (value, out) in values.iter().zip(out.as_chunks_mut().0) {
                    *out = value.to_le_bytes();
                }
            }

            fn add(values: &mut [Self], bytes: &[u8]) {
                for (value, bytes) in values.iter_mut().zip(bytes.as_chunks().0) {
                    let ($a, $b) = (*value, Self::from_le_bytes(*bytes));
                    *value = $sum;
                }
            }

            fn set(values: &mut [Self], bytes: &[u8]) {
                for (value, bytes) in values.iter_mut().zip(bytes.as_chunks().0) {
                    *value = Self::from_le_bytes(*bytes);
                }
            }
        }
    };
}

number!(f32, 1, 1.0, |a, b| a + b);
number!(f64, 2, 1.0, |a, b| a + b);
number!(i32, 3, 1, |a, b| a.wrapping_add(b));
number!(i64, 4, 1, |a, b| a.wrapping_add(b));
number!(u64, 5, 1, |a, b| a.wrapping_add(b));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_little_endian_and_integers_wrap() {
        let mut bytes = [0; 16];
        u64::put(&[1, u64::MAX], &mut bytes);
        assert_eq!(bytes[..9], [1, 0, 0, 0, 0, 0, 0, 0, 255]);
        let mut values = [u64::MAX, 3];
        u64::add(&mut values, &bytes);
        assert_eq!(values, [0, 2]);
        u64::set(&mut values, &bytes);
        assert_eq!(values, [1, u64::MAX]);
        let mut floats = [0.5_f32];
        f32::add(&mut floats, &1.25_f32.to_le_bytes());
        assert_eq!(floats, [1.75]);
    }
}
