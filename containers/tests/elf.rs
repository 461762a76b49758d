//! Compares the library closure of this test program with what `ld.so` loaded for it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gular_containers::Error;
use gular_containers::elf::{Closure, ElfFacts, LinkFault, closure};
use gular_containers::rootfs::{FileBytes, Layer, RootPath, Rootfs, What};

fn this_program() -> PathBuf {
    fs::read_link("/proc/self/exe").unwrap()
}

/// Whether `LD_PRELOAD` names the file: whoever started this test preloaded it, and no file of the
/// closure asks for it.
fn preloaded(file: &Path) -> bool {
    let list = std::env::var("LD_PRELOAD").unwrap_or_default();
    list.split([' ', ':']).any(|named| Path::new(named).file_name() == file.file_name())
}

/// Files of this process's memory, as the kernel says.
fn mapped() -> BTreeSet<PathBuf> {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let paths = maps.lines().filter_map(|line| line.find('/').map(|at| PathBuf::from(&line[at..])));
    paths.filter(|path| !preloaded(path) && matches!(ElfFacts::open(path), Ok(Some(_)))).collect()
}

fn path(text: &str) -> RootPath {
    RootPath::new(text).unwrap()
}

fn add(tree: &mut Rootfs, at: &str, file: &Path) {
    let bytes = fs::metadata(file).unwrap().len();
    let source = FileBytes::File { path: file.to_owned(), bytes, blake3: None };
    tree.add(Layer::App, &path(at), 0o755, What::File(source)).unwrap();
}

/// An image with this program at `/app/test`, and its libraries in the flat
/// folder `lib`.
fn image(lib: &str) -> Rootfs {
    let mut tree = Rootfs::default();
    let program = this_program();
    for file in mapped() {
        if file != program {
            add(
                &mut tree,
                &format!("{lib}/{}", file.file_name().unwrap().to_str().unwrap()),
                &file,
            );
        }
    }
    let interpreter = ElfFacts::open(&program).unwrap().unwrap().interpreter.unwrap();
    add(&mut tree, &interpreter, Path::new(&interpreter));
    add(&mut tree, "app/test", &program);
    tree
}

fn find(tree: &Rootfs, library_path: &[String]) -> Closure {
    closure(tree, &[path("app/test")], library_path, &|_| false).unwrap()
}

fn names<'a>(paths: impl Iterator<Item = &'a str>) -> BTreeSet<&'a str> {
    paths.map(|path| path.rsplit('/').next().unwrap()).collect()
}

#[test]
fn what_is_found_is_what_was_loaded() {
    let program = this_program();
    let mapped = mapped();
    let loaded = names(mapped.iter().filter(|path| **path != program).map(|p| p.to_str().unwrap()));
    assert!(loaded.contains("libc.so.6"), "{loaded:?}");
    for (lib, library_path) in [("usr/lib", vec![]), ("opt/x", vec!["/opt/x".to_owned()])] {
        let closure = find(&image(lib), &library_path);
        assert_eq!(closure.faults, []);
        let found = names(closure.loaded.keys().map(RootPath::as_str).filter(|p| *p != "app/test"));
        assert_eq!(found, loaded, "in {lib}");
    }
}

#[test]
fn the_folders_of_other_distributions_are_searched() {
    for lib in ["usr/lib64", "lib64"] {
        assert_eq!(find(&image(lib), &[]).faults, [], "in {lib}");
    }
    let mut tree = image("usr/local/lib");
    let mut add = |at: &str, text: &str| {
        tree.add_text(Layer::Base, &path(at), 0o644, text).unwrap();
    };
    add("etc/ld.so.conf", "include /etc/ld.so.conf.d/*.conf\n");
    add("etc/ld.so.conf.d/libc.conf", "# local\n/usr/local/lib\n");
    // Without a cache, the files in `/etc` are not read.
    let missing = |fault: &LinkFault| {
        let LinkFault::Missing { library, .. } = fault else { return false };
        library == "libc.so.6"
    };
    assert!(find(&tree, &[]).faults.iter().any(missing));
    tree.add_text(Layer::Base, &path("etc/ld.so.cache"), 0o644, "").unwrap();
    assert_eq!(find(&tree, &[]).faults, []);
}

#[test]
fn what_is_missing_is_said() {
    let found = find(&image("opt/x"), &[]);
    let missing = found.faults.iter().find_map(|fault| match fault {
        LinkFault::Missing { library, by, searched } if library == "libc.so.6" => {
            Some((by, searched))
        }
        _ => None,
    });
    let (by, searched) = missing.unwrap();
    assert_eq!(by, &path("app/test"));
    assert!(searched.contains(&"/usr/lib".to_owned()), "{searched:?}");

    let mut tree = image("usr/lib");
    let interpreter = ElfFacts::open(&this_program()).unwrap().unwrap().interpreter.unwrap();
    tree.remove(&path(&interpreter));
    let by = path("app/test");
    assert!(find(&tree, &[]).faults.contains(&LinkFault::Interpreter { interpreter, by }));

    let nowhere = closure(&tree, &[path("no")], &[], &|_| false);
    assert!(matches!(nowhere, Err(Error::Conflict { .. })));
}

#[test]
fn the_host_s_libraries_are_named() {
    let mut tree = image("usr/lib");
    tree.remove(&path("usr/lib/libc.so.6"));
    let closure = closure(&tree, &[path("app/test")], &[], &|name| name == "libc.so.6").unwrap();
    assert_eq!(closure.faults, []);
    assert!(closure.from_host.contains(&("libc.so.6".to_owned(), path("app/test"))));
}

#[test]
fn a_library_too_old_is_said() {
    // A version that no libc has: `GLIBC_2` of the needs becomes `GLIBC_9`.
    let program = fs::read(this_program()).unwrap();
    let mut bytes = program.clone();
    let needed = ElfFacts::read(&FileBytes::Bytes(Arc::from(program))).unwrap().unwrap();
    let (_, version) = needed.versions_needed.iter().find(|(l, _)| l == "libc.so.6").unwrap();
    let at = bytes
        .windows(version.len() + 1)
        .position(|w| w.strip_suffix(b"\0") == Some(version.as_bytes()));
    bytes[at.unwrap() + "GLIBC_".len()] = b'9';
    let mut tree = image("usr/lib");
    let source = FileBytes::Bytes(Arc::from(bytes));
    tree.add(Layer::App, &path("app/test"), 0o755, What::File(source)).unwrap();
    let faults = find(&tree, &[]).faults;
    let old = faults.iter().find_map(|fault| match fault {
        LinkFault::Version { library, version, newest, .. } => Some((library, version, newest)),
        _ => None,
    });
    let (library, version, newest) = old.unwrap();
    assert_eq!((library.as_str(), &version[..7]), ("libc.so.6", "GLIBC_9"));
    assert!(newest.as_ref().unwrap().starts_with("GLIBC_2."), "{newest:?}");
}

#[test]
fn damage_never_panics_and_other_files_are_none() {
    assert_eq!(ElfFacts::read(&FileBytes::Bytes(Arc::from(*b"#!/bin/sh\n"))).unwrap(), None);
    let libgcc = mapped().into_iter().find(|p| p.ends_with("libgcc_s.so.1")).unwrap();
    let whole = fs::read(libgcc).unwrap();
    for cut in (64..whole.len()).step_by(whole.len() / 60) {
        let _ = ElfFacts::read(&FileBytes::Bytes(Arc::from(&whole[..cut])));
    }
    for at in (5..4096).chain(whole.len() - 2000..whole.len()) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0xff;
        let _ = ElfFacts::read(&FileBytes::Bytes(Arc::from(bytes)));
    }
    let cut = ElfFacts::read(&FileBytes::Bytes(Arc::from(&whole[..64])));
    assert!(matches!(cut, Err(Error::Elf { .. })), "{cut:?}");
}
