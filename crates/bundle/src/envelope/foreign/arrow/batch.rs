//! One record batch: its nodes and buffers, handed out in the schema's order.

use arrow_ipc::{RecordBatch, root_as_message};

use crate::envelope::Run;
use crate::envelope::foreign::arrow::messages::Message;

/// The parts of a batch that columns take one after the other.
pub(crate) struct Parts {
    /// Length and number of nulls of each field, nested ones too.
    nodes: std::vec::IntoIter<(u64, u64)>,
    buffers: std::vec::IntoIter<Run>,
    /// Further buffers of each column of views.
    variadic: std::vec::IntoIter<u64>,
}

/// A batch as its message describes it.
pub(crate) struct Batch {
    pub(crate) rows: u64,
    pub(crate) parts: Parts,
    /// The compression of its body.
    pub(crate) compression: Option<String>,
}

/// Reads a batch message. The error is the reason why the message is damaged.
pub(crate) fn parse(message: &Message) -> Result<Batch, String> {
    let parsed = root_as_message(&message.metadata).map_err(|e| e.to_string())?;
    let batch = parsed.header_as_record_batch().ok_or("a message is not a batch")?;
    let rows = u64::try_from(batch.length()).map_err(|_| "a batch has a negative length")?;
    let nodes = nodes(&batch)?;
    let buffers = buffers(&batch, message)?;
    let variadic = batch.variadicBufferCounts().map_or(Ok(Vec::new()), |counts| {
        counts.iter().map(|n| u64::try_from(n).map_err(|_| "a negative count")).collect()
    })?;
    let compression = batch.compression().map(|c| format!("{:?}", c.codec()));
    let parts = Parts {
        nodes: nodes.into_iter(),
        buffers: buffers.into_iter(),
        variadic: variadic.into_iter(),
    };
    Ok(Batch { rows, parts, compression })
}

fn nodes(batch: &RecordBatch<'_>) -> Result<Vec<(u64, u64)>, String> {
    let Some(nodes) = batch.nodes() else { return Ok(Vec::new()) };
    let node = |n: &arrow_ipc::FieldNode| {
        u64::try_from(n.length()).ok().zip(u64::try_from(n.null_count()).ok())
    };
    let nodes: Option<Vec<_>> = nodes.iter().map(node).collect();
    nodes.ok_or_else(|| "a field has a negative length".to_owned())
}

/// Returns the batch's buffers as ranges of the file, each within the message's body.
fn buffers(batch: &RecordBatch<'_>, message: &Message) -> Result<Vec<Run>, String> {
    let Some(buffers) = batch.buffers() else { return Ok(Vec::new()) };
    let run = |b: &arrow_ipc::Buffer| {
        let (offset, len) = (u64::try_from(b.offset()).ok()?, u64::try_from(b.length()).ok()?);
        let inside = offset.checked_add(len)? <= message.body_len;
        inside.then_some(Run { offset: message.body.checked_add(offset)?, len })
    };
    let runs: Option<Vec<Run>> = buffers.iter().map(run).collect();
    runs.ok_or_else(|| "a buffer is outside its batch".to_owned())
}

impl Parts {
    pub(crate) fn node(&mut self) -> Result<(u64, u64), String> {
        self.nodes.next().ok_or_else(|| "a batch has too few fields".to_owned())
    }

    /// The length and nulls of the next field.
    pub(crate) fn peek(&self) -> Option<(u64, u64)> {
        self.nodes.as_slice().first().copied()
    }

    pub(crate) fn buffer(&mut self) -> Result<Run, String> {
        self.buffers.next().ok_or_else(|| "a batch has too few buffers".to_owned())
    }

    pub(crate) fn buffers(&mut self, n: u64) -> Result<Vec<Run>, String> {
        (0..n).map(|_| self.buffer()).collect()
    }

    /// Returns how many further buffers the next column of views has.
    pub(crate) fn variadic(&mut self) -> Result<u64, String> {
        let n = self.variadic.next().ok_or("a batch has too few buffer counts")?;
        // Each further buffer must be one that the message lists.
        let left = self.buffers.len() as u64;
        if n > left { Err("a batch has too few buffers".to_owned()) } else { Ok(n) }
    }
}
