//! Measures which envelope, payload and loader settings suit the user's own data.
//!
//! ```text
//! images or bundle ─▶ one bundle an envelope and payload ─▶ rows ─▶ rounds over all rows
//!                     plain files, for comparison                       │
//!                                    table, JSON, page  ◀─ advice ◀─ medians and spread
//! ```
//!
//! Every row reads the same samples. Before anything is timed each row's reader
//! goes through all of them once, in order: this proves that it returns the same
//! bytes, and puts files that were just written into the page cache as any other
//! program would, which their writer does not.

#![forbid(unsafe_code)]

mod advice;
mod bench_report;
mod cache;
mod clock;
mod error;
mod html;
mod input;
mod load;
mod machine;
mod matrix;
mod measure;
mod options;
mod prepare;
mod rounds;
mod set;
mod sources;
mod table;

pub use bench_report::{
    Advice, BenchReport, Data, Machine, Method, NextStep, Numbers, Row, SourceBundle, Spread,
    Stored,
};
pub use cache::{drop as drop_from_page_cache, resident};
pub use error::Error;
pub use html::page;
pub use matrix::{RowReader, RowSpec};
pub use options::{BenchOptions, CacheState, ReadOrder, RowKind};
pub use rounds::{Estimate, Progress, bench, estimate};
pub use table::{advice, table};
