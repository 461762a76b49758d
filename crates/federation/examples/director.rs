//! Runs the discovery and director of the embedded federation in front of servers that have none,
//! and redirects clients to these. The peer tests put it in front of XRootD.
//!
//! `director DIR NAMESPACE ORIGIN [--cache URL]... [--issuer URL]` keeps its files in DIR and
//! prints one line of JSON, `{"url": …, "ca": …}`. The program ends when its standard input does.
//! With an issuer, clients are told to bring tokens of that issuer.

use std::env;
use std::error::Error;
use std::io::{self, Write as _};

use gular_federation::{Caches, Federation, Options, Origin};
use serde_json::json;

const USAGE: &str = "usage: director DIR NAMESPACE ORIGIN [--cache URL]... [--issuer URL]";

fn main() -> Result<(), Box<dyn Error>> {
    let mut words = env::args().skip(1);
    let mut next = || words.next().ok_or(USAGE);
    let (dir, namespace, origin) = (next()?, next()?, next()?);
    let (mut caches, mut issuer) = (Vec::new(), None);
    while let Some(flag) = words.next() {
        let value = words.next().ok_or(USAGE)?;
        match flag.as_str() {
            "--cache" => caches.push(value),
            "--issuer" => issuer = Some(value),
            _ => return Err(USAGE.into()),
        }
    }
    let federation = Federation::start(&Options {
        namespace,
        origin: Origin::External(origin),
        caches: if caches.is_empty() { Caches::None } else { Caches::External(caches) },
        require_token: issuer.is_some(),
        issuer,
        ..Options::new(dir)
    })?;
    let mut out = io::stdout();
    writeln!(out, "{}", json!({ "url": federation.url(), "ca": federation.ca_file() }))?;
    out.flush()?;
    io::copy(&mut io::stdin(), &mut io::sink())?;
    Ok(())
}
