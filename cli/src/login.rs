//! `gular login`.

use std::io::{ErrorKind, Read as _};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use clap::Args;
use gular_pelican::protocol::Claims;
use gular_pelican::{Env, Scheme, Token, Url, usual_token_file};
use serde_json::json;

use crate::exit::{Exit, Failure};
use crate::shared::Output;
use crate::stop::Stop;
use crate::{network, show, units};

/// Longest output that is read. No token is nearly as long.
const MAX_OUTPUT_BYTES: u64 = 64 << 10;

/// Get a token for a collection, with the `pelican` program
///
/// Runs `pelican credentials token get`, which asks you to approve the request in a browser, and
/// keeps the token where the other verbs look for it, in a file that only you may read:
/// $XDG_RUNTIME_DIR/bt_u<uid>, else /tmp/bt_u<uid>. An existing token is replaced. With --write the
/// token is for creating objects and cannot read them: keep it beside the other with --token-file
/// FILE, and name it with --token FILE.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  gular login pelican://osg-htc.org/mylab/birds/v1")]
pub(crate) struct LoginArgs {
    /// URL of what you want to read or write, such as a bundle (…/NAME/VERSION)
    pub(crate) url: String,
    /// A token for writing instead of reading
    #[arg(long)]
    pub(crate) write: bool,
    /// Write the token to this file instead of the default one
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
}

pub(crate) fn run(args: &LoginArgs, output: &Output) -> Result<Exit, Failure> {
    let stop = Stop::install()?;
    let url = network::url(args.url.split('#').next().unwrap_or_default())?;
    if url.scheme() != Scheme::Pelican {
        let hint = "give a URL such as pelican://HOST/NAME/VERSION or osdf:///NAME/VERSION";
        let message = format!("`{url}` is not in a federation, so there is no issuer to ask");
        return Err(Failure::new(message, Some(hint.to_owned())));
    }
    let printed = ask(&url, args.write, &stop)?;
    let Some(token) = last_token(&printed) else {
        let message = "`pelican credentials token get` succeeded, but printed no token";
        return Err(Failure::new(message, Some(by_hand(&url, args.write))));
    };
    let path = args.token_file.clone().unwrap_or_else(|| usual_token_file(&Env::process()));
    token.keep(&path)?;
    let claims = Claims::decode(&token);
    let left = claims.as_ref().and_then(|claims| claims.expires?.elapsed().err());
    let left = left.map(|error| error.duration());
    let scopes = claims.map(|claims| claims.scopes).unwrap_or_default();
    if output.json {
        let seconds = left.map(|left| left.as_secs());
        show::json(&json!({ "file": path, "scopes": scopes, "seconds": seconds }))?;
    } else if !output.quiet {
        let scopes = match scopes.as_slice() {
            [] => String::new(),
            scopes => format!(", {}", show::plain(&scopes.join(" "))),
        };
        let left = left.map_or(String::new(), |left| format!(", for {}", units::span(left)));
        show::text(&format!("token kept in `{}`{scopes}{left}\n", path.display()))?;
    }
    Ok(Exit::Done)
}

/// Runs the program, and returns what it prints on stdout. Its questions are on stderr and the
/// terminal.
fn ask(url: &Url, write: bool, stop: &Stop) -> Result<String, Failure> {
    let verb = if write { "write" } else { "read" };
    let mut command = Command::new("pelican");
    command.args(["credentials", "token", "get", verb]).arg(url.to_string());
    // Without this variable the program gets a token only if its stdout is a terminal, which ours
    // is not, since the token is written to it. The program's questions go to stderr.
    command.env("PELICAN_SKIP_TERMINAL_CHECK", "1");
    let started = command.stdout(Stdio::piped()).spawn();
    let mut child = started.map_err(|error| {
        let message = match error.kind() {
            ErrorKind::NotFound => "the program `pelican` was not found in PATH".to_owned(),
            _ => format!("cannot run `pelican`: {error}"),
        };
        Failure::new(message, Some(by_hand(url, write)))
    })?;
    let out = child.stdout.take();
    let reader = std::thread::spawn(move || {
        let mut printed = Vec::new();
        // If reading fails, the bytes before are used.
        let _ = out.map(|out| out.take(MAX_OUTPUT_BYTES).read_to_end(&mut printed));
        printed
    });
    let status = wait(&mut child, stop)?;
    if let Some(exit) = stop.exit() {
        let mut failure = Failure::new("stopped", None);
        failure.exit = exit;
        return Err(failure);
    }
    if !status {
        let message = "`pelican credentials token get` failed; its own message is above";
        return Err(Failure::new(message, Some(by_hand(url, write))));
    }
    let printed = reader.join().unwrap_or_default();
    Ok(String::from_utf8_lossy(&printed).into_owned())
}

/// Waits, and returns whether the program succeeded. A signal from the terminal reaches it, too.
fn wait(child: &mut Child, stop: &Stop) -> Result<bool, Failure> {
    loop {
        let ended = child
            .try_wait()
            .map_err(|error| Failure::new(format!("cannot wait for `pelican`: {error}"), None))?;
        if let Some(status) = ended {
            return Ok(status.success());
        }
        if stop.exit().is_some() {
            let _ = child.kill();
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The last line that could be a token: the program may print a greeting before it.
fn last_token(printed: &str) -> Option<Token> {
    let long = |token: &Token| token.secret().len() > 20;
    printed.lines().rev().find_map(|line| Token::parse(line).filter(long))
}

fn by_hand(url: &Url, write: bool) -> String {
    let verb = if write { "write" } else { "read" };
    format!(
        "run `pelican credentials token get {verb} {url}` by hand, here or on any machine that has \
        the program, and write the token that it prints to a file; then add `--token FILE` to the \
        command that needs the token"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_is_the_token() {
        let secret = "eyJhbGciOiJub25lIn0.eyJpc3MiOiJ4In0.c2ln";
        let token = last_token(&format!("A new release is there\n{secret}\n\n")).unwrap();
        assert_eq!(token.secret(), secret);
        assert!(last_token("").is_none());
        assert!(last_token("no token here\nok\n").is_none());
    }
}
