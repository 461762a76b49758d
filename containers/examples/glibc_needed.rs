//! Prints the newest version of glibc that the symbols of each file need: `glibc_needed FILE…`.
//! `cargo xtask dist` compares it with the version that it promises.

#![expect(clippy::print_stdout, reason = "a program, not a library")]

use std::error::Error;
use std::path::Path;

use gular_containers::elf::ElfFacts;

fn main() -> Result<(), Box<dyn Error>> {
    for file in std::env::args().skip(1) {
        let facts =
            ElfFacts::open(Path::new(&file))?.ok_or_else(|| format!("`{file}` is not an ELF"))?;
        let numbers = |version: &str| -> Option<Vec<u32>> {
            let text = version.strip_prefix("GLIBC_")?;
            // `GLIBC_PRIVATE` is not a version that any system promises.
            Some(text.split('.').map(|n| n.parse().unwrap_or(u32::MAX)).collect())
        };
        let newest = facts.versions_needed.iter().filter_map(|(_, version)| numbers(version)).max();
        let newest: Vec<String> = newest.unwrap_or_default().iter().map(u32::to_string).collect();
        println!("{}", newest.join("."));
    }
    Ok(())
}
