//! No secret is shown, whatever option, argument or variable it was given as: people write
//! `TOKEN=$(cat token)` where the name of a file is meant. Every verb is run with every option and
//! argument that takes a text, as `gular help` lists them, and with every variable that is read.

use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use std::{fs, thread};

use gular_files::VARIABLES;
use gular_tests::put;

use crate::bundles::text;
use crate::site::Site;

/// A made-up secret: what it is, the text that is given, and a part that must not be seen.
type Secret = (&'static str, String, String);

/// Returns secrets of each kind, the last as the name of an object below `url`. They are put together
/// here, so that no scanner takes this file for a leak.
fn secrets(url: &str) -> Vec<Secret> {
    let body = |n: usize| "k7Qz".repeat(n.div_ceil(4))[..n].to_owned();
    let base64 = "Zk3vQ9xTb1LmW8sYp4RcN6hGdJ2aEuFi0oKtXyVq";
    let claims = "eyJpc3MiOiJodHRwczovL2EuaW52YWxpZCIsInNjb3BlIjoic3RvcmFnZS5yZWFkOi8ifQ";
    let jwt = format!("eyJhbGciOiJub25lIn0.{claims}.c2lnbmF0dXJlLXRoYXQtaXMtbm9uZQ");
    let start = |start: &str, n: usize| (format!("{start}{}", body(n)), body(n));
    let (github, github_body) = start("ghp_", 36);
    let (gitlab, gitlab_body) = start("glpat-", 20);
    let (hub, hub_body) = start("hf_", 34);
    vec![
        ("a signed token", jwt.clone(), claims.to_owned()),
        ("a token of GitHub", github, github_body),
        ("long base64", base64.to_owned(), base64.to_owned()),
        ("a token of GitLab", gitlab, gitlab_body),
        ("a bearer token", format!("Bearer {}", body(24)), body(24)),
        ("a key of AWS", format!("AKIA{}", "Q7ZK".repeat(4)), "Q7ZK".repeat(4)),
        ("a token of Hugging Face", hub, hub_body),
        ("base64 with a slash", format!("{base64}/{base64}+{base64}=="), base64.to_owned()),
        ("a URL", format!("http://me:{}@localhost:1/x?authz={}", body(9), body(8)), body(8)),
        ("a token as the name of a URL", format!("{url}/{jwt}"), claims.to_owned()),
    ]
}

/// A verb as its help describes it.
struct Verb {
    words: Vec<String>,
    /// Its usage, word by word, without optional parts: `--out`, `<DIR>`, `<PATH>...`.
    usage: Vec<String>,
    /// Options that take a value.
    options: Vec<String>,
}

/// Adds the verb `words`, or those below it.
fn add_verbs(verbs: &mut Vec<Verb>, words: &[String]) {
    let help = gular_tests::run([&["help".to_owned()], words].concat()).stdout;
    let lines: Vec<&str> = help.lines().collect();
    let below = gular_tests::verbs(&help);
    for word in &below {
        add_verbs(verbs, &[words, &[(*word).to_owned()]].concat());
    }
    if !below.is_empty() {
        return;
    }
    let usage = lines.iter().find_map(|line| line.strip_prefix("Usage: gular ")).unwrap();
    let usage = usage.split_whitespace().skip(words.len()).map(str::to_owned);
    let option = |line: &&str| {
        let shown = line.trim_start();
        let flag = shown.split_whitespace().find(|word| word.starts_with("--"))?;
        let listed = line.len() - shown.len() <= 6 && shown.starts_with('-');
        (listed && shown.contains('<')).then(|| flag.split(['=', '[']).next().unwrap().to_owned())
    };
    verbs.push(Verb {
        words: words.to_vec(),
        usage: usage.filter(|word| !word.starts_with('[') && !word.ends_with(']')).collect(),
        options: lines.iter().filter_map(option).collect(),
    });
}

/// What is given to the verbs where a secret is not.
struct Fixtures<'a> {
    site: &'a Site,
    dir: &'a Path,
    url: String,
    /// A port that is taken, so that `federation serve` ends.
    port: u16,
}

impl Fixtures<'_> {
    /// A value for `<DIR>`, `<URL>` and so on.
    fn value(&self, name: &str) -> String {
        let made = |name: &str| text(&self.dir.join(name)).to_owned();
        match name.trim_matches(['<', '>', '.']) {
            name if name.contains("URL") => self.url.clone(),
            "BUNDLE" | "FROM" | "PATH" => made("file"),
            "COMMAND" => "true".to_owned(),
            "WHAT" => "def".to_owned(),
            "FORMAT" => "arrow".to_owned(),
            "N" => "2".to_owned(),
            _ => made("absent"),
        }
    }

    /// The arguments of `verb`, with `secret` as positional argument number `at`.
    fn arguments(&self, verb: &Verb, secret: Option<(usize, &str)>) -> Vec<String> {
        let mut arguments = verb.words.clone();
        let (mut number, mut of_option) = (0, false);
        for word in &verb.usage {
            if !word.starts_with('<') {
                arguments.push(word.clone());
                of_option = word.len() > 2;
                continue;
            }
            let given = secret.filter(|(at, _)| !of_option && *at == number);
            arguments.push(given.map_or_else(|| self.value(word), |(_, text)| text.to_owned()));
            number += usize::from(!of_option);
            of_option = false;
        }
        if verb.words.ends_with(&["serve".to_owned()]) {
            arguments.extend(["--port".to_owned(), self.port.to_string()]);
        }
        arguments
    }

    /// A command that finds no token except a given one.
    fn command(&self, arguments: &[String]) -> Command {
        let mut command = self.site.command(arguments);
        command.env_remove("BEARER_TOKEN_FILE").env("HOME", self.dir);
        command.current_dir(self.dir).stdin(Stdio::null());
        command
    }
}

/// One run of the program, and the secret that it is given.
struct Try<'a> {
    command: Command,
    what: String,
    secret: &'a Secret,
    /// Whether its results hide long base64: it was given as a variable for tokens. Else it may be
    /// the name of a folder, in the path or URL that scripts read.
    is_hidden_in_results: bool,
}

/// Runs all, several at a time, and returns how many outputs say that something is not shown. The
/// runs whose output has a secret are an error.
fn run_all(tries: Vec<Try<'_>>) -> usize {
    let (next, masked) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let tries: Vec<Mutex<Try<'_>>> = tries.into_iter().map(Mutex::new).collect();
    let leaks = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(|| {
                while let Some(one) = tries.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let mut one = one.lock().unwrap();
                    let [result, messages] = said(&mut one.command);
                    let (kind, _, hidden) = one.secret;
                    let in_results = one.is_hidden_in_results || !kind.contains("base64");
                    let shown = in_results && result.contains(hidden.as_str());
                    let said = format!("{result}\n{messages}");
                    if shown || messages.contains(hidden.as_str()) {
                        leaks.lock().unwrap().push(format!("{} of {}: {said}", kind, one.what));
                    }
                    masked.fetch_add(usize::from(said.contains("not shown]")), Ordering::Relaxed);
                }
            });
        }
    });
    let leaks = leaks.into_inner().unwrap();
    let first = leaks.iter().take(20).map(String::as_str).collect::<Vec<_>>().join("\n");
    assert!(leaks.is_empty(), "{} outputs have a secret, such as\n{first}", leaks.len());
    masked.into_inner()
}

/// Both outputs of a command, stdout first. One that waits, for a server or for a signal, is stopped.
fn said(command: &mut Command) -> [String; 2] {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (out, err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
    let read = |mut from: Box<dyn std::io::Read + Send>| {
        thread::spawn(move || {
            let mut bytes = Vec::new();
            let _ = from.read_to_end(&mut bytes);
            String::from_utf8_lossy(&bytes).into_owned()
        })
    };
    let readers = [read(Box::new(out)), read(Box::new(err))];
    stop_late(&mut child);
    readers.map(|reader| reader.join().unwrap())
}

fn stop_late(child: &mut Child) {
    let end = Instant::now() + Duration::from_secs(20);
    while child.try_wait().unwrap().is_none() {
        if Instant::now() > end {
            let _ = child.kill();
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// Calls `check` with the fixtures, if the federation is embedded: a real one would be asked some
/// thousand times.
fn with_fixtures(check: impl FnOnce(&Fixtures<'_>)) {
    let site: Arc<Site> = Site::shared();
    if !site.is_embedded() {
        println!("skipped: the federation is not embedded");
        return;
    }
    let dir = site.scratch();
    put(dir.path(), "file", b"x");
    fs::create_dir(dir.path().join("cwd")).unwrap();
    let taken = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = taken.local_addr().unwrap().port();
    let url = format!("{}/absent", site.collection("given"));
    check(&Fixtures { site: &site, dir: dir.path(), url, port });
}

#[test]
fn a_secret_given_as_an_option_or_argument_shows_nowhere() {
    with_fixtures(|fixtures| {
        let (secrets, mut verbs) = (secrets(&fixtures.url), Vec::new());
        add_verbs(&mut verbs, &[]);
        let n_options: usize = verbs.iter().map(|verb| verb.options.len()).sum();
        assert!(verbs.len() > 30 && n_options > 230, "{} verbs, {n_options}", verbs.len());
        let mut tries = Vec::new();
        for verb in &verbs {
            let n_positional = verb.usage.iter().filter(|word| word.starts_with('<')).count();
            for at in 0..n_positional {
                // Each with three kinds in turn; all with all would take minutes.
                let first = tries.len();
                for secret in (0..3).map(|n| &secrets[(first + n * 3) % secrets.len()]) {
                    let arguments = fixtures.arguments(verb, Some((at, &secret.1)));
                    let what = format!("{:?} argument {at}", verb.words);
                    let command = fixtures.command(&arguments);
                    tries.push(Try { command, what, secret, is_hidden_in_results: false });
                }
            }
            for option in &verb.options {
                for secret in [&secrets[0], &secrets[1 + tries.len() / 2 % (secrets.len() - 1)]] {
                    let mut arguments = fixtures.arguments(verb, None);
                    let at = verb.words.len();
                    arguments.insert(at, format!("{option}={}", secret.1));
                    let what = format!("{:?} {option}", verb.words);
                    let command = fixtures.command(&arguments);
                    tries.push(Try { command, what, secret, is_hidden_in_results: false });
                }
            }
        }
        let n = tries.len();
        let masked = run_all(tries);
        // Else the values would not get as far as a message.
        assert!(masked * 3 > n, "{masked} of {n} outputs are masked");
    });
}

#[test]
fn a_secret_in_a_variable_shows_nowhere() {
    with_fixtures(|fixtures| {
        let secrets = secrets(&fixtures.url);
        let file = text(&fixtures.dir.join("file")).to_owned();
        let url = &fixtures.url;
        let commands = [
            vec!["fetch", url.as_str(), "copy"],
            vec!["publish", &file, url],
            vec!["ls", url],
            vec!["doctor", url],
            vec!["doctor", url, "--json"],
            vec!["doctor"],
            vec!["image", "pull", "localhost:1/x:1", "x.sif"],
        ];
        let mut tries = Vec::new();
        for name in VARIABLES {
            for (n, words) in commands.iter().enumerate() {
                let arguments: Vec<String> = words.iter().map(|w| (*w).to_owned()).collect();
                // Variables that are shown as where a token was looked for, with each kind.
                let looked = ["TOKEN", "BEARER_TOKEN_FILE", "XDG_RUNTIME_DIR"].contains(&name);
                let some = if looked { secrets.len() } else { 1 };
                let first = tries.len() + n;
                for secret in (0..some).map(|k| &secrets[(first + k) % secrets.len()]) {
                    let mut command = fixtures.command(&arguments);
                    command.env(name, &secret.1);
                    let what = format!("{words:?} {name}");
                    tries.push(Try { command, what, secret, is_hidden_in_results: looked });
                }
            }
        }
        let masked = run_all(tries);
        assert!(masked > 60, "{masked} outputs are masked");
    });
}

#[test]
fn a_url_that_scripts_read_is_printed_whole() {
    with_fixtures(|fixtures| {
        let (_, base64, _) = secrets(&fixtures.url).swap_remove(2);
        let folder = format!("{}/{base64}", fixtures.url);
        let (file, url) = (fixtures.dir.join("file"), format!("{folder}/x"));
        let published = fixtures.site.run(["publish", text(&file), &url]);
        assert_eq!(published.code, Some(0), "{}", published.stderr);
        assert!(published.stdout.contains(&url), "{}", published.stdout);
        let listed = fixtures.site.json(["ls", folder.as_str()]);
        assert!(listed["url"].as_str().unwrap().contains(&folder), "{listed}");
    });
}

#[test]
fn a_token_that_is_made_is_printed() {
    with_fixtures(|fixtures| {
        let dir = fixtures.dir.parent().unwrap().join("federation");
        let token = |more: &[&str]| {
            let arguments = ["federation", "token", "--read", "/", text(&dir)];
            let outcome = gular_tests::run(arguments.iter().chain(more));
            assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
            outcome.stdout
        };
        assert!(token(&[]).starts_with("eyJ"));
        let json: serde_json::Value = serde_json::from_str(&token(&["--json"])).unwrap();
        assert!(json["access_token"].as_str().unwrap().starts_with("eyJ"));
    });
}
