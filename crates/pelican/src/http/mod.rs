//! HTTP/1.1 as Pelican's servers need it, on top of hyper's connection interface.
//!
//! ```text
//! Http ── pool of idle connections ── connect (direct or proxy, TLS)
//!   └─ send (GET HEAD PROPFIND, PUT without a body)     Response ── chunk, chunk, …
//!   └─ upload (PUT: the body waits for 100 Continue, a final answer, or 2 s)
//! ```
//!
//! Header names go out in title case: XRootD before 5.7 compares them letter by
//! letter and stores nothing from a `content-length` in lower case. A failed
//! write never hides the server's answer: [`meter`] continues to read.

mod body;
mod connect;
mod dial;
mod meter;
mod pool;
mod proxy;
mod response;
mod server;
mod tls;
mod upload;

pub(crate) use pool::{Http, Request, Role, Timeouts};
pub(crate) use response::{Fault, Response};
pub use server::Server;
pub(crate) use upload::Upload;
