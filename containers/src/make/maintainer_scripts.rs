//! What the maintainer scripts of an image's packages do: from the store, or run now.

use super::unpack::unpack_tools;
use super::{BuildOptions, ImageWatch, Note, Places, Step, Unpacked};
use crate::fetch::Transport;
use crate::lock::ImageLock;
use crate::scripts::{self, Installation, Scripts};
use crate::sif::Arch;
use crate::store::{LeftOut, Listing};
use crate::{Error, Result};

/// Runs the scripts, unless their result is known. Where they cannot be run, it does what
/// is known of them without that, if that is all.
pub(super) fn maintainer_scripts(
    options: &BuildOptions<'_>,
    lock: &ImageLock,
    unpacked: &Unpacked<'_>,
    places: &Places<'_>,
    transport: &dyn Transport,
    watch: &dyn ImageWatch,
) -> Result<Scripts> {
    if lock.debs.is_empty() {
        return Ok(Scripts::None);
    }
    let key = scripts::key(&lock.debs, &lock.tools, lock.time);
    let temp = options.cache.folder()?;
    let unshare = match obstacle(options, lock) {
        Some(why) => return read(options, unpacked, &why, watch),
        None => options.tools.unshare.as_deref(),
    };
    let Some(unshare) = unshare else {
        return read(options, unpacked, "`unshare` of util-linux is not installed", watch);
    };
    let mut tools = Vec::new();
    if !places.store.has(&key) {
        if let Some(why) = scripts::allowed(unshare, temp)? {
            let why = format!("this machine does not allow user namespaces ({why})");
            return read(options, unpacked, &why, watch);
        }
        tools = unpack_tools(&lock.tools, places, transport, watch)?;
    }
    watch.working_on(Step::Scripts, "maintainer scripts");
    let made = places.store.listing(&key, |filling| {
        let installation = Installation {
            own: unpacked.debs(),
            tools: &tools,
            time: lock.time,
            unshare,
            temp,
            limits: places.limits,
            cancel: watch.cancel(),
        };
        scripts::run(&installation, filling)
    });
    watch.ended(Step::Scripts);
    let mut made = made?;
    for one in scripts::take_differing(&mut made)? {
        watch.note(&Note::NotReproducible { package: &one.package, path: &one.path });
    }
    note_left_out("maintainer scripts", &made, watch);
    Ok(Scripts::Ran(made))
}

/// Names what was made and no image can have.
pub(super) fn note_left_out(by: &str, made: &Listing, watch: &dyn ImageWatch) {
    let left: Vec<LeftOut> = made.left_out().collect();
    if !left.is_empty() {
        watch.note(&Note::LeftOut { by, left: &left });
    }
}

/// Why the scripts are not run, as far as the lock and the options say it.
fn obstacle(options: &BuildOptions<'_>, lock: &ImageLock) -> Option<String> {
    if options.no_scripts {
        Some("the build was told not to run them".to_owned())
    } else if lock.oci.is_some() {
        Some("scripts are not run over another image".to_owned())
    } else if lock.tools.is_empty() {
        Some("the lock file names no packages to run them with".to_owned())
    } else {
        other_arch(lock)
    }
}

/// Why programs of the image do not run here, if it is for another CPU architecture.
pub(super) fn other_arch(lock: &ImageLock) -> Option<String> {
    let here = if cfg!(target_arch = "aarch64") { Arch::Arm64 } else { Arch::Amd64 };
    let (is_other, here, arch) = (lock.platform.0 != here, here.name(), lock.platform.0.name());
    is_other.then(|| format!("this machine is {here}, and the image is for {arch}"))
}

/// Does what is known of the scripts. If that is not all, it is an error, unless the build was told so.
fn read(
    options: &BuildOptions<'_>,
    unpacked: &Unpacked<'_>,
    why: &str,
    watch: &dyn ImageWatch,
) -> Result<Scripts> {
    let reading = scripts::read(unpacked.debs(), &unpacked.without_scripts()?)?;
    if !reading.unknown.is_empty() && !options.no_scripts {
        let (packages, reason, on_image) = (reading.unknown, why.to_owned(), unpacked.on_image());
        return Err(Error::ScriptsNeeded { packages, reason, on_image });
    }
    // Even without scripts of packages, the cache of libraries and the locale are not made.
    watch.note(&Note::ScriptsNotRun { why, unknown: &reading.unknown });
    Ok(Scripts::Read(reading.links))
}
