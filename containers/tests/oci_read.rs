//! Reads images from OCI layouts: our own, those of other tools, and hostile ones.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use gular_containers::oci::{Compressor, Config, LayersAs, OciLayout, write_archive, write_layout};
use gular_containers::rootfs::{FileBytes, Layer, RootPath, Rootfs, What};
use gular_containers::sif::Arch;
use gular_containers::store::{Limits, Store};
use gular_containers::{Error, UnixTime};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tar::{EntryType, Header};

use crate::support::tar;

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const LIMITS: Limits = Limits { bytes: 1 << 20, entries: 50 };

fn path(text: &str) -> RootPath {
    RootPath::new(text).unwrap()
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gz.write_all(bytes).unwrap();
    gz.finish().unwrap()
}

/// A layout that is put together blob by blob.
pub(crate) struct Made {
    dir: tempfile::TempDir,
}

impl Made {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("image/blobs/sha256")).unwrap();
        let made = Self { dir };
        fs::write(made.path().join("oci-layout"), r#"{"imageLayoutVersion":"1.0.0"}"#).unwrap();
        made
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.dir.path().join("image")
    }

    fn blob_path(&self, digest: &str) -> PathBuf {
        self.path().join("blobs/sha256").join(digest.strip_prefix("sha256:").unwrap())
    }

    fn blob(&self, media_type: &str, bytes: &[u8]) -> Value {
        let digest = format!("sha256:{}", sha256(bytes));
        fs::write(self.blob_path(&digest), bytes).unwrap();
        json!({ "mediaType": media_type, "digest": digest, "size": bytes.len() })
    }

    fn json(&self, media_type: &str, value: &Value) -> Value {
        self.blob(media_type, value.to_string().as_bytes())
    }

    /// A manifest of these layers: media type, blob, tar.
    fn manifest(&self, arch: &str, layers: &[(&str, Vec<u8>, Vec<u8>)]) -> Value {
        let ids: Vec<_> =
            layers.iter().map(|(_, _, tar)| format!("sha256:{}", sha256(tar))).collect();
        let layers: Vec<_> = layers.iter().map(|(media, blob, _)| self.blob(media, blob)).collect();
        let config = json!({
            "architecture": arch, "os": "linux",
            "rootfs": { "type": "layers", "diff_ids": ids },
            "config": { "Env": ["PATH=/bin", "A=b=c"], "Cmd": ["sh"], "Labels": { "l": "m" } },
        });
        let config = self.json("application/vnd.oci.image.config.v1+json", &config);
        let text = json!({ "schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": layers });
        self.json(MANIFEST, &text)
    }

    fn index(&self, manifests: &[Value]) {
        let index = json!({ "schemaVersion": 2, "manifests": manifests });
        fs::write(self.path().join("index.json"), index.to_string()).unwrap();
    }

    fn read(&self, tag: Option<&str>) -> Result<Rootfs, Error> {
        let layout = OciLayout::open(&self.path())?;
        let image = layout.image(tag, Arch::Amd64)?;
        layout.rootfs(&image, &self.store(), &LIMITS, LayersAs::Base)
    }

    fn store(&self) -> Store {
        Store::new(&self.dir.path().join("store"))
    }

    /// A layout of gzip layers.
    pub(crate) fn of(tars: &[Vec<u8>]) -> Self {
        Self::with(tars.iter().map(|tar| (GZIP, gzip(tar), tar.clone())))
    }

    /// A layout of layers that are not compressed.
    pub(crate) fn plain(tars: &[Vec<u8>]) -> Self {
        Self::with(tars.iter().map(|tar| (PLAIN, tar.clone(), tar.clone())))
    }

    fn with(layers: impl Iterator<Item = (&'static str, Vec<u8>, Vec<u8>)>) -> Self {
        let made = Self::new();
        made.index(&[made.manifest("amd64", &layers.collect::<Vec<_>>())]);
        made
    }

    /// Checks that reading fails with this message, and leaves nothing in the store.
    fn refused(&self, says: &str) {
        let error = self.read(None).unwrap_err();
        assert!(error.to_string().contains(says), "{error}\nexpected: {says}");
        assert!(!self.is_stored(), "{says}");
    }

    /// Whether anything is in the store.
    fn is_stored(&self) -> bool {
        fs::read_dir(self.dir.path().join("store")).is_ok_and(|mut all| all.next().is_some())
    }
}

const GZIP: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
const ZSTD: &str = "application/vnd.oci.image.layer.v1.tar+zstd";
const PLAIN: &str = "application/vnd.oci.image.layer.v1.tar";
const DOCKER: &str = "application/vnd.docker.image.rootfs.diff.tar.gzip";

fn shown(tree: &Rootfs) -> Vec<String> {
    let show = |what: &What| match what {
        What::Dir => "dir".to_owned(),
        What::File(FileBytes::File { path, .. }) => fs::read_to_string(path).unwrap(),
        What::File(FileBytes::Bytes(bytes)) => String::from_utf8(bytes.to_vec()).unwrap(),
        What::Symlink(target) => format!("-> {target}"),
        What::Hardlink(first) => format!("= {first}"),
    };
    tree.iter().skip(1).map(|(path, node)| format!("{path} {}", show(&node.what))).collect()
}

use EntryType::{Block, Directory, Fifo, GNUSparse, Link, Regular, Symlink, XHeader};

#[test]
fn what_we_write_comes_back_layer_by_layer() {
    let mut tree = Rootfs::default();
    let file = |text: &str| What::File(FileBytes::Bytes(Arc::from(text.as_bytes())));
    let nodes = [
        (Layer::Base, "bin", 0o777, What::Symlink("usr/bin".to_owned())),
        (Layer::Base, "usr/bin/sh", 0o755, file("sh")),
        (Layer::Cuda, "opt/app/lib/libcudart.so", 0o755, file("cuda")),
        (Layer::App, "opt/app/bin/train", 0o711, file("train")),
        (Layer::App, "opt/twin", 0o711, What::Hardlink(path("opt/app/bin/train"))),
        (Layer::App, "tmp", 0o1777, What::Dir),
    ];
    for (layer, at, mode, what) in nodes {
        tree.add(layer, &path(at), mode, what).unwrap();
    }
    let dir = tempfile::tempdir().unwrap();
    for compressor in [Compressor::Gzip, Compressor::Zstd] {
        let env = BTreeMap::from([("A".to_owned(), "1".to_owned())]);
        let config = Config {
            tag: "v1",
            arch: Arch::Amd64,
            time: UnixTime(1_700_000_000),
            command: &["/opt/app/bin/train".to_owned()],
            env: &env,
            labels: &env,
            base: None,
            compressor,
            threads: NonZeroUsize::MIN,
            layers: None,
            progress: &|_| {},
            cancel: &AtomicBool::new(false),
        };
        let (folder, archive) = (dir.path().join("layout"), dir.path().join("archive.tar"));
        let written = write_layout(&tree, &config, &folder).unwrap();
        write_archive(&tree, &config, &archive).unwrap();
        for from in [&folder, &archive] {
            let layout = OciLayout::open(from).unwrap();
            let image = layout.image(Some("v1"), Arch::Amd64).unwrap();
            assert_eq!(image.digest, written.digest);
            assert_eq!((&image.env, &image.labels), (&env, &env));
            assert_eq!(image.entrypoint, ["/opt/app/bin/train"]);
            assert_eq!(image.created.as_deref(), Some("2023-11-14T22:13:20Z"));
            let store = Store::new(&dir.path().join(format!("store-{compressor:?}")));
            let limits = Limits::default();
            let read = layout.rootfs(&image, &store, &limits, LayersAs::AsWritten).unwrap();
            assert_eq!(shown(&read), shown(&tree));
            for (path, node) in tree.iter() {
                let found = read.get(path).unwrap();
                assert_eq!((found.mode, found.layer), (node.mode, node.layer), "{path}");
            }
            let base = layout.rootfs(&image, &store, &limits, LayersAs::Base).unwrap();
            assert!(base.iter().all(|(_, node)| node.layer == Layer::Base));
        }
        fs::remove_dir_all(folder).unwrap();
        fs::remove_file(archive).unwrap();
    }
}

#[test]
fn upper_layers_hide_and_replace() {
    let below = tar(&[
        (Directory, "etc/", "", b""),
        (Regular, "etc/a", "", b"1"),
        (Link, "etc/twin", "etc/a", b""),
        (Regular, "etc/b", "", b"2"),
        (Regular, "opt/x/y", "", b"3"),
        (Regular, "file", "", b"4"),
        (Directory, "dir/", "", b""),
        (Regular, "dir/in", "", b"5"),
        (Symlink, "lib", "usr/lib", b""),
        (Regular, "lib/c", "", b"6"),
    ]);
    let above = tar(&[
        // Files in the same layer as a whiteout stay, whatever their order.
        (Regular, "opt/z", "", b"7"),
        (Regular, "opt/.wh..wh..opq", "", b""),
        (Regular, "etc/.wh.a", "", b""),
        (Regular, "etc/.wh.never", "", b""),
        (Regular, "never/.wh..wh..opq", "", b""),
        (Regular, "lib/.wh.c", "", b""),
        (Directory, "file/", "", b""),
        (Regular, "dir", "", b"8"),
        (Link, "etc/other", "./etc/b", b""),
    ]);
    for (media, pack) in [
        (GZIP, gzip as fn(&[u8]) -> Vec<u8>),
        (DOCKER, gzip),
        (PLAIN, <[u8]>::to_vec),
        (ZSTD, |bytes| zstd::encode_all(bytes, 1).unwrap()),
    ] {
        let made = Made::new();
        let layers = [(media, pack(&below), below.clone()), (media, pack(&above), above.clone())];
        made.index(&[made.manifest("amd64", &layers)]);
        let expected = [
            "/dir 8",
            "/etc dir",
            "/etc/b 2",
            "/etc/other = /etc/b",
            "/etc/twin 1",
            "/file dir",
            "/lib -> usr/lib",
            "/opt dir",
            "/opt/z 7",
            "/usr dir",
            "/usr/lib dir",
        ];
        assert_eq!(shown(&made.read(None).unwrap()), expected, "{media}");
    }
}

#[test]
fn a_directory_over_a_link_leaves_what_the_link_led_to() {
    let below = tar(&[
        (Symlink, "lib64", "usr/lib64", b""),
        (Regular, "usr/lib64/ld.so", "", b"1"),
        (Symlink, "usr/lib64/deep", "../far", b""),
        (Regular, "usr/far/y", "", b"2"),
    ]);
    let above = tar(&[
        (Regular, "lib64/.wh.ld.so", "", b""),
        (Directory, "lib64/deep/", "", b""),
        (Directory, "lib64/", "", b""),
        (Regular, "lib64/.wh..wh..opq", "", b""),
        (Regular, "lib64/x", "", b"3"),
    ]);
    let expected = [
        "/lib64 dir",
        "/lib64/deep dir",
        "/lib64/x 3",
        "/usr dir",
        "/usr/far dir",
        "/usr/far/y 2",
        "/usr/lib64 dir",
        "/usr/lib64/deep -> ../far",
        "/usr/lib64/ld.so 1",
    ];
    assert_eq!(shown(&Made::of(&[below, above]).read(None).unwrap()), expected);
}

/// A member whose length stands in a PAX record alone, as of those over 8 GiB.
fn with_pax_size(path: &str, bytes: &[u8]) -> Vec<u8> {
    let record = format!("{} size={}\n", 9 + bytes.len().to_string().len(), bytes.len());
    assert_eq!(record.split(' ').next().unwrap(), record.len().to_string());
    let mut whole = tar(&[(XHeader, "x", "", record.as_bytes()), (Regular, path, "", bytes)]);
    let header: &mut [u8; 512] = (&mut whole[1024..1536]).try_into().unwrap();
    let mut changed = Header::from_byte_slice(header).clone();
    changed.set_size(0);
    changed.set_cksum();
    header.copy_from_slice(changed.as_bytes());
    // Removes the two blocks that end the archive.
    whole.truncate(whole.len() - 1024);
    whole
}

#[test]
fn lengths_of_pax_records_are_those_of_members() {
    let made = Made::of(&[tar(&[(Regular, "a", "", b"1")])]);
    let mut archive = Vec::new();
    let names = ["oci-layout".to_owned(), "index.json".to_owned()].into_iter();
    let blobs = fs::read_dir(made.path().join("blobs/sha256")).unwrap();
    let blobs = blobs.map(|b| format!("blobs/sha256/{}", b.unwrap().file_name().to_str().unwrap()));
    for name in names.chain(blobs) {
        archive.extend(with_pax_size(&name, &fs::read(made.path().join(&name)).unwrap()));
    }
    archive.extend([0; 1024]);
    let file = made.dir.path().join("image.tar");
    fs::write(&file, archive).unwrap();
    let layout = OciLayout::open(&file).unwrap();
    let image = layout.image(None, Arch::Amd64).unwrap();
    let tree = layout.rootfs(&image, &made.store(), &LIMITS, LayersAs::Base).unwrap();
    assert_eq!(shown(&tree), ["/a 1"]);

    // A header is not read into memory however long it says that it is.
    let mut header = Header::new_gnu();
    header.set_entry_type(XHeader);
    header.set_size(5 << 20);
    header.set_cksum();
    fs::write(&file, [header.as_bytes().as_slice(), &vec![b'a'; 6 << 20]].concat()).unwrap();
    let error = OciLayout::open(&file).map(drop).unwrap_err().to_string();
    assert!(error.contains("longer than 4 MiB"), "{error}");
}

#[test]
fn images_are_found_by_tag_and_platform_through_indexes() {
    let made = Made::new();
    let one = |text: &str| {
        let tar = tar(&[(Regular, "a", "", text.as_bytes())]);
        (PLAIN, tar.clone(), tar)
    };
    let arm = made.manifest("arm64", &[one("arm")]);
    let mut amd = made.manifest("amd64", &[one("amd")]);
    amd["platform"] = json!({ "os": "linux", "architecture": "amd64" });
    let inner = made.json(INDEX, &json!({ "schemaVersion": 2, "manifests": [arm, amd] }));
    let mut old = made.manifest("amd64", &[one("old")]);
    old["annotations"] = json!({ "org.opencontainers.image.ref.name": "old" });
    let mut new = made.json(INDEX, &json!({ "schemaVersion": 2, "manifests": [inner] }));
    new["annotations"] = json!({ "org.opencontainers.image.ref.name": "new" });
    made.index(&[old, new]);
    for (tag, text) in [("old", "/a old"), ("new", "/a amd")] {
        assert_eq!(shown(&made.read(Some(tag)).unwrap()), [text]);
    }
    let error = made.read(None).unwrap_err().to_string();
    assert!(error.ends_with("2 images for linux/amd64: with the tags old, new"), "{error}");
    let error = made.read(Some("none")).unwrap_err().to_string();
    assert!(error.ends_with("has no image with the tag `none`, only old, new"), "{error}");
    assert!(error.contains(made.path().to_str().unwrap()), "{error}");
    let image = OciLayout::open(&made.path()).unwrap().image(Some("new"), Arch::Arm64).unwrap();
    assert_eq!(image.env["A"], "b=c");
    assert_eq!(image.others, ["linux/amd64"]);
    assert_eq!((image.cmd.join(" "), image.entrypoint.len()), ("sh".to_owned(), 0));
    made.index(&[made.manifest("riscv64", &[])]);
    let error = made.read(None).unwrap_err().to_string();
    assert!(error.ends_with("no image for linux/amd64, only for: linux/riscv64"), "{error}");
}

#[test]
fn an_image_for_all_processors_of_a_kind_goes_before_one_for_newer_ones() {
    let made = Made::new();
    let one = |text: &str| {
        let tar = tar(&[(Regular, "a", "", text.as_bytes())]);
        (PLAIN, tar.clone(), tar)
    };
    let of = |text: &str, variant: Option<&str>| {
        let mut manifest = made.manifest("amd64", &[one(text)]);
        manifest["platform"] = json!({ "os": "linux", "architecture": "amd64" });
        if let Some(variant) = variant {
            manifest["platform"]["variant"] = json!(variant);
        }
        manifest
    };
    let [all, v3, v4] = [of("all", None), of("v3", Some("v3")), of("v4", Some("v4"))];
    for (list, expected) in [
        (vec![v3.clone(), all.clone()], "/a all"),
        (vec![all, v4.clone(), v3.clone()], "/a all"),
        (vec![v4, v3], "/a v3"),
    ] {
        made.index(&list);
        assert_eq!(shown(&made.read(None).unwrap()), [expected]);
    }
}

#[test]
fn sparse_files_of_all_forms_are_whole() {
    let mut inside = b"1\n2\n3\n".to_vec();
    inside.resize(512, 0);
    inside.extend(b"abc");
    let pax = |lines: &[&str]| {
        let line = |line: &&str| {
            // The length counts itself, of two digits here.
            format!("{} {line}\n", line.len() + 4)
        };
        lines.iter().map(line).collect::<String>().into_bytes()
    };
    let new = ["GNU.sparse.major=1", "GNU.sparse.minor=0", "GNU.sparse.name=a/b"];
    let new = pax(&[&new[..], &["GNU.sparse.realsize=7"]].concat());
    let old = pax(&["GNU.sparse.size=7", "GNU.sparse.map=2,3"]);
    let made = Made::of(&[tar(&[
        (XHeader, "x", "", &new),
        (Regular, "GNUSparseFile.1/b", "", &inside),
        (XHeader, "x", "", &old),
        (Regular, "c", "", b"abc"),
    ])]);
    let (tree, file) = (made.read(None).unwrap(), "\0\0abc\0\0");
    assert_eq!(shown(&tree), ["/a dir", &format!("/a/b {file}"), &format!("/c {file}")]);
}

#[test]
fn what_layers_should_not_hold_is_refused() {
    let long = [7; 2000];
    let many = vec![(Directory, "d", "", &b""[..]); 51];
    for (says, members) in [
        ("leads outside", vec![(Regular, "a/../../x", "", &b"x"[..])]),
        ("leads outside", vec![(Link, "x", "../../etc/passwd", b"")]),
        ("hard link to /etc/passwd, which is not a file", vec![(Link, "x", "/etc/passwd", b"")]),
        (
            "hard link to /d, which is not a file",
            vec![(Directory, "d", "", b""), (Link, "x", "d", b"")],
        ),
        ("files and folders, more than the limit of 50", many),
        ("does not name a file to hide", vec![(Regular, "etc/.wh.", "", b"")]),
        ("does not name a file to hide", vec![(Regular, ".wh...", "", b"")]),
        (
            "form a loop",
            vec![(Symlink, "a", "b", b""), (Symlink, "b", "/a", b""), (Regular, "a/x", "", b"x")],
        ),
        ("a file is where a directory", vec![(Regular, "f", "", b""), (Regular, "f/x", "", b"")]),
        ("bytes, more than the limit of 1048576", vec![(Regular, "x", "", &[1; (1 << 20) + 1])]),
        ("sparse", vec![(XHeader, "x", "", b"22 GNU.sparse.major=1\n"), (Regular, "x", "", &long)]),
    ] {
        let made = Made::of(&[tar(&members)]);
        let error = made.read(None).unwrap_err().to_string();
        assert!(error.contains(says), "{error}\nexpected: {says}");
        // Only faults that are found after unpacking leave a layer in the store.
        let tree =
            says.contains("not a file") || says.contains("loop") || says.contains("is where");
        assert_eq!(made.is_stored(), tree, "{says}");
    }
    // The limit applies to two layers together.
    let half = tar(&[(Regular, "x", "", &[1; 600_000])]);
    let other = tar(&[(Regular, "y", "", &[2; 600_000])]);
    let error = Made::of(&[half, other]).read(None).unwrap_err().to_string();
    assert!(error.contains("bytes, more than the limit of 1048576"), "{error}");
}

#[test]
fn what_is_not_kept_is_named_and_gives_way() {
    let capability = b"38 SCHILY.xattr.security.capability=x\n";
    let label = b"35 SCHILY.xattr.security.selinux=x\n";
    let below = tar(&[
        (Regular, "dev/null", "", b"a file"),
        (XHeader, "x", "", &capability[..]),
        (Regular, "bin/ping", "", b"ping"),
        (XHeader, "x", "", &label[..]),
        (Regular, "bin/sh", "", b"sh"),
        (XHeader, "x", "", &capability[..]),
        (Regular, "bin/gone", "", b"gone"),
    ]);
    let above = tar(&[
        (Block, "dev/null", "", b""),
        (Fifo, "run/pipe", "", b""),
        (Regular, "bin/.wh.gone", "", b""),
        // A hard link to a symbolic link is a link to that link itself, as in Linux.
        (Symlink, "lib", "usr/lib", b""),
        (Link, "lib64", "lib", b""),
    ]);
    let made = Made::of(&[below, above]);
    let layout = OciLayout::open(&made.path()).unwrap();
    let image = layout.image(None, Arch::Amd64).unwrap();
    let (tree, left_out) = layout.laid(&image, &made.store(), &LIMITS, LayersAs::Base).unwrap();
    let expected = [
        "/bin dir",
        "/bin/ping ping",
        "/bin/sh sh",
        "/dev dir",
        "/lib -> usr/lib",
        "/lib64 -> usr/lib",
    ];
    assert_eq!(shown(&tree), expected);
    let left_out: Vec<_> =
        left_out.iter().map(|left| format!("{} {}", left.path, left.what)).collect();
    let expected = [
        "/bin/ping attribute security.capability",
        "/dev/null block device",
        "/run/pipe named pipe",
    ];
    assert_eq!(left_out, expected);
}

#[test]
fn links_that_lead_outside_stay_inside() {
    let made = Made::of(&[tar(&[
        (Symlink, "out", "/../../../../tmp", b""),
        (Regular, "out/x", "", b"inside"),
        (Regular, "/etc/abs", "", b"too"),
    ])]);
    let expected =
        ["/etc dir", "/etc/abs too", "/out -> /../../../../tmp", "/tmp dir", "/tmp/x inside"];
    assert_eq!(shown(&made.read(None).unwrap()), expected);
}

/// A GNU sparse file: so long, and nothing but a hole.
fn sparse(len: u64) -> Vec<u8> {
    let mut header = Header::new_gnu();
    header.set_entry_type(GNUSparse);
    header.set_path("huge").unwrap();
    header.set_mode(0o644);
    header.set_size(0);
    let gnu = header.as_gnu_mut().unwrap();
    gnu.set_real_size(len);
    gnu.sparse[0].set_offset(len);
    gnu.sparse[0].set_length(0);
    header.set_cksum();
    [header.as_bytes().as_slice(), &[0; 1024]].concat()
}

#[test]
fn archives_that_become_huge_are_stopped() {
    let made = Made::of(&[sparse(1000)]);
    assert_eq!(shown(&made.read(None).unwrap()), [format!("/huge {}", "\0".repeat(1000))]);
    Made::of(&[sparse(1 << 40)]).refused("bytes, more than the limit of 1048576");

    // A name of 100 MB, a member of no kind that takes bytes, zeros behind the end.
    let mut header = Header::new_gnu();
    header.set_entry_type(EntryType::GNULongName);
    header.set_path("././@LongLink").unwrap();
    header.set_size(100 << 20);
    header.set_cksum();
    let name = [header.as_bytes().as_slice(), &vec![b'a'; 100 << 20], &[0; 1024]].concat();
    Made::of(&[name]).refused("longer than 4 MiB");

    let mut header = Header::new_gnu();
    header.set_entry_type(Directory);
    header.set_path("d").unwrap();
    header.set_mode(0o755);
    header.set_size(100 << 20);
    header.set_cksum();
    let dir = [header.as_bytes().as_slice(), &vec![0; 100 << 20], &[0; 1024]].concat();
    Made::of(&[dir]).refused("bytes, more than the limit of 1048576");

    let padded = [tar(&[(Regular, "x", "", b"x")]), vec![0; 3 << 20]].concat();
    Made::of(&[padded]).refused("too many bytes follow");
}

#[test]
fn a_damaged_layer_is_said_whether_or_not_the_store_has_its_files() {
    let good = tar(&[(Regular, "x", "", &[7; 5000])]);
    let blob = gzip(&good);
    let (len, name) = (blob.len(), sha256(&blob));
    let mut flipped = blob.clone();
    flipped[30] ^= 1;
    let found = sha256(&flipped);
    let damage = [
        (None, format!("`blobs/sha256/{name}` is missing")),
        (Some(&blob[..50]), format!("`blobs/sha256/{name}` has 50 bytes, expected {len}")),
        (Some(&flipped), format!("blob `sha256:{name}` is damaged: its SHA-256 is {found}")),
    ];
    for stored in [false, true] {
        let made = Made::of(std::slice::from_ref(&good));
        let place = made.blob_path(&format!("sha256:{name}"));
        let before = stored.then(|| shown(&made.read(None).unwrap()));
        for (bytes, says) in &damage {
            match bytes {
                None => fs::remove_file(&place).unwrap(),
                Some(bytes) => fs::write(&place, bytes).unwrap(),
            }
            let error = made.read(None).unwrap_err().to_string();
            assert!(error.contains(says), "{error}\nexpected: {says}");
            assert_eq!(made.is_stored(), stored, "{says}");
        }
        fs::write(&place, &blob).unwrap();
        let after = shown(&made.read(None).unwrap());
        assert!(before.is_none_or(|before| before == after));
    }
}

#[test]
fn a_layer_that_is_not_what_its_documents_say_is_refused() {
    let good = tar(&[(Regular, "x", "", &[7; 5000])]);
    let zstd = zstd::encode_all(&good[..], 1).unwrap();
    let (other, found, id) = (b"other".to_vec(), sha256(&good), sha256(b"other"));
    for (media, blob, tar, says) in [
        // Layers that were cut short before their digest was computed.
        (GZIP, gzip(&good)[..50].to_vec(), good.clone(), "layer sha256:".to_owned()),
        (ZSTD, zstd[..20].to_vec(), good.clone(), "layer sha256:".to_owned()),
        (PLAIN, good[..700].to_vec(), good.clone(), "layer sha256:".to_owned()),
        (
            GZIP,
            gzip(&good),
            other,
            format!("its unpacked bytes have SHA-256 {found}, expected {id}"),
        ),
        (
            "application/x-lzma",
            gzip(&good),
            good,
            "type `application/x-lzma`, expected a tar".to_owned(),
        ),
    ] {
        let made = Made::new();
        made.index(&[made.manifest("amd64", &[(media, blob, tar)])]);
        made.refused(&says);
    }
}

#[test]
fn documents_that_say_nothing_sound_are_refused() {
    let made = Made::of(&[]);
    for (index, says) in [
        ("{".to_owned(), "`index.json`: EOF"),
        (
            " ".repeat((4 << 20) + 1),
            "`index.json` has 4194305 bytes, more than the limit of 4194304",
        ),
        ("[".repeat(100_000), "`index.json`: "),
        (r#"{"manifests":[]}"#.to_owned(), "`index.json`: missing field `schemaVersion`"),
    ] {
        fs::write(made.path().join("index.json"), index).unwrap();
        made.refused(says);
    }
    fs::remove_file(made.path().join("index.json")).unwrap();
    made.refused("`index.json` is missing");

    let sha512 = format!("sha512:{}", "0".repeat(128));
    for digest in ["sha256:../../../../etc/passwd", "sha512:00", "sha256:ABCD", "", &sha512] {
        made.index(&[json!({ "mediaType": MANIFEST, "digest": digest, "size": 3 })]);
        made.refused(&format!("digest `{digest}`, expected `sha256:` and 64 digits"));
    }
    let mut large = made.manifest("amd64", &[]);
    large["size"] = json!(1_u64 << 50);
    made.index(&[large]);
    made.refused("has 1125899906842624 bytes, more than the limit of 4194304");

    // An index that names itself would need its own digest inside; one of another
    // name is damaged, and a long chain ends.
    let mut next = made.manifest("amd64", &[]);
    for _ in 0..6 {
        next = made.json(INDEX, &json!({ "schemaVersion": 2, "manifests": [next] }));
    }
    made.index(&[next]);
    made.refused("nested more than 4 deep");
    let own =
        json!({ "mediaType": INDEX, "digest": format!("sha256:{}", "0".repeat(64)), "size": 300 });
    let text = json!({ "schemaVersion": 2, "manifests": [own.clone()], "x": "" }).to_string();
    let text = text.replace("\"\"", &format!("\"{}\"", "x".repeat(300 - text.len())));
    fs::write(made.blob_path(own["digest"].as_str().unwrap()), text).unwrap();
    made.index(&[own]);
    made.refused("is damaged: its SHA-256 is");
    let many: Vec<_> = (0..100)
        .map(|i| made.json(INDEX, &json!({ "schemaVersion": 2, "manifests": [], "i": i })))
        .collect();
    made.index(&many);
    made.refused("more than 64 documents");

    fs::write(made.path().join("oci-layout"), r#"{"imageLayoutVersion":"2.0.0"}"#).unwrap();
    made.refused("layout version is `2.0.0`, expected 1.0.0");
}

#[test]
fn archives_that_are_none_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("image.tar");
    let open = |bytes: &[u8]| {
        fs::write(&file, bytes).unwrap();
        OciLayout::open(&file).map(drop).unwrap_err().to_string()
    };
    let whole = tar(&[(Regular, "oci-layout", "", &[b' '; 3000])]);
    for (says, bytes) in [
        ("the whole archive is compressed", gzip(&whole)),
        ("is empty", Vec::new()),
        ("not a valid tar", vec![7; 5000]),
        ("ends within `oci-layout`", whole[..1500].to_vec()),
        ("`oci-layout` is missing", tar(&[(Regular, "a", "", b"")])),
    ] {
        let error = open(&bytes);
        assert!(error.contains(says), "{error}, expected {says}");
        assert!(error.contains("image.tar"), "{error}");
    }
    assert!(matches!(OciLayout::open(Path::new("/no/such")), Err(Error::Io(_))));
}
