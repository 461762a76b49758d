//! Python packages that travel with a job, so that it needs no network to install them.

use std::fmt::Write as _;

use super::JobSpec;

/// Lines of a script that unpack the wheels among the inputs, once, and have Python and the shell
/// find what is in them.
pub(super) fn unpack(spec: &JobSpec) -> String {
    let names = spec.inputs.iter().map(|(name, _)| name.as_str());
    let wheels: Vec<&str> = names.filter(|name| is_wheel(name)).collect();
    let mut text = String::new();
    if wheels.is_empty() {
        return text;
    }
    text.push_str("# Python packages, unpacked once: the job may run again in this folder.\nif [ ! -d wheels ]; then\n");
    // The script does not exit if a wheel fails: the program ends with its own code, and its
    // results are sent.
    for wheel in wheels {
        let _ = writeln!(text, "  python3 -m zipfile -e {wheel} wheels.part &&");
    }
    text.push_str(
        "  mv wheels.part wheels\nfi\nfor programs in \"$PWD\"/wheels/*.data/scripts; do\n  [ -d \"$programs\" ] || continue\n  chmod +x \"$programs\"/*\n  PATH=$programs:$PATH\n  # In an image Apptainer sets PATH anew, with this in front.\n  APPTAINERENV_PREPEND_PATH=$programs${APPTAINERENV_PREPEND_PATH:+:$APPTAINERENV_PREPEND_PATH}\ndone\nexport PATH APPTAINERENV_PREPEND_PATH PYTHONPATH=\"$PWD/wheels${PYTHONPATH:+:$PYTHONPATH}\"\n",
    );
    text
}

/// Whether a file is a Python package.
pub(super) fn is_wheel(name: &str) -> bool {
    name.ends_with(".whl")
}
