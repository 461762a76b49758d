//! The shell commands that definition files and Dockerfiles share.

use crate::assemble::LIB;
use crate::lock::ImageLock;
use crate::recipe::OciBase;
use crate::singularity::quoted;

/// What a definition file and a Dockerfile have in common.
pub(super) struct Script {
    /// The image begun with, as registries name it; `None` for none.
    pub(super) from: Option<String>,
    /// Commands for `sh -e`, one per line.
    pub(super) commands: Vec<String>,
}

/// Returns the commands that install the base and the libraries.
pub(super) fn script(lock: &ImageLock) -> Script {
    let mut commands = Vec::new();
    let debian = lock.debian.as_ref().filter(|_| lock.oci.is_none());
    let from = debian.map(|debian| {
        // Plain HTTP: the image has no certificates yet, and what comes is signed.
        let snapshot = "http://snapshot.debian.org/archive";
        let (suite, time) = (&debian.suite, &debian.snapshot);
        for (archive, of) in
            [("debian", suite.clone()), ("debian-security", format!("{suite}-security"))]
        {
            let line = format!("deb [check-valid-until=no] {snapshot}/{archive}/{time} {of} main");
            commands.push(format!("echo '{line}' >> /etc/apt/sources.list.d/gular.list"));
        }
        commands.push("apt-get update && apt-get install -y --no-install-recommends ca-certificates curl unzip".to_owned());
        let debs = lock.debs.iter().map(|deb| format!("{}={}", deb.name, deb.version));
        let debs = debs.collect::<Vec<_>>().join(" ");
        commands.push(format!(
            "apt-get install -y --no-install-recommends --allow-downgrades {debs}"
        ));
        format!("debian:{suite}-slim")
    });
    let of_registry = lock.oci.as_ref().and_then(|oci| match &oci.path {
        OciBase::Registry(reference) => Some(reference.exactly(oci.digest).to_string()),
        OciBase::Path(_) => None,
    });
    let from = from.or(of_registry);
    if lock.oci.is_some() && !lock.debs.is_empty() {
        let debs = lock.debs.iter().map(|deb| format!("{}={}", deb.name, deb.version));
        let debs = debs.collect::<Vec<_>>().join(" ");
        commands
            .push(format!("apt-get update && apt-get install -y --no-install-recommends {debs}"));
    }
    if lock.python.is_some() && lock.oci.is_none() {
        commands.push("apt-get install -y --no-install-recommends python3-pip".to_owned());
    }
    for wheel in &lock.wheels {
        let Some(url) = wheel.urls.first() else { continue };
        let file = format!("/tmp/{}.whl", wheel.name);
        commands.push(format!("curl -fsSL -o {file} {}", quoted(url)));
        commands.push(format!("echo '{}  {file}' | sha256sum -c -", wheel.sha256));
        let licences = format!("/usr/share/licenses/{}", wheel.name);
        commands.push(format!("mkdir -p /{LIB} {licences}"));
        commands.push(format!("unzip -q -o -j {file} '*/lib/*.so*' -d /{LIB}"));
        commands.push(format!("unzip -q -o -j {file} '*.dist-info/*' -d {licences} && rm {file}"));
    }
    let python = lock.python.as_ref().and_then(|python| python.interpreter.as_deref());
    let python = python.unwrap_or("python3");
    // Wheels beside the recipe have no URL that a build elsewhere could fetch them from.
    let of_python = lock.python.iter().flat_map(|python| &python.wheels);
    let of_python = of_python.filter_map(|wheel| Some((wheel, wheel.urls.first()?)));
    for (wheel, url) in of_python.filter(|(_, url)| !url.starts_with("./")) {
        let file = format!("/tmp/{}", wheel.file_name().unwrap_or_default());
        commands.push(format!("curl -fsSL -o {} {}", quoted(&file), quoted(url)));
        commands.push(format!("echo '{}  {file}' | sha256sum -c -", wheel.sha256));
        commands.push(format!(
            "{1} -m pip install --break-system-packages --no-deps --no-index {0} && rm {0}",
            quoted(&file),
            quoted(python)
        ));
    }
    Script { from, commands }
}
