//! PUT with a body that is sent only when the server asks for it.

use std::time::Duration;

use bytes::Bytes;
use hyper::header::{CONTENT_LENGTH, EXPECT};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, interval, sleep};

use super::body::{Outgoing, SourceError};
use super::pool::{Conn, Http, Request};
use super::response::{Fault, Response};

/// A body that any server stores within seconds.
const SOON_STORED: u64 = 8 << 20;

/// The body of an upload: exactly `len` bytes from `source`, which fails rather than ends early.
pub(crate) struct Upload {
    pub(crate) len: u64,
    /// Wait for `100 Continue`; without, the body goes at once.
    pub(crate) expect: bool,
    /// How long the server may take to answer once it has the whole of a long body, if that is
    /// longer than other silences.
    pub(crate) storing: Duration,
    pub(crate) source: mpsc::Receiver<Result<Bytes, SourceError>>,
}

impl Http {
    /// Sends `request` with a body. The second value says whether a byte of the
    /// body may have reached the server, in which case its name may be burned.
    ///
    /// A server that refuses gets no body. After an answer the connection is only
    /// kept when the body went whole: XRootD says Keep-Alive even when it did not.
    pub(crate) async fn upload(
        &self,
        request: &Request,
        upload: Upload,
    ) -> (Result<Response, Fault>, bool) {
        let conn = match self.conn(request, true).await {
            Ok(conn) => conn,
            Err(fault) => return (Err(fault), false),
        };
        self.upload_on(conn, request, upload).await
    }

    /// How long a silence may last. A server that has not answered yet gets less time, in case it
    /// forgot the request ([`Http::send`]), but storing a long body may take longer.
    fn patience(&self, upload: (u64, Duration), moved: u64, heard: bool) -> Duration {
        let (len, storing) = upload;
        if len > SOON_STORED && moved >= len {
            return self.timeouts.stall.max(storing);
        }
        let soon = (self.timeouts.stall / 4).max(self.timeouts.expect * 2);
        if heard { self.timeouts.stall } else { soon }
    }

    async fn upload_on(
        &self,
        mut conn: Conn,
        request: &Request,
        upload: Upload,
    ) -> (Result<Response, Fault>, bool) {
        let (len, storing) = (upload.len, upload.storing);
        let (open, gate) = oneshot::channel();
        let body = Outgoing::Gated { gate: Some(gate), source: upload.source, left: len };
        let mut message = match self.message(request, &conn, None, body) {
            Ok(message) => message,
            Err(fault) => return (Err(fault), false),
        };
        let headers = message.headers_mut();
        headers.insert(CONTENT_LENGTH, len.into());
        let expects = upload.expect && len > 0;
        if expects {
            headers.insert(EXPECT, hyper::header::HeaderValue::from_static("100-continue"));
        }
        let (told, mut tells) = mpsc::unbounded_channel();
        hyper::ext::on_informational(&mut message, move |interim| {
            // The receiver exists as long as the request.
            let _ = told.send(interim.status().as_u16());
        });

        let mut gate = Some(open);
        if !expects {
            let _ = gate.take().map(|g| g.send(()));
        }
        let meter = std::sync::Arc::clone(&conn.meter);
        let answer = conn.sender.send_request(message);
        tokio::pin!(answer);
        let patience = sleep(self.timeouts.expect);
        tokio::pin!(patience);
        let mut watch = interval(Duration::from_millis(100));
        let (mut moved, mut last) = (meter.moved(), Instant::now());
        let (begin, mut heard) = (moved, false);
        let mut opened = !expects && len > 0;
        let result = loop {
            tokio::select! {
                // The answer first: a refusal that is there must win over the gate.
                biased;
                answer = &mut answer => break answer.map_err(|e| Fault::lost(&e, &meter)),
                told = tells.recv(), if gate.is_some() => match told {
                    Some(status) => {
                        heard = true;
                        if status == 100 {
                            opened = true;
                            let _ = gate.take().map(|g| g.send(()));
                        }
                    }
                    // The request has ended; its answer says why.
                    None => { gate = None; }
                },
                () = &mut patience, if gate.is_some() => {
                    opened = true;
                    let _ = gate.take().map(|g| g.send(()));
                }
                _ = watch.tick() => {
                    let now = meter.moved();
                    let limit = self.patience((len, storing), now - begin, heard);
                    if now != moved {
                        (moved, last) = (now, Instant::now());
                    } else if last.elapsed() > limit {
                        let stalled = Fault::Stalled { after: limit };
                        break Err(meter.write_error().map_or(stalled, Fault::Lost));
                    }
                }
            }
        };
        let sent_whole = len == 0 || (opened && meter.write_error().is_none());
        let result = result.map(|answer| {
            let ok = answer.status().is_success();
            let mut response = self.response(request, answer, conn);
            if !(sent_whole && ok) {
                response.detach(gate.take());
            }
            response
        });
        (result, opened)
    }
}
