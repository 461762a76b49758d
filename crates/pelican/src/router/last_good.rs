//! The last good route of a namespace, used if its director is down, is restarting or has lost its
//! origin: the caches still have the bytes.
//!
//! ```text
//! FOLDER/<discovery host><namespace>.json   0600: who reads, from where, with whose tokens
//! ```
//!
//! It is used only for bytes that the caller checks by a digest, so a server that has
//! other ones by now does no harm, and for a week. Tokens go to the servers it names, so it
//! is only taken from a file that nobody else can have written.

use std::collections::HashMap;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use serde_json::{Value, json};

use crate::director::{Namespace, join};
use crate::route::{Place, Route};
use crate::url::encode_path;
use crate::{Error, Url};

/// How long a route can be used.
const KEEP: Duration = Duration::from_secs(7 * 24 * 3600);
/// How often an unchanged route is written again.
const REFRESH: Duration = Duration::from_secs(3600);
/// How long a director that does not answer is not asked again.
const LEFT_ALONE: Duration = Duration::from_secs(60);
const MAX_FILE_BYTES: u64 = 64 << 10;
const MAX_SERVERS: usize = 16;

/// The last good routes, in memory and in a folder.
pub(crate) struct LastGood {
    folder: Option<PathBuf>,
    /// When each file was written, and its contents.
    written: Mutex<HashMap<String, (Instant, Value)>>,
    /// Directors, by discovery host, that did not answer.
    down: Mutex<HashMap<String, Instant>>,
}

impl LastGood {
    /// Removes from the folder what killed runs left: a run that only asks for what it has stores no
    /// route, so this is not left to the next one that does.
    pub(crate) fn new(folder: Option<PathBuf>) -> Self {
        folder.iter().for_each(|folder| gular_files::remove_abandoned_temps(folder));
        Self { folder, written: Mutex::default(), down: Mutex::default() }
    }

    /// Stores a director's answer for reading `url`. If that fails, reading continues.
    pub(crate) fn keep(&self, url: &Url, route: &Route) {
        let Some(namespace) = &route.namespace else { return };
        let (Some(name), Some(servers)) = (file_name(url, &namespace.prefix), prefixes(url, route))
        else {
            return;
        };
        let known = json!({
            "namespace": namespace.prefix,
            "require_token": namespace.require_token,
            "issuers": namespace.issuers,
            "base_paths": namespace.base_paths,
            "servers": servers,
        });
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        let same =
            written.get(&name).is_some_and(|(at, old)| *old == known && at.elapsed() < REFRESH);
        if same {
            return;
        }
        if let Some(folder) = &self.folder {
            let _ = write(folder, &name, &known);
        }
        written.insert(name, (Instant::now(), known));
    }

    /// Returns the last good route for reading `url`.
    pub(crate) fn find(&self, url: &Url) -> Option<Route> {
        let mut path = url.path();
        loop {
            let found = file_name(url, path).and_then(|name| self.load(&name));
            if let Some(route) = found.and_then(|known| route_of(url, &known)) {
                return Some(route);
            }
            path =
                path.rsplit_once('/').map(|(above, _)| above).filter(|above| !above.is_empty())?;
        }
    }

    fn load(&self, name: &str) -> Option<Value> {
        let written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, known)) = written.get(name) {
            return Some(known.clone());
        }
        let path = self.folder.as_ref()?.join(name);
        let age =
            |found: &fs::Metadata| SystemTime::now().duration_since(found.modified().ok()?).ok();
        let own = |found: &fs::Metadata| {
            found.uid() == rustix::process::getuid().as_raw() && found.mode() & 0o022 == 0
        };
        let folder = fs::metadata(self.folder.as_ref()?).ok()?;
        let found = fs::symlink_metadata(&path).ok()?;
        let fresh = age(&found).is_none_or(|age| age < KEEP);
        let sound = found.is_file() && found.len() <= MAX_FILE_BYTES && fresh;
        if !(sound && own(&found) && own(&folder)) {
            return None;
        }
        serde_json::from_slice(&fs::read(path).ok()?).ok()
    }

    pub(crate) fn is_down(&self, url: &Url) -> bool {
        let down = self.down.lock().unwrap_or_else(PoisonError::into_inner);
        down.get(url.authority()).is_some_and(|since| since.elapsed() < LEFT_ALONE)
    }

    /// Remembers whether the director answered; returns whether that is news.
    pub(crate) fn note(&self, url: &Url, is_down: bool) -> bool {
        let mut down = self.down.lock().unwrap_or_else(PoisonError::into_inner);
        match is_down {
            true => down.insert(url.authority().to_owned(), Instant::now()).is_none(),
            false => down.remove(url.authority()).is_some(),
        }
    }
}

/// The name of the file for a namespace; `None` for one too long.
fn file_name(url: &Url, namespace: &str) -> Option<String> {
    let text = format!("{}{}", url.authority(), encode_path(namespace));
    let name = text.replace('%', "%25").replace('/', "%2F");
    (name.len() < 200).then(|| format!("{name}.json"))
}

/// For each server, the path that the part below the namespace is appended to.
fn prefixes(url: &Url, route: &Route) -> Option<Vec<String>> {
    let below = route.namespace.as_ref()?.below(url.path())?;
    let below = format!("/{}", encode_path(below.trim_matches('/')));
    let of = |place: &Place| {
        let target = place.target.split('?').next().unwrap_or_default();
        Some(format!("{}{}", place.server, target.strip_suffix(&below)?))
    };
    let found: Vec<_> = route.places.iter().take(MAX_SERVERS).filter_map(of).collect();
    (!found.is_empty()).then_some(found)
}

fn route_of(url: &Url, known: &Value) -> Option<Route> {
    let texts = |name: &str| -> Vec<String> {
        let list = known.get(name).and_then(Value::as_array).into_iter().flatten();
        list.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let namespace = Namespace {
        prefix: known.get("namespace")?.as_str()?.to_owned(),
        require_token: known.get("require_token").and_then(Value::as_bool).unwrap_or(true),
        collections_url: None,
        issuers: texts("issuers"),
        base_paths: texts("base_paths"),
    };
    let below = namespace.below(url.path())?;
    let servers = texts("servers");
    let places = servers.iter().take(MAX_SERVERS);
    let places = places.filter_map(|prefix| Place::of(&join(prefix, below))).collect();
    Some(Route { namespace: Some(namespace.clone()), ..Route::of(places) })
}

fn write(folder: &Path, name: &str, known: &Value) -> Result<(), Error> {
    use std::os::unix::fs::DirBuilderExt as _;
    let io = |e| Error::io("write", folder, e);
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(io)?;
    let mut file = gular_files::temp_with_mode(folder, 0o600)?;
    writeln!(file, "{known}").map_err(io)?;
    gular_files::persist(file, &folder.join(name))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn route() -> Route {
        let places = ["https://c1:8443/ns/a/x", "https://c2/api/v1.0/ns/a/x?q=1"];
        let namespace = Namespace {
            prefix: "/ns".to_owned(),
            require_token: true,
            issuers: vec!["https://iss".to_owned()],
            ..Namespace::default()
        };
        let places = places.iter().filter_map(|place| Place::of(place)).collect();
        Route { namespace: Some(namespace), ..Route::of(places) }
    }

    #[test]
    fn a_route_is_kept_for_all_objects_of_its_namespace_and_for_its_owner() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("routes");
        let url = |path: &str| Url::parse(&format!("pelican://h:1{path}")).unwrap();
        let kept = LastGood::new(Some(folder.clone()));
        kept.keep(&url("/ns/a/x"), &route());
        // Another process reads the route.
        let found = LastGood::new(Some(folder.clone())).find(&url("/ns/b/y z")).unwrap();
        let places = ["https://c1:8443/ns/b/y%20z", "https://c2/api/v1.0/ns/b/y%20z"];
        assert_eq!(found.places, places.map(|place| Place::of(place).unwrap()));
        let namespace = found.namespace.unwrap();
        assert!(namespace.require_token && namespace.issuers == ["https://iss"]);
        for other in ["pelican://h:2/ns/b", "pelican://h:1/nsx/b", "pelican://h:1/"] {
            let other = Url::parse(other).unwrap();
            assert!(LastGood::new(Some(folder.clone())).find(&other).is_none(), "{other}");
        }
        let file = fs::read_dir(&folder).unwrap().next().unwrap().unwrap().path();
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
        let find = || LastGood::new(Some(folder.clone())).find(&url("/ns/b"));

        // A file that another user may have written is not trusted, nor an old one.
        for (path, mode) in [(&file, 0o622), (&folder, 0o777)] {
            let was = fs::metadata(path).unwrap().permissions();
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
            assert!(find().is_none(), "{path:?}");
            fs::set_permissions(path, was).unwrap();
            assert!(find().is_some());
        }
        let opened = fs::File::options().write(true).open(&file).unwrap();
        opened.set_modified(SystemTime::now() - KEEP - Duration::from_secs(60)).unwrap();
        assert!(find().is_none());
        fs::write(&file, "{").unwrap();
        assert!(find().is_none());
    }
}
