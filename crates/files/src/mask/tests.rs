use super::*;

/// Random base64, the same in every run.
fn random(seed: u64, len: usize, alphabet: &[u8]) -> String {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        char::from(alphabet[(state >> 33) as usize % alphabet.len()])
    };
    (0..len).map(|_| next()).collect()
}

const STANDARD: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const FOR_URLS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Made of parts here, so that no scanner takes this file for a leak.
fn tokens() -> Vec<String> {
    let body = |n: usize| "a1B2".repeat(n.div_ceil(4))[..n].to_owned();
    let jwt = format!("eyJ{}.eyJ{}.{}", body(20), body(60), body(43));
    let mut tokens = vec![
        jwt.clone(),
        jwt[..40].to_owned(),
        format!("AKIA{}", "0ABC".repeat(4)),
        format!("sk-proj-{}-{}", body(20), body(8)),
        format!("glpat-{}.01.{}", body(20), body(9)),
        format!("github_pat_{}_{}", body(22), body(59)),
        format!("xoxb-123456789012-123456789012-{}", body(24)),
        format!("AIza{}", body(35)),
        format!("pypi-AgEI{}", body(40)),
    ];
    for (first, n) in [("ghp_", 36), ("gho_", 36), ("ghs_", 36), ("hf_", 34), ("npm_", 36)] {
        tokens.push(format!("{first}{}", body(n)));
    }
    tokens
}

#[track_caller]
fn check(text: &str, expected: &str) {
    assert_eq!(mask(text), expected, "{text}");
    assert_eq!(mask(expected), expected, "a masked text stays");
}

#[test]
fn a_token_shows_nowhere() {
    for token in tokens() {
        for (before, after) in [
            ("", ""),
            ("file `", "` (it does not exist)"),
            ("/home/me/", "/bt_u0: No such file or directory"),
            ("{\"message\": \"", "\"}"),
            ("\"a\\n", "\\n\""),
            ("--token=", " is not"),
            ("(", ")"),
            ("pelican://h/a/", "#blake3=00"),
            ("é", "é"),
        ] {
            let text = format!("{before}{token}{after}");
            for shown in [mask(&text), Given::default().mask_data(&text)] {
                let kept = shown.starts_with(before) && shown.ends_with(after);
                assert!(kept && shown.contains(", not shown]"), "{text} {shown}");
                assert!(!shown.contains(&token[token.len() - 6..]), "{text} {shown}");
            }
        }
    }
}

#[test]
fn long_base64_is_hidden() {
    let mut shown = 0;
    for seed in 0..2000 {
        let token = random(seed, 43, FOR_URLS);
        let text = format!("file `/run/{token}/bt_u0` (it does not exist)");
        shown += usize::from(mask(&text).contains(&token));
        let key = random(seed, 64, STANDARD);
        let text = format!("no such file: {key}==");
        shown += usize::from(mask(&text).contains(&key));
    }
    // A token can look like words by chance.
    assert!(shown < 100, "{shown} of 4000 are shown");
}

#[test]
fn names_digests_and_paths_stay() {
    let hex = "0123456789abcdef".repeat(4);
    for text in [
        format!("blake3:{hex}"),
        format!("pelican://osg-htc.org:8444/mylab/birds/v1#blake3={hex}"),
        format!("pelican://h/a?directread&oss.asize=7#blake3={hex}"),
        format!("docker://ghcr.io/me/train:1.2@sha256:{hex}"),
        format!("docker://train@sha256:{hex} train:3@sha256:{hex}"),
        format!("`{}` is not {}", hex.to_uppercase(), &hex[..40]),
        "task-0123456789abcdef0123456789abcdef disk-0123456789abcdef0123456789abcdef".to_owned(),
        "S2A_MSIL1C_20170613T101031_N0205_R022_T33UUB_20170613T101608.SAFE/GRANULE/L1C_T33UUB_A010315_20170613T101608/IMG_DATA".to_owned(),
        "LC08_L1TP_195024_20200423_20201016_02_T1_B4.TIF".to_owned(),
        "/p/scratch/myProject/Users/JaneDoe2/Datasets/BigEarthNet-S2/BigEarthNet-v1.0/S2A_MSIL2A_20170613T101031_87_48".to_owned(),
        "MyVeryLongCamelCaseFileNameWithManyWordsInItAndAVersionV2.tar".to_owned(),
        "Train/Images2020/B4/T33UUB/S2A/x1/Y2/IMG_20200101_123456789_HDR.jpg".to_owned(),
        "torch-2.4.1+cu121-cp311-cp311-manylinux_2_17_x86_64.manylinux2014_x86_64.whl".to_owned(),
        "PyYAML-6.0.1-cp311-cp311-manylinux_2_17_x86_64.manylinux2014_x86_64.whl".to_owned(),
        "gular-VERSION-cp39-abi3-manylinux_2_28_x86_64.whl --signal=B:USR1@60".to_owned(),
        "libstdc++6_12.2.0-14+deb12u1_amd64.deb 550e8400-e29b-41d4-a716-446655440000".to_owned(),
        "_ZN2at4_ops10zeros_like4callERKNS_6TensorESt8optionalIN3c1010ScalarTypeEES5_IbE".to_owned(),
        "hf_dataset_for_semantic_segmentation_of_birds sk-learn-tutorial-images-of-2020-v2".to_owned(),
        "the server asks for a bearer token; bearer authentication failed".to_owned(),
        "`BEARER_TOKEN` (not set), `access_token` or JSON with `access_token`".to_owned(),
        "export BEARER_TOKEN=\"$(gular federation token dir --read / --create /)\"".to_owned(),
        "--label-from 'photos/{label}/{key}.jpg' /data/??.jpg why? because me@example.org".to_owned(),
        "git@github.com:me/repo.git https://github.com/me/repo/blob/main/x.py#L10-L20".to_owned(),
        "password=$PASSWORD access_token=${TOKEN}".to_owned(),
    ] {
        assert!(matches!(mask(&text), Cow::Borrowed(_)), "{}", mask(&text));
    }
}

#[test]
fn urls_are_shown_without_their_secrets() {
    check("at `https://me:s3cret@h:80/a` or", "at `https://…@h:80/a` or");
    check("`/tmp/https:/me:s3cret@h:80/a`", "`/tmp/https:/…@h:80/a`");
    check("`https://me:pa/ss@word@h:80/a`", "`https://…@h:80/a`");
    check(
        "https://me:/s3cret@h docker://me:s/3@h/a@sha256:00",
        "https://…@h docker://…@h/a@sha256:00",
    );
    check("http://h:80/a@b http://[::1]:80/a@b", "http://h:80/a@b http://[::1]:80/a@b");
    check(
        "docker://h:5000/a:1@sha256:00 docker://a:b/c@sha512:00",
        "docker://h:5000/a:1@sha256:00 docker://a:b/c@sha512:00",
    );
    check("`me:s3cret@proxy:3128` is ignored", "`…@proxy:3128` is ignored");
    check("https://h/a?x=1&directread&sig=s3&s3cret", "https://h/a?x=…&directread&sig=…&…");
    check("`/a?authz=s3cret`, try", "`/a?authz=…`, try");
    check("a/b?token=s3cret&x=1", "a/b?token=…&x=1");
    check("https://h/a?sig=s3#blake3=00", "https://h/a?sig=…#blake3=00");
    check("https://h/a#access_token=s3cret", "https://h/a#access_token=…");
    check("--password=s3cret", "--password=…");
    check("password=s3cret,and;more, x", "password=…, x");
    check("password=s3cret,more==,user=me;id_token=s3", "password=…,user=me;id_token=…");
    check("https://h/a?sig=s3,more&directread", "https://h/a?sig=…&directread");
    check("Authorization: Basic bWU6cw==", "Authorization: Basic [a credential, not shown]");
    check("Authorization: Bearer abc", "Authorization: Bearer abc");
    check("authorization:Bearer abc1defg", "authorization:Bearer [a bearer token, not shown]");
    check(
        "the header `Authorization: Bearer` is missing",
        "the header `Authorization: Bearer` is missing",
    );
    check("bearer\nk7Qzk7Qzk7Qz.jpg", "bearer\nk7Qzk7Qzk7Qz.jpg");
    check("`Bearer abcdefghijklmnopqrst`", "`Bearer [a bearer token, not shown]`");
    check("{\"access_token\": \"s3cret\"}", "{\"access_token\": \"…\"}");
    check("{\\\"access_token\\\":\\\"s3cret\\\"}", "{\\\"access_token\\\":\\\"…\\\"}");
}

#[test]
fn of_a_url_or_a_path_with_a_query_only_what_is_known_shows() {
    assert_eq!(mask_url("/a?s3cret"), "/a?…");
    assert_eq!(mask_url("/a?oss.asize=12"), "/a?oss.asize=12");
    assert_eq!(mask_url("/a/b"), "/a/b");
}

const NONE: [&str; 0] = [];

#[test]
fn in_data_what_may_be_a_name_stays_unless_it_is_a_variable_for_tokens() {
    let name = random(3, 43, FOR_URLS);
    let row = format!("{{\"key\": \"train/{name}.jpg\", \"url\": \"pelican://h/{name}/v1\"}}");
    assert!(mask(&row).contains("long base64"), "{}", mask(&row));
    let url = format!("pelican://h/{name}/v1");
    // A folder that was named as the place of a result, and one in which a token's file is.
    let given = Given::new(["publish", "b", &url], ["", "", &format!("/home/{name}/token")]);
    assert_eq!(given.mask_data(&row), row);
    assert!(!given.mask(&row).contains(&name));
    let given = Given::new(NONE, [name.as_str()]);
    assert!(!given.mask_data(&row).contains(&name));
    assert!(!format!("{given:?}").contains(&name));
    // What was hidden where it was given is hidden where it stands alone.
    let given = Given::new(["http://me:a-very-long-s3cret@proxy:80"], NONE);
    assert_eq!(given.mask("the proxy says me:a-very-long-s3cret"), "the proxy says …");
    assert_eq!(given.mask_data("the proxy says me:a-very-long-s3cret"), "the proxy says …");
    // `\n` stays the escape that it is.
    let given = Given::new(["https://new:very-long-s3cret@h"], NONE);
    assert_eq!(given.mask_data(r#""a\new:very-long-s3cret""#), r#""a\n…""#);
}

#[test]
fn json_stays_json() {
    for escape in ["\\n", "\\t", "\\u001b", "\\\\", "\\\""] {
        let name = random(3, 43, FOR_URLS);
        let text = format!("{{\"a\": \"x{escape}{name}{escape}\"}}");
        let shown = mask(&text);
        assert!(!shown.contains(&name), "{shown}");
        assert!(shown.starts_with(&format!("{{\"a\": \"x{escape}[")), "{shown}");
        assert!(shown.ends_with(&format!("]{escape}\"}}")), "{shown}");
    }
}

#[test]
fn of_a_name_and_a_colon_only_a_text_is_hidden() {
    for text in [
        r#"{"password": 2, "passwd": null, "authz": "", "id_token": {"x": [true]}}"#,
        "\"password\": {\n  \"authz\": 1\n}",
        r#"["password :", "x", "passwd = ", 1]"#,
        r#"["'password' :'", 2, "'"]"#,
        r#"["authorization:", 123456789 , 1]"#,
    ] {
        assert_eq!(mask(text), text);
    }
    check(r#"{"access_token": "abc def", "a": 1}"#, r#"{"access_token": "…", "a": 1}"#);
    check(r#"{"password": "a\"b\\", "a": 1}"#, r#"{"password": "…", "a": 1}"#);
    check(r#""{\"password\": \"a\\\"b c\"}", "d""#, r#""{\"password\": \"…\"}", "d""#);
    check("{'password': 'a b', 'x': 1}", "{'password': '…', 'x': 1}");
    check("password = \"a b\" # x", "password = \"…\" # x");
    check("password = s3cret # x", "password = … # x");
    check("password : s3cret", "password : …");
}

/// Any JSON, from the bits of `state`: names of secrets, and texts that look like them.
fn any_json(state: &mut u64, depth: usize, out: &mut String) {
    const TEXTS: [&str; 24] = [
        "password",
        "access_token",
        "authorization:",
        "Bearer",
        "Basic",
        "a",
        "x y",
        "",
        ":",
        "=",
        "\\\"",
        "\\\\",
        "\\n",
        "\\u001b",
        "'",
        "password=a,b",
        "password :",
        "passwd = ",
        ",",
        "{",
        "abcdefgh1",
        "https://me:pa/ss@h/a",
        "{\\\"authz\\\": \\\"b c\\\"}",
        "'authz': 'x",
    ];
    let mut next = |n: u64| {
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        (*state >> 20) % n
    };
    let kind = next(if depth < 3 { 7 } else { 5 });
    let n = next(4);
    let space = ["", " ", "\n  "][next(3) as usize];
    match kind {
        0 => out.push_str(["2", "123456789", "-1.5e3", "null", "true"][next(5) as usize]),
        1..=4 => {
            out.push('"');
            (0..n).for_each(|_| out.push_str(TEXTS[next(24) as usize]));
            out.push('"');
        }
        _ => {
            out.push(if kind == 5 { '[' } else { '{' });
            for i in 0..n {
                out.push_str(if i > 0 { "," } else { "" });
                out.push_str(space);
                if kind == 6 {
                    let name = ["password", "passwd", "authz", "id_token"][i as usize];
                    out.extend(["\"", name, "\"", ["", " "][(n % 2) as usize], ":", space]);
                }
                any_json(state, depth + 1, out);
                out.push_str(space);
            }
            out.push(if kind == 5 { ']' } else { '}' });
        }
    }
}

/// Whether two values differ in their texts only.
fn are_alike(a: &serde_json::Value, b: &serde_json::Value) -> bool {
    use serde_json::Value::{Array, Object, String};
    match (a, b) {
        (String(_), String(_)) => true,
        (Array(a), Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| are_alike(a, b)),
        (Object(a), Object(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.0 == b.0 && are_alike(a.1, b.1))
        }
        _ => a == b,
    }
}

#[test]
fn any_json_stays_json_with_its_numbers() {
    let mut state = 0x9e37_79b9_7f4a_7c15;
    let mut masked = 0;
    for _ in 0..20_000 {
        let mut text = String::new();
        any_json(&mut state, 0, &mut text);
        let value = serde_json::from_str(&text).unwrap();
        for shown in [Given::default().mask_data(&text), mask(&text)] {
            let read =
                serde_json::from_str(&shown).unwrap_or_else(|e| panic!("{e}: {text} {shown}"));
            assert!(are_alike(&value, &read), "{text} {shown}");
            masked += usize::from(shown != text);
        }
    }
    assert!(masked > 1000, "{masked}");
}

#[test]
fn secrets_are_named() {
    let text = format!("https://me:s3@h/ {} {}", tokens()[0], tokens()[2]);
    let found: Vec<_> = secrets(&text).collect();
    assert_eq!(found, ["a URL with a password", "a signed token", "a key of AWS"]);
    assert_eq!(secrets("https://me@h/x?y=1 /etc/ssl").count(), 0);
}

#[test]
fn a_panic_is_masked() {
    let token = tokens().swap_remove(0);
    let text = std::sync::Mutex::new(String::new());
    std::thread::scope(|scope| {
        let text = &text;
        let token = token.clone();
        let previous = std::panic::take_hook();
        let (send, receive) = std::sync::mpsc::channel();
        let send = std::sync::Mutex::new(send);
        std::panic::set_hook(Box::new(move |info| {
            let _ = send.lock().unwrap().send(mask_panic(info));
        }));
        let _ = scope.spawn(move || panic!("cannot open `{token}`")).join();
        std::panic::set_hook(previous);
        *text.lock().unwrap() = receive.recv().unwrap();
    });
    let text = text.into_inner().unwrap();
    assert!(text.contains("cannot open `[a signed token, not shown]`"), "{text}");
    assert!(!text.contains(&token), "{text}");
}
