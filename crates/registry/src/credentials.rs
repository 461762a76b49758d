//! The user's credentials for a registry, as docker, podman and skopeo store them.
//!
//! ```text
//! $REGISTRY_AUTH_FILE
//! $XDG_RUNTIME_DIR/containers/auth.json, ~/.config/containers/auth.json   containers
//! $DOCKER_CONFIG/config.json, ~/.docker/config.json                       docker
//! ```
//!
//! The first file that knows the registry counts. A file may name a program that keeps the
//! passwords instead, `docker-credential-NAME`, which is asked on its standard input.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use gular_files::Env;
use serde::Deserialize;

use crate::{Error, Reference, Result};

/// Largest file of credentials that is read, and answer of a helper.
const MAX_BYTES: u64 = 1 << 20;
/// The names of Docker's registry in Docker's own files.
const DOCKER_KEYS: [&str; 3] = ["https://index.docker.io/v1/", "index.docker.io", "docker.io"];

/// Credentials for a registry, which are never shown.
pub(crate) enum Credentials {
    /// A name and a password.
    Password { user: String, password: String },
    /// A token with which other tokens can be requested.
    Identity(String),
}

/// Credentials, and where they were found.
pub(crate) struct Login {
    pub(crate) credentials: Credentials,
    /// The file or program that they are from.
    pub(crate) from: String,
}

impl Credentials {
    /// `Basic` authorization; `None` of an identity.
    pub(crate) fn basic(&self) -> Option<String> {
        let Self::Password { user, password } = self else { return None };
        Some(format!("Basic {}", STANDARD.encode(format!("{user}:{password}"))))
    }
}

#[derive(Deserialize, Default)]
struct File {
    #[serde(default)]
    auths: BTreeMap<String, Entry>,
    #[serde(default, rename = "credHelpers")]
    helpers: BTreeMap<String, String>,
    #[serde(default, rename = "credsStore")]
    store: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Entry {
    auth: String,
    username: String,
    password: String,
    identitytoken: String,
}

/// The answer of a credential helper.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Said {
    username: String,
    secret: String,
}

/// Finds the credentials for an image's registry; `None` if no file has any.
///
/// # Errors
/// [`Error::Unusable`] for a file that is there and cannot be read, or a helper that fails.
pub(crate) fn find(reference: &Reference, env: &Env) -> Result<Option<Login>> {
    for path in files(env) {
        let Some(file) = read(&path)? else { continue };
        let keys = keys(reference);
        let helper = keys.iter().find_map(|key| file.helpers.get(key).map(|name| (key, name)));
        if let Some((key, helper)) = helper {
            return ask(helper, key, env);
        }
        let entry = keys.iter().find_map(|key| {
            // Keys may be URLs: `https://HOST/v1/`.
            file.auths.iter().find(|(known, _)| bare(known) == bare(key))
        });
        let Some((key, entry)) = entry else { continue };
        if let Some(credentials) = entry.credentials(&path)? {
            return Ok(Some(Login { credentials, from: path.display().to_string() }));
        }
        // An entry without a password says that the store has it.
        if let Some(store) = &file.store {
            return ask(store, key, env);
        }
    }
    Ok(None)
}

/// The files in which credentials may be.
fn files(env: &Env) -> Vec<PathBuf> {
    let at = |name: &str, below: &str| env.get(name).map(|dir| Path::new(dir).join(below));
    let config = at("XDG_CONFIG_HOME", "containers/auth.json");
    [
        env.get("REGISTRY_AUTH_FILE").map(PathBuf::from),
        at("XDG_RUNTIME_DIR", "containers/auth.json"),
        config.or_else(|| at("HOME", ".config/containers/auth.json")),
        at("DOCKER_CONFIG", "config.json").or_else(|| at("HOME", ".docker/config.json")),
    ]
    .into_iter()
    .flatten()
    .collect()
}

const LOG_IN: &str = "log in again: `podman login HOST` or `docker login HOST`";

fn read(path: &Path) -> Result<Option<File>> {
    let wrong =
        |reason: String| Error::unusable(path.display().to_string(), reason).with_hint(LOG_IN);
    let meta = match path.metadata() {
        Ok(meta) => meta,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(wrong(format!("it cannot be read: {e}"))),
    };
    if meta.len() > MAX_BYTES {
        return Err(wrong(format!(
            "it has {} bytes, more than the limit of {MAX_BYTES}",
            meta.len()
        )));
    }
    let text = std::fs::read(path).map_err(|e| wrong(format!("it cannot be read: {e}")))?;
    // The message of serde could repeat a part of a password.
    serde_json::from_slice(&text)
        .map(Some)
        .map_err(|e| wrong(format!("it is not a JSON file of credentials (line {})", e.line())))
}

/// The names that an image's registry may have in files, the closest first: containers' files
/// have some for a part of a registry.
fn keys(reference: &Reference) -> Vec<String> {
    let host = reference.host();
    let mut keys = Vec::new();
    let mut path = format!("{host}/{}", reference.repository());
    while path.len() > host.len() {
        keys.push(path.clone());
        path.truncate(path.rfind('/').unwrap_or(0));
    }
    keys.push(host.to_owned());
    if host == "docker.io" {
        keys.extend(DOCKER_KEYS.map(str::to_owned));
    }
    keys
}

/// A key without scheme and the `/v1/` that docker puts behind hosts.
fn bare(key: &str) -> &str {
    let key = key.split_once("://").map_or(key, |(_, rest)| rest);
    let key = key.trim_end_matches('/');
    ["/v1", "/v2"].iter().find_map(|end| key.strip_suffix(end)).unwrap_or(key)
}

impl Entry {
    fn credentials(&self, path: &Path) -> Result<Option<Credentials>> {
        if !self.identitytoken.is_empty() {
            return Ok(Some(Credentials::Identity(self.identitytoken.clone())));
        }
        let (user, password) = if self.auth.is_empty() {
            (self.username.clone(), self.password.clone())
        } else {
            let text = STANDARD.decode(self.auth.trim()).ok();
            let text = text.and_then(|bytes| String::from_utf8(bytes).ok());
            let pair = text.as_deref().and_then(|text| text.split_once(':'));
            let (user, password) = pair.ok_or_else(|| {
                let reason = "an `auth` in it is not NAME:PASSWORD in base64";
                Error::unusable(path.display().to_string(), reason).with_hint(LOG_IN)
            })?;
            (user.to_owned(), password.trim_end_matches('\0').to_owned())
        };
        Ok((!user.is_empty()).then(|| of(user, password)))
    }
}

fn of(user: String, password: String) -> Credentials {
    match user.as_str() {
        // Helpers say by this name that the secret is an identity token.
        "<token>" => Credentials::Identity(password),
        _ => Credentials::Password { user, password },
    }
}

/// Asks `docker-credential-NAME get`.
fn ask(name: &str, key: &str, env: &Env) -> Result<Option<Login>> {
    let program = format!("docker-credential-{name}");
    let failed = |reason: String| {
        let hint = "this helper program is named in the credentials file of docker or podman";
        Error::unusable(program.clone(), reason).with_hint(hint)
    };
    let good = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
    if name.is_empty() || !name.bytes().all(good) {
        return Err(failed(
            "`credHelpers` or `credsStore` does not hold the name of a program".to_owned(),
        ));
    }
    let mut command = Command::new(&program);
    command.arg("get").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    if let Some(path) = env.get("PATH") {
        command.env("PATH", path);
    }
    let mut child = command.spawn().map_err(|e| failed(format!("it cannot be started: {e}")))?;
    if let Some(mut stdin) = child.stdin.take() {
        // If a helper does not read the key, its answer says what is wrong.
        let _ = stdin.write_all(key.as_bytes());
    }
    let mut answer = Vec::new();
    let read = child.stdout.take().map(|out| out.take(MAX_BYTES + 1).read_to_end(&mut answer));
    let is_long = answer.len() as u64 > MAX_BYTES;
    if is_long {
        // The answer may be endless.
        let _ = child.kill();
    }
    let status = child.wait().map_err(|e| failed(e.to_string()))?;
    read.transpose().map_err(|e| failed(e.to_string()))?;
    if is_long {
        return Err(failed(format!("the answer is longer than {MAX_BYTES} bytes")));
    }
    let text = String::from_utf8_lossy(&answer);
    if !status.success() {
        // The words of docker's helpers, all of them, for what they do not have.
        return match text.contains("credentials not found") {
            true => Ok(None),
            false => Err(failed(format!("it ended with {status}"))),
        };
    }
    let said: Said = serde_json::from_str(&text).map_err(|_| {
        failed("its answer is not the JSON that a credential helper prints".to_owned())
    })?;
    Ok(Some(Login { credentials: of(said.username, said.secret), from: program }))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn found(home: &Path, more: &[(&str, &str)], name: &str) -> Result<Option<(String, String)>> {
        let home = home.to_str().unwrap();
        let env = Env::from_pairs(&[&[("HOME", home)], more].concat());
        let login = find(&Reference::parse(name).unwrap(), &env)?;
        Ok(login.map(|login| match login.credentials {
            Credentials::Password { user, password } => (user, password),
            Credentials::Identity(token) => ("<token>".to_owned(), token),
        }))
    }

    fn pair(user: &str, password: &str) -> Option<(String, String)> {
        Some((user.to_owned(), password.to_owned()))
    }

    #[test]
    fn the_closest_entry_of_the_first_file_counts() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path();
        fs::create_dir_all(home.join(".docker")).unwrap();
        fs::create_dir_all(home.join(".config/containers")).unwrap();
        let auth = |text: &str| STANDARD.encode(text);
        let docker = format!(
            r#"{{"auths": {{"https://index.docker.io/v1/": {{"auth": "{}"}},
                "q.io": {{"username": "u", "password": "p:q"}}, "t.io": {{"identitytoken": "tok"}}}}}}"#,
            auth("hub:pa:ss")
        );
        fs::write(home.join(".docker/config.json"), docker).unwrap();
        let containers = format!(
            r#"{{"auths": {{"q.io/lab": {{"auth": "{}"}}, "q.io/lab/x": {{"auth": "{}"}}}}}}"#,
            auth("lab:1"),
            auth("x:2")
        );
        fs::write(home.join(".config/containers/auth.json"), containers).unwrap();
        for (name, expected) in [
            ("alpine", pair("hub", "pa:ss")),
            ("q.io/a", pair("u", "p:q")),
            ("q.io/lab/y", pair("lab", "1")),
            ("q.io/lab/x", pair("x", "2")),
            ("q.io/laboratory/x", pair("u", "p:q")),
            ("t.io/a", pair("<token>", "tok")),
            ("other.io/a", None),
            ("evil.q.io/a", None),
        ] {
            assert_eq!(found(home, &[], name).unwrap(), expected, "{name}");
        }
        let file = home.join("own.json");
        fs::write(&file, format!(r#"{{"auths": {{"q.io": {{"auth": "{}"}}}}}}"#, auth("own:3")))
            .unwrap();
        let more = [("REGISTRY_AUTH_FILE", file.to_str().unwrap())];
        assert_eq!(found(home, &more, "q.io/lab/x").unwrap(), pair("own", "3"));
        assert_eq!(found(home, &more, "alpine").unwrap(), pair("hub", "pa:ss"));
    }

    #[test]
    fn helpers_are_asked_for_what_files_do_not_have() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path();
        fs::create_dir_all(home.join(".docker")).unwrap();
        let helper = home.join("docker-credential-test");
        let script = r#"#!/bin/sh
read -r host
case "$1 $host" in
    "get q.io") echo '{"ServerURL": "q.io", "Username": "u", "Secret": "s"}' ;;
    "get t.io") echo '{"Username": "<token>", "Secret": "tok"}' ;;
    "get bad.io") echo secret ;;
    "get broken.io") exit 3 ;;
    "get long.io") exec yes secret ;;
    *) echo credentials not found in native keychain; exit 1 ;;
esac
"#;
        fs::write(&helper, script).unwrap();
        fs::set_permissions(&helper, fs::Permissions::from_mode(0o755)).unwrap();
        let config = r#"{"credHelpers": {"q.io": "test", "t.io": "test", "none.io": "test", "bad.io": "test",
            "broken.io": "test", "long.io": "test", "missing.io": "none-such", "odd.io": "../x"},
            "credsStore": "test", "auths": {"t.io": {}}}"#;
        fs::write(home.join(".docker/config.json"), config).unwrap();
        let path = format!("{}:/usr/bin:/bin", home.display());
        let found = |name: &str| found(home, &[("PATH", &path)], name);
        assert_eq!(found("q.io/a").unwrap(), pair("u", "s"));
        assert_eq!(found("t.io/a").unwrap(), pair("<token>", "tok"));
        assert_eq!(found("none.io/a").unwrap(), None);
        for (name, says) in [
            ("bad.io/a", "not the JSON that a credential helper prints"),
            ("broken.io/a", "it ended with exit status: 3"),
            ("long.io/a", "the answer is longer than 1048576 bytes"),
            ("missing.io/a", "`docker-credential-none-such`: it cannot be started"),
            ("odd.io/a", "does not hold the name of a program"),
        ] {
            let error = found(name).unwrap_err().to_string();
            assert!(error.contains(says) && !error.contains("secret"), "{error}");
        }
    }

    #[test]
    fn a_file_that_cannot_be_read_is_named_without_its_content() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("auth.json");
        for text in [r#"{"auths": "s3cret"}"#, r#"{"auths": {"q.io": {"auth": "s3cret!"}}}"#, "{"] {
            fs::write(&file, text).unwrap();
            let more = [("REGISTRY_AUTH_FILE", file.to_str().unwrap())];
            let error = found(dir.path(), &more, "q.io/a").unwrap_err().to_string();
            assert!(error.contains("auth.json") && !error.contains("s3cret"), "{error}");
        }
    }
}
