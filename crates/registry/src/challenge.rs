//! How a registry asks for authentication: `WWW-Authenticate` (RFC 9110, section 11.6.1).

/// A way to authenticate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Challenge {
    /// A token, which the server at `realm` gives.
    Bearer {
        /// The server's URL.
        realm: String,
        /// The service that the token is for.
        service: Option<String>,
        /// What the token must allow.
        scope: Option<String>,
    },
    /// A name and a password.
    Basic,
}

/// Most challenges of one header.
const MAX: usize = 16;

/// Returns the challenges of a header that are known, and skips the others.
pub(crate) fn challenges(header: &str) -> Vec<Challenge> {
    let mut found: Vec<(String, Vec<(String, String)>)> = Vec::new();
    let mut rest = header;
    while let Some((word, after)) = token(rest) {
        let after = after.trim_start_matches([' ', '\t']);
        match after.strip_prefix('=') {
            // The text is a parameter of the challenge before it.
            Some(value) => {
                let (value, after) = value_of(value);
                if let Some((_, parameters)) = found.last_mut().filter(|(_, p)| p.len() < MAX) {
                    parameters.push((word.to_ascii_lowercase(), value));
                }
                rest = after;
            }
            None if found.len() < MAX => {
                found.push((word.to_ascii_lowercase(), Vec::new()));
                rest = after;
            }
            None => break,
        }
        rest = rest.trim_start_matches([' ', '\t', ',']);
    }
    found.into_iter().filter_map(|(scheme, parameters)| known(&scheme, &parameters)).collect()
}

fn known(scheme: &str, parameters: &[(String, String)]) -> Option<Challenge> {
    let get = |name: &str| {
        let found = parameters.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.clone())
    };
    match scheme {
        "basic" => Some(Challenge::Basic),
        "bearer" => Some(Challenge::Bearer {
            realm: get("realm")?,
            service: get("service"),
            scope: get("scope"),
        }),
        _ => None,
    }
}

/// The token that a text begins with, and the rest.
fn token(text: &str) -> Option<(&str, &str)> {
    let text = text.trim_start_matches([' ', '\t', ',']);
    let good = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~/".contains(c);
    let end = text.find(|c| !good(c)).unwrap_or(text.len());
    let (word, rest) = text.split_at_checked(end)?;
    (!word.is_empty()).then_some((word, rest))
}

/// Reads a value, in quotes or not, and returns it with the rest of the text.
fn value_of(text: &str) -> (String, &str) {
    let text = text.trim_start_matches([' ', '\t']);
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find([',', ' ', '\t']).unwrap_or(text.len());
        let (value, rest) = text.split_at_checked(end).unwrap_or((text, ""));
        return (value.to_owned(), rest);
    };
    let mut value = String::new();
    let mut characters = quoted.char_indices();
    while let Some((at, c)) = characters.next() {
        match c {
            '"' => return (value, quoted.get(at + 1..).unwrap_or_default()),
            '\\' => value.extend(characters.next().map(|(_, c)| c)),
            c => value.push(c),
        }
    }
    (value, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn challenges_are_read_as_registries_write_them() {
        let bearer = |realm: &str, service: Option<&str>, scope: Option<&str>| Challenge::Bearer {
            realm: realm.to_owned(),
            service: service.map(str::to_owned),
            scope: scope.map(str::to_owned),
        };
        let docker = r#"Bearer realm="https://auth.docker.io/token",service="registry.docker.io",scope="repository:a/b:pull,push""#;
        for (header, expected) in [
            (
                docker,
                vec![bearer(
                    "https://auth.docker.io/token",
                    Some("registry.docker.io"),
                    Some("repository:a/b:pull,push"),
                )],
            ),
            (r#"Basic realm="Registry Realm""#, vec![Challenge::Basic]),
            ("basic", vec![Challenge::Basic]),
            (
                r#"Negotiate, Bearer realm = "a\"b" , service=x, Basic realm="y""#,
                vec![bearer("a\"b", Some("x"), None), Challenge::Basic],
            ),
            (r#"Bearer service="no realm""#, vec![]),
            ("", vec![]),
            ("Bearer realm=\"cut", vec![bearer("cut", None, None)]),
            ("= = =", vec![]),
            ("ä Basic", vec![]),
        ] {
            assert_eq!(challenges(header), expected, "{header}");
        }
        assert!(challenges(&"Basic,".repeat(1000)).len() <= MAX);
        assert_eq!(challenges(&format!("Basic {}", "a=b,".repeat(1000))), [Challenge::Basic]);
    }
}
