//! Seeds for the fuzz targets: `fuzz-seeds DIR` writes `DIR/TARGET/NAME`, one small valid
//! input for each thing that a target reads.
//!
//! Everything comes out of the repository: golden bundles, the tutorial's recipe and
//! lock, and what the writers of the rooms write. Equal sources give equal seeds, but for
//! the ELF file, which is the head of this program.

use std::error::Error;
use std::fs;
use std::io::{Cursor, Write as _};
use std::path::{Path, PathBuf};

use gular_containers::sif::{Arch, Kind, Settings, Writer};
use gular_tests::{jpeg, noisy_png};

type Result<T = (), E = Box<dyn Error>> = std::result::Result<T, E>;

/// Golden folder of each envelope, in the order in which the target `shard` numbers them.
const GOLDEN: [&str; 6] = ["v1", "v1-arrow", "v1-parquet", "v1-hdf5", "v1-tar", "v1-squashfs"];

fn main() -> Result {
    let dir = std::env::args_os().nth(1).ok_or("usage: fuzz-seeds DIR")?;
    let seeds = Seeds { dir: PathBuf::from(dir) };
    bundles(&seeds)?;
    pictures(&seeds)?;
    recipes(&seeds)?;
    archives(&seeds)?;
    openpgp(&seeds)?;
    answers(&seeds)?;
    documents(&seeds)
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

    /// A seed of a target whose first byte chooses what the rest is.
    fn put_as(&self, target: &str, name: &str, choice: u8, bytes: &[u8]) -> Result {
        self.put(target, name, &[&[choice], bytes].concat())
    }
}

fn bundles(seeds: &Seeds) -> Result {
    for (choice, folder) in (0..).zip(GOLDEN) {
        let golden = root().join("crates/bundle/tests/golden").join(folder);
        seeds.put("manifest", folder, &fs::read(golden.join("manifest.json"))?)?;
        for entry in fs::read_dir(golden.join("data"))? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let bytes = fs::read(&path)?;
            if name.contains(".index.") {
                seeds.put("index", &name, &bytes)?;
            } else {
                seeds.put_as("shard", &name, choice, &bytes)?;
            }
        }
    }
    seeds.put("plan", "line", "3\t102400\ttrain/kläss 0/a.jpg".as_bytes())
}

fn pictures(seeds: &Seeds) -> Result {
    seeds.put("image", "jpeg", &jpeg(1))?;
    seeds.put("image", "png", &noisy_png(1, 24))
}

fn recipes(seeds: &Seeds) -> Result {
    for name in ["image.toml", "image.lock", "image-cuda.toml"] {
        seeds.put("recipe", name, &fs::read(root().join("tutorials/train").join(name))?)?;
    }
    let package = "Package: libc6\nVersion: 2.36-9+deb12u10\nArchitecture: amd64\n\
        Depends: libgcc-s1, libcrypt1 (>= 1:4.4.10-10~) | libfoo [amd64 !i386]\n\
        Filename: pool/main/g/glibc/libc6_2.36.deb\nSize: 12\nSHA256: ";
    seeds.put("recipe", "packages", format!("{package}{}\n\n", "ab".repeat(32)).as_bytes())?;
    seeds.put("recipe", "relations", b"a (>= 1:2.0~rc1), b | c:any [linux-any], d (<< 3)")
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

/// Keys and texts that GnuPG signed.
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

/// A Debian package around the compressed tar of its files (deb(5), ar(5)).
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

/// A SIF whose root file system is the golden SquashFS shard.
fn sif() -> Result<Vec<u8>> {
    let golden = root().join("crates/bundle/tests/golden/v1-squashfs/data");
    let shards = fs::read_dir(golden)?.filter_map(|entry| Some(entry.ok()?.path()));
    let squashfs = shards.filter(|path| !path.to_string_lossy().contains(".index.")).min();
    let image = fs::read(squashfs.ok_or("no golden SquashFS shard")?)?;
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("a.sif");
    let settings = Settings { arch: Arch::Amd64, time: 1_700_000_000 };
    let mut writer = Writer::new(fs::File::create(&path)?, settings)?;
    writer.add(Kind::Deffile, "deffile", b"bootstrap: scratch\n")?;
    writer.start(Kind::RootPartition(Arch::Amd64), "root")?;
    writer.write_all(&image)?;
    writer.end(&[]);
    writer.finish()?;
    Ok(fs::read(&path)?)
}

/// What the servers of a federation say: headers of a director, a listing, a token.
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

/// What a registry or a layout says of an image, as the target `oci` joins it.
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

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}
