//! Proxies as sites have them: a Squid that allows connections only to port 443, one that is down,
//! and one that is the only way out.

use gular_pelican::{Client, Error, Url, Watch};

use crate::federation::{Federation, nobody};
use crate::server::{Head, Server, Talk, client_with};

fn read(client: &Client, url: &Url) -> Result<Vec<u8>, Error> {
    client.read(url, 1000, &|_| Ok(()), Watch::never())
}

fn data(talk: &mut Talk, _: &Head) -> bool {
    talk.answer("200 OK", "", b"data");
    true
}

/// Squid's answer to a request that its rules forbid.
fn forbid(talk: &mut Talk, _: &Head) -> bool {
    talk.answer("403 Forbidden", "Server: squid/5.7\r\nConnection: close\r\n", b"");
    talk.close();
    false
}

/// Returns the server's URL with an address for which proxies are used.
fn far(url: &str) -> String {
    url.replace("localhost", "0.0.0.0").replace("127.0.0.1", "0.0.0.0")
}

fn far_url(federation: &Federation) -> Url {
    Url::parse(&far(&federation.url("/ns/x").to_string())).unwrap()
}

#[test]
fn caches_are_reached_past_a_proxy_that_forbids_them() {
    let cache = Server::start_tls(data);
    let federation = Federation::of(&[&far(&cache.url)], &[]);
    let trust = format!(
        "{}{}",
        std::fs::read_to_string(federation.discovery.certificate()).unwrap(),
        std::fs::read_to_string(cache.certificate()).unwrap()
    );
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), trust).unwrap();
    let proxy = Server::start(forbid);
    let env =
        [("SSL_CERT_FILE", file.path().to_str().unwrap()), ("HTTPS_PROXY", proxy.url.as_str())];
    let client = client_with(&env);
    assert_eq!(read(&client, &far_url(&federation)).unwrap(), b"data");
    // Discovery goes through the proxy, and past it when that refuses; the cache does not.
    let asked: Vec<_> = proxy.heads().iter().map(|head| head.target.clone()).collect();
    assert_eq!(asked, [far(&federation.discovery.url).replace("https://", "")]);
    // Each server is known by now.
    assert_eq!(read(&client, &far_url(&federation)).unwrap(), b"data");
    assert_eq!(proxy.heads().len(), 1);
}

#[test]
fn a_cache_that_cannot_be_reached_directly_is_reached_by_the_proxy() {
    let proxy = Server::start(|talk, head| {
        assert_eq!(head.target, "http://cache.invalid:8000/ns/x");
        data(talk, head)
    });
    let federation = Federation::of(&["http://cache.invalid:8000"], &[]);
    let [trust] = federation.env();
    let client = client_with(&[trust, ("http_proxy", &proxy.url)]);
    for _ in 0..2 {
        assert_eq!(read(&client, &federation.url("/ns/x")).unwrap(), b"data");
    }
}

#[test]
fn a_proxy_that_fails_is_gone_around() {
    let server = Server::start(data);
    let url = Url::parse(&format!("{}/x", far(&server.url))).unwrap();
    for (status, asked) in [("503 Service Unavailable", 1), ("403 Forbidden", 1)] {
        let proxy = Server::start(move |talk, _| {
            talk.answer(status, "Via: 1.1 squid\r\n", b"");
            true
        });
        let client = client_with(&[("http_proxy", &proxy.url)]);
        for _ in 0..2 {
            assert_eq!(read(&client, &url).unwrap(), b"data");
        }
        assert_eq!(proxy.heads().len(), asked, "{status}");
    }
    let client = client_with(&[("http_proxy", &nobody())]);
    assert_eq!(read(&client, &url).unwrap(), b"data");
}

#[test]
fn an_error_names_the_proxy_and_the_way_past_it() {
    let proxy = Server::start(forbid);
    let env = [("HTTPS_PROXY", proxy.url.as_str())];
    let client = client_with(&env);
    let url = Url::parse(&format!("{}/x", far(&nobody()).replace("http", "https"))).unwrap();
    let error = read(&client, &url).unwrap_err();
    let said = error.to_string();
    let words = "Connection refused (os error 111); proxy 127.0.0.1:";
    assert!(said.contains(words) && said.contains("`HTTP/1.1 403 Forbidden`"), "{said}");
    assert!(error.hint().unwrap().contains("NO_PROXY"), "{:?}", error.hint());
    assert!(!proxy.heads().is_empty());
}
