//! Finds a token, in the same places and order as Pelican's own client. A token from a file that
//! the user named is sent to any server that the user named; a token that was found elsewhere is
//! sent only if the namespace trusts its issuer.
//!
//! ```text
//! the files named by the user
//! $BEARER_TOKEN, a token            $BEARER_TOKEN_FILE, a file
//! $XDG_RUNTIME_DIR/bt_u<uid>        /tmp/bt_u<uid>
//! $TOKEN, a file
//! $_CONDOR_CREDS/*.use              else $_CONDOR_SCRATCH_DIR/.condor_creds/*.use
//! ```

use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::claims::Claims;
use super::diagnose::{judge, withheld};
use super::{Action, Diagnosis, Token};
use crate::Env;
use crate::director::Namespace;

/// Tokens are much smaller; a larger file is something else.
const MAX_FILE_BYTES: u64 = 64 << 10;

/// Most of HTCondor's credentials that are tried; a job has one or two.
const MAX_CREDENTIALS: usize = 32;

/// The request that a token is needed for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Want<'a> {
    pub(crate) action: Action,
    /// The object's path, decoded, with the namespace.
    pub(crate) path: &'a str,
    /// The director's description; without it, a token's issuer and paths are not checked.
    pub(crate) namespace: Option<&'a Namespace>,
    /// HTCondor's name of the token, as in `NAME+osdf://`.
    pub(crate) token_name: Option<&'a str>,
}

/// A token, and what is known about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) token: Token,
    /// The token's source: "`BEARER_TOKEN`" or "file `/x`".
    pub(crate) from: String,
    /// Whether the token is from a file, which may be renewed.
    pub(crate) in_file: bool,
    /// When the token expires, if it says so.
    pub(crate) expires: Option<SystemTime>,
    /// Why the token may be refused. It is used nevertheless, since there was no better one.
    pub(crate) doubt: Option<Diagnosis>,
}

/// The outcome of a search.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Pick {
    /// The token to send.
    pub(crate) send: Option<Found>,
    /// Why the first token that was found is not sent.
    pub(crate) withheld: Option<Diagnosis>,
}

/// Why the token file that the user gave cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    /// The file cannot be read.
    #[error("the token file `{}` cannot be read: {reason}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        reason: io::Error,
    },
    /// The file does not contain a token.
    #[error("the file `{}` does not contain a token: {reason}", path.display())]
    NoToken {
        /// The file.
        path: PathBuf,
        /// What is wrong with it, without any of its contents.
        reason: String,
    },
}

impl TokenError {
    /// Says what the user can do next.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Read { .. } => "give a token file that you may read",
            Self::NoToken { .. } => {
                "the file must contain only a token, as `pelican credentials token get` prints it, \
                or JSON with `access_token`"
            }
        }
    }
}

/// Finds tokens. Files are read again each time: a job outlives its token, and a renewed
/// token is written to the same file.
#[derive(Debug, Clone)]
pub(crate) struct Finder {
    explicit: Vec<PathBuf>,
    /// Whether to search other places, too.
    search: bool,
    env: Env,
    uid: u32,
    tmp: PathBuf,
}

/// A place where a token may be.
pub(super) enum Place {
    /// The variable that contains a token.
    Variable(&'static str),
    /// A file that the user or a variable named.
    Named(PathBuf),
    /// A file with a usual name.
    Usual(PathBuf),
    /// A file of a usual name, in a folder where all may write.
    Shared(PathBuf),
}

/// Why a place gives no token.
#[derive(Debug)]
pub(super) enum Missing {
    Unreadable(io::Error),
    Unfit(String),
    /// A variable for a token holds a path, or the reverse.
    Misplaced(&'static str),
}

impl Finder {
    /// A finder for the user `uid`; `explicit` are the files that the user named.
    #[must_use]
    pub(crate) fn new(explicit: Vec<PathBuf>, env: &Env, uid: u32) -> Self {
        Self::with_tmp(explicit, env, uid, Path::new("/tmp"))
    }

    /// Returns a finder that looks only at the files that the user named.
    pub(crate) fn explicit_only(self) -> Self {
        Self { search: false, ..self }
    }

    /// Does the same with another folder as `/tmp`.
    pub(crate) fn with_tmp(explicit: Vec<PathBuf>, env: &Env, uid: u32, tmp: &Path) -> Self {
        Self { explicit, search: true, env: env.clone(), uid, tmp: tmp.to_owned() }
    }

    /// Returns, of the tokens that may be sent, the first one that has no fault; otherwise the
    /// first of those with the least serious fault.
    ///
    /// # Errors
    /// [`TokenError`] when a file that the user named gives none.
    pub(crate) fn find(&self, want: &Want<'_>, now: SystemTime) -> Result<Pick, TokenError> {
        let explicit: Vec<(Token, Place)> =
            self.explicit.iter().map(|path| self.read_explicit(path)).collect::<Result<_, _>>()?;
        let others = self.places(want.token_name).into_iter().filter_map(|place| {
            let token = self.read(&place).ok()?;
            Some((token, place))
        });
        let named = explicit.into_iter().map(|(token, place)| (token, place, true));
        let others = others.map(|(token, place)| (token, place, false));
        let mut best: Option<(u8, Found)> = None;
        let mut kept_back = None;
        for (token, place, named) in named.chain(others) {
            let expires = Claims::decode(&token).and_then(|claims| claims.expires);
            let in_file = !matches!(place, Place::Variable(_));
            let from = place.to_string();
            let mut found = Found { token, from, in_file, expires, doubt: None };
            if !named && let Some(why) = withheld(&found, want.namespace) {
                kept_back.get_or_insert(why);
                continue;
            }
            let diagnosis = judge(&found, want, now);
            let weight = diagnosis.weight();
            if weight > 0 {
                found.doubt = Some(diagnosis);
            }
            if best.as_ref().is_none_or(|(least, _)| weight < *least) {
                best = Some((weight, found));
            }
            if weight == 0 {
                break;
            }
        }
        Ok(Pick { send: best.map(|(_, found)| found), withheld: kept_back })
    }

    /// Why a server refused, given the token that it got, or none.
    pub(crate) fn diagnose(&self, pick: &Pick, want: &Want<'_>, now: SystemTime) -> Diagnosis {
        match (&pick.send, &pick.withheld) {
            (Some(found), _) => judge(found, want, now),
            (None, Some(withheld)) => withheld.clone(),
            (None, None) => {
                let places = self.places(want.token_name);
                let is_misplaced = |place| matches!(self.read(place), Err(Missing::Misplaced(_)));
                let misplaced = places.iter().any(is_misplaced);
                Diagnosis::NoToken { looked: self.looked(want), misplaced }
            }
        }
    }

    /// Every place looked at, and why there is no token there.
    fn looked(&self, want: &Want<'_>) -> Vec<String> {
        let look = |place: &Place| match self.read(place) {
            Ok(_) => place.to_string(),
            Err(missing) => format!("{place} ({missing})"),
        };
        if !self.search {
            return vec!["only the place that was given".to_owned()];
        }
        let unset = ["BEARER_TOKEN", "BEARER_TOKEN_FILE"].into_iter();
        let unset = unset.filter(|name| self.env.get(name).is_none());
        let unset = unset.map(|name| format!("`{name}` (not set)"));
        unset.chain(self.places(want.token_name).iter().map(look)).collect()
    }

    /// Returns all places except the files that the user named, in order.
    pub(super) fn places(&self, token_name: Option<&str>) -> Vec<Place> {
        if !self.search {
            return Vec::new();
        }
        let variable = |name| self.env.get(name).map(|_| Place::Variable(name));
        let path = |name| self.env.get(name).map(PathBuf::from);
        let bearer = format!("bt_u{}", self.uid);
        let mut places: Vec<Place> = Vec::new();
        places.extend(variable("BEARER_TOKEN"));
        places.extend(path("BEARER_TOKEN_FILE").map(Place::Named));
        places.extend(path("XDG_RUNTIME_DIR").map(|dir| Place::Usual(dir.join(&bearer))));
        places.push(Place::Shared(self.tmp.join(&bearer)));
        places.extend(path("TOKEN").map(Place::Named));
        let scratch = || path("_CONDOR_SCRATCH_DIR").map(|dir| dir.join(".condor_creds"));
        if let Some(dir) = path("_CONDOR_CREDS").or_else(scratch) {
            places.extend(credentials(&dir, token_name).into_iter().map(Place::Usual));
        }
        places
    }

    fn read_explicit(&self, path: &Path) -> Result<(Token, Place), TokenError> {
        let place = Place::Named(path.to_owned());
        match self.read(&place) {
            Ok(token) => Ok((token, place)),
            Err(Missing::Unreadable(reason)) => {
                Err(TokenError::Read { path: path.to_owned(), reason })
            }
            Err(Missing::Unfit(reason)) => {
                Err(TokenError::NoToken { path: path.to_owned(), reason })
            }
            Err(Missing::Misplaced(reason)) => {
                let path = PathBuf::from("[a token, not shown]");
                Err(TokenError::NoToken { path, reason: reason.to_owned() })
            }
        }
    }

    pub(super) fn read(&self, place: &Place) -> Result<Token, Missing> {
        let text = match place {
            Place::Variable(name) => {
                let text = self.env.get(name).unwrap_or_default();
                if text.contains('/') && Path::new(text.trim()).exists() {
                    return Err(Missing::Misplaced(
                        "this is the path of a file, which belongs in `BEARER_TOKEN_FILE`",
                    ));
                }
                text.to_owned()
            }
            Place::Named(path) if is_token(path) => {
                return Err(Missing::Misplaced(
                    "this is a token and not the path of a file; a token belongs in `BEARER_TOKEN`",
                ));
            }
            Place::Named(path) => read_file(File::open(path)?)?,
            Place::Usual(path) => {
                check_regular(&fs::metadata(path)?)?;
                read_file(File::open(path)?)?
            }
            Place::Shared(path) => {
                // Looked at before it is opened, since opening a pipe waits; and again
                // then, since anyone may put another in its place.
                self.check_owner(&fs::symlink_metadata(path)?)?;
                let file = File::open(path)?;
                self.check_owner(&file.metadata()?)?;
                read_file(file)?
            }
        };
        Token::parse(&text).ok_or_else(|| Missing::unfit(Token::why_not(&text)))
    }

    fn check_owner(&self, metadata: &Metadata) -> Result<(), Missing> {
        check_regular(metadata)?;
        if metadata.uid() != self.uid {
            return Err(Missing::unfit("it belongs to another user"));
        }
        if metadata.mode() & 0o022 != 0 {
            return Err(Missing::unfit("other users may write to it"));
        }
        Ok(())
    }
}

/// HTCondor's credentials in the order to try: the named one, `scitokens.use`, others.
fn credentials(dir: &Path, name: Option<&str>) -> Vec<PathBuf> {
    let mut names: Vec<String> = Vec::new();
    if let Some(name) = name {
        // HTCondor writes `service.handle` as `service_handle.use`.
        names.extend([format!("{name}.use"), format!("{}.use", name.replace('.', "_"))]);
    }
    names.push("scitokens.use".to_owned());
    let entries = fs::read_dir(dir).into_iter().flatten().filter_map(Result::ok);
    let mut others: Vec<String> =
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    others.retain(|other| other.ends_with(".use") && !names.contains(other));
    others.sort_unstable();
    others.truncate(MAX_CREDENTIALS);
    names.append(&mut others);
    names.dedup();
    names.iter().map(|name| dir.join(name)).collect()
}

/// Whether what should be the path of a file is a signed token.
fn is_token(path: &Path) -> bool {
    let token = path.to_str().and_then(Token::parse);
    token.is_some_and(|token| Claims::decode(&token).is_some())
}

fn check_regular(metadata: &Metadata) -> Result<(), Missing> {
    if metadata.is_file() { Ok(()) } else { Err(Missing::unfit("it is not a regular file")) }
}

fn read_file(file: File) -> Result<String, Missing> {
    let mut bytes = Vec::new();
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes)?;
    if u64::try_from(bytes.len()).is_ok_and(|len| len > MAX_FILE_BYTES) {
        return Err(Missing::Unfit(format!("it is larger than {MAX_FILE_BYTES} bytes")));
    }
    String::from_utf8(bytes).map_err(|_| Missing::unfit("not text"))
}

impl Missing {
    fn unfit(reason: &str) -> Self {
        Self::Unfit(reason.to_owned())
    }
}

impl From<io::Error> for Missing {
    fn from(error: io::Error) -> Self {
        Self::Unreadable(error)
    }
}

impl std::fmt::Display for Missing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unreadable(e) if e.kind() == io::ErrorKind::NotFound => {
                f.write_str("it does not exist")
            }
            Self::Unreadable(error) => error.fmt(f),
            Self::Unfit(reason) => f.write_str(reason),
            Self::Misplaced(reason) => f.write_str(reason),
        }
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Variable(name) => write!(f, "`{name}`"),
            Self::Named(path) if is_token(path) => {
                f.write_str("the file that `BEARER_TOKEN_FILE` or `TOKEN` names")
            }
            Self::Named(path) | Self::Usual(path) | Self::Shared(path) => {
                write!(f, "file `{}`", path.display())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::sync::LazyLock;
    use std::time::Duration;

    use super::super::claims::tests::jwt;
    use super::*;

    const NOW: u64 = 1_000_000;
    /// A namespace to which a found token is sent if it is from this issuer.
    static NAMESPACE: LazyLock<Namespace> = LazyLock::new(|| Namespace {
        prefix: "/ns".to_owned(),
        issuers: vec!["https://iss".to_owned()],
        ..Namespace::default()
    });

    fn want() -> Want<'static> {
        let namespace = Some(&*NAMESPACE);
        Want { action: Action::Read, path: "/ns/x", namespace, token_name: None }
    }

    /// Returns a token of that issuer for each name.
    fn good(name: &str) -> String {
        let claims = format!(r#"{{"iss":"https://iss","jti":"{name}","scope":"read:/"}}"#);
        jwt(&claims).secret().to_owned()
    }

    fn now() -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(NOW)
    }

    /// A folder with every place that a token may be in.
    struct Places {
        dir: tempfile::TempDir,
        uid: u32,
    }

    impl Places {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            for sub in ["run", "tmp", "creds", "scratch/.condor_creds"] {
                fs::create_dir_all(dir.path().join(sub)).unwrap();
            }
            let uid = fs::metadata(dir.path()).unwrap().uid();
            Self { dir, uid }
        }

        fn path(&self, name: &str) -> PathBuf {
            self.dir.path().join(name.replace("UID", &self.uid.to_string()))
        }

        fn write(&self, name: &str, text: &str) -> PathBuf {
            let path = self.path(name);
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
            path
        }

        /// Variables; a value that begins with `@` is a path in the folder, one with `!` a token.
        fn env(&self, pairs: &[(&str, &str)]) -> Env {
            let value = |v: &str| match (v.strip_prefix('@'), v.strip_prefix('!')) {
                (Some(name), _) => self.path(name).to_str().unwrap().to_owned(),
                (_, Some(name)) => good(name),
                _ => v.to_owned(),
            };
            let pairs: Vec<_> = pairs.iter().map(|(n, v)| (*n, value(v))).collect();
            let pairs: Vec<_> = pairs.iter().map(|(n, v)| (*n, v.as_str())).collect();
            Env::from_pairs(&pairs)
        }

        fn finder(&self, explicit: Option<PathBuf>, env: &[(&str, &str)]) -> Finder {
            let explicit = explicit.into_iter().collect();
            Finder::with_tmp(explicit, &self.env(env), self.uid, &self.path("tmp"))
        }

        fn found(&self, env: &[(&str, &str)], want: &Want<'_>) -> Option<String> {
            let found = self.finder(None, env).find(want, now()).unwrap().send?;
            Some(found.token.secret().to_owned())
        }
    }

    const ALL: &[(&str, &str)] = &[
        ("BEARER_TOKEN", "!bearer"),
        ("BEARER_TOKEN_FILE", "@bearer-file"),
        ("XDG_RUNTIME_DIR", "@run"),
        ("TOKEN", "@token-file"),
        ("_CONDOR_CREDS", "@creds"),
        ("_CONDOR_SCRATCH_DIR", "@scratch"),
    ];

    #[test]
    fn places_are_tried_in_order() {
        let places = Places::new();
        let files = [
            "bearer-file",
            "run/bt_uUID",
            "tmp/bt_uUID",
            "token-file",
            "creds/my.name.use",
            "creds/my_name.use",
            "creds/scitokens.use",
            "creds/a.use",
            "creds/b.use",
        ];
        for name in files {
            places.write(name, &format!("{}\n", good(name)));
        }
        places.write("creds/0.top", "no");
        let want = Want { token_name: Some("my.name"), ..want() };
        assert_eq!(places.found(ALL, &want).as_deref(), Some(good("bearer").as_str()));
        let env = &ALL[1..];
        for name in files {
            assert_eq!(places.found(env, &want), Some(good(name)));
            fs::remove_file(places.path(name)).unwrap();
        }
        assert_eq!(places.found(env, &want), None);
    }

    #[test]
    fn condors_credentials_are_below_the_scratch_folder_too() {
        let places = Places::new();
        places.write(
            "scratch/.condor_creds/x.use",
            &format!(r#"{{"access_token": "{}"}}"#, good("x")),
        );
        let scratch = ("_CONDOR_SCRATCH_DIR", "@scratch");
        assert_eq!(places.found(&[scratch], &want()), Some(good("x")));
        assert_eq!(places.found(&[scratch, ("_CONDOR_CREDS", "@creds")], &want()), None);
        assert_eq!(places.found(&[("_CONDOR_CREDS", "@none")], &want()), None);
    }

    #[test]
    fn the_first_acceptable_token_wins_over_the_first_found() {
        let places = Places::new();
        let token = |exp: u64, scope: &str| {
            let claims = format!(r#"{{"iss":"https://iss","exp":{exp},"scope":"{scope}"}}"#);
            jwt(&claims).secret().to_owned()
        };
        let expired = token(NOW - 1, "read:/");
        let writes = token(NOW + 99, "write:/");
        let good = token(NOW + 99, "read:/");
        places.write("bearer-file", &writes);
        places.write("token-file", &good);
        let env = [("BEARER_TOKEN", expired.as_str()), ALL[1], ALL[3]];
        let finder = places.finder(None, &env);
        let pick = finder.find(&want(), now()).unwrap();
        let found = pick.send.clone().unwrap();
        assert_eq!(found.from, format!("file `{}`", places.path("token-file").display()));
        assert_eq!(found.expires, Some(now() + Duration::from_secs(99)));
        assert_eq!((found.token.secret(), &found.doubt), (good.as_str(), &None));
        assert_eq!(finder.diagnose(&pick, &want(), now()).weight(), 0);

        // If no token is without fault, the first is used, with the reason.
        fs::remove_file(places.path("token-file")).unwrap();
        let found = finder.find(&want(), now()).unwrap().send.unwrap();
        assert_eq!(found.from, "`BEARER_TOKEN`");
        assert!(matches!(found.doubt, Some(Diagnosis::Expired { .. })));
        assert!(!format!("{found:?} {finder:?}").contains(&expired));
    }

    #[test]
    fn a_doubtful_token_is_better_than_a_faulty_one() {
        let places = Places::new();
        let doubtful = jwt(r#"{"iss":"https://iss","aud":"elsewhere","scope":"read:/"}"#);
        places.write("token-file", doubtful.secret());
        let faulty = jwt(r#"{"iss":"https://iss","scope":""}"#);
        let env = [("BEARER_TOKEN", faulty.secret()), ALL[3]];
        assert_eq!(places.found(&env, &want()).as_deref(), Some(doubtful.secret()));
    }

    #[test]
    fn what_is_found_goes_only_where_its_issuer_is_trusted() {
        let places = Places::new();
        let foreign = jwt(r#"{"iss":"https://elsewhere","scope":"read:/"}"#);
        let open = Namespace { issuers: Vec::new(), ..NAMESPACE.clone() };
        let nothing_says = "was not sent: it is not known whether its issuer is trusted there";
        let trusts = "but the namespace trusts only `https://iss`";
        for (namespace, secret, expected) in [
            (
                Some(&*NAMESPACE),
                foreign.secret(),
                format!("issued by `https://elsewhere`, {trusts}"),
            ),
            (Some(&*NAMESPACE), "opaque", format!("does not say who issued it, {trusts}")),
            (Some(&open), good("x").as_str(), nothing_says.to_owned()),
            (Some(&open), "opaque", nothing_says.to_owned()),
            (None, good("x").as_str(), nothing_says.to_owned()),
        ] {
            let want = Want { namespace, ..want() };
            let found = places.finder(None, &[("BEARER_TOKEN", secret)]);
            let pick = found.find(&want, now()).unwrap();
            assert_eq!(pick.send, None, "{expected}");
            let diagnosis = found.diagnose(&pick, &want, now());
            let shown = diagnosis.to_string();
            assert!(shown.starts_with("the token from `BEARER_TOKEN` was not sent: "), "{shown}");
            assert!(shown.ends_with(&expected) && !shown.contains(secret), "{shown}");
            assert!(diagnosis.hint().contains("to send this token anyway"));
            // A token that the user named is always used.
            let named = places.finder(Some(places.write("mine", secret)), &[]);
            let sent = named.find(&want, now()).unwrap().send.unwrap();
            assert_eq!(sent.token.secret(), secret);
        }
    }

    #[test]
    fn another_token_takes_the_place_of_one_that_is_kept_back() {
        let places = Places::new();
        places.write("token-file", &good("x"));
        let env = [("BEARER_TOKEN", "opaque"), ALL[3]];
        assert_eq!(places.found(&env, &want()), Some(good("x")));
        let only = places.finder(Some(places.write("mine", "named")), &env).explicit_only();
        assert_eq!(only.find(&want(), now()).unwrap().send.unwrap().token.secret(), "named");
        let only = places.finder(None, &env).explicit_only();
        let pick = only.find(&want(), now()).unwrap();
        assert_eq!(pick, Pick::default());
        assert!(
            only.diagnose(&pick, &want(), now())
                .to_string()
                .contains("only the place that was given")
        );
    }

    #[test]
    fn a_token_where_a_path_belongs_is_said_and_so_is_the_reverse() {
        let places = Places::new();
        places.write("mine", &good("x"));
        let check = |env: &[(&str, &str)], part: &str| {
            let finder = places.finder(None, env);
            let pick = finder.find(&want(), now()).unwrap();
            assert_eq!(pick, Pick::default());
            let diagnosis = finder.diagnose(&pick, &want(), now());
            let shown = format!("{diagnosis} {diagnosis:?}");
            assert!(shown.contains(part) && !shown.contains(&good("hidden")), "{shown}");
            let hint = diagnosis.hint_for("read", "pelican://h/ns/x");
            assert!(hint.starts_with("set `BEARER_TOKEN_FILE` to the path"), "{hint}");
        };
        check(&[("BEARER_TOKEN", "@mine")], "`BEARER_TOKEN` (this is the path of a file");
        let named = "the file that `BEARER_TOKEN_FILE` or `TOKEN` names (this is a token";
        check(&[("BEARER_TOKEN_FILE", "!hidden")], named);
        check(&[("TOKEN", "!hidden"), ("BEARER_TOKEN", "@mine")], named);
        let token = PathBuf::from(good("hidden"));
        let error = places.finder(Some(token), &[]).find(&want(), now()).unwrap_err();
        assert!(!format!("{error} {error:?}").contains(&good("hidden")), "{error}");
    }

    #[test]
    fn files_are_read_anew() {
        let places = Places::new();
        let path = places.write("mine", "one");
        let finder = places.finder(Some(path), ALL);
        let secret =
            || finder.find(&want(), now()).unwrap().send.unwrap().token.secret().to_owned();
        assert_eq!(secret(), "one");
        places.write("mine", "two");
        assert_eq!(secret(), "two");
    }

    #[track_caller]
    fn check_explicit_error(places: &Places, path: &Path, part: &str) {
        let error = places.finder(Some(path.to_owned()), ALL).find(&want(), now()).unwrap_err();
        let shown = error.to_string();
        assert!(shown.contains(part) && shown.contains(path.to_str().unwrap()), "{shown}");
        assert!(!shown.contains("secret") && !error.hint().is_empty(), "{shown}");
    }

    #[test]
    fn an_explicit_file_must_hold_a_token() {
        let places = Places::new();
        check_explicit_error(&places, &places.path("absent"), "cannot be read");
        check_explicit_error(&places, &places.path("tmp"), "cannot be read");
        for text in ["", "\n", "secret secret", "{\"refresh_token\": \"secret\"}"] {
            check_explicit_error(&places, &places.write("f", text), "does not contain a token");
        }
        check_explicit_error(&places, &places.write("f", &"s".repeat(70_000)), "larger than 65536");
        fs::write(places.path("f"), b"\xff\xfe").unwrap();
        check_explicit_error(&places, &places.path("f"), "not text");
    }

    #[test]
    fn the_shared_folder_is_not_trusted() {
        let places = Places::new();
        let path = places.write("tmp/bt_uUID", &good("x"));
        assert_eq!(places.found(&[], &want()), Some(good("x")));
        for (mode, fine) in [(0o644, true), (0o620, false), (0o602, false), (0o400, true)] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(places.found(&[], &want()).is_some(), fine, "{mode:o}");
        }
        fs::remove_file(&path).unwrap();
        symlink(places.write("elsewhere", &good("x")), &path).unwrap();
        assert_eq!(places.found(&[], &want()), None);

        let other = places.uid + 1;
        places.write(&format!("tmp/bt_u{other}"), "theirs");
        let finder = Finder::with_tmp(Vec::new(), &Env::default(), other, &places.path("tmp"));
        assert!(finder.find(&want(), now()).unwrap().send.is_none());
        let shown = finder.diagnose(&Pick::default(), &want(), now()).to_string();
        assert!(shown.contains("it belongs to another user"), "{shown}");
    }

    #[test]
    fn where_was_looked_is_told() {
        let places = Places::new();
        places.write("bearer-file", "no token secret");
        let finder = places.finder(None, &[ALL[1], ALL[2]]);
        assert!(finder.find(&want(), now()).unwrap().send.is_none());
        let shown = finder.diagnose(&Pick::default(), &want(), now()).to_string();
        let file = |name: &str| format!("file `{}`", places.path(name).display());
        let expected = format!(
            "no token was found; looked in `BEARER_TOKEN` (not set), {} (it is neither a token nor \
             JSON with a token), {} (it does not exist), {} (it does not exist)",
            file("bearer-file"),
            file("run/bt_uUID"),
            file("tmp/bt_uUID"),
        );
        assert_eq!(shown, expected);
    }
}
