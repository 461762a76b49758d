//! Runs discovery and director in front of servers that have none.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};
use serde_json::Value;

use super::xrootd::{ISSUER, NAMESPACE};
use crate::process;

/// The embedded federation, sending clients to other servers; ends when dropped.
pub struct Director {
    process: Child,
    /// The URL: `pelican://localhost:PORT/test`.
    pub url: String,
    /// The certificate of the authority that signed the director's.
    pub ca: PathBuf,
}

impl Director {
    /// Starts `program`, the example of that name, with its files in `dir`; with `tokens`,
    /// clients are told that all takes tokens of [`ISSUER`].
    ///
    /// # Errors
    /// When it does not start.
    pub fn start(
        program: &Path,
        dir: &Path,
        origin: &str,
        caches: &[String],
        tokens: bool,
    ) -> Result<Self> {
        // `process::command` is not used: this process ends when its standard input does, even if
        // we are killed.
        let mut command = Command::new(program);
        command.arg(dir).args([NAMESPACE, origin]);
        for cache in caches {
            command.args(["--cache", cache]);
        }
        if tokens {
            command.args(["--issuer", ISSUER]);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let process = command.spawn().with_context(|| process::cannot_start(&command))?;
        // From here on the process is killed whatever happens.
        let mut this = Self { process, url: String::new(), ca: PathBuf::new() };
        let stdout = this.process.stdout.take().context("the director has no stdout")?;
        let mut said = String::new();
        BufReader::new(stdout).read_line(&mut said)?;
        let said: Value = serde_json::from_str(&said).context("cannot start a director")?;
        let text = |key: &str| {
            said[key].as_str().with_context(|| format!("the director did not report `{key}`"))
        };
        this.url = text("url")?.to_owned();
        this.ca = text("ca")?.into();
        Ok(this)
    }
}

impl Drop for Director {
    fn drop(&mut self) {
        // The process has nothing to save.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
