//! Downloads archives: verifies them, resumes downloads, and stores the files.
//!
//! ```text
//! DIR/<sha256>         a whole archive, its bytes checked before it got this name
//! DIR/<sha256>.part    one on its way; what is there is used again
//! VENDOR/<file name>   copies somebody laid ready, checked before they are used
//! ```

mod archives;
mod transport;

pub use self::archives::{Archives, Told};
pub use self::transport::{Stream, Transport, TransportFault};
