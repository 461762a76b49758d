//! The origin: it stores objects and lists collections.

use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt as _, Limited};
use hyper::body::Incoming;
use hyper::http::request::Parts;
use hyper::{Method, Request, StatusCode};
use tempfile::NamedTempFile;
use tokio::io::AsyncWriteExt as _;
use tokio::time::timeout;

use super::access::{Admitted, Guard};
use super::collection::{self, Listing};
use super::counters::Counters;
use super::line::Line;
use super::multistatus::CHECKSUMS;
use super::name::Name;
use super::object::{self, blocking, fault_answer};
use super::reply::{Answer, done, refuse};
use super::serve::{Handler, drain};
use super::store::{Fault, Found, Store};
use gular_pelican::Action;

/// A PROPFIND that names all properties there are is shorter.
const MAX_PROPFIND_BYTES: usize = 64 << 10;

/// An upload that sends nothing for so long is over.
const STALL: Duration = Duration::from_secs(60);

/// A server for the objects in a [`Store`].
pub(super) struct Origin {
    pub(super) store: Store,
    pub(super) guard: Arc<Guard>,
    pub(super) counters: Arc<Counters>,
    pub(super) line: Arc<Line>,
    pub(super) listing: Listing,
}

/// Whether the body of a PROPFIND names dCache's property for checksums.
async fn asks_for_checksums(body: &mut Incoming) -> bool {
    let body = Limited::new(body, MAX_PROPFIND_BYTES).collect().await;
    let text = body.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    String::from_utf8_lossy(&text).contains(CHECKSUMS)
}

impl Handler for Origin {
    const SERVER: &'static str = concat!("gular-development-origin/", env!("CARGO_PKG_VERSION"));

    async fn handle(&self, request: Request<Incoming>) -> Answer {
        let (parts, mut body) = request.into_parts();
        let answer = self.dispatch(&parts, &mut body).await.unwrap_or_else(|refused| refused);
        self.counters.note(&parts, &answer);
        drain(&parts, &mut body).await;
        answer
    }
}

impl Origin {
    async fn dispatch(&self, parts: &Parts, body: &mut Incoming) -> Result<Answer, Answer> {
        let name = Name::parse(parts.uri.path())
            .ok_or_else(|| refuse(StatusCode::BAD_REQUEST, "the path is not an object's name"))?;
        let admitted = self.guard.admit(parts, &name)?;
        match parts.method.as_str() {
            "GET" | "HEAD" => self.read(parts, name, &admitted).await,
            "PUT" => self.write(parts, name, &admitted, body).await,
            "DELETE" => self.delete(name, &admitted).await,
            "PROPFIND" => {
                admitted.demand(&[Action::Read])?;
                let asked = self.listing.checksums && asks_for_checksums(body).await;
                let listing = Listing { checksums: asked, ..self.listing };
                collection::propfind(parts, self.store.clone(), name, listing).await
            }
            "MKCOL" => self.make_collection(name, &admitted).await,
            _ => Err(refuse(StatusCode::METHOD_NOT_ALLOWED, "the origin does not do this")
                .with("allow", "GET, HEAD, PUT, DELETE, PROPFIND, MKCOL")),
        }
    }

    async fn read(
        &self,
        parts: &Parts,
        name: Name,
        admitted: &Admitted<'_>,
    ) -> Result<Answer, Answer> {
        admitted.demand(&[Action::Read])?;
        let found = self.find(name.clone()).await.map_err(|fault| fault_answer(&fault))?;
        if found.is_collection() {
            return collection::page(parts, self.store.clone(), name).await;
        }
        if parts.method == Method::GET {
            self.counters.origin_reads.add();
        }
        object::answer(parts, found).await
    }

    /// Finds the object or collection `name`.
    pub(super) async fn find(&self, name: Name) -> Result<Found, Fault> {
        let store = self.store.clone();
        blocking(move || store.find(&name)).await
    }

    async fn write(
        &self,
        parts: &Parts,
        name: Name,
        admitted: &Admitted<'_>,
        body: &mut Incoming,
    ) -> Result<Answer, Answer> {
        admitted.demand(&[Action::Create, Action::Modify])?;
        if parts.headers.contains_key("content-range") {
            return Err(refuse(StatusCode::BAD_REQUEST, "an object must be written as a whole"));
        }
        if name.collection || name.depth(&self.guard.namespace) == 0 {
            return Err(fault_answer(&Fault::Kind));
        }
        let only_new = parts.headers.get("if-none-match").is_some_and(|value| value == "*");
        let exists = match self.find(name.clone()).await {
            Ok(found) if found.is_collection() => return Err(fault_answer(&Fault::Kind)),
            Ok(_) => true,
            Err(Fault::Absent) => false,
            Err(fault) => return Err(fault_answer(&fault)),
        };
        if exists {
            may_overwrite(admitted, only_new)?;
        }
        let file = self.receive(body).await?;
        let overwrite = admitted.demand(&[Action::Modify]).is_ok() && !only_new;
        let store = self.store.clone();
        let placed = blocking(move || store.place(&file, &name, overwrite)).await;
        match placed {
            Ok(()) if exists => Ok(done(StatusCode::OK)),
            Ok(()) => Ok(done(StatusCode::CREATED)),
            // Another upload was faster.
            Err(Fault::Exists) => {
                may_overwrite(admitted, only_new)?;
                Err(fault_answer(&Fault::Exists))
            }
            Err(fault) => Err(fault_answer(&fault)),
        }
    }

    /// The body in a file that goes when dropped: a cut upload leaves nothing.
    async fn receive(&self, body: &mut Incoming) -> Result<NamedTempFile, Answer> {
        let failed = |e: std::io::Error| fault_answer(&Fault::Io(e));
        let store = self.store.clone();
        let file = blocking(move || Ok(store.begin()?)).await.map_err(|e| fault_answer(&e))?;
        let mut out = tokio::fs::File::from_std(file.as_file().try_clone().map_err(failed)?);
        loop {
            let frame = timeout(STALL, body.frame()).await.map_err(|_| {
                refuse(StatusCode::REQUEST_TIMEOUT, "the upload stalled")
                    .with("connection", "close")
            })?;
            match frame {
                None => break,
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.line.pass(data.len() as u64).await;
                        out.write_all(&data).await.map_err(failed)?;
                    }
                }
                Some(Err(_)) => return Err(refuse(StatusCode::BAD_REQUEST, "the upload was cut")),
            }
        }
        out.flush().await.map_err(failed)?;
        Ok(file)
    }

    async fn delete(&self, name: Name, admitted: &Admitted<'_>) -> Result<Answer, Answer> {
        admitted.demand(&[Action::Modify])?;
        if name.depth(&self.guard.namespace) == 0 {
            return Err(refuse(StatusCode::FORBIDDEN, "the namespace itself cannot be deleted"));
        }
        let store = self.store.clone();
        let removed = blocking(move || store.remove(&name)).await;
        removed.map(|()| done(StatusCode::NO_CONTENT)).map_err(|fault| fault_answer(&fault))
    }

    async fn make_collection(&self, name: Name, admitted: &Admitted<'_>) -> Result<Answer, Answer> {
        admitted.demand(&[Action::Create, Action::Modify])?;
        let store = self.store.clone();
        match blocking(move || store.make_collection(&name)).await {
            Ok(()) => Ok(done(StatusCode::CREATED)),
            // The status is that of RFC 4918, section 9.3.1.
            Err(Fault::Exists) => Err(refuse(
                StatusCode::METHOD_NOT_ALLOWED,
                "an object or collection of that name exists",
            )),
            Err(fault) => Err(fault_answer(&fault)),
        }
    }
}

/// Whether an existing object may be overwritten.
fn may_overwrite(admitted: &Admitted<'_>, only_new: bool) -> Result<(), Answer> {
    if only_new {
        return Err(refuse(StatusCode::PRECONDITION_FAILED, "the object exists"));
    }
    admitted.demand(&[Action::Modify]).map_err(|_| {
        refuse(
            StatusCode::FORBIDDEN,
            "the object exists, and the token has no scope `storage.modify` for this path",
        )
    })
}
