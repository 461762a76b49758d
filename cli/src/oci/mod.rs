//! Bundles in registries: `oci://HOST/REPOSITORY:VERSION`, for `publish` and `fetch`.
//!
//! Which file is which blob is `transfer`'s rule, how blobs travel that of `containers`; here they
//! are joined.

mod fetch;
mod known;
mod name;
mod publish;
mod source;

pub(crate) use self::fetch::run as fetch;
pub(crate) use self::name::is_oci;
pub(crate) use self::publish::run as publish;
