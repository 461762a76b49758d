//! Maintainer scripts of Debian packages, and steps of the recipe, run over the tree of an image
//! without root.
//!
//! ```text
//! packages of the image ─┐
//! tools: dpkg, perl, …  ─┴▶ a folder ─ preinst ▶ dpkg --configure -a ▶ what changed ▶ Listing
//! the image so far ───────▶ a folder ─ the script of the step ───────▶ what changed ▶ Listing
//! ```
//!
//! The scripts run in a user namespace of their own, in which they are root, see no network, no
//! process and no file of this machine, and where `fakeroot` lets them give files to users
//! that the namespace does not have. Time and environment are fixed. They run twice, side by side:
//! what differs afterwards is reported with its package. [`leftovers`] lists what they leave behind
//! and no image needs.
//!
//! The result is a [`Listing`](crate::store::Listing) in the store, so that it is made once for a
//! set of packages, or for a step and all that it sees. Where there are no user namespaces,
//! [`read()`] tells what is known of scripts from what is not; of a step, nothing is known.

mod changes;
mod database;
mod differing;
mod enter;
mod install;
mod leftovers;
mod read;
mod scratch;
mod step;
mod timed;

use crate::Result;
use crate::rootfs::{Layer, Rootfs};
use crate::store::Listing;

pub(crate) use self::differing::take_differing;
pub(crate) use self::enter::allowed;
pub(crate) use self::install::{Installation, key, run};
pub(crate) use self::read::read;
pub(crate) use self::step::{StepRun, inputs, layer_digest, run_step};

/// What maintainer scripts make of a base.
#[derive(Debug, Clone, Default)]
pub enum Scripts {
    /// No package has any.
    #[default]
    None,
    /// They were run: what they added, changed and removed.
    Ran(Listing),
    /// They were read: the links that are known from them.
    Read(Vec<Link>),
}

/// A symbolic link that a script makes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Link {
    /// Its path in the image.
    pub path: crate::rootfs::RootPath,
    /// What it leads to.
    pub target: String,
}

impl Scripts {
    /// Changes a tree as the scripts do.
    ///
    /// # Errors
    /// Those of [`Listing::lay_over`] and [`Rootfs::add`].
    pub(crate) fn lay_over(&self, tree: &mut Rootfs, layer: Layer) -> Result<()> {
        match self {
            Self::None => Ok(()),
            Self::Ran(listing) => listing.lay_over(tree, layer),
            Self::Read(links) => read::lay_over(links, tree, layer),
        }
    }
}
