//! Seeds for the fuzz targets: `fuzz-seeds DIR` writes `DIR/TARGET/NAME`, one small valid
//! input for each thing that a target reads.
//!
//! Everything is made from the repository: golden bundles, the tutorial's recipe and lock, and
//! files that the writers of the rooms write. Equal sources give equal seeds, except for the ELF
//! file, which is the beginning of this program. Each seed must be accepted by its reader: with one
//! that is refused, a fuzzer would hardly get past the first check.

#![forbid(unsafe_code)]

use std::error::Error;
use std::fs;
use std::io::{Cursor, Write as _};
use std::path::{Path, PathBuf};

use gular_bundle::{
    Digest, Dtype, Envelope, Field, FieldName, Filter, Index, Manifest, ReadAt, Row, View,
    npy_header, rebuild_index, survey,
};
use gular_codec::tiff::{Geo, GeoTiffWriter, Number, Packing};
use gular_containers::UnixTime;
use gular_containers::debian::{Archive, relations};
use gular_containers::lock::ImageLock;
use gular_containers::recipe::Recipe;
use gular_containers::sif::{Arch, ObjectKind, Settings, Writer};
use gular_tests::{files, jpeg, noisy_png};

#[expect(dead_code, reason = "the tests of `bundle` use the rest")]
#[path = "../../../crates/bundle/tests/beton/mod.rs"]
mod beton;
#[path = "../../../crates/bundle/tests/mds/mod.rs"]
mod mds;
#[path = "../../../fuzz/src/wheel_index.rs"]
mod wheel_index;

use beton::Beton;
use mds::Mds;
use wheel_index::wheels_of;

type Result<T = (), E = Box<dyn Error>> = std::result::Result<T, E>;

/// The golden folder of each envelope, in the order in which the target `shard` numbers them.
const GOLDEN: [&str; Envelope::ALL.len()] =
    ["v1", "v1-arrow", "v1-parquet", "v1-hdf5", "v1-tar", "v1-squashfs"];

fn main() -> Result {
    let dir = std::env::args_os().nth(1).ok_or("usage: fuzz-seeds DIR")?;
    let seeds = Seeds { dir: PathBuf::from(dir) };
    bundles(&seeds)?;
    pictures(&seeds)?;
    recipes(&seeds)?;
    job_files(&seeds)?;
    wheels(&seeds)?;
    archives(&seeds)?;
    inputs(&seeds)?;
    openpgp(&seeds)?;
    answers(&seeds)?;
    documents(&seeds)?;
    layers(&seeds)?;
    ranks(&seeds)?;
    checkpoints(&seeds)
}

struct Seeds {
    dir: PathBuf,
}

impl Seeds {
    fn put(&self, target: &str, name: &str, bytes: &[u8]) -> Result {
        let dir = self.dir.join(target);
        fs::create_dir_all(&dir)?;
        Ok(fs::write(dir.join(name), bytes)?)
    }

    /// Writes a seed for a target whose first byte chooses what the rest is.
    fn put_as(&self, target: &str, name: &str, choice: u8, bytes: &[u8]) -> Result {
        self.put(target, name, &[&[choice], bytes].concat())
    }
}

fn bundles(seeds: &Seeds) -> Result {
    // These are the fields in both targets.
    let fields = [
        Field::bytes(FieldName::image(), vec!["image/jpeg".into()]),
        Field::label(),
        Field::fixed(FieldName::parse("mask").ok_or("a name")?, Dtype::U16, vec![2, 3]),
    ];
    for ((choice, folder), envelope) in (0..).zip(GOLDEN).zip(Envelope::ALL) {
        let golden = root().join("crates/bundle/tests/golden").join(folder);
        let bytes = fs::read(golden.join("manifest.json"))?;
        let manifest = Manifest::parse("manifest", &bytes)?;
        seeds.put("manifest", folder, &bytes)?;
        for entry in &manifest.shards {
            let read = |name: &str| fs::read(golden.join("data").join(name));
            let (name, bytes) = (entry.index.name.as_str(), read(entry.index.name.as_str())?);
            Index::parse(name, bytes.as_slice(), &fields, entry.file.bytes)?;
            seeds.put("index", name, &[&entry.file.bytes.to_le_bytes(), &bytes[..]].concat())?;
            let (name, bytes) = (entry.file.name.as_str(), read(entry.file.name.as_str())?);
            rebuild_index(&ReadAt::in_memory(name, bytes.clone()), envelope, &fields)?;
            seeds.put_as("shard", name, choice, &bytes)?;
        }
    }
    for (choice, (envelope, bytes)) in (u8::try_from(GOLDEN.len())?..).zip(adopted()) {
        let name = envelope.to_string();
        survey(&ReadAt::in_memory(&name, bytes.clone()), envelope)?;
        seeds.put_as("shard", &name, choice, &bytes)?;
    }
    let view = View::new(40, [0, 7, 39].map(Row), vec![(Row(7), 3), (Row(39), -1)])?;
    seeds.put("index", "view", &view.to_bytes(Digest::of(b"index")))?;
    let fields = [
        Field::bytes(FieldName::image(), vec!["image/jpeg".into()]),
        Field::label(),
        Field::fixed(FieldName::parse("cloud").ok_or("a name")?, Dtype::F64, vec![]),
    ];
    let filter = "class = cat,'dog' and not key ~ '*/draft/*' and (bytes > 10 or cloud <= 0.5)";
    Filter::parse(filter, &fields, &["cat".to_owned(), "dog".to_owned()])?;
    seeds.put("plan", "filter", filter.as_bytes())?;
    seeds.put("plan", "line", "3\t102400\ttrain/kläss 0/a.jpg".as_bytes())
}

/// Returns files of the envelopes that are only read.
fn adopted() -> [(Envelope, Vec<u8>); 2] {
    let image = |i: usize| vec![i as u8; 30 + i];
    let mds = Mds::new(3)
        .column("image", "jpeg", None, image)
        .column("label", "int", Some(8), |i| (i as i64).to_le_bytes().to_vec())
        .column("key", "str", None, |i| format!("c/{i}.jpg").into_bytes())
        .column("mask", "ndarray:uint16:2,3", Some(12), |i| vec![i as u8; 12]);
    let beton = Beton::new(3).jpegs("image", image).integers("label", |i| i as i64);
    [(Envelope::Mds, mds.bytes()), (Envelope::Ffcv, beton.bytes())]
}

fn pictures(seeds: &Seeds) -> Result {
    seeds.put("image", "jpeg", &jpeg(1))?;
    seeds.put("image", "png", &noisy_png(1, 24))?;
    seeds.put("image", "npy", &npy_header(Dtype::U16, &[3, 4]))?;
    for (name, packing) in [("tiff", Packing::None), ("tiff-deflate", Packing::Deflate)] {
        let out = Cursor::new(Vec::new());
        let geo = Geo {
            transform: Some([1.0, 2.0, 0.0, 3.0, 0.0, -2.0]),
            crs: Some("EPSG:32632".to_owned()),
            nodata: Some(9.0),
            bands: vec!["B04".to_owned(), "B08".to_owned()],
            scales: vec![[0.5, 1.0], [2.0, 0.0]],
            rpc: (0..92).map(f64::from).collect(),
            ..Geo::default()
        };
        let mut tiff = GeoTiffWriter::new(out, (5, 20), 2, Number::I16, geo, packing)?;
        tiff.push(&[7; 5 * 20 * 2 * 2])?;
        seeds.put("image", name, tiff.finish()?.get_ref())?;
    }
    for folder in ["pack/tests/data", "crates/codec/tests/fixtures"] {
        for (path, bytes) in files(&root().join(folder)) {
            let name = path.to_string_lossy();
            if name.ends_with(".jp2") || name.ends_with(".tif") {
                seeds.put("image", &name, &bytes)?;
            }
        }
    }
    Ok(())
}

/// Writes the files of the tests of `gular job lint`, and scripts that nest without an end.
fn job_files(seeds: &Seeds) -> Result {
    for (path, bytes) in files(&root().join("tests/tests/jobs/files")) {
        seeds.put("jobs", &path.to_string_lossy().replace('/', "-"), &bytes)?;
    }
    for (name, piece) in [("not", "! "), ("functions", "f() "), ("arithmetic", "$((")] {
        let text = format!("#!/bin/sh\necho\n{}", piece.repeat(20_000));
        seeds.put("jobs", name, text.as_bytes())?;
    }
    Ok(())
}

fn recipes(seeds: &Seeds) -> Result {
    for name in ["image.toml", "image.lock", "image-cuda.toml"] {
        let text = fs::read_to_string(root().join("tutorials/train").join(name))?;
        match name.ends_with(".lock") {
            true => drop(ImageLock::parse(&text, name)?),
            false => drop(Recipe::parse(&text, name)?),
        }
        seeds.put("recipe", name, text.as_bytes())?;
    }
    let package = "Package: libc6\nVersion: 2.36-9+deb12u10\nArchitecture: amd64\n\
        Depends: libgcc-s1, libcrypt1 (>= 1:4.4.10-10~) | libfoo [amd64 !i386]\n\
        Filename: pool/main/g/glibc/libc6_2.36.deb\nSize: 12\nSHA256: ";
    let list = format!("{package}{}\n\n", "ab".repeat(32));
    Archive::default().add(&list, "packages", "https://deb.debian.org/debian")?;
    seeds.put("recipe", "packages", list.as_bytes())?;
    let needs = "a (>= 1:2.0~rc1), b | c:any [linux-any], d (<< 3)";
    relations(needs).ok_or("not relations")?;
    seeds.put("recipe", "relations", needs.as_bytes())
}

/// Writes a page of an index and the `METADATA` of its wheel, as the target `wheel` joins them.
fn wheels(seeds: &Seeds) -> Result {
    let link = "<a href=\"PROJECT-2.11.0-cp311-cp311-manylinux_2_28_x86_64.whl#sha256=DIGEST\"\
        \ndata-yanked>x</a>\n<a href='PROJECT-2.11.0%2Bcpu-py3-none-any.whl#sha256=DIGEST'>";
    let metadata = "Metadata-Version: 2.1\nName: torch\nLicense: BSD-3-Clause\n\
        Requires-Dist: nvidia-cuda-runtime[a,b]==2.11.0; \
        (platform_system == \"Linux\" and extra != 'c') or python_version not in \"3.9\"\n\
        Requires-Dist: cuda-toolkit (>=2,<3,!=2.5.*)\n";
    let text = format!("{link}\n\n{metadata}");
    let found = wheels_of(&text, "2.11.0", Arch::Amd64)?;
    match found.iter().map(|wheel| wheel.name.as_str()).collect::<Vec<_>>().as_slice() {
        ["nvidia-cuda-runtime", "torch"] => seeds.put("wheel", "torch", text.as_bytes()),
        other => Err(format!("its wheels are {other:?}").into()),
    }
}

fn archives(seeds: &Seeds) -> Result {
    let program = fs::read(std::env::current_exe()?)?;
    let head = program.get(..64 << 10).unwrap_or(&program);
    seeds.put_as("archives", "elf", 0, head)?;
    let plain = tar_of(&[("usr/bin/x", b"program"), ("usr/share/doc/x/copyright", b"free")])?;
    seeds.put_as("archives", "deb", 1, &deb(&zstd::encode_all(&plain[..], 1)?)?)?;
    let metadata = b"Metadata-Version: 2.1\nName: x\nVersion: 1.0\n";
    let wheel = zip_of(&[("x/lib/libx.so.1", b"library"), ("x-1.0.dist-info/METADATA", metadata)])?;
    seeds.put_as("archives", "wheel", 2, &wheel)?;
    seeds.put_as("archives", "layer", 3, &plain)?;
    seeds.put_as("archives", "sif", 4, &sif()?)
}

/// Writes inputs of `gular pack`, as the target `pack` numbers them.
fn inputs(seeds: &Seeds) -> Result {
    let array = [&npy_header(Dtype::U8, &[2, 2, 1])[..], &[1, 2, 3, 4]].concat();
    let members = [("a/1.npy", array.as_slice()), ("a/2.npy", array.as_slice())];
    let coco = r#"{"images":[{"id":7,"file_name":"1.jpg","width":40,"height":30}],
"annotations":[{"id":1,"image_id":7,"category_id":3,"bbox":[1,2,10,12.5],"iscrowd":0}],
"categories":[{"id":3,"name":"cat"}]}"#;
    let lines = "{\"file_name\": \"1.jpg\", \"label\": \"cat\", \"box\": [1, 2.5]}\n{\"file_name\": \"2.jpg\", \"label\": null}\n";
    let seeds_of: [(&str, Vec<u8>); 8] = [
        ("zip", zip_of(&members)?),
        ("tar", tar_of(&members)?),
        ("pixels", b"label,pixel1,pixel2,pixel3,pixel4\n7,0,1,2,255\n\"2\",3,4,5,6\n".to_vec()),
        ("csv", b"file_name,label,age\n1.jpg,cat,3\n\"2.jpg\",\"a,b\",\n3,dog,0.5\n".to_vec()),
        ("jsonl", lines.as_bytes().to_vec()),
        ("parquet", parquet()?),
        ("coco", coco.as_bytes().to_vec()),
        ("yolo", b"0 0.5 0.5 0.25 0.125\n3 0.1 0.2 0.1 0.2\n".to_vec()),
    ];
    for (choice, (name, bytes)) in (0..).zip(seeds_of) {
        seeds.put_as("pack", name, choice, &bytes)?;
    }
    for name in ["splits/set_train_x.h5", "several.h5", "era.nc"] {
        let bytes = fs::read(root().join("pack/tests/data").join(name))?;
        seeds.put_as("pack", &name.replace('/', "-"), 253, &bytes)?;
    }
    Ok(())
}

/// Returns a table of names and labels, which is the golden shard of that envelope.
fn parquet() -> Result<Vec<u8>> {
    let golden = root().join("crates/bundle/tests/golden/v1-parquet/data");
    let files = fs::read_dir(golden)?.filter_map(|entry| Some(entry.ok()?.path()));
    let shard = files.filter(|path| path.extension().is_some_and(|e| e == "parquet")).min();
    Ok(fs::read(shard.ok_or("no golden Parquet shard")?)?)
}

/// Writes keys and texts that GnuPG signed.
fn openpgp(seeds: &Seeds) -> Result {
    let data = root().join("containers/tests/data/openpgp");
    for name in ["keys.gpg", "subkey-revoked.gpg", "revoked.gpg", "subkey.asc", "rsa.asc"] {
        seeds.put("openpgp", name, &fs::read(data.join(name))?)?;
    }
    Ok(())
}

fn tar_of(members: &[(&str, &[u8])]) -> Result<Vec<u8>> {
    let mut archive = tar::Builder::new(Vec::new());
    for (name, bytes) in members {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        archive.append_data(&mut header, name, *bytes)?;
    }
    Ok(archive.into_inner()?)
}

fn zip_of(members: &[(&str, &[u8])]) -> Result<Vec<u8>> {
    let mut archive = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for (name, bytes) in members {
        archive.start_file(*name, zip::write::SimpleFileOptions::default())?;
        archive.write_all(bytes)?;
    }
    Ok(archive.finish()?.into_inner())
}

/// Makes a Debian package around the compressed tar of its files (deb(5), ar(5)).
fn deb(data: &[u8]) -> Result<Vec<u8>> {
    let control = zstd::encode_all(&tar_of(&[("control", b"Package: x\nVersion: 1\n")])?[..], 1)?;
    let mut deb = b"!<arch>\n".to_vec();
    let members = [("debian-binary", &b"2.0\n"[..]), ("control.tar.zst", &control)];
    for (name, bytes) in members.into_iter().chain([("data.tar.zst", data)]) {
        writeln!(deb, "{name:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`", 0, 0, 0, 100_644, bytes.len())?;
        deb.extend_from_slice(bytes);
        deb.resize(deb.len().next_multiple_of(2), b'\n');
    }
    Ok(deb)
}

/// Makes a SIF whose root file system is the golden SquashFS shard.
fn sif() -> Result<Vec<u8>> {
    let golden = root().join("crates/bundle/tests/golden/v1-squashfs/data");
    let shards = fs::read_dir(golden)?.filter_map(|entry| Some(entry.ok()?.path()));
    let squashfs = shards.filter(|path| !path.to_string_lossy().contains(".index.")).min();
    let image = fs::read(squashfs.ok_or("no golden SquashFS shard")?)?;
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("a.sif");
    let settings = Settings { arch: Arch::Amd64, time: UnixTime(1_700_000_000) };
    let mut writer = Writer::new(fs::File::create(&path)?, settings)?;
    writer.add(ObjectKind::Deffile, "deffile", b"bootstrap: scratch\n")?;
    writer.start(ObjectKind::RootPartition(Arch::Amd64), "root")?;
    writer.write_all(&image)?;
    writer.end(&[]);
    writer.finish()?;
    Ok(fs::read(&path)?)
}

/// Writes answers of a federation's servers: headers of a director, a listing, a token.
fn answers(seeds: &Seeds) -> Result {
    let headers = "/ns/d/x\n\
        Location: https://c1:8443/ns/d/x?authz=TOKEN\n\
        Link: <https://c1:8443/ns/d/x>; rel=\"duplicate\"; pri=1; depth=2, \
        <https://c2:8443/ns/d/x>; rel=\"duplicate\"; pri=2; depth=2\n\
        X-Pelican-Namespace: namespace=/ns, require-token=true, collections-url=https://o:8443\n\
        X-Pelican-Authorization: issuer=https://iss\n\
        X-Pelican-Token-Generation: issuer=https://iss, max-scope-depth=3, base-path=/ns\n\
        Retry-After: 7\n\
        Digest: md5=XrY7u+Ae7tCTyyK7j1rNww==\n";
    seeds.put_as("answers", "director", 0, headers.as_bytes())?;
    let listing = r#"/ns/d
<?xml version="1.0" encoding="utf-8"?><D:multistatus xmlns:D="DAV:">
<D:response><D:href>/ns/d/</D:href><D:propstat><D:prop><D:resourcetype><D:collection/>
</D:resourcetype></D:prop><D:status>HTTP/1.1 200 OK</D:status></D:propstat></D:response>
<D:response><D:href>/ns/d/a%20b</D:href><D:propstat><D:prop><D:getcontentlength>12
</D:getcontentlength><D:resourcetype/></D:prop><D:status>HTTP/1.1 200 OK</D:status>
</D:propstat></D:response></D:multistatus>"#;
    seeds.put_as("answers", "listing", 1, listing.as_bytes())?;
    // {"alg":"none"} . {"iss":"https://iss","exp":2000000000,"scope":"storage.read:/d"} . x
    let token = "eyJhbGciOiJub25lIn0.eyJpc3MiOiJodHRwczovL2lzcyIsImV4cCI6MjAwMDAwMDAwMCwic2NvcGUi\
        OiJzdG9yYWdlLnJlYWQ6L2QifQ.x";
    seeds.put_as("answers", "token", 2, token.as_bytes())
}

/// Writes the documents of an image in a registry or layout, as the target `oci` joins them.
fn documents(seeds: &Seeds) -> Result {
    let digest = format!("sha256:{}", "ab".repeat(32));
    let index = r#"{"schemaVersion":2,"manifests":[MANIFEST]}"#;
    let layer = format!(
        r#"{{"mediaType":"application/vnd.oci.image.layer.v1.tar+gzip","digest":"{digest}","size":7}}"#
    );
    let manifest = format!(r#"{{"schemaVersion":2,"config":CONFIG,"layers":[{layer}]}}"#);
    let config = format!(
        r#"{{"architecture":"amd64","os":"linux","config":{{"Env":["A=b"],"Cmd":["x"]}},"rootfs":{{"type":"layers","diff_ids":["{digest}"]}},"history":[{{"created_by":"x"}}]}}"#
    );
    seeds.put("oci", "image", [index, &manifest, &config].join("\n\n").as_bytes())
}

/// Writes two layers, of which the second hides, links and replaces; and an archive as from `docker
/// save`.
fn layers(seeds: &Seeds) -> Result {
    use tar::EntryType::{Char, Directory, Link, Regular, Symlink};
    let below = layer_of(&[
        (Directory, "etc/", ""),
        (Regular, "etc/a", ""),
        (Link, "etc/twin", "etc/a"),
        (Symlink, "lib", "usr/lib"),
        (Regular, "lib/c", ""),
    ])?;
    let above = layer_of(&[
        (Regular, "etc/.wh.a", ""),
        (Regular, "usr/.wh..wh..opq", ""),
        (Char, "dev/null", ""),
        (Link, "lib64", "lib"),
        (Directory, "etc/twin/", ""),
    ])?;
    let len = u16::try_from(below.len())?.to_le_bytes();
    seeds.put_as("layers", "two", 0, &[&len, &below[..], &above[..]].concat())?;
    let digest = gular_containers::Sha256::of(&below);
    let config = format!(
        r#"{{"architecture":"amd64","os":"linux","rootfs":{{"type":"layers","diff_ids":["sha256:{digest}"]}}}}"#
    );
    let manifest = r#"[{"Config":"c.json","RepoTags":["a:b"],"Layers":["x/layer.tar"]}]"#;
    let saved = tar_of(&[
        ("x/layer.tar", &below[..]),
        ("c.json", config.as_bytes()),
        ("manifest.json", manifest.as_bytes()),
    ])?;
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("saved.tar");
    fs::write(&path, &saved)?;
    gular_containers::oci::OciLayout::open(&path)?.image(Some("a:b"), Arch::Amd64)?;
    seeds.put_as("layers", "docker", 1, &saved)
}

/// Writes what the ranks of a training run send each other: the first bytes, then messages.
fn ranks(seeds: &Seeds) -> Result {
    let about = Digest::of(b"about");
    let hello = [
        &b"gulargrp"[..],
        &1_u32.to_le_bytes(),
        &3_u64.to_le_bytes(),
        &4_u64.to_le_bytes(),
        about.as_bytes(),
    ];
    seeds.put_as("group", "hello", 0, &hello.concat())?;
    let ring = b"127.0.0.1:8080";
    let lost = [&[3][..], &1_u64.to_le_bytes(), &[0; 8], &[2, 0, 0, 0], b"a:", &[1, 0, 0, 0], b"x"];
    let messages: [(u8, Vec<u8>); 9] = [
        (1, 3000_u64.to_le_bytes().to_vec()),
        (2, Vec::new()),
        (3, b"weights f32 [2, 3]\n".to_vec()),
        (4, ring.to_vec()),
        (5, [&[7; 16][..], ring].concat()),
        (6, 12_u64.to_le_bytes().to_vec()),
        (7, lost.concat()),
        (8, lost.concat()),
        (9, Vec::new()),
    ];
    let mut all = Vec::new();
    for (kind, payload) in messages {
        all.push(kind);
        all.extend(u32::try_from(payload.len())?.to_le_bytes());
        all.extend(payload);
    }
    seeds.put_as("group", "messages", 1, &all)
}

/// Writes the record of a checkpoint without its own digest, which the target appends, and a
/// complete one.
fn checkpoints(seeds: &Seeds) -> Result {
    let (bundle, model) = (Digest::of(b"bundle"), Digest::of(b"abc"));
    let record = format!(
        r#"{{
  "format": "gular-checkpoint",
  "version": 1,
  "bundle": "{bundle}",
  "step": 12,
  "files": [{{ "name": "model", "bytes": 3, "digest": "{model}" }}],
"#
    );
    seeds.put_as("checkpoint", "record", 1, record.as_bytes())?;
    let whole = format!("{record}  \"digest\": \"{}\"\n}}\n", Digest::of(record.as_bytes()));
    seeds.put_as("checkpoint", "whole", 0, whole.as_bytes())
}

/// Makes a tar of nodes without bytes: type, path, link target.
fn layer_of(members: &[(tar::EntryType, &str, &str)]) -> Result<Vec<u8>> {
    let mut archive = tar::Builder::new(Vec::new());
    for (kind, path, link) in members {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(*kind);
        header.set_mode(0o755);
        header.set_path(path)?;
        header.set_size(0);
        if !link.is_empty() {
            header.set_link_name(link)?;
        }
        header.set_cksum();
        archive.append(&header, std::io::empty())?;
    }
    Ok(archive.into_inner()?)
}

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}
