//! The honest servers behind the faulty ones: those of the embedded federation, or the real XRootD or
//! Pelican, which are killed and started again now and then.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};
use std::thread::{self, sleep};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use gular_federation::{Federation, Options, TokenRequest, mint};
use xtask::peers::servers::pelican::{Deployment, Pelican, Server};
use xtask::peers::servers::xrootd::{
    ISSUER, Issuer, Mode, NAMESPACE, Started, XRootD, work_folder,
};
use xtask::workspace::Workspace;

use super::faults::Faults;

/// How often it is looked whether a server should be killed, or has ended by itself.
const POLL: Duration = Duration::from_millis(20);

/// Which servers store the objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Behind {
    /// Origin and cache of `gular federation serve`.
    Embedded,
    /// XRootD, which needs tokens and TLS; the faulty caches read from it, too.
    Xrootd,
    /// Origin and cache of the real Pelican; the program `pelican` must be in PATH.
    Pelican,
}

impl Behind {
    /// The name of the option's value.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Embedded => "embedded",
            Self::Xrootd => "xrootd",
            Self::Pelican => "pelican",
        }
    }

    /// The beginning of the names of all objects.
    pub(super) fn namespace(self) -> &'static str {
        match self {
            Self::Embedded => "/gular",
            Self::Xrootd => NAMESPACE,
            Self::Pelican => "/second",
        }
    }
}

/// Running servers.
pub(super) struct Honest {
    pub(super) origin: String,
    pub(super) cache: String,
    /// The certificate of the authority that signed the servers'.
    pub(super) ca_file: PathBuf,
    /// The beginning of the names of all objects.
    pub(super) namespace: &'static str,
    /// The issuer of the token, which may read and create everything.
    pub(super) issuer: String,
    pub(super) token: String,
    /// Where the objects of the namespace are stored.
    pub(super) stored: PathBuf,
    /// Is held for reading during each upload. An XRootD that is killed meanwhile leaves a part of the
    /// object, and no client may remove that: so it is killed between uploads. Pelican's origin can
    /// keep uploads apart until they are whole, and is killed at any time.
    pub(super) uploads: Arc<RwLock<()>>,
    _embedded: Option<Federation>,
    _pelican: Option<Arc<Mutex<Pelican>>>,
}

impl Honest {
    /// Starts the servers, with their files below `dir`.
    pub(super) fn start(behind: Behind, dir: &Path, faults: &Arc<Faults>) -> Result<Self> {
        match behind {
            Behind::Embedded => embedded(dir),
            Behind::Xrootd => xrootd(&work_folder(dir)?, faults),
            Behind::Pelican => pelican(dir, faults),
        }
    }
}

fn embedded(dir: &Path) -> Result<Honest> {
    let servers = Federation::start(&Options::new(dir))?;
    let all = "/".to_owned();
    let request = TokenRequest {
        read: vec![all.clone()],
        create: vec![all],
        lifetime: gular_federation::MAX_LIFETIME,
        ..TokenRequest::default()
    };
    let issuer = servers.url().replacen("pelican", "https", 1);
    Ok(Honest {
        origin: servers.origin_url(),
        cache: servers.cache_url().context("a federation without a cache")?,
        ca_file: servers.ca_file().to_owned(),
        namespace: Behind::Embedded.namespace(),
        issuer: issuer.trim_end_matches("/gular").to_owned(),
        token: mint(dir, &request)?.secret().to_owned(),
        stored: dir.join("origin/gular"),
        uploads: Arc::default(),
        _embedded: Some(servers),
        _pelican: None,
    })
}

fn xrootd(dir: &Path, faults: &Arc<Faults>) -> Result<Honest> {
    let scripts = Workspace::locate()?.root.join("tests/peers/xrootd");
    let home = dir.join("origin");
    let server = match XRootD::start(&scripts, &home, Mode::Token)? {
        Started::Ready(server) => server,
        Started::Missing(what) => bail!("{what}"),
    };
    let url = server.url.clone();
    let port = url.rsplit(':').next().and_then(|port| port.parse().ok());
    let port: u16 = port.context("a server without a port")?;
    let uploads: Arc<RwLock<()>> = Arc::default();
    let honest = Honest {
        origin: url.clone(),
        cache: url,
        ca_file: server.ca.clone().context("a server without a certificate")?,
        namespace: Behind::Xrootd.namespace(),
        issuer: ISSUER.to_owned(),
        token: Issuer { scripts: &scripts, keys: &home.join("keys") }.token()?.trim().to_owned(),
        stored: home.join("data").join(NAMESPACE.trim_start_matches('/')),
        uploads: Arc::clone(&uploads),
        _embedded: None,
        _pelican: None,
    };
    let faults = Arc::clone(faults);
    thread::spawn(move || keep_running(server, &scripts, &home, port, &uploads, &faults));
    Ok(honest)
}

fn pelican(dir: &Path, faults: &Arc<Faults>) -> Result<Honest> {
    if !Pelican::is_installed() {
        bail!("the program `pelican` is not in PATH; see https://docs.pelicanplatform.org/install");
    }
    let scripts = Workspace::locate()?.root.join("tests/peers/pelican");
    let servers = Pelican::start(&scripts, dir, Deployment::Killed)?;
    let honest = Honest {
        origin: servers.origin.clone(),
        cache: servers.cache.clone(),
        ca_file: servers.ca.clone(),
        namespace: Behind::Pelican.namespace(),
        issuer: servers.issuer.clone(),
        token: fs::read_to_string(&servers.token)?.trim().to_owned(),
        stored: servers.stored.clone(),
        uploads: Arc::default(),
        _embedded: None,
        _pelican: None,
    };
    let servers = Arc::new(Mutex::new(servers));
    let (killed, faults) = (Arc::downgrade(&servers), Arc::clone(faults));
    thread::spawn(move || restart(&killed, &faults));
    Ok(Honest { _pelican: Some(servers), ..honest })
}

/// Kills origin and cache in turn, when the seed says so and as long as they are needed.
fn restart(servers: &Weak<Mutex<Pelican>>, faults: &Faults) {
    let turns =
        [(Server::Origin, "Pelican's origin killed"), (Server::Cache, "Pelican's cache killed")];
    let (mut turns, mut was_due) = (turns.into_iter().cycle(), false);
    while let Some(servers) = servers.upgrade() {
        let is_due = faults.is_restarted();
        let begins = is_due && !was_due;
        was_due = is_due;
        if begins && let Some((server, name)) = turns.next() {
            faults.count(name);
            faults.starts();
            let restarted = servers.lock().unwrap_or_else(PoisonError::into_inner).restart(server);
            faults.starts();
            if let Err(error) = restarted {
                // The clients then fail, too.
                eprintln!("{error:#}");
                return;
            }
        }
        drop(servers);
        sleep(POLL);
    }
}

/// Kills the server and starts it again when the seed says so; starts it again when it crashed.
fn keep_running(
    server: XRootD,
    scripts: &Path,
    home: &Path,
    port: u16,
    uploads: &RwLock<()>,
    faults: &Faults,
) {
    let (mut server, mut was_due) = (Some(server), false);
    loop {
        sleep(POLL);
        let is_due = faults.is_restarted();
        let begins = is_due && !was_due;
        was_due = is_due;
        let has_ended = server.as_mut().is_none_or(|server| server.has_ended().is_some());
        if !begins && !has_ended {
            continue;
        }
        let _between = uploads.write().unwrap_or_else(PoisonError::into_inner);
        faults.count(if has_ended { "XRootD ended by itself" } else { "XRootD killed" });
        drop(server.take());
        // If its port is still in use, the next turn tries again.
        if let Ok(Started::Ready(again)) = XRootD::start_at(scripts, home, Mode::Token, port) {
            server = Some(again);
        }
    }
}
