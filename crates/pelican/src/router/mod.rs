//! The router: which servers to ask for an object.
//!
//! | file | adds |
//! |---|---|
//! | `discovery` | who the director of a federation is |
//! | `ask` | which servers the director names |
//! | `detour` | those to read from while the director does not answer |
//! | `registry` | whether a namespace exists at all |
//! | `redirect` | requests that other servers send on |

mod ask;
mod detour;
mod discovery;
pub(crate) mod last_good;
pub(crate) mod preferred;
pub(crate) mod redirect;
mod registry;
pub(crate) mod routes;

use std::sync::Arc;

use self::last_good::LastGood;
use self::routes::Routes;
use crate::credentials::Credentials;
use crate::http::Http;
use crate::options::ClientOptions;

/// Finds the servers of an object, and sends requests to them.
pub(crate) struct Router {
    pub(crate) http: Http,
    pub(crate) routes: Routes,
    pub(crate) last_good: LastGood,
    pub(crate) credentials: Arc<Credentials>,
    pub(crate) options: Arc<ClientOptions>,
}
