//! What the places hold where tokens are found, for people who wonder why a token is not sent.

use std::io;
use std::time::SystemTime;

use super::claims::Claims;
use super::find::{Finder, Missing, Place};
use crate::Env;

/// A place where a token was looked for, and what is there. It has nothing of the token itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenPlace {
    /// The variable or the file, as in "`BEARER_TOKEN`" or "file `/x`".
    pub place: String,
    /// What is there.
    pub held: TokenHeld,
}

/// What a place for tokens holds.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum TokenHeld {
    /// Nothing: there is no such file.
    Nothing,
    /// Something that is not a token, or that may not be read, with the reason.
    Unfit(String),
    /// A token.
    Token {
        /// Whether it is no JSON Web Token, so that only its server knows what it permits.
        opaque: bool,
        /// When it expires, if it says so.
        expires: Option<SystemTime>,
        /// Who issued it, if it says so.
        issuer: Option<String>,
    },
}

/// Looks at every place where a token is found without being named, in the order of the search.
#[must_use]
pub fn token_places(env: &Env) -> Vec<TokenPlace> {
    held(&Finder::new(Vec::new(), env, rustix::process::getuid().as_raw()))
}

fn held(finder: &Finder) -> Vec<TokenPlace> {
    finder.places(None).iter().map(|place| look(finder, place)).collect()
}

fn look(finder: &Finder, place: &Place) -> TokenPlace {
    let shown = place.to_string();
    match finder.read(place) {
        Ok(token) => {
            let claims = Claims::decode(&token);
            let opaque = claims.is_none();
            let (expires, issuer) =
                claims.map_or((None, None), |claims| (claims.expires, claims.issuer));
            TokenPlace { place: shown, held: TokenHeld::Token { opaque, expires, issuer } }
        }
        Err(Missing::Unreadable(_)) if matches!(place, Place::Named(path) if !path.exists()) => {
            // The variable may hold a token where it should hold a path.
            let place = "the file that `BEARER_TOKEN_FILE` or `TOKEN` names".to_owned();
            TokenPlace { place, held: TokenHeld::Unfit("it does not exist".to_owned()) }
        }
        Err(Missing::Unreadable(e)) if e.kind() == io::ErrorKind::NotFound => {
            TokenPlace { place: shown, held: TokenHeld::Nothing }
        }
        Err(missing) => TokenPlace { place: shown, held: TokenHeld::Unfit(missing.to_string()) },
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::claims::tests::jwt;
    use super::*;

    #[test]
    fn each_place_is_shown_without_its_token() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
        let token = jwt(r#"{"iss":"https://iss","jti":"hidden","exp":60}"#);
        fs::write(at("bt_u7"), token.secret()).unwrap();
        fs::write(at("other"), "no token hidden").unwrap();
        let (run, other) = (at(""), at("other"));
        let env = Env::from_pairs(&[
            ("BEARER_TOKEN", "hidden"),
            ("BEARER_TOKEN_FILE", &other),
            ("XDG_RUNTIME_DIR", &run),
        ]);
        let all = held(&Finder::with_tmp(Vec::new(), &env, 7, &dir.path().join("none")));
        let [variable, file, usual, shared] = all.as_slice() else { panic!("{all:?}") };
        assert!(matches!(variable.held, TokenHeld::Token { opaque: true, .. }), "{variable:?}");
        assert!(matches!(&file.held, TokenHeld::Unfit(why) if why.contains("neither")), "{file:?}");
        let expires = Some(SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(60));
        let issuer = Some("https://iss".to_owned());
        assert_eq!(usual.held, TokenHeld::Token { opaque: false, expires, issuer });
        assert_eq!(shared.held, TokenHeld::Nothing);
        let env = Env::from_pairs(&[("BEARER_TOKEN_FILE", token.secret())]);
        let absent = held(&Finder::with_tmp(Vec::new(), &env, 7, dir.path()));
        assert!(matches!(&absent[0].held, TokenHeld::Unfit(why) if why.contains("BEARER_TOKEN`")));
        let shown = format!("{all:?} {absent:?}");
        assert!(!shown.contains("hidden") && !shown.contains(token.secret()), "{shown}");
    }
}
