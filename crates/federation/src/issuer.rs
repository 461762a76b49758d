//! The token issuer: JSON Web Tokens (RFC 7519) signed with ES256 (RFC 7518, 3.4).

use std::time::SystemTime;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest::{SHA256, digest};
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _,
    UnparsedPublicKey,
};
use serde_json::{Value, json};

use super::Error;
use super::folder::Folder;
use gular_pelican::Token;
use gular_pelican::protocol::Claims;

/// The audience that stands for any server in the WLCG profile.
pub(super) const AUDIENCE: &str = "https://wlcg.cern.ch/jwt/v1/any";
const KEY_FILE: &str = "token-key.der";

/// Signs tokens, and recognises its own.
pub(super) struct Issuer {
    /// The claim `iss`: the federation's discovery URL.
    url: String,
    key: EcdsaKeyPair,
    /// `kid`: the beginning of the public key's SHA-256, in hex.
    key_id: String,
}

impl Issuer {
    /// The issuer `url` with the folder's key, made when there is none.
    pub(super) fn open(folder: &Folder, url: String) -> Result<Self, Error> {
        let failed = |e: &dyn std::fmt::Display| Error::Make {
            what: "a key for tokens",
            reason: e.to_string(),
        };
        let random = SystemRandom::new();
        let der = match folder.read(KEY_FILE)? {
            Some(der) => der,
            None => {
                let der = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random)
                    .map_err(|e| failed(&e))?;
                folder.write(KEY_FILE, der.as_ref(), 0o600)?;
                der.as_ref().to_vec()
            }
        };
        let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &der, &random)
            .map_err(|e| Error::Damaged { path: folder.path(KEY_FILE), reason: e.to_string() })?;
        let hash = digest(&SHA256, key.public_key().as_ref());
        let key_id = hash.as_ref().iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        Ok(Self { url, key, key_id })
    }

    /// Returns a token with these claims.
    pub(super) fn sign(&self, claims: &Value) -> Result<Token, Error> {
        let failed = |reason: String| Error::Make { what: "a token", reason };
        let header = json!({"alg": "ES256", "kid": self.key_id, "typ": "JWT"});
        let encode = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let signed = format!("{}.{}", encode(&header), encode(claims));
        let signature = self
            .key
            .sign(&SystemRandom::new(), signed.as_bytes())
            .map_err(|e| failed(e.to_string()))?;
        let text = format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature));
        Token::parse(&text).ok_or_else(|| failed("it is empty".to_owned()))
    }

    /// The claims of a token of this issuer that is valid at `now`; else why it is not.
    pub(super) fn check(&self, token: &Token, now: SystemTime) -> Result<Claims, &'static str> {
        let (signed, signature) =
            token.secret().rsplit_once('.').ok_or("the token is not a JSON Web Token")?;
        let decode = |text: &str| URL_SAFE_NO_PAD.decode(text).ok();
        let header = signed.split('.').next().and_then(decode);
        let header: Option<Value> = header.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        let header = header.ok_or("the token is not a JSON Web Token")?;
        if header.get("alg").and_then(Value::as_str) != Some("ES256") {
            return Err("the token is not signed with ES256");
        }
        let claims = Claims::decode(token).ok_or("the token is not a JSON Web Token")?;
        if claims.issuer.as_deref() != Some(self.url.as_str()) {
            return Err("the token is from another issuer");
        }
        let key = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, self.key.public_key());
        decode(signature)
            .and_then(|signature| key.verify(signed.as_bytes(), &signature).ok())
            .ok_or("the token is not signed by this issuer")?;
        if claims.expires.is_none_or(|end| end <= now) {
            return Err("the token has expired");
        }
        if claims.not_before.is_some_and(|start| start > now) {
            return Err("the token is not valid yet");
        }
        if !claims.audience.iter().any(|audience| audience == AUDIENCE) {
            return Err("the token is for another audience");
        }
        Ok(claims)
    }

    /// The public key as a JSON Web Key Set (RFC 7517).
    pub(super) fn keys(&self) -> Value {
        // Uncompressed: 4, x, y (SEC 1, section 2.3.3).
        let point = self.key.public_key().as_ref();
        let part =
            |from: usize| URL_SAFE_NO_PAD.encode(point.get(from..from + 32).unwrap_or_default());
        json!({"keys": [{
            "kty": "EC", "crv": "P-256", "alg": "ES256", "use": "sig",
            "kid": self.key_id, "x": part(1), "y": part(33),
        }]})
    }

    /// Returns the document `/.well-known/openid-configuration`.
    pub(super) fn configuration(&self) -> Value {
        json!({
            "issuer": self.url,
            "jwks_uri": format!("{}/.well-known/issuer.jwks", self.url),
            "scopes_supported": ["storage.read", "storage.create", "storage.modify"],
            "id_token_signing_alg_values_supported": ["ES256"],
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const URL: &str = "https://localhost:1";

    fn claims() -> Value {
        json!({"iss": URL, "aud": AUDIENCE, "nbf": 100, "exp": 200, "scope": "storage.read:/"})
    }

    #[test]
    fn only_valid_tokens_of_this_issuer_pass() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::open(dir.path()).unwrap();
        let issuer = Issuer::open(&folder, URL.to_owned()).unwrap();
        let check = |changes: Value, at: u64, expected: Result<(), &str>| {
            let mut claims = claims();
            for (name, value) in changes.as_object().unwrap() {
                claims[name] = value.clone();
            }
            let token = issuer.sign(&claims).unwrap();
            let now = SystemTime::UNIX_EPOCH + Duration::from_secs(at);
            assert_eq!(issuer.check(&token, now).map(|_| ()), expected, "{claims}");
        };
        check(json!({}), 100, Ok(()));
        check(json!({"aud": ["x", AUDIENCE]}), 199, Ok(()));
        check(json!({}), 200, Err("the token has expired"));
        check(json!({"exp": null}), 150, Err("the token has expired"));
        check(json!({}), 99, Err("the token is not valid yet"));
        check(json!({"aud": "x"}), 150, Err("the token is for another audience"));
        check(json!({"iss": "https://localhost:2"}), 150, Err("the token is from another issuer"));
    }

    #[test]
    fn forged_tokens_do_not_pass() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(150);
        let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let open = |dir: &std::path::Path| {
            Issuer::open(&Folder::open(dir).unwrap(), URL.to_owned()).unwrap()
        };
        let issuer = open(dir.path());
        let token = issuer.sign(&claims()).unwrap();
        assert!(open(dir.path()).check(&token, now).is_ok(), "the key is kept");
        let of_another_key = open(other.path()).sign(&claims()).unwrap();
        let unsigned = format!(
            "{}.{}.",
            URL_SAFE_NO_PAD.encode(r#"{"alg":"none"}"#),
            URL_SAFE_NO_PAD.encode(claims().to_string())
        );
        let mut parts: Vec<_> = token.secret().split('.').map(str::to_owned).collect();
        parts[1] = URL_SAFE_NO_PAD.encode(claims().to_string().replace("read:/", "read:/x"));
        for (forged, reason) in [
            (of_another_key.secret(), "the token is not signed by this issuer"),
            (&unsigned, "the token is not signed with ES256"),
            (&parts.join("."), "the token is not signed by this issuer"),
            ("garbage", "the token is not a JSON Web Token"),
            ("a.b.c", "the token is not a JSON Web Token"),
        ] {
            let token = Token::parse(forged).unwrap();
            assert_eq!(issuer.check(&token, now).unwrap_err(), reason, "{forged}");
        }
    }
}
