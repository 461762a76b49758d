//! Surveys the samples of a shard.

use std::collections::BTreeMap;

use crate::envelope::foreign::le::u32_at;
use crate::envelope::foreign::mds::shard::{Shard, Spec};
use crate::envelope::foreign::mds::values::values;
use crate::envelope::{Column, Run, Survey};
use crate::{Error, ReadAt};

/// Finds the columns. Values of one sample are stored one after another.
pub(crate) fn survey(file: &ReadAt) -> Result<Survey, Error> {
    let Shard { offsets, columns } = Shard::open(file)?;
    let rows = offsets.len().saturating_sub(1);
    let runs = runs(file, &offsets, &columns)?;
    let column = |(spec, runs): (Spec, Vec<Run>)| {
        Ok(Column { values: values(file, &spec.encoding, runs)?, name: spec.name })
    };
    let columns = columns.into_iter().zip(runs).map(column).collect::<Result<_, Error>>()?;
    Ok(Survey { rows, columns, classes: BTreeMap::new() })
}

/// Returns where the values are, as one list per column.
fn runs(file: &ReadAt, offsets: &[u32], columns: &[Spec]) -> Result<Vec<Vec<Run>>, Error> {
    let mut runs: Vec<Vec<Run>> = vec![Vec::new(); columns.len()];
    let named = columns.iter().filter(|c| c.size.is_none()).count();
    let mut head = vec![0; named.saturating_mul(4)];
    for (row, (start, end)) in offsets.iter().zip(offsets.iter().skip(1)).enumerate() {
        let (start, end) = (u64::from(*start), u64::from(*end));
        let bad = || {
            Error::malformed(
                file.path(),
                format!("the values of sample {row} do not add up to the bytes of the sample"),
            )
        };
        let mut at = start.saturating_add(head.len() as u64);
        if at > end {
            return Err(bad());
        }
        file.read_at(start, &mut head)?;
        let mut lengths = (0..named).map(|i| u32_at(&head, i.saturating_mul(4)));
        for (column, runs) in columns.iter().zip(&mut runs) {
            let len = column.size.or_else(|| lengths.next().flatten());
            let len = u64::from(len.ok_or_else(bad)?);
            runs.push(Run { offset: at, len });
            at = at.saturating_add(len);
        }
        if at != end {
            return Err(bad());
        }
    }
    Ok(runs)
}
