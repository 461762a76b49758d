//! Hints for errors of `containers`, in words of this program.

use std::io;

use gular_containers::Error;
use gular_registry::Error as RegistryError;

const FULL: &str = "free some space, or choose another folder";

/// The hint for a registry or mirror that does not answer.
pub(crate) const AWAY: &str = "check the server's name, or run the same command again later: what was transferred is kept; behind a firewall set HTTPS_PROXY";

/// Returns what the user can do next, if anything helps.
pub(crate) fn hint(error: &Error) -> Option<String> {
    // The hint of the error itself: a similar name, other versions.
    if let Some(hint) = error.hint() {
        return Some(hint.to_owned());
    }
    let hint = match error {
        Error::Io(error) if error.kind() == io::ErrorKind::StorageFull => FULL,
        Error::Io(error) if error.kind() == io::ErrorKind::NotFound => "check the path",
        Error::Write { source } if source.kind() == io::ErrorKind::StorageFull => FULL,
        error if error.is_passing() => AWAY,
        Error::Registry(error) => return registry(error).map(str::to_owned),
        Error::NoRecipe { .. } => "write a recipe: `gular help image` and docs/images.md show how",
        Error::NoLock { .. } => "make the lock file with `gular image lock`",
        Error::ForeignLock { .. } => "rename the recipe, for example to `image.toml`",
        Error::NoFolder { .. } => "make and fill the folder with `gular image lock --vendor DIR`",
        Error::NotOffline => {
            "run `gular image lock --vendor DIR` once with a network; then `gular image build --from-vendor DIR --offline` needs none"
        }
        Error::LockVersion { found, supported, .. } if found > supported => {
            "read it with a newer release"
        }
        Error::Lock { .. } | Error::LockVersion { .. } => {
            "make the lock file again with `gular image lock`"
        }
        Error::BaseChanged { .. } => {
            "the base image has changed: run `gular image lock` to use the new one"
        }
        Error::NotDebian { has_apt: true, .. } => {
            "install them in a step, `[[run]]` with `script = \"apt-get update && apt-get install -y NAME\"` and `network = true`; or take an image of Debian 12 or 13 as base"
        }
        Error::NotDebian { .. } => {
            "take an image of Debian 12 or 13 as base, or one that has these packages"
        }
        Error::Python { .. } => {
            "name its Python with `interpreter` in `[python]`, or take an image with a Python for glibc"
        }
        Error::ByteCode { .. } => {
            "build on a machine with the image's CPU architecture, or set `bytecode = false` in `[python]`"
        }
        Error::Scripts { .. } => {
            "leave the package out, or build with `--no-scripts`: the image then lacks what its scripts do"
        }
        Error::ScriptsNeeded { on_image: true, .. } => {
            "leave the package out, or choose a `debian` base instead of `oci`; or build with `--no-scripts`: the image then lacks what these scripts do"
        }
        Error::ScriptsNeeded { .. } => {
            "build on a machine of the image's CPU architecture that allows user namespaces, with a lock file by this release (`gular image lock`); or build with `--no-scripts`: the image then lacks what these scripts do"
        }
        Error::StepRefused { is_here: true, .. } => {
            "what a step makes is not known before it is run: build on a machine of the image's CPU architecture that allows user namespaces, without `--no-scripts` and `--offline`"
        }
        Error::StepNotLocked { .. } => {
            "build once without `--locked`, which runs the step and writes its result to the lock file"
        }
        Error::StepChanged { .. } => {
            "if its result may change, make the lock file again with `gular image lock`"
        }
        Error::Stale { .. } => {
            "make the lock file again with `gular image lock`, or undo the change to the recipe"
        }
        Error::Untrusted { expired: true, .. } => {
            "check this machine's clock; if it is right, give newer keys with `--keyring FILE`"
        }
        Error::Untrusted { .. } => {
            "if this is another archive, or a newer release, give its keys with `--keyring FILE`"
        }
        Error::NotInIndex { .. } => "give another package index with `--index`",
        Error::Offline { .. } => "run the command once without `--offline`, to fetch the file",
        Error::Digest { .. } => "remove the file and fetch it again, or use another mirror",
        Error::Exists { .. } => "remove it, or choose another name",
        Error::Other { .. } => {
            "if that file is damaged, remove it; if it was signed, rename it, or build with another `--out`"
        }
        Error::NoImage { wanted, .. } if wanted.starts_with("for ") => {
            "choose another platform with `--platform`"
        }
        Error::NoImage { .. } => "choose one of these tags",
        Error::SeveralImages { .. } => {
            "choose one by its tag: `oci:DIR:TAG`, `docker-archive:FILE:NAME:TAG`"
        }
        Error::Changed { .. } => "build again when no program is writing to this file",
        Error::Damaged { .. } => {
            "remove the folder that holds this file: the next build unpacks the archive again"
        }
        Error::Limit { what: "bytes to fetch", .. } => {
            "if you trust it, raise `--max-size` (with `pull`) or `--max-unpacked` (with other verbs)"
        }
        Error::Limit { what: "bytes", .. } => "if you trust it, raise `--max-unpacked`",
        Error::Debian { .. } | Error::Archive { .. } => {
            "fetch the file again, and check that the mirror is complete"
        }
        Error::Sif { .. } | Error::Oci { .. } | Error::Elf { .. } => {
            "build or copy the file again; compare its digest with the original's (`b3sum`)"
        }
        _ => return None,
    };
    Some(hint.to_owned())
}

fn registry(error: &RegistryError) -> Option<&'static str> {
    Some(match error {
        RegistryError::Unusable { reason, .. } if reason.contains("invalid peer certificate") => {
            "if this is the right registry, set SSL_CERT_FILE to the path of its CA certificate"
        }
        RegistryError::Unusable { reason, .. } if reason.starts_with("TLS: ") => {
            "check host and port: registries on other machines are contacted over TLS only"
        }
        RegistryError::Taken { .. } => {
            "a published version never changes: choose another name or version"
        }
        RegistryError::Changed { .. } => "send it again when no program is writing to this file",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_bytes_suggest_goes_before_what_the_program_knows() {
        let check = |error: &Error, expected: Option<&str>| {
            assert_eq!(hint(error).as_deref(), expected, "{error}");
        };
        let (path, reason) = (String::new(), String::new());
        let near = Some("did you mean `path`?".to_owned());
        let recipe = Error::Recipe { path: path.clone(), line: 1, reason, hint: near.clone() };
        check(&recipe, near.as_deref());
        check(
            &Error::NoLock { path: path.clone() },
            Some("make the lock file with `gular image lock`"),
        );
        let limit = |what| Error::Limit { path: path.clone(), what, found: 2, limit: 1 };
        check(&limit("bytes"), Some("if you trust it, raise `--max-unpacked`"));
        let both = "if you trust it, raise `--max-size` (with `pull`) or `--max-unpacked` (with other verbs)";
        check(&limit("bytes to fetch"), Some(both));
        check(&limit("files and folders"), None);
        let registry = |reason: &str, passes| {
            let (what, reason) = ("https://r.io/v2/".to_owned(), reason.to_owned());
            Error::Registry(RegistryError::Unusable { what, reason, hint: None, passes })
        };
        check(&registry("cannot connect", true), Some(AWAY));
        check(&registry("it answers 404", false), None);
        check(
            &registry("TLS: received corrupt message of type InvalidContentType", false),
            Some("check host and port: registries on other machines are contacted over TLS only"),
        );
        let unknown = hint(&registry("TLS: invalid peer certificate: UnknownIssuer", false));
        assert!(unknown.is_some_and(|hint| hint.contains("SSL_CERT_FILE")));
        let version =
            |found| Error::LockVersion { path: path.clone(), line: 1, found, supported: 1 };
        check(&version(2), Some("read it with a newer release"));
        check(&version(0), Some("make the lock file again with `gular image lock`"));
    }
}
