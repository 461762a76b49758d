//! Byte code of an image's Python sources: from the store, or compiled now.

use super::{BuildOptions, ImageWatch, Step};
use crate::assemble::Base;
use crate::lock::ImageLock;
use crate::python::{Compiler, Scheme, Unit};
use crate::store::Listing;
use crate::{Error, Result};

/// The byte code of each package.
pub(super) fn compile_python(
    options: &BuildOptions<'_>,
    lock: &ImageLock,
    base: &Base,
    scheme: &Scheme,
    sources: &[Unit],
    watch: &dyn ImageWatch,
) -> Result<Vec<Listing>> {
    let (tree, _) = base.lay()?;
    let store = options.cache.store();
    let own = format!("python3.{}-minimal", scheme.minor);
    let of_deb = lock.debs.iter().find(|deb| deb.name == own).map(|deb| deb.sha256);
    let of_image = lock.oci.as_ref().map(|oci| oci.digest.0);
    let interpreter = of_image.or(of_deb).ok_or_else(|| {
        let reason = "the lock has no such package".to_owned();
        Error::ByteCode { name: own, reason }
    })?;
    let compiler = Compiler {
        tree: &tree,
        scheme,
        interpreter,
        store: &store,
        limits: &options.limits,
        temp: options.cache.folder()?,
        cancel: watch.cancel(),
    };
    let mut made = Vec::new();
    for unit in sources {
        watch.working_on(Step::Unpack, &format!("byte code of {}", unit.name()));
        made.push(compiler.compile(unit)?);
    }
    watch.ended(Step::Unpack);
    Ok(made)
}
