//! The federation under test.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::SystemTime;

use gular_tests::{Outcome, finish, gular};
use serde_json::Value;
use tempfile::TempDir;

/// Variables that give tokens besides `BEARER_TOKEN_FILE`, or that could make a client use another
/// federation than the embedded one.
const SURROUNDINGS: [&str; 14] = [
    "BEARER_TOKEN",
    "TOKEN",
    "XDG_RUNTIME_DIR",
    "_CONDOR_CREDS",
    "SSL_CERT_DIR",
    "HTTPS_PROXY",
    "https_proxy",
    "HTTP_PROXY",
    "http_proxy",
    "ALL_PROXY",
    "all_proxy",
    "NEAREST_CACHE",
    "PELICAN_NEAREST_CACHE",
    "PELICAN_CLIENT_PREFERREDCACHES",
];

/// A federation, and a folder for the files of the checks.
pub(crate) struct Site {
    /// The collection that the checks write below.
    base: String,
    embedded: Option<Embedded>,
    /// Parts of tokens that must not be in any output.
    secrets: Vec<String>,
    scratch: TempDir,
}

impl Site {
    /// Returns the federation that all checks of this process share while any of them runs. The
    /// last one stops it: a static variable would never be dropped.
    pub(crate) fn shared() -> Arc<Self> {
        static SHARED: Mutex<Weak<Site>> = Mutex::new(Weak::new());
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        shared.upgrade().unwrap_or_else(|| {
            let site = Arc::new(Self::open());
            *shared = Arc::downgrade(&site);
            site
        })
    }

    fn open() -> Self {
        let Ok(base) = env::var("GULAR_TEST_FEDERATION") else { return Self::alone() };
        let scratch = tempfile::tempdir().unwrap();
        let file = env::var_os("BEARER_TOKEN_FILE").map(|file| fs::read_to_string(file).unwrap());
        let tokens = [file, env::var("BEARER_TOKEN").ok()];
        let secrets = tokens.iter().flatten().flat_map(|token| secrets_of(token)).collect();
        Self { base: base.trim_end_matches('/').to_owned(), embedded: None, secrets, scratch }
    }

    /// Starts a separate embedded federation, which can be stopped and damaged.
    pub(crate) fn alone() -> Self {
        Self::alone_with(&[])
    }

    /// Does the same as [`alone`](Self::alone), with further options of `federation serve`.
    pub(crate) fn alone_with(options: &[&str]) -> Self {
        let scratch = tempfile::tempdir().unwrap();
        let embedded = Embedded::start(&scratch.path().join("federation"), options);
        let secrets = secrets_of(&fs::read_to_string(&embedded.token).unwrap());
        Self { base: embedded.url.clone(), embedded: Some(embedded), secrets, scratch }
    }

    /// Kills the federation; commands still know its certificate and token.
    pub(crate) fn stop(&mut self) {
        let embedded = self.embedded.as_mut().expect("an embedded federation");
        let _ = embedded.process.kill();
        let _ = embedded.process.wait();
    }

    /// Returns the file in which the embedded cache keeps its copy of the object at `url`.
    pub(crate) fn cached(&self, url: &str) -> PathBuf {
        self.file_of("cache", url)
    }

    /// Returns the file in which the embedded origin stores the object at `url`.
    pub(crate) fn stored(&self, url: &str) -> PathBuf {
        self.file_of("origin", url)
    }

    fn file_of(&self, server: &str, url: &str) -> PathBuf {
        let (_, path) = url.split_once("://").unwrap();
        let (_, path) = path.split_once('/').unwrap();
        self.scratch.path().join("federation").join(server).join(path)
    }

    /// Returns whether the federation is embedded, so that more is known about it.
    pub(crate) fn is_embedded(&self) -> bool {
        self.embedded.is_some()
    }

    /// Returns a collection that does not exist yet, and that nobody else uses.
    pub(crate) fn collection(&self, name: &str) -> String {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_nanos();
        format!("{}/{name}-{now:x}-{:x}-{count}", self.base, std::process::id())
    }

    /// Returns the folder of this name for all checks; the first check makes it.
    pub(crate) fn once(&self, name: &str, make: impl FnOnce(&Path)) -> PathBuf {
        static MAKING: Mutex<()> = Mutex::new(());
        let _lock = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
        let dir = self.scratch.path().join(name);
        if !dir.exists() {
            make(&dir);
        }
        dir
    }

    /// Makes an empty folder.
    pub(crate) fn scratch(&self) -> TempDir {
        TempDir::new_in(self.scratch.path()).unwrap()
    }

    /// Returns a command of `gular` that can reach the federation.
    pub(crate) fn command<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Command {
        let mut command = Command::new(gular());
        // It remembers which digest each URL had.
        command.env("GULAR_CACHE", self.scratch.path().join("node"));
        if let Some(embedded) = &self.embedded {
            for variable in SURROUNDINGS {
                command.env_remove(variable);
            }
            command.env("SSL_CERT_FILE", &embedded.ca).env("BEARER_TOKEN_FILE", &embedded.token);
        }
        command.args(args);
        command
    }

    /// Runs `gular` and checks that its output has no token.
    pub(crate) fn run<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Outcome {
        self.finish(&mut self.command(args))
    }

    /// Does the same as [`run`](Self::run), for a prepared command.
    pub(crate) fn finish(&self, command: &mut Command) -> Outcome {
        let outcome = finish(command);
        self.check_secrets(&outcome);
        outcome
    }

    /// Runs `gular … --json`, which must succeed and print only its object.
    pub(crate) fn json<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Value {
        let outcome = self.finish(self.command(args).arg("--json"));
        assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""), "{outcome:?}");
        serde_json::from_str(&outcome.stdout).unwrap()
    }

    fn check_secrets(&self, outcome: &Outcome) {
        for secret in &self.secrets {
            // The text is not shown, since it would be in the log of the test.
            let shown = outcome.stdout.contains(secret) || outcome.stderr.contains(secret);
            assert!(!shown, "an output holds a token");
        }
    }
}

/// Returns the parts of a token that must not be seen: the whole token if it is not a JWT, else its
/// claims and signature.
pub(crate) fn secrets_of(token: &str) -> Vec<String> {
    let parts: Vec<&str> = token.trim().split('.').collect();
    let secret = if parts.len() == 3 { parts.get(1..).unwrap() } else { &parts };
    secret.iter().filter(|part| !part.is_empty()).map(|part| (*part).to_owned()).collect()
}

/// `gular federation serve` in a separate process, which is stopped when this is dropped.
struct Embedded {
    process: Child,
    url: String,
    ca: PathBuf,
    token: PathBuf,
}

impl Embedded {
    fn start(dir: &Path, options: &[&str]) -> Self {
        let mut process = Command::new(gular())
            .args(["federation", "serve", "--json"])
            .args(options)
            .arg(dir)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut said = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut said).unwrap();
        let token = dir.join("suite.token");
        // The value is dropped, and the process stopped, if the next lines fail.
        let mut this = Self { process, url: String::new(), ca: PathBuf::new(), token };
        let said: Value = serde_json::from_str(&said).expect("`gular federation serve` starts");
        said["url"].as_str().unwrap().clone_into(&mut this.url);
        this.ca = PathBuf::from(said["ca"].as_str().unwrap());
        let minted = finish(
            Command::new(gular())
                .args(["federation", "token", "--read", "/", "--create", "/"])
                .arg(dir),
        );
        assert_eq!(minted.code, Some(0), "{}", minted.stderr);
        fs::write(&this.token, minted.stdout).unwrap();
        this
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
