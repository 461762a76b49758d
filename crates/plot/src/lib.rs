//! Plots of measurements as SVG: [`chart`] is a separate picture, [`bars`] a part of a page.

#![forbid(unsafe_code)]

mod bars;

pub use bars::{Bar, Panel, bars, chart, escape};
