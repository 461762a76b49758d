//! Starts XRootD's servers, with `tests/peers/xrootd/start.sh`.

use std::env;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};

use anyhow::{Context, Result, bail};

use crate::process::{self, command};

/// The namespace, and so the first part of every object's name.
pub const NAMESPACE: &str = "/test";

/// The issuer of tokens. It is never asked, since its key is stored where the server looks first.
pub const ISSUER: &str = "https://issuer.example.invalid";

/// The kind of a server.
#[derive(Debug, Clone, Copy)]
pub enum Mode<'a> {
    /// The server reads and writes without a token.
    Open,
    /// The server needs tokens of [`ISSUER`], over TLS.
    Token,
    /// The server is like `Open`, with the data of the server in this folder.
    Beside {
        /// The folder of that server.
        server: &'a Path,
    },
    /// The server is a cache that reads from the open server at this URL.
    Cache {
        /// The URL of the open server.
        origin: &'a str,
    },
}

/// A running server; it is killed when dropped.
pub struct XRootD {
    process: Child,
    /// The URL: `http://localhost:PORT`.
    pub url: String,
    /// The certificate of the authority that signed the server's, if it has one.
    pub ca: Option<PathBuf>,
    /// The server's log.
    pub log: PathBuf,
}

/// The result of starting a server.
pub enum Started {
    /// The server answers.
    Ready(XRootD),
    /// The text `TOOL missing, install: …`.
    Missing(String),
}

impl XRootD {
    /// Starts one with all its files in `dir`, and waits until it answers.
    pub fn start(scripts: &Path, dir: &Path, mode: Mode<'_>) -> Result<Started> {
        Self::start_with(scripts, dir, mode, &[])
    }

    /// Starts a server with further lines of configuration.
    pub fn start_with(
        scripts: &Path,
        dir: &Path,
        mode: Mode<'_>,
        lines: &[&str],
    ) -> Result<Started> {
        let extra = lines.iter().flat_map(|line| ["--extra", line]);
        Self::start_script(scripts, dir, mode, &extra.collect::<Vec<_>>())
    }

    /// Starts a server again, at its port and with its files.
    pub fn start_at(scripts: &Path, dir: &Path, mode: Mode<'_>, port: u16) -> Result<Started> {
        Self::start_script(scripts, dir, mode, &["--port", &port.to_string()])
    }

    fn start_script(scripts: &Path, dir: &Path, mode: Mode<'_>, more: &[&str]) -> Result<Started> {
        let script = scripts.join("start.sh");
        let mut start = command(&script);
        match mode {
            Mode::Open => start.arg("open").arg(dir),
            Mode::Token => start.arg("token").arg(dir).args(["--tls", "--issuer", ISSUER]),
            Mode::Beside { server } => {
                start.arg("open").arg(dir).arg("--data").arg(server.join("data"))
            }
            Mode::Cache { origin } => {
                let (_, host) = origin.split_once("://").context("an origin has a URL")?;
                start.arg("cache").arg(dir).args(["--origin", host])
            }
        };
        start.args(more).args(["--namespace", NAMESPACE]).stdout(Stdio::piped());
        let process = start.spawn().with_context(|| process::cannot_start(&start))?;
        // From here on the process is killed whatever happens.
        let mut this = Self { process, url: String::new(), ca: None, log: dir.join("xrootd.log") };
        let mut said = String::new();
        let stdout = this.process.stdout.take().context("the script has no stdout")?;
        BufReader::new(stdout).read_line(&mut said)?;
        let said = said.trim_end();
        if said.contains(" missing, install: ") {
            return Ok(Started::Missing(said.to_owned()));
        }
        let Some(url) = said.strip_prefix("ready ").and_then(|url| url.strip_suffix(NAMESPACE))
        else {
            bail!("`{}` did not start a server in `{}`", script.display(), dir.display())
        };
        url.clone_into(&mut this.url);
        this.ca = Some(dir.join("ca.pem")).filter(|ca| ca.exists());
        Ok(Started::Ready(this))
    }
}

impl XRootD {
    /// Says how the process ended, if it ended by itself.
    pub fn has_ended(&mut self) -> Option<ExitStatus> {
        self.process.try_wait().ok().flatten()
    }
}

impl Drop for XRootD {
    fn drop(&mut self) {
        // Its data are not needed any more.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The issuer that signs the tokens.
pub struct Issuer<'a> {
    /// The folder of the scripts.
    pub scripts: &'a Path,
    /// The folder of its key, made when it is not there.
    pub keys: &'a Path,
}

impl Issuer<'_> {
    /// A token that may read and create everything, for an hour. Servers without
    /// tokens get one too: the suite looks whether it shows.
    pub fn token(&self) -> Result<String> {
        let mut mint = command("python3");
        mint.arg(self.scripts.join("tokens.py")).arg("mint").arg("--keys").arg(self.keys);
        mint.args(["--issuer", ISSUER, "--scope", "storage.read:/ storage.create:/"]);
        process::stdout_of(&mut mint)
    }
}

/// `wanted`, or a folder of the system's when others cannot reach that: started
/// by root, the servers run as another user.
pub fn work_folder(wanted: &Path) -> Result<PathBuf> {
    fs::create_dir_all(wanted).with_context(|| format!("cannot make `{}`", wanted.display()))?;
    let open_to_others = |dir: &Path| {
        fs::metadata(dir).is_ok_and(|metadata| metadata.permissions().mode() & 0o001 != 0)
    };
    if !rustix::process::geteuid().is_root() || wanted.ancestors().all(open_to_others) {
        return Ok(wanted.to_owned());
    }
    Ok(env::temp_dir().join(format!("gular-peers-{}", std::process::id())))
}
