//! Bearer tokens, which must not appear in any output.

use std::fmt;

/// No token contains these (RFC 6750, section 2.1), but a shell or a file of settings may have them
/// around it.
const QUOTES: &[u8] = b"\"'`";

/// A bearer token; neither `Debug` nor any error shows its text.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// Parses the token in `text`: what a file or variable holds, either the raw token or
    /// `{"access_token": "…"}`. `None` when there is none, or it could not stand in a header.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let text = if text.starts_with('{') {
            let json: serde_json::Value = serde_json::from_str(text).ok()?;
            json.get("access_token")?.as_str()?.trim().to_owned()
        } else {
            text.to_owned()
        };
        let fits = |b: u8| b.is_ascii_graphic() && !QUOTES.contains(&b);
        (!text.is_empty() && text.bytes().all(fits)).then_some(Self(text))
    }

    /// Says why `text` does not hold a token, without any of the text.
    pub(crate) fn why_not(text: &str) -> &'static str {
        let text = text.trim().as_bytes();
        let begins = |word: &[u8]| {
            text.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word))
        };
        match text {
            [] => "it is empty",
            [first, .., last] if QUOTES.contains(first) || QUOTES.contains(last) => {
                "there are quotes around the token"
            }
            _ if begins(b"Bearer ") || begins(b"Authorization:") => {
                "there are other words before the token, such as `Bearer`"
            }
            _ => "it is neither a token nor JSON with a token",
        }
    }

    /// The token's text; use it only for the `Authorization` header.
    #[must_use]
    pub fn secret(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_raw_text_or_json_and_never_shows() {
        let secret = |text| Token::parse(text).map(|t| t.secret().to_owned());
        assert_eq!(secret(" abc.def \n").as_deref(), Some("abc.def"));
        assert_eq!(secret("{\"access_token\": \"abc\", \"x\": 1}\n").as_deref(), Some("abc"));
        for (bad, why) in [
            ("\n", "empty"),
            ("\"abc\"\n", "quotes"),
            ("'abc'", "quotes"),
            ("bearer abc", "words before"),
            ("Authorization: Bearer abc", "words before"),
            ("a b", "neither"),
        ] {
            assert_eq!(secret(bad), None, "{bad:?}");
            assert!(Token::why_not(bad).contains(why), "{bad:?}");
        }
        for bad in ["", " ", "{}", "{\"access_token\": 3}", "{", "a b", "a\r\nX: y"] {
            assert_eq!(secret(bad), None, "{bad:?}");
        }
        assert!(!format!("{:?}", Token::parse("abc")).contains("abc"));
    }
}
