//! `gular fetch oci://…`.

use gular_containers::fetch::Transport as _;
use gular_transfer::{FetchOptions, fetch_from};

use super::name::Name;
use super::source::OfRegistry;
use crate::exit::{Exit, Failure};
use crate::fetch::{FetchArgs, text};
use crate::image::transport::Web;
use crate::network::ended;
use crate::progress::watched;
use crate::shared::Output;
use crate::show;
use crate::stop::Stop;

pub(crate) fn run(args: &FetchArgs, output: &Output) -> Result<Exit, Failure> {
    let name = Name::parse(&args.url)?;
    check(args)?;
    let stop = Stop::install()?;
    let web = Web::limited(&stop, args.network.access.limit_rate)?;
    let fetched = watched("fetch", output, &stop, |watch, _| {
        let registry = web.registry(&name.reference)?;
        let source = OfRegistry::open(&registry, &name)?;
        let options = FetchOptions {
            splits: args.splits.clone(),
            jobs: args.network.jobs.get(),
            dry_run: args.dry_run,
            ..FetchOptions::default()
        };
        Ok(fetch_from(&source, &args.dir, &options, watch)?)
    });
    let report = fetched.map_err(|failure: Failure| ended(failure, &stop))?;
    if output.json {
        show::json(&report)?;
    } else if !output.quiet {
        let had_digest = name.digest.is_some() || name.reference.digest().is_some();
        show::text(&text(&report, had_digest, false, &format!("oci://{}", name.reference)))?;
    }
    Ok(Exit::Done)
}

/// Refuses flags that are for federations alone.
fn check(args: &FetchArgs) -> Result<(), Failure> {
    let given = [
        (args.recursive, "--recursive"),
        (!args.keys.is_empty(), "--keys"),
        (args.filter.is_some(), "--where"),
        (args.direct, "--direct"),
        (!args.network.access.token.is_empty(), "--token"),
    ];
    super::name::refuse(&given)
}
