//! For tests with any bytes.

use crate::disk::Disk;
use crate::lint::lint_text;
use crate::submit::Submit;

/// Reads `text` as every kind of file, for tests with any bytes.
pub fn read_as_all(text: &str, disk: &dyn Disk) {
    for name in ["x.sub", "x.dag", "x.sbatch", "x.sh", "x.py"] {
        let findings = lint_text(name, text, disk);
        let edits: Vec<_> = findings.iter().filter_map(|finding| finding.edit.as_ref()).collect();
        let _ = crate::repair(name, text, &edits);
        let _ = crate::translate::translate(name, text, disk);
    }
    let _ = Submit::parse(text);
    let _ = crate::why::why(text);
}
