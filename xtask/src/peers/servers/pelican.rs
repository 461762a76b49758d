//! Starts the real Pelican, with `tests/peers/pelican/federation.py`.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::process;

/// The way in which a federation is deployed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deployment {
    /// Director, registry, origin and cache in one process.
    Box,
    /// The namespace is that of an origin in a process of its own.
    Origin,
    /// Like `Origin`, but an interrupted upload leaves no object.
    Posc,
    /// Like `Posc`, with a process for the cache, too; both can be killed.
    Killed,
}

/// A server of [`Deployment::Killed`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Server {
    /// The origin.
    Origin,
    /// The cache.
    Cache,
}

impl Deployment {
    /// The deployment's name in the script.
    fn word(self) -> &'static str {
        match self {
            Self::Box => "box",
            Self::Origin => "origin",
            Self::Posc => "posc",
            Self::Killed => "killed",
        }
    }
}

/// A running federation; it ends when dropped.
pub struct Pelican {
    process: Child,
    stdout: BufReader<ChildStdout>,
    /// The URL: `pelican://localhost:PORT/NAMESPACE`.
    pub url: String,
    /// The certificate of the authority that signed the servers'.
    pub ca: PathBuf,
    /// A file with a token for everything in the namespace.
    pub token: PathBuf,
    /// Who signed it.
    pub issuer: String,
    /// The URL of the origin: `https://localhost:PORT`.
    pub origin: String,
    /// The URL of the cache; that of the origin if both are one process.
    pub cache: String,
    /// The folder with the objects of the namespace.
    pub stored: PathBuf,
    /// The version that the program prints.
    pub version: String,
}

impl Pelican {
    /// Whether the program is in PATH.
    #[must_use]
    pub fn is_installed() -> bool {
        process::find("pelican").is_some()
    }

    /// Starts one with all its files in `dir`, and waits until it serves.
    ///
    /// # Errors
    /// When it does not start; what its servers said is in `dir`.
    pub fn start(scripts: &Path, dir: &Path, deployment: Deployment) -> Result<Self> {
        fs::create_dir_all(dir).with_context(|| format!("cannot make `{}`", dir.display()))?;
        let errors = dir.join("errors");
        let log = File::create(&errors)
            .with_context(|| format!("cannot write `{}`", errors.display()))?;
        // `process::command` is not used: this process ends when its standard input does, even if
        // we are killed.
        let mut command = Command::new("python3");
        command.arg(scripts.join("federation.py")).arg(deployment.word()).arg(dir);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log);
        let mut process = command.spawn().with_context(|| process::cannot_start(&command))?;
        let stdout = process.stdout.take().context("the script has no stdout")?;
        let empty = PathBuf::new;
        // From here on the process is stopped whatever happens.
        let mut this = Self {
            process,
            stdout: BufReader::new(stdout),
            url: String::new(),
            ca: empty(),
            token: empty(),
            issuer: String::new(),
            origin: String::new(),
            cache: String::new(),
            stored: empty(),
            version: String::new(),
        };
        let said = this.line()?;
        ensure!(
            !said.is_empty(),
            "the real Pelican does not start:\n{}",
            fs::read_to_string(&errors).unwrap_or_default()
        );
        let said: Value = serde_json::from_str(&said).context("the script did not print JSON")?;
        let text = |key: &str| {
            let text = said[key].as_str().map(str::to_owned);
            text.with_context(|| format!("the script did not report `{key}`"))
        };
        this.url = text("url")?;
        this.ca = text("ca")?.into();
        this.token = text("token")?.into();
        this.issuer = text("issuer")?;
        this.origin = text("origin")?;
        this.cache = text("cache")?;
        this.stored = text("stored")?.into();
        this.version = text("version")?;
        Ok(this)
    }

    /// Kills a server of [`Deployment::Killed`], and returns when it serves again.
    ///
    /// # Errors
    /// When it does not start again; why is in the folder of the servers.
    pub fn restart(&mut self, server: Server) -> Result<()> {
        let name = match server {
            Server::Origin => "origin",
            Server::Cache => "cache",
        };
        let mut stdin = self.process.stdin.as_ref().context("the script has no stdin")?;
        writeln!(stdin, "{name}")?;
        let said = self.line()?;
        ensure!(said.trim() == "again", "the real Pelican's {name} does not start again");
        Ok(())
    }

    /// The next line that the script prints; empty if it ended.
    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        self.stdout.read_line(&mut line)?;
        Ok(line)
    }
}

impl Drop for Pelican {
    fn drop(&mut self) {
        // The end of its input makes it stop its servers.
        drop(self.process.stdin.take());
        let _ = self.process.wait();
    }
}
