//! Looks for tokens, and for paths of the machine that built the image: an image is copied to many
//! places, and nothing in it can be taken back.

use super::{About, Finding};
use crate::rootfs::{FileBytes, Layer, Rootfs, What};

/// Parts of a setting's name that say that it holds a secret.
const SECRET_NAMES: [&str; 8] =
    ["TOKEN", "SECRET", "PASSWORD", "PASSWD", "API_KEY", "APIKEY", "ACCESS_KEY", "CREDENTIAL"];

/// Folders of users, or of single machines.
const HOST_FOLDERS: [&str; 9] = [
    "/home/",
    "/Users/",
    "/afs/",
    "/scratch/",
    "/staging/",
    "/p/home/",
    "/p/project",
    "/p/scratch/",
    "/mnt/",
];

/// Files with credentials.
const SECRET_FILES: [&str; 10] = [
    ".netrc",
    ".git-credentials",
    ".pgpass",
    ".pypirc",
    ".aws/credentials",
    ".docker/config.json",
    ".ssh/id_rsa",
    ".ssh/id_ed25519",
    ".cache/huggingface/token",
    ".kube/config",
];

/// Longest file looked into for a key; one of RSA 16384 has 13 KB.
const MOST_KEY_BYTES: u64 = 64 << 10;

pub(super) fn check(about: &About<'_>, tree: &Rootfs, findings: &mut Vec<Finding>) {
    for (section, settings) in [("env", about.env), ("labels", about.labels)] {
        for (name, value) in settings {
            let subject = format!("{section}.{name}");
            findings.extend(named(&subject, name, value));
            findings.extend(text(&subject, value));
            findings.extend(paths(about, &subject, value));
        }
    }
    for (number, line) in (1..).zip(about.recipe.lines()) {
        let subject = format!("recipe line {number}");
        findings.extend(text(&subject, line));
        // The sources of the build are on this machine, and the recipe names them on purpose; but
        // its user's folders concern nobody else.
        findings.extend(paths(about, &subject, line));
    }
    for (path, node) in tree.iter() {
        let is_secret = |name: &&str| {
            let rest = path.as_str().strip_suffix(*name);
            rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('/'))
        };
        if matches!(&node.what, What::File(source) if !source.is_empty())
            && SECRET_FILES.iter().any(is_secret)
        {
            let message = "programs keep credentials there";
            findings.push(Finding::error("secret", path, message).hint(HINT));
        } else if matches!(node.layer, Layer::App | Layer::Run(_)) && holds_key(&node.what) {
            let message = "it is a private key, and anyone who has the image can read it";
            findings.push(Finding::error("secret", path, message).hint(HINT));
        }
    }
}

/// Whether a small file is a private key in PEM (RFC 7468).
fn holds_key(what: &What) -> bool {
    let What::File(source) = what else { return false };
    if source.len() > MOST_KEY_BYTES {
        return false;
    }
    let bytes = match source {
        FileBytes::Bytes(bytes) => bytes.to_vec(),
        // A file that cannot be read is reported when it is packed.
        FileBytes::File { path, .. } => std::fs::read(path).unwrap_or_default(),
    };
    let begins = memchr::memmem::find(&bytes, b"-----BEGIN ");
    begins.is_some() && memchr::memmem::find(&bytes, b"PRIVATE KEY-----").is_some()
}

const HINT: &str =
    "leave it out, give it to the job instead, and revoke it if the image was passed on";

/// Reports a setting whose name says that it is secret.
fn named(subject: &str, name: &str, value: &str) -> Option<Finding> {
    let upper = name.to_ascii_uppercase();
    let part = SECRET_NAMES.iter().find(|part| upper.contains(**part))?;
    // A file's path, a switch or nothing at all is not a secret.
    let harmless = value.len() < 8 || value.starts_with('/');
    (!harmless).then(|| {
        let message =
            format!("its name has `{part}`, and every copy of the image would hold its value");
        Finding::error("secret", subject, message).hint(HINT)
    })
}

/// Reports what looks like a secret anywhere in a text. The text itself is not shown.
fn text(subject: &str, value: &str) -> Vec<Finding> {
    let mut found: Vec<&str> = Vec::new();
    if value.contains("-----BEGIN ") && value.contains("PRIVATE KEY") {
        found.push("a private key");
    }
    found.extend(gular_files::secrets(value));
    let finding = |what| Finding::error("secret", subject, format!("it holds {what}")).hint(HINT);
    found.into_iter().map(finding).collect()
}

/// Reports paths that exist on one machine only.
fn paths(about: &About<'_>, subject: &str, value: &str) -> Option<Finding> {
    let own = about.host_paths.iter().map(String::as_str).filter(|path| path.len() > 1);
    let folder = own.chain(HOST_FOLDERS).find(|folder| {
        let mut places = value.match_indices(folder);
        // `/srv/home/` does not count for `/home/`: a path must begin with the folder.
        places.any(|(at, _)| {
            let before = value.get(..at).and_then(|before| before.chars().next_back());
            before.is_none_or(|c| !c.is_ascii_alphanumeric() && !"/._-~}".contains(c))
        })
    })?;
    let message = format!("it names a path below `{folder}`, which other machines do not have");
    Some(
        Finding::warning("host-path", subject, message)
            .hint("name a path that exists in the image, or set this value when the job starts"),
    )
}
