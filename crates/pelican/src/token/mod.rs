//! Tokens: where they are found, what they claim, and why a server refuses one.

mod bearer;
mod claims;
mod diagnose;
mod find;
mod places;

pub use bearer::Token;
pub use claims::{Claims, Profile};
pub use diagnose::{Action, Diagnosis};
pub use find::TokenError;
pub(crate) use find::{Finder, Found, Pick, Want};
pub use places::{TokenHeld, TokenPlace, token_places};
