//! Which token to send, when an expired one is renewed, and why a server may have refused one.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use tokio::time::sleep;

use crate::director::{Namespace, parse_answer};
use crate::http::{Response, Server};
use crate::options::ClientOptions;
use crate::route::said;
use crate::token::{Action, Finder, Found, Pick, Want};
use crate::{Diagnosis, Error, Token, Url};

/// A 401 or 403, with the server's words after `: `.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) status: u16,
    pub(crate) said: String,
}

impl From<u16> for Refusal {
    /// A refusal whose words are of no use.
    fn from(status: u16) -> Self {
        Self { status, said: String::new() }
    }
}

/// How often a file is read again that should get a new token.
const TOKEN_POLL: Duration = Duration::from_secs(2);

/// The tokens of a client.
pub(crate) struct Credentials {
    finder: Finder,
    /// A token that ended before was of no use from the start.
    begun: SystemTime,
    /// The tokens for which the user was told that the client waits for a new one.
    waited: Mutex<HashSet<(String, SystemTime)>>,
    options: Arc<ClientOptions>,
}

impl Credentials {
    /// The tokens that the options name, and those that may be searched for.
    pub(crate) fn new(options: &Arc<ClientOptions>) -> Self {
        let uid = rustix::process::getuid().as_raw();
        let finder = Finder::new(options.token_files.clone(), &options.env, uid);
        Self {
            finder: if options.find_tokens { finder } else { finder.explicit_only() },
            begun: SystemTime::now(),
            waited: Mutex::default(),
            options: Arc::clone(options),
        }
    }

    /// Returns the token to send for `action` on `url`. It is read again each time, since jobs
    /// outlast tokens. Without a namespace it is the one that the user named, or none.
    pub(crate) fn token(
        &self,
        url: &Url,
        action: Action,
        namespace: Option<&Namespace>,
    ) -> Result<Option<Token>, Error> {
        Ok(self.pick(url, action, namespace)?.send.map(|found| found.token))
    }

    pub(crate) fn pick(
        &self,
        url: &Url,
        action: Action,
        namespace: Option<&Namespace>,
    ) -> Result<Pick, Error> {
        let want = Want { token_name: url.token_name(), action, path: url.path(), namespace };
        Ok(self.finder.find(&want, SystemTime::now())?)
    }

    /// The token to send with a read: none to a namespace that wants none.
    pub(crate) async fn read_token(
        &self,
        url: &Url,
        namespace: Option<&Namespace>,
    ) -> Result<Option<Token>, Error> {
        if namespace.is_some_and(|namespace| !namespace.require_token) {
            return Ok(None);
        }
        self.live_token(url, Action::Read, namespace).await
    }

    /// Returns the token for `action`. If the only one has expired while this client was at work,
    /// and is from a file, this waits for a new one until patience ends, since batch systems and
    /// agents renew such files.
    pub(crate) async fn live_token(
        &self,
        url: &Url,
        action: Action,
        namespace: Option<&Namespace>,
    ) -> Result<Option<Token>, Error> {
        let begun = Instant::now();
        loop {
            let pick = self.pick(url, action, namespace)?;
            let Some(found) = pick.send else { return Ok(None) };
            if !self.ended_meanwhile(&found) || begun.elapsed() > self.options.patience {
                return Ok(Some(found.token));
            }
            self.say_that_we_wait(&found);
            sleep(TOKEN_POLL.min(self.options.patience / 4)).await;
        }
    }

    /// Whether a token from a file was valid when the work began, and has expired since.
    fn ended_meanwhile(&self, found: &Found) -> bool {
        found.in_file
            && matches!(found.doubt, Some(Diagnosis::Expired { .. }))
            && found.expires.is_some_and(|expires| expires > self.begun)
    }

    fn say_that_we_wait(&self, found: &Found) {
        let Some(expires) = found.expires else { return };
        let mut waited = self.waited.lock().unwrap_or_else(PoisonError::into_inner);
        if waited.insert((found.from.clone(), expires)) {
            let seconds = self.options.patience.as_secs();
            let from = &found.from;
            self.options.tell.say(&format!(
                "the token from {from} has ended; waiting up to {seconds} s for a new one there"
            ));
        }
    }

    /// Returns where the token for writing is from, and how long it is valid, if it says so.
    pub(crate) fn time_left(
        &self,
        url: &Url,
        namespace: Option<&Namespace>,
    ) -> Result<Option<(String, Duration)>, Error> {
        let Some(found) = self.pick(url, Action::Create, namespace)?.send else { return Ok(None) };
        let Some(expires) = found.expires else { return Ok(None) };
        let left = expires.duration_since(SystemTime::now()).unwrap_or_default();
        Ok(Some((found.from, left)))
    }

    /// Why the token for `action` may be refused, or that there is none.
    pub(crate) fn diagnosis(
        &self,
        url: &Url,
        action: Action,
        namespace: Option<&Namespace>,
    ) -> Result<Diagnosis, Error> {
        let pick = self.pick(url, action, namespace)?;
        let want = Want { token_name: url.token_name(), action, path: url.path(), namespace };
        Ok(self.finder.diagnose(&pick, &want, SystemTime::now()))
    }

    /// Returns the error for a 401 or 403.
    pub(crate) async fn denied(
        &self,
        what: Action,
        url: &Url,
        namespace: Option<&Namespace>,
        server: &Server,
        response: Response,
    ) -> Error {
        let status = response.status;
        // If no director described the namespace, the server itself may do so.
        let told = parse_answer(&response.headers).namespace;
        let refusal = Refusal { status, said: said(response).await };
        self.denied_as(what, url, namespace.or(told.as_ref()), server, refusal)
    }

    /// The error for a 401 or 403 whose words are known.
    pub(crate) fn denied_as(
        &self,
        what: Action,
        url: &Url,
        namespace: Option<&Namespace>,
        server: &Server,
        refusal: Refusal,
    ) -> Error {
        let is_public = namespace.is_some_and(|namespace| !namespace.require_token);
        let diagnosis = match self.diagnosis(url, what, namespace) {
            // No token was sent, so no token is the reason.
            Ok(_) if what == Action::Read && is_public => Diagnosis::Public,
            Ok(diagnosis) => diagnosis,
            Err(error) => return error,
        };
        let Refusal { status, said } = refusal;
        let action = match what {
            Action::Read => "read",
            Action::Create | Action::Modify => "write",
        };
        let (url, server) = (url.to_string(), server.to_string());
        Error::Denied { action, url, server, status, said, diagnosis: Box::new(diagnosis) }
    }
}
