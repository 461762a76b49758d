//! A real Squid, with the rules of Debian's package: CONNECT only to port 443, and everything else
//! forwarded.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use gular_pelican::{Url, Watch};
use tempfile::TempDir;

use crate::federation::answer;
use crate::server::{Server, client_with};

const SETTINGS: &str = "/etc/squid/squid.conf";

struct Squid {
    process: Child,
    url: String,
    _dir: TempDir,
}

impl Squid {
    /// Starts Squid; `None` if it is not installed.
    fn start() -> Option<Self> {
        let rules = fs::read_to_string(SETTINGS).ok()?;
        let dir = tempfile::tempdir().unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let rules =
            rules.lines().filter(|l| l.starts_with("acl ") || l.starts_with("http_access "));
        let own = [
            format!("http_port 127.0.0.1:{port}"),
            format!("pid_filename {}", dir.path().join("pid").display()),
            format!("coredump_dir {}", dir.path().display()),
            "access_log none".to_owned(),
            "cache_log /dev/null".to_owned(),
            "cache_store_log none".to_owned(),
            "pinger_enable off".to_owned(),
        ];
        let text: Vec<&str> = rules.chain(own.iter().map(String::as_str)).collect();
        let settings = dir.path().join("squid.conf");
        fs::write(&settings, text.join("\n") + "\n").unwrap();
        let program = ["squid", "/usr/sbin/squid"].into_iter().find(|program| {
            let version = Command::new(program).arg("-v").stdout(Stdio::null()).status();
            version.is_ok_and(|status| status.success())
        })?;
        let process = Command::new(program)
            .args(["-N", "-f"])
            .arg(&settings)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let begun = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(begun.elapsed() < Duration::from_secs(60), "squid does not start");
            std::thread::sleep(Duration::from_millis(100));
        }
        Some(Self { process, url: format!("http://127.0.0.1:{port}"), _dir: dir })
    }
}

impl Drop for Squid {
    fn drop(&mut self) {
        let _ = self.process.kill().and_then(|()| self.process.wait());
    }
}

#[test]
fn squid_with_its_default_rules_stands_in_nobodys_way() {
    let Some(squid) = Squid::start() else {
        eprintln!("skipped: squid is missing, which shows that proxies are used as sites set them");
        return;
    };
    // With this address, the client does not recognise the servers as this machine.
    let far = |url: &str| url.replace("localhost", "0.0.0.0").replace("127.0.0.1", "0.0.0.0");
    let cache = Server::start_tls(|talk, _| {
        talk.answer("200 OK", "", b"data");
        true
    });
    let to = far(&cache.url);
    let director = Server::start(move |talk, head| {
        answer(talk, head, "require-token=false", std::slice::from_ref(&to));
        true
    });
    let to = far(&director.url);
    let discovery = Server::start_tls(move |talk, _| {
        talk.answer("200 OK", "", format!("{{\"director_endpoint\": \"{to}\"}}").as_bytes());
        true
    });
    let trust = tempfile::NamedTempFile::new().unwrap();
    let certificates = [&cache, &discovery].map(|s| fs::read_to_string(s.certificate()).unwrap());
    fs::write(trust.path(), certificates.concat()).unwrap();
    let client = client_with(&[
        ("SSL_CERT_FILE", trust.path().to_str().unwrap()),
        ("https_proxy", &squid.url),
        ("http_proxy", &squid.url),
    ]);
    let url = Url::parse(&far(&discovery.url.replace("https", "pelican"))).unwrap();
    let url = url.join("ns/x").unwrap();
    let read = client.read(&url, 100, &|_| Ok(()), Watch::never());
    assert_eq!(read.unwrap(), b"data");
    // The director speaks plain HTTP here, which Squid forwards.
    let heads = director.heads();
    assert!(heads.iter().all(|head| head.exact("Via").is_some()), "{heads:?}");
    assert_eq!((discovery.heads().len(), cache.heads().len()), (1, 1));
}
