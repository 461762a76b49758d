//! The caches that a site prefers, from the variables that Pelican's client reads.
//!
//! ```text
//! https://c1:8443,https://c2:8443      only these
//! "https://c1:8443 +"                  these, then those that the director names
//! ```

use crate::Env;
use crate::http::Server;

/// The variables, as Pelican 7.27 reads them: the first one that is set counts. HTCondor sets
/// `NEAREST_CACHE` for jobs.
const NAMES: [&str; 3] =
    ["NEAREST_CACHE", "PELICAN_NEAREST_CACHE", "PELICAN_CLIENT_PREFERREDCACHES"];

/// The beginning of the variables of Pelican's client, each of which is a setting `Client.NAME`.
const CLIENT_PREFIX: &str = "PELICAN_CLIENT_";

/// The settings of Pelican's client, in capitals: those that its page of parameters lists.
const CLIENT_SETTINGS: [&str; 14] = [
    "ASSUMEDIRECTORSERVERHEADER",
    "CREDENTIALFILE",
    "DIRECTORRETRIES",
    "DISABLEHTTPPROXY",
    "DISABLEPROXYFALLBACK",
    "ENABLEOVERWRITES",
    "ISPLUGIN",
    "MAXIMUMDOWNLOADSPEED",
    "MINIMUMDOWNLOADSPEED",
    "PREFERREDCACHES",
    "SLOWTRANSFERRAMPUPTIME",
    "SLOWTRANSFERWINDOW",
    "STOPPEDTRANSFERTIMEOUT",
    "WORKERCOUNT",
];

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
        warnings.extend(env.names().filter_map(misspelt));
        let mut named = NAMES.iter().filter_map(|name| Some((*name, env.get(name)?)));
        let Some((name, list)) = named.next() else { return Self::default() };
        for (other, _) in named.filter(|(_, other)| *other != list) {
            warnings.push(format!("`{other}` is ignored, since `{name}` is set"));
        }
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
                    warnings.push(format!("`{word}` in `{name}` is ignored: {why}"));
                }
            }
        }
        let others_too = words.iter().any(|word| word == "+");
        preferred.only = !preferred.servers.is_empty() && !others_too;
        preferred
    }
}

/// Says that `name` is not a setting of Pelican's client, if it is nearly the name of one.
fn misspelt(name: &str) -> Option<String> {
    let setting = name.strip_prefix(CLIENT_PREFIX)?;
    if CLIENT_SETTINGS.contains(&setting) {
        return None;
    }
    // Names in other programs have a `_` between words.
    let plain = setting.replace('_', "").to_ascii_uppercase();
    let distance = |known: &&&str| strsim::damerau_levenshtein(known, &plain);
    let near = CLIENT_SETTINGS.iter().min_by_key(distance).filter(|known| distance(known) <= 2)?;
    Some(format!("`{name}` is ignored: the variable's name is `{CLIENT_PREFIX}{near}`"))
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
        let (servers, only, warnings) = of(&[("PELICAN_CLIENT_PREFERREDCACHES", value)]);
        (servers, only, warnings.len())
    }

    fn of(env: &[(&str, &str)]) -> (Vec<String>, bool, Vec<String>) {
        let mut warnings = Vec::new();
        let found = Preferred::of(&Env::from_pairs(env), &mut warnings);
        let servers = found.servers.iter().map(ToString::to_string).collect();
        (servers, found.only, warnings)
    }

    #[test]
    fn of_several_variables_the_one_that_pelican_reads_counts() {
        let [nearest, pelican, preferred] = NAMES;
        let check = |env: &[(&str, &str)], server: &str, only: bool, ignored: &[&str]| {
            let (servers, found_only, warnings) = of(env);
            assert_eq!((servers, found_only), (vec![server.to_owned()], only), "{env:?}");
            assert_eq!(warnings.len(), ignored.len(), "{warnings:?}");
            for (warning, name) in warnings.iter().zip(ignored) {
                assert!(warning.starts_with(&format!("`{name}` is ignored")), "{warning}");
            }
        };
        check(&[(nearest, "http://c:8000")], "http://c:8000", true, &[]);
        check(&[(pelican, "https://c +")], "https://c", false, &[]);
        check(&[(preferred, "https://c"), (nearest, "https://c")], "https://c", true, &[]);
        check(
            &[(preferred, "https://p"), (nearest, "https://n"), (pelican, "https://q")],
            "https://n",
            true,
            &[pelican, preferred],
        );
        check(&[(nearest, ""), (pelican, "https://q")], "https://q", true, &[]);
    }

    #[test]
    fn misspelt_variables_are_named_and_others_are_not() {
        let check = |name: &str, meant: Option<&str>| {
            let (servers, _, warnings) = of(&[(name, "https://c")]);
            assert!(servers.is_empty(), "{name}");
            assert_eq!(warnings.len(), usize::from(meant.is_some()), "{name}: {warnings:?}");
            for (warning, meant) in warnings.iter().zip(meant) {
                assert!(warning.ends_with(&format!("`PELICAN_CLIENT_{meant}`")), "{warning}");
            }
        };
        check("PELICAN_CLIENT_PREFERRED_CACHES", Some("PREFERREDCACHES"));
        check("PELICAN_CLIENT_PREFERREDCACHE", Some("PREFERREDCACHES"));
        check("PELICAN_CLIENT_PreferredCaches", Some("PREFERREDCACHES"));
        check("PELICAN_CLIENT_PREFEREDCACHES", Some("PREFERREDCACHES"));
        check("PELICAN_CLIENT_WORKER_COUNT", Some("WORKERCOUNT"));
        // It may be a setting of a newer Pelican.
        check("PELICAN_CLIENT_SOMETHINGNEW", None);
        check("PELICAN_CLIENT_WORKERCOUNT", None);
        check("PELICAN_CLIENTAGENT_SOCKET", None);
        check("PREFERREDCACHES", None);
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
