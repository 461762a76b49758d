//! Fields whose values are separate files, one for each image: masks, or any other data.
//!
//! ```text
//! images/street/1.jpg ─ stem `street/1` + suffix ─▶ masks/street/1_mask.png
//!                                                      │ plan: [bytes, path]
//!                                                      └▶ value: as found, or numbers
//! ```
//!
//! Which file is whose is decided when the plan is made, so that a missing one is named before
//! anything is packed.

mod find;
mod make;
mod stems;

pub(crate) use find::{Beside, FilesOf};
pub(crate) use make::{OfImage, ReadFiles};
