//! What Apptainer and Singularity expect inside a root file system: `/.singularity.d`, the links to
//! it, and the folders they mount over.
//!
//! Without `env/99-base.sh` Apptainer drops every `APPTAINERENV_` variable, which
//! is how HTCondor hands a job its environment; without a `test` that ends with 0
//! HTCondor does not start the job at all.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::json;

use crate::Result;
use crate::rootfs::{FileBytes, Layer, RootPath, Rootfs, What, find_program};
use crate::sif::Arch;

/// The description of an image.
#[derive(Debug, Clone)]
pub struct Description<'a> {
    /// Processor of its programs.
    pub arch: Arch,
    /// The command that `apptainer run` starts: a program's path inside, and its arguments.
    pub command: &'a [String],
    /// Arguments of the command when a user gives none; without a command, what starts then.
    pub arguments: &'a [String],
    /// Environment variables. All but `PATH` keep a value that is set outside. Those whose names
    /// are not valid in a shell are left out.
    pub env: &'a BTreeMap<String, String>,
    /// Labels, as `apptainer inspect` shows them.
    pub labels: &'a BTreeMap<String, String>,
    /// The recipe's text, as `apptainer inspect --deffile` shows it.
    pub recipe: &'a str,
}

const DIR: &str = ".singularity.d";
/// The script that sets the environment variables.
pub(crate) const ENVIRONMENT: &str = ".singularity.d/env/90-environment.sh";
const SHELL: &str = "#!/bin/sh\n";
/// Folders that runtimes mount something over; the second column is the mode.
const MOUNTS: [(&str, u16); 11] = [
    ("dev", 0o755),
    ("etc", 0o755),
    ("home", 0o755),
    ("opt", 0o755),
    ("proc", 0o755),
    ("root", 0o700),
    ("run", 0o755),
    ("srv", 0o755),
    ("sys", 0o755),
    ("tmp", 0o1777),
    ("var/tmp", 0o1777),
];
/// Files that runtimes mount over or append to, when no package brought them.
const FILES: [(&str, &str); 4] = [
    ("etc/passwd", "root:x:0:0:root:/root:/bin/sh\n"),
    ("etc/group", "root:x:0:\n"),
    ("etc/hosts", ""),
    ("etc/resolv.conf", ""),
];
const LINKS: [(&str, &str); 6] = [
    (".exec", ".singularity.d/actions/exec"),
    (".run", ".singularity.d/actions/run"),
    (".shell", ".singularity.d/actions/shell"),
    (".test", ".singularity.d/actions/test"),
    ("environment", ENVIRONMENT),
    ("singularity", ".singularity.d/runscript"),
];

/// Adds the files that Singularity and Apptainer expect to a tree, and returns the text of the
/// SIF's object `inspect-metadata.json`.
///
/// # Errors
/// [`Error::Conflict`](crate::Error::Conflict) where the tree has something else at one of these paths.
pub fn describe(tree: &mut Rootfs, of: &Description<'_>) -> Result<String> {
    for (path, mode) in MOUNTS {
        let path = RootPath::new(path)?;
        // A link that leads nowhere may be meant for what the runtime mounts.
        if tree.get(&path).is_none() {
            tree.add(Layer::App, &path, mode, What::Dir)?;
        }
    }
    for (path, text) in FILES {
        let path = RootPath::new(path)?;
        if tree.get(&path).is_none() {
            tree.add_text(Layer::App, &path, 0o644, text)?;
        }
    }
    for (path, target) in LINKS {
        let (path, link) = (RootPath::new(path)?, What::Symlink(target.to_owned()));
        // Only old runtimes use these links: an image's own file of the name stays.
        if tree.get(&path).is_none_or(|node| matches!(node.what, What::Symlink(_))) {
            tree.add(Layer::App, &path, 0o777, link)?;
        }
    }
    tree.add_dir(Layer::App, &RootPath::new(&format!("{DIR}/libs"))?)?;

    let shell = tree.follow(&RootPath::new("bin/sh")?).is_some();
    let labels = serde_json::to_string_pretty(of.labels).unwrap_or_default() + "\n";
    let mut env = environment(of.env);
    if has_python(tree, of.env) && !of.env.contains_key("PYTHONPATH") {
        env.push_str(FOREIGN_MODULES);
    }
    let run = run(of.command, of.arguments);
    let mut add = |name: &str, mode, text: &str| {
        tree.add_text(Layer::App, &RootPath::new(&format!("{DIR}/{name}"))?, mode, text)
    };
    add("Singularity", 0o644, of.recipe)?;
    add("labels.json", 0o644, &labels)?;
    add("env/90-environment.sh", 0o755, &env)?;
    add("env/99-base.sh", 0o755, BASE_ENV)?;
    for (name, last) in ACTIONS {
        add(&format!("actions/{name}"), 0o755, &format!("{SHELL}{SOURCE_ENV}{last}\n"))?;
    }
    add("startscript", 0o755, SHELL)?;
    if shell {
        add("test", 0o755, TEST)?;
        add("runscript", 0o755, &run)?;
    } else {
        // Without a shell no script can run, so programs are in their place.
        let success = What::File(FileBytes::Bytes(Arc::from(success(of.arch))));
        tree.add(Layer::App, &RootPath::new(&format!("{DIR}/test"))?, 0o755, success)?;
        if let Some(program) = of.command.iter().chain(of.arguments).next() {
            let link = What::Symlink(program.clone());
            tree.add(Layer::App, &RootPath::new(&format!("{DIR}/runscript"))?, 0o777, link)?;
        }
    }
    let metadata = json!({
        "data": { "attributes": {
            "deffile": of.recipe,
            "environment": { "/.singularity.d/env/90-environment.sh": env },
            "labels": of.labels,
            "runscript": run,
            "test": TEST,
        } },
        "type": "container",
    });
    Ok(metadata.to_string())
}

/// Python searches `PYTHONPATH` before its own packages. Apptainer takes the variables of the host
/// away before it reads this, and gives them back after it; it keeps them in one of its own.
const FOREIGN_MODULES: &str = "\
case \"${PYTHONPATH:+
PYTHONPATH=}
${__exported_env__-}\" in
*\"
PYTHONPATH=\"*)
    echo 'warning: PYTHONPATH of the host may hide Python packages of this image; unset it, or set APPTAINERENV_PYTHONPATH if you mean it' >&2
    ;;
esac
";

const BASE_ENV: &str = "#!/bin/sh
# Libraries of the host that `--nv` brings.
export LD_LIBRARY_PATH=\"${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}/.singularity.d/libs\"
";

/// The run script of an image whose program the job brings.
const NO_COMMAND: &str = "#!/bin/sh
if [ $# -eq 0 ]; then
    set -- /bin/sh
fi
exec \"$@\"
";

const TEST: &str = "#!/bin/sh
# HTCondor runs this before a job, and starts none when it fails.
exit 0
";

const SOURCE_ENV: &str = "for script in /.singularity.d/env/*.sh; do
    if [ -f \"$script\" ]; then
        . \"$script\"
    fi
done
";

/// Programs of old runtimes; new ones have their own.
const ACTIONS: [(&str, &str); 5] = [
    ("exec", "exec \"$@\""),
    ("run", "exec /.singularity.d/runscript \"$@\""),
    ("shell", "exec /bin/sh \"$@\""),
    ("start", "exec /.singularity.d/startscript \"$@\""),
    ("test", "exec /.singularity.d/test \"$@\""),
];

/// Whether a shell accepts a name for a variable. Others, which Docker allows, would be read as
/// commands.
pub(crate) fn is_variable(name: &str) -> bool {
    let good = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    !name.is_empty() && name.bytes().all(good) && !name.starts_with(|c: char| c.is_ascii_digit())
}

/// `PATH` replaces what the outside says, which knows nothing of the inside.
fn environment(env: &BTreeMap<String, String>) -> String {
    let mut text = SHELL.to_owned();
    for (name, value) in env.iter().filter(|(name, _)| is_variable(name)) {
        let value = quoted(value);
        if name == "PATH" {
            text.push_str(&format!("export PATH={value}\n"));
        } else {
            text.push_str(&format!(
                "if [ -z \"${{{name}+set}}\" ]; then\n    {name}={value}\nfi\nexport {name}\n"
            ));
        }
    }
    text
}

/// Whether an image with these variables starts Python by its usual name.
pub(crate) fn has_python(tree: &Rootfs, env: &BTreeMap<String, String>) -> bool {
    find_program(tree, env, "python3").is_some()
}

/// The script that `apptainer run` starts.
fn run(command: &[String], arguments: &[String]) -> String {
    let exec = match command {
        [] => "exec".to_owned(),
        command => format!("exec {}", words(command)),
    };
    match (command, arguments) {
        ([], []) => NO_COMMAND.to_owned(),
        (_, []) => format!("{SHELL}{exec} \"$@\"\n"),
        (_, arguments) => {
            let arguments = words(arguments);
            format!("{SHELL}if [ $# -eq 0 ]; then\n    set -- {arguments}\nfi\n{exec} \"$@\"\n")
        }
    }
}

fn words(command: &[String]) -> String {
    command.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
}

/// Quotes a text, so that a shell takes it as one word without a special meaning. A single quote is
/// between double ones: the shell inside Apptainer keeps the backslash of `'\''`.
pub(crate) fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+@%".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r#"'"'"'"#))
    }
}

/// A program that ends with 0: one ELF header, one segment, a system call.
fn success(arch: Arch) -> Vec<u8> {
    const HEADERS: u64 = 64 + 56;
    const BASE: u64 = 0x40_0000;
    let (machine, code): (u16, &[u8]) = match arch {
        // mov eax, 60 (exit); xor edi, edi; syscall
        Arch::Amd64 => (62, &[0xb8, 60, 0, 0, 0, 0x31, 0xff, 0x0f, 0x05]),
        // mov x0, #0; mov x8, #93 (exit); svc #0
        Arch::Arm64 => {
            (183, &[0x00, 0x00, 0x80, 0xd2, 0xa8, 0x0b, 0x80, 0xd2, 0x01, 0x00, 0x00, 0xd4])
        }
    };
    let bytes = HEADERS + code.len() as u64;
    let mut elf = b"\x7fELF\x02\x01\x01".to_vec();
    elf.resize(16, 0);
    let halves = |elf: &mut Vec<u8>, halves: &[u16]| {
        elf.extend(halves.iter().flat_map(|half| half.to_le_bytes()));
    };
    let longs = |elf: &mut Vec<u8>, longs: &[u64]| {
        elf.extend(longs.iter().flat_map(|long| long.to_le_bytes()));
    };
    // Executable, machine, version 1; entry, program headers, no sections.
    halves(&mut elf, &[2, machine, 1, 0]);
    longs(&mut elf, &[BASE + HEADERS, 64, 0]);
    // Flags; sizes of header and of one program header; no sections.
    halves(&mut elf, &[0, 0, 64, 56, 1, 64, 0, 0]);
    // Loaded, readable and executable, from byte 0 on.
    halves(&mut elf, &[1, 0, 5, 0]);
    longs(&mut elf, &[0, BASE, BASE, bytes, bytes, 0x1000]);
    elf.extend_from_slice(code);
    elf
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;
    use std::process::Command;

    use super::*;

    fn described(shell: bool) -> (Rootfs, serde_json::Value) {
        let mut tree = Rootfs::default();
        if shell {
            let link = What::Symlink("dash".to_owned());
            tree.add(Layer::Base, &RootPath::new("bin/sh").unwrap(), 0o777, link).unwrap();
            tree.add_text(Layer::Base, &RootPath::new("bin/dash").unwrap(), 0o755, "").unwrap();
        }
        let env = [("PATH", "/usr/bin"), ("A", "it's $HOME"), ("B", "1")];
        let env = env.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let of = Description {
            arch: Arch::Amd64,
            command: &["/opt/app/bin/train".to_owned(), "--x y".to_owned()],
            arguments: &[],
            env: &env,
            labels: &[("a".to_owned(), "b".to_owned())].into(),
            recipe: "[image]\n",
        };
        let metadata = describe(&mut tree, &of).unwrap();
        (tree, serde_json::from_str(&metadata).unwrap())
    }

    fn text(tree: &Rootfs, path: &str) -> String {
        match &tree.follow(&RootPath::new(path).unwrap()).unwrap().1.what {
            What::File(FileBytes::Bytes(bytes)) => String::from_utf8(bytes.to_vec()).unwrap(),
            other => panic!("{path}: {other:?}"),
        }
    }

    #[test]
    fn links_lead_to_what_is_there() {
        let (tree, metadata) = described(true);
        for (link, _) in LINKS {
            text(&tree, link);
        }
        assert_eq!(
            text(&tree, "singularity"),
            "#!/bin/sh\nexec /opt/app/bin/train '--x y' \"$@\"\n"
        );
        let attributes = &metadata["data"]["attributes"];
        assert_eq!(attributes["labels"]["a"], "b");
        assert_eq!(attributes["deffile"], "[image]\n");
        assert_eq!(metadata["type"], "container");
    }

    #[test]
    fn what_an_image_has_in_the_places_of_links_and_folders_stays() {
        let mut tree = Rootfs::default();
        let path = |text: &str| RootPath::new(text).unwrap();
        let nowhere = What::Symlink("/data/opt".to_owned());
        tree.add(Layer::Base, &path("opt"), 0o777, nowhere.clone()).unwrap();
        tree.add_text(Layer::Base, &path("singularity"), 0o644, "mine").unwrap();
        let none = BTreeMap::new();
        let of = Description {
            arch: Arch::Amd64,
            command: &[],
            arguments: &[],
            env: &none,
            labels: &none,
            recipe: "",
        };
        describe(&mut tree, &of).unwrap();
        assert_eq!(tree.get(&path("opt")).unwrap().what, nowhere);
        assert_eq!(text(&tree, "singularity"), "mine");
        assert!(tree.follow(&path("environment")).is_some());
    }

    #[test]
    fn both_shells_read_quotes_alike() {
        // The parser of Apptainer's shell, mvdan.cc/sh, keeps the backslash of `'\\''` in some places.
        for value in ["it's", "'", "''", "a 'b' $c `d` \\ \"e\" !", "", "x\ny"] {
            let word = quoted(value);
            assert!(!word.contains("\\'"), "{word}");
            for shell in ["sh", "bash"] {
                let script = format!("A={word}; printf %s \"$A\"");
                let output = Command::new(shell).args(["-c", &script]).output().unwrap();
                assert_eq!(String::from_utf8(output.stdout).unwrap(), value, "{shell}: {word}");
            }
        }
    }

    #[test]
    fn a_search_path_for_modules_of_the_host_is_told() {
        let (mut tree, _) = described(true);
        let path = |text: &str| RootPath::new(text).unwrap();
        let warns = |tree: &Rootfs, value: &str| {
            let script = text(tree, "environment");
            let output = Command::new("sh").env("PYTHONPATH", value).args(["-c", &script]).output();
            let said = String::from_utf8(output.unwrap().stderr).unwrap();
            assert!(said.is_empty() || said.contains("PYTHONPATH"), "{said}");
            !said.is_empty()
        };
        assert!(!warns(&tree, "/home/me/lib"), "there is no Python");
        tree.add_text(Layer::Base, &path("usr/bin/python3"), 0o755, "").unwrap();
        let describe_with = |tree: &mut Rootfs, env: &[(&str, &str)]| {
            let env = env.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
            let none = BTreeMap::new();
            let of = Description {
                arch: Arch::Amd64,
                command: &[],
                arguments: &[],
                env: &env,
                labels: &none,
                recipe: "",
            };
            describe(tree, &of).unwrap();
        };
        describe_with(&mut tree, &[]);
        assert!(warns(&tree, "/home/me/lib"));
        assert!(!warns(&tree, ""));
        describe_with(&mut tree, &[("PYTHONPATH", "/app/lib")]);
        assert!(!warns(&tree, "/home/me/lib"), "the image sets its own");
    }

    #[test]
    fn arguments_are_those_of_the_image_unless_a_user_gives_some() {
        let list = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        for (command, arguments, given, expected) in [
            (&["printf", "%s,"][..], &["a b", "c"][..], &[][..], "a b,c,"),
            (&["printf", "%s,"], &["a b"], &["x"], "x,"),
            (&[], &["printf", "%s.", "a"], &[], "a."),
            (&[], &["printf", "%s.", "a"], &["echo", "x"], "x\n"),
            (&["echo"], &[], &["y"], "y\n"),
        ] {
            let script = run(&list(command), &list(arguments));
            let output = Command::new("sh").args(["-c", &script, "sh"]).args(given).output();
            let output = String::from_utf8(output.unwrap().stdout).unwrap();
            assert_eq!(output, expected, "{script}");
        }
    }

    #[test]
    fn the_environment_gives_way_to_the_outside_but_for_path() {
        let (tree, _) = described(true);
        let script = text(&tree, "environment");
        let run = |name: &str, value: &str| {
            let mut shell = Command::new("sh");
            shell.env_clear().env(name, value).arg("-c");
            let output = shell.arg(format!("{script}\necho \"$PATH|$A|$B\"")).output().unwrap();
            String::from_utf8(output.stdout).unwrap()
        };
        assert_eq!(run("X", ""), "/usr/bin|it's $HOME|1\n");
        assert_eq!(run("B", "2"), "/usr/bin|it's $HOME|2\n");
        assert_eq!(run("PATH", "/bin:/usr/bin"), "/usr/bin|it's $HOME|1\n");
    }

    #[test]
    fn names_that_no_shell_takes_are_not_in_its_script() {
        let names = ["MY-VAR", "discovery.type", "A}\" ]; then id; fi; #", "1A", "", "É", "_b1"];
        let env = names.map(|name| (name.to_owned(), "1".to_owned())).into();
        let only = BTreeMap::from([("_b1".to_owned(), "1".to_owned())]);
        assert_eq!(environment(&env), environment(&only));
        assert!(environment(&only).contains("export _b1\n"));
    }

    #[test]
    fn without_a_shell_programs_stand_in_for_scripts() {
        let (tree, _) = described(false);
        let runscript = tree.get(&RootPath::new(".singularity.d/runscript").unwrap()).unwrap();
        assert_eq!(runscript.what, What::Symlink("/opt/app/bin/train".to_owned()));
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn the_program_that_succeeds_does() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("success");
        fs::write(&path, success(Arch::Amd64)).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        // Busy while another test's fork still holds the file open for writing.
        let status = loop {
            match Command::new(&path).status() {
                Err(e) if e.kind() == std::io::ErrorKind::ExecutableFileBusy => {}
                status => break status.unwrap(),
            }
        };
        assert!(status.success());
    }
}
