//! Plots of measurements as SVG.

#![forbid(unsafe_code)]

mod bars;

pub use bars::{Bar, Panel, chart};
