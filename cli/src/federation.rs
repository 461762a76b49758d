//! `gular federation`.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;

use clap::{Args, Subcommand};
use gular_federation::{Counts, Federation, Options, TokenRequest, mint};

use crate::exit::{Exit, Failure};
use crate::shared::Output;
use crate::show::AsIs;
use crate::stop::Stop;
use crate::{hints, show, units};

/// Run a federation on this machine, for development and tutorials
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  gular federation serve federation/")]
pub(crate) struct FederationArgs {
    #[command(subcommand)]
    pub(crate) verb: FederationVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum FederationVerb {
    Serve(ServeArgs),
    Token(TokenArgs),
}

/// Run a federation's servers in one process: discovery, director, origin and cache
///
/// For development only: it listens only on 127.0.0.1. When it is ready it prints its URL on
/// stdout, and on stderr what to paste into another shell. Objects are files below DIR/origin. With
/// --latency and --limit-rate it is as slow as a distant one. When it is stopped, it prints how
/// many requests it answered; while it runs, https://localhost:PORT/.well-known/gular-counts has
/// these numbers.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  gular federation serve federation/")]
pub(crate) struct ServeArgs {
    /// Folder for keys, objects and copies; created if missing
    ///
    /// The servers' keys, the origin's objects and the cache's copies.
    pub(crate) dir: PathBuf,
    /// The port of discovery and director; 0 for any
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) port: u16,
    /// The prefix of all object names
    #[arg(long, value_name = "PATH", default_value = "/gular")]
    pub(crate) namespace: String,
    /// Allow reading without a token; writing always needs one
    #[arg(long)]
    pub(crate) public_read: bool,
    /// Delay each answer by this time, such as `20ms`
    ///
    /// This imitates a distant federation. A request for an object that is not in the cache waits
    /// twice, since the cache asks the origin.
    #[arg(long, value_name = "TIME", value_parser = units::delay)]
    pub(crate) latency: Option<Duration>,
    /// The most bytes per second, such as `100MB/s`
    ///
    /// Counts what clients send and receive, over all connections; what the cache fetches from the
    /// origin is not limited. [default: no limit]
    #[arg(long, value_name = "RATE", value_parser = units::rate)]
    pub(crate) limit_rate: Option<u64>,
    /// Start with an empty cache: delete what earlier runs left in it
    #[arg(long)]
    pub(crate) cold: bool,
    /// List names as they are stored, as XRootD does, instead of percent-encoded
    #[arg(long)]
    pub(crate) raw_names: bool,
}

/// Print a token for a federation that `gular federation serve` runs
///
/// A PATH is relative to the namespace: `/` is all of it. At least one of --read, --create and
/// --modify is needed, and each may be repeated.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  gular federation token federation/ --read / --create /photos")]
pub(crate) struct TokenArgs {
    /// The folder that is served
    pub(crate) dir: PathBuf,
    /// Allow reading and listing below PATH
    #[arg(long, value_name = "PATH")]
    pub(crate) read: Vec<String>,
    /// Allow writing new objects below PATH
    #[arg(long, value_name = "PATH")]
    pub(crate) create: Vec<String>,
    /// Allow writing, overwriting and deleting below PATH
    #[arg(long, value_name = "PATH")]
    pub(crate) modify: Vec<String>,
    /// How long it is valid, in s, m or h; at most 1h
    #[arg(long, value_name = "TIME", default_value = "30m", value_parser = units::lifetime)]
    pub(crate) lifetime: Duration,
}

pub(crate) fn run(args: &FederationArgs, output: &Output) -> Result<Exit, Failure> {
    match &args.verb {
        FederationVerb::Serve(args) => serve(args, output),
        FederationVerb::Token(args) => token(args, output),
    }
}

/// What is said on stdout, as JSON.
#[derive(serde::Serialize)]
struct Served<'a> {
    /// The beginning of every URL in the federation.
    url: &'a str,
    /// The certificate that clients must trust.
    ca: &'a Path,
    /// The origin's address.
    origin: String,
    /// The cache's address, where there is a cache.
    cache: Option<String>,
    /// The id of the process.
    pid: u32,
}

fn serve(args: &ServeArgs, output: &Output) -> Result<Exit, Failure> {
    let stop = Stop::install()?;
    let options = Options {
        port: args.port,
        namespace: args.namespace.clone(),
        public_read: args.public_read,
        latency: args.latency.unwrap_or_default(),
        max_bytes_per_second: args.limit_rate,
        cold: args.cold,
        raw_names: args.raw_names,
        ..Options::new(&args.dir)
    };
    let federation = Federation::start(&options)?;
    let url = federation.url();
    if !output.quiet {
        show::paragraph("note", &banner(args, &federation));
    }
    if output.json {
        show::json_line(&Served {
            url: &url,
            ca: federation.ca_file(),
            origin: federation.origin_url(),
            cache: federation.cache_url(),
            pid: std::process::id(),
        })?;
    } else {
        show::text(&format!("{url}\n"))?;
    }
    while !stop.flag.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(100));
    }
    let counts = federation.counts();
    drop(federation);
    if output.json {
        show::json_line(&counts)?;
    } else if !output.quiet {
        show::message("note", &told(&counts));
    }
    // A federation runs until it is stopped, so that is success.
    Ok(Exit::Done)
}

fn told(counts: &Counts) -> String {
    let Counts { director_queries, cache_hits, cache_misses, requests, bytes_sent, .. } = counts;
    format!(
        "clients made {requests} requests to cache and origin and {director_queries} to the \
         director, and were sent {}; the cache had a copy for {cache_hits} reads and fetched \
         {cache_misses} objects",
        show::size(*bytes_sent)
    )
}

fn banner(args: &ServeArgs, federation: &Federation) -> String {
    let quoted = |path: &Path| show::plain(&show::quoted(&path.display().to_string()));
    let ca = quoted(federation.ca_file());
    let dir = federation.ca_file().parent().map(quoted).unwrap_or_default();
    let url = show::plain(&federation.url());
    let mut text = String::from(
        "a federation for development only: it listens only on 127.0.0.1,\n\
         its tokens are valid for an hour at most, and its data is not backed up.\n",
    );
    let _ = writeln!(text, "Keys, objects and copies are in {dir}. In another shell:");
    let read = if args.public_read { "" } else { " --read /" };
    let _ = write!(
        text,
        "\n  export SSL_CERT_FILE={ca}\
         \n  export BEARER_TOKEN=\"$(gular federation token {dir}{read} --create /)\"\
         \n  gular publish bundle/ {url}/name/1\n"
    );
    text
}

/// What `token --json` shows; without `Debug`, which would show it elsewhere.
#[derive(serde::Serialize)]
struct Minted<'a> {
    /// The token.
    access_token: &'a str,
}

fn token(args: &TokenArgs, output: &Output) -> Result<Exit, Failure> {
    let request = TokenRequest {
        read: args.read.clone(),
        create: args.create.clone(),
        modify: args.modify.clone(),
        lifetime: args.lifetime,
    };
    let token = mint(&args.dir, &request)?;
    let text = if output.json {
        let minted = serde_json::to_string_pretty(&Minted { access_token: token.secret() });
        minted.map_err(|e| Failure::new(format!("cannot write JSON: {e}"), None))?
    } else {
        token.secret().to_owned()
    };
    show::as_is(AsIs::MadeToken, format!("{text}\n").as_bytes())?;
    Ok(Exit::Done)
}

impl From<gular_federation::Error> for Failure {
    fn from(error: gular_federation::Error) -> Self {
        Self::new(&error, hints::federation(&error))
    }
}
