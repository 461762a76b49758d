//! `gular image`, without a network: an image of this machine's own libraries and
//! the program `gular` itself.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};

use gular_tests::{Outcome, finish, gular};
use serde_json::Value;

struct Case {
    dir: tempfile::TempDir,
}

/// Returns the libraries that this process has loaded, which any Rust program needs.
fn libraries() -> BTreeSet<PathBuf> {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let paths = maps.lines().filter_map(|line| line.find('/').map(|at| PathBuf::from(&line[at..])));
    let own = std::env::current_exe().unwrap();
    let mut found: BTreeSet<PathBuf> =
        paths.filter(|path| *path != own && path.to_string_lossy().contains(".so")).collect();
    // The program uses more mathematics than this test, so it also needs libm.
    let libc = found.iter().find(|path| path.ends_with("libc.so.6")).unwrap();
    let libm = libc.with_file_name("libm.so.6");
    found.insert(libm);
    found
}

/// Returns `[app.files]` of a shell and all libraries that programs here need.
fn files(without: &str) -> String {
    let mut lines =
        vec![r#""bin/sh" = "/bin/sh""#.to_owned(), r#""bin/bash" = "/bin/sh""#.to_owned()];
    for path in libraries() {
        let name = path.file_name().unwrap().to_str().unwrap();
        let folder = if name.starts_with("ld-linux") { "lib64" } else { "usr/lib" };
        if !without.is_empty() && name.starts_with(without) {
            continue;
        }
        lines.push(format!(r#""{folder}/{name}" = "{}""#, path.display()));
    }
    lines.join("\n")
}

impl Case {
    fn new(recipe: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("image.toml"), recipe).unwrap();
        Self { dir }
    }

    /// Makes an image that works here, without the libraries that begin with `without`.
    fn working(without: &str) -> Self {
        let (program, files) = (gular().display().to_string(), files(without));
        Self::new(&format!(
            "[image]\nname = \"tool\"\n[base]\nscratch = true\n[app]\npath = \"{program}\"\n[app.files]\n{files}\n[env]\nA = \"b c\"\n"
        ))
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn run(&self, words: &[&str]) -> Outcome {
        let mut command = Command::new(gular());
        command.arg("image").args(words).current_dir(self.dir.path());
        command.env("GULAR_IMAGE_CACHE", self.at("cache"));
        command.env("CARGO_TARGET_DIR", self.at("target"));
        finish(&mut command)
    }

    fn json(&self, words: &[&str]) -> Value {
        let outcome = self.run(&[words, &["--json"]].concat());
        assert_eq!(outcome.code, Some(0), "{words:?}: {}{}", outcome.stdout, outcome.stderr);
        serde_json::from_str(&outcome.stdout).unwrap()
    }

    /// Builds into `out`, and returns the paths of the files and folders written.
    fn build(&self, out: &str, more: &[&str]) -> Vec<PathBuf> {
        let built = self.json(&[&["build", "--out", out, "--offline"], more].concat());
        let outputs = built["outputs"].as_array().unwrap();
        outputs.iter().map(|output| self.at(output["path"].as_str().unwrap())).collect()
    }

    fn names(&self, folder: &str) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.at(folder)) else { return Vec::new() };
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

/// Writes a lock without packages, as `gular image lock` writes it if nothing is to be resolved.
fn locked(case: &Case) {
    let locked = case.run(&["lock"]);
    assert_eq!(locked.code, Some(0), "{}", locked.stderr);
}

#[test]
fn a_recipe_becomes_an_image_that_says_what_it_is() {
    let case = Case::working("");
    locked(&case);
    let paths = case.build("out", &["--format", "sif,oci,oci-archive"]);
    let sif = paths[0].to_str().unwrap();
    let digest = blake3(&paths[0]);
    assert!(sif.ends_with(&format!("tool-{}.sif", &digest[..16])), "{sif}");
    for path in &paths {
        let path = path.to_str().unwrap();
        let checked = case.json(&["check", path]);
        assert_eq!(
            checked["check"]["findings"]
                .as_array()
                .unwrap()
                .iter()
                .filter(|f| f["severity"] == "error")
                .count(),
            0,
            "{checked}"
        );
        let seen = case.json(&["inspect", path, "--files"]);
        assert_eq!(seen["program"], "/app/bin/gular", "{path}");
        assert_eq!(seen["env"]["A"], "b c", "{path}");
        assert_eq!(seen["labels"]["org.opencontainers.image.title"], "tool");
        let listed = seen["files"].as_array().unwrap();
        assert!(listed.iter().any(|file| file["path"] == "/.singularity.d/test"), "{path}");
        assert!(seen["recipe"].as_str().unwrap().contains("name = \"tool\""), "{path}");
    }
    // Jobs use the form of the image that can run at their site, with its size.
    let job = |path: &Path, site: &str| {
        let mut command = Command::new(gular());
        command.args(["job", "new", "j", "--dry-run", "--site", site, "--image"]).arg(path);
        finish(command.args(["--", "hostname"]).current_dir(case.dir.path()))
    };
    let [sif_path, oci, archive] = [0, 1, 2].map(|i| paths[i].canonicalize().unwrap());
    let submitted = job(&sif_path, "generic");
    let line = format!("container_image = {}\n", sif_path.display());
    assert!(submitted.stdout.contains(&line), "{submitted:?}");
    assert!(!submitted.stdout.contains("size of the image is not known"), "{submitted:?}");
    for (path, form) in [(&oci, "oci"), (&archive, "oci-archive")] {
        let script = job(path, "slurm").stdout;
        // One file is made of it before all jobs.
        let made = format!("apptainer build image.sif '{form}:{}'\n", path.display());
        let line = "apptainer exec \"$submitted/image.sif\" hostname\n";
        assert!(script.contains(&made) && script.contains(line), "{script}");
        let refused = job(path, "generic");
        assert_eq!(refused.code, Some(2), "{refused:?}");
        assert!(refused.stderr.contains("hint: make a .sif"), "{refused:?}");
    }
    let facts = case.run(&["export", "facts", sif]);
    let facts: Value = serde_json::from_str(&facts.stdout).unwrap();
    assert_eq!(facts["digest"], format!("blake3:{digest}"));
    assert_eq!(facts["bytes"], fs::metadata(&paths[0]).unwrap().len());
    assert!(facts["minimum_capability"].is_null());
    // The image is published by its contents, whatever its file is called.
    fs::copy(&paths[0], case.at("mine.sif")).unwrap();
    let to = format!("file://{}/", case.at("published").display());
    let mut publish = Command::new(gular());
    publish.args(["publish", "mine.sif", &to, "--json"]).current_dir(case.dir.path());
    let published = finish(&mut publish);
    assert_eq!(published.code, Some(0), "{}", published.stderr);
    let published: Value = serde_json::from_str(&published.stdout).unwrap();
    let name = format!("mine-{}.sif", &digest[..16]);
    assert_eq!(published["container_image"], format!("{to}{name}"));
    assert_eq!(blake3(&case.at("published").join(&name)), digest);
    let pulled = case.json(&["pull", &format!("{to}{name}"), "pulled"]);
    assert_eq!(pulled["digest"], format!("blake3:{digest}"));
    let bytes = pulled["bytes"].as_u64().unwrap();
    assert_eq!(pulled["blocks"], bytes.div_ceil(1 << 20));
    assert_eq!(blake3(&case.at("pulled").join(&name)), digest);
    // Another image has this name.
    fs::write(case.at("published").join("mine-0123456789abcdef.sif"), "other").unwrap();
    let other = case.run(&["pull", &format!("{to}mine-0123456789abcdef.sif"), "pulled"]);
    assert_eq!(other.code, Some(1), "{}", other.stderr);
    assert!(other.stderr.contains("expected 0123456789abcdef… as in its name"));
    assert_eq!(case.names("pulled"), [name]);
    // The layout becomes a SIF with the same files.
    let oci = paths[1].to_str().unwrap();
    let converted = case.json(&["convert", oci, "again.sif"]);
    assert_eq!(converted["left_out"], Value::Array(Vec::new()));
    let seen = |image: &str| {
        let files = case.json(&["inspect", image, "--files"])["files"].clone();
        let files = files.as_array().unwrap().clone();
        let one =
            |file: &Value| (file["path"].clone(), file["mode"].clone(), file["target"].clone());
        files.iter().map(one).collect::<Vec<_>>()
    };
    assert_eq!(seen("again.sif"), seen(sif));
    let def = case.run(&["export", "def", "image.toml"]).stdout;
    assert!(def.starts_with("Bootstrap: scratch\n") && def.contains("/app/bin/gular"), "{def}");
    let docker = case.run(&["export", "dockerfile", "image.toml"]).stdout;
    assert!(docker.starts_with("FROM scratch\n") && docker.contains("ENTRYPOINT"), "{docker}");
    for what in ["def", "dockerfile"] {
        let refused = case.run(&["export", what, "image.toml", "--json"]);
        assert_eq!((refused.code, refused.stdout.as_str()), (Some(2), ""), "{refused:?}");
        assert!(refused.stderr.contains("`gular image export facts IMAGE`"), "{refused:?}");
    }
    let sbom = case.names("out").into_iter().find(|name| name.ends_with(".spdx.json")).unwrap();
    let sbom = fs::read_to_string(case.at("out").join(sbom)).unwrap();
    let sbom: Value = serde_json::from_str(&sbom).unwrap();
    let packages = sbom["packages"].as_array().unwrap();
    assert!(packages.iter().any(|package| package["name"] == "gular"), "{sbom}");
}

#[test]
fn a_package_is_compiled_and_its_crates_are_listed() {
    let recipe = format!(
        "[image]\nname = \"tool\"\n[base]\nscratch = true\n[app]\npackage = \"tiny\"\nmanifest = \"tiny/Cargo.toml\"\n[app.files]\n{}\n",
        files("")
    );
    let case = Case::new(&recipe);
    let package = |name: &str, file: &str, code: &str, more: &str| {
        let dir = case.at(name);
        fs::create_dir_all(dir.join("src")).unwrap();
        fs::write(dir.join("src").join(file), code).unwrap();
        let head = format!("[package]\nname = \"{name}\"\nversion = \"1.2.3\"\n{more}\n");
        fs::write(dir.join("Cargo.toml"), head).unwrap();
    };
    package(
        "tiny",
        "main.rs",
        "fn main() {}\n",
        "[workspace]\n[dependencies]\npart.path = \"../part\"",
    );
    package("part", "lib.rs", "", "");
    locked(&case);
    let paths = case.build("out", &["--profile", "dev"]);
    let seen = case.json(&["inspect", paths[0].to_str().unwrap()]);
    assert_eq!(seen["program"], "/app/bin/tiny");
    let sbom = case.names("out").into_iter().find(|name| name.ends_with(".spdx.json")).unwrap();
    let sbom: Value =
        serde_json::from_str(&fs::read_to_string(case.at("out").join(sbom)).unwrap()).unwrap();
    let packages = sbom["packages"].as_array().unwrap();
    let part = packages.iter().find(|package| package["name"] == "part").unwrap();
    assert_eq!(part["versionInfo"], "1.2.3");
    let program = fs::read(case.at("target/debug/tiny")).unwrap();
    let folder = b"$ORIGIN/../lib";
    assert!(program.windows(folder.len()).any(|bytes| bytes == folder), "no RUNPATH");
}

fn blake3(path: &Path) -> String {
    blake3::hash(&fs::read(path).unwrap()).to_hex().to_string()
}

#[test]
fn the_same_recipe_gives_the_same_bytes() {
    let case = Case::working("");
    locked(&case);
    let formats = ["--format", "sif,oci-archive"];
    let first = case.build("one", &[&formats[..], &["--jobs", "1"]].concat());
    fs::remove_dir_all(case.at("cache")).unwrap();
    let second = case.build("two", &[&formats[..], &["--jobs", "3"]].concat());
    // The third build uses blocks and layers of the second.
    let third = case.build("three", &formats);
    for ((one, two), three) in first.iter().zip(&second).zip(&third) {
        assert_eq!(one.file_name(), two.file_name());
        assert_eq!(blake3(one), blake3(two));
        assert_eq!(blake3(one), blake3(three));
    }
    let again = case.json(&["build", "--out", "one", "--offline"]);
    assert_eq!(again["outputs"][0]["was_there"], true);
}

#[test]
fn an_image_that_would_not_run_is_refused() {
    let case = Case::working("libgcc_s");
    locked(&case);
    let refused = case.run(&["build", "--out", "out", "--offline"]);
    assert_eq!(refused.code, Some(1), "{}", refused.stderr);
    assert!(refused.stderr.contains("libgcc_s.so.1"), "{}", refused.stderr);
    assert_eq!(case.names("out"), [""; 0]);
    let forced = case.run(&["build", "--out", "out", "--offline", "--force"]);
    assert_eq!(forced.code, Some(0), "{}", forced.stderr);
    let name = case.names("out").into_iter().find(|name| name.ends_with(".sif")).unwrap();
    let checked = case.run(&["check", &format!("out/{name}")]);
    assert_eq!(checked.code, Some(1), "{}", checked.stdout);
    assert!(checked.stdout.contains("it would not run"), "{}", checked.stdout);
}

#[test]
fn a_dry_run_writes_nothing() {
    let case = Case::working("");
    let outcome = case.run(&["build", "--out", "out", "--dry-run"]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    assert!(outcome.stdout.contains("no image was written"), "{}", outcome.stdout);
    assert_eq!(case.names("out"), [""; 0]);
    assert!(!case.at("image.lock").exists());
}

#[test]
fn what_is_wrong_is_said_with_the_next_step() {
    let check = |recipe: &str, words: &[&str], code: i32, expected: &[&str]| {
        let case = Case::new(recipe);
        let outcome = case.run(words);
        assert_eq!(outcome.code, Some(code), "{}", outcome.stderr);
        for words in expected {
            assert!(outcome.stderr.contains(words), "{words}: {}", outcome.stderr);
        }
        assert_eq!(case.names("out"), [""; 0]);
    };
    let recipe = "[image]\nname = \"x\"\n[base]\nscratch = true\n[app]\n";
    check(&format!("{recipe}pth = \"x\"\n"), &["build"], 2, &["line 6", "did you mean `path`?"]);
    let missing = format!("{recipe}path = \"no-such-program\"\n");
    check(&missing, &["build", "--out", "out"], 2, &["no-such-program"]);
    check(
        &missing,
        &["build", "--locked"],
        2,
        &["the lock file `image.lock` does not exist", "gular image lock"],
    );
    check(&missing, &["lock", "--locked"], 1, &["the lock file `image.lock` does not exist"]);
    check(&missing, &["build", "other.toml"], 2, &["the recipe `other.toml` does not exist"]);
    check(
        "[image]\nname = \"x\"\n",
        &["build", "--offline"],
        2,
        &["`gular image lock --vendor DIR` once"],
    );
    // These flags have no effect on the command.
    for words in [
        &["pull", "docker://127.0.0.1:9/a", "--token", "file"][..],
        &["pull", "oras://127.0.0.1:9/a", "--platform", "linux/arm64"],
        &["pull", "osdf:///a/b-0123456789abcdef.sif", "--jobs", "2"],
        &["pull", "https://127.0.0.1:9/b.sif", "--cache", "out"],
        &["push", "x.sif", "oras://127.0.0.1:9/a", "--platform", "linux/arm64"],
    ] {
        let flag = words.iter().find(|word| word.starts_with("--")).unwrap();
        check(&missing, words, 2, &[&format!("`{flag}` has no effect with `")]);
    }
}

#[test]
fn a_damaged_sif_is_told_from_a_sound_one() {
    let case = Case::working("");
    locked(&case);
    let sif = case.build("out", &[]).remove(0);
    let len = fs::metadata(&sif).unwrap().len();
    let cut = case.at("cut.sif");
    fs::copy(&sif, &cut).unwrap();
    fs::File::options().write(true).open(&cut).unwrap().set_len(len / 2).unwrap();
    let outcome = case.run(&["check", "cut.sif"]);
    assert_eq!(outcome.code, Some(2), "{}", outcome.stdout);
    assert!(outcome.stderr.contains("cut.sif"), "{}", outcome.stderr);
    // One byte of a compressed block is changed.
    let flipped = case.at("flipped.sif");
    fs::copy(&sif, &flipped).unwrap();
    let mut file = fs::File::options().read(true).write(true).open(&flipped).unwrap();
    let mut byte = [0];
    file.seek(SeekFrom::Start(len / 2)).unwrap();
    file.read_exact(&mut byte).unwrap();
    file.seek(SeekFrom::Start(len / 2)).unwrap();
    file.write_all(&[byte[0] ^ 0x55]).unwrap();
    // Compressed blocks have a checksum, so that damaged ones are refused.
    for words in [&["check", "flipped.sif"][..], &["inspect", "flipped.sif", "--json"]] {
        let outcome = case.run(words);
        assert_eq!(outcome.code, Some(2), "{words:?}: {}", outcome.stdout);
        assert!(outcome.stderr.contains("flipped.sif"), "{}", outcome.stderr);
        assert!(outcome.stderr.contains("damaged"), "{}", outcome.stderr);
        assert_eq!(outcome.stdout, "", "{words:?}");
    }
}

/// A server that answers 404 to all requests, and records them.
struct Recorder {
    url: String,
    heads: Arc<Mutex<Vec<String>>>,
}

impl Recorder {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let heads: Arc<Mutex<Vec<String>>> = Arc::default();
        let kept = Arc::clone(&heads);
        // The thread ends with the process.
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = BufReader::new(stream.unwrap());
                let mut head = String::new();
                while !head.ends_with("\r\n\r\n") && stream.read_line(&mut head).unwrap() > 0 {}
                kept.lock().unwrap().push(head);
                let answer =
                    b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
                stream.get_mut().write_all(answer).unwrap();
            }
        });
        Self { url, heads }
    }
}

#[test]
fn no_archive_and_no_index_sees_a_token_for_storage() {
    const SECRET: &str = "a-token-for-storage";
    let torch = "[app]\npath = \"image.toml\"\n[cuda]\ntorch = \"2.11.0\"\n";
    for (base, more, asked) in [
        ("debian = \"bookworm\"", "", "/archive/dists/bookworm/"),
        ("scratch = true", torch, "/index/"),
    ] {
        let recorder = Recorder::start();
        let recipe = format!("[image]\nname = \"tool\"\n[base]\n{base}\n{more}");
        let case = Case::new(&recipe);
        fs::write(case.at("token"), SECRET).unwrap();
        fs::create_dir(case.at("creds")).unwrap();
        fs::write(case.at("creds/scitokens.use"), SECRET).unwrap();
        let mut command = Command::new(gular());
        command.args(["image", "lock", "--mirror"]).arg(format!("{}/archive", recorder.url));
        command.arg("--security").arg(format!("{}/security", recorder.url));
        command.arg("--index").arg(format!("{}/index", recorder.url));
        command.current_dir(case.dir.path()).env("GULAR_IMAGE_CACHE", case.at("cache"));
        command.env("BEARER_TOKEN", SECRET).env("BEARER_TOKEN_FILE", case.at("token"));
        command.env("TOKEN", case.at("token")).env("_CONDOR_CREDS", case.at("creds"));
        let outcome = finish(&mut command);
        assert_eq!(outcome.code, Some(2), "{}{}", outcome.stdout, outcome.stderr);
        let heads = recorder.heads.lock().unwrap();
        assert!(heads.iter().any(|head| head.contains(asked)), "{heads:?} {}", outcome.stderr);
        for head in heads.iter() {
            let head = head.to_ascii_lowercase();
            assert!(!head.contains("authorization") && !head.contains(SECRET), "{head}");
        }
    }
}

#[test]
fn a_dockerfile_becomes_a_recipe_that_builds() {
    let case = Case::new("");
    fs::remove_file(case.at("image.toml")).unwrap();
    let mut text = "FROM scratch\nCOPY --chmod=755 sh /bin/sh\nCOPY sh /bin/bash\n".to_owned();
    fs::copy("/bin/sh", case.at("sh")).unwrap();
    for path in libraries() {
        let name = path.file_name().unwrap().to_str().unwrap();
        let folder = if name.starts_with("ld-linux") { "lib64" } else { "usr/lib" };
        fs::copy(&path, case.at(name)).unwrap();
        text.push_str(&format!("COPY {name} /{folder}/\n"));
    }
    text.push_str(
        "ENV A='b c'\nUSER nobody\nRUN make\nENTRYPOINT [\"/bin/sh\", \"-c\", \"echo it runs\"]\n",
    );
    fs::write(case.at("Dockerfile"), text).unwrap();
    let shown = case.run(&["from", "Dockerfile", "--name", "lab"]);
    assert_eq!(shown.code, Some(0), "{}", shown.stderr);
    assert!(
        shown.stderr.contains("left out: line ") && shown.stderr.contains("`RUN make`")
            || shown.stderr.contains("`make`"),
        "{}",
        shown.stderr
    );
    assert!(
        shown.stdout.contains("#   exec /bin/sh -c 'echo it runs' \"$@\"\n"),
        "{}",
        shown.stdout
    );
    assert!(!case.at("image.toml").exists());
    let words = ["from", "Dockerfile", "--name", "lab", "--output", "image.toml"];
    let made = case.json(&words);
    let left_out = made["left_out"].as_array().unwrap();
    let named = |text: &str, difference: &str| {
        left_out.iter().any(|left| left["text"] == text && left["difference"] == difference)
    };
    assert!(named("USER nobody", "other") && named("make", "missing"), "{left_out:?}");
    // Nothing that is there is replaced.
    let again = case.run(&words);
    assert_eq!(again.code, Some(2));
    assert!(again.stderr.contains("already exists"), "{}", again.stderr);
    let paths = case.build("out", &["--format", "oci"]);
    let inspected = case.json(&["inspect", paths[0].to_str().unwrap()]);
    assert!(inspected.to_string().contains("lab.sh"), "{inspected}");
}
