//! The federation of the demo: `gular federation serve` in a separate process.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

/// A federation on this machine, stopped when dropped.
pub(crate) struct Federation {
    process: Child,
    /// The URL: `pelican://localhost:PORT/gular`.
    pub(crate) url: String,
    ca: PathBuf,
    token: PathBuf,
}

impl Federation {
    /// Starts it with its data in `dir`, and makes a token that may read and create.
    pub(crate) fn start(gular: &Path, dir: &Path) -> Result<Self> {
        let mut process = Command::new(gular)
            .args(["federation", "serve", "--json", "--quiet"])
            .arg(dir)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start `{}`", gular.display()))?;
        let stdout = process.stdout.take().context("the federation has no stdout")?;
        let mut said = String::new();
        BufReader::new(stdout).read_line(&mut said)?;
        let said: Value =
            serde_json::from_str(&said).context("`gular federation serve` did not start")?;
        let text = |key: &str| {
            said[key]
                .as_str()
                .map(str::to_owned)
                .with_context(|| format!("`gular federation serve` did not report `{key}`"))
        };
        let (url, ca) = (text("url")?, PathBuf::from(text("ca")?));
        let token = dir.join("demo.token");
        let this = Self { process, url, ca, token };
        let minted = Command::new(gular)
            .args(["federation", "token", "--read", "/", "--create", "/"])
            .arg(dir)
            .stderr(Stdio::inherit())
            .output()?;
        ensure!(minted.status.success(), "`gular federation token` failed");
        fs::write(&this.token, &minted.stdout)?;
        Ok(this)
    }

    /// Returns the command `gular VERB`, able to reach the federation.
    pub(crate) fn with_token(&self, gular: &Path, verb: &str) -> Result<Command> {
        let mut command = Command::new(gular);
        command.arg(verb);
        self.apply(&mut command)?;
        Ok(command)
    }

    /// Lets `command` reach the federation.
    pub(crate) fn apply(&self, command: &mut Command) -> Result<()> {
        command.env("SSL_CERT_FILE", fs::canonicalize(&self.ca)?);
        command.env("BEARER_TOKEN_FILE", fs::canonicalize(&self.token)?);
        Ok(())
    }
}

impl Drop for Federation {
    fn drop(&mut self) {
        // The process has nothing to save, since everything stored is on the disk.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
