//! Plots of measurements as SVG: [`chart`] is a picture of its own, [`bars`] a part of a page.

#![forbid(unsafe_code)]

mod bars;

pub use bars::{Bar, Panel, bars, chart, escape};
