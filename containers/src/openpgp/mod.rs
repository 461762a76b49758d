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
    /// A block of this kind is missing where one must begin.
    #[error("the line `-----BEGIN PGP {0}-----` is missing")]
    Begin(&'static str),
    /// The last line of a block is missing.
    #[error("the line `-----END PGP {0}-----` is missing")]
    End(&'static str),
    /// Lines within a block that are not headers or base64.
    #[error(
        "the block `-----BEGIN PGP {0}-----` is damaged: a line in it is neither a header nor base64"
    )]
    Armor(&'static str),
    /// A header that is not `Hash`, or a line of the text that begins with a dash.
    #[error("line {0} of the signed text begins with a dash or is an unknown header")]
    Line(usize),
    /// There is something after the last line.
    #[error("there is text after the signature")]
    After,
    /// Not a packet, a packet of unknown length, or one that is cut short.
    #[error("the OpenPGP packet at byte {0} is damaged")]
    Packet(usize),
    /// A packet that has no place here, by its type ID.
    #[error("an OpenPGP packet of type {0} is not expected here")]
    Misplaced(u8),
    /// A signature that is cut, or whose lengths disagree.
    #[error("the signature's OpenPGP packet is damaged")]
    Signature,
    /// More signatures than any document has.
    #[error("there are more than {0} signatures")]
    TooMany(usize),
}
