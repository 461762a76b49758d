//! Arithmetic modulo the prime 2⁶¹ − 1, and a way to find the few terms of a sum that are wrong.
//!
//! With S(k) = Σ eᵢ·xᵢᵏ known for as many k as there are twice unknown pairs (xᵢ, eᵢ), the pairs
//! follow: the decoding of Reed and Solomon's codes, by Berlekamp and Massey's algorithm.

use std::ops::Range;

/// 2⁶¹ − 1, a Mersenne prime: products fit 128 bits, and a division is a shift.
pub(super) const MODULUS: u64 = (1 << 61) - 1;

/// An xᵢ.
pub(super) type Root = u64;

pub(super) const fn add(a: u64, b: u64) -> u64 {
    let sum = a + b;
    if sum >= MODULUS { sum - MODULUS } else { sum }
}

pub(super) const fn sub(a: u64, b: u64) -> u64 {
    add(a, MODULUS - b % MODULUS)
}

pub(super) const fn mul(a: u64, b: u64) -> u64 {
    let product = a as u128 * b as u128;
    add(product as u64 & MODULUS, (product >> 61) as u64)
}

/// Returns 1 / `a`, by Fermat.
fn inverse(a: u64) -> u64 {
    let (mut result, mut square, mut exponent) = (1, a, MODULUS - 2);
    while exponent > 0 {
        if exponent & 1 == 1 {
            result = mul(result, square);
        }
        square = mul(square, square);
        exponent >>= 1;
    }
    result
}

/// Π (1 − xᵢ·z), lowest coefficient first, from S(0), S(1), …; `None` where more xᵢ are
/// needed than half as many as there are sums.
pub(super) fn locator(sums: &[u64]) -> Option<Vec<u64>> {
    let (mut found, mut before) = (vec![1], vec![1]);
    let (mut length, mut shift, mut last) = (0, 1, 1);
    for n in 0..sums.len() {
        let known = found.iter().skip(1).zip(sums[..n].iter().rev());
        let off = known.fold(sums[n], |off, (c, sum)| add(off, mul(*c, *sum)));
        if off == 0 {
            shift += 1;
            continue;
        }
        let factor = mul(off, inverse(last));
        let mut next = found.clone();
        next.resize(next.len().max(before.len() + shift), 0);
        for (to, from) in next[shift..].iter_mut().zip(&before) {
            *to = sub(*to, mul(factor, *from));
        }
        if 2 * length <= n {
            (length, before, last, shift) = (n + 1 - length, found, off, 1);
        } else {
            shift += 1;
        }
        found = next;
    }
    found.resize(length + 1, 0);
    (2 * length <= sums.len()).then_some(found)
}

/// Returns all xᵢ of `locator`, in order; `None` unless all of them are in `range`.
pub(super) fn roots(locator: &[u64], range: Range<u64>) -> Option<Vec<Root>> {
    let n = locator.len() - 1;
    // Π (1 − xᵢ·z) is 0 at 1/x if Π (x − xᵢ) is 0 at x: the same coefficients in reverse order.
    let is_root = |x: &u64| locator.iter().fold(0, |sum, c| add(mul(sum, *x), *c)) == 0;
    let found: Vec<u64> = range.filter(is_root).take(n).collect();
    (found.len() == n).then_some(found)
}

/// Returns the eᵢ of the xᵢ in `roots`.
pub(super) fn error_values(roots: &[Root], sums: &[u64]) -> Vec<u64> {
    let value = |x: &u64| {
        // Q(z) = Π (z − xⱼ) over the others is 0 at each of them, so that only eᵢ is left.
        let mut q = vec![1];
        let mut at_x = 1;
        for other in roots.iter().filter(|other| *other != x) {
            let mut next = vec![0; q.len() + 1];
            for (k, c) in q.iter().enumerate() {
                next[k + 1] = add(next[k + 1], *c);
                next[k] = sub(next[k], mul(*c, *other));
            }
            q = next;
            at_x = mul(at_x, sub(*x, *other));
        }
        let sum = q.iter().zip(sums).fold(0, |sum, (c, s)| add(sum, mul(*c, *s)));
        mul(sum, inverse(at_x))
    };
    roots.iter().map(value).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_is_that_of_the_prime() {
        let slow = |a: u64, b: u64| (u128::from(a) * u128::from(b) % u128::from(MODULUS)) as u64;
        let values = [0, 1, 2, 3, MODULUS - 1, MODULUS - 2, MODULUS / 2, 1 << 60, 0x1234_5678_9abc];
        for a in values {
            for b in values {
                assert_eq!(mul(a, b), slow(a, b), "{a} * {b}");
                assert_eq!(add(sub(a, b), b), a, "{a} - {b}");
            }
            assert!(a == 0 || mul(a, inverse(a)) == 1, "1 / {a}");
        }
    }
}
