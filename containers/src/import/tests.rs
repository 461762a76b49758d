//! Whole files and their recipes.

use std::fs;

use super::*;
use crate::Error;

/// A folder with the files that the texts name.
fn folder() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("src")).unwrap();
    for (name, text) in [
        ("train.py", "import torch\n"),
        ("requirements.txt", "torch==2.5.1\nnumpy\n"),
        ("src/model.py", ""),
        ("data.tar.gz", ""),
    ] {
        fs::write(dir.path().join(name), text).unwrap();
    }
    dir
}

fn import(text: &str, change: impl FnOnce(&mut ImportOptions)) -> crate::Result<Imported> {
    let dir = folder();
    let mut options = ImportOptions {
        name: "lab".to_owned(),
        context: dir.path().to_owned(),
        ..ImportOptions::default()
    };
    change(&mut options);
    translate(text, "FILE", &options)
}

/// Checks the recipe without its comments, the files beside it, and the lines left out.
fn check(text: &str, recipe: &str, files: &[(&str, &str)], left_out: &[(usize, Difference, &str)]) {
    let made = import(text, |_| {}).unwrap();
    let lines = made.recipe.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    assert_eq!(lines.collect::<Vec<_>>().join("\n"), recipe.trim(), "{text}");
    let found: Vec<_> =
        made.files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    assert_eq!(found, files, "{text}");
    let found: Vec<_> =
        made.left_out.iter().map(|left| (left.line, left.difference, left.text.as_str())).collect();
    assert_eq!(found, left_out, "{text}");
    for left in &made.left_out {
        let line = format!("# line {}: {}: ", left.line, left.text);
        assert!(made.recipe.contains(&line), "{line}\n{}", made.recipe);
    }
}

use Difference::{Missing, Other};

#[test]
fn a_usual_dockerfile_becomes_a_recipe() {
    check(
        r#"# syntax=docker/dockerfile:1
ARG CUDA=12.4.1
FROM nvidia/cuda:${CUDA}-runtime-ubuntu22.04 AS base
LABEL org.opencontainers.image.title="A model" maintainer=lab
ENV DEBIAN_FRONTEND=noninteractive \
    PYTHONUNBUFFERED=1 MODELS="/opt/my models"
RUN apt-get update && apt-get install -y --no-install-recommends \
      python3.10 python3-pip \
      # for OpenCV
      libgl1-mesa-glx=1.2 git \
 && rm -rf /var/lib/apt/lists/*
WORKDIR /work
COPY requirements.txt .
RUN pip3 install --no-cache-dir -r requirements.txt
COPY . /work
EXPOSE 8888/tcp
RUN git clone https://example.org/x.git && cd x && make -j4
ENTRYPOINT ["python3", "train.py"]
CMD ["--epochs", "3"]
"#,
        r#"
[image]
name = "lab"
[base]
debian = "bookworm"
packages = ["default", "git", "libgl1", "make", "python3"]
[app]
path = "lab.sh"
[app.files]
"work" = "."
"work/requirements.txt" = "requirements.txt"
[python]
requirements = "requirements.txt"
[[run]]
script = '''
git clone https://example.org/x.git
cd x
make -j4
'''
network = true
workdir = "/work"
[env]
MODELS = "/opt/my models"
PYTHONUNBUFFERED = "1"
[labels]
maintainer = "lab"
"org.opencontainers.image.title" = "A model"
"#,
        &[(
            "lab.sh",
            "#!/bin/sh\n[ $# -gt 0 ] || set -- --epochs 3\nexec python3 /work/train.py \"$@\"\n",
        )],
        &[
            (3, Other, "FROM nvidia/cuda:12.4.1-runtime-ubuntu22.04"),
            (
                7,
                Other,
                "apt-get install -y --no-install-recommends python3.10 python3-pip libgl1-mesa-glx=1.2 git",
            ),
            (12, Other, "WORKDIR /work"),
            (16, Other, "EXPOSE 8888/tcp"),
            (17, Other, "git clone https://example.org/x.git; make -j4"),
        ],
    );
}

#[test]
fn a_definition_file_becomes_a_recipe() {
    check(
        r#"Bootstrap: docker
From: debian:{{ RELEASE }}

%arguments
    RELEASE=12

%labels
    Author lab
    Version v1 2

%environment
    export LC_ALL=C
    export PATH=/opt/tools/bin:$PATH
    source /opt/setup.sh

%post -c /bin/bash
    set -e
    export DEBIAN_FRONTEND=noninteractive
    apt-get -y update
    apt-get -y install gdal-bin \
        python3
    python3 -m pip install 'numpy<2' "scipy>=1.10"; echo 'export A=b' >> $APPTAINER_ENVIRONMENT
    if [ -d /x ]; then
        make
    fi
    cat > /etc/a <<EOF
apt-get install -y vim
EOF

%runscript
    # what it does
    exec python3 /opt/code/train.py "$@"

%files
    train.py /opt/code/
    src /opt/src

%test
    gdalinfo --version
"#,
        r#"
[image]
name = "lab"
[base]
debian = "bookworm"
packages = ["default", "gdal-bin", "make", "python3"]
[app]
path = "lab.sh"
[app.files]
"opt/code/train.py" = "train.py"
"opt/src" = "src"
[python]
requirements = "lab-requirements.txt"
[[run]]
script = '''
set -e
export DEBIAN_FRONTEND=noninteractive
if [ -d /x ]; then
        make
    fi
'''
[env]
A = "b"
LC_ALL = "C"
PATH = "/opt/tools/bin:/app/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
[labels]
Author = "lab"
Version = "v1 2"
"#,
        &[
            ("lab-requirements.txt", "numpy<2\nscipy>=1.10\n"),
            ("lab.sh", "#!/bin/sh\n# what it does\nexec python3 /opt/code/train.py \"$@\"\n"),
        ],
        &[
            (14, Missing, "source /opt/setup.sh"),
            (20, Other, "apt-get install"),
            (23, Other, "if [ -d /x ] then make fi"),
            (26, Missing, "cat > /etc/a <<EOF apt-get install -y vim EOF"),
            (38, Other, "%test"),
        ],
    );
}

#[test]
fn stages_are_followed_to_their_base() {
    let text = "FROM rust:1 AS build\nRUN cargo build\nFROM debian:12 AS base\nRUN apt-get install -y --no-install-recommends jq\nFROM base\nCOPY --from=build /x /usr/local/bin/x\nCMD bash\n";
    check(
        text,
        "[image]\nname = \"lab\"\n[base]\ndebian = \"bookworm\"\npackages = [\"default\", \"jq\"]",
        &[],
        &[(6, Missing, "COPY --from=build /x /usr/local/bin/x"), (7, Other, "a shell")],
    );
    let made = import(text, |options| options.stage = Some("build".to_owned())).unwrap();
    assert!(made.recipe.contains("oci = \"docker://rust:1\""), "{}", made.recipe);
    let none = import(text, |options| options.stage = Some("other".to_owned()));
    assert!(matches!(none, Err(Error::Recipe { hint: Some(_), .. })), "{none:?}");
}

#[test]
fn the_header_of_a_definition_file_begins_a_stage() {
    let text = "From:debian:13\nBootstrap:docker\n%post\n apt-get install --no-install-recommends jq\nBootstrap: docker\nFrom: debian:12\nStage: last\n%files from a\n/x /y\n%labels\n A: b\n";
    let recipe = "[image]\nname = \"lab\"\n[base]\ndebian = \"bookworm\"\n[labels]\nA = \"b\"";
    check(text, recipe, &[], &[(9, Missing, "/x /y")]);
    let made = import(text, |options| options.stage = Some("last".to_owned())).unwrap();
    assert!(made.recipe.contains("\"bookworm\""), "{}", made.recipe);
    let first = text.split("Bootstrap: ").next().unwrap();
    assert!(import(first, |_| {}).unwrap().recipe.contains("\"jq\""));
}

#[test]
fn packages_of_pip_are_requirements() {
    let of = |commands: &str| {
        let made =
            import(&format!("FROM debian:12\nCOPY . /w\nWORKDIR /w\nRUN {commands}\n"), |_| {});
        let made = made.unwrap();
        let lines = made.files.get("lab-requirements.txt").cloned().unwrap_or_default();
        (lines, made.left_out.iter().filter(|left| left.difference == Missing).count())
    };
    for (commands, lines, missing) in [
        ("pip install -U pip setuptools wheel", "setuptools\n", 0),
        (
            "pip install torch --index-url https://download.pytorch.org/whl/cu121",
            "--index-url https://download.pytorch.org/whl/cu121\ntorch\n",
            0,
        ),
        (
            "pip install --extra-index-url=https://a.example/simple -rrequirements.txt x",
            "--extra-index-url https://a.example/simple\n-r requirements.txt\nx\n",
            0,
        ),
        (
            "pip install --index-url https://a.example/s x && pip install y",
            "--extra-index-url https://a.example/s\nx\ny\n",
            0,
        ),
        ("pip --timeout 100 install scipy", "scipy\n", 0),
        ("pip --quiet --no-cache-dir install scipy", "scipy\n", 0),
        ("pip install --root-user-action=ignore --new-option=x a", "a\n", 1),
        ("pip install --new-option x a", "", 1),
        ("uv pip install --torch-backend=cu121 --group dev a", "a\n", 2),
        (
            "pip install -Uqrrequirements.txt -iurl://a",
            "--index-url url://a\n-r requirements.txt\n",
            0,
        ),
        ("pip install -crequirements.txt a", "-c requirements.txt\na\n", 0),
        ("pip install --no-index --find-links=src a", "--no-index\n--find-links src\na\n", 0),
        ("pip install --no-binary :all: a", "a\n", 1),
        ("pip install git+https://me:secret@a.example/x", "", 1),
        ("pip install --index-url=https://me:secret@a.example/s a", "", 1),
        (
            "PIP_INDEX_URL=https://a.example/s pip install a",
            "--index-url https://a.example/s\na\n",
            0,
        ),
        ("export PIP_CONSTRAINT=requirements.txt; pip install a", "-c requirements.txt\na\n", 0),
        ("UV_OVERRIDE=x uv pip install a", "a\n", 1),
        ("export PIP_NO_BINARY=$(x); pip install a", "a\n", 1),
        ("V=$(date); pip install a==$V", "", 1),
        ("if x; then V=1; fi; pip install a==$V", "", 1),
        ("pip download a && pip cache purge", "", 1),
        ("pip install -r other.txt", "", 1),
        ("cd src && pip install -r ../requirements.txt a", "-r requirements.txt\na\n", 0),
        (
            "python3.11 -m pip install 'a[b]==1.0; python_version<\"3\"'",
            "a[b]==1.0; python_version<\"3\"\n",
            0,
        ),
        ("pip install -e . && pip install ./src", "", 2),
        ("pip install git+https://a.example/x@v1", "git+https://a.example/x@v1\n", 0),
        (
            "pip install https://a.example/fast_x-1-py3-none-any.whl",
            "fast-x @ https://a.example/fast_x-1-py3-none-any.whl\n",
            0,
        ),
        ("pip install https://a.example/x.tar.gz", "", 1),
        ("uv pip install --system --python /usr/bin/python3 a b", "a\nb\n", 0),
        ("bash -c \"pip install a\"", "a\n", 0),
        ("pip install $UNSET a", "a\n", 0),
        ("V=2 && pip install a==$V", "a==2\n", 0),
        ("pip install a==$(cat v)", "", 1),
        ("pip install a || true", "a\n", 0),
        ("x || pip install a", "", 1),
        ("conda install -y numpy", "", 1),
        ("poetry install", "", 1),
        ("R -e 'install.packages(\"x\")'", "", 0),
    ] {
        assert_eq!(of(commands), (lines.to_owned(), missing), "{commands}");
    }
}

#[test]
fn secrets_are_not_shown() {
    let made = import(
        "FROM debian:12\nRUN pip install git+https://me:secret@a.example/x --index-url https://secret@b.example\nENV PIP_INDEX_URL=https://secret:x@b\nRUN pip install a\n",
        |_| {},
    );
    let made = made.unwrap();
    assert_eq!(made.left_out.len(), 2, "{made:?}");
    assert!(!format!("{made:?}").contains("secret"), "{made:?}");
}

#[test]
fn options_before_the_verb_hide_nothing() {
    for (commands, packages, left_out) in [
        (
            "apt-get -y -o Dpkg::Options::=--force-confold install -o APT::Install-Recommends=false jq",
            "\"jq\"",
            0,
        ),
        ("apt-get -yt bookworm-backports install --no-install-recommends cmake", "\"cmake\"", 1),
        ("apt-get install -tbookworm-backports --no-install-recommends cmake", "\"cmake\"", 1),
        ("apt -t x install --no-install-recommends jq", "\"jq\"", 1),
        ("apt-get update && apt-get -qq clean && apt-get --version", "", 0),
        ("apt-get build-dep -y jq", "", 1),
        ("apt-get purge -y jq", "", 1),
        ("apt-get moo", "", 1),
        ("apt-get install --no-install-recommends libc6:i386 jq", "\"jq\"", 1),
        (". /opt/venv/bin/activate", "", 1),
    ] {
        let made = import(&format!("FROM debian:12\nRUN {commands}\n"), |_| {}).unwrap();
        assert!(made.recipe.contains(packages), "{commands}: {}", made.recipe);
        assert_eq!(made.left_out.len(), left_out, "{commands}: {made:?}");
    }
}

#[test]
fn variables_of_other_bases_are_not_empty() {
    for (base, left_out) in [
        ("nvidia/cuda:12.4.1-runtime-ubuntu22.04", 1),
        ("ghcr.io/lab/ubuntu-cuda", 2),
        ("python:3.11-bookworm", 1),
        ("debian:bullseye", 0),
    ] {
        let text = format!(
            "ARG B\nFROM ${{B:-{base}}}\nENV L=/x:$LD_LIBRARY_PATH\nENV PATH=/x:$PATH\nENV B=${{B:-}}\n"
        );
        let made = import(&text, |_| {}).unwrap();
        let missing = made.left_out.iter().filter(|left| left.text.starts_with("ENV L"));
        let paths = made.left_out.iter().filter(|left| left.text.starts_with("ENV PATH"));
        assert_eq!(missing.count() + paths.count(), left_out, "{base}: {}", made.recipe);
    }
}

#[test]
fn keys_of_a_header_are_read_or_named() {
    let made = |text: &str| import(text, |_| {}).unwrap();
    let docker = made("Bootstrap: docker\nRegistry: ghcr.io\nNamespace: lab\nFrom: tool:1\nX: y\n");
    assert!(docker.recipe.contains("oci = \"docker://ghcr.io/lab/tool:1\""), "{}", docker.recipe);
    assert_eq!(docker.left_out.len(), 1, "{docker:?}");
    let debian = made(
        "Bootstrap: debootstrap\nOSVersion: bookworm\nMirrorURL: http://x\nInclude: jq, git\n",
    );
    assert!(debian.recipe.contains("[\"default\", \"git\", \"jq\"]"), "{}", debian.recipe);
    assert_eq!(debian.left_out.len(), 1, "{debian:?}");
}

#[test]
fn a_stage_can_be_named_by_an_argument() {
    let text = "ARG T=dev\nFROM debian:12 AS dev\nCMD [\"a\"]\nFROM debian:13 AS other\nFROM ${T}\nENTRYPOINT [\"b\"]\n";
    let made = import(text, |_| {}).unwrap();
    assert!(made.recipe.contains("\"bookworm\""), "{}", made.recipe);
    // Of an earlier stage, the command does not stay.
    assert_eq!(made.files.get("lab.sh").unwrap(), "#!/bin/sh\nexec b \"$@\"\n");
    let given = import(text, |options| {
        options.arguments.insert("T".to_owned(), "other".to_owned());
    });
    assert!(given.unwrap().recipe.contains("\"trixie\""));
}

#[test]
fn options_of_instructions_are_named() {
    for (line, missing, other) in [
        ("COPY --chmod=755 --chown=a:b train.py /x/", 0, 2),
        ("COPY --chmod=644 train.py /x/", 0, 0),
        ("COPY <<EOF /x/a.txt\ntext\nEOF", 0, 0),
        ("COPY --exclude=*.txt src /x", 0, 1),
        ("COPY --link train.py /x/", 0, 0),
        ("COPY --parents src/model.py /x/", 1, 0),
        ("COPY --new=1 train.py /x/", 1, 0),
        ("ADD x.tar.zst /x/", 0, 2),
        ("ADD x.tar.zst train.py /x/", 1, 0),
        ("RUN --mount=type=cache,target=/root/.cache true", 0, 0),
        ("RUN <<EOF\npip install a\nmake\nEOF", 0, 1),
        ("RUN --mount=type=bind,source=src,target=/s make -C /s", 1, 0),
    ] {
        let made = import(&format!("FROM debian:12\n{line}\n"), |_| {}).unwrap();
        let count = |kind| made.left_out.iter().filter(|left| left.difference == kind).count();
        assert_eq!((count(Missing), count(Other)), (missing, other), "{line}: {made:?}");
        assert_eq!(made.recipe.contains("[python]"), line.contains("pip"), "{line}");
    }
}

#[test]
fn quotes_around_a_value_are_not_of_it() {
    let made = import("FROM debian:12\nENV A \"x y\"\nENV B it\\'s  'a\"b'\n", |_| {});
    let recipe = made.unwrap().recipe;
    assert!(recipe.contains("A = \"x y\"\nB = "), "{recipe}");
    assert!(recipe.contains("it's  a"), "{recipe}");
}

#[test]
fn an_unknown_value_is_not_empty() {
    let made = import(
        "FROM debian:12\nARG TARGETARCH\nENV A=$TARGETARCH\nARG B=${A%1}\nRUN pip install a==$A b==$B\n",
        |_| {},
    );
    let made = made.unwrap();
    assert_eq!(made.left_out.len(), 2, "{made:?}");
    assert!(!made.recipe.contains("[python]"), "{}", made.recipe);
}

#[test]
fn growing_values_end() {
    let text = format!("FROM debian:12\nENV A=aaaaaaaa\n{}", "ENV A=$A$A$A\n".repeat(30));
    let made = import(&text, |_| {}).unwrap();
    assert!(made.recipe.len() < 1 << 20 && !made.left_out.is_empty());
}

#[test]
fn what_is_not_known_of_a_base_is_not_guessed() {
    let made = import(
        "FROM rocker/r-ver:4.3\nENV PATH=/opt/x:$PATH\nENV A=1\nCOPY train.py $HOME/\n",
        |_| {},
    );
    let made = made.unwrap();
    assert!(made.recipe.contains("oci = \"docker://rocker/r-ver:4.3\""), "{}", made.recipe);
    assert!(!made.recipe.contains("PATH ="), "{}", made.recipe);
    let lines: Vec<usize> = made.left_out.iter().map(|left| left.line).collect();
    assert_eq!(lines, [2, 4]);
}

#[test]
fn packages_are_added_to_a_base_that_stays() {
    check(
        "FROM continuumio/miniconda3:24.7.1-0\nRUN apt-get install --no-install-recommends -y jq && pip install einops\n",
        r#"
[image]
name = "lab"
[base]
oci = "docker://continuumio/miniconda3:24.7.1-0"
packages = ["jq"]
[python]
requirements = "lab-requirements.txt"
"#,
        &[("lab-requirements.txt", "einops\n")],
        &[],
    );
}

#[test]
fn arguments_of_the_build_replace_defaults() {
    let text = "ARG V=12\nFROM debian:$V\nARG NAME\nENV A=${NAME:-none}\n";
    let recipe = |pairs: &[(&str, &str)]| {
        let set = |options: &mut ImportOptions| {
            options.arguments =
                pairs.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
        };
        import(text, set).unwrap().recipe
    };
    let plain = recipe(&[]);
    assert!(plain.contains("\"bookworm\"") && plain.contains("A = \"none\""), "{plain}");
    let given = recipe(&[("V", "13"), ("NAME", "x")]);
    assert!(given.contains("\"trixie\"") && given.contains("A = \"x\""), "{given}");
}

#[test]
fn files_that_are_neither_are_refused_with_the_line() {
    for (text, line) in [
        ("", 1),
        ("RUN x\n", 1),
        ("FROM debian\nRUNN x\n", 2),
        ("FROM debian\nRUN cat <<EOF > x\na\nEOF\n", 3),
        ("Bootstrap: docker\nFrom: debian\n%pots\n x\n", 3),
        ("Bootstrap: docker\nFrom: {{ X }}\n", 2),
        ("import os\n", 1),
        ("FROM scratch\nEXPOSE 1\n", 1),
        ("[image]\nname = \"x\"\n", 1),
    ] {
        match import(text, |_| {}) {
            Err(Error::Recipe { line: found, path, .. }) => {
                assert_eq!((found, path.as_str()), (line, "FILE"), "{text}");
            }
            other => panic!("{text}: {other:?}"),
        }
    }
}

#[test]
fn odd_files_end_without_a_panic() {
    let files = [
        "FROM a\nENV =\nLABEL\tx\nCMD []\nENTRYPOINT [\"\"]\nCOPY . .\nCOPY [\"a\", \"\"]\nADD x://y /\nRUN [\"a\"]\nRUN <<E\nE\n",
        "FROM a\nRUN ((((\nRUN \"\nRUN '\\\nRUN if\nRUN }\nRUN $\nRUN ${\nRUN a${b:-${c}}\n",
        "Bootstrap: docker\n%files\n\n a b c\n%post\n<<\n%labels\n x\n%environment\n = \n export\n%runscript\n",
        "Bootstrap:\n%arguments\n=\n{{",
        "FROM a\nSHELL [\"x\"]\nONBUILD RUN x\nUSER\u{7} x\nVOLUME [\"/x\"]\nHEALTHCHECK NONE\nSTOPSIGNAL 9\nMAINTAINER x\n",
    ];
    for text in files {
        for cut in 0..text.len() {
            let Some(part) = text.get(..cut) else { continue };
            if let Ok(made) = import(part, |_| {}) {
                crate::recipe::Recipe::parse(&made.recipe, "again").unwrap();
            }
        }
    }
}

#[test]
fn a_program_starts_with_the_files_and_words_that_it_was_given() {
    let script = |start: &str| {
        let text = format!("FROM python:3.11\nWORKDIR /app\nCOPY . .\n{start}\n");
        let mut files = import(&text, |_| {}).unwrap().files;
        files.remove("lab.sh").unwrap().replace("#!/bin/sh\n", "").replace("[ $# -gt 0 ] || ", "")
    };
    let run = "exec \"$@\"\n";
    for (start, expected) in [
        (
            "CMD python train.py --lr 0.1 --url https://x.org/a --out out/run1",
            format!(
                "set -- python /app/train.py --lr 0.1 --url https://x.org/a --out out/run1\n{run}"
            ),
        ),
        ("CMD exec python train.py", format!("set -- python /app/train.py\n{run}")),
        ("CMD [\"./run.sh\", \"1.5\"]", format!("cd /app || exit\nset -- /app/run.sh 1.5\n{run}")),
        ("CMD [\"./tool\", \"1.5\"]", format!("set -- /app/tool 1.5\n{run}")),
        (
            "WORKDIR /\nCOPY train.py .\nCMD python -m train",
            format!("cd / || exit\nset -- python -m train\n{run}"),
        ),
        ("WORKDIR /\nCMD python -m json.tool", format!("set -- python -m json.tool\n{run}")),
        (
            "CMD [\"python\", \"-m\", \"train\"]",
            format!("cd /app || exit\nset -- python -m train\n{run}"),
        ),
        (
            "ENTRYPOINT [\"python\"]\nCMD [\"train.py\", \"0.5\"]",
            "set -- /app/train.py 0.5\nexec python \"$@\"\n".to_owned(),
        ),
        ("ENTRYPOINT [\"tool\"]\nCMD [\"0.5\"]", "set -- 0.5\nexec tool \"$@\"\n".to_owned()),
        (
            "CMD python train.py && echo done",
            "cd /app || exit\n[ $# -eq 0 ] || exec \"$@\"\npython train.py && echo done\n"
                .to_owned(),
        ),
        (
            "ENTRYPOINT [\"/bin/sh\", \"-c\", \"python train.py\"]",
            "cd /app || exit\nexec /bin/sh -c 'python train.py' \"$@\"\n".to_owned(),
        ),
    ] {
        assert_eq!(script(start), expected, "{start}");
    }
}

#[test]
fn commands_that_make_something_become_steps() {
    let steps = |text: &str| {
        let made = import(text, |_| {}).unwrap();
        let recipe = crate::recipe::Recipe::parse(&made.recipe, "again").unwrap();
        let missing = made.left_out.iter().filter(|left| left.difference == Missing).count();
        (recipe, missing)
    };
    let text = "FROM python:3.11\nARG V=2\nARG X=a\nWORKDIR /src\nCOPY src .\nRUN mkdir -p build && chmod 700 build\nRUN echo nothing\nRUN set -ex; export P=/opt/x; sudo make V=$V PREFIX=$P install && rm -rf /tmp/x build > /dev/null\nRUN chmod -R a+rX /opt/x\n";
    let (recipe, missing) = steps(text);
    assert_eq!(missing, 0);
    let [step] = &recipe.run[..] else { panic!("{recipe:?}") };
    let script = "(\nexport V=2\nexport X=a\ncd /src\nmkdir -p build\nchmod 700 build\n)\nset -ex\nexport P=/opt/x\nmake V=$V PREFIX=$P install\nrm -rf /tmp/x build > /dev/null\n(\nexport V=2\nexport X=a\ncd /src\nchmod -R a+rX /opt/x\n)\n";
    assert_eq!(step.script, script);
    assert_eq!((step.workdir.as_str(), step.network), ("/src", false));
    let env = [("V", "2"), ("X", "a")].map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert_eq!(step.env, BTreeMap::from(env));
    assert_eq!(recipe.base.packages.unwrap(), ["default", "make", "python-is-python3", "python3"]);

    for (text, count, network, missing) in [
        ("FROM debian:12\nRUN mkdir -p /x && chmod 755 /x", 0, false, 0),
        ("FROM debian:12\nRUN ./build.sh\nRUN curl -o /x https://a.example/x", 2, true, 0),
        ("FROM debian:12\nRUN python3 -c 'import nltk; nltk.download(\"punkt\")'", 1, true, 0),
        ("FROM debian:12\nRUN conda install -y numpy", 0, false, 1),
        ("FROM continuumio/miniconda3:24\nRUN conda install -y numpy", 1, true, 0),
        ("FROM debian:12\nRUN curl https://me:secret@a.example/x", 0, false, 1),
        (
            "FROM debian:12\nRUN mkdir /x; export U=https://me:secret@a.example\nRUN make",
            1,
            false,
            0,
        ),
        ("FROM debian:12\nARG a-b=1\nRUN make $a-b", 1, false, 0),
        ("FROM debian:12\nRUN systemctl enable x && mount /x", 0, false, 2),
        ("FROM debian:12\nRUN (apt-get update && apt-get install -y x) || true", 0, false, 1),
        ("Bootstrap: docker\nFrom: debian:12\n%post\n    [[ -d /x ]] || make\n", 1, false, 0),
    ] {
        let (recipe, found) = steps(text);
        assert_eq!((recipe.run.len(), found), (count, missing), "{text}: {recipe:?}");
        let last = recipe.run.last();
        assert!(last.is_none_or(|step| !step.script.contains("secret")), "{recipe:?}");
        assert_eq!(last.is_some_and(|step| step.network), network, "{text}");
        let is_bash = last.is_some_and(|step| step.script.starts_with("#!/bin/bash\nset -e\n"));
        assert_eq!(is_bash, text.contains("[["), "{text}");
    }
}

#[test]
fn packages_of_an_image_that_is_not_debians_are_installed_by_a_step() {
    let run = "RUN apt-get update && apt-get install -y gdal-bin bwa\nRUN make\n";
    let made = import(&format!("FROM nvidia/cuda:12.1.1-devel-ubuntu22.04\n{run}"), |_| {});
    let made = made.unwrap();
    let recipe = crate::recipe::Recipe::parse(&made.recipe, "again").unwrap();
    assert!(recipe.base.packages.is_none());
    let [apt, make] = &recipe.run[..] else { panic!("{recipe:?}") };
    let script = "apt-get update\napt-get install -y bwa gdal-bin\nrm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/log/*\n";
    assert_eq!((apt.script.as_str(), apt.network), (script, true));
    assert_eq!((make.script.as_str(), make.network), ("make\n", false));
    assert!(made.left_out.iter().any(|left| left.line == 2 && left.difference == Other));
    let made = import(&format!("FROM python:3.12-slim\n{run}"), |_| {}).unwrap();
    assert!(made.recipe.contains("packages = [\"bwa\", \"gdal-bin\"]"), "{}", made.recipe);
}

#[test]
fn a_list_that_cannot_be_divided_is_one_command() {
    for (commands, script, missing) in [
        ("make || ./other", "make || ./other\n", 0),
        ("apt-get update && apt-get install -y jq && make || true", "make || true\n", 0),
        ("cd x && make && ./t || true; ./u", "cd x && make && ./t || true\n./u\n", 0),
        ("set -x; [ -d /x ] && make", "set -x\n[ -d /x ] && make\n", 0),
        ("make && [ -d /x ]", "make\n[ -d /x ]\n", 0),
        ("make && ./t || exit 1", "make\n./t\n", 0),
        ("[ -e x ] && make || exit 1", "[ -e x ] && make || exit 1\n", 0),
        ("make \\\n || (echo no; exit 1)", "make\n", 0),
        ("make | cat || ./u", "make | cat || ./u\n", 0),
        ("sh -c 'make || ./u'", "make || ./u\n", 0),
        ("which jq || apt-get install jq", "", 1),
        ("make || pip install a", "", 1),
        ("useradd a && make || true", "make || true\n", 0),
        ("id a || useradd a; useradd a || true", "", 0),
        ("[ -e /tmp/x ] && rm -rf /tmp/x || true", "", 0),
        ("[ -e /x ] && export A=1; make", "[ -e /x ] && export A=1\nmake\n", 0),
        ("command -v jq && apt-get clean", "", 0),
    ] {
        let made = import(&format!("FROM debian:12\nRUN {commands}\n"), |_| {}).unwrap();
        let recipe = crate::recipe::Recipe::parse(&made.recipe, "again").unwrap();
        let scripts: String = recipe.run.iter().map(|step| step.script.as_str()).collect();
        let found = made.left_out.iter().filter(|left| left.difference == Missing).count();
        assert_eq!((scripts.as_str(), found), (script, missing), "{commands}: {made:?}");
    }
    let text = "FROM debian:12\nRUN [ -e /x ] && export V=1; pip install a==$V\n";
    let made = import(text, |_| {}).unwrap();
    assert!(!made.recipe.contains("[python]"), "{}", made.recipe);
}

#[test]
fn steps_keep_the_shell_and_its_options_and_show_no_secret() {
    let script = |text: &str| {
        let made = import(&format!("FROM debian:12\n{text}"), |_| {}).unwrap();
        let recipe = crate::recipe::Recipe::parse(&made.recipe, "again").unwrap();
        recipe.run.first().map(|step| step.script.clone())
    };
    for (text, expected) in [
        ("RUN set -eo pipefail; make | cat", "#!/bin/bash\nset -e\nset -eo pipefail\nmake | cat\n"),
        (
            "SHELL [\"/bin/bash\", \"-o\", \"pipefail\", \"-c\"]\nRUN make | cat",
            "#!/bin/bash\nset -e -o pipefail\nmake | cat\n",
        ),
        ("RUN make &> log", "#!/bin/bash\nset -e\nmake &> log\n"),
        ("RUN sudo -H make", "make\n"),
    ] {
        assert_eq!(script(text).as_deref(), Some(expected), "{text}");
    }
    for hidden in [
        "ARG U=https://me:secret@a.example/x\nRUN make $U",
        "SHELL [\"/bin/fish\", \"-c\"]\nRUN make",
        "RUN --mount=type=secret,id=a make",
    ] {
        assert_eq!(script(hidden), None, "{hidden}");
    }
    let given = import("FROM debian:12\nARG TOKEN\nRUN make T=$TOKEN", |options| {
        options.arguments.insert("TOKEN".to_owned(), "s3cret".to_owned());
    });
    let made = given.unwrap();
    assert!(!made.recipe.contains("s3cret") && !made.recipe.contains("[[run]]"), "{}", made.recipe);
}

/// The recipe of a text, with a file of this name and text in its folder, and what is left out.
fn recipe_with(text: &str, files: &[(&str, &str)]) -> (Imported, crate::recipe::Recipe) {
    let dir = folder();
    for (name, text) in files {
        fs::write(dir.path().join(name), text).unwrap();
    }
    let context = dir.path().to_owned();
    let made = import(text, |options| options.context = context).unwrap();
    let recipe = crate::recipe::Recipe::parse(&made.recipe, "again").unwrap();
    (made, recipe)
}

fn scripts(recipe: &crate::recipe::Recipe) -> Vec<&str> {
    recipe.run.iter().map(|step| step.script.as_str()).collect()
}

#[test]
fn other_stages_with_the_same_base_are_done_first() {
    let text = "FROM debian:bookworm AS build\nENV CC=cc\nWORKDIR /src\nCOPY src .\nRUN make install\nCMD [\"make\"]\nFROM debian:bookworm-slim\nENV A=1\nCOPY --from=build /opt/sim /opt/sim\nCOPY --from=build /src/sim /usr/local/bin/sim\nENTRYPOINT [\"sim\"]\n";
    let (made, recipe) = recipe_with(text, &[]);
    let copy = "if [ -d /src/sim ]; then mkdir -p /usr/local/bin/sim && cp -a /src/sim/. /usr/local/bin/sim; else mkdir -p /usr/local/bin && cp -a -H /src/sim /usr/local/bin/sim; fi\n";
    assert_eq!(scripts(&recipe), ["make install\n", copy]);
    assert_eq!(recipe.run[0].workdir, "/src");
    assert_eq!(recipe.run[0].env, BTreeMap::from([("CC".to_owned(), "cc".to_owned())]));
    assert!(made.recipe.contains("[env]\nA = \"1\"\n") && !made.recipe.contains("[env]\nCC"));
    assert!(made.left_out.iter().all(|left| left.difference == Other), "{made:?}");

    let other = text.replace("bookworm AS", "trixie AS");
    let (made, recipe) = recipe_with(&other, &[]);
    assert!(recipe.run.is_empty());
    assert!(made.left_out.iter().any(|left| left.line == 9 && left.difference == Missing));

    let text = "Bootstrap: docker\nFrom: debian:12\nStage: build\n%post\n    make install\n\nBootstrap: docker\nFrom: debian:12\n%files from build\n    /opt/sim /usr/local/sim\n";
    let (_, recipe) = recipe_with(text, &[]);
    let copy = "mkdir -p /usr/local && cp -a -H /opt/sim /usr/local/sim\n";
    assert_eq!(scripts(&recipe), ["make install\n", copy]);
    let (_, recipe) = recipe_with(&text.replace("/usr/local/sim", "/usr/local/"), &[]);
    let copy = "mkdir -p /usr/local && cp -a -H /opt/sim /usr/local/\n";
    assert_eq!(scripts(&recipe), ["make install\n", copy]);
    let (_, recipe) = recipe_with(&text.replace("/usr/local/sim", "/opt/"), &[]);
    assert_eq!(scripts(&recipe), ["make install\n"]);

    let text = "FROM python:3.11 AS build\nRUN python -m venv /opt/venv && /opt/venv/bin/pip install numpy\nFROM python:3.11-slim\nCOPY --from=build /opt/venv /opt/venv\n";
    let (made, recipe) = recipe_with(text, &[]);
    assert!(recipe.run.is_empty() && made.recipe.contains("requirements ="), "{}", made.recipe);
}

#[test]
fn archives_texts_and_modes_are_there_when_steps_run() {
    let text = "FROM debian:12\nARG V=1\nADD data.tar.gz /opt/\nCOPY <<EOF /etc/lab.conf\nv=$V\nEOF\nCOPY --chmod=755 <<-'EOF' /usr/local/bin/go\n\t#!/bin/sh\n\techo $V\nEOF\nCOPY train.py /opt\nRUN chmod +x /opt/train.py\n";
    let (made, recipe) = recipe_with(text, &[]);
    let expected = [
        "tar -xf /opt/data.tar.gz -C /opt && rm /opt/data.tar.gz\n",
        "chmod 755 /usr/local/bin/go\n",
        "chmod +x /opt/train.py\n",
    ];
    assert_eq!(scripts(&recipe), expected);
    assert_eq!(made.files["lab-lab.conf"], "v=1\n");
    assert_eq!(made.files["lab-go"], "#!/bin/sh\necho $V\n");
    assert!(made.recipe.contains("\"opt/train.py\" = \"train.py\""), "{}", made.recipe);
    assert!(made.left_out.iter().all(|left| left.difference == Other), "{made:?}");
    for (mode, expected) in
        [("755", true), ("+x", true), ("u=rwx,g=r", true), ("644", false), ("a+rX", false)]
    {
        assert_eq!(command::makes_programs(mode), expected, "{mode}");
    }
}

#[test]
fn lock_files_and_projects_of_python_are_taken() {
    let project = ("pyproject.toml", "[project]\nname = \"lab\"\nversion = \"1\"\n");
    let text = "FROM python:3.11-slim\nCOPY --from=ghcr.io/astral-sh/uv:0.5 /uv /bin/\nWORKDIR /app\nCOPY . .\nRUN uv sync --frozen --no-dev --extra gpu\nENV PATH=\"/app/.venv/bin:$PATH\"\nENTRYPOINT []\nCMD [\"uv\", \"run\", \"--no-sync\", \"train.py\"]\n";
    let (made, _) = recipe_with(text, &[project, ("uv.lock", "version = 1\n")]);
    assert!(made.recipe.contains("lock = \"uv.lock\"\nextras = [\"gpu\"]\n"), "{}", made.recipe);
    assert!(made.files["lab.sh"].contains("set -- python3 /app/train.py\n"), "{made:?}");
    assert!(made.left_out.iter().all(|left| left.difference == Other), "{made:?}");

    let (made, _) = recipe_with(text, &[project]);
    let missing: Vec<usize> = made
        .left_out
        .iter()
        .filter(|left| left.difference == Missing)
        .map(|left| left.line)
        .collect();
    assert_eq!(missing, [5]);

    let text = "FROM python:3.11\nCOPY pyproject.toml /code/\nCOPY src /code/src\nWORKDIR /code\nRUN pip install -e .[fast]\n";
    let (made, _) = recipe_with(text, &[project]);
    assert_eq!(made.files["lab-requirements.txt"], "-e .[fast]\n");
    assert!(made.left_out.iter().any(|left| left.reason.contains("build = true")), "{made:?}");
}

#[test]
fn each_stage_is_done_once_and_before_those_that_begin_with_it() {
    let text = "FROM debian:12 AS base\nENV B=1\nWORKDIR /src\nRUN make base\nFROM base AS build\nENV C=2\nRUN make sim\nFROM base AS other\nRUN make other\nFROM base\nENV D=3\nCOPY --from=build /src/sim /usr/local/bin/\nCOPY --from=other /src/o /opt/o\nRUN make last\n";
    let (made, recipe) = recipe_with(text, &[]);
    let scripts = scripts(&recipe);
    let [base, sim, other, _, _, last] = &scripts[..] else { panic!("{scripts:?}") };
    assert_eq!(
        [*base, *sim, *other, *last],
        ["make base\n", "make sim\n", "make other\n", "make last\n"]
    );
    assert_eq!(recipe.run[1].workdir, "/src");
    assert!(made.recipe.contains("[env]\nB = \"1\"\nD = \"3\"\n"), "{}", made.recipe);
    // What neither the image begins with nor is copied from is not done.
    let (_, recipe) =
        recipe_with("FROM debian:12 AS a\nRUN make a\nFROM debian:12\nRUN make b\n", &[]);
    assert_eq!(self::scripts(&recipe), ["make b\n"]);
}

#[test]
fn bases_that_are_kept_are_not_the_same() {
    let text = "FROM debian:bookworm AS build\nRUN make\nFROM debian:bookworm-slim\nCOPY --from=build /opt/sim /opt/sim\n";
    let made = import(text, |options| options.keep_base = true).unwrap();
    assert!(!made.recipe.contains("[[run]]"), "{}", made.recipe);
    assert!(made.left_out.iter().any(|left| left.line == 4 && left.difference == Missing));
}

#[test]
fn copies_of_other_stages_are_made_or_named() {
    for (copy, expected, missing) in [
        (
            "/usr/local/bin/sim /usr/local/bin/",
            "if [ -d /usr/local/bin/sim ]; then mkdir -p /usr/local/bin && cp -a /usr/local/bin/sim/. /usr/local/bin; fi\n",
            0,
        ),
        (
            "/usr/lib/libx* /opt/",
            "mkdir -p /opt\nfor one in /usr/lib/libx*; do if [ -d \"$one\" ]; then cp -a \"$one/.\" /opt; else cp -a -H \"$one\" /opt/; fi; done\n",
            0,
        ),
        ("/opt/sim /opt/sim", "", 0),
        ("/tmp/sim /opt/sim", "", 1),
        ("/opt/sim /run/sim", "", 1),
        ("/ /rootfs", "", 1),
        ("--chmod=755 /opt/sim /opt/sim", "", 1),
    ] {
        let text = format!("FROM debian:12 AS a\nRUN make\nFROM debian:12\nCOPY --from=a {copy}\n");
        let (made, recipe) = recipe_with(&text, &[]);
        let found: String = scripts(&recipe).into_iter().skip(1).collect();
        let count = made.left_out.iter().filter(|left| left.difference == Missing).count();
        assert_eq!((found.as_str(), count), (expected, missing), "{copy}: {made:?}");
    }
    let text = "FROM python:3.11 AS b\nRUN pip install --prefix=/install numpy\nFROM python:3.11\nCOPY --from=b /install /usr/local\n";
    let (made, recipe) = recipe_with(text, &[]);
    assert!(recipe.run.is_empty() && made.recipe.contains("requirements ="), "{}", made.recipe);
    assert!(made.left_out.iter().any(|left| left.line == 4), "{made:?}");
    let text = text.replace("FROM python:3.11\n", "COPY train.py /install/\nFROM python:3.11\n");
    let (made, _) = recipe_with(&text, &[]);
    assert!(made.left_out.iter().any(|left| left.difference == Missing), "{made:?}");
}

#[test]
fn a_copied_program_beside_packages_keeps_its_path() {
    let of = |program: &str| {
        let text = format!(
            "FROM python:3.11\nRUN pip install --target=/app numpy\nCOPY train.py /app/bin/go\nENTRYPOINT [\"{program}\"]\n"
        );
        import(&text, |_| {}).unwrap().files.remove("lab.sh").unwrap()
    };
    assert!(of("/app/bin/go").contains("exec /app/bin/go "), "{}", of("/app/bin/go"));
    assert!(of("/app/bin/f2py").contains("exec f2py "), "{}", of("/app/bin/f2py"));
}

/// The copy runs, whether its source is a file or a folder.
#[test]
fn a_file_that_is_copied_to_its_own_folder_stays() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().to_str().unwrap();
    fs::create_dir_all(dir.path().join("bin")).unwrap();
    fs::create_dir_all(dir.path().join("lib/x")).unwrap();
    fs::write(dir.path().join("bin/sim"), "").unwrap();
    fs::write(dir.path().join("lib/x/y"), "").unwrap();
    for (from, to, file) in [
        ("bin/sim", "bin", "bin/sim"),
        ("bin/s*", "bin", "bin/sim"),
        ("bin/s*", "opt", "opt/sim"),
        ("lib/x", "lib", "lib/y"),
        ("lib/*", "all", "all/y"),
    ] {
        let script = translate::copying(&format!("{root}/{from}"), &format!("{root}/{to}"), true);
        let ended = std::process::Command::new("sh").args(["-ec", &script]).status().unwrap();
        assert!(ended.success() && dir.path().join(file).is_file(), "{script}");
    }
}

#[test]
fn modes_are_given_to_the_files_that_were_copied() {
    for (copy, expected, missing) in [
        ("--chmod=755 conf /etc/", "chmod 755 /etc/a.sh /etc/sub/b.sh\n", 0),
        ("--chmod=755 conf/*.sh /usr/local/bin/", "chmod 755 /usr/local/bin/a.sh\n", 0),
        ("--chmod=$M train.py /x/", "chmod 755 /x/train.py\n", 0),
        ("--chmod=$TARGETARCH train.py /x/", "", 1),
        ("--chmod=644 conf /etc/", "", 0),
        ("--chmod=755 train.py /tmp/", "", 1),
    ] {
        let dir = folder();
        fs::create_dir_all(dir.path().join("conf/sub")).unwrap();
        fs::write(dir.path().join("conf/a.sh"), "").unwrap();
        fs::write(dir.path().join("conf/sub/b.sh"), "").unwrap();
        std::os::unix::fs::symlink("..", dir.path().join("conf/sub/up")).unwrap();
        let context = dir.path().to_owned();
        let text = format!("FROM debian:12\nARG M=755\nARG TARGETARCH\nCOPY {copy}\n");
        let made = import(&text, |options| options.context = context).unwrap();
        let recipe = crate::recipe::Recipe::parse(&made.recipe, "again").unwrap();
        let count = made.left_out.iter().filter(|left| left.difference == Missing).count();
        assert_eq!((scripts(&recipe).concat().as_str(), count), (expected, missing), "{copy}");
    }
}

#[test]
fn archives_have_the_program_that_unpacks_them() {
    let archive = ("x.tar.xz", "");
    let (made, _) = recipe_with("FROM debian:12\nADD x.tar.xz /opt/\n", &[archive]);
    assert!(made.recipe.contains("\"xz-utils\""), "{}", made.recipe);
    let (made, _) =
        recipe_with("FROM nvidia/cuda:12.1.1-devel-ubuntu22.04\nADD x.tar.xz /opt/\n", &[archive]);
    assert!(made.left_out.iter().any(|left| left.reason.contains("xz-utils")), "{made:?}");
    let (made, recipe) = recipe_with("FROM debian:12\nADD x.tar.xz /tmp/\n", &[archive]);
    assert!(recipe.run.is_empty() && made.left_out[0].difference == Missing, "{made:?}");
}

#[test]
fn a_text_does_not_take_the_name_of_the_requirements() {
    let text = "FROM debian:12\nCOPY <<EOF /opt/requirements.txt\nx\nEOF\nRUN pip install a\n";
    let (made, _) = recipe_with(text, &[]);
    assert_eq!(made.files["lab-requirements.txt"], "a\n");
    assert!(made.left_out.iter().any(|left| left.line == 2 && left.difference == Missing));
}

#[test]
fn a_lock_file_and_other_packages_are_not_both_taken() {
    let project = ("pyproject.toml", "[project]\nname = \"lab\"\nversion = \"1\"\n");
    let lock = ("uv.lock", "version = 1\n");
    for other in ["-r requirements.txt", "-e .", "numpy"] {
        let text = format!(
            "FROM python:3.11\nWORKDIR /app\nCOPY . .\nRUN uv sync --no-dev\nRUN pip install {other}\n"
        );
        let (made, _) = recipe_with(&text, &[project, lock]);
        assert!(made.recipe.contains("requirements ="), "{other}: {}", made.recipe);
        let missing = made.left_out.iter().filter(|left| left.difference == Missing);
        assert_eq!(missing.map(|left| left.line).collect::<Vec<_>>(), [4], "{other}");
    }
}

#[test]
fn groups_of_a_lock_file_are_taken_or_named() {
    let uv = "[dependency-groups]\ndev = []\ndocs = []\n";
    let poetry = "[tool.poetry.group.test]\n[tool.poetry.group.ml]\noptional = true\n";
    for (project, lock, command, groups, named) in [
        (uv, "uv.lock", "uv sync", "", true),
        (uv, "uv.lock", "uv sync --no-dev", "", false),
        (uv, "uv.lock", "uv sync --dev", "groups = [\"dev\"]", false),
        (uv, "uv.lock", "uv sync --no-group dev --group=docs", "groups = [\"docs\"]", false),
        (poetry, "poetry.lock", "poetry install --no-root", "", true),
        (poetry, "poetry.lock", "poetry install --no-root --without test", "", false),
        (poetry, "poetry.lock", "poetry install --no-root --only main", "", false),
        (
            poetry,
            "poetry.lock",
            "poetry install --no-root --only main,ml",
            "groups = [\"ml\"]",
            false,
        ),
        (poetry, "poetry.lock", "poetry install --no-root --only ml", "groups = [\"ml\"]", true),
    ] {
        let text = format!("FROM python:3.11\nWORKDIR /app\nCOPY . .\nRUN {command}\n");
        let (made, _) = recipe_with(&text, &[("pyproject.toml", project), (lock, "")]);
        assert!(made.recipe.contains(&format!("lock = \"{lock}\"\n{groups}")), "{}", made.recipe);
        assert_eq!(made.recipe.contains("\ngroups ="), !groups.is_empty(), "{command}");
        let is_named = made.left_out.iter().any(|left| left.line == 4 && left.difference == Other);
        assert_eq!(is_named, named, "{command}: {made:?}");
    }
}

#[test]
fn a_program_that_a_tool_starts_is_taken_out_of_known_options_alone() {
    for (start, expected, missing) in [
        ("[\"uv\", \"run\", \"--frozen\", \"--no-sync\", \"tool\"]", "set -- tool\n", 0),
        ("[\"uv\", \"run\", \"--\", \"tool\", \"-x\"]", "set -- tool -x\n", 0),
        ("uv run --no-group dev python a.py", "set -- uv run --no-group dev python a.py\n", 1),
        ("poetry run tool", "set -- tool\n", 0),
        ("[\"sh\", \"-c\", \"uv run tool\"]", "set -- sh -c 'uv run tool'\n", 1),
        ("cd /x && uv run tool", "cd /x && uv run tool\n", 1),
    ] {
        let made = import(&format!("FROM python:3.11\nCMD {start}\n"), |_| {}).unwrap();
        assert!(made.files["lab.sh"].contains(expected), "{start}: {made:?}");
        let count = made.left_out.iter().filter(|left| left.difference == Missing).count();
        assert_eq!(count, missing, "{start}: {made:?}");
    }
}
