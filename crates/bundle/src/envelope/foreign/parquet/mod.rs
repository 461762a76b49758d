//! Envelope `parquet`: a Parquet file in which values are stored as they are.
//!
//! ```text
//! PAR1
//! row group   column image.bytes   page header | u32 + levels | u32 + value | u32 + value | …
//!             column image.path    page header | …
//!             column label         page header | u32 + levels | i64 | i64 | …
//!             …
//! row group   at most 32 MiB of values each
//! footer | u32 its length | PAR1
//! ```
//!
//! Pages and footer are written by `parquet`; where values lie is read from
//! the pages, by a walk that serves files of others too. Format: `FORMAT.md`,
//! "Envelope `parquet`"; Apache Parquet format 2.12.

mod codec;
mod column;
mod footer;
mod hybrid;
mod pages;
mod schema;
mod survey;
mod table;
mod thrift;
mod write;

pub(crate) use survey::survey;
pub use table::{Cells, FloatLists, ParquetTable};
pub(crate) use write::Writer;

/// The metadata that lists the fields of a file which Gular wrote.
const FIELDS: &str = "gular.fields";
