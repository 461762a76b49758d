//! The packages of a base if the recipe names none.

/// The packages of `default`, each with the reason why it is there. The packages that they depend
/// on are added.
///
/// A base runs somebody else's program: it has what that is linked against, and what
/// batch systems and job scripts start. No editors, no package manager, no Python.
pub const DEFAULT_PACKAGES: [(&str, &str); 28] = [
    ("base-files", "/etc/os-release, /root, /var and the other folders"),
    ("base-passwd", "users and groups: without them `id` and ssh-like tools fail"),
    ("bash", "jobs are `#!/bin/bash` scripts"),
    ("bzip2", "job scripts unpack their inputs"),
    ("ca-certificates", "TLS to object stores"),
    ("coreutils", "cp, env, ls, printenv, timeout"),
    ("dash", "/bin/sh"),
    ("debianutils", "which: GlideinWMS' wrapper asks for programs by it"),
    ("findutils", "find, xargs"),
    ("grep", "wrappers and job scripts"),
    ("gzip", "job scripts unpack their inputs"),
    ("hostname", "wrappers say where a job runs"),
    ("less", "people look at files in the image"),
    ("libc-bin", "the locale C.UTF-8; getent, ldd"),
    ("libc6", "every program of ours"),
    ("libgcc-s1", "every program of ours"),
    ("libgomp1", "libtorch's threads"),
    ("libstdc++6", "libtorch"),
    ("mawk", "awk for wrappers, a tenth of gawk and what it needs"),
    ("ncurses-base", "less and top: what terminals can do"),
    ("procps", "ps, top, free: wrappers watch their jobs"),
    ("sed", "wrappers and job scripts"),
    ("tar", "job scripts unpack their inputs"),
    ("tzdata", "TZ=America/Chicago is another time than UTC"),
    ("unzip", "job scripts unpack their inputs"),
    ("xz-utils", "job scripts unpack their inputs"),
    ("zlib1g", "cuDNN's graph library, and what it is opened by"),
    ("zstd", "job scripts unpack their inputs"),
];

/// Packages that a base with `default` is made with and does not have: the definitions from which
/// the locale en_US.UTF-8 is made, which login nodes ask for. It has 3 MB, and all locales 230 MB.
pub(crate) const DEFAULT_TOOLS: [&str; 1] = ["locales"];
