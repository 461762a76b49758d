//! How a refusal is explained, depending on the token's claims.

use super::super::Token;
use super::super::claims::tests::jwt;
use super::*;

const NOW: u64 = 1_000_000;
const WLCG: &str = r#""wlcg.ver":"1.0","aud":"https://wlcg.cern.ch/jwt/v1/any""#;
const SCI: &str = r#""ver":"scitoken:2.0","aud":"ANY""#;

fn namespace() -> Namespace {
    Namespace {
        prefix: "/ns".into(),
        collections_url: Some("https://origin:8443".into()),
        issuers: vec!["https://iss".into(), "https://other/".into()],
        base_paths: vec!["/ns".into()],
        ..Namespace::default()
    }
}

fn judge_token(token: Token, want: &Want<'_>) -> Diagnosis {
    let from = "`BEARER_TOKEN`".into();
    let found = Found { token, from, in_file: false, expires: None, doubt: None };
    judge(&found, want, SystemTime::UNIX_EPOCH + Duration::from_secs(NOW))
}

fn judge_in(payload: &str, action: Action, path: &str, namespace: &Namespace) -> Diagnosis {
    let want = Want { action, path, namespace: Some(namespace), token_name: None };
    let diagnosis = judge_token(jwt(payload), &want);
    let shown = diagnosis.to_string();
    assert!(!shown.contains('\n') && !shown.contains(jwt(payload).secret()), "{shown}");
    assert!(!shown.ends_with('.') && !diagnosis.hint().ends_with('.'));
    diagnosis
}

/// Checks that the diagnosis of a token with these claims begins, after its source, with this text;
/// if the text is empty, nothing must be wrong.
#[track_caller]
fn check(claims: &str, action: Action, path: &str, expected: &str) {
    let payload = format!(r#"{{"iss":"https://iss","exp":{},{claims}}}"#, NOW + 600);
    check_payload(&payload, action, path, expected);
}

#[track_caller]
fn check_payload(payload: &str, action: Action, path: &str, expected: &str) {
    let diagnosis = judge_in(payload, action, path, &namespace());
    if expected.is_empty() {
        assert_eq!(diagnosis.weight(), 0, "{diagnosis}");
        return;
    }
    let shown = diagnosis.to_string();
    let fault = shown.strip_prefix("the token from `BEARER_TOKEN` ").unwrap_or(&shown);
    assert!(fault.starts_with(expected), "{fault}\n{expected}");
}

#[test]
fn scopes_allow_what_their_profile_says() {
    use Action::{Create, Modify, Read};
    let scope = |profile: &str, scope: &str| format!(r#"{profile},"scope":"{scope}""#);
    for (profile, text, allowed) in [
        (WLCG, "storage.read:/", &[Read][..]),
        (WLCG, "storage.stage:/", &[Read]),
        (WLCG, "storage.create:/", &[Create]),
        (WLCG, "storage.modify:/", &[Create, Modify]),
        (WLCG, "storage.read:/ storage.create:/", &[Read, Create]),
        (SCI, "read:/", &[Read]),
        (SCI, "write:/", &[Create, Modify]),
        (SCI, "read write", &[Read, Create, Modify]),
        (WLCG, "openid offline_access", &[]),
        (WLCG, "", &[]),
    ] {
        for action in [Read, Create, Modify] {
            let fine = allowed.contains(&action);
            let expected = if fine { "" } else { "has no scope for" };
            check(&scope(profile, text), action, "/ns/x", expected);
        }
    }
    check(
        &scope(WLCG, "openid"),
        Create,
        "/ns/d/x",
        "has no scope for creating: expected `storage.create:/d/x`, found `openid`",
    );
}

#[test]
fn scope_names_belong_to_a_profile() {
    check(
        &format!(r#"{WLCG},"scope":"read:/ write:/""#),
        Action::Read,
        "/ns/x",
        "is a WLCG token and needs `storage.read:/x`, but has the scopes `read:/`, `write:/`",
    );
    check(
        &format!(r#"{SCI},"scope":"storage.modify:/""#),
        Action::Create,
        "/ns/x",
        "is a SciTokens token and needs `write:/x`, but has the scopes `storage.modify:/`",
    );
    // A token without a profile may write scopes in either way.
    check(r#""scope":"read:/""#, Action::Read, "/ns/x", "");
    check(r#""scope":"storage.read:/""#, Action::Read, "/ns/x", "");
}

#[test]
fn a_scope_covers_what_is_below_its_path() {
    let read = |path: &str| format!(r#"{WLCG},"scope":"storage.read:{path}""#);
    for path in ["/", "", "/d", "/d/", "/d/x"] {
        check(&read(path), Action::Read, "/ns/d/x", "");
    }
    for path in ["/e", "/d/x/y", "/d/xx"] {
        check(&read(path), Action::Read, "/ns/d/x", "does not cover the path: expected");
    }
    check(
        &read("/foo"),
        Action::Read,
        "/ns/foobar",
        "does not cover the path: expected `storage.read:/foobar` (relative to `/ns`), found \
         `storage.read:/foo`",
    );
}

#[test]
fn a_scope_that_repeats_the_namespace_is_named() {
    check(
        &format!(r#"{WLCG},"scope":"storage.create:/ns/d""#),
        Action::Create,
        "/ns/d/x",
        "has the scope `storage.create:/ns/d`, but a scope's path is relative to `/ns`: expected \
         `storage.create:/d`",
    );
    // There may be a collection of the same name below the namespace.
    check(&format!(r#"{WLCG},"scope":"storage.read:/ns""#), Action::Read, "/ns/ns/x", "");
}

#[test]
fn paths_count_from_the_base_path() {
    let payload = format!(r#"{{"iss":"https://iss",{WLCG},"scope":"storage.read:/d/e"}}"#);
    let judge_based = |bases: &[&str], path| {
        let base_paths = bases.iter().map(|base| (*base).to_owned()).collect();
        let namespace = Namespace { base_paths, ..namespace() };
        judge_in(&payload, Action::Read, path, &namespace).weight()
    };
    assert_eq!(judge_based(&["/ns/top"], "/ns/top/d/e/x"), 0);
    assert_eq!(judge_based(&["/ns/top"], "/ns/top/e/x"), 3);
    assert_eq!(judge_based(&["/ns", "/ns/top"], "/ns/top/d/e/x"), 0);
    assert_eq!(judge_based(&[], "/ns/d/e/x"), 0);
    assert_eq!(judge_based(&["/elsewhere"], "/ns/d/e"), 0);
    // The base of the paths is not known, so they cannot be wrong.
    let want = Want { action: Action::Read, path: "/q", namespace: None, token_name: None };
    assert_eq!(judge_token(jwt(&payload), &want).weight(), 0);
}

#[test]
fn times_are_checked_first() {
    let payload = |times: &str| format!(r#"{{{times},"iss":"https://no",{WLCG}}}"#);
    for (exp, expected) in [
        (NOW - 90, "expired 90 s ago"),
        (NOW - 600, "expired 10 min ago"),
        (NOW - 7200, "expired 2 h ago"),
        (NOW - 900_000, "expired 10 days ago"),
        (NOW + 9, "expires within 10 s"),
        (NOW + 10, "is issued by"),
    ] {
        let payload = payload(&format!(r#""exp":{exp}"#));
        check_payload(&payload, Action::Read, "/ns/x", expected);
    }
    let early = payload(&format!(r#""nbf":{}"#, NOW + 60));
    check_payload(&early, Action::Read, "/ns/x", "is not valid for another 60 s");
    let exact = payload(&format!(r#""nbf":{NOW}"#));
    check_payload(&exact, Action::Read, "/ns/x", "is issued by");
}

#[test]
fn issuers_are_compared() {
    let payload = |issuer: &str| format!(r#"{{{issuer}{WLCG},"scope":"storage.read:/"}}"#);
    let trusts = "the namespace trusts `https://iss`, `https://other/`";
    for (issuer, expected) in [
        (r#""iss":"https://iss/","#, String::new()),
        (r#""iss":"https://other","#, String::new()),
        (r#""iss":"https://evil","#, format!("is issued by `https://evil`, {trusts}")),
        ("", format!("is issued by nobody, {trusts}")),
        (r#""iss":"a\nb\u001b[","#, format!("is issued by `a\\nb\\u{{1b}}[`, {trusts}")),
    ] {
        check_payload(&payload(issuer), Action::Read, "/ns/x", &expected);
    }
    let any = Namespace { issuers: Vec::new(), ..namespace() };
    assert_eq!(judge_in(&payload(""), Action::Read, "/ns/x", &any).weight(), 0);
}

#[test]
fn an_audience_may_be_in_doubt() {
    let claims = |aud: &str| format!(r#""wlcg.ver":"1.0",{aud}"scope":"storage.read:/""#);
    for aud in [
        r#""aud":"ANY","#,
        r#""aud":["x","https://wlcg.cern.ch/jwt/v1/any"],"#,
        r#""aud":"https://origin:8443/","#,
        r#""aud":"origin:8443","#,
    ] {
        check(&claims(aud), Action::Read, "/ns/x", "");
    }
    check(&claims(r#""aud":["x","y"],"#), Action::Read, "/ns/x", "is meant for `x`, `y`, which");
    check(&claims(""), Action::Read, "/ns/x", "is meant for no audience");
    check(r#""scope":"read:/""#, Action::Read, "/ns/x", "");
}

#[test]
fn what_is_not_explained_is_said_so() {
    let namespace = namespace();
    let want =
        Want { action: Action::Read, path: "/ns/x", namespace: Some(&namespace), token_name: None };
    let opaque = judge_token(Token::parse("opaquesecret").unwrap(), &want);
    assert_eq!(
        opaque.to_string(),
        "the server refused the token from `BEARER_TOKEN`; this token is opaque: it does not show its scopes or when it expires"
    );
    let claims = format!(r#"{{"iss":"https://iss",{WLCG},"scope":"storage.read:/"}}"#);
    let fits = judge_token(jwt(&claims), &want).to_string();
    assert!(fits.contains("although its times, issuer, scopes and audience are right"), "{fits}");
}

#[test]
fn long_claims_are_cut() {
    let scopes = "x".repeat(5000) + " y".repeat(50).as_str();
    let payload = format!(r#"{{"iss":"https://iss",{WLCG},"scope":"{scopes}"}}"#);
    let shown = judge_in(&payload, Action::Read, "/ns/x", &namespace()).to_string();
    assert!(shown.len() < 500 && shown.ends_with("and 43 more"), "{shown}");
}
