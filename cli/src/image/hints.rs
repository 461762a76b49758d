//! What to do about an error of the image room, in words of this program.

use std::io;

use gular_containers::Error;

const FULL: &str = "free some space, or name another folder";

/// What the user can do next, if anything helps.
pub(crate) fn hint(error: &Error) -> Option<String> {
    // What the bytes themselves say: a near name, other versions.
    if let Some(hint) = error.hint() {
        return Some(hint.to_owned());
    }
    let hint = match error {
        Error::Io(error) if error.kind() == io::ErrorKind::StorageFull => FULL,
        Error::Write { source } if source.kind() == io::ErrorKind::StorageFull => FULL,
        Error::NoRecipe { .. } => "write one: `gular image --help` and docs/images.md show how",
        Error::NoLock { .. } => "make it: `gular image lock`",
        Error::NoFolder { .. } => "fill it: `gular image lock --vendor DIR`",
        Error::NotOffline => {
            "lock once without `--offline`; with image.lock nothing is resolved again"
        }
        Error::LockVersion { found, supported, .. } if found > supported => {
            "read it with a newer release"
        }
        Error::Lock { .. } | Error::LockVersion { .. } => "make it again with `gular image lock`",
        Error::BaseChanged { .. } => "the image changed: `gular image lock` locks its new digest",
        Error::ByteCode { .. } => {
            "build on a machine with the image's CPU architecture, or set `bytecode = false` in `[python]`"
        }
        Error::Stale { .. } => {
            "make it again with `gular image lock`, or undo the change to the recipe"
        }
        Error::Untrusted { expired: true, .. } => {
            "is this machine's clock right? name newer keys with `--keyring FILE`"
        }
        Error::Untrusted { .. } => {
            "for another archive or a newer release name its keys with `--keyring FILE`"
        }
        Error::NotInIndex { .. } => "name another with `--index`",
        Error::Offline { .. } => "fetch once without `--offline`",
        Error::Digest { .. } => "remove it and fetch it again, or try another mirror",
        Error::Taken { .. } => "a published version never changes: give this one another name",
        Error::Exists { .. } => "remove it, or name another",
        Error::Other { .. } => {
            "if it was truncated or damaged, remove it; if it was signed, rename it, or build with another `--out`"
        }
        Error::Changed { .. } => "build again when nothing writes to it",
        Error::Damaged { .. } => "remove its folder: the next build unpacks the archive again",
        Error::Limit { what: "bytes to fetch", .. } => {
            "if you trust it, raise `--max-size` (`pull`), or `--max-unpacked` (other verbs)"
        }
        Error::Limit { what: "bytes", .. } => "if you trust it, raise `--max-unpacked`",
        Error::Debian { .. } | Error::Archive { .. } => "fetch it again; is the mirror complete?",
        Error::Sif { .. } | Error::Oci { .. } | Error::Elf { .. } => {
            "build or copy the file again; compare its size with the original's"
        }
        _ => return None,
    };
    Some(hint.to_owned())
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
        check(&Error::NoLock { path: path.clone() }, Some("make it: `gular image lock`"));
        let limit = |what| Error::Limit { path: path.clone(), what, found: 2, limit: 1 };
        check(&limit("bytes"), Some("if you trust it, raise `--max-unpacked`"));
        let both =
            "if you trust it, raise `--max-size` (`pull`), or `--max-unpacked` (other verbs)";
        check(&limit("bytes to fetch"), Some(both));
        check(&limit("nodes"), None);
        let version =
            |found| Error::LockVersion { path: path.clone(), line: 1, found, supported: 1 };
        check(&version(2), Some("read it with a newer release"));
        check(&version(0), Some("make it again with `gular image lock`"));
    }
}
