//! Runs the suite of federation tests against real servers.
//!
//! ```text
//! gular ──▶ director (ours) ──▶ XRootD: open origin | token origin, TLS | open origin and cache
//!       ──▶ the real Pelican, a whole federation
//! gular ──▶ the real Pelican, some of whose servers fail
//! gular login ──▶ the real Pelican client ──▶ the issuer of a real origin
//! the real Pelican client ──▶ gular federation serve
//! ```

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

pub mod director;
pub mod pelican;
mod trials;
pub mod xrootd;

use self::director::Director;
use self::pelican::{Deployment, Pelican};
use self::trials::Trial;
use self::xrootd::{Issuer, Mode, Started, XRootD};
use super::tally::{Tally, tally_of, tally_while};
use crate::cargo::{self, Set};
use crate::process::{command, stdout_of};
use crate::setup::Ready;
use crate::workspace::{Workspace, empty};

/// Names a federation of the user's, to be tested instead.
const VARIABLE: &str = "GULAR_TEST_FEDERATION";

/// Number of checks at a time; with more, XRootD 5.5.3 fails more often.
const CHECKS_AT_ONCE: &str = "2";

/// The suite takes 25 s against a server that answers. XRootD 5.5.3 has stopped accepting
/// connections in its midst; then the next trial is better begun soon.
const LIMIT_SECONDS: &str = "180";

/// XRootD 5.5.3 can crash (segfault, double free), forget a request or lose a file
/// it is writing to when several connections end in the same moment. A check that
/// fails is made again with a new server; [`trials`] says what comes of it.
const TRIALS: usize = 4;

/// Other sources of tokens, and other ways to a server, than those of the suite.
const SURROUNDINGS: [&str; 11] = [
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
];

/// The servers that the suite runs against.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Server {
    /// The federation that [`VARIABLE`] names.
    Named,
    /// A server that reads and writes without a token.
    Open,
    /// A server that needs bearer tokens, and TLS for them.
    Token,
    /// A cache for reading, before an open origin.
    Cache,
    /// A federation of the real Pelican.
    Pelican(Deployment),
    /// The real Pelican, some of whose servers fail.
    Outage,
    /// The real Pelican client, which gets a token for us.
    Login,
    /// `gular federation serve`, for the real Pelican client.
    Client,
}

impl Server {
    /// Returns the servers to test on this machine.
    pub(super) fn all() -> Vec<Self> {
        match env::var_os(VARIABLE) {
            Some(_) => vec![Self::Named],
            None => vec![
                Self::Open,
                Self::Token,
                Self::Cache,
                Self::Pelican(Deployment::Box),
                Self::Pelican(Deployment::Origin),
                Self::Pelican(Deployment::Posc),
                Self::Outage,
                Self::Login,
                Self::Client,
            ],
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Named => "federation",
            Self::Open => "xrootd_open",
            Self::Token => "xrootd_token",
            Self::Cache => "xrootd_cache",
            Self::Pelican(Deployment::Box) => "federation_box",
            Self::Pelican(Deployment::Origin) => "federation_origin",
            Self::Pelican(Deployment::Posc) => "federation_posc",
            Self::Pelican(Deployment::Killed) => "federation_killed",
            Self::Outage => "federation_outage",
            Self::Login => "federation_login",
            Self::Client => "federation_client",
        }
    }
}

/// Runs the suite against each of `servers`.
pub(super) fn run(workspace: &Workspace, ready: &Ready, servers: &[Server]) -> Result<Tally> {
    let programs = [&cargo::GULAR, &cargo::DIRECTOR, &cargo::FEDERATION];
    let [gular, director, suite] = cargo::build(workspace, ready, Set::Plain, programs)?;
    let scripts = workspace.root.join("tests/peers/xrootd");
    let pelican = workspace.root.join("tests/peers/pelican");
    let work = xrootd::work_folder(&workspace.target.join("peers/work"))?;
    let mut total = Tally::default();
    for server in servers {
        eprintln!("peer {}", server.name());
        let mut checks = match server {
            // A federation that the user names may be as slow as it likes.
            Server::Named => command(&suite),
            Server::Outage | Server::Login | Server::Client => command("python3"),
            _ => {
                let mut limited = command("timeout");
                limited.args(["--kill-after=5", LIMIT_SECONDS]).arg(&suite);
                limited
            }
        };
        checks.env("GULAR_BIN", &gular).env("RUST_TEST_THREADS", CHECKS_AT_ONCE);
        total.add(match server {
            Server::Named => checked(&mut checks, *server)?,
            Server::Pelican(deployment) => {
                against_pelican(*server, *deployment, &pelican, &work.join(server.name()), checks)?
            }
            Server::Outage | Server::Login | Server::Client => {
                of_a_script(*server, &pelican, &work.join(server.name()), checks)?
            }
            _ => against_xrootd(*server, &director, &scripts, &work.join(server.name()), checks)?,
        });
    }
    // The folder stays if the folder of a server did.
    let _ = fs::remove_dir(&work);
    Ok(total)
}

/// Starts the servers, runs the checks, stops the servers; what these said stays
/// when a check failed.
fn against_xrootd(
    server: Server,
    director: &Path,
    scripts: &Path,
    work: &Path,
    mut checks: Command,
) -> Result<Tally> {
    let mut made: Vec<Trial> = Vec::new();
    let tally = loop {
        empty(work)?;
        match Site::start(server, director, scripts, work)? {
            Err(missing) => {
                let mut tally = Tally::default();
                tally.line(&format!("skip {}: {missing}", server.name()));
                break tally;
            }
            Ok(mut site) => {
                site.apply(&mut checks);
                // Without the server, each check after a crash would wait in vain.
                let has_not_ended = || site.ended().is_none();
                let line = |line: &str| peer_line(server.name(), line);
                let mut tally = tally_while(&mut checks, server.name(), line, has_not_ended)?;
                let reason = site.reason();
                let why = reason.clone().unwrap_or_else(|| "not all passed".to_owned());
                // Messages about the suite itself belong to no check.
                let of_check = format!("{}::", server.name());
                let (failed, of_suite): (Vec<_>, Vec<_>) = std::mem::take(&mut tally.failed)
                    .into_iter()
                    .partition(|failed| failed.starts_with(&of_check));
                let is_whole = of_suite.is_empty() && site.ended().is_none();
                made.push(Trial { passed: tally.ok.clone(), failed, is_whole, reason });
                if trials::is_settled(&made) || made.len() == TRIALS {
                    let outcome = trials::outcome(server.name(), &made);
                    (tally.failed, tally.unsteady) = (outcome.failed, outcome.unsteady);
                    break tally;
                }
                let next = made.len() + 1;
                eprintln!("peer {}: {why}, trial {next} of {TRIALS}", server.name());
            }
        }
    };
    finished(work, tally)
}

/// Starts the real Pelican, runs the checks, stops it; what it said stays when one failed.
fn against_pelican(
    server: Server,
    deployment: Deployment,
    scripts: &Path,
    work: &Path,
    mut checks: Command,
) -> Result<Tally> {
    if !Pelican::is_installed() {
        let program = checks.get_args().last().context("the suite is a program")?.to_owned();
        let listed = stdout_of(command(program).args(["--list", "--format", "terse"]))?;
        let names = listed.lines().filter_map(|line| line.strip_suffix(": test"));
        return Ok(skipped(server, names));
    }
    empty(work)?;
    let site = Pelican::start(scripts, work, deployment)?;
    eprintln!("peer {}: {}", server.name(), site.version);
    for variable in SURROUNDINGS {
        checks.env_remove(variable);
    }
    checks
        .env(VARIABLE, &site.url)
        .env("SSL_CERT_FILE", &site.ca)
        .env("BEARER_TOKEN_FILE", &site.token);
    let tally = checked(&mut checks, server)?;
    drop(site);
    finished(work, tally)
}

/// Runs a script that starts what it needs itself.
fn of_a_script(server: Server, scripts: &Path, work: &Path, mut checks: Command) -> Result<Tally> {
    let script = scripts.join(match server {
        Server::Outage => "outage.py",
        Server::Login => "login.py",
        _ => "client.py",
    });
    if !Pelican::is_installed() {
        let listed = stdout_of(command("python3").arg(&script).arg("--list"))?;
        return Ok(skipped(server, listed.lines()));
    }
    empty(work)?;
    checks.env("PYTHONDONTWRITEBYTECODE", "1").arg(script).current_dir(work);
    let tally = tally_of(&mut checks, server.name(), str::to_owned)?;
    finished(work, tally)
}

/// Returns all checks of a peer that needs the real Pelican as skipped.
fn skipped<'a>(server: Server, names: impl Iterator<Item = &'a str>) -> Tally {
    let mut tally = Tally::default();
    for name in names {
        let page = "https://docs.pelicanplatform.org/install";
        let name = format!("{}::{name}", server.name());
        tally.line(&format!("skip {name}: pelican missing, install: see {page}"));
    }
    tally
}

fn finished(work: &Path, tally: Tally) -> Result<Tally> {
    if tally.failed.is_empty() {
        fs::remove_dir_all(work).with_context(|| format!("cannot remove `{}`", work.display()))?;
    } else {
        eprintln!("what the servers said is in `{}`", work.display());
    }
    Ok(tally)
}

fn checked(checks: &mut Command, server: Server) -> Result<Tally> {
    tally_of(checks, server.name(), |line| peer_line(server.name(), line))
}

/// Turns a line of Rust's test harness into one of a peer test.
fn peer_line(server: &str, line: &str) -> String {
    let result = line.strip_prefix("test ").and_then(|rest| rest.rsplit_once(" ... "));
    match result {
        Some((name, "ok")) => format!("ok {server}::{name}"),
        Some((name, "FAILED")) => format!("fail {server}::{name}: what it said stands below"),
        // Whatever a failing check prints is not a result.
        _ => format!("| {line}"),
    }
}

/// Real servers with a director in front; all end when this is dropped.
struct Site {
    director: Director,
    servers: Vec<XRootD>,
    roots: PathBuf,
    token: PathBuf,
}

impl Site {
    /// The inner error says what is missing, and how to install it.
    fn start(
        server: Server,
        director: &Path,
        scripts: &Path,
        work: &Path,
    ) -> Result<Result<Self, String>> {
        let home = work.join("origin");
        let mut servers = Vec::new();
        // Starts one more; its URL, or what is missing.
        let mut start = |name: &str, mode: Mode<'_>| -> Result<Result<String, String>> {
            Ok(match XRootD::start(scripts, &work.join(name), mode)? {
                Started::Missing(tool) => Err(tool),
                Started::Ready(server) => {
                    let url = server.url.clone();
                    servers.push(server);
                    Ok(url)
                }
            })
        };
        let mode = if server == Server::Token { Mode::Token } else { Mode::Open };
        let origin = match start("origin", mode)? {
            Ok(url) => url,
            Err(missing) => return Ok(Err(missing)),
        };
        let mut caches = Vec::new();
        if server == Server::Cache {
            // The cache does not use the origin itself: `start.sh` explains this for processes that
            // also speak root://.
            let cache = match start("backend", Mode::Beside { server: &home })? {
                Ok(backend) => start("cache", Mode::Cache { origin: &backend })?,
                Err(missing) => Err(missing),
            };
            match cache {
                Ok(url) => caches.push(url),
                Err(missing) => return Ok(Err(missing)),
            }
        }
        let issuer = Issuer { scripts, keys: &home.join("keys") };
        let token = work.join("token");
        fs::write(&token, issuer.token()?)
            .with_context(|| format!("cannot write `{}`", token.display()))?;
        let tokens = server == Server::Token;
        let director = Director::start(director, &work.join("director"), &origin, &caches, tokens)?;
        let certificates = servers.iter().filter_map(|server| server.ca.as_ref());
        let roots = work.join("roots.pem");
        join_files(certificates.chain([&director.ca]), &roots)?;
        Ok(Ok(Self { director, servers, roots, token }))
    }

    /// Says how a server ended that should still run.
    fn ended(&mut self) -> Option<String> {
        self.servers.iter_mut().find_map(|server| {
            let status = server.has_ended()?;
            let words = trials::last_words(&server.log).unwrap_or_default();
            Some(format!("the server ended ({status}), and {words}"))
        })
    }

    /// Says what happened to a server, if that would explain a failure.
    fn reason(&mut self) -> Option<String> {
        if let Some(ended) = self.ended() {
            return Some(ended);
        }
        self.servers.iter().find_map(|server| trials::complaint(&server.log))
    }

    /// Sets the variables with which `checks` reach the server.
    fn apply(&self, checks: &mut Command) {
        for variable in SURROUNDINGS {
            checks.env_remove(variable);
        }
        checks
            .env(VARIABLE, &self.director.url)
            .env("SSL_CERT_FILE", &self.roots)
            .env("BEARER_TOKEN_FILE", &self.token);
    }
}

fn join_files<'a>(files: impl IntoIterator<Item = &'a PathBuf>, to: &Path) -> Result<()> {
    let mut all = Vec::new();
    for file in files {
        all.extend(fs::read(file).with_context(|| format!("cannot read `{}`", file.display()))?);
    }
    fs::write(to, all).with_context(|| format!("cannot write `{}`", to.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_test_harness_become_those_of_a_peer_test() {
        let check = |line: &str, expected: &str| assert_eq!(peer_line("s", line), expected);
        check("test fetch::a_b ... ok", "ok s::fetch::a_b");
        check("test fetch::a_b ... FAILED", "fail s::fetch::a_b: what it said stands below");
        check("fail me: not a result", "| fail me: not a result");
        check("test result: ok. 1 passed; 0 failed", "| test result: ok. 1 passed; 0 failed");
    }
}
