//! Which servers see a token. A token that was found is sent only to servers of a federation, for a
//! namespace that trusts its issuer; a token that the user named is sent where the user said.

use std::time::{Duration, Instant, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use gular_pelican::{Client, CompareBy, Error, IfTaken, Upload, Url, Watch};

use crate::server::{Head, Server, Talk, client_named, client_told, client_with};

pub(crate) const ISSUER: &str = "https://issuer.example";

/// A token of that issuer, of no use to anybody.
fn token(issuer: &str) -> String {
    token_with(&format!(r#"{{"iss":"{issuer}","scope":"storage.read:/ storage.create:/"}}"#))
}

/// Returns a token with these claims.
pub(crate) fn token_with(claims: &str) -> String {
    let part = |text: &str| URL_SAFE_NO_PAD.encode(text);
    format!("{}.{}.c2lnbmF0dXJl", part(r#"{"alg":"ES256"}"#), part(claims))
}

pub(crate) fn has_token(head: &Head) -> bool {
    head.raw.to_ascii_lowercase().contains("authorization")
}

/// A federation: discovery over TLS, a director, and one server that is cache and origin. All of
/// them record their requests.
pub(crate) struct Federation {
    discovery: Server,
    director: Server,
    pub(crate) storage: Server,
    /// The server that reads of the origin are sent to, if it is another one.
    pub(crate) origin: Option<Server>,
}

impl Federation {
    /// Starts a federation whose namespace trusts `issuer`; with `strict` its director refuses
    /// requests without a token.
    fn start(issuer: Option<&str>, strict: bool) -> Self {
        let storage = Server::start(|talk, head| {
            if has_token(head) {
                talk.answer("200 OK", "", b"data");
            } else {
                talk.answer("403 Forbidden", "Connection: Close\r\n", b"permission denied");
            }
            has_token(head)
        });
        Self::of(storage, issuer, strict)
    }

    pub(crate) fn of(storage: Server, issuer: Option<&str>, strict: bool) -> Self {
        Self::with_origin(storage, None, issuer, strict)
    }

    pub(crate) fn with_origin(
        storage: Server,
        origin: Option<Server>,
        issuer: Option<&str>,
        strict: bool,
    ) -> Self {
        let to = storage.url.clone();
        let direct = origin.as_ref().map_or(to.clone(), |origin| origin.url.clone());
        let issuer = issuer.map(|issuer| format!("X-Pelican-Authorization: issuer={issuer}\r\n"));
        let director = Server::start(move |talk, head| {
            let namespace = format!(
                "X-Pelican-Namespace: namespace=/ns, require-token=true, collections-url={to}\r\n{}",
                issuer.as_deref().unwrap_or_default()
            );
            let at = if head.target.contains("directread") { &direct } else { &to };
            let link =
                format!("Link: <{at}{}>; rel=\"duplicate\"; pri=1; depth=1\r\n", head.path());
            if strict && !has_token(head) {
                talk.answer("401 Unauthorized", &namespace, b"");
            } else {
                talk.answer("307 Temporary Redirect", &format!("{namespace}{link}"), b"");
            }
            true
        });
        let to = director.url.clone();
        let discovery = Server::start_tls(move |talk, _| {
            talk.answer("200 OK", "", format!("{{\"director_endpoint\": \"{to}\"}}").as_bytes());
            true
        });
        Self { discovery, director, storage, origin }
    }

    pub(crate) fn url(&self) -> Url {
        Url::parse(&format!("{}/ns/x", self.discovery.url.replace("https", "pelican"))).unwrap()
    }

    pub(crate) fn trust(&self) -> (&str, &str) {
        ("SSL_CERT_FILE", self.discovery.certificate())
    }

    /// How many requests to the director and to the storage had a token, and how many had none.
    fn seen(&self) -> [(usize, usize); 2] {
        assert!(!self.discovery.heads().iter().any(has_token), "discovery is open to all");
        [&self.director, &self.storage].map(|server| {
            let heads = server.heads();
            let with = heads.iter().filter(|head| has_token(head)).count();
            (with, heads.len() - with)
        })
    }
}

fn read(client: &Client, url: &Url) -> Result<Vec<u8>, Error> {
    client.read(url, 1000, &|_| Ok(()), Watch::never())
}

/// Makes every kind of request, and returns the errors.
fn do_all(client: &Client, url: &Url) -> Vec<String> {
    let watch = Watch::never();
    let file = tempfile::NamedTempFile::new().unwrap();
    let upload = Upload {
        from: file.path(),
        to: url,
        if_taken: IfTaken::Refuse,
        listed: gular_pelican::Listed::Absent,
        compare_by: CompareBy::Bytes,
    };
    [
        read(client, url).map(drop),
        read(client, &url.direct()).map(drop),
        client.stat(url, watch).map(drop),
        client.list(url, watch).map(drop),
        client.upload(&upload, false, watch).map(drop),
    ]
    .map(|result| result.unwrap_err().to_string())
    .into()
}

#[test]
fn a_token_that_was_found_is_kept_from_a_namespace_that_does_not_name_its_issuer() {
    let foreign = token("https://elsewhere.example");
    for (secret, issuer, why) in [
        (foreign.as_str(), Some(ISSUER), "it was issued by `https://elsewhere.example`"),
        (foreign.as_str(), None, "it is not known whether its issuer is trusted there"),
        ("opaque-secret", Some(ISSUER), "it does not say who issued it"),
        ("opaque-secret", None, "it is not known whether its issuer is trusted there"),
    ] {
        for strict in [false, true] {
            let federation = Federation::start(issuer, strict);
            let client = client_with(&[federation.trust(), ("BEARER_TOKEN", secret)]);
            let errors = do_all(&client, &federation.url());
            for error in &errors {
                let told = error.contains("the token from `BEARER_TOKEN` was not sent: ");
                assert!(told && error.contains(why) && !error.contains(secret), "{error}");
            }
            let [director, storage] = federation.seen();
            assert_eq!((director.0, storage.0), (0, 0), "{issuer:?} {strict}");
            assert!(director.1 > 0 && (strict || storage.1 > 0), "nobody was asked");
        }
    }
}

#[test]
fn a_token_that_was_found_goes_to_a_namespace_that_trusts_its_issuer() {
    for strict in [false, true] {
        let federation = Federation::start(Some(ISSUER), strict);
        let env = [federation.trust(), ("BEARER_TOKEN", &token(ISSUER))];
        assert_eq!(read(&client_with(&env), &federation.url()).unwrap(), b"data");
        // The director is asked without, and gets it when it names an issuer whose token
        // its namespace wants: only then does it look which servers have the object.
        assert_eq!(federation.seen(), [(1, 1), (1, 0)]);
    }
}

/// Claims of a token that reads and ends in so many seconds.
fn ending_in(seconds: u64, id: u32) -> String {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    let end = now + seconds;
    token_with(&format!(
        r#"{{"iss":"{ISSUER}","scope":"storage.read:/","exp":{end},"jti":"{id}"}}"#
    ))
}

/// A federation whose storage takes this token alone, and one that is told of it in a file.
fn takes_only(fresh: &str) -> Federation {
    let bearer = format!("Bearer {fresh}");
    let storage = Server::start(move |talk, head| {
        match head.exact("Authorization") == Some(bearer.as_str()) {
            true => talk.answer("200 OK", "", b"data"),
            false => talk.answer("401 Unauthorized", "", b"token has expired"),
        }
        true
    });
    Federation::of(storage, Some(ISSUER), false)
}

#[test]
fn a_token_that_ends_while_we_read_is_waited_for_in_its_file() {
    // A token with so little time left counts as expired.
    let (old, fresh) = (ending_in(8, 1), ending_in(3600, 2));
    let federation = takes_only(&fresh);
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), &old).unwrap();
    let path = file.path().to_str().unwrap();
    let (client, told) = client_told(&[federation.trust(), ("BEARER_TOKEN_FILE", path)]);
    let data = std::thread::scope(|scope| {
        scope.spawn(|| {
            let begun = Instant::now();
            while told.lock().unwrap().is_empty() && begun.elapsed() < Duration::from_secs(10) {
                std::thread::sleep(Duration::from_millis(20));
            }
            std::fs::write(path, &fresh).unwrap();
        });
        read(&client, &federation.url()).unwrap()
    });
    assert_eq!(data, b"data");
    assert_eq!(federation.seen()[1], (1, 0), "the old one was sent");
    let told = told.lock().unwrap();
    assert!(told.len() == 1 && told[0].contains("waiting up to 12 s for a new one"), "{told:?}");
}

#[test]
fn a_token_that_was_renewed_since_it_was_read_is_read_again() {
    let (old, fresh) = (ending_in(3600, 1), ending_in(3600, 2));
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), &old).unwrap();
    let path = file.path().to_str().unwrap().to_owned();
    let (renewed, bearer) = (path.clone(), format!("Bearer {fresh}"));
    let storage = Server::start(move |talk, head| {
        if head.exact("Authorization") == Some(bearer.as_str()) {
            talk.answer("200 OK", "", b"data");
        } else {
            // The issuer has revoked it, and whoever keeps the file has seen that first.
            std::fs::write(&renewed, &fresh).unwrap();
            talk.answer("401 Unauthorized", "", b"revoked");
        }
        true
    });
    let federation = Federation::of(storage, Some(ISSUER), false);
    let client = client_with(&[federation.trust(), ("BEARER_TOKEN_FILE", &path)]);
    assert_eq!(read(&client, &federation.url()).unwrap(), b"data");
    assert_eq!(federation.storage.heads().len(), 2);
}

#[test]
fn a_token_that_the_user_named_goes_where_the_user_said() {
    let federation = Federation::start(None, true);
    let (client, _token) = client_named("opaque-secret", &[federation.trust()]);
    assert_eq!(read(&client, &federation.url()).unwrap(), b"data");
    assert_eq!(federation.seen()[1], (1, 0));
}

fn ask_for_a_token(talk: &mut Talk, head: &Head) -> bool {
    if has_token(head) {
        talk.answer("200 OK", "", b"data");
    } else {
        talk.answer("401 Unauthorized", "WWW-Authenticate: Bearer\r\n", b"");
    }
    true
}

#[test]
fn an_https_server_sees_only_the_token_that_the_user_named() {
    for (server, is_tls) in
        [(Server::start_tls(ask_for_a_token), true), (Server::start(ask_for_a_token), false)]
    {
        let trust = is_tls.then(|| ("SSL_CERT_FILE", server.certificate()));
        let trust: Vec<_> = trust.into_iter().collect();
        for secret in [token(ISSUER), "opaque-secret".to_owned()] {
            let mut env = trust.clone();
            env.push(("BEARER_TOKEN", &secret));
            for error in do_all(&client_with(&env), &server.url("/x")) {
                assert!(error.contains("was not sent") && !error.contains(&secret), "{error}");
            }
            assert!(!server.heads().iter().any(has_token), "{is_tls}");
        }
        let (client, _token) = client_named("opaque-secret", &trust);
        assert_eq!(read(&client, &server.url("/x")).unwrap(), b"data");
    }
}

#[test]
fn a_server_without_a_director_says_itself_whose_tokens_it_takes() {
    let server = Server::start(|talk, _| {
        let told = "X-Pelican-Namespace: namespace=/ns, require-token=true\r\n\
                    X-Pelican-Authorization: issuer=https://issuer.example\r\n";
        talk.answer("403 Forbidden", told, b"");
        true
    });
    let (client, _token) = client_named(&token("https://elsewhere.example"), &[]);
    for error in do_all(&client, &server.url("/ns/x")).iter().take(4) {
        let names = ["https://issuer.example", "https://elsewhere.example"];
        assert!(names.iter().all(|issuer| error.contains(issuer)), "{error}");
    }
}

#[test]
fn a_named_token_is_sent_in_plain_text_to_this_machine_alone() {
    // The answer leads away over plain HTTP, which is not followed with a token.
    let other = Server::start(ask_for_a_token);
    let to = other.url.replace("127.0.0.1", "127.0.0.2");
    let server = Server::start(move |talk, _| {
        talk.answer("302 Found", &format!("Location: {to}/x\r\n"), b"");
        true
    });
    let (client, _token) = client_named("opaque-secret", &[]);
    assert!(read(&client, &server.url("/x")).is_err());
    assert!(!other.heads().iter().any(has_token));
}
