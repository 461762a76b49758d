//! The example in FORMAT.md, compared with the golden bundle that it shows.

use std::fs;
use std::ops::Range;

use crate::root;

#[test]
fn the_example_of_the_format_has_the_bytes_of_the_golden_bundle() {
    let page = fs::read_to_string(root().join("FORMAT.md")).unwrap();
    let data = root().join("crates/bundle/tests/golden/v1/data");
    let read = |name: &str| fs::read(data.join(name)).unwrap();
    let index = read("train-e57715af7ed66799.index.safetensors");
    let shard = read("train-68f7ca88417c3290.safetensors");
    let mut rows = Vec::new();
    for line in page.lines() {
        let cells: Vec<&str> = line.split(" | ").collect();
        let (file, found) = match *cells {
            ["| `INDEX`", at, bytes, _] => (&index, (at, bytes)),
            ["| `SHARD`", at, bytes, _] => (&shard, (at, bytes)),
            _ => continue,
        };
        let at: usize = found.0.parse().unwrap();
        let bytes = found.1.trim_matches('`').split(' ');
        let bytes: Vec<u8> = bytes.map(|hex| u8::from_str_radix(hex, 16).unwrap()).collect();
        assert_eq!(file[at..at + bytes.len()], bytes, "{line}");
        rows.push(bytes);
    }
    let [header, offsets, key, _, offset, length, image, digest, block] = rows.as_slice() else {
        panic!("the example has {} rows", rows.len());
    };
    let number = |bytes: &[u8]| bytes.iter().rev().fold(0, |n, byte| n << 8 | usize::from(*byte));
    assert_eq!(number(header), 4088);
    assert_eq!((number(&offsets[..8]), number(&offsets[8..])), (20, 20 + key.len()));
    assert!(page.contains(&format!("these: `{}`", std::str::from_utf8(key).unwrap())));
    let place: Range<usize> = number(offset)..number(offset) + number(length);
    assert_eq!(shard[place], *image);
    assert_eq!(blake3::hash(image).as_bytes(), digest.as_slice());
    assert_eq!(blake3::hash(&shard).as_bytes(), block.as_slice());
}
