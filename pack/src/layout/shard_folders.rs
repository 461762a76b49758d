//! Folders that only divide many files, by what the names of these begin or end with.
//!
//! ```text
//! 48/10000548_1925-04-04_1964.jpg   the number ends in 48: a folder for each hundred of files
//! 0a/0a3f91c2d4.png                 the hash begins with 0a
//! ```

use super::folder_patterns::CLASSES;
use super::folders::Folders;
use super::parts::in_a_table;
use crate::facts::{Doubt, WayToRead, named, stem_and_extension};

/// The digits of such a folder's name.
const DIGITS: std::ops::RangeInclusive<usize> = 2..=4;
/// Fewer letters and digits are as likely a word as a hash.
const SHORTEST_HASH: usize = 8;

/// The question what the first folders are, if each file in them has the name of its folder at the same
/// end of the longer number, or hash, that its own name begins with.
pub(super) fn shard_folders(folders: &Folders) -> Option<Doubt> {
    let names = || folders.top.keys().map(String::as_str);
    let is_shard = |name: &str| {
        DIGITS.contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    let is_flat = folders.flat == 0 && folders.top.values().all(|folder| folder.below == 0);
    if !is_flat || folders.top.len() < 2 || !names().all(is_shard) {
        return None;
    }
    let all = |is: &dyn Fn(&str, &str) -> bool| {
        let mut files = folders.examples.names();
        files.all(|(folder, name)| {
            number_or_hash(name).is_some_and(|of| of.len() > folder.len() && is(of, folder))
        })
    };
    if !all(&|of, folder| of.ends_with(folder)) && !all(&|of, folder| of.starts_with(folder)) {
        return None;
    }
    let text = format!(
        "{} are in the names of their files, so they look like parts of a large set, not like classes",
        named(names())
    );
    let plain = WayToRead::new("if there are no classes", &["{*}/{key}.{ext}"]);
    let classes = WayToRead::new("if they are classes", &[CLASSES]);
    Some(Doubt::new(text, vec![in_a_table(), plain, classes]))
}

/// The number, or the hash, that the name of a file begins with; letters may be before a number.
fn number_or_hash(name: &str) -> Option<&str> {
    let stem = stem_and_extension(name).0;
    let end = stem.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(stem.len());
    let word = stem.get(..end)?;
    let number = word.trim_start_matches(|c: char| c.is_ascii_alphabetic());
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    let is_hash = word.len() >= SHORTEST_HASH && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_hash { Some(word) } else { is_number.then_some(number) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(paths: &[&str]) -> bool {
        let mut folders = Folders::new(String::new());
        paths.iter().for_each(|path| folders.add(path, 1));
        shard_folders(&folders).is_some()
    }

    #[test]
    fn folders_in_the_names_of_files_are_hardly_classes() {
        assert!(asked(&["00/10049200_1891.jpg", "01/1000101_1950.jpg", "01/50201_1960.jpg"]));
        assert!(asked(&["00/nm0000100_rm1.jpg", "02/nm0000202_rm2.jpg"]));
        assert!(asked(&["0a/0a3f91c2.png", "f3/f3aa91c2.png"]));
        assert!(!asked(&["00/00000_00029.ppm", "14/00001_00001.ppm"]));
        assert!(!asked(&["01/01_7.jpg", "02/02_8.jpg"]));
        assert!(!asked(&["ad/ad1.jpg", "be/be2.jpg"]));
        assert!(!asked(&["0/10.jpg", "1/21.jpg"]));
    }
}
