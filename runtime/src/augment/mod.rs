//! What is done to each picture: which part becomes which size ([`Transform`]), and then what a
//! training's own function does to the result ([`View`]).

mod colour;
mod transform;
mod view;

pub use transform::{Pad, Placement, Transform};
pub use view::{Augment, MaskView, Pixels, View};
