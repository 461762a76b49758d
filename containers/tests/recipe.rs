//! Recipes: which are accepted, and which errors the others give.

use gular_containers::Error;
use gular_containers::recipe::{Platform, Recipe, RunStep, Runtime};
use gular_containers::sif::Arch;

const WHOLE: &str = r#"
[image]
name = "train"
platform = "linux/amd64"
[base]
debian = "bookworm"
packages = ["bash", "coreutils"]
[app]
package = "train"
features = ["cuda"]
[cuda]
torch = "2.11.0"
[python]
requirements = "requirements.txt"
wheels = ["gular-*.whl"]
[target]
gpus = ["8.0", "9.0", "12.0"]
apptainer = "1.4"
[env]
OMP_NUM_THREADS = "1"
[labels]
"org.opencontainers.image.licenses" = "MIT"
"#;

fn parse(text: &str) -> Result<Recipe, Error> {
    Recipe::parse(text, "image.toml")
}

/// The line, the reason and the hint of a recipe's error.
fn wrong(text: &str) -> (usize, String, String) {
    match parse(text) {
        Err(Error::Recipe { line, reason, hint, .. }) => (line, reason, hint.unwrap_or_default()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_whole_recipe_is_read() {
    let recipe = parse(WHOLE).unwrap();
    assert_eq!(recipe.image.name, "train");
    assert_eq!(recipe.image.platform, Platform(Arch::Amd64));
    assert_eq!(recipe.base.packages.unwrap(), ["bash", "coreutils"]);
    assert_eq!(recipe.app.unwrap().package.unwrap(), "train");
    assert_eq!(recipe.cuda.unwrap().torch.unwrap().0, "2.11.0");
    let python = recipe.python.unwrap();
    assert!(python.bytecode && python.lock.is_none() && python.wheels.len() == 1);
    assert_eq!(recipe.target.gpus.iter().map(|gpu| gpu.sm()).collect::<Vec<_>>(), [80, 90, 120]);
    assert_eq!(recipe.target.apptainer, Runtime(1, 4));
    assert_eq!(recipe.env["OMP_NUM_THREADS"], "1");
}

#[test]
fn little_is_enough() {
    let recipe = parse("[image]\nname = \"shell\"\n").unwrap();
    assert_eq!(recipe.target.apptainer, Runtime(1, 1));
    assert!(!recipe.base.scratch && recipe.app.is_none());
}

#[test]
fn unknown_keys_are_errors_with_the_nearest_known_one() {
    let (line, reason, hint) = wrong(&WHOLE.replace("packages", "package"));
    assert_eq!((line, reason.as_str()), (7, "unknown key `package` in `[base]`"));
    assert_eq!(hint, "did you mean `packages`?");
    let (line, reason, hint) = wrong(&WHOLE.replace("[labels]", "[label]"));
    assert_eq!((line, reason.as_str()), (21, "unknown section `label`"));
    assert_eq!(hint, "did you mean `labels`?");
    let (_, _, hint) = wrong("[image]\nname = \"a\"\n[cuda]\nversion = \"12\"\n");
    assert_eq!(hint, "the keys known here are: torch, libtorch");
}

#[test]
fn steps_are_read_in_their_order_and_checked() {
    let steps = "[[run]]\nscript = \"\\n# why\\nmake\"\n[[run]]\nscript = \"b\"\nnetwork = true\nworkdir = \"/src\"\nenv = { A = \"b\" }\n";
    let recipe = parse(&format!("{WHOLE}{steps}")).unwrap();
    assert_eq!(recipe.run.iter().map(RunStep::first_line).collect::<Vec<_>>(), ["make", "b"]);
    assert_eq!(recipe.run[0].workdir, "/");
    assert!(!recipe.run[0].network && recipe.run[1].network);
    for (from, to, says) in [
        ("network", "netwrk", "unknown key `netwrk` in `[run]`"),
        ("\"b\"\nnet", "\" \"\nnet", "the `script` of a step is empty"),
        ("\"/src\"", "\"src\"", "`workdir` is `src`, expected a path such as `/src`"),
        ("\"/src\"", "\"/a/../b\"", "`workdir` is `/a/../b`"),
        ("{ A", "{ 1A", "`1A` is not the name"),
    ] {
        let (line, reason, _) = wrong(&format!("{WHOLE}{}", steps.replace(from, to)));
        assert!(reason.contains(says) && line >= 23, "{line} {reason}");
    }
}

#[test]
fn values_out_of_range_are_errors_with_their_line() {
    for (from, to, line, says) in [
        ("\"train\"\nplatform", "\"Train me\"\nplatform", 3, "the name is `Train me`"),
        ("linux/amd64", "linux/sparc", 4, "`linux/amd64` or `linux/arm64`"),
        ("\"8.0\"", "\"80\"", 17, "`80` is not a compute capability"),
        ("\"2.11.0\"", "\"2.11\"", 12, "the version of torch is `2.11`"),
        ("\"1.4\"", "\"new\"", 18, "Apptainer is `new`"),
        ("debian = \"bookworm\"", "debian = \"bookworm\"\nscratch = true", 5, "exclude each other"),
        (
            "debian = \"bookworm\"",
            "scratch = true",
            5,
            "`packages` needs the key `debian` or `oci`",
        ),
        ("OMP_NUM_THREADS", "2BAD", 19, "`2BAD` is not the name"),
        ("name = \"train\"\n", "", 2, "missing field `name`"),
        ("[env]", "[env", 19, ""),
        (
            "debian = \"bookworm\"\npackages = [\"bash\"",
            "oci = \"base\"\npackages = [\"default\"",
            5,
            "leave out `default`",
        ),
        (
            "debian = \"bookworm\"\npackages = [\"bash\", \"coreutils\"]",
            "scratch = true",
            12,
            "`[python]` needs a base",
        ),
        (
            "requirements =",
            "interpreter = \"/x\"\nrequirements =",
            13,
            "`interpreter` needs the key `oci`",
        ),
        (
            "requirements =",
            "lock = \"pylock.toml\"\nrequirements =",
            13,
            "use either `lock` or `requirements`",
        ),
        (
            "requirements = \"requirements.txt\"\nwheels = [\"gular-*.whl\"]",
            "bytecode = false",
            13,
            "expected `lock`, `requirements` or `wheels`",
        ),
    ] {
        let (found, reason, _) = wrong(&WHOLE.replacen(from, to, 1));
        assert!(reason.contains(says), "{to}: {reason}");
        assert_eq!(found, line, "{to}: {reason}");
    }
    let (_, reason, _) = wrong("[image]\nname = \"a\"\n[base]\nscratch = true\n");
    assert!(reason.starts_with("the image would be empty"), "{reason}");
}
