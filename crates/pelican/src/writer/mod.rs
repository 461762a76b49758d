//! Uploads objects; an existing object is compared and never overwritten.
//!
//! ```text
//! at the origin there is    we                         which counts as
//! nothing                   PUT, then compare          uploaded
//! the same bytes            do nothing                 identical
//! part of it, growing       wait: another publisher    identical
//! other bytes, still        take the next name (`~1`)  burned by a cut upload
//! what we may not read      PUT: it never overwrites   stored, not read back
//! ```

mod at_origin;
mod attempt;
mod file;
pub(crate) mod job;
mod put;

use std::sync::Arc;

pub(crate) use self::file::Local;
use crate::credentials::Credentials;
use crate::options::ClientOptions;
use crate::pace::Pace;
use crate::router::Router;

/// Writes objects to the origins that the router names.
pub(crate) struct Writer {
    pub(crate) router: Arc<Router>,
    pub(crate) credentials: Arc<Credentials>,
    pub(crate) pace: Arc<Pace>,
    pub(crate) options: Arc<ClientOptions>,
}
