//! A token's claims, read without checking its signature: checking is the server's task. The client
//! does not trust the claims, and only shows them to the user.

use std::time::{Duration, SystemTime};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;

use super::Token;

/// The convention for the names of a token's scopes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    /// `storage.read:/path`, told by the claim `wlcg.ver`.
    Wlcg,
    /// `read:/path`, told by the claim `ver`, such as `scitoken:2.0`.
    SciTokens,
    /// The token does not say, so either is accepted.
    Unknown,
}

/// The claims of a JWT (RFC 7519) that servers decide by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claims {
    /// The claim `exp`.
    pub expires: Option<SystemTime>,
    /// The claim `nbf`.
    pub not_before: Option<SystemTime>,
    /// The claim `iss`.
    pub issuer: Option<String>,
    /// The claim `aud`; empty if there is none.
    pub audience: Vec<String>,
    /// The words of `scope`, such as `storage.read:/path`.
    pub scopes: Vec<String>,
    /// The profile, which decides the names of scopes.
    pub profile: Profile,
}

impl Claims {
    /// Decodes the claims in `token`; `None` if it is not a JWT, which is not an error: such a
    /// token is opaque to all but the server.
    #[must_use]
    pub fn decode(token: &Token) -> Option<Self> {
        let mut parts = token.secret().split('.');
        let (Some(_), Some(payload), Some(_), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return None;
        };
        let payload = URL_SAFE_NO_PAD.decode(payload.trim_end_matches('=')).ok()?;
        let Value::Object(claims) = serde_json::from_slice(&payload).ok()? else { return None };
        let text = |name: &str| claims.get(name).and_then(Value::as_str);
        let profile = match text("ver") {
            _ if claims.contains_key("wlcg.ver") => Profile::Wlcg,
            Some(ver) if ver.starts_with("scitoken") => Profile::SciTokens,
            _ => Profile::Unknown,
        };
        let scopes = words(claims.get("scope"));
        Some(Self {
            expires: claims.get("exp").and_then(time),
            not_before: claims.get("nbf").and_then(time),
            issuer: text("iss").map(str::to_owned),
            audience: words(claims.get("aud")),
            scopes: scopes.iter().flat_map(|s| s.split_whitespace()).map(str::to_owned).collect(),
            profile,
        })
    }
}

/// Seconds since 1970, whole or not; `None` when no clock can show them.
fn time(value: &Value) -> Option<SystemTime> {
    let since = Duration::try_from_secs_f64(value.as_f64()?).ok()?;
    SystemTime::UNIX_EPOCH.checked_add(since)
}

/// Returns a text, or each text of an array.
fn words(value: Option<&Value>) -> Vec<String> {
    match value {
        Some(Value::String(word)) => vec![word.clone()],
        Some(Value::Array(list)) => {
            list.iter().filter_map(Value::as_str).map(str::to_owned).collect()
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A token with this payload and a signature that no server would take.
    pub(crate) fn jwt(payload: &str) -> Token {
        let part = |text: &str| URL_SAFE_NO_PAD.encode(text);
        let text = format!("{}.{}.c2VjcmV0", part("{\"alg\":\"ES256\"}"), part(payload));
        Token::parse(&text).unwrap()
    }

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    #[test]
    fn a_wlcg_token_is_read() {
        let claims = Claims::decode(&jwt(r#"{"wlcg.ver":"1.0","iss":"https://iss","sub":"x",
            "aud":"https://wlcg.cern.ch/jwt/v1/any","exp":2000.5,"nbf":1000,
            "scope":"storage.read:/a  storage.create:/b"}"#));
        let expected = Claims {
            expires: Some(at(2000) + Duration::from_millis(500)),
            not_before: Some(at(1000)),
            issuer: Some("https://iss".into()),
            audience: vec!["https://wlcg.cern.ch/jwt/v1/any".into()],
            scopes: vec!["storage.read:/a".into(), "storage.create:/b".into()],
            profile: Profile::Wlcg,
        };
        assert_eq!(claims, Some(expected));
    }

    #[track_caller]
    fn check_profile(payload: &str, expected: Profile) {
        assert_eq!(Claims::decode(&jwt(payload)).unwrap().profile, expected, "{payload}");
    }

    #[test]
    fn profiles_and_lists() {
        check_profile("{\"ver\":\"scitoken:2.0\"}", Profile::SciTokens);
        check_profile("{\"ver\":\"scitokens:1.0\"}", Profile::SciTokens);
        check_profile("{\"ver\":\"1.0\"}", Profile::Unknown);
        check_profile("{\"ver\":2}", Profile::Unknown);
        check_profile("{}", Profile::Unknown);
        let claims = Claims::decode(&jwt("{\"aud\":[\"a\",1,\"b\"],\"scope\":[\"read:/x\"]}"));
        let claims = claims.unwrap();
        assert_eq!(claims.audience, ["a", "b"]);
        assert_eq!(claims.scopes, ["read:/x"]);
    }

    #[test]
    fn claims_of_a_wrong_type_count_as_absent() {
        for exp in ["\"2000\"", "-1", "1e300", "null", "[]", "18446744073709551616e30"] {
            let payload = format!("{{\"exp\":{exp},\"iss\":3,\"scope\":{{}},\"aud\":null}}");
            let claims = Claims::decode(&jwt(&payload)).unwrap();
            assert_eq!((claims.expires, claims.issuer), (None, None), "{exp}");
            assert!(claims.scopes.is_empty() && claims.audience.is_empty());
        }
    }

    #[test]
    fn opaque_tokens_have_no_claims() {
        let good = jwt("{\"exp\":1}");
        let texts = ["abc", "a.b", "a.b.c", "..", "a.W10.c", "a.e30.c.d", "a.!!.c", "a.bnVsbA.c"];
        for text in texts {
            assert_eq!(Claims::decode(&Token::parse(text).unwrap()), None, "{text}");
        }
        assert!(Claims::decode(&good).is_some());
        for cut in 1..good.secret().len() {
            // Cut inside the signature, it is still a token of three parts.
            let claims = Claims::decode(&Token::parse(&good.secret()[..cut]).unwrap());
            assert_eq!(claims.is_some(), good.secret()[..cut].matches('.').count() == 2);
        }
    }
}
