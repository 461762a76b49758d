//! Writes the pages of the project as one folder of HTML; `cargo xtask docs` builds and runs this.
//!
//! ```text
//! OUT/index.html               README.md; a folder's README.md is its index.html
//! OUT/docs/*.html              each page where its Markdown is
//! OUT/runtime/src/x.rs.html    a file that a page links to, as text
//! OUT/site/                    style, search, what is searched
//! ```
//!
//! All links are relative, so the folder works from a disk, and from a web server below any path.
//! No other server is needed.

#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program, not a library")]

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};

mod frame;
mod html_paths;
mod links;
mod page;
mod search;
mod site;
mod slug;
mod tree;

use self::site::Site;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run() -> Result<()> {
    let mut args = std::env::args_os().skip(1);
    let mut next =
        |what| args.next().with_context(|| format!("usage: xtask-docs ROOT OUT: {what}"));
    let (root, out) = (next("no ROOT")?, next("no OUT")?);
    let (root, out) = (Path::new(&root), Path::new(&out));
    let faults = links::faults(root)?;
    if !faults.is_empty() {
        bail!("links without a target:\n{}", faults.join("\n"));
    }
    let site = Site::collect(root)?;
    let n_pages = site.write(out)?;
    println!("{n_pages} pages: {}", out.join("index.html").display());
    Ok(())
}
