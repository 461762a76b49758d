//! `gular view`.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::{io, thread};

use clap::Args;
use gular_bundle::{Bundle, MANIFEST_NAME, OpenOptions};
use gular_files::Env;
use gular_transfer::{BundleOptions, Opened, open_bundle};
use gular_view::{Run, Server, Site};
use serde::Serialize;

use crate::exit::{Exit, Failure};
use crate::network::Access;
use crate::progress::watched;
use crate::shared::Output;
use crate::stop::Stop;
use crate::{inspect, network, show};

/// Look at a bundle in the browser, and at what a loader makes of it
///
/// Serves a page on this machine alone until Ctrl-C: samples by split, class, key and condition;
/// pictures with masks, boxes and bands; images that occur twice or look alike; and batches as the
/// loader delivers them, for settings that are chosen on the page. The address has a secret in it,
/// and nothing that the page asks for changes anything. Indexes and samples are read when they are
/// shown. Of a published bundle, the indexes are fetched first, and then single samples, each
/// checked; what training sees is shown from whole shards.
#[derive(Debug, Args)]
#[command(
    next_help_heading = "Page",
    after_help = "\
Exit codes: 0 stopped with Ctrl-C, 2 error, 75 try again later

Example:
  gular view bundle/
  gular view bundle/ run1/ run2/ answers.csv"
)]
pub(crate) struct ViewArgs {
    /// A bundle's folder, or the URL of a published bundle
    ///
    /// Without the bundle of a training run, give the run in its place: its curves and its confusion
    /// matrix are shown, without pictures.
    #[arg(help_heading = None, value_name = "BUNDLE")]
    bundle: String,
    /// Training runs to show: folders with `metrics.jsonl`, tables of predictions
    ///
    /// Files of metrics end in `.jsonl`, tables of predictions in `.csv` or `.parquet`. Shows the
    /// curves; of predictions, with columns `key`, `label` and `prediction`, also the confusion
    /// matrix, and the pictures of what was predicted wrongly. `gular-train predict` writes such
    /// tables, and any other program can.
    #[arg(help_heading = None, value_name = "RUN")]
    runs: Vec<PathBuf>,
    /// The port of the page [default: any free one]
    #[arg(long, value_name = "N")]
    port: Option<u16>,
    /// Only print the address, and open no browser
    #[arg(long)]
    no_open: bool,
    /// End at the end of standard input
    ///
    /// For programs that start this one, and may be killed.
    #[arg(long, hide_short_help = true)]
    until_stdin_ends: bool,
    #[command(flatten)]
    access: Access,
}

/// Where a page is served.
#[derive(Debug, Serialize)]
struct PageAddress {
    /// The page's address, which contains a secret.
    url: String,
    /// The port at 127.0.0.1.
    port: u16,
    /// The command that makes the page reachable on another machine.
    ssh: String,
}

pub(crate) fn run(args: &ViewArgs, output: &Output) -> Result<Exit, Failure> {
    let stop = Stop::install()?;
    if args.until_stdin_ends {
        stop_with_stdin(&stop)?;
    }
    let env = Env::process();
    let mut runs = Vec::new();
    for run in &args.runs {
        runs.push(Run::new(run)?);
    }
    let temp_dir = env.get("TMPDIR").unwrap_or("/tmp");
    let site = match run_alone(&args.bundle) {
        Some(run) => {
            runs.insert(0, run);
            let all =
                [Path::new(&args.bundle)].into_iter().chain(args.runs.iter().map(PathBuf::as_path));
            let all: Vec<String> =
                all.map(|run| show::quoted(&run.display().to_string())).collect();
            Site::of_runs(runs, &all.join(" "), temp_dir.into())
        }
        None => {
            let bundle = open(args, &env, output, &stop)?;
            Site::new(Arc::new(bundle), &args.bundle, temp_dir.into()).with_runs(runs)
        }
    };
    serve(site, args.port, args.no_open, output, &stop)
}

/// The training run that was given in place of a bundle.
fn run_alone(given: &str) -> Option<Run> {
    let path = Path::new(given);
    let is_bundle = given.contains("://") || path.join(MANIFEST_NAME).exists();
    Run::new(path).ok().filter(|_| !is_bundle)
}

/// Stops the program at the end of standard input.
fn stop_with_stdin(stop: &Stop) -> Result<(), Failure> {
    let flag = Arc::clone(&stop.flag);
    let wait = move || {
        // An error ends it, too: nobody could end it otherwise.
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        flag.store(true, Ordering::Relaxed);
    };
    let thread = thread::Builder::new().name("stdin".into()).spawn(wait);
    thread.map(drop).map_err(|e| Failure::new(format!("cannot start a thread: {e}"), None))
}

/// Serves a page until the program is to stop.
pub(crate) fn serve(
    site: Site,
    port: Option<u16>,
    no_open: bool,
    output: &Output,
    stop: &Stop,
) -> Result<Exit, Failure> {
    let server = Server::bind(port, site)?;
    let port = server.port();
    let machine = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let page = PageAddress {
        url: server.url(),
        port,
        ssh: format!("ssh -N -L {port}:127.0.0.1:{port} {machine}"),
    };
    match output.json {
        true => show::json_line(&page)?,
        false => show::lines(&format!("{}\n", page.url))?,
    }
    if !output.quiet {
        let command = &page.ssh;
        let text = format!("to see it on another machine, run `{command}` there; Ctrl-C ends it");
        show::message("note", &text);
    }
    if !no_open && !output.json {
        browse(&Env::process(), &page.url);
    }
    server.run(&stop.flag)?;
    Ok(Exit::Done)
}

fn open(args: &ViewArgs, env: &Env, output: &Output, stop: &Stop) -> Result<Bundle, Failure> {
    if !args.bundle.contains("://") {
        return inspect::open(Path::new(&args.bundle));
    }
    let options = BundleOptions {
        open: OpenOptions::default(),
        streamed: true,
        access: args.access.of_transfer(),
        ..BundleOptions::default()
    };
    let opened = watched("indexes", output, stop, |watch, _| {
        open_bundle(&args.bundle, &options, env, watch)
    });
    let Opened { bundle, .. } = opened.map_err(|e| network::ended(e, stop))?;
    Ok(bundle)
}

/// Opens the page in the user's browser, where there is a screen.
fn browse(env: &Env, url: &str) {
    let has_screen = ["DISPLAY", "WAYLAND_DISPLAY"].into_iter().any(|name| env.get(name).is_some());
    if !has_screen {
        return;
    }
    let mut browser = Command::new("xdg-open");
    let browser = browser.arg(url).stdin(Stdio::null()).stdout(Stdio::null());
    // The address was printed: without a browser, people open it themselves.
    let _ = browser.stderr(Stdio::null()).spawn();
}
