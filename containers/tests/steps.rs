//! Steps of a recipe (`[[run]]`), run over an image of this machine's own shell.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::support::Shelf;
use gular_containers::lock::{ImageLock, Sources};
use gular_containers::make::{
    BuildCache, BuildOptions, Built, ImageFormat, ImageWatch, Note, Relocked, Step, build,
};
use gular_containers::oci::{LayersAs, OciLayout};
use gular_containers::rootfs::{FileBytes, Layer, RootPath, Rootfs, What};
use gular_containers::sif::Arch;
use gular_containers::store::{Limits, Store};
use gular_containers::{Error, UnixTime};

const ARCH: Arch = if cfg!(target_arch = "aarch64") { Arch::Arm64 } else { Arch::Amd64 };
/// Programs of this machine that are in the image, beside its shell.
const PROGRAMS: [&str; 7] = ["chown", "date", "ln", "mkdir", "mkfifo", "readlink", "rm"];

struct Case {
    dir: tempfile::TempDir,
}

/// What a build said.
#[derive(Default)]
struct Heard {
    cancel: AtomicBool,
    /// Whether to stop when a step is run.
    stops: bool,
    said: Mutex<Vec<String>>,
}

impl ImageWatch for Heard {
    fn cancel(&self) -> &AtomicBool {
        &self.cancel
    }

    fn working_on(&self, step: Step, _what: &str) {
        self.cancel.fetch_or(self.stops && step == Step::Scripts, Ordering::Relaxed);
    }

    fn note(&self, note: &Note<'_>) {
        let text = match note {
            Note::StepNotReproducible { step, paths } => format!("{step}: {}", paths.join(" ")),
            Note::LeftOut { left, .. } => {
                let left = left.iter().map(|one| format!("{} {}", one.path, one.what));
                left.collect::<Vec<_>>().join(", ")
            }
            Note::StepDiffers { step, .. } => format!("{step} differs"),
            Note::Relocked { why: Relocked::StepsRun, .. } => "locked".to_owned(),
            _ => return,
        };
        self.said.lock().unwrap().push(text);
    }
}

/// Whether this machine runs steps; says so if not.
fn runs_steps() -> bool {
    let words = ["--user", "--map-root-user", "--mount", "--pid", "--fork", "true"];
    let allowed = Command::new("unshare").args(words).status().is_ok_and(|status| status.success());
    if !allowed {
        eprintln!("skipped: this machine does not allow user namespaces");
    }
    allowed
}

/// `[app.files]` of bash, of some programs, and of the libraries that they need.
fn files() -> String {
    let found = |name: &str| {
        let folders = ["/bin", "/usr/bin"].map(PathBuf::from);
        folders.into_iter().map(|dir| dir.join(name)).find(|path| path.exists()).unwrap()
    };
    let (mut lines, mut libraries) = (Vec::new(), BTreeSet::new());
    for name in ["bash"].iter().chain(&PROGRAMS) {
        let path = found(name);
        lines.push(format!("\"bin/{name}\" = \"{}\"\n", path.display()));
        let listed = Command::new("ldd").arg(&path).output().unwrap();
        let listed = String::from_utf8(listed.stdout).unwrap();
        let words = listed.split_whitespace().filter(|word| word.starts_with('/'));
        libraries.extend(words.map(str::to_owned));
    }
    lines.push(format!("\"bin/sh\" = \"{}\"\n", found("bash").display()));
    lines.extend(libraries.iter().map(|path| format!("{:?} = {path:?}\n", &path[1..])));
    lines.concat()
}

impl Case {
    /// A recipe with these tables.
    fn new(steps: &str) -> Self {
        let case = Self { dir: tempfile::tempdir().unwrap() };
        fs::write(case.at("old"), "before\n").unwrap();
        case.write(steps);
        case
    }

    fn write(&self, steps: &str) {
        let (platform, files) = (ARCH.name(), files());
        let text = format!(
            "[image]\nname = \"tool\"\nplatform = \"linux/{platform}\"\n[base]\nscratch = true\n[env]\nOF_IMAGE = \"a b\"\n[app.files]\n\"opt/old\" = \"old\"\n{files}\n{steps}"
        );
        fs::write(self.at("image.toml"), text).unwrap();
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Builds an OCI layout with the cache of this name.
    fn options(&self, cache: &str) -> BuildOptions<'static> {
        let cache = BuildCache::new(&self.at(cache));
        let sources = Sources::new(UnixTime(1_700_000_000));
        let mut options = BuildOptions::new(&self.at("image.toml"), cache, sources);
        options.out = self.at("out");
        options.formats = vec![ImageFormat::Oci];
        options.tools.unshare = Some("unshare".into());
        options.force = true;
        options
    }

    fn build(&self, options: &BuildOptions<'_>) -> (Result<Built, Error>, Vec<String>) {
        let heard = Heard::default();
        let built = build(options, &Shelf::default(), &heard);
        (built, heard.said.into_inner().unwrap())
    }

    fn built(&self, cache: &str) -> (Built, Vec<String>) {
        let (built, said) = self.build(&self.options(cache));
        (built.unwrap(), said)
    }

    fn error(&self, options: &BuildOptions<'_>) -> Error {
        self.build(options).0.unwrap_err()
    }

    fn lock(&self) -> ImageLock {
        ImageLock::open(&self.at("image.lock")).unwrap()
    }

    fn tree(&self, built: &Built) -> Rootfs {
        let layout = OciLayout::open(&built.outputs[0].path).unwrap();
        let image = layout.image(None, ARCH).unwrap();
        let store = Store::new(&self.at("read"));
        layout.rootfs(&image, &store, &Limits::default(), LayersAs::AsWritten).unwrap()
    }
}

/// The text of a file of an image.
fn text(tree: &Rootfs, path: &str) -> Option<String> {
    match &tree.get(&RootPath::new(path).unwrap())?.what {
        What::File(FileBytes::File { path, .. }) => Some(fs::read_to_string(path).unwrap()),
        _ => None,
    }
}

const TWO: &str = r##"
[[run]]
script = """
[ "$(readlink /proc/self/cwd)" = /src/made ]
echo "$OF_IMAGE $OF_STEP" >here
chown 7:7 here
rm /opt/old
echo lost >/tmp/lost
"""
workdir = "/src/made"
env = { OF_STEP = "c" }

[[run]]
script = "#!/bin/bash\nread -r line </src/made/here\necho \"$line ${OF_STEP:-d}\" >/second"
"##;

#[test]
fn steps_change_the_image_in_their_order_and_are_locked() {
    if !runs_steps() {
        return;
    }
    let case = Case::new(TWO);
    let (built, said) = case.built("cache");
    assert_eq!(said, ["locked"]);
    let tree = case.tree(&built);
    assert_eq!(text(&tree, "src/made/here").as_deref(), Some("a b c\n"));
    assert_eq!(text(&tree, "second").as_deref(), Some("a b c d\n"));
    assert_eq!((text(&tree, "opt/old"), text(&tree, "tmp/lost")), (None, None));
    let layer = |path: &str| tree.get(&RootPath::new(path).unwrap()).map(|node| node.layer);
    assert_eq!((layer("second"), layer("bin/rm")), (Some(Layer::Run(0)), Some(Layer::App)));
    let names: Vec<_> = built.outputs[0].layers.iter().map(|layer| layer.name).collect();
    assert_eq!(names, ["run", "run", "app"]);

    let lock = case.lock();
    let layers: Vec<_> = built.steps.iter().map(|step| step.layer).collect();
    assert_eq!(lock.steps.iter().map(|step| step.layer).collect::<Vec<_>>(), layers);
    assert!(lock.steps.iter().all(|step| step.reproducible), "{lock:?}");
    assert!(built.steps.iter().all(|step| step.reproducible && !step.was_there), "{built:?}");

    // With an empty cache, all is run again and is the same; then nothing is run.
    for (cache, was_there) in [("other", false), ("other", true)] {
        let mut options = case.options(cache);
        options.locked = true;
        if was_there {
            options.tools.unshare = None;
        }
        let (again, said) = case.build(&options);
        let again = again.unwrap();
        assert_eq!((again.outputs[0].digest, said), (built.outputs[0].digest, vec![]));
        assert!(again.steps.iter().all(|step| step.was_there == was_there), "{:?}", again.steps);
    }
}

#[test]
fn a_new_program_runs_no_step_and_a_changed_step_runs_those_after_it() {
    if !runs_steps() {
        return;
    }
    let case = Case::new(TWO);
    case.built("cache");
    let ran = |change: &dyn Fn(&mut BuildOptions<'static>)| {
        let mut options = case.options("cache");
        change(&mut options);
        let steps = case.build(&options).0.unwrap().steps;
        steps.iter().map(|step| !step.was_there).collect::<Vec<_>>()
    };
    let program = |options: &mut BuildOptions<'static>| options.program = Some("/bin/sh".into());
    assert_eq!(ran(&program), [false, false]);
    case.write(&TWO.replace(":-d}", ":-e}"));
    assert_eq!(ran(&|_| {}), [false, true]);
    case.write(&TWO.replace("OF_STEP = \"c\"", "OF_STEP = \"f\""));
    let mut locked = case.options("cache");
    locked.locked = true;
    assert!(matches!(case.error(&locked), Error::StepNotLocked { .. }));
    assert_eq!(ran(&|_| {}), [true, true]);
}

#[test]
fn a_step_that_is_not_reproducible_is_said_and_locked_so() {
    if !runs_steps() {
        return;
    }
    let case = Case::new("[[run]]\nscript = \"date +%N >/time\\necho same >/same\"\n");
    let (built, said) = case.built("cache");
    assert_eq!(said, ["step 1 (`date +%N >/time`): /time", "locked"]);
    assert!(!built.steps[0].reproducible && !case.lock().steps[0].reproducible);
    // The cache has what the lock says.
    let (again, said) = case.built("cache");
    assert_eq!(again.steps[0].layer, built.steps[0].layer);
    assert_eq!(said, ["step 1 (`date +%N >/time`): /time"]);
    // Elsewhere, other bytes are a note, and the lock stays.
    let lock = case.lock();
    let (other, said) = case.built("other");
    assert_ne!(other.steps[0].layer, built.steps[0].layer);
    assert!(said.contains(&"step 1 (`date +%N >/time`) differs".to_owned()), "{said:?}");
    assert_eq!(case.lock(), lock);
}

#[test]
fn a_step_that_was_reproducible_and_does_something_else_is_refused() {
    if !runs_steps() {
        return;
    }
    let case = Case::new("[[run]]\nscript = \"echo a >/a\"\n");
    case.built("cache");
    let lock = fs::read_to_string(case.at("image.lock")).unwrap();
    let layer = case.lock().steps[0].layer.to_string();
    let other = format!("sha256:{}", "0".repeat(64));
    fs::write(case.at("image.lock"), lock.replace(&layer, &other)).unwrap();
    match case.error(&case.options("cache")) {
        Error::StepChanged { found, expected, .. } => {
            assert_eq!((found.to_string(), expected.to_string()), (layer, other));
        }
        error => panic!("{error}"),
    }
}

#[test]
fn a_step_that_fails_or_cannot_run_stops_the_build() {
    if !runs_steps() {
        return;
    }
    let case = Case::new("[[run]]\nscript = \"echo begun\\nfalse\\necho not reached\"\n");
    let error = case.error(&case.options("cache")).to_string();
    let expected =
        "step 1 (`echo begun`) of `[[run]]` failed (exit status: 1); its output ends with\n  begun";
    assert_eq!(error, expected);
    assert!(case.lock().steps.is_empty() && !case.at("out").exists());

    let refused = |change: &dyn Fn(&mut BuildOptions<'static>)| {
        let mut options = case.options("cache");
        change(&mut options);
        match case.error(&options) {
            Error::StepRefused { reason, .. } => reason,
            error => panic!("{error}"),
        }
    };
    let reason = refused(&|options| (options.no_scripts, options.locked) = (true, true));
    assert_eq!(reason, "the build was told to run no scripts");
    let reason = refused(&|options| options.tools.unshare = None);
    assert_eq!(reason, "`unshare` of util-linux is not installed");
    let reason = refused(&|options| options.tools.unshare = Some("/bin/false".into()));
    assert!(reason.starts_with("this machine does not allow user namespaces"), "{reason}");
    case.write("[[run]]\nscript = \"echo\"\nnetwork = true\n");
    let reason = refused(&|options| options.offline = true);
    assert_eq!(reason, "it needs a network, and fetching is turned off");
    let text = fs::read_to_string(case.at("image.toml")).unwrap();
    fs::write(case.at("image.toml"), text.replace("\"bin/sh\"", "\"bin/other\"")).unwrap();
    assert_eq!(refused(&|_| {}), "the image has no `/bin/sh`");
}

#[test]
fn what_no_image_can_have_is_said_and_takes_no_name_with_it() {
    if !runs_steps() {
        return;
    }
    let script = "mkfifo /opt/pipe\\nrm /opt/old\\nmkfifo /opt/old\\nmkdir /opt/z\\n";
    // The first name of the file is one that no image keeps.
    let link = "mkdir -p /etc\\necho one >/etc/.pwd.lock\\nln /etc/.pwd.lock /opt/z/a\\nln /opt/z/a /opt/z/b\\n";
    let case = Case::new(&format!("[[run]]\nscript = \"{script}{link}\"\n"));
    for _ in 0..2 {
        let (built, said) = case.built("cache");
        assert!(said.contains(&"/opt/old named pipe, /opt/pipe named pipe".to_owned()), "{said:?}");
        let tree = case.tree(&built);
        let what = |path: &str| tree.get(&RootPath::new(path).unwrap()).map(|node| &node.what);
        assert_eq!(text(&tree, "opt/z/a").as_deref(), Some("one\n"));
        assert_eq!(what("opt/z/b"), Some(&What::Hardlink(RootPath::new("opt/z/a").unwrap())));
        assert_eq!((what("opt/old"), what("opt/pipe"), what("etc/.pwd.lock")), (None, None, None));
    }
}

#[test]
fn a_step_has_what_apt_needs_where_root_is_the_only_user() {
    if !runs_steps() {
        return;
    }
    let script = r#"read -r user <"$APT_CONFIG"
[ "$user" = 'APT::Sandbox::User "root";' ]
dpkg-statoverride --update --add root messagebus 4754 /bin/rm
if dpkg-statoverride --list /bin/rm; then exit 1; fi
: >/made"#;
    let case = Case::new(&format!("[[run]]\nscript = '''{script}'''\n"));
    let (built, said) = case.built("cache");
    assert_eq!(said, ["locked"]);
    assert_eq!(text(&case.tree(&built), "made").as_deref(), Some(""));
}

#[test]
fn a_step_ends_when_the_build_is_stopped() {
    if !runs_steps() {
        return;
    }
    let case = Case::new("[[run]]\nscript = \"while :; do :; done\"\n");
    let heard = Heard { stops: true, ..Heard::default() };
    let stopped = build(&case.options("cache"), &Shelf::default(), &heard);
    assert!(matches!(stopped, Err(Error::Cancelled)), "{stopped:?}");
}

#[test]
fn a_step_sees_no_file_of_the_machine_and_mounts_nothing() {
    if !runs_steps() {
        return;
    }
    let case = Case::new("");
    let marker = case.at("marker");
    fs::write(&marker, "").unwrap();
    let script = "for root in / /proc/1/root /proc/self/cwd/../../..; do [ ! -e $root$MARKER ]; done\nif echo x >/proc/sys/kernel/printk; then exit 1; fi\nread -r most </proc/sys/user/max_user_namespaces\n[ $most = 0 ]\n[ $$ = 1 ]";
    case.write(&format!(
        "[[run]]\nscript = '''{script}'''\nenv = {{ MARKER = {:?} }}\n",
        marker.display().to_string()
    ));
    case.built("cache");
}

#[test]
fn a_step_has_a_network_only_if_it_asks_for_one() {
    if !runs_steps() {
        return;
    }
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = server.local_addr().unwrap().port();
    thread::spawn(move || {
        for client in server.incoming() {
            client.unwrap().write_all(b"hello\n").unwrap();
        }
    });
    let script = "#!/bin/bash\nset -e\nexec 3<>/dev/tcp/127.0.0.1/$PORT\nread -r line <&3\necho $line >/fetched\n: >/etc/resolv.conf";
    let step = |network: bool| {
        format!(
            "[[run]]\nscript = '''{script}'''\nnetwork = {network}\nenv = {{ PORT = \"{port}\" }}\n"
        )
    };
    let case = Case::new(&step(false));
    let error = case.error(&case.options("cache"));
    assert!(matches!(error, Error::StepFailed { .. }), "{error}");
    case.write(&step(true));
    let (built, _) = case.built("cache");
    let tree = case.tree(&built);
    assert_eq!(text(&tree, "fetched").as_deref(), Some("hello\n"));
    assert!(built.steps[0].reproducible);
    // How names are found is the machine's.
    assert_eq!(text(&tree, "etc/resolv.conf").unwrap_or_default(), "");
}
