//! The caches that a site prefers: `PELICAN_CLIENT_PREFERREDCACHES`.
//!
//! ```text
//! https://c1:8443,https://c2:8443      only these
//! "https://c1:8443 +"                  these, then those that the director names
//! ```

use crate::Env;
use crate::http::Server;

const NAME: &str = "PELICAN_CLIENT_PREFERREDCACHES";

/// The caches to ask first, or alone.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Preferred {
    /// The servers, each once, in the order named.
    pub(crate) servers: Vec<Server>,
    /// Whether no other server is asked.
    pub(crate) only: bool,
}

impl Preferred {
    /// Reads the caches from the environment. Values that Pelican's client accepts and we cannot
    /// use are left out, with a message in `warnings`.
    pub(crate) fn of(env: &Env, warnings: &mut Vec<String>) -> Self {
        let Some(list) = env.get(NAME) else { return Self::default() };
        // The Go client trims quotes around the whole and around each.
        let bare = |text: &str| text.trim().trim_matches(['"', '\'']).trim().to_owned();
        let list = bare(list);
        let words: Vec<String> = list
            .split(|c: char| c.is_whitespace() || c == ',')
            .map(bare)
            .filter(|word| !word.is_empty())
            .collect();
        let mut preferred = Self::default();
        for word in words.iter().filter(|word| *word != "+") {
            match server(word) {
                Ok(server) if preferred.servers.contains(&server) => {}
                Ok(server) => preferred.servers.push(server),
                Err(why) => {
                    let word = gular_files::mask_url(word);
                    warnings.push(format!("`{word}` in `{NAME}` is ignored: {why}"));
                }
            }
        }
        let others_too = words.iter().any(|word| word == "+");
        preferred.only = !preferred.servers.is_empty() && !others_too;
        preferred
    }
}

fn server(word: &str) -> Result<Server, &'static str> {
    if word.starts_with("unix:") {
        return Err("a cache cannot be a Unix socket");
    }
    let url = if word.contains("://") { word.to_owned() } else { format!("https://{word}") };
    match Server::split(&url) {
        Some((server, "" | "/")) => Ok(server),
        Some(_) => Err("a cache is written `https://HOST[:PORT]`, without a path"),
        None => Err("it is not `https://HOST[:PORT]`"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn preferred(value: &str) -> (Vec<String>, bool, usize) {
        let mut warnings = Vec::new();
        let found = Preferred::of(&Env::from_pairs(&[(NAME, value)]), &mut warnings);
        let servers = found.servers.iter().map(ToString::to_string).collect();
        (servers, found.only, warnings.len())
    }

    #[test]
    fn what_pelican_accepts_is_read_or_left_out_with_a_word() {
        let check = |value: &str, servers: &[&str], only: bool, warnings: usize| {
            let servers = servers.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>();
            assert_eq!(preferred(value), (servers, only, warnings), "{value}");
        };
        let (c, d) = ("https://c:8443", "https://d");
        check("https://c:8443", &[c], true, 0);
        check("https://c:8443, https://d/ +", &[c, d], false, 0);
        check("\"https://c:8443 +\"", &[c], false, 0);
        check("'https://c:8443','https://d'", &[c, d], true, 0);
        check("c:8443 d", &[c, d], true, 0);
        check("https://c:8443,https://C:8443", &[c], true, 0);
        check("unix:///run/cache.sock,https://c:8443", &[c], true, 1);
        check("https://c:8443/a/path https://d", &[d], true, 1);
        // No usable value is left, so the setting is ignored.
        check("unix:///run/cache.sock", &[], false, 1);
        check("+", &[], false, 0);
        check("\"\"", &[], false, 0);
    }
}
