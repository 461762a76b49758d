//! Builds answers.

use bytes::Bytes;
use hyper::header::{CONTENT_LENGTH, HeaderName, HeaderValue, LAST_MODIFIED};
use hyper::{Response, StatusCode};
use serde_json::Value;

use super::body::Body;

/// An answer; boxed, since it also travels as the error of checks.
#[derive(Debug)]
pub(super) struct Answer(Box<Response<Body>>);

impl Answer {
    pub(super) fn new(status: StatusCode, body: Body) -> Self {
        let mut response = Response::new(body);
        *response.status_mut() = status;
        Self(Box::new(response))
    }

    /// Adds a header. A value that no header can have would be our own mistake, and is left out.
    pub(super) fn with(mut self, name: &'static str, value: impl AsRef<str>) -> Self {
        if let Ok(value) = HeaderValue::from_str(value.as_ref()) {
            self.0.headers_mut().append(HeaderName::from_static(name), value);
        }
        self
    }

    /// Number of an object's bytes in the answer.
    pub(super) fn object_bytes(&self) -> Option<u64> {
        let is_object =
            self.0.status().is_success() && self.0.headers().contains_key(LAST_MODIFIED);
        let len = self.0.headers().get(CONTENT_LENGTH).filter(|_| is_object)?;
        len.to_str().ok()?.parse().ok()
    }

    pub(super) fn response(self) -> Response<Body> {
        *self.0
    }
}

/// Returns an answer of one line.
pub(super) fn refuse(status: StatusCode, message: &str) -> Answer {
    let body = Body::Text(Bytes::from(format!("{message}\n")));
    Answer::new(status, body).with("content-type", "text/plain; charset=utf-8")
}

/// Returns an answer without a body.
pub(super) fn done(status: StatusCode) -> Answer {
    Answer::new(status, Body::empty())
}

/// Returns an answer in JSON.
pub(super) fn json(status: StatusCode, value: &Value) -> Answer {
    Answer::new(status, Body::Text(Bytes::from(value.to_string())))
        .with("content-type", "application/json; charset=utf-8")
}
