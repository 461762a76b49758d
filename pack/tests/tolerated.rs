//! Images that violate their format and that other readers decode.

use crate::support::{files, jpeg, png, put, run};
use gular_pack::{
    CheckImages, OnBadInput, PayloadOptions, PlanOptions, RawOptions, ReencodeOptions,
};

/// Returns a JPEG with stray bytes before its tables.
fn with_junk(i: u32) -> Vec<u8> {
    let mut file = jpeg(i);
    let at = file.windows(2).position(|pair| pair == [0xff, 0xdb]).unwrap();
    file.splice(at..at, *b"stray");
    file
}

const NAME: &str = "c/b.jpg";
const REASON: &str = "the JPEG is damaged: stray bytes between its headers";

fn source() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    put(dir.path(), "c/a.jpg", &jpeg(1));
    put(dir.path(), NAME, &with_junk(2));
    put(dir.path(), "c/c.png", &png(3));
    dir
}

#[test]
fn they_are_packed_counted_and_named() {
    let source = source();
    let plans = [
        (PayloadOptions::Encoded, CheckImages::Full),
        (PayloadOptions::Reencoded(ReencodeOptions::default()), CheckImages::Header),
        (PayloadOptions::Reencoded(ReencodeOptions::default()), CheckImages::Full),
        (PayloadOptions::Raw(RawOptions::new(8, 8)), CheckImages::None),
    ];
    for (payload, check) in plans {
        let out = tempfile::tempdir().unwrap();
        let plan = PlanOptions { payload, check, ..PlanOptions::default() };
        let report = run(source.path(), out.path(), plan, 2).unwrap();
        assert_eq!((report.samples, report.skipped, report.checked), (3, 0, "full"));
        let named: Vec<_> = report.tolerated.named.iter().map(|bad| bad.path.as_str()).collect();
        assert_eq!((report.tolerated.n, named), (1, vec![NAME]));
        assert_eq!(report.tolerated.named[0].reason, REASON);
    }
}

#[test]
fn a_strict_run_refuses_them_or_leaves_them_out() {
    let (source, out) = (source(), tempfile::tempdir().unwrap());
    let strict = || PlanOptions { check: CheckImages::Strict, ..PlanOptions::default() };
    let error = run(source.path(), out.path(), strict(), 1).unwrap_err().to_string();
    assert_eq!(error, format!("`{NAME}`: {REASON}"));
    let skip = PlanOptions { on_error: OnBadInput::Skip, ..strict() };
    let report = run(source.path(), out.path(), skip, 1).unwrap();
    assert_eq!((report.samples, report.skipped, report.tolerated.n), (2, 1, 0));
    assert_eq!(report.checked, "strict");
}

#[test]
fn they_change_nothing_but_the_report() {
    let (source, a, b) = (source(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let plan = || PlanOptions { check: CheckImages::Full, ..PlanOptions::default() };
    run(source.path(), a.path(), plan(), 1).unwrap();
    run(source.path(), b.path(), plan(), 3).unwrap();
    assert!(files(a.path()) == files(b.path()));
    let text = String::from_utf8(std::fs::read(a.path().join("manifest.json")).unwrap()).unwrap();
    assert!(!text.contains("tolerated"), "{text}");
}
