//! What kind a file of packages is: told from its contents, whatever its name.

use toml::Table;

use super::requirements::lines;

/// A kind of file that people have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum InputKind {
    /// `requirements.txt`.
    Requirements,
    /// `pylock.toml` (PEP 751).
    Pylock,
    UvLock,
    PoetryLock,
    PipfileLock,
    Pyproject,
    /// conda's `environment.yml`.
    CondaEnvironment,
    /// A file that is recognised, and cannot be used as it is.
    Unusable(&'static Unusable),
}

/// A kind of file that must be turned into another first.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Unusable {
    /// What it is: `the lock file of PDM`.
    pub(super) what: &'static str,
    /// The command that makes it usable; `FILE` stands for the file.
    pub(super) command: &'static str,
    /// What to write into the recipe then.
    pub(super) then: &'static str,
}

const ARCHIVE: &str = "archive = \"env.tar.gz\"` in `[conda]`";
const REQUIREMENTS: &str = "requirements = \"requirements.txt\"` in `[python]`";

// <https://docs.conda.io/projects/conda/en/stable/user-guide/tasks/manage-environments.html>,
// "Building identical conda environments".
const CONDA_EXPLICIT: Unusable = Unusable {
    what: "an explicit list of conda packages",
    command: "conda create -p ./env --file FILE && conda-pack -p ./env -o env.tar.gz",
    then: ARCHIVE,
};
// The same page: `conda list --export`.
const CONDA_LIST: Unusable = Unusable {
    what: "a list of conda packages, as `conda list --export` writes it",
    command: "conda create -p ./env --file FILE && conda-pack -p ./env -o env.tar.gz",
    then: ARCHIVE,
};
// <https://conda.github.io/conda-lock/output/#unified-lockfile>.
const CONDA_LOCK: Unusable = Unusable {
    what: "a lock file of conda-lock",
    command: "conda-lock install -p ./env FILE && conda-pack -p ./env -o env.tar.gz",
    then: ARCHIVE,
};
// <https://pixi.sh/latest/workspace/lockfile/>, <https://pixi.sh/latest/deployment/pixi_pack/>.
const PIXI_LOCK: Unusable = Unusable {
    what: "the lock file of pixi",
    command: "pixi install --frozen && conda-pack -p .pixi/envs/default -o env.tar.gz",
    then: ARCHIVE,
};
// <https://pdm-project.org/latest/usage/lockfile/>.
const PDM_LOCK: Unusable = Unusable {
    what: "the lock file of PDM",
    command: "pdm export -f requirements -o requirements.txt",
    then: REQUIREMENTS,
};
// <https://pipenv.pypa.io/en/latest/pipfile.html>.
const PIPFILE: Unusable = Unusable {
    what: "a Pipfile",
    command: "pipenv lock",
    then: "lock = \"Pipfile.lock\"` in `[python]`",
};
// <https://docs.astral.sh/uv/pip/compile/>: uv reads `setup.py` and `setup.cfg`.
const SETUP: Unusable = Unusable {
    what: "a script or a settings file of setuptools",
    command: "uv pip compile FILE -o requirements.txt",
    then: REQUIREMENTS,
};
// <https://pip.pypa.io/en/stable/cli/pip_list/>.
const PIP_LIST: Unusable = Unusable {
    what: "a table for people, as `pip list` prints it",
    command: "pip list --format=freeze > requirements.txt",
    then: REQUIREMENTS,
};

/// The names of tables that tell a TOML file's kind, the surest first.
const TOML: [(&[&str], InputKind); 9] = [
    // <https://packaging.python.org/en/latest/specifications/pylock-toml/>.
    (&["lock-version"], InputKind::Pylock),
    (&["metadata", "lock-version"], InputKind::PoetryLock),
    (&["metadata", "content-hash"], InputKind::PoetryLock),
    (&["metadata", "lock_version"], InputKind::Unusable(&PDM_LOCK)),
    (&["project"], InputKind::Pyproject),
    (&["tool"], InputKind::Pyproject),
    (&["build-system"], InputKind::Pyproject),
    (&["dependency-groups"], InputKind::Pyproject),
    (&["source"], InputKind::Unusable(&PIPFILE)),
];

/// Tells a text's kind. `None` for JSON and YAML of another meaning.
pub(super) fn of(text: &str) -> Option<InputKind> {
    let start = text.trim_start();
    if start.starts_with(['{', '[']) && serde_json::from_str::<serde_json::Value>(text).is_ok() {
        return json(text);
    }
    let lines = lines(text);
    let any = |test: &dyn Fn(&str) -> bool| lines.iter().any(|(_, line)| test(line));
    if any(&|line| line == "@EXPLICIT") {
        return Some(InputKind::Unusable(&CONDA_EXPLICIT));
    }
    if text.contains("$ conda create --name <env> --file") || any(&is_conda_build) {
        return Some(InputKind::Unusable(&CONDA_LIST));
    }
    if let Some(kind) = toml_kind(text) {
        return Some(kind);
    }
    // Keys at the beginning of a line, as in YAML.
    let key = |name: &str| {
        text.lines().any(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(':')))
    };
    if key("metadata") && key("package") {
        return Some(InputKind::Unusable(&CONDA_LOCK));
    }
    if key("environments") && key("packages") {
        return Some(InputKind::Unusable(&PIXI_LOCK));
    }
    if key("dependencies") || key("channels") {
        return Some(InputKind::CondaEnvironment);
    }
    if any(&|line| {
        line.starts_with("[options") || line == "[metadata]" || line.starts_with("setup(")
    }) || any(&|line| line.contains("import setup") || line == "import setuptools")
    {
        return Some(InputKind::Unusable(&SETUP));
    }
    let words: Vec<&str> = start.lines().next().unwrap_or_default().split_whitespace().collect();
    if matches!(words.as_slice(), ["Package", "Version", ..]) {
        return Some(InputKind::Unusable(&PIP_LIST));
    }
    Some(InputKind::Requirements)
}

/// Whether a line is `numpy=1.19.2=py38h6163131_0`.
fn is_conda_build(line: &str) -> bool {
    let parts: Vec<&str> = line.split('=').collect();
    let good = |part: &&str| {
        !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || "-_.+!".contains(c))
    };
    parts.len() == 3 && parts.iter().all(good)
}

fn json(text: &str) -> Option<InputKind> {
    let value: serde_json::Value = serde_json::from_str(text).ok()?;
    let has = |name: &str| value.get(name).is_some();
    match () {
        () if has("_meta") && has("default") => Some(InputKind::PipfileLock),
        () if has("dependencies") && has("name") => Some(InputKind::CondaEnvironment),
        () => None,
    }
}

fn toml_kind(text: &str) -> Option<InputKind> {
    let Ok(table) = text.parse::<Table>() else {
        // A broken file is read as what its tables say, and refused with its line.
        let has = |line: &str| text.lines().any(|found| found.trim_end() == line);
        return match () {
            () if has("[[packages]]") => Some(InputKind::Pylock),
            () if has("[[package]]") => Some(InputKind::UvLock),
            () if has("[project]") || has("[tool.poetry]") || has("[build-system]") => {
                Some(InputKind::Pyproject)
            }
            () => None,
        };
    };
    let has = |path: &&[&str]| {
        let mut at = Some(&table);
        let mut found = false;
        for name in *path {
            let value = at.and_then(|table| table.get(*name));
            found = value.is_some();
            at = value.and_then(toml::Value::as_table);
        }
        found
    };
    let known = TOML.iter().find(|(path, _)| has(path)).map(|(_, kind)| *kind);
    // <https://docs.astral.sh/uv/concepts/projects/layout/#the-lockfile>.
    let packages = table.get("package").is_some_and(toml::Value::is_array);
    match known {
        None if packages || table.contains_key("requires-python") => Some(InputKind::UvLock),
        known => known,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_told_by_their_contents() {
        for (text, expected) in [
            ("", InputKind::Requirements),
            ("# nothing\n", InputKind::Requirements),
            ("numpy==1.26\n-r other.txt\n", InputKind::Requirements),
            ("a @ https://x.example/a.whl?b=c\nb===1.0\n", InputKind::Requirements),
            ("lock-version = \"1.0\"\n[[packages]]\nname = \"a\"\n", InputKind::Pylock),
            ("[[packages]\n[[packages]]\n", InputKind::Pylock),
            ("version = 1\nrequires-python = \">=3.9\"\n", InputKind::UvLock),
            ("version = 1\n[[package]]\nname = \"a\"\n", InputKind::UvLock),
            (
                "[[package]]\nname = \"a\"\n[metadata]\nlock-version = \"2.0\"\n",
                InputKind::PoetryLock,
            ),
            ("[metadata]\nlock_version = \"4.4\"\n", InputKind::Unusable(&PDM_LOCK)),
            ("[project]\nname = \"a\"\n", InputKind::Pyproject),
            ("[tool.poetry]\nname = \"a\"\n", InputKind::Pyproject),
            ("[project\n[build-system]\n", InputKind::Pyproject),
            ("[[source]]\nurl = \"x\"\n[packages]\na = \"*\"\n", InputKind::Unusable(&PIPFILE)),
            ("{\"_meta\": {}, \"default\": {}}", InputKind::PipfileLock),
            (
                "name: x\nchannels:\n  - defaults\ndependencies:\n- numpy\n",
                InputKind::CondaEnvironment,
            ),
            ("{\"name\": \"x\", \"dependencies\": []}", InputKind::CondaEnvironment),
            (
                "# platform: linux-64\n@EXPLICIT\nhttps://x/a.conda\n",
                InputKind::Unusable(&CONDA_EXPLICIT),
            ),
            ("# x\nnumpy=1.19.2=py38h_0\n", InputKind::Unusable(&CONDA_LIST)),
            (
                "version: 1\nmetadata:\n  x: y\npackage:\n- name: a\n",
                InputKind::Unusable(&CONDA_LOCK),
            ),
            (
                "version: 6\nenvironments:\n  default:\npackages:\n- conda: x\n",
                InputKind::Unusable(&PIXI_LOCK),
            ),
            (
                "[metadata]\nname = x\n[options]\ninstall_requires =\n  a\n",
                InputKind::Unusable(&SETUP),
            ),
            ("from setuptools import setup\nsetup(name='x')\n", InputKind::Unusable(&SETUP)),
            (
                "Package    Version\n---------- -----\nnumpy      1.26\n",
                InputKind::Unusable(&PIP_LIST),
            ),
        ] {
            assert_eq!(of(text), Some(expected), "{text}");
        }
        assert_eq!(of("{\"dependencies\": {}}"), None);
        assert_eq!(of("[1, 2]"), None);
    }
}
