//! A token with `storage.create` alone, which Pelican gives to users who want to write: nothing can
//! be read back, and writing to an existing name is refused.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use gular_pelican::{Client, CompareBy, Compared, Error, IfTaken, Upload, Watch};

use crate::server::{Head, Server, Talk, options};
use crate::tokens::{Federation, ISSUER, has_token, token_with};
use crate::writing::{Objects, file};

/// The answer by which an origin says that an object exists.
#[derive(Clone, Copy, PartialEq)]
enum Exists {
    /// The answer of XRootD, which refuses everything in this way.
    Forbidden,
    /// The answer of origins of version 2.
    Failed,
}

/// An origin that lets nobody read, and everybody with a token create.
fn origin(talk: &mut Talk, head: &Head, objects: &Objects, exists: Exists) -> bool {
    let there = objects.lock().unwrap().contains_key(head.path());
    match head.method.as_str() {
        "PUT" if has_token(head) && !there => {
            talk.go_on();
            let body = talk.body(head.content_length());
            objects.lock().unwrap().insert(head.path().to_owned(), body);
            talk.answer("201 Created", "", b"");
        }
        "PUT" if has_token(head) && exists == Exists::Failed => {
            talk.answer("412 Precondition Failed", "", b"");
        }
        _ => talk.answer("403 Forbidden", "", b"permission denied"),
    }
    true
}

fn write_only() -> String {
    token_with(&format!(r#"{{"iss":"{ISSUER}","scope":"storage.create:/"}}"#))
}

fn client(federation: &Federation, token: &str) -> Client {
    Client::new(options(&[federation.trust(), ("BEARER_TOKEN", token)])).unwrap()
}

#[test]
fn objects_are_stored_and_said_not_to_be_read_back() {
    for exists in [Exists::Forbidden, Exists::Failed] {
        let objects = Objects::default();
        let store = Arc::clone(&objects);
        let storage = Server::start(move |talk, head| origin(talk, head, &store, exists));
        let federation = Federation::of(storage, Some(ISSUER), false);
        let (client, file) = (client(&federation, &write_only()), file(100_000));
        let done = file.upload(&client, &federation.url(), IfTaken::Refuse).unwrap();
        assert_eq!((done.identical, done.compared), (false, Compared::Nothing));
        assert!(objects.lock().unwrap()["/ns/x"] == file.bytes);
        // No request was sent that is known to be refused.
        let methods: Vec<_> = federation.storage.heads().into_iter().map(|h| h.method).collect();
        assert_eq!(methods, ["PUT"]);

        // A second upload finds the object, as far as the token allows.
        let done = file.upload(&client, &federation.url(), IfTaken::Refuse).unwrap();
        let expected = match exists {
            Exists::Forbidden => Compared::Presumed,
            Exists::Failed => Compared::Nothing,
        };
        assert_eq!((done.identical, done.compared), (true, expected));
    }
}

#[test]
fn a_name_that_a_cut_upload_burned_is_left_for_the_next() {
    let (objects, puts) = (Objects::default(), AtomicUsize::new(0));
    let store = Arc::clone(&objects);
    let storage = Server::start(move |talk, head| {
        if head.method == "PUT" && puts.fetch_add(1, Ordering::SeqCst) == 0 {
            talk.go_on();
            let part = talk.body(100_000);
            store.lock().unwrap().insert(head.path().to_owned(), part);
            talk.close();
            return false;
        }
        origin(talk, head, &store, Exists::Forbidden)
    });
    let federation = Federation::of(storage, Some(ISSUER), false);
    let (client, file) = (client(&federation, &write_only()), file(1_000_000));
    let done = file.upload(&client, &federation.url(), IfTaken::Rename).unwrap();
    assert_eq!((done.url.path(), done.identical), ("/ns/x~1", false));
    assert!(objects.lock().unwrap()["/ns/x~1"] == file.bytes);
    assert_eq!(objects.lock().unwrap()["/ns/x"].len(), 100_000, "it was overwritten");
}

#[test]
fn a_token_that_cannot_write_there_is_refused_and_the_hint_says_how_to_get_one() {
    let objects = Objects::default();
    let storage = Server::start(move |talk, head| origin(talk, head, &objects, Exists::Forbidden));
    let federation = Federation::of(storage, Some(ISSUER), false);
    let file = file(1000);
    for scope in ["storage.create:/other", "storage.modify:/other", "openid"] {
        let token = token_with(&format!(r#"{{"iss":"{ISSUER}","scope":"{scope}"}}"#));
        let client = client(&federation, &token);
        let error = file.upload(&client, &federation.url(), IfTaken::Refuse).unwrap_err();
        assert!(matches!(error, Error::Denied { action: "write", .. }), "{scope}: {error}");
        let hint = error.hint().unwrap();
        let host = federation.url().authority().to_owned();
        let expected =
            format!("get a token with `pelican credentials token get write pelican://{host}/ns`");
        assert!(hint.starts_with(&expected), "{hint}");
    }
    // A token that only the server can read is tried, and a refusal is reported as one.
    let mut named = options(&[federation.trust()]);
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("token"), "an-opaque-token").unwrap();
    named.token_files.push(dir.path().join("token"));
    let client = Client::new(named).unwrap();
    let upload = || file.upload(&client, &federation.url(), IfTaken::Refuse);
    assert_eq!(upload().unwrap().compared, Compared::Nothing);
    let error = upload().unwrap_err();
    assert!(matches!(error, Error::Denied { action: "write", .. }), "{error}");
}

#[test]
fn of_several_tokens_each_is_sent_where_it_fits() {
    let (objects, wrong) = (Objects::default(), Arc::new(AtomicUsize::new(0)));
    let scope = |name: &str| token_with(&format!(r#"{{"iss":"{ISSUER}","scope":"{name}:/"}}"#));
    let (reads, writes) = (scope("storage.read"), scope("storage.create"));
    let (store, misplaced) = (Arc::clone(&objects), Arc::clone(&wrong));
    let (for_reads, for_writes) = (reads.clone(), writes.clone());
    let storage = Server::start(move |talk, head| {
        let expected = if head.method == "PUT" { &for_writes } else { &for_reads };
        if head.exact("Authorization") != Some(&format!("Bearer {expected}")) {
            misplaced.fetch_add(1, Ordering::SeqCst);
        }
        let stored = store.lock().unwrap().get(head.path()).cloned();
        match (head.method.as_str(), stored) {
            ("HEAD", Some(bytes)) => talk.answer_head("200 OK", "", bytes.len()),
            ("GET", Some(bytes)) => talk.answer("200 OK", "", &bytes),
            ("PUT", _) => return origin(talk, head, &store, Exists::Forbidden),
            ("PROPFIND", _) => talk.answer("405 Method Not Allowed", "", b""),
            _ => talk.answer("404 Not Found", "", b""),
        }
        true
    });
    let federation = Federation::of(storage, Some(ISSUER), false);
    let dir = tempfile::tempdir().unwrap();
    let mut named = options(&[federation.trust()]);
    for (name, token) in [("reads", &reads), ("writes", &writes)] {
        fs::write(dir.path().join(name), token).unwrap();
        named.token_files.push(dir.path().join(name));
    }
    let client = Client::new(named).unwrap();
    let file = file(10_000);
    let done = file.upload(&client, &federation.url(), IfTaken::Refuse).unwrap();
    assert_eq!((done.identical, done.compared), (false, Compared::Bytes));
    assert_eq!(wrong.load(Ordering::SeqCst), 0);
}

/// A token that ends between two uploads, and is renewed in its file a while later.
#[test]
fn a_token_that_ended_meanwhile_is_waited_for_in_its_file() {
    let now = || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    // Servers expect a token to be valid for ten more seconds.
    let until = |exp: u64| {
        token_with(&format!(r#"{{"iss":"{ISSUER}","exp":{exp},"scope":"storage.create:/"}}"#))
    };
    let (objects, begun) = (Objects::default(), now());
    let (old, new) = (until(begun + 12), until(begun + 600));
    let (store, expired) = (Arc::clone(&objects), old.clone());
    let storage = Server::start(move |talk, head| {
        let with_old = head.exact("Authorization") == Some(&format!("Bearer {expired}"));
        if with_old && now() > begun + 2 {
            talk.answer("403 Forbidden", "", b"permission denied");
            return true;
        }
        origin(talk, head, &store, Exists::Failed)
    });
    let federation = Federation::of(storage, Some(ISSUER), false);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("token");
    fs::write(&path, &old).unwrap();
    let told = Arc::new(std::sync::Mutex::new(Vec::new()));
    let heard = Arc::clone(&told);
    let mut named = options(&[federation.trust()]);
    named.token_files = vec![path.clone()];
    named.tell = gular_pelican::Tell::new(move |text| heard.lock().unwrap().push(text.to_owned()));
    let client = Client::new(named).unwrap();
    let file = file(1000);
    file.upload(&client, &federation.url(), IfTaken::Refuse).unwrap();
    // Within ten seconds of its end it counts as ended.
    std::thread::sleep(Duration::from_secs(3));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_secs(3));
            fs::write(&path, &new).unwrap();
        });
        let url = federation.url().parent().unwrap().join("y").unwrap();
        let upload = Upload {
            from: &file.path,
            to: &url,
            if_taken: IfTaken::Refuse,
            listed: gular_pelican::Listed::Unknown,
            compare_by: CompareBy::Bytes,
        };
        let done = client.upload(&upload, false, Watch::never()).unwrap();
        assert!(!done.identical);
    });
    let told = told.lock().unwrap().clone();
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].contains("has ended; waiting up to 12 s for a new one there"), "{told:?}");
    assert!(!told[0].contains(&old));

    // A token that had expired before the start is useless, and nothing waits for a new one.
    fs::write(&path, until(begun - 100)).unwrap();
    let mut named = options(&[federation.trust()]);
    named.token_files = vec![path];
    let begun = std::time::Instant::now();
    let client = Client::new(named).unwrap();
    let url = federation.url().parent().unwrap().join("z").unwrap();
    let error = file.upload(&client, &url, IfTaken::Refuse).unwrap_err();
    assert!(error.to_string().contains("expired"), "{error}");
    assert!(begun.elapsed() < Duration::from_secs(6), "{:?}", begun.elapsed());
}
