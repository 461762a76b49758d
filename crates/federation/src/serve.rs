//! Connections: runs a handler behind TLS and HTTP/1.1.

use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::header::{EXPECT, HeaderValue, SERVER};
use hyper::http::request::Parts;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;

use super::line::{Line, Paced};
use super::reply::Answer;

/// Connections that one listener serves at a time; more wait.
const MAX_CONNECTIONS: usize = 256;
const TLS_TIMEOUT: Duration = Duration::from_secs(10);
/// Time limit for the head of a request, and so for an idle connection.
const HEAD_TIMEOUT: Duration = Duration::from_secs(60);
const MAX_HEAD_BYTES: usize = 64 << 10;
/// Bytes that are read of a refused body, so that the client gets the reason.
const DRAIN_BYTES: usize = 16 << 20;
const DRAIN_TIME: Duration = Duration::from_secs(5);

/// Answers a server's requests.
pub(super) trait Handler: Send + Sync + 'static {
    /// The `Server` header.
    const SERVER: &'static str;

    fn handle(&self, request: Request<Incoming>) -> impl Future<Output = Answer> + Send;
}

/// Serves until it is dropped.
pub(super) async fn serve<H: Handler>(
    listener: TcpListener,
    tls: TlsAcceptor,
    line: Arc<Line>,
    handler: Arc<H>,
) {
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    // The connections end when this is dropped.
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let (tls, line, handler) = (tls.clone(), Arc::clone(&line), Arc::clone(&handler));
                connections.spawn(async move {
                    connection(stream, tls, line, handler).await;
                    drop(place);
                });
            }
            // A possible reason is too many open files, some of which will be closed.
            Err(_) => sleep(Duration::from_millis(50)).await,
        }
    }
}

/// Serves one connection to its end. The client notices how it ends.
async fn connection<H: Handler>(
    stream: TcpStream,
    tls: TlsAcceptor,
    line: Arc<Line>,
    handler: Arc<H>,
) {
    let _ = stream.set_nodelay(true);
    let Ok(Ok(stream)) = timeout(TLS_TIMEOUT, tls.accept(stream)).await else { return };
    let service = service_fn(|request| {
        let (line, handler) = (Arc::clone(&line), Arc::clone(&handler));
        async move { Ok::<Response<Paced>, Infallible>(answer(&*handler, line, request).await) }
    });
    let _ = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(MAX_HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

async fn answer<H: Handler>(
    handler: &H,
    line: Arc<Line>,
    request: Request<Incoming>,
) -> Response<Paced> {
    line.travel().await;
    let mut response = handler.handle(request).await.response();
    response.headers_mut().insert(SERVER, HeaderValue::from_static(H::SERVER));
    response.map(|body| Paced::new(body, line))
}

/// Reads what is left of a request's body. A socket closed on unread bytes is reset, which can take
/// the answer away from a client that is still sending. A client that waits for `100 Continue`
/// sends nothing, so its body is not asked for.
pub(super) async fn drain(parts: &Parts, body: &mut Incoming) {
    if parts.headers.contains_key(EXPECT) {
        return;
    }
    let read = async {
        let mut n = 0;
        while let Some(Ok(frame)) = body.frame().await {
            n += frame.data_ref().map_or(0, bytes::Bytes::len);
            if n > DRAIN_BYTES {
                return;
            }
        }
    };
    let _ = timeout(DRAIN_TIME, read).await;
}
