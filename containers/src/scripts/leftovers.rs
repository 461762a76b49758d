//! What maintainer scripts leave behind and no image needs: it differs from build to build, or
//! says something of the machine that built it.

use crate::rootfs::RootPath;

/// Which paths a rule means.
#[derive(Debug, Clone, Copy)]
enum Paths {
    /// This one, and all below it.
    At(&'static str),
    /// All with this last segment.
    Named(&'static str),
    /// All whose last segment ends with this.
    Ending(&'static str),
}

use Paths::{At, Ending, Named};

/// Changes that are left out whatever was run, each with its reason.
const OF_ALL: &[(Paths, &str)] = &[
    (At("dev"), "mounted while scripts run, and by every runtime"),
    (At("proc"), "mounted while scripts run, and by every runtime"),
    (At("run"), "mounted while scripts run"),
    (At("sys"), "mounted by every runtime"),
    (At("tmp"), "mounted while scripts run"),
    (At("etc/.pwd.lock"), "a lock file (lckpwdf(3))"),
    (At("etc/machine-id"), "must be new on every machine (machine-id(5))"),
    (At("var/cache/ldconfig"), "holds inode numbers and times (ldconfig(8))"),
    (At("var/lib/dbus/machine-id"), "must be new on every machine (machine-id(5))"),
    (At("var/tmp"), "temporary"),
];

/// Changes by maintainer scripts that are left out.
const OF_PACKAGES: &[(Paths, &str)] = &[
    (At("usr/share/info"), "an index of pages that the image does not have"),
    (At("usr/share/man"), "pages that the image does not have, and links to them"),
    (At("usr/sbin/policy-rc.d"), "ours: no service is started while an image is made"),
    (At("etc/hostname"), "belongs to the machine (hostname(5))"),
    (At("var/lib/python"), "marks which Pythons were just installed"),
    (At("var/lib/systemd/random-seed"), "must be new on every machine"),
    (At("var/lib/systemd/deb-systemd-helper-enabled"), "state of deb-systemd-helper(1p)"),
    (At("var/lib/systemd/deb-systemd-user-helper-enabled"), "state of deb-systemd-helper(1p)"),
    (At("etc/ssh/ssh_host_ecdsa_key"), "a secret that must be new on every machine"),
    (At("etc/ssh/ssh_host_ed25519_key"), "a secret that must be new on every machine"),
    (At("etc/ssh/ssh_host_rsa_key"), "a secret that must be new on every machine"),
    (At("etc/ssl/private/ssl-cert-snakeoil.key"), "a secret that must be new on every machine"),
    (At("etc/ssl/certs/ssl-cert-snakeoil.pem"), "belongs to that key"),
    (At("var/cache/apparmor"), "a cache for one kernel"),
    (At("var/cache/debconf"), "answers to questions of installation, with their times"),
    (At("var/cache/fontconfig"), "holds the times of folders, which are others in an image"),
    (At("var/cache/man"), "an index of pages that the image does not have"),
    (At("var/lib/systemd/catalog/database"), "made by journald, which no image starts"),
    (At("var/lib/ucf"), "state of ucf(1), which the image does not need"),
    (At("var/lib/xml-core/catalog.old"), "an earlier state"),
    (At("var/log"), "times of installation"),
    (At("etc/passwd-"), "an earlier state (shadow(5))"),
    (At("etc/group-"), "an earlier state (shadow(5))"),
    (At("etc/shadow-"), "an earlier state (shadow(5))"),
    (At("etc/gshadow-"), "an earlier state (shadow(5))"),
    (At("etc/subuid-"), "an earlier state (shadow(5))"),
    (At("etc/subgid-"), "an earlier state (shadow(5))"),
    (Named("__pycache__"), "byte code with times; the image's own is made afterwards"),
    (Ending(".dpkg-tmp"), "a file that was being replaced"),
    (Ending(".pyc"), "byte code with times; the image's own is made afterwards"),
];

/// Why a change by a maintainer script is left out; `None` if it is not.
pub(super) fn reason(path: &RootPath) -> Option<&'static str> {
    reason_of_all(path).or_else(|| find(OF_PACKAGES, path))
}

/// Why a change is left out whatever made it; `None` if it is not.
pub(super) fn reason_of_all(path: &RootPath) -> Option<&'static str> {
    find(OF_ALL, path)
}

fn find(leftovers: &[(Paths, &'static str)], path: &RootPath) -> Option<&'static str> {
    let inside = |dir: &str| {
        path.as_str().strip_prefix(dir).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let means = |paths: &Paths| match *paths {
        At(dir) => inside(dir),
        Named(name) => path.as_str().split('/').any(|segment| segment == name),
        Ending(end) => path.name().ends_with(end),
    };
    leftovers.iter().find(|(paths, _)| means(paths)).map(|(_, reason)| *reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_secrets_stay_out_and_results_in() {
        for (path, out) in [
            ("run/x", true),
            ("running", false),
            ("var/log/dpkg.log", true),
            ("usr/lib/python3/dist-packages/a/__pycache__/b.cpython-311.pyc", true),
            ("etc/alternatives/awk", false),
            ("etc/ld.so.cache", false),
            ("etc/passwd", false),
            ("etc/machine-id", true),
        ] {
            assert_eq!(reason(&RootPath::new(path).unwrap()).is_some(), out, "{path}");
        }
    }
}
