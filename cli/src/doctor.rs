//! `gular doctor`.

use std::fmt::Write as _;
use std::time::{Duration, SystemTime};

use clap::Args;
use gular_pelican::{Client, Probe, ProbeFault, Role, TokenFacts, Url};
use gular_transfer::{BundleUrl, Checkup, examine};
use serde_json::{Value, json};

use crate::exit::{Exit, Failure};
use crate::network::Access;
use crate::shared::Output;
use crate::stop::Stop;
use crate::{hints, machine, network, show, units};

/// A director that does not answer is waited for this long.
const PATIENCE: Duration = Duration::from_secs(10);

/// Slower than this, a server is worth a remark.
const SLOW_BYTES_PER_SECOND: f64 = 1e6;

/// Check this machine, or every server through which a bundle or object is read
///
/// Without URL: the program, the Pythons that have the wheel, libtorch, GPUs, the cache and its free
/// space, the places of tokens, the batch systems, and what runs images; nothing is sent. With URL:
/// discovery, director, each cache and the origin: name resolution, connection (TCP and
/// TLS), first byte, speed over some megabytes, the age of a cache's copy, and what is wrong with
/// the token. Exit code 1: something is wrong, and the output says what to do; other servers may
/// still serve the data.
#[derive(Debug, Args)]
#[command(after_help = "\
Exit codes: 0 all well, 1 something is wrong, 2 error

Example:
  gular doctor
  gular doctor pelican://osg-htc.org/mylab/birds/v1")]
pub(crate) struct DoctorArgs {
    /// URL of a bundle (…/NAME/VERSION) or of an object; without it, this machine is checked
    pub(crate) url: Option<String>,
    #[command(flatten)]
    pub(crate) access: Access,
}

pub(crate) fn run(args: &DoctorArgs, output: &Output) -> Result<Exit, Failure> {
    let Some(url) = &args.url else { return machine::run(output) };
    let stop = Stop::install()?;
    let url: BundleUrl = url.parse()?;
    let mut options = network::options(&args.access);
    options.patience = PATIENCE;
    let client = Client::new(options)?;
    let checkup = examine(&client, &url, stop.watch()).map_err(|e| network::ended(e, &stop))?;
    if output.json {
        show::json(&as_json(&checkup, &url))?;
    } else {
        show::text(&text(&checkup, &url, output.quiet))?;
    }
    Ok(if checkup.is_well() { Exit::Done } else { Exit::Unsound })
}

fn text(checkup: &Checkup, url: &BundleUrl, quiet: bool) -> String {
    let mut text = String::new();
    let seen = &checkup.examination;
    let token = seen.token.iter().flatten().map(|token| token.from.len());
    let places = seen.probes.iter().map(|probe| probe.server.len()).chain(token);
    let width = places.max().unwrap_or(0);
    let mut line = |what: &str, place: &str, ok: bool, said: &str, advice: Option<String>| {
        if !quiet || !ok {
            let verdict = if ok { "ok" } else { "FAULT" };
            let _ = writeln!(text, "{what:<9}  {place:<width$}  {verdict:<5}  {said}");
        }
        if let Some(advice) = advice {
            let _ = writeln!(text, "  do: {advice}");
        }
    };
    let mut probes = seen.probes.iter();
    let is_front = |probe: &&Probe| matches!(probe.role, Role::Discovery | Role::Director);
    for probe in probes.by_ref().take_while(|probe| is_front(probe)) {
        let mut said = said(probe);
        if let (Role::Director, Some(namespace)) = (probe.role, &seen.namespace) {
            let needs = if seen.needs_token == Some(true) { "needs a token" } else { "is public" };
            let _ = write!(said, ", namespace {namespace} {needs}");
        }
        let advice = advice(probe, &checkup.asked);
        line(role(probe.role), &probe.server, probe.fault.is_none(), &said, advice);
    }
    match &seen.token {
        Some(Ok(token)) if is_refused(token, checkup) => {
            let advice = Some(NO_JWT_ADVICE.to_owned());
            line("token", &token.from, false, NO_JWT, advice);
        }
        Some(Ok(token)) => line("token", &token.from, true, &lasts(token), None),
        Some(Err(diagnosis)) => {
            let advice = Some(hints::token(diagnosis, false, &checkup.asked.to_string()));
            line("token", "", false, &diagnosis.to_string(), advice);
        }
        None => {}
    }
    for probe in seen.probes.iter().filter(|probe| !is_front(probe)) {
        let advice = advice(probe, &checkup.asked);
        line(role(probe.role), &probe.server, probe.fault.is_none(), &said(probe), advice);
    }
    if let Some(said) = another_bundle(checkup, url) {
        line("digest", "", false, &said, Some(ANOTHER_ADVICE.to_owned()));
    }
    if !quiet {
        let verdict = match (checkup.is_well(), checkup.is_readable()) {
            (true, _) if checkup.digest.is_none() => {
                "every server answers; `gular fetch` compares the bytes"
            }
            (true, _) => "every server answers; `gular verify` compares the bytes",
            (false, true) => {
                "it can be read, but something is wrong: see the lines above that begin with `do:`"
            }
            (false, false) => "it cannot be read",
        };
        let _ = writeln!(text, "{}: {verdict}", checkup.asked);
    }
    text
}

/// The fault of a token that only its server can check, if that refuses it.
const NO_JWT: &str = "it is not a JSON Web Token, which federations need";
const NO_JWT_ADVICE: &str = "check the file or variable: it should contain only a token, which has three parts separated by dots";

/// Whether the servers refuse a token that is not a JSON Web Token.
fn is_refused(token: &TokenFacts, checkup: &Checkup) -> bool {
    token.opaque && !checkup.is_readable()
}

const ANOTHER_ADVICE: &str = "check that the URL has the right version and the complete digest, as `gular publish` printed them; a published version never changes";

/// Returns both digests, if the bundle that was found is not the one that was asked for.
fn another_bundle(checkup: &Checkup, url: &BundleUrl) -> Option<String> {
    let (asked, found) = (url.digest?, checkup.digest?);
    let said = format!("the bundle published here has digest {found}, expected {asked}");
    checkup.other.then_some(said)
}

fn role(role: Role) -> &'static str {
    match role {
        Role::Discovery => "discovery",
        Role::Director => "director",
        Role::Cache => "cache",
        Role::Origin => "origin",
        Role::Server => "server",
    }
}

/// Says what a server did, in the order in which it did it.
fn said(probe: &Probe) -> String {
    let mut parts = Vec::new();
    let ms = |time: Duration| format!("{:.0} ms", time.as_secs_f64() * 1e3);
    parts.extend(probe.name.map(|time| format!("name {}", ms(time))));
    parts.extend(probe.connection.map(|time| format!("connection {}", ms(time))));
    parts.extend(probe.first_byte.map(|time| format!("first byte {}", ms(time))));
    if probe.fault.is_none() {
        parts.extend(rate(probe).map(|rate| format!("{}/s", show::size(rate as u64))));
        parts.extend(probe.age.map(|age| match age.as_secs() {
            0 => "copy made now".to_owned(),
            _ => format!("copy {} old", units::span(age)),
        }));
    }
    parts.extend(probe.fault.as_ref().map(fault));
    parts.join(", ")
}

/// Bytes per second, when enough was read to tell.
fn rate(probe: &Probe) -> Option<f64> {
    let (bytes, time) = probe.read.filter(|(bytes, _)| *bytes >= 1 << 16)?;
    Some(bytes as f64 / time.as_secs_f64().max(1e-6))
}

fn lasts(token: &TokenFacts) -> String {
    let Some(end) = token.expires else {
        let opaque = "it is not a JSON Web Token, but the servers accept it";
        let said = if token.opaque { opaque } else { "the token does not say when it expires" };
        return said.to_owned();
    };
    let left = end.duration_since(SystemTime::now()).unwrap_or_default();
    format!("it is right for this namespace, and expires in {}", units::span(left))
}

fn fault(fault: &ProbeFault) -> String {
    let and = |words: &str| if words.is_empty() { String::new() } else { format!(": {words}") };
    match fault {
        ProbeFault::Name(reason) => format!("its host name has no address: {reason}"),
        ProbeFault::Connection(reason) | ProbeFault::Broken(reason) => reason.clone(),
        ProbeFault::Tls(reason, _) => format!("TLS: {reason}"),
        ProbeFault::Denied { status, said, diagnosis } => format!("{status}{said}: {diagnosis}"),
        ProbeFault::Missing(words) => format!("the object does not exist{}", and(words)),
        ProbeFault::Answer { status, said } => format!("answers {status}{}", and(said)),
        ProbeFault::NoneNamed(reason) => format!("the director names no server: {reason}"),
        _ => "unknown".to_owned(),
    }
}

/// Says what to do about a server.
fn advice(probe: &Probe, asked: &Url) -> Option<String> {
    let Some(fault) = &probe.fault else {
        let slow = rate(probe).is_some_and(|rate| rate < SLOW_BYTES_PER_SECOND);
        return slow.then(|| {
            "the cache is slow now: use another cache (PELICAN_CLIENT_PREFERREDCACHES), or run \
            `gular prestage` before a big run"
                .to_owned()
        });
    };
    let holds = matches!(probe.role, Role::Cache | Role::Origin);
    let text = match fault {
        ProbeFault::Name(_) => "check the host in the URL and this machine's name servers",
        ProbeFault::Connection(_) if probe.role == Role::Cache => {
            "the cache is down, or a firewall blocks it; the other caches still work. If this persists, tell the cache's operators"
        }
        ProbeFault::Connection(_) => {
            "the server is down, or a firewall blocks it: ask the server's operators; if this machine needs a proxy, set HTTPS_PROXY"
        }
        ProbeFault::Tls(_, cause) => cause.hint().unwrap_or("ask the server's operators"),
        ProbeFault::Denied { diagnosis, .. } => {
            return Some(hints::token(diagnosis, false, &asked.to_string()));
        }
        ProbeFault::Missing(_) if probe.role == Role::Director => {
            "check the path with `gular ls`; this server may not know an object yet that was published within the last minute"
        }
        ProbeFault::Missing(_) if probe.role == Role::Cache => {
            "the cache cannot get the object from its origin: see the line of the origin"
        }
        ProbeFault::Missing(_) => "check the path with `gular ls`",
        ProbeFault::Answer { status: 429 | 502..=504, .. } if holds => {
            "the server is overloaded, or waits for the origin: try again later"
        }
        ProbeFault::Answer { .. } => "send this line to the server's operators",
        ProbeFault::NoneNamed(_) if probe.role == Role::Director => {
            "check the namespace in the URL; if it is right, its origin is down. `gular fetch` and `gular verify` can still read from caches: add the bundle's digest to the URL; if this machine has never read from this namespace, also set PELICAN_CLIENT_PREFERREDCACHES to a cache"
        }
        ProbeFault::NoneNamed(_) => {
            "the origin is down: caches still serve what they hold, but nothing can be written or listed; tell the owner of the namespace"
        }
        _ => "try again; if this persists, send this line to the server's operators",
    };
    Some(text.to_owned())
}

fn as_json(checkup: &Checkup, url: &BundleUrl) -> Value {
    let seen = &checkup.examination;
    let ms = |time: Option<Duration>| time.map(|time| time.as_secs_f64() * 1e3);
    let server = |probe: &Probe| {
        json!({
            "role": role(probe.role),
            "server": probe.server,
            "ok": probe.fault.is_none(),
            "name_ms": ms(probe.name),
            "connection_ms": ms(probe.connection),
            "first_byte_ms": ms(probe.first_byte),
            "bytes": probe.read.map(|(bytes, _)| bytes),
            "bytes_per_second": rate(probe).map(|rate| rate as u64),
            "copy_age_seconds": probe.age.map(|age| age.as_secs()),
            "fault": probe.fault.as_ref().map(fault),
            "do": advice(probe, &checkup.asked),
        })
    };
    let token = seen.token.as_ref().map(|token| match token {
        Ok(token) if is_refused(token, checkup) => json!({
            "ok": false, "from": token.from, "fault": NO_JWT, "do": NO_JWT_ADVICE,
        }),
        Ok(token) => {
            let left = token
                .expires
                .map(|end| end.duration_since(SystemTime::now()).unwrap_or_default().as_secs());
            json!({ "ok": true, "from": token.from, "seconds_left": left })
        }
        Err(diagnosis) => json!({
            "ok": false,
            "fault": diagnosis.to_string(),
            "do": hints::token(diagnosis, false, &checkup.asked.to_string()),
        }),
    });
    json!({
        "url": url.to_string(),
        "asked": checkup.asked.to_string(),
        "well": checkup.is_well(),
        "readable": checkup.is_readable(),
        "digest": checkup.digest.map(|digest| digest.to_string()),
        "fault": another_bundle(checkup, url),
        "do": checkup.other.then_some(ANOTHER_ADVICE),
        "namespace": seen.namespace,
        "needs_token": seen.needs_token,
        "token": token,
        "servers": seen.probes.iter().map(server).collect::<Vec<_>>(),
    })
}
