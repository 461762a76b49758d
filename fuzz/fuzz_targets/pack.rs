//! Any bytes that look like an archive of images, a table of labels or of pixels, files of MNIST or
//! CIFAR, boxes, or a path pattern, give a plan or an error.
#![no_main]

use std::fs;
use std::sync::atomic::AtomicBool;

use gular_pack::{
    Inputs, LabelColumn, Labels, PackOptions, Pattern, PlanOptions, TableOptions, Unlabelled, pack,
};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((choice, rest)) = bytes.split_first() else { return };
    let dir = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| dir.path().join(name);
    let plain = PlanOptions { memory_bytes: 1 << 20, ..PlanOptions::default() };
    let pattern = std::str::from_utf8(rest).ok().and_then(|text| Pattern::parse(text).ok());
    if let Some(pattern) = pattern {
        assert_eq!(Pattern::parse(pattern.as_str()).as_ref(), Ok(&pattern));
        let _ = pattern.read("train/great_dane_1.2.jpg");
    }
    // The choices of old inputs keep their meaning.
    let kind = if *choice >= 253 { *choice } else { choice % 8 };
    let (source, plan) = match kind {
        254 | 255 => {
            fs::create_dir(at("rows")).expect("a folder");
            let (files, labels) = match kind {
                254 => (["data_batch_1", "batches.meta"], Labels::Path),
                _ => (["train-images-idx3-ubyte", "t10k-images-idx3-ubyte"], Labels::None),
            };
            for name in files {
                fs::write(at("rows").join(name), rest).expect("a file");
            }
            (at("rows"), PlanOptions { labels, ..plain })
        }
        253 => {
            fs::write(at("a.h5"), rest).expect("a file");
            (at("a.h5"), plain)
        }
        // Arrays of an archive are read when the plan is made.
        0 | 1 => {
            let name = at(if kind == 0 { "a.zip" } else { "a.tar" });
            fs::write(&name, rest).expect("a file");
            (name, PlanOptions { inputs: Inputs::Arrays, labels: Labels::None, ..plain })
        }
        2 => {
            fs::write(at("t.csv"), rest).expect("a file");
            let inputs = Inputs::Pixels { size: None };
            let labels = Labels::Column(LabelColumn::Find);
            (at("t.csv"), PlanOptions { inputs, labels, ..plain })
        }
        kind => {
            fs::create_dir(at("images")).expect("a folder");
            for image in ["1.jpg", "2.jpg", "3.jpg"] {
                fs::write(at("images").join(image), b"x").expect("a file");
            }
            let table = match kind {
                3 => "t.csv",
                4 => "t.jsonl",
                5 => "t.parquet",
                6 => "coco.json",
                _ => "labels/1.txt",
            };
            fs::create_dir(at("labels")).expect("a folder");
            fs::write(at(table), rest).expect("a file");
            let table = at(if kind == 7 { "labels" } else { table });
            let labels =
                Labels::Table(TableOptions { files: vec![table], ..TableOptions::default() });
            (at("images"), PlanOptions { labels, unlabelled: Unlabelled::Skip, ..plain })
        }
    };
    let temp_dir = dir.path().to_owned();
    let options = PackOptions { plan, jobs: 1, dry_run: true, part: None, temp_dir };
    let _ = pack(&source, &at("out"), &options, &|_| {}, &AtomicBool::new(false));
});
