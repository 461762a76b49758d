//! What this build has without feature `foreign`: our own envelope, and errors for all others.

use crate::envelope::{Layout, Out, ShardSpec, Survey, shards};
use crate::{Envelope, Error, ReadAt};

pub(super) fn begin(out: &mut Out, spec: &ShardSpec<'_>) -> Result<Box<dyn Layout>, Error> {
    match spec.envelope {
        Envelope::Shards => Ok(Box::new(shards::Writer::begin(out, spec)?)),
        envelope => Err(Error::Unwritable { envelope }),
    }
}

pub(super) fn survey(file: &ReadAt, envelope: Envelope) -> Result<Survey, Error> {
    match envelope {
        Envelope::Shards => shards::survey(file),
        envelope => Err(Error::Unwalked { path: file.path(), envelope }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Field, Split};

    #[test]
    fn other_envelopes_are_refused_by_name() {
        let dir = tempfile::tempdir().unwrap();
        let fields = [Field::label()];
        let file = ReadAt::in_memory("m", Vec::new());
        for envelope in Envelope::ALL.into_iter().filter(|e| *e != Envelope::Shards) {
            let spec = ShardSpec::new(envelope, Split::Train, &fields);
            let error = begin(&mut Out::create(dir.path()).unwrap(), &spec).err().unwrap();
            assert!(matches!(error, Error::Unwritable { envelope: e } if e == envelope));
            let error = survey(&file, envelope).unwrap_err();
            assert!(matches!(error, Error::Unwalked { envelope: e, .. } if e == envelope));
        }
    }
}
