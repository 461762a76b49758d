//! Discovery and directors: how they are asked, and which of their answers are cached.

use std::io::Write as _;
use std::time::Duration;

use gular_pelican::{Client, Error, Reach, Url, Watch};
use tempfile::NamedTempFile;

use crate::federation::{Federation, answer};
use crate::server::{Head, Server, Talk, client_told, client_with};

fn read(client: &Client, url: &Url) -> Result<Vec<u8>, Error> {
    client.read(url, 1000, &|_| Ok(()), Watch::never())
}

fn data(talk: &mut Talk, _: &Head) -> bool {
    talk.answer("200 OK", "", b"data");
    true
}

/// Writes a file with the certificates of all these servers.
fn trust(servers: &[&Server]) -> NamedTempFile {
    let mut file = NamedTempFile::new().unwrap();
    for server in servers {
        file.write_all(&std::fs::read(server.certificate()).unwrap()).unwrap();
    }
    file
}

#[test]
fn discovery_follows_redirects_over_tls_alone_and_without_a_token() {
    let cache = Server::start(data);
    let federation = Federation::of(&[&cache.url], &[]);
    let to = federation.discovery.url.clone();
    let apex = Server::start_tls(move |talk, head| {
        talk.answer("301 Moved", &format!("Location: {to}{}\r\n", head.path()), b"");
        true
    });
    let plain = Server::start(data);
    let to = plain.url.clone();
    let unsafe_one = Server::start_tls(move |talk, head| {
        talk.answer("302 Found", &format!("Location: {to}{}\r\n", head.path()), b"");
        true
    });
    let round = Server::start_tls(|talk, head| {
        talk.answer("302 Found", &format!("Location: {}\r\n", head.path()), b"");
        true
    });
    let closed = Server::start_tls(|talk, _| {
        talk.answer("410 Gone", "", b"");
        true
    });
    let trust = trust(&[&federation.discovery, &apex, &unsafe_one, &round, &closed]);
    let env = [("SSL_CERT_FILE", trust.path().to_str().unwrap()), ("BEARER_TOKEN", "secret")];
    let client = client_with(&env);
    let at =
        |server: &Server| Url::parse(&format!("{}/ns/x", server.url.replace("https", "pelican")));
    assert_eq!(read(&client, &at(&apex).unwrap()).unwrap(), b"data");
    let check = |server: &Server, words: &str, asked: usize| {
        let error = read(&client, &at(server).unwrap()).unwrap_err();
        assert!(matches!(error, Error::Discovery { passes: false, .. }), "{error}");
        assert!(error.to_string().contains(words), "{error}");
        assert_eq!(server.heads().len(), asked, "{words}");
    };
    check(&unsafe_one, "does not redirect to an https URL", 1);
    check(&round, "answers 302", 6);
    check(&closed, "it is not the discovery host of a federation (410)", 1);
    assert!(plain.heads().is_empty());
    for server in [&apex, &federation.discovery] {
        assert!(server.heads().iter().all(|head| !head.raw.contains("secret")));
    }
}

#[test]
fn many_threads_that_begin_together_ask_once() {
    let cache = Server::start(data);
    let to = cache.url.clone();
    let federation = Federation::start(move |talk, head| {
        // The pause lets all threads ask for the same director.
        std::thread::sleep(Duration::from_millis(300));
        answer(talk, head, "require-token=false", std::slice::from_ref(&to));
        true
    });
    let client = client_with(&federation.env());
    std::thread::scope(|scope| {
        for number in 0..8 {
            let (client, url) = (&client, federation.url(&format!("/ns/{number}")));
            scope.spawn(move || assert_eq!(read(client, &url).unwrap(), b"data"));
        }
    });
    assert_eq!((federation.discovery.heads().len(), federation.director.heads().len()), (1, 1));
    assert_eq!(cache.heads().len(), 8);
}

#[test]
fn what_holds_for_one_object_is_asked_anew_when_it_does_not_for_another() {
    let only = |path: &'static str| {
        Server::start(move |talk, head| {
            match head.path() == path {
                true => talk.answer("200 OK", "", b"data"),
                false => talk.answer("404 Not Found", "", b"no such file"),
            }
            true
        })
    };
    let (one, other) = (only("/ns/x"), only("/ns/y"));
    let (to_one, to_other) = (one.url.clone(), other.url.clone());
    let federation = Federation::start(move |talk, head| {
        let place = if head.path() == "/ns/x" { &to_one } else { &to_other };
        answer(talk, head, "require-token=false", std::slice::from_ref(place));
        true
    });
    let client = client_with(&federation.env());
    assert_eq!(read(&client, &federation.url("/ns/x").direct()).unwrap(), b"data");
    assert_eq!(read(&client, &federation.url("/ns/y").direct()).unwrap(), b"data");
    assert_eq!(federation.director.heads().len(), 2);
    // No server has this object, so asking for it ends.
    let error = read(&client, &federation.url("/ns/z").direct()).unwrap_err();
    assert!(matches!(error, Error::NotFound { .. }), "{error}");
    assert_eq!(federation.director.heads().len(), 3);
}

#[test]
fn operators_find_a_run_by_its_id_and_its_project() {
    let mut ad = NamedTempFile::new().unwrap();
    ad.write_all(b"Owner = \"me\"\nProjectName = \"Lab_Birds\"\n").unwrap();
    let cache = Server::start(|talk, _| {
        talk.answer("503 Service Unavailable", "", b"busy");
        true
    });
    let federation = Federation::of(&[&cache.url], &[]);
    let [trust] = federation.env();
    let client = client_with(&[trust, ("_CONDOR_JOB_AD", ad.path().to_str().unwrap())]);
    let error = read(&client, &federation.url("/ns/x")).unwrap_err().to_string();
    let id = federation.director.heads()[0].exact("X-Pelican-Jobid").unwrap().to_owned();
    assert!(id.len() == 36 && error.contains(&format!("X-Pelican-JobId {id}")), "{error}");
    for head in cache.heads() {
        assert_eq!(head.exact("X-Pelican-Jobid"), Some(id.as_str()));
        assert!(head.exact("User-Agent").unwrap().ends_with(" project/Lab_Birds"), "{}", head.raw);
        // A quarter of the client's 4 s, less half a second.
        assert_eq!(head.exact("X-Pelican-Timeout"), Some("0.5s"));
    }
}

#[test]
fn a_node_of_a_cluster_gets_the_token_of_its_own_site_or_none() {
    let serve = |with: bool| {
        Server::start(move |talk, head| {
            let has = head.exact("Authorization").is_some();
            match has == with {
                true => talk.answer("200 OK", "", b"data"),
                false => talk.answer("403 Forbidden", "", b"wrong token"),
            }
            true
        })
    };
    // One server is on the same host with another port; the other is elsewhere, and has a token in
    // its URL.
    let (node, elsewhere) = (serve(true), serve(false));
    let to = [
        format!("{}/ns/x", node.url),
        format!("{}/ns/x?authz=own", elsewhere.url.replace("127.0.0.1", "localhost")),
    ];
    for to in to {
        let location = to.clone();
        let door = Server::start(move |talk, _| {
            talk.answer("302 Found", &format!("Location: {location}\r\n"), b"");
            true
        });
        let door_url = door.url.clone();
        let federation = Federation::start(move |talk, head| {
            answer(talk, head, "require-token=true", std::slice::from_ref(&door_url));
            true
        });
        let (client, _file) = crate::server::client_named("secret", &federation.env());
        assert_eq!(read(&client, &federation.url("/ns/x")).unwrap(), b"data", "{to}");
    }
}

#[test]
fn only_preferred_caches_are_asked_when_nothing_else_is_said() {
    let (preferred, other, origin) =
        (Server::start(without), Server::start(data), Server::start(data));
    let federation = Federation::of(&[&other.url, &preferred.url], &[&origin.url]);
    let [trust] = federation.env();
    let name = "PELICAN_CLIENT_PREFERREDCACHES";
    let only = client_with(&[trust, (name, &format!("'{}'", preferred.url))]);
    let error = read(&only, &federation.url("/ns/x")).unwrap_err();
    assert!(matches!(error, Error::NotFound { .. }), "{error}");
    assert!(other.heads().is_empty() && origin.heads().is_empty());
    assert_eq!(federation.asked_for_origin(), 0);
    // With `+`, other servers follow; one that the director also names is asked once.
    let with_others = client_with(&[trust, (name, &format!("{} +", preferred.url))]);
    let n = preferred.heads().len();
    assert_eq!(read(&with_others, &federation.url("/ns/x")).unwrap(), b"data");
    assert_eq!((preferred.heads().len() - n, other.heads().len()), (1, 1));
}

#[test]
fn preferred_caches_serve_verified_bytes_without_a_director() {
    let cache = Server::start(data);
    let name = "PELICAN_CLIENT_PREFERREDCACHES";
    for list in [cache.url.clone(), format!("{} +", cache.url)] {
        let federation = Federation::of(&[], &[]);
        let url = federation.url("/ns/x");
        let [(trust, certificate)] = federation.env();
        let client = client_with(&[(trust, certificate), (name, &list)]);
        // Discovery and director are gone before the first question.
        let Federation { discovery, director } = federation;
        drop(director);
        let read = |verified: bool| {
            let watch = Watch::never();
            match verified {
                true => client.read_verified(&url, 1000, &|_| Ok(()), watch),
                false => client.read(&url, 1000, &|_| Ok(()), watch),
            }
        };
        assert_eq!(read(true).unwrap(), b"data", "{list}");
        // No digest covers these bytes, so only the director may name servers.
        assert!(list.ends_with('+') || read(false).is_err(), "{list}");
        drop(discovery);
    }
}

#[test]
fn a_namespace_without_an_origin_is_not_an_object_that_does_not_exist() {
    let federation = Federation::start(|talk, _| {
        let said = br#"{"status":"error","msg":"No sources found for the requested path: no origins found"}"#;
        talk.answer("404 Not Found", "Server: pelican/7.27.0\r\n", said);
        true
    });
    let client = client_with(&federation.env());
    let error = read(&client, &federation.url("/ns/x")).unwrap_err();
    assert!(matches!(error, Error::NoOrigin { .. }) && error.is_passing(), "{error}");
    assert!(!error.to_string().contains("does not exist"), "{error}");
    assert!(error.hint().unwrap().contains("digest"), "{error:?}");
}

/// The director says the same of both; the registry knows better, and is asked once.
#[test]
fn a_namespace_that_nobody_registered_is_not_one_whose_origin_is_away() {
    let director = Server::start(|talk, _| {
        let said = br#"{"status":"error","msg":"No sources found for the requested path"}"#;
        talk.answer("404 Not Found", "Server: pelican/7.27.0\r\n", said);
        true
    });
    let to = director.url.clone();
    let discovery = Server::start_tls(move |talk, head| {
        let host = head.exact("Host").unwrap();
        let json = match head.path() {
            "/api/v1.0/registry_ui/namespaces" => r#"[{"id": 1, "prefix": "/ns"}]"#.to_owned(),
            _ => format!(
                r#"{{"director_endpoint": "{to}", "namespace_registration_endpoint": "https://{host}/"}}"#
            ),
        };
        talk.answer("200 OK", "", json.as_bytes());
        true
    });
    let federation = Federation { discovery, director };
    let client = client_with(&federation.env());
    let error = read(&client, &federation.url("/sn/x")).unwrap_err();
    assert!(matches!(error, Error::NoNamespace { .. }) && !error.is_passing(), "{error}");
    assert!(error.to_string().contains("/sn/x") && error.reach() == Reach::All, "{error}");
    assert!(error.hint().unwrap().contains("`/ns`"), "{error:?}");
    let error = read(&client, &federation.url("/ns/x")).unwrap_err();
    assert!(matches!(error, Error::NoOrigin { .. }) && error.is_passing(), "{error}");
    assert_eq!(federation.discovery.heads().len(), 2, "discovery and registry, once each");
}

fn without(talk: &mut Talk, _: &Head) -> bool {
    talk.answer("404 Not Found", "", b"not here");
    true
}

#[test]
fn settings_that_pelican_accepts_stop_nothing() {
    let cache = Server::start(data);
    let federation = Federation::of(&[&cache.url], &[]);
    let [trust] = federation.env();
    let (client, told) = client_told(&[
        trust,
        ("PELICAN_CLIENT_PREFERREDCACHES", "\"unix:///run/cache.sock https://c/a/path +\""),
        ("https_proxy", "socks5h://proxy:1080"),
        ("http_proxy", "https://proxy:3129"),
    ]);
    assert_eq!(told.lock().unwrap().len(), 4, "{told:?}");
    assert_eq!(read(&client, &federation.url("/ns/x")).unwrap(), b"data");
}
