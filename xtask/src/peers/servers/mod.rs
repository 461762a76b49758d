//! The suite of federations against real servers.
//!
//! ```text
//! gular ──▶ director (ours) ──▶ XRootD: open origin | token origin, TLS | open origin and cache
//! ```

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

pub mod director;
pub mod xrootd;

use self::director::Director;
use self::xrootd::{Issuer, Mode, Started, XRootD};
use super::tally::{Tally, tally_of};
use crate::cargo::{self, Set};
use crate::process::command;
use crate::setup::Ready;
use crate::workspace::Workspace;

/// Names a federation of the user's, to be tested instead.
const VARIABLE: &str = "GULAR_TEST_FEDERATION";

/// More of them at a time, and XRootD 5.5.3 loses its way more often.
const CHECKS_AT_ONCE: &str = "2";

/// The suite takes 25 s against a server that answers. XRootD 5.5.3 has stopped accepting
/// connections in its midst; then the next trial is better begun soon.
const LIMIT_SECONDS: &str = "300";

/// XRootD 5.5.3 can crash (segfault, double free), forget a request or lose a file
/// it is writing to when several connections end in the same moment. A check that
/// fails is made again with a new server; what fails each time is our fault.
const TRIALS: u32 = 4;

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

/// What the suite runs against.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Server {
    /// The one that [`VARIABLE`] names.
    Named,
    /// Reads and writes without a token.
    Open,
    /// Needs bearer tokens, and TLS for them.
    Token,
    /// A cache for reading, before an open origin.
    Cache,
}

impl Server {
    /// Those to be tested on this machine.
    pub(super) fn all() -> Vec<Self> {
        match env::var_os(VARIABLE) {
            Some(_) => vec![Self::Named],
            None => vec![Self::Open, Self::Token, Self::Cache],
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Named => "federation",
            Self::Open => "xrootd_open",
            Self::Token => "xrootd_token",
            Self::Cache => "xrootd_cache",
        }
    }
}

/// Runs the suite against each of `servers`.
pub(super) fn run(workspace: &Workspace, ready: &Ready, servers: &[Server]) -> Result<Tally> {
    let programs = [&cargo::GULAR, &cargo::DIRECTOR, &cargo::FEDERATION];
    let [gular, director, suite] = cargo::build(workspace, ready, Set::Plain, programs)?;
    let scripts = workspace.root.join("tests/peers/xrootd");
    let work = xrootd::work_folder(&workspace.target.join("peers/work"))?;
    let mut total = Tally::default();
    for server in servers {
        eprintln!("peer {}", server.name());
        let mut checks = match server {
            // As slow as it likes.
            Server::Named => command(&suite),
            _ => {
                let mut limited = command("timeout");
                limited.args(["--kill-after=5", LIMIT_SECONDS]).arg(&suite);
                limited
            }
        };
        checks.env("GULAR_BIN", &gular).env("RUST_TEST_THREADS", CHECKS_AT_ONCE);
        total.add(match server {
            Server::Named => checked(&mut checks, *server)?,
            _ => against_xrootd(*server, &director, &scripts, &work.join(server.name()), checks)?,
        });
    }
    // Stays when a server's folder did.
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
    let mut trial = 1;
    // What has failed in every trial so far.
    let mut failed: Option<Vec<String>> = None;
    let tally = loop {
        super::empty(work)?;
        match Site::start(server, director, scripts, work)? {
            Err(missing) => {
                let mut tally = Tally::default();
                tally.line(&format!("skip {}: {missing}", server.name()));
                break tally;
            }
            Ok(mut site) => {
                site.apply(&mut checks);
                let mut tally = checked(&mut checks, server)?;
                if let Some(before) = &failed {
                    tally.failed.retain(|check| before.contains(check));
                }
                failed = Some(tally.failed.clone());
                if tally.failed.is_empty() || trial == TRIALS {
                    break tally;
                }
                trial += 1;
                let why = if site.crashed() { "the server crashed" } else { "not all passed" };
                eprintln!("peer {}: {why}, trial {trial} of {TRIALS}", server.name());
            }
        }
    };
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
        // Whatever a failing check prints is no result.
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
            // Not the origin itself: see `start.sh` on processes that speak root:// too.
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

    /// Whether a server ended by itself.
    fn crashed(&mut self) -> bool {
        self.servers.iter_mut().any(XRootD::has_ended)
    }

    /// Lets `checks` reach it.
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
