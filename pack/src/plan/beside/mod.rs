//! Fields whose values are separate files, one for each image: masks, or any other data.
//!
//! ```text
//! images/street/1.jpg ─ what both patterns name: key `street/1` ─▶ masks/street/1_mask.png
//!                                                      │ plan: [bytes, path]
//!                                                      └▶ value: as found, or numbers
//! ```
//!
//! Which file is whose is decided when the plan is made, so that a missing one is named before
//! anything is packed.

mod colours;
mod find;
mod polygons;

pub use colours::MaskColours;
pub(crate) use find::{Beside, FilesOf, Make, check, other_size, unlike};
pub use polygons::MaskClass;
pub(crate) use polygons::{PlacedPolygons, Polygons};
