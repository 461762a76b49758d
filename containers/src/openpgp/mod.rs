//! Signatures of OpenPGP (RFC 9580), as far as Debian archives need them: whether a
//! clearsigned text was signed by one of the given keys.
//!
//! Keys and signatures are of version 4, as every released GnuPG makes them, with RSA of
//! 2048 to 8192 bits or Ed25519, over SHA-256, SHA-384 or SHA-512. Anything else is an
//! unknown key here. Nothing is decrypted and no secret key is read. The arithmetic is
//! that of `ring`, which TLS uses as well.
//!
//! ```text
//! armor ──▶ packets ──▶ certificate: keys that may sign, until when
//!   │          └──────▶ signature ──▶ key.verify(signature, text)
//!   └──▶ the text that is signed ─────────────────────────┘
//! ```

mod armor;
mod bytes;
mod certificate;
mod key;
mod packet;
mod signature;

pub(crate) use self::armor::Cleartext;
pub(crate) use self::certificate::{Signer, signers};
pub(crate) use self::signature::signatures;

/// Bytes that are not OpenPGP.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Malformed {
    /// No block of this kind begins where one must.
    #[error("no `-----BEGIN PGP {0}-----` where one is expected")]
    Begin(&'static str),
    /// A block without its last line.
    #[error("no `-----END PGP {0}-----`")]
    End(&'static str),
    /// Lines within a block that are not headers or base64.
    #[error("damaged armor of a `{0}`")]
    Armor(&'static str),
    /// A header that is not `Hash`, or a line of the text that begins with a dash.
    #[error("line {0} of the signed text is not allowed there")]
    Line(usize),
    /// Something after the last line.
    #[error("text after the signature")]
    After,
    /// Not a packet, one of unknown length, or one that is cut.
    #[error("damaged packet at byte {0}")]
    Packet(usize),
    /// A packet that has no place here, by its type ID.
    #[error("an unexpected packet of type {0}")]
    Misplaced(u8),
    /// A signature that is cut, or whose lengths disagree.
    #[error("a damaged signature packet")]
    Signature,
    /// More signatures than any document has.
    #[error("over {0} signatures")]
    TooMany(usize),
}
