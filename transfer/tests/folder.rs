//! Folders of any files, over `file://` and from a server whose listing contains names that no
//! folder can have.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use gular_federation::{Federation, Options, TokenRequest, mint};
use gular_pelican::{Client, ClientOptions, CompareBy, Env, Url};
use gular_transfer::{
    Error, FolderFetch, FolderLock, FolderOptions, FolderReport, Watch, fetch_folder,
    publish_folder,
};

use crate::find::serve;

fn client() -> Client {
    Client::new(ClientOptions::new(Env::default())).unwrap()
}

fn fetch(
    url: &str,
    dir: &Path,
    options: &FolderOptions,
) -> Result<FolderReport<FolderFetch>, Error> {
    let watch = Watch::never();
    fetch_folder(&client(), &Url::parse(url).unwrap(), dir, options, watch)
}

fn failed(report: &FolderReport<FolderFetch>) -> Vec<&str> {
    report.failed.iter().map(|failed| failed.name.as_str()).collect()
}

/// Returns the names of all files below `dir`.
fn names(dir: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { all.extend(names(&path)) } else { all.push(path) }
    }
    all.sort();
    all
}

/// Makes a folder with `a/1`, `a/2` and `3`, and returns it with its URL.
fn folder() -> (tempfile::TempDir, String) {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("a")).unwrap();
    for name in ["a/1", "a/2", "3"] {
        fs::write(dir.path().join(name), name).unwrap();
    }
    let url = format!("file://{}", dir.path().display());
    (dir, url)
}

#[test]
fn progress_reaches_the_whole_and_files_that_are_there_count() {
    let (from, _) = folder();
    let there = tempfile::tempdir().unwrap();
    let url = Url::parse(&format!("file://{}/x", there.path().display())).unwrap();
    let (watch, seen) = (Watch::never(), AtomicU64::new(0));
    let progress = |done: u64, total: u64| {
        assert_eq!(total, 7);
        seen.fetch_max(done, Ordering::Relaxed);
    };
    let watch = Watch { progress: &progress, ..watch };
    let options = FolderOptions::default();
    let publish =
        || publish_folder(&client(), from.path(), &url, &options, &|_| (), watch).unwrap();
    for (uploaded, identical) in [(3, 0), (0, 3)] {
        let done = publish();
        assert!(done.failed.is_empty() && done.not_tried == 0, "{done:?}");
        assert_eq!((done.report.uploaded, done.report.identical), (uploaded, identical));
        assert_eq!(seen.swap(0, Ordering::Relaxed), 7);
    }
    let to = tempfile::tempdir().unwrap();
    for (fetched, kept) in [(3, 0), (0, 3)] {
        let done = fetch_folder(&client(), &url, to.path(), &options, watch).unwrap();
        assert_eq!((done.report.fetched, done.report.kept), (fetched, kept), "{done:?}");
        assert_eq!((done.report.by_checksum, done.report.by_length), (3, 0));
        assert_eq!(seen.swap(0, Ordering::Relaxed), 7);
    }
    assert_eq!(names(to.path()).len(), 3);
}

#[test]
fn no_link_leads_a_fetch_out_of_its_folder() {
    let (_from, url) = folder();
    let (to, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::os::unix::fs::symlink(outside.path(), to.path().join("a")).unwrap();
    std::os::unix::fs::symlink("/etc/hostname", to.path().join("3")).unwrap();
    let report = fetch(&url, to.path(), &FolderOptions::default()).unwrap();
    assert_eq!(failed(&report), ["3", "a/1", "a/2"]);
    assert!(matches!(report.failed[0].error, Error::Occupied { .. }), "{report:?}");
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
}

#[test]
fn a_folder_for_one_collection_holds_nothing_else() {
    let (from, url) = folder();
    let to = tempfile::tempdir().unwrap();
    let alone = FolderOptions { alone: true, ..FolderOptions::default() };
    for _ in 0..2 {
        let held = fetch(&url, to.path(), &alone).unwrap();
        // Nobody else may write to the folder until the caller has dropped the report.
        let cancel = AtomicBool::new(true);
        let lock = || FolderLock::wait(to.path(), Watch::silent(&cancel));
        assert!(lock().is_err());
        drop(held);
        assert!(lock().is_ok());
    }
    fs::remove_file(from.path().join("a/2")).unwrap();
    let error = fetch(&url, to.path(), &alone).unwrap_err();
    assert!(matches!(&error, Error::Strangers { found, .. } if found == "a/2"), "{error}");
    fetch(&url, to.path(), &FolderOptions::default()).unwrap();
}

#[test]
fn more_than_is_wanted_is_refused_before_anything_is_written() {
    let (_from, url) = folder();
    let to = tempfile::tempdir().unwrap();
    let few = FolderOptions { max_objects: 3, ..FolderOptions::default() };
    let error = fetch(&url, &to.path().join("x"), &few).unwrap_err();
    assert!(matches!(error, Error::TooMany { limit: 3, .. }), "{error}");
    assert!(names(to.path()).is_empty());
    fetch(&url, to.path(), &FolderOptions { max_objects: 4, ..FolderOptions::default() }).unwrap();
}

/// Answers PROPFIND with the `members` of a collection, if it exists; GET and HEAD with `ok`.
fn server(members: fn(&str) -> Option<String>) -> String {
    let (url, _log) = serve(move |method, path| match method {
        "PROPFIND" => {
            let open = "<D:multistatus xmlns:D=\"DAV:\">";
            let Some(members) = members(path) else { return (404, Vec::new()) };
            (207, format!("{open}{}{members}</D:multistatus>", entry(path, true)).into_bytes())
        }
        _ => (200, b"ok".to_vec()),
    });
    format!("{url}/d")
}

fn entry(href: &str, collection: bool) -> String {
    let kind = if collection { "<D:resourcetype><D:collection/></D:resourcetype>" } else { "" };
    let len = if collection { "" } else { "<D:getcontentlength>2</D:getcontentlength>" };
    format!(
        "<D:response><D:href>{href}</D:href><D:propstat><D:prop>{kind}{len}</D:prop>\
         <D:status>HTTP/1.1 200 OK</D:status></D:propstat></D:response>"
    )
}

#[test]
fn names_that_lead_astray_are_refused_and_the_others_come() {
    let hostile = |path: &str| {
        let names = [
            "/d/good",
            "/d/../up",
            "/d/%2e%2e",
            "/d/..%2Fup",
            "/d/a%5Cb",
            "/d/%00",
            "/etc/passwd",
            "/d/.gular-tmp-fetch-good",
        ];
        let all = || names.into_iter().map(|name| entry(name, false)).collect::<String>();
        (path == "/d").then(all)
    };
    let root = tempfile::tempdir().unwrap();
    let to = root.path().join("a/b/c");
    let report = fetch(&server(hostile), &to, &FolderOptions::default()).unwrap();
    assert_eq!(failed(&report), [".gular-tmp-fetch-good", "/"]);
    assert!(
        matches!(report.failed[1].error, Error::UnsafeNames { names: 6, .. }),
        "{:?}",
        report.failed
    );
    assert_eq!(names(root.path()), [to.join("good")]);
    assert_eq!((report.report.fetched, report.report.by_length), (1, 1));
}

#[test]
fn collections_without_an_end_end() {
    let deeper = |path: &str| Some(entry(&format!("{}/x/", path.trim_end_matches('/')), true));
    let to = tempfile::tempdir().unwrap();
    let error = fetch(&server(deeper), to.path(), &FolderOptions::default()).unwrap_err();
    assert!(matches!(error, Error::TooDeep { .. }), "{error}");
    let wider = |path: &str| {
        let path = path.trim_end_matches('/');
        Some(["x", "y"].map(|name| entry(&format!("{path}/{name}/"), true)).concat())
    };
    let few = FolderOptions { max_objects: 100, ..FolderOptions::default() };
    let error = fetch(&server(wider), to.path(), &few).unwrap_err();
    assert!(matches!(error, Error::TooMany { limit: 100, .. }), "{error}");
}

/// A folder of `n` files, and a federation where it can be published, with what a client needs.
fn federation(
    n: usize,
    options: impl Fn(&mut Options),
) -> (Vec<tempfile::TempDir>, Federation, Env) {
    let (from, dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for i in 0..n {
        fs::write(from.path().join(format!("{i}.bin")), i.to_string()).unwrap();
    }
    let mut all = Options::new(dir.path());
    options(&mut all);
    let federation = Federation::start(&all).unwrap();
    let all = || vec!["/".to_owned()];
    let request = TokenRequest { read: all(), create: all(), ..TokenRequest::default() };
    let token = mint(dir.path(), &request).unwrap();
    let token_file = dir.path().join("token");
    fs::write(&token_file, token.secret()).unwrap();
    let env = Env::from_pairs(&[
        ("SSL_CERT_FILE", federation.ca_file().to_str().unwrap()),
        ("BEARER_TOKEN_FILE", token_file.to_str().unwrap()),
    ]);
    (vec![from, dir], federation, env)
}

/// The server counts the requests.
#[test]
fn a_listing_spares_the_questions_for_each_object() {
    const FILES: usize = 20;
    let (dirs, federation, env) = federation(FILES, |_| ());
    let from = &dirs[0];
    let url = Url::parse(&format!("{}/files", federation.url())).unwrap();
    let watch = Watch::never();
    let publish = |compare_by| {
        let before = federation.counts().requests;
        let options = FolderOptions { compare_by, ..FolderOptions::default() };
        let client = Client::new(ClientOptions::new(env.clone())).unwrap();
        let done = publish_folder(&client, from.path(), &url, &options, &|_| (), watch).unwrap();
        assert!(done.failed.is_empty(), "{done:?}");
        let requests = usize::try_from(federation.counts().requests - before).unwrap();
        (done.report.uploaded, done.report.identical, requests)
    };
    // A listing, and for each file PUT and its checksum.
    assert_eq!(publish(CompareBy::Bytes), (FILES, 0, 2 * FILES + 1));
    assert_eq!(publish(CompareBy::Bytes), (0, FILES, FILES + 1));
    assert_eq!(publish(CompareBy::Size), (0, FILES, 1));
}

/// The server counts the requests.
#[test]
fn where_listings_tell_checksums_a_finished_folder_costs_a_listing() {
    const FILES: usize = 40;
    let (dirs, federation, env) = federation(FILES, |options| options.lists_checksums = true);
    let url = Url::parse(&format!("{}/files", federation.url())).unwrap();
    let client = || Client::new(ClientOptions::new(env.clone())).unwrap();
    let counted = |work: &mut dyn FnMut()| {
        let before = federation.counts().requests;
        work();
        usize::try_from(federation.counts().requests - before).unwrap()
    };
    let (options, watch) = (FolderOptions::default(), Watch::never());
    let from = dirs[0].path();
    let mut identical = 0;
    let mut publish = || {
        let done = publish_folder(&client(), from, &url, &options, &|_| (), watch).unwrap();
        assert!(done.failed.is_empty(), "{done:?}");
        assert_eq!(done.report.by_length, 0);
        identical = done.report.identical;
    };
    counted(&mut publish);
    assert_eq!(counted(&mut publish), 1);
    assert_eq!(identical, FILES);

    let to = tempfile::tempdir().unwrap();
    let mut kept = 0;
    let mut fetch = || {
        let done = fetch_folder(&client(), &url, to.path(), &options, watch).unwrap();
        assert!(done.failed.is_empty(), "{done:?}");
        assert_eq!(done.report.by_length, 0);
        kept = done.report.kept;
    };
    counted(&mut fetch);
    assert_eq!(counted(&mut fetch), 1);
    assert_eq!(kept, FILES);

    // A file that differs is found, and the server has the last word.
    fs::write(to.path().join("7.bin"), "8").unwrap();
    let done = fetch_folder(&client(), &url, to.path(), &options, watch).unwrap();
    assert_eq!(failed(&done), ["7.bin"]);
    fs::write(from.join("7.bin"), "9").unwrap();
    let done = publish_folder(&client(), from, &url, &options, &|_| (), watch).unwrap();
    let names: Vec<_> = done.failed.iter().map(|failed| failed.name.as_str()).collect();
    assert_eq!(names, ["7.bin"]);
}
