//! Debian packages without `apt` or `dpkg`: which ones are needed, and their contents.
//!
//! Debian Policy 4.6, chapters 5 (control files) and 7 (relationships); deb(5).

mod control;
mod finish;
pub(crate) mod installed;
mod keyring;
mod packages;
mod relation;
mod release;
mod resolve;
mod version;

pub use self::control::{Paragraph, paragraphs};
pub(crate) use self::finish::{INFO, unpack};
pub use self::finish::{lay, status};
pub(crate) use self::installed::{Additions, Installed, add};
pub use self::keyring::Keyring;
pub use self::packages::DEFAULT_PACKAGES;
pub(crate) use self::packages::DEFAULT_TOOLS;
pub use self::relation::{Constraint, Relation, relations};
pub use self::release::Release;
pub(crate) use self::release::snapshot;
pub use self::resolve::{Archive, DebianPackage, resolve, tools};
pub use self::version::Version;
