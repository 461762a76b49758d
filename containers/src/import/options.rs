//! The options of `apt-get`, `pip` and `uv pip`.

/// Options of `apt-get` with a value
/// (<https://manpages.debian.org/bookworm/apt/apt-get.8.en.html>).
pub(super) const APT_VALUES: [&str; 6] = [
    "--target-release",
    "--default-release",
    "--option",
    "--config-file",
    "--host-architecture",
    "--build-profiles",
];
/// Letters of such options.
pub(super) const APT_LETTERS: &str = "tocaP";

/// Options of `pip` and `uv pip` without a value that change nothing here
/// (<https://pip.pypa.io/en/stable/cli/pip_install/>,
/// <https://docs.astral.sh/uv/reference/cli/#uv-pip-install>).
pub(super) const PIP_FLAGS: [&str; 31] = [
    "--break-system-packages",
    "--compile",
    "--compile-bytecode",
    "--debug",
    "--disable-pip-version-check",
    "--exact",
    "--force-reinstall",
    "--ignore-installed",
    "--isolated",
    "--native-tls",
    "--no-build-isolation",
    "--no-cache",
    "--no-cache-dir",
    "--no-clean",
    "--no-color",
    "--no-compile",
    "--no-config",
    "--no-input",
    "--no-progress",
    "--no-python-version-warning",
    "--no-warn-conflicts",
    "--no-warn-script-location",
    "--prefer-binary",
    "--quiet",
    "--reinstall",
    "--require-hashes",
    "--system",
    "--upgrade",
    "--use-pep517",
    "--user",
    "--verbose",
];
/// Letters of such options.
const PIP_FLAG_LETTERS: &str = "UqvIn";

/// Options of `pip` and `uv pip` with a value that change nothing here.
pub(super) const PIP_VALUES: [&str; 35] = [
    "--allow-insecure-host",
    "--build-option",
    "--cache-dir",
    "--cert",
    "--client-cert",
    "--color",
    "--config-setting",
    "--config-settings",
    "--exists-action",
    "--global-option",
    "--index-strategy",
    "--install-option",
    "--keyring-provider",
    "--link-mode",
    "--log",
    "--only-binary",
    "--progress-bar",
    "--proxy",
    "--python",
    "--refresh-package",
    "--reinstall-package",
    "--report",
    "--resume-retries",
    "--retries",
    "--root-user-action",
    "--src",
    "--timeout",
    "--trusted-host",
    "--upgrade-package",
    "--upgrade-strategy",
    "--use-deprecated",
    "--use-feature",
    "--no-build-isolation-package",
    "--no-build-package",
    "--default-timeout",
];

/// Options of `pip` and `uv pip` with a value that change what is installed, in ways that
/// requirements do not say.
pub(super) const PIP_OTHERS: [&str; 22] = [
    "--abi",
    "--build-constraint",
    "--build-constraints",
    "--config-file",
    "--directory",
    "--exclude-newer",
    "--exclude-newer-package",
    "--excludes",
    "--extra",
    "--fork-strategy",
    "--group",
    "--implementation",
    "--no-binary",
    "--no-binary-package",
    "--override",
    "--overrides",
    "--platform",
    "--prerelease",
    "--python-platform",
    "--python-version",
    "--resolution",
    "--torch-backend",
];

/// Options of `pip` and `uv pip` with a value that become part of the requirements, or are told.
pub(super) const PIP_TAKEN: [&str; 13] = [
    "--constraint",
    "--constraints",
    "--default-index",
    "--editable",
    "--extra-index-url",
    "--find-links",
    "--index",
    "--index-url",
    "--prefix",
    "--requirement",
    "--requirements",
    "--root",
    "--target",
];

/// Letters of options of `pip` and `uv pip` with a value, and their names.
const PIP_LETTERS: [(char, &str); 10] = [
    ('r', "--requirement"),
    ('c', "--constraint"),
    ('i', "--index-url"),
    ('f', "--find-links"),
    ('e', "--editable"),
    ('t', "--target"),
    ('p', "--python"),
    ('C', "--config-settings"),
    ('b', "--build-constraints"),
    ('P', "--upgrade-package"),
];

/// Variables that are the same as options of `pip` and `uv`, and these options
/// (<https://pip.pypa.io/en/stable/topics/configuration/>,
/// <https://docs.astral.sh/uv/reference/environment/>).
pub(super) const SETTINGS: [(&str, &str); 12] = [
    ("PIP_INDEX_URL", "--index-url"),
    ("PIP_EXTRA_INDEX_URL", "--extra-index-url"),
    ("PIP_FIND_LINKS", "--find-links"),
    ("PIP_CONSTRAINT", "--constraint"),
    ("PIP_NO_BINARY", "--no-binary"),
    ("UV_INDEX_URL", "--index-url"),
    ("UV_DEFAULT_INDEX", "--index-url"),
    ("UV_INDEX", "--extra-index-url"),
    ("UV_EXTRA_INDEX_URL", "--extra-index-url"),
    ("UV_FIND_LINKS", "--find-links"),
    ("UV_CONSTRAINT", "--constraint"),
    ("UV_TORCH_BACKEND", "--torch-backend"),
];

/// Parts of the names of other variables that change what is installed.
pub(super) const CHOOSING: [&str; 9] = [
    "INDEX",
    "CONSTRAINT",
    "FIND_LINKS",
    "BINARY",
    "OVERRIDE",
    "PRERELEASE",
    "PIP_PRE",
    "EXCLUDE_NEWER",
    "REQUIREMENT",
];

/// A word of `pip install`, or an option by its long name.
#[derive(Debug)]
pub(super) enum Given {
    Word(String),
    Option(String, Option<String>),
}

impl Given {
    pub(super) fn is(&self, name: &str) -> bool {
        matches!(self, Self::Option(found, _) if found == name)
    }
}

/// The options and words of `pip …`, without the verbs. `None` if it cannot be told whether a word
/// is the value of an option.
pub(super) fn given(words: &[String]) -> Option<Vec<Given>> {
    let valued = |name: &str| {
        [&PIP_VALUES[..], &PIP_OTHERS, &PIP_TAKEN].iter().any(|table| table.contains(&name))
    };
    let mut all = Vec::new();
    let mut is_install = false;
    let mut words = words.iter().peekable();
    while let Some(word) = words.next() {
        if let Some(letters) = word.strip_prefix('-').filter(|rest| !rest.starts_with('-')) {
            let at = letters.char_indices().find(|(_, c)| !PIP_FLAG_LETTERS.contains(*c));
            let Some((at, letter)) = at else { continue };
            let (_, name) = PIP_LETTERS.iter().find(|(found, _)| *found == letter)?;
            let rest = letters.get(at + letter.len_utf8()..).unwrap_or_default();
            let rest = rest.strip_prefix('=').unwrap_or(rest);
            let value = if rest.is_empty() { words.next()?.clone() } else { rest.to_owned() };
            all.push(Given::Option((*name).to_owned(), Some(value)));
        } else if let Some((name, value)) = word.split_once('=').filter(|_| word.starts_with("--"))
        {
            all.push(Given::Option(name.to_owned(), Some(value.to_owned())));
        } else if word.starts_with("--") && word.len() > 2 {
            let name = word.as_str();
            let known = PIP_FLAGS.contains(&name)
                || ["--no-deps", "--no-index", "--pre"].contains(&name)
                || words.peek().is_none_or(|next| next.starts_with('-'));
            let value = match valued(name) {
                true => Some(words.next()?.clone()),
                false if known => None,
                false => return None,
            };
            all.push(Given::Option(name.to_owned(), value));
        } else if is_install {
            if word != "--" {
                all.push(Given::Word(word.clone()));
            }
        } else {
            is_install = word == "install";
        }
    }
    Some(all)
}

/// Whether the next word is the value of this option.
pub(super) fn takes_next(word: &str, names: &[&str], letters: &str) -> bool {
    match word.strip_prefix('-') {
        Some(rest) if !rest.starts_with('-') => {
            // `-yt RELEASE`, and `-tRELEASE`.
            rest.find(|c| letters.contains(c) || c == '=')
                .is_some_and(|at| at + 1 == rest.len() && rest.ends_with(|c| letters.contains(c)))
        }
        _ => names.contains(&word),
    }
}
