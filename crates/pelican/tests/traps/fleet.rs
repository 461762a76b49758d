//! Tests of what ten thousand jobs would do: caches are busy, slow, wrong or down, and the origin
//! behind them must not be overloaded.

use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use gular_pelican::{BLOCK_BYTES, Error};

use crate::federation::{Federation, nobody, part, range, serve_well, stream};
use crate::server::{Head, Server, Talk, client, client_with, noise, patient_client};

const LEN: usize = 3 * BLOCK_BYTES + 1000;

/// Sends at a fifth of what is expected for as long as told, then the rest at once.
fn serve_slowly(talk: &mut Talk, head: &Head, bytes: &[u8], slow_for: Duration) -> bool {
    let (answer, bytes) = part(head, bytes);
    talk.send(answer);
    let begun = Instant::now();
    let mut rest = bytes;
    while begun.elapsed() < slow_for && !rest.is_empty() {
        let (piece, after) = rest.split_at(rest.len().min(2_000));
        talk.send(piece);
        rest = after;
        std::thread::sleep(Duration::from_millis(100));
    }
    talk.send(rest);
    true
}

fn origin(bytes: &[u8]) -> Server {
    let bytes = bytes.to_vec();
    Server::start(move |talk, head| serve_well(talk, head, &bytes))
}

#[test]
fn an_overloaded_cache_moves_nobody_to_the_origin() {
    let bytes = noise(LEN);
    let (whole, asked) = (bytes.clone(), AtomicUsize::new(0));
    let cache = Server::start(move |talk, head| match asked.fetch_add(1, Ordering::SeqCst) {
        0 => {
            let body = br#"{"error":"cache_overloaded","detail":"too many transfers"}"#;
            talk.answer("429 Too Many Requests", "Retry-After: 1\r\n", body);
            true
        }
        1 => {
            talk.answer("503 Service Unavailable", "", b"busy");
            true
        }
        // Longer than the span over which the client judges.
        _ => serve_slowly(talk, head, &whole, Duration::from_secs(5)),
    });
    let origin = origin(&bytes);
    let federation = Federation::of(&[&cache.url], &[&origin.url]);
    let client = client_with(&federation.env());
    assert!(stream(&client, &federation.url("/ns/x"), &bytes).unwrap() == bytes);
    assert!(origin.heads().is_empty(), "{:?}", origin.heads());
    assert_eq!(federation.asked_for_origin(), 0);
    assert_eq!(cache.heads().len(), 3, "the slow answer was taken to its end");
}

/// A cache that says once per object that it is busy costs each object about the second that it
/// asks for, however many objects are fetched at the same time.
#[test]
fn a_wait_is_as_long_as_asked_and_nobody_waits_for_what_others_were_told() {
    let bytes = noise(1000);
    let (whole, refused) = (bytes.clone(), Mutex::new(HashSet::new()));
    let cache = Server::start(move |talk, head| {
        if refused.lock().unwrap().insert(head.path().to_owned()) {
            talk.answer("429 Too Many Requests", "Retry-After: 1\r\n", b"busy");
            return true;
        }
        serve_well(talk, head, &whole)
    });
    let federation = Federation::of(&[&cache.url], &[]);
    let client = patient_client(&federation.env());
    let (next, longest) = (AtomicUsize::new(0), Mutex::new(Duration::ZERO));
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (client, federation, bytes, next, longest) =
                (&client, &federation, &bytes, &next, &longest);
            scope.spawn(move || {
                // The threads do not meet the busy server at the same moment.
                std::thread::sleep(Duration::from_millis(250 * thread));
                loop {
                    let n = next.fetch_add(1, Ordering::SeqCst);
                    if n >= 16 {
                        break;
                    }
                    let begun = Instant::now();
                    let url = federation.url(&format!("/ns/{n}"));
                    assert!(stream(client, &url, bytes).unwrap() == *bytes);
                    let mut longest = longest.lock().unwrap();
                    *longest = begun.elapsed().max(*longest);
                }
            });
        }
    });
    let longest = longest.into_inner().unwrap();
    // Up to one wait for what another object was told, and its own.
    assert!(longest < Duration::from_millis(3500), "{longest:?}");
    assert_eq!(cache.heads().len(), 32);
}

#[test]
fn caches_that_stay_busy_end_the_work_and_not_at_the_origin() {
    let busy = || {
        Server::start(|talk, _| {
            talk.answer("429 Too Many Requests", "Retry-After: 2\r\n", b"busy");
            true
        })
    };
    let (one, other) = (busy(), busy());
    let origin = origin(b"");
    let federation = Federation::of(&[&one.url, &other.url], &[&origin.url]);
    let begun = Instant::now();
    let client = client_with(&federation.env());
    let error = stream(&client, &federation.url("/ns/x"), &noise(10)).unwrap_err();
    assert!(matches!(error, Error::Failed { .. }) && error.is_passing(), "{error}");
    assert!(origin.heads().is_empty() && federation.asked_for_origin() == 0);
    // The whole patience of 12 s, and nobody was asked more often than it wanted.
    assert!(begun.elapsed() >= Duration::from_secs(11), "{:?}", begun.elapsed());
    for server in [one, other] {
        assert!((3..=7).contains(&server.heads().len()), "{}", server.heads().len());
    }
}

#[test]
fn a_server_is_waited_for_as_long_as_it_asks_before_the_first_byte_too() {
    let bytes = noise(1000);
    let (whole, begun) = (bytes.clone(), Instant::now());
    let server = Server::start(move |talk, head| {
        // A silent server gets a sixth of the patience of 12 s, which is less than this.
        if begun.elapsed() < Duration::from_secs(4) {
            talk.answer("429 Too Many Requests", "Retry-After: 4\r\n", b"busy");
            return true;
        }
        serve_well(talk, head, &whole)
    });
    assert!(stream(&client(), &server.url("/x"), &bytes).unwrap() == bytes);
    assert_eq!(server.heads().len(), 2);
}

#[test]
fn a_slow_cache_is_left_for_one_that_was_measured_to_be_faster() {
    let bytes = noise(LEN);
    let whole = bytes.clone();
    let slow =
        Server::start(move |talk, head| serve_slowly(talk, head, &whole, Duration::from_secs(60)));
    let (fast, origin) = (origin(&bytes), origin(&bytes));
    let federation = Federation::of(&[&slow.url, &fast.url], &[&origin.url]);
    let client = client_with(&federation.env());
    assert!(stream(&client, &federation.url("/ns/x"), &bytes).unwrap() == bytes);
    assert_eq!(slow.heads().len(), 1);
    let asked: Vec<_> = fast.heads().iter().map(range).collect();
    assert_eq!(asked, [Some((0, BLOCK_BYTES)), None], "one block to measure, then all");
    assert!(origin.heads().is_empty());
    // The measured speed is used for the next object, so that no server is asked for a trial again.
    assert!(stream(&client, &federation.url("/ns/y"), &bytes).unwrap() == bytes);
    assert_eq!((slow.heads().len(), fast.heads().len()), (2, 3));
}

#[test]
fn a_slow_cache_is_kept_when_no_other_is_faster() {
    let bytes = noise(LEN);
    let (whole, trials) = (bytes.clone(), AtomicUsize::new(0));
    let slow = Server::start(move |talk, head| {
        let slow_for = if trials.fetch_add(1, Ordering::SeqCst) == 0 { 60 } else { 5 };
        serve_slowly(talk, head, &whole, Duration::from_secs(slow_for))
    });
    let whole = bytes.clone();
    let as_slow =
        Server::start(move |talk, head| serve_slowly(talk, head, &whole, Duration::from_secs(60)));
    let origin = origin(&bytes);
    let federation = Federation::of(&[&slow.url, &as_slow.url], &[&origin.url]);
    let client = client_with(&federation.env());
    assert!(stream(&client, &federation.url("/ns/x"), &bytes).unwrap() == bytes);
    assert_eq!((slow.heads().len(), as_slow.heads().len()), (2, 1));
    assert!(origin.heads().is_empty());
}

#[test]
fn the_origin_is_asked_when_no_cache_takes_connections_for_long() {
    let bytes = noise(LEN);
    let origin = origin(&bytes);
    let federation = Federation::of(&[&nobody(), &nobody()], &[&origin.url]);
    let client = client_with(&federation.env());
    let begun = Instant::now();
    assert!(stream(&client, &federation.url("/ns/x"), &bytes).unwrap() == bytes);
    // A third of the patience of 12 s has passed.
    assert!(begun.elapsed() >= Duration::from_secs(4), "{:?}", begun.elapsed());
    // The fault is known by now, so the next object does not wait again.
    let begun = Instant::now();
    assert!(stream(&client, &federation.url("/ns/y"), &bytes).unwrap() == bytes);
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
}

#[test]
fn of_two_caches_one_lies_and_one_is_down_and_of_two_origins_one_has_it() {
    let bytes = noise(LEN);
    let mut other = bytes.clone();
    other[BLOCK_BYTES + 5] ^= 1;
    let liar = Server::start(move |talk, head| match head.path() {
        "/ns/x" => serve_well(talk, head, &other),
        _ => (talk.answer("404 Not Found", "", b"no such file"), true).1,
    });
    let without = Server::start(|talk, _| {
        talk.answer("404 Not Found", "", b"no such file");
        true
    });
    let whole = bytes.clone();
    let sound = Server::start(move |talk, head| serve_well(talk, head, &whole));
    let down = nobody();
    let federation = Federation::of(&[&liar.url, &down], &[&without.url, &sound.url]);
    let client = client_with(&federation.env());
    assert!(stream(&client, &federation.url("/ns/x"), &bytes).unwrap() == bytes);
    // The right bytes of the lying server were not read twice, and one block showed whether the
    // next server lies, too.
    let asked: Vec<_> = sound.heads().iter().map(range).collect();
    let expected = [(BLOCK_BYTES, 2 * BLOCK_BYTES), (2 * BLOCK_BYTES, LEN)];
    assert_eq!(asked, expected.map(Some));

    // Neither origin has the object: the error names the lying server, and says whether a later
    // attempt may succeed.
    let federation = Federation::of(&[&liar.url, &down], &[&without.url]);
    let client = client_with(&federation.env());
    let error = stream(&client, &federation.url("/ns/x"), &bytes).unwrap_err();
    let said = error.to_string();
    let named = format!("`{}`: bytes 1048576 to 2097152 differ from the expected ones", liar.url);
    assert!(said.contains(&named) && said.contains(&down), "{said}");
}

#[test]
fn damage_is_blamed_on_the_origin_only_when_that_was_asked() {
    let bytes = noise(1000);
    let lying = |served: &[u8]| {
        let served = served.to_vec();
        Server::start(move |talk, head| match head.path() {
            "/ns/x" => serve_well(talk, head, &served),
            _ => (talk.answer("404 Not Found", "", b""), true).1,
        })
    };
    let (cache, other) = (lying(&noise(1001)[1..]), lying(&noise(1001)[1..]));
    let check = |federation: &Federation, hint: &str| {
        let client = client_with(&federation.env());
        let error = stream(&client, &federation.url("/ns/x"), &bytes).unwrap_err();
        assert!(matches!(error, Error::Corrupt { .. }), "{error}");
        assert!(error.hint().unwrap().contains(hint), "{:?}", error.hint());
    };
    check(&Federation::of(&[&cache.url], &[&other.url]), "also the one at the origin");
    // An origin that nobody may read from directly.
    let to = cache.url.clone();
    let closed = Federation::start(move |talk, head| {
        if head.target.contains("directread") {
            talk.answer("405 Method Not Allowed", "Server: pelican/7.27\r\n", b"no direct reads");
        } else {
            crate::federation::answer(talk, head, "require-token=false", std::slice::from_ref(&to));
        }
        true
    });
    check(&closed, "the origin was not asked");
}

#[test]
fn a_limit_of_the_rate_is_kept_by_all_threads_together() {
    let bytes = noise(500_000);
    let whole = bytes.clone();
    let server = Server::start(move |talk, head| serve_well(talk, head, &whole));
    let client = crate::server::client_limited(500_000);
    let begun = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| assert!(stream(&client, &server.url("/x"), &bytes).unwrap() == bytes));
        }
    });
    let took = begun.elapsed();
    assert!((2..10).contains(&took.as_secs()), "{took:?} for 1.5 MB at 0.5 MB/s");
}
