//! Environments of conda: archives as `conda-pack` makes them.

use std::fs;
use std::path::Path;

use flate2::write::GzEncoder;
use gular_containers::Error;
use gular_containers::conda::{CondaArchive, unpack_environment};
use gular_containers::recipe::Recipe;
use gular_containers::rootfs::{FileBytes, What};
use gular_containers::store::{Limits, MemberKind, Store};

const OLD: &str = "/home/me/miniconda3/envs/train";

const SCRIPT: &str = "#!/usr/bin/env python\nimport re\n\n_prefix_records = [\n('bin/tool', '/home/me/miniconda3/envs/train', 'text'),\n('lib/libx.so', '/home/me/miniconda3/envs/train', 'binary'),\n('lib/absent', '/home/me/miniconda3/envs/train', 'text')\n]\n\nif __name__ == '__main__':\n    pass\n";

/// Byte code of a source that was changed at this time, and has this length.
fn code(time: u32, len: u32) -> Vec<u8> {
    let numbers = [0, time, len].map(u32::to_le_bytes).concat();
    [b"\xa7\r\r\n".as_slice(), &numbers, b"code"].concat()
}

/// Packs files: path, mode, bytes.
fn pack(to: &Path, files: &[(&str, u32, &[u8])]) {
    let mut tar = tar::Builder::new(GzEncoder::new(
        fs::File::create(to).unwrap(),
        flate2::Compression::fast(),
    ));
    for (path, mode, bytes) in files {
        // As Python writes times with fractions: rounded in the header.
        if path.ends_with("c.py") {
            let exact = [("mtime", b"1699999999.7".as_slice())];
            tar.append_pax_extensions(exact).unwrap();
        }
        let mut header = tar::Header::new_gnu();
        header.set_mode(*mode);
        header.set_mtime(1_700_000_000);
        header.set_size(bytes.len() as u64);
        tar.append_data(&mut header, path, *bytes).unwrap();
    }
    for (kind, path, target) in [
        (tar::EntryType::Symlink, "bin/python", "python3"),
        (tar::EntryType::Link, "bin/tool2", "bin/tool"),
    ] {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(kind);
        header.set_mode(0o777);
        header.set_mtime(1_700_000_000);
        header.set_size(0);
        tar.append_link(&mut header, path, target).unwrap();
    }
    tar.into_inner().unwrap().finish().unwrap();
}

/// The bytes of each file after unpacking, by path.
fn unpacked(archive: &Path) -> Result<Vec<(String, Vec<u8>)>, Error> {
    let dir = tempfile::tempdir().unwrap();
    let listing = Store::new(dir.path())
        .listing("x", |filling| unpack_environment(filling, archive, &Limits::default()))?;
    let files = listing.entries.iter().filter_map(|entry| {
        let MemberKind::File(_, len, digest) = &entry.kind else { return None };
        let What::File(FileBytes::File { path, .. }) = listing.what(entry).unwrap() else {
            panic!("{entry:?}")
        };
        let bytes = fs::read(path).unwrap();
        assert_eq!(*len, bytes.len() as u64, "{}", entry.path);
        assert_eq!(*digest, blake3::hash(&bytes).to_hex().to_string(), "{}", entry.path);
        Some((entry.path.clone(), bytes))
    });
    Ok(files.collect())
}

#[test]
fn files_name_the_folder_in_the_image_and_fresh_byte_code_stays_fresh() {
    let dir = tempfile::tempdir().unwrap();
    let archive = dir.path().join("env.tar.gz");
    let tool = format!("#!{OLD}/bin/python\n");
    let library = format!("\x7fELF\0{OLD}/lib:{OLD}/x\0rest\0");
    let (fresh, stale) = (code(1_700_000_000, 5), code(1_600_000_000, 5));
    let exact = code(1_699_999_999, 5);
    pack(
        &archive,
        &[
            ("bin/conda-unpack", 0o755, SCRIPT.as_bytes()),
            ("bin/tool", 0o755, tool.as_bytes()),
            ("lib/libx.so", 0o600, library.as_bytes()),
            ("lib/a.py", 0o644, b"x = 1"),
            ("lib/b.py", 0o644, b"x = 1"),
            ("lib/c.py", 0o644, b"x = 1"),
            ("lib/__pycache__/c.cpython-311.pyc", 0o644, &exact),
            ("lib/__pycache__/a.cpython-311.pyc", 0o644, &fresh),
            ("lib/__pycache__/b.cpython-311.pyc", 0o644, &stale),
            ("lib/__pycache__/gone.cpython-311.pyc", 0o644, &fresh),
        ],
    );
    let files = unpacked(&archive).unwrap();
    let at = |path: &str| &files.iter().find(|(there, _)| there == path).unwrap().1;
    assert_eq!(at("bin/tool").as_slice(), b"#!/opt/env/bin/python\n");
    let padding = "\0".repeat(2 * (OLD.len() - "/opt/env".len()));
    let expected = format!("\x7fELF\0/opt/env/lib:/opt/env/x{padding}\0rest\0");
    assert_eq!(at("lib/libx.so").as_slice(), expected.as_bytes());
    assert_eq!(at("lib/__pycache__/a.cpython-311.pyc")[4..8], [1, 0, 0, 0]);
    assert_eq!(at("lib/__pycache__/c.cpython-311.pyc")[4..8], [1, 0, 0, 0]);
    assert_eq!(*at("lib/__pycache__/b.cpython-311.pyc"), stale);
    assert_eq!(*at("lib/__pycache__/gone.cpython-311.pyc"), fresh);
}

#[test]
fn archives_of_another_kind_are_refused_with_the_command_that_helps() {
    let dir = tempfile::tempdir().unwrap();
    let archive = dir.path().join("env.tar.gz");
    let no_room = SCRIPT.replace(OLD, "/e");
    for (files, says, helps) in [
        (
            &[("bin/tool", 0o755, b"".as_slice())][..],
            "it has no `bin/conda-unpack`",
            "conda-pack -p",
        ),
        (
            &[("bin/conda-unpack", 0o755, b"print()".as_slice())],
            "has no table of places",
            "conda-pack -p",
        ),
        (&[("pixi-pack.json", 0o644, b"{}".as_slice())], "as `pixi-pack` makes it", "pixi-unpack"),
        (
            &[
                ("bin/conda-unpack", 0o755, no_room.as_bytes()),
                ("lib/libx.so", 0o644, b"/e/lib\0".as_slice()),
            ],
            "its `lib/libx.so` has no room",
            "a longer path",
        ),
    ] {
        pack(&archive, files);
        let error = unpacked(&archive).unwrap_err();
        assert!(error.to_string().contains(says), "{error}");
        assert!(error.hint().unwrap().contains(helps), "{error:?}");
    }
    for (bytes, says) in [
        (b"BZh9".as_slice(), "compressed by bzip2"),
        (b"PK\x03\x04", "a ZIP archive"),
        (b"hsqs\0\0", "a SquashFS"),
        (b"#!/bin/sh\n", "a script"),
    ] {
        fs::write(&archive, bytes).unwrap();
        let error = CondaArchive::find(Path::new("env.tar.gz"), dir.path()).unwrap_err();
        assert!(error.to_string().contains(says), "{error}");
    }
}

#[test]
fn an_environment_needs_a_base_and_brings_the_python() {
    for (more, says) in [
        ("[python]\nwheels = [\"a.whl\"]\n", "`[conda]` and `[python]` exclude each other"),
        ("[base]\nscratch = true\n[app]\npath = \"x\"\n", "`[conda]` needs a base"),
    ] {
        let text = format!("[image]\nname = \"x\"\n[conda]\narchive = \"env.tar.gz\"\n{more}");
        let error = Recipe::parse(&text, "image.toml").unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
}
