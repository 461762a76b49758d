//! Temporary errors are retried by discovery, director, readers and writers alike.

use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use gular_pelican::{Client, CompareBy, Error, IfTaken, Upload, Url, Watch};

use crate::server::{Server, Talk, client, client_with, options, patient_client};

/// A federation whose servers say `busy` as often as told before they do their work.
struct Federation {
    discovery: Server,
    director: Server,
    storage: Server,
}

impl Federation {
    fn start(busy: &'static str, discovery: usize, director: usize, storage: usize) -> Self {
        let storage =
            Server::start(after(storage, busy, |talk| talk.answer("200 OK", "", b"data")));
        let to = storage.url.clone();
        let director = Server::start(after(director, busy, move |talk| {
            let namespace = "X-Pelican-Namespace: namespace=/ns, require-token=false";
            let link = format!("Link: <{to}/ns/x>; rel=\"duplicate\"; pri=1; depth=1");
            talk.answer("307 Temporary Redirect", &format!("{namespace}\r\n{link}\r\n"), b"");
        }));
        let to = director.url.clone();
        let discovery = Server::start_tls(after(discovery, busy, move |talk| {
            talk.answer("200 OK", "", format!("{{\"director_endpoint\": \"{to}\"}}").as_bytes());
        }));
        Self { discovery, director, storage }
    }

    fn env(&self) -> [(&str, &str); 1] {
        [("SSL_CERT_FILE", self.discovery.certificate())]
    }

    fn url(&self) -> Url {
        Url::parse(&format!("{}/ns/x", self.discovery.url.replace("https", "pelican"))).unwrap()
    }

    fn read(&self) -> Result<Vec<u8>, Error> {
        self.read_with(&client_with(&self.env()))
    }

    fn read_with(&self, client: &Client) -> Result<Vec<u8>, Error> {
        client.read(&self.url(), 1000, &|_| Ok(()), Watch::never())
    }
}

/// Answers `busy` to the first `n` requests.
fn after(
    n: usize,
    busy: &'static str,
    then: impl Fn(&mut Talk) + Send + Sync + 'static,
) -> impl Fn(&mut Talk, &crate::server::Head) -> bool + Send + Sync + 'static {
    let asked = AtomicUsize::new(0);
    move |talk, _| {
        if asked.fetch_add(1, Ordering::SeqCst) < n {
            talk.answer(busy, "", b"busy");
        } else {
            then(talk);
        }
        true
    }
}

const BUSY: &str = "503 Service Unavailable";

/// Sends a byte now and then, for a minute: each of them ends a silence.
fn trickle(talk: &mut Talk, status: &str) {
    talk.send(format!("HTTP/1.1 {status}\r\nContent-Length: 600\r\n\r\n"));
    for _ in 0..600 {
        talk.send("x");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn a_small_answer_that_trickles_is_not_waited_for_to_its_end() {
    let server = Server::start(|talk, _| {
        trickle(talk, "404 Not Found");
        false
    });
    let begun = Instant::now();
    let read = client().read(&server.url("/x"), 10, &|_| Ok(()), Watch::never());
    assert!(matches!(read, Err(Error::NotFound { .. })), "{read:?}");
    // The 4 s of a silence, and no time to speak of for 4 KiB.
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
}

#[test]
fn tls_has_time_of_its_own_after_name_and_tcp() {
    let server = Server::start_tls(|talk, _| {
        talk.answer("200 OK", "", b"data");
        true
    });
    // Takes the connection at once, and lets nothing through for longer than a connection
    // may take.
    let gate = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://localhost:{}/x", gate.local_addr().unwrap().port());
    let to = server.url.replace("https://", "");
    std::thread::spawn(move || {
        for near in gate.incoming() {
            let (near, far) = (near.unwrap(), TcpStream::connect(&to).unwrap());
            std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(4800));
                let pipe = |mut from: TcpStream, mut to: TcpStream| {
                    std::thread::spawn(move || std::io::copy(&mut from, &mut to));
                };
                pipe(near.try_clone().unwrap(), far.try_clone().unwrap());
                pipe(far, near);
            });
        }
    });
    let mut options = options(&[("SSL_CERT_FILE", server.certificate())]);
    options.connect_timeout = Duration::from_secs(4);
    let client = Client::new(options).unwrap();
    let url = Url::parse(&url).unwrap();
    let read = client.read(&url, 10, &|_| Ok(()), Watch::never());
    assert_eq!(read.unwrap(), b"data");
    assert_eq!(server.heads().len(), 1);
}

#[test]
fn servers_that_are_busy_twice_are_asked_three_times() {
    let federation = Federation::start(BUSY, 2, 2, 2);
    assert_eq!(federation.read_with(&patient_client(&federation.env())).unwrap(), b"data");
    assert_eq!(federation.discovery.heads().len(), 3);
    // The director is not asked for the origin: a busy cache is not a reason to use it.
    assert_eq!(federation.director.heads().len(), 3);
    assert_eq!(federation.storage.heads().len(), 3);
}

#[test]
fn a_discovery_host_that_stays_busy_is_told_with_trials_and_time() {
    let federation = Federation::start(BUSY, usize::MAX, 0, 0);
    let error = federation.read().unwrap_err();
    assert!(matches!(error, Error::Discovery { .. }), "{error}");
    let said = error.to_string();
    assert!(said.contains("it answers 503 (3 requests in ") && said.ends_with(" s)"), "{said}");
    assert_eq!(federation.discovery.heads().len(), 3);
}

#[test]
fn a_director_that_stays_busy_is_told_with_trials_and_time() {
    let federation = Federation::start("429 Too Many Requests", 0, usize::MAX, 0);
    let begun = Instant::now();
    let error = federation.read().unwrap_err();
    let Error::Failed { attempts, elapsed, .. } = &error else { panic!("{error}") };
    let n = federation.director.heads().len();
    assert!((3..=20).contains(&n) && attempts.requests as usize == n, "{n} {attempts:?}");
    // The client's patience is 12 s; a director that starts gets two thirds more.
    assert!(*elapsed <= begun.elapsed() && *elapsed > Duration::from_secs(15), "{elapsed:?}");
    assert!(*elapsed < Duration::from_secs(40), "{elapsed:?}");
    assert!(error.is_passing());
    let said = error.to_string();
    assert!(
        said.contains(&format!("({n} requests in ")) && said.contains("X-Pelican-JobId"),
        "{said}"
    );
    assert!(said.contains(&format!("`{}`: 429: busy", federation.director.url)), "{said}");
}

#[test]
fn an_upload_is_tried_again_and_told_with_trials_and_time() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let upload = |url: &Url| {
        let to = Upload {
            from: file.path(),
            to: url,
            if_taken: IfTaken::Refuse,
            listed: gular_pelican::Listed::Absent,
            compare_by: CompareBy::Bytes,
        };
        client().upload(&to, false, Watch::never())
    };
    for (fails, stored) in [(2, true), (usize::MAX, false)] {
        let puts = AtomicUsize::new(0);
        let server = Server::start(move |talk, head| {
            let asked = match head.method.as_str() {
                "PUT" => puts.fetch_add(1, Ordering::SeqCst) + 1,
                _ => puts.load(Ordering::SeqCst),
            };
            match (head.method.as_str(), asked > fails) {
                ("PUT", true) => talk.answer("201 Created", "", b""),
                ("PUT", false) => talk.answer(BUSY, "", b"busy"),
                (_, true) => talk.answer_head("200 OK", "", 0),
                (_, false) => talk.answer_head("404 Not Found", "", 0),
            }
            true
        });
        let result = upload(&server.url("/x"));
        assert_eq!(result.is_ok(), stored, "{result:?}");
        let n = server.of_method("PUT").len();
        assert_eq!(n, if stored { 3 } else { 4 });
        if let Err(error) = result {
            let said = error.to_string();
            assert!(said.contains("(4 requests in ") && said.contains("503: busy"), "{said}");
        }
    }
}

#[test]
fn a_server_is_not_asked_sooner_than_the_date_it_names() {
    let asked = AtomicUsize::new(0);
    let server = Server::start(move |talk, _| {
        if asked.fetch_add(1, Ordering::SeqCst) > 0 {
            talk.answer("200 OK", "", b"data");
            return true;
        }
        // The header has whole seconds, so this is 1 to 2 s from now.
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        let until = httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(now + 2));
        talk.answer(BUSY, &format!("Retry-After: {until}\r\n"), b"busy");
        true
    });
    let begun = Instant::now();
    let read = patient_client(&[]).read(&server.url("/x"), 1000, &|_| Ok(()), Watch::never());
    assert_eq!(read.unwrap(), b"data");
    assert!(begun.elapsed() >= Duration::from_secs(1), "{:?}", begun.elapsed());
}

#[test]
fn cancelling_is_heard_in_the_middle_of_a_wait() {
    let storage = Server::start(|talk, _| {
        talk.answer(BUSY, "Retry-After: 3000\r\n", b"busy");
        true
    });
    let cancel = AtomicBool::new(false);
    let begun = Instant::now();
    let error = std::thread::scope(|scope| {
        scope.spawn(|| {
            while storage.heads().is_empty() {
                std::thread::sleep(Duration::from_millis(10));
            }
            std::thread::sleep(Duration::from_millis(100));
            cancel.store(true, Ordering::Relaxed);
        });
        client().read(&storage.url("/x"), 1000, &|_| Ok(()), Watch::silent(&cancel)).unwrap_err()
    });
    assert!(matches!(error, Error::Cancelled), "{error}");
    assert_eq!(storage.heads().len(), 1);
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
}
