//! Checks whether an image can run, before it fails on another machine.
//!
//! | module | rules |
//! |---|---|
//! | `closures` | libraries that are missing or too old, of every program and library |
//! | `libraries` | libraries for another processor, the host's own, and those opened later |
//! | `scripts` | interpreters that the first lines of scripts name |
//! | `made` | commands and files that scripts of Debian packages make |
//! | `gpus` | GPUs without code, CUDA's version against drivers |
//! | `runtime` | what Apptainer and HTCondor look for, and the file itself |
//! | `python` | Python packages that are missing, or of another version than others need |
//! | `imports` | modules that the user's own Python programs import |
//! | `modes` | modes and links that stop a plain user |
//! | `secrets` | tokens, and paths of the machine that built |
//!
//! A rule looks at the tree and at what is said about it. Nothing is run.

mod about;
mod check_report;
mod closures;
mod distributions;
mod driver;
mod finding;
mod gpus;
mod imports;
mod inventory;
mod libraries;
mod made;
mod modes;
mod named;
mod providers;
mod python;
mod runtime;
mod scripts;
mod secrets;
mod sites;

pub use self::about::{About, Form};
pub use self::check_report::CheckReport;
pub use self::driver::{CudaRuntime, DriverRow, minimum_driver};
pub use self::finding::{Finding, Severity};
pub use self::gpus::{GpuLibrary, GpuRow, GpuTable, Runs};
pub use self::runtime::size;

use self::inventory::Inventory;
use self::named::Named;
use crate::Result;
use crate::recipe::TargetSection;
use crate::rootfs::Rootfs;

/// Runs all checks of this module on an image. Findings come by severity, then by rule and subject.
///
/// # Errors
/// [`Error::Io`](crate::Error::Io) when a file of the tree cannot be read. Faults of the image are
/// findings, not errors.
pub fn check(tree: &Rootfs, about: &About<'_>, target: &TargetSection) -> Result<CheckReport> {
    let mut findings = Vec::new();
    let inventory = Inventory::take(tree, about, &mut findings)?;
    let named = Named::of(&inventory)?;
    closures::check(&inventory, &named, &mut findings)?;
    libraries::check(&inventory, &mut findings);
    scripts::check(&inventory, &named, &mut findings)?;
    named.links(&mut findings);
    made::check(&inventory, &named, &mut findings);
    let gpus = gpus::check(&inventory, target, &mut findings)?;
    let cuda_runtime = driver::check(&inventory, &gpus, &mut findings);
    runtime::check(&inventory, target, &mut findings)?;
    python::check(tree, about.arch, &mut findings)?;
    imports::check(&inventory, &named, &mut findings)?;
    modes::check(&inventory, &mut findings);
    secrets::check(about, tree, &mut findings);
    findings.sort();
    findings.dedup();
    let minimum_driver = cuda_runtime.as_ref().and_then(|cuda| minimum_driver(cuda.major));
    Ok(CheckReport {
        glibc: inventory.glibc(),
        drivers: driver::rows(cuda_runtime.as_ref()),
        cuda_runtime,
        minimum_driver: minimum_driver.map(str::to_owned),
        bytes: tree.bytes(),
        gpus,
        findings,
    })
}
