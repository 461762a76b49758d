//! Bearer tokens, which must not appear in any output.

use std::fmt;

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
        (!text.is_empty() && text.bytes().all(|b| b.is_ascii_graphic())).then_some(Self(text))
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
        for bad in ["", " ", "{}", "{\"access_token\": 3}", "{", "a b", "a\r\nX: y"] {
            assert_eq!(secret(bad), None, "{bad:?}");
        }
        assert!(!format!("{:?}", Token::parse("abc")).contains("abc"));
    }
}
