//! The tiles that a scene is cut into.

use super::TileOptions;

/// Most tiles of one scene: a million tiles of 512 are 512 GB of bytes.
const MOST_TILES: u64 = 1 << 22;

/// The corners (column, row) of the tiles of a scene of `size` = (columns, rows); an error with
/// the number of tiles if there are too many.
pub(crate) fn corners(size: (u32, u32), tile: &TileOptions) -> Result<Vec<(u32, u32)>, u64> {
    let step = u64::from(tile.size - tile.overlap).max(1);
    let n = |len: u32| u64::from(len.saturating_sub(tile.size)).div_ceil(step) + 1;
    let all = n(size.0).saturating_mul(n(size.1));
    if all > MOST_TILES {
        return Err(all);
    }
    let (columns, rows) = (along(size.0, tile), along(size.1, tile));
    Ok(rows.into_iter().flat_map(|y| columns.iter().map(move |x| (*x, y))).collect())
}

/// Where tiles begin along a side. Those of a block end in it; the last block also has what is left
/// behind it, if that is too short for a tile.
fn along(len: u32, tile: &TileOptions) -> Vec<u32> {
    let step = (tile.size - tile.overlap).max(1) as usize;
    let block = tile.block.unwrap_or(len).max(1);
    let mut places = Vec::new();
    let mut from = 0;
    loop {
        let rest = len - from;
        let is_last = rest < block.saturating_add(tile.size);
        let end = if is_last { len } else { from + block };
        // The last tile ends at the edge of the block.
        let last = end.saturating_sub(tile.size).max(from);
        places.extend((from..last).step_by(step).chain([last]));
        if is_last {
            return places;
        }
        from = end;
    }
}

/// Returns the key of a tile.
pub(crate) fn key(scene: &str, (column, row): (u32, u32)) -> String {
    format!("{scene}/r{row:06}_c{column:06}")
}

/// The scene of a key that [`key`] made, and where the tile begins: (column, row).
pub(crate) fn parse(key: &str) -> Option<(&str, (u32, u32))> {
    let (scene, name) = key.rsplit_once('/')?;
    let (row, column) = name.strip_prefix('r')?.split_once("_c")?;
    Some((scene, (column.parse().ok()?, row.parse().ok()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_cover_a_scene_and_end_with_it() {
        let check = |len: u32, size: u32, overlap: u32, expected: &[u32]| {
            let tile = TileOptions { size, overlap, min_valid: 0.0, block: None };
            let found: Vec<u32> =
                corners((len, 1), &tile).unwrap().into_iter().map(|(x, _)| x).collect();
            assert_eq!(found, expected, "{len} {size} {overlap}");
        };
        check(100, 40, 0, &[0, 40, 60]);
        check(100, 40, 10, &[0, 30, 60]);
        check(101, 40, 10, &[0, 30, 60, 61]);
        check(80, 40, 0, &[0, 40]);
        check(40, 40, 8, &[0]);
        check(7, 40, 8, &[0]);
        let tile = TileOptions { size: 2, overlap: 1, min_valid: 0.0, block: None };
        assert_eq!(corners((3, 2), &tile).unwrap(), [(0, 0), (1, 0)]);
        assert_eq!(corners((10_001, 2001), &tile), Err(20_000_000));
    }

    #[test]
    fn tiles_of_a_block_end_in_it() {
        let check = |len: u32, block: u32, expected: &[u32]| {
            let tile = TileOptions { size: 30, overlap: 10, min_valid: 0.0, block: Some(block) };
            let found: Vec<u32> =
                corners((len, 1), &tile).unwrap().into_iter().map(|(x, _)| x).collect();
            assert_eq!(found, expected, "{len} {block}");
            for from in found {
                let last = len.saturating_sub(1).min(from + 29);
                let blocks = (tile.block_of((from, 0)), tile.block_of((last, 0)));
                let is_rest = last / block * block + 30 > len;
                assert!(blocks.0 == blocks.1 || is_rest, "{from} {blocks:?}");
            }
        };
        check(200, 100, &[0, 20, 40, 60, 70, 100, 120, 140, 160, 170]);
        check(129, 100, &[0, 20, 40, 60, 80, 99]);
        check(130, 100, &[0, 20, 40, 60, 70, 100]);
        check(20, 100, &[0]);
    }

    #[test]
    fn keys_say_scene_row_and_column() {
        let found = key("north/a.tif", (480, 1_234_567));
        assert_eq!(found, "north/a.tif/r1234567_c000480");
        assert_eq!(parse(&found), Some(("north/a.tif", (480, 1_234_567))));
        assert_eq!(parse("north/a.tif"), None);
    }
}
