//! The order of texts with numbers in them.

/// The bytes by which texts are sorted so that numbers in them are in the order of their values.
pub(crate) fn natural(text: &str) -> Vec<u8> {
    let mut place = Vec::with_capacity(text.len() + 4);
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (head, tail) = rest.split_at(if digits > 0 { digits } else { c.len_utf8() });
        if digits > 0 {
            let number = head.trim_start_matches('0');
            // More digits are a larger number; a name has at most 255 bytes.
            place.extend([b'0', u8::try_from(number.len() + 1).unwrap_or(u8::MAX)]);
            place.extend(number.as_bytes());
        } else {
            place.extend(head.as_bytes());
        }
        rest = tail;
    }
    // Tells `B2` from `B02`.
    place.push(1);
    place.extend(text.as_bytes());
    place
}

#[cfg(test)]
mod tests {
    use super::natural;

    #[test]
    fn numbers_in_names_are_sorted_by_their_values() {
        let mut bands = ["B11", "B8A", "B2", "B10", "B08", "B09", "B1"].map(str::to_owned);
        bands.sort_by_key(|band| natural(band));
        assert_eq!(bands, ["B1", "B2", "B08", "B8A", "B09", "B10", "B11"]);
        assert_ne!(natural("B2"), natural("B02"));
    }
}
