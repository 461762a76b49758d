//! New versions of a bundle with `gular pack --base`, as a user makes, checks and compares them.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::process::Command;

use gular_tests::{Outcome, finish, gular, noisy_png, put};
use serde_json::Value;

/// Runs the program in folder `dir`.
fn run(dir: &Path, line: &str) -> Outcome {
    finish(Command::new(gular()).current_dir(dir).args(line.split(' ')))
}

fn done(dir: &Path, line: &str) -> Outcome {
    let outcome = run(dir, line);
    assert_eq!(outcome.code, Some(0), "{line}: {outcome:?}");
    outcome
}

fn json(dir: &Path, line: &str) -> Value {
    serde_json::from_str(&done(dir, &format!("{line} --json")).stdout).unwrap()
}

/// Returns a PNG mask of one channel of 8 bits; a palette PNG would also do.
fn mask(i: u8) -> Vec<u8> {
    let header = [&[0, 0, 0, 16, 0, 0, 0, 16][..], &[8, 0, 0, 0, 0]].concat();
    let rows: Vec<u8> = (0..16).flat_map(|y| [vec![0], vec![i ^ y; 16]].concat()).collect();
    let mut png = b"\x89PNG\r\n\x1a\n".to_vec();
    for (kind, data) in [(b"IHDR", header), (b"IDAT", stored(&rows)), (b"IEND", Vec::new())] {
        let chunk = [&kind[..], &data].concat();
        png.extend((data.len() as u32).to_be_bytes());
        png.extend(&chunk);
        png.extend(crc(&chunk).to_be_bytes());
    }
    png
}

/// Returns the bytes as zlib stores them, uncompressed.
fn stored(data: &[u8]) -> Vec<u8> {
    let len = (data.len() as u16).to_le_bytes();
    let (a, b) = data.iter().fold((1_u32, 0), |(a, b), byte| {
        let a = (a + u32::from(*byte)) % 65_521;
        (a, (b + a) % 65_521)
    });
    let not = len.map(|byte| !byte);
    [&[0x78, 1, 1][..], &len, &not, data, &((b << 16) | a).to_be_bytes()].concat()
}

fn crc(data: &[u8]) -> u32 {
    !data.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ (0xedb8_8320 * (crc & 1)))
    })
}

#[test]
fn a_version_with_masks_and_arrays_is_what_packing_all_gives() {
    for payload in ["", " --payload raw --size 8 --source-digests"] {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path();
        let add = |i: u8| {
            put(dir, format!("images/{i}.png"), &noisy_png(i.into(), 16));
            put(dir, format!("masks/{i}.png"), &mask(i));
            put(dir, format!("notes/{i}.txt"), format!("note {i}").as_bytes());
        };
        let options = format!("--labels none --mask masks --field note=notes{payload}");
        (0..6).for_each(add);
        done(dir, &format!("pack images v1 {options}"));
        add(6);
        put(dir, "masks/2.png", &mask(77));
        std::fs::remove_file(dir.join("images/3.png")).unwrap();
        let onto = format!("pack images v2 {options} --base v1");
        let dry = done(dir, &format!("{onto} --dry-run")).stdout;
        assert!(dry.starts_with("4 unchanged, 1 changed, 1 added, 1 removed\n"), "{dry}");
        assert!(dry.contains("dry run: 2 samples"), "{dry}");
        assert!(!dir.join("v2").exists());
        let report = json(dir, &onto);
        assert_eq!(report["packed"]["samples"], 2, "{report}");
        done(dir, "verify v2");
        done(dir, &format!("pack images anew {options}"));
        assert_eq!(json(dir, "diff v2 anew")["same"], 6);
        let diff = json(dir, "diff v1 v2");
        assert_eq!((&diff["same"], &diff["changed"]["n"]), (&4.into(), &1.into()), "{diff}");
        assert_eq!(json(dir, &onto)["bundle"]["already_done"], true);
    }
}

#[test]
fn what_is_unlike_the_base_is_said_with_the_option_to_give() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    for i in 0..2 {
        put(dir, format!("images/{i}.png"), &noisy_png(i.into(), 16));
        put(dir, format!("masks/{i}.png"), &mask(i));
    }
    done(dir, "pack images v1 --labels none --mask masks --payload raw --size 8 --source-digests");
    let check = |options: &str, expected: &[&str]| {
        let refused = run(dir, &format!("pack images v2 --labels none --base v1 {options}"));
        assert_eq!(refused.code, Some(2), "{refused:?}");
        for words in expected {
            assert!(refused.stderr.contains(words), "{words}: {}", refused.stderr);
        }
        assert!(!dir.join("v2").exists());
    };
    let raw = "--payload raw --size 8";
    check(
        raw,
        &[
            "the base has a field named `mask` (`U8 [8, 8]`)",
            "hint: add `--mask DIR`. Or leave out",
        ],
    );
    let field = format!("{raw} --mask masks --field more=masks");
    check(&field, &["a field named `more`", "the base has none", "remove its `--field`"]);
    let wide = format!("{raw} --mask masks --dtype u16");
    check(&wide, &["the field `image`", "`U16 [8, 8, 3]`", "`--dtype`"]);
    check("--mask masks", &["the payload must", "`--tile` (tiles)", "`--payload raw`"]);
    check("--payload raw --size 9 --mask masks", &["the size must", "give `--size 8x8`"]);
    std::fs::remove_file(dir.join("masks/1.png")).unwrap();
    check(&format!("{raw} --mask masks"), &["`1.*` for the field `mask`"]);
}
