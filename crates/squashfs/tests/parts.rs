//! Files written from blocks of another image, partly or entirely.

use std::num::NonZeroUsize;

use gular_squashfs::write::{
    Compression, Error, FileData, Fragments, Meta, Options, Placed, SUPERBLOCK_BYTES, Tree,
    TreeNode, Writer,
};

const BLOCK: usize = 4096;
const META: Meta = Meta { mode: 0o644, uid: 0, gid: 0, mtime: 1 };

fn options(compression: Compression, threads: usize) -> Options {
    let mut options = Options::default();
    (options.data, options.metadata) = (Some(compression), Some(compression));
    options.block_size = BLOCK as u32;
    options.threads = NonZeroUsize::new(threads).unwrap();
    options.probe = true;
    options
}

/// Returns blocks that shrink, blocks that do not, and holes; `seed` changes the bytes.
fn bytes(blocks: usize, tail: usize, seed: u64) -> Vec<u8> {
    let mut state = seed | 1;
    let mut bytes = Vec::new();
    for number in 0..=blocks {
        let len = if number == blocks { tail } else { BLOCK };
        bytes.extend((0..len).map(|i| match number % 3 {
            0 => (i % 7) as u8,
            1 => 0,
            _ => {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 56) as u8
            }
        }));
    }
    bytes
}

fn contents() -> Vec<Vec<u8>> {
    let small = |i: usize| bytes(0, 100 + i, 3);
    vec![
        small(0),
        bytes(70, 0, 5),
        small(1),
        bytes(9, 77, 7),
        bytes(3, BLOCK - 1, 9),
        small(2),
        vec![0; 5 * BLOCK],
    ]
}

/// Makes an image, and returns it with the places of its files.
fn image(
    options: &Options,
    mut write: impl FnMut(&mut Writer<Vec<u8>>, usize, &[u8]) -> FileData,
) -> (Vec<u8>, Vec<Option<Placed>>) {
    let mut writer = Writer::new(Vec::new(), options.clone()).unwrap();
    let mut tree = Tree::new(META);
    let mut files = Vec::new();
    for (number, content) in contents().iter().enumerate() {
        let data = write(&mut writer, number, content);
        tree.add(number.to_string(), META, TreeNode::File(data)).unwrap();
        files.push(data);
    }
    writer.settle().unwrap();
    let placed = files.iter().map(|data| writer.placed(*data).unwrap()).collect();
    let (superblock, mut image) = writer.finish(&tree).unwrap();
    image[..SUPERBLOCK_BYTES].copy_from_slice(&superblock);
    (image, placed)
}

fn plain(options: &Options) -> (Vec<u8>, Vec<Option<Placed>>) {
    image(options, |writer, _, mut content| writer.data(&mut content).unwrap())
}

fn stored_bytes(words: &[u32]) -> usize {
    words.iter().map(|word| (word & 0xff_ffff) as usize).sum()
}

#[test]
fn blocks_of_another_image_give_the_same_image() {
    for compression in [Compression::Gzip(6), Compression::Zstd(3)] {
        let (expected, placed) = plain(&options(compression, 1));
        let has_blocks: Vec<_> = placed.iter().map(Option::is_some).collect();
        assert_eq!(has_blocks, [false, true, false, true, true, false, true]);
        // Either every other run of four blocks is taken from the image, or all are.
        for (threads, every) in [(1, 2), (3, 2), (3, 1)] {
            let options = options(compression, threads);
            let (found, _) = image(&options, |writer, number, mut content| {
                let Some(Placed { start, words }) = &placed[number] else {
                    return writer.data(&mut content).unwrap();
                };
                let mut at = *start as usize;
                let mut file = writer.file().unwrap();
                for (run, words) in words.chunks(4).enumerate() {
                    let (part, rest) = content.split_at(content.len().min(4 * BLOCK));
                    let len = stored_bytes(words);
                    if run % every == 0 {
                        let blocks = expected[at..at + len].to_vec();
                        file.packed(part.len() as u64, words, blocks).unwrap();
                    } else {
                        file.raw(&mut &*part).unwrap();
                    }
                    (at, content) = (at + len, rest);
                }
                file.end().unwrap()
            });
            assert!(found == expected, "{compression:?}, {threads} threads, every {every}");
        }
    }
}

#[test]
fn what_are_not_blocks_of_this_image_is_refused() {
    let gzip = options(Compression::Gzip(1), 1);
    let mut tails = gzip.clone();
    tails.fragments = Fragments::Tails;
    let stored = Options::stored();
    let block = BLOCK as u64;
    let cases: [(&Options, u64, &[u32], usize, &str); 6] = [
        (&gzip, block + 1, &[10], 10, "number"),
        (&gzip, block, &[10], 11, "lengths"),
        (&gzip, block, &[10], 9, "lengths"),
        (&gzip, block, &[BLOCK as u32 + 1], BLOCK + 1, "larger"),
        (&tails, block + 1, &[10, 1], 11, "shared"),
        (&stored, block, &[10], 10, "as they are"),
    ];
    for (options, size, words, len, says) in cases {
        let mut writer = Writer::new(Vec::new(), options.clone()).unwrap();
        let mut file = writer.file().unwrap();
        let error = file.packed(size, words, vec![1; len]).unwrap_err();
        assert!(matches!(error, Error::Parts { .. }), "{error}");
        assert!(error.to_string().contains(says), "{error}");
    }
    let mut writer = Writer::new(Vec::new(), gzip).unwrap();
    let mut file = writer.file().unwrap();
    file.raw(&mut &[1; 10][..]).unwrap();
    assert!(matches!(file.raw(&mut &[1][..]), Err(Error::Parts { .. })));
    assert!(matches!(file.packed(block, &[1], vec![1]), Err(Error::Parts { .. })));
    file.raw(&mut &[][..]).unwrap();
    assert_eq!(file.end().unwrap().size(), 10);
}
