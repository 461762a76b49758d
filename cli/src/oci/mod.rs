//! Bundles in registries: `oci://HOST/REPOSITORY:VERSION`, for `publish` and `fetch`.
//!
//! `transfer` decides which file becomes which blob, and `registry` sends and fetches blobs; this
//! module joins the two.

mod digest_cache;
mod fetch;
mod name;
mod publish;
mod source;

pub(crate) use self::fetch::run as fetch;
pub(crate) use self::name::is_oci;
pub(crate) use self::publish::run as publish;
