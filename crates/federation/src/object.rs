//! Reads one stored object; origin and cache share this code.

use std::io::{Read as _, Seek as _, SeekFrom};
use std::time::SystemTime;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::http::request::Parts;
use hyper::{Method, StatusCode};

use super::body::Body;
use super::range::{self, Asked};
use super::reply::{Answer, refuse};
use super::store::{Fault, Found};
use gular_pelican::protocol::{Algorithm, Summer};

/// The answer to GET or HEAD of the object `found`.
pub(super) async fn answer(parts: &Parts, found: Found) -> Result<Answer, Answer> {
    let header = |name: &str| parts.headers.get(name).and_then(|value| value.to_str().ok());
    let is_head = parts.method == Method::HEAD;
    // HEAD knows no ranges (RFC 9110, section 14.2); validators for `If-Range` we
    // do not give, so none can match.
    let asked = header("range").filter(|_| !is_head && !parts.headers.contains_key("if-range"));
    let wanted = header("want-digest").map(wanted);
    let asked = asked.map(str::to_owned);
    blocking(move || {
        let mut file = std::fs::File::open(&found.path)?;
        let len = file.metadata()?.len();
        let asked = asked.map_or(Asked::Whole, |asked| range::parse(&asked, len));
        let (status, range) = match asked {
            Asked::Whole => (StatusCode::OK, 0..len),
            Asked::Part(range) => (StatusCode::PARTIAL_CONTENT, range),
            Asked::Outside => {
                return Ok(refuse(
                    StatusCode::RANGE_NOT_SATISFIABLE,
                    "the object has no such bytes",
                )
                .with("content-range", format!("bytes */{len}")));
            }
        };
        let digest = wanted.map(|algorithm| digest(&mut file, algorithm)).transpose()?;
        let n = range.end - range.start;
        let body = if is_head {
            Body::empty()
        } else {
            file.seek(SeekFrom::Start(range.start))?;
            Body::file(tokio::fs::File::from_std(file), n)
        };
        let mut answer = Answer::new(status, body)
            .with("content-length", n.to_string())
            .with("content-type", "application/octet-stream")
            .with("accept-ranges", "bytes");
        if status == StatusCode::PARTIAL_CONTENT {
            let last = range.end.saturating_sub(1);
            answer = answer.with("content-range", format!("bytes {}-{last}/{len}", range.start));
        }
        if let Some(digest) = digest {
            answer = answer.with("digest", digest);
        }
        Ok(answer.with("last-modified", date(found.modified())))
    })
    .await
    .map_err(|fault| fault_answer(&fault))
}

/// The algorithm that `Want-Digest` asks for (RFC 3230). As in XRootD it is the first that is
/// known, else crc32c.
fn wanted(header: &str) -> Algorithm {
    let name = |part: &str| part.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let known = |part: &str| match name(part).as_str() {
        "crc32c" => Some(Algorithm::Crc32c),
        "md5" => Some(Algorithm::Md5),
        "crc32" => Some(Algorithm::Crc32),
        "adler32" => Some(Algorithm::Adler32),
        _ => None,
    };
    header.split(',').find_map(known).unwrap_or(Algorithm::Crc32c)
}

/// The whole file's checksum, as servers of today write it: md5 in base64, others in hex.
pub(super) fn digest(file: &mut std::fs::File, algorithm: Algorithm) -> std::io::Result<String> {
    let mut summer = Summer::new(algorithm);
    let mut buffer = vec![0; 1 << 20];
    loop {
        let n = file.read(&mut buffer)?;
        match buffer.get(..n) {
            Some(piece) if n > 0 => summer.update(piece),
            _ => break,
        }
    }
    let sum = summer.finish();
    Ok(match algorithm {
        Algorithm::Md5 => format!("md5={}", STANDARD.encode(sum.value)),
        _ => sum.to_string().replacen(':', "=", 1),
    })
}

/// Formats a time as `Fri, 20 Nov 2026 14:57:25 GMT`. A time that this format cannot represent
/// becomes 1970.
pub(super) fn date(time: SystemTime) -> String {
    // httpdate panics on years outside of 1970 to 9999.
    let seconds = time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |d| d.as_secs());
    let seconds = if seconds < 253_402_300_800 { seconds } else { 0 };
    httpdate::fmt_http_date(SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(seconds))
}

/// Runs what waits for the disk where it holds up nobody.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Fault> + Send + 'static,
) -> Result<T, Fault> {
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or_else(|e| Err(Fault::Io(std::io::Error::other(e))))
}

/// The answer to a store's fault.
pub(super) fn fault_answer(fault: &Fault) -> Answer {
    use std::io::ErrorKind;
    match fault {
        Fault::Absent => refuse(StatusCode::NOT_FOUND, "no such object"),
        Fault::Exists => {
            refuse(StatusCode::CONFLICT, "an object or collection of that name exists")
        }
        Fault::Kind => refuse(
            StatusCode::CONFLICT,
            "a collection exists where an object is expected, or the reverse",
        ),
        Fault::NotEmpty => refuse(StatusCode::CONFLICT, "the collection is not empty"),
        Fault::Odd => refuse(StatusCode::FORBIDDEN, "links and devices are not served"),
        Fault::Io(e) => match e.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => {
                refuse(StatusCode::INSUFFICIENT_STORAGE, "no space is left for this object")
            }
            ErrorKind::InvalidFilename => refuse(StatusCode::BAD_REQUEST, "the name is too long"),
            kind => refuse(StatusCode::INTERNAL_SERVER_ERROR, &format!("the disk failed: {kind}")),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_known_digest_is_given() {
        for (header, expected) in [
            ("crc32c,md5", Algorithm::Crc32c),
            ("sha-256, MD5;q=0.3", Algorithm::Md5),
            ("sha-256", Algorithm::Crc32c),
            ("", Algorithm::Crc32c),
        ] {
            assert_eq!(wanted(header), expected, "{header}");
        }
    }

    #[test]
    fn no_time_is_too_odd_for_a_date() {
        let at = |seconds| SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
        assert_eq!(date(at(1_795_186_645)), "Fri, 20 Nov 2026 14:57:25 GMT");
        assert_eq!(date(at(400_000_000_000)), "Thu, 01 Jan 1970 00:00:00 GMT");
        let before = SystemTime::UNIX_EPOCH - std::time::Duration::from_secs(1);
        assert_eq!(date(before), "Thu, 01 Jan 1970 00:00:00 GMT");
    }
}
