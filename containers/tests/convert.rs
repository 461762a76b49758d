//! Converts other tools' images to SIFs, including Docker's archives and hostile ones.

use std::fs;
use std::io::Cursor;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use gular_containers::convert::{Conversion, Converted, LocalImage, convert};
use gular_containers::make::{BuildCache, ImageCompression};
use gular_containers::oci::OciLayout;
use gular_containers::registry::{nvidia_of_image, nvidia_of_sif};
use gular_containers::sif::{Arch, ObjectKind, Sif};
use gular_containers::store::Limits;
use gular_containers::{Error, StoredImage, UnixTime};
use serde_json::{Value, json};
use tar::EntryType;

use crate::support::{Member, sha256, tar};

const LIMITS: Limits = Limits { bytes: 1 << 20, entries: 50 };

use EntryType::{Directory, Regular, Symlink};

/// An archive of `docker save`, which tests change and then store.
struct Saved {
    manifest: Value,
    config: Value,
    layers: Vec<(String, Vec<u8>)>,
    links: Vec<(String, String)>,
}

impl Saved {
    fn new(layers: &[Vec<u8>]) -> Self {
        let ids: Vec<_> = layers.iter().map(|tar| format!("sha256:{}", sha256(tar))).collect();
        let config = json!({
            "architecture": "amd64", "os": "linux", "created": "2026-07-11T10:16:37Z",
            "rootfs": { "type": "layers", "diff_ids": ids },
            "config": {
                "Env": ["PATH=/bin", "A=b=c"], "Entrypoint": ["/bin/tool"], "Cmd": ["--help", "me"],
                "Labels": { "l": "m" },
            },
        });
        let layers: Vec<_> =
            layers.iter().map(|tar| (format!("{}/layer.tar", sha256(tar)), tar.clone())).collect();
        let names: Vec<_> = layers.iter().map(|(name, _)| name.clone()).collect();
        let manifest =
            json!([{ "Config": "CONFIG", "RepoTags": ["lab/tool:v1"], "Layers": names }]);
        Self { manifest, config, layers, links: Vec::new() }
    }

    fn store(&self, path: &Path) {
        let config = self.config.to_string();
        let name = format!("{}.json", sha256(config.as_bytes()));
        let manifest = self.manifest.to_string().replace("CONFIG", &name);
        let mut members: Vec<Member<'_>> =
            self.layers.iter().map(|(name, tar)| (Regular, &**name, "", &**tar)).collect();
        members.extend(self.links.iter().map(|(name, to)| (Symlink, &**name, &**to, &b""[..])));
        members.push((Regular, &name, "", config.as_bytes()));
        members.push((Regular, "manifest.json", "", manifest.as_bytes()));
        fs::write(path, tar(&members)).unwrap();
    }
}

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn options(&self, from: &str) -> Conversion {
        Conversion {
            from: LocalImage::parse(from).unwrap(),
            pulled: None,
            out: self.at("out"),
            file_name: None,
            arch: Arch::Amd64,
            compression: ImageCompression::Gzip,
            cache: BuildCache::new(&self.at("cache")),
            cache_bytes: 1 << 20,
            limits: LIMITS,
            jobs: NonZeroUsize::MIN,
            dry_run: false,
        }
    }

    fn convert(&self, saved: &Saved) -> Result<Converted, Error> {
        saved.store(&self.at("Tool.docker.tar"));
        let from = format!("docker-archive:{}", self.at("Tool.docker.tar").display());
        convert(&self.options(&from), &AtomicBool::new(false))
    }

    /// Checks that the error contains `says`, and that no files are left behind.
    fn refuses(&self, saved: &Saved, says: &str) {
        let error = self.convert(saved).unwrap_err().to_string();
        assert!(error.contains(says), "{error}\nexpected: {says}");
        for folder in ["out", "cache/store-3", "cache/blocks"] {
            let left = fs::read_dir(self.at(folder)).map_or(0, Iterator::count);
            assert_eq!(left, 0, "{folder} after {says}");
        }
    }
}

fn layers() -> [Vec<u8>; 2] {
    [
        tar(&[
            (Directory, "bin/", "", b""),
            (Regular, "bin/tool", "", b"#!/bin/sh\n"),
            (Regular, "bin/sh", "", b"sh"),
            (Regular, "etc/old", "", b"old"),
        ]),
        tar(&[(Regular, "etc/.wh.old", "", b""), (Regular, "etc/new", "", b"new")]),
    ]
}

#[test]
fn a_docker_archive_becomes_a_sif_that_starts_what_it_did() {
    let place = Place::new();
    let converted = place.convert(&Saved::new(&layers())).unwrap();
    let output = converted.output.unwrap();
    let name = output.path.file_name().unwrap().to_str().unwrap();
    assert_eq!(name, format!("tool-{}.sif", &output.digest.hex()[..16]));
    let store = BuildCache::new(&place.at("cache")).store();
    let image = StoredImage::open(&output.path, &store, &Limits::default()).unwrap();
    assert_eq!(image.created, Some(UnixTime(1_783_764_997)));
    assert_eq!((&*image.env["PATH"], &*image.env["A"]), ("/bin", "b=c"));
    assert_eq!(image.labels["l"], "m");
    let digest = converted.source.to_string();
    assert_eq!(image.labels["org.opencontainers.image.base.digest"], digest);
    assert_eq!(image.recipe, format!("Bootstrap: oci\nFrom: {digest}\n"));
    assert_eq!(image.program.unwrap().to_string(), "/bin/tool");
    let paths: Vec<_> = image.tree.iter().map(|(path, _)| path.to_string()).collect();
    assert!(paths.contains(&"/etc/new".to_owned()) && !paths.contains(&"/etc/old".to_owned()));

    // The bytes are the same if the file has a link for a layer.
    let mut twin = Saved::new(&layers());
    let first = twin.layers[0].0.clone();
    twin.layers[0].0 = "real.tar".to_owned();
    twin.links.push((first, "../real.tar".to_owned()));
    let again = place.convert(&twin).unwrap().output.unwrap();
    assert_eq!((again.digest, again.was_there), (output.digest, true));
    // They are the same if the file has another name.
    fs::copy(place.at("Tool.docker.tar"), place.at("renamed.tar")).unwrap();
    let renamed = place.options(&place.at("renamed.tar").display().to_string());
    let renamed = convert(&renamed, &AtomicBool::new(false)).unwrap().output.unwrap();
    assert_eq!(renamed.digest, output.digest);

    let mut named = place.options(&place.at("Tool.docker.tar:lab/tool:v1").display().to_string());
    named.file_name = Some("mine.sif".to_owned());
    let named = convert(&named, &AtomicBool::new(false)).unwrap().output.unwrap();
    assert_eq!(named.path, place.at("out/mine.sif"));
}

#[test]
fn what_docker_saved_has_the_types_of_oci_and_no_variable_that_no_shell_takes() {
    let place = Place::new();
    let mut saved = Saved::new(&layers());
    saved.config["config"]["Env"] = json!(["PATH=/bin", "MY-VAR=1", "A}\" ]; then id; fi; #=2"]);
    let converted = place.convert(&saved).unwrap();
    let left: Vec<_> = converted.left_out.iter().map(|left| &*left.what).collect();
    assert!(left.contains(&"variable MY-VAR (no shell takes that name)"), "{left:?}");
    let of_names = left.iter().filter(|what| what.starts_with("variable ")).count();
    assert_eq!(of_names, 2, "{left:?}");

    let digest = |bytes: &[u8]| format!("sha256:{}", sha256(bytes));
    let layers = saved.layers.iter().map(|(_, tar)| {
        let media = "application/vnd.oci.image.layer.v1.tar";
        json!({ "mediaType": media, "digest": digest(tar), "size": tar.len() })
    });
    let config = saved.config.to_string();
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": {
            "mediaType": "application/vnd.oci.image.config.v1+json",
            "digest": digest(config.as_bytes()), "size": config.len(),
        },
        "layers": layers.collect::<Vec<_>>(),
    });
    assert_eq!(converted.source.to_string(), digest(manifest.to_string().as_bytes()));
}

#[test]
fn nvidias_libraries_are_seen_in_images_of_others() {
    let place = Place::new();
    for (name, expected) in [("usr/lib/libcudart.so.12", true), ("usr/lib/libcuda.txt", false)] {
        let [below, above] = layers();
        let saved = Saved::new(&[below, tar(&[(Regular, name, "", b"x")]), above]);
        let converted = place.convert(&saved).unwrap();
        let layout = OciLayout::open(&place.at("Tool.docker.tar")).unwrap();
        let image = layout.image(None, Arch::Amd64).unwrap();
        assert_eq!(nvidia_of_image(&layout, &image).unwrap(), expected, "{name}");
        let sif = converted.output.unwrap().path;
        assert_eq!(nvidia_of_sif(&sif).unwrap(), Some(expected), "{name}");
    }
}

#[test]
fn a_dry_run_and_a_stop_write_nothing() {
    let place = Place::new();
    Saved::new(&layers()).store(&place.at("a.tar"));
    let mut options = place.options(&place.at("a.tar").display().to_string());
    let stopped = convert(&options, &AtomicBool::new(true)).unwrap_err();
    assert!(matches!(stopped, Error::Cancelled), "{stopped}");
    options.dry_run = true;
    let converted = convert(&options, &AtomicBool::new(false)).unwrap();
    assert_eq!((converted.files, converted.output), (3, None));
    assert_eq!(fs::read_dir(place.at("out")).map_or(0, Iterator::count), 0);
}

#[test]
fn archives_of_docker_that_are_not_sound_are_refused_by_name() {
    let place = Place::new();
    let refuses = |change: &dyn Fn(&mut Saved), says: &str| {
        let mut saved = Saved::new(&layers());
        change(&mut saved);
        place.refuses(&saved, says);
    };
    refuses(&|saved| saved.manifest = json!({}), "`manifest.json`: ");
    refuses(&|saved| saved.manifest = json!([]), "has no image for linux/amd64");
    refuses(&|saved| saved.manifest[0]["Config"] = json!("none.json"), "`none.json` is missing");
    refuses(&|saved| saved.manifest[0]["Config"] = json!("../x"), "leads outside");
    let hex = "ab".repeat(32);
    refuses(
        &|saved| {
            saved.layers.push((format!("{hex}.json"), b"{}".to_vec()));
            saved.manifest[0]["Config"] = json!(format!("{hex}.json"));
        },
        "is damaged: its SHA-256 is",
    );
    refuses(&|saved| drop(saved.layers.pop()), "/layer.tar` is missing");
    refuses(
        &|saved| saved.manifest[0]["Layers"] = json!(["x"]),
        "lists 1 layers, and its configuration 2",
    );
    refuses(&|saved| saved.config["rootfs"]["diff_ids"][0] = json!("md5:1"), "is not a SHA-256");
    // Faults: another layer's bytes, and links that lead outside or in a circle.
    refuses(&|saved| saved.layers[0].1 = tar(&[]), "is damaged: its SHA-256 is");
    for to in ["../../../../etc/passwd", "layer.tar"] {
        refuses(
            &|saved| {
                let name = saved.layers.pop().unwrap().0;
                saved.links.push((name, to.to_owned()));
            },
            "/layer.tar` is missing",
        );
    }
    let images: Vec<_> = (0..65).map(|_| Saved::new(&[]).manifest[0].clone()).collect();
    refuses(&|saved| saved.manifest = json!(images), "it has 65 images, more than the limit of 64");
}

#[test]
fn layers_that_are_hostile_are_refused_by_name_and_leave_nothing() {
    let place = Place::new();
    let many: Vec<String> = (0..51).map(|i| format!("empty/{i}")).collect();
    let many: Vec<Member<'_>> = many.iter().map(|name| (Regular, &**name, "", &b""[..])).collect();
    let zeros = vec![0; (1 << 20) + 1];
    for (members, says) in [
        (&[(Regular, "a/../../x", "", &b"x"[..])][..], "leads outside"),
        (&[(EntryType::Link, "x", "../../etc/passwd", b"")], "leads outside"),
        (&many, "files and folders, more than the limit of 50"),
        (&[(Regular, "bomb", "", &zeros)], "bytes, more than the limit of 1048576"),
    ] {
        place.refuses(&Saved::new(&[tar(members)]), says);
    }
    // Link through link: whatever they say, it lands inside.
    let links = tar(&[
        (Symlink, "a", "/..", b""),
        (Symlink, "b", "a/../../tmp", b""),
        (Regular, "b/landed", "", b"inside"),
    ]);
    let converted = place.convert(&Saved::new(&[links])).unwrap();
    let store = BuildCache::new(&place.at("cache")).store();
    let image = StoredImage::open(&converted.output.unwrap().path, &store, &Limits::default());
    let paths: Vec<_> = image.unwrap().tree.iter().map(|(path, _)| path.to_string()).collect();
    assert!(paths.contains(&"/tmp/landed".to_owned()), "{paths:?}");
}

/// A tar with changed headers.
fn with_headers(members: &[Member<'_>], change: impl Fn(&mut tar::Header)) -> Vec<u8> {
    let mut tar = tar(members);
    let mut at = 0;
    while let Some(header) = tar.get(at..at + 512).filter(|block| block.iter().any(|b| *b != 0)) {
        let mut header = tar::Header::from_byte_slice(header).clone();
        change(&mut header);
        header.set_cksum();
        let size = header.entry_size().unwrap();
        tar[at..at + 512].copy_from_slice(header.as_bytes());
        at += 512 + usize::try_from(size).unwrap().next_multiple_of(512);
    }
    tar
}

/// The root file system of a SIF.
fn root(sif: &Path) -> Vec<u8> {
    let sif = Sif::open(sif).unwrap();
    let is_root = |kind| matches!(kind, ObjectKind::RootPartition(_));
    let root = sif.descriptors.iter().find(|object| is_root(object.kind)).unwrap();
    sif.bytes(root).unwrap()
}

#[test]
fn files_keep_the_times_of_their_layers() {
    let place = Place::new();
    let at = |members: &[Member<'_>], time| with_headers(members, |header| header.set_mtime(time));
    let one = at(
        &[
            (Directory, "lib", "", b""),
            (Regular, "lib/m.py", "", b"x = 1"),
            (EntryType::Link, "lib/n.py", "lib/m.py", b""),
            (Symlink, "lib/l", "m.py", b""),
            (Regular, "lib/far", "", b""),
        ],
        1_700_000_001,
    );
    let two = at(&[(Directory, "lib", "", b"")], 1_700_000_007);
    let three = at(&[(Regular, "lib/far", "", b"")], 0o77_777_777_777);
    let saved = Saved::new(&[one, two, three]);
    let converted = place.convert(&saved).unwrap();
    let left: Vec<_> = converted.left_out.iter().map(|left| left.path.as_str()).collect();
    assert_eq!(left, ["/lib/far"], "{:?}", converted.left_out);
    assert!(converted.left_out[0].what.contains("8589934591"), "{:?}", converted.left_out);
    let output = converted.output.unwrap();
    assert!(place.convert(&saved).unwrap().output.unwrap().was_there);
    let squashfs = Cursor::new(root(&output.path));
    let squashfs = backhand::FilesystemReader::from_reader(squashfs).unwrap();
    for (path, expected) in [
        ("/lib/m.py", 1_700_000_001),
        ("/lib/n.py", 1_700_000_001),
        ("/lib/l", 1_700_000_001),
        ("/lib", 1_700_000_007),
        ("/lib/far", u32::MAX),
        ("/.singularity.d/test", 1_783_764_997),
    ] {
        let node = squashfs.files().find(|node| node.fullpath == Path::new(path)).unwrap();
        assert_eq!(node.header.mtime, expected, "{path}");
    }
}

#[test]
fn names_that_are_not_utf_8_and_what_stands_at_our_places_are_kept() {
    let place = Place::new();
    let members: &[Member<'_>] = &[
        (Regular, "na?me", "", b"1"),
        (Symlink, "link", "na?me", b""),
        (EntryType::Link, "na?me2", "na?me", b""),
        (Symlink, "opt", "/nowhere", b""),
        (Regular, "singularity", "", b"mine"),
    ];
    let layer = with_headers(members, |header| {
        for byte in header.as_mut_bytes().iter_mut().filter(|byte| **byte == b'?') {
            *byte = 0xff;
        }
    });
    let output = place.convert(&Saved::new(&[layer])).unwrap().output.unwrap();
    let mut found = Vec::new();
    let bytes = root(&output.path);
    let mut walk = gular_squashfs::read::Walk::new(&bytes[..]).unwrap();
    while let Some(entry) = walk.next().unwrap() {
        found.push(entry.path.to_vec());
        if entry.path == b"link" {
            assert_eq!(walk.target().unwrap().unwrap(), b"na\xffme");
        }
    }
    for name in [&b"na\xffme"[..], b"na\xffme2", b"opt", b"singularity"] {
        assert!(found.iter().any(|path| path == name), "{name:?}");
    }
    // They are the same once they are read back.
    let store = BuildCache::new(&place.at("cache")).store();
    let image = StoredImage::open(&output.path, &store, &Limits::default()).unwrap();
    assert!(image.tree.iter().any(|(path, _)| path.as_str().starts_with("na\u{f7ff}me")));
}
