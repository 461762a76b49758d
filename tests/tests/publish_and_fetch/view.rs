//! `gular view` of a published bundle.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use serde_json::Value;

use crate::bundles::{publish, small};
use crate::site::Site;

/// A page, which ends with it.
struct Page {
    process: Child,
    port: u16,
    url: String,
}

impl Page {
    fn get(&self, path: &str) -> Vec<u8> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        let below = self.url.splitn(4, '/').nth(3).unwrap();
        let request =
            format!("GET /{below}{path} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\n\r\n", self.port);
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let end = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n").unwrap();
        assert!(answer.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&answer));
        answer.split_off(end + 4)
    }

    fn json(&self, path: &str) -> Value {
        serde_json::from_slice(&self.get(path)).unwrap()
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// All files below a folder.
fn files(dir: &Path, into: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() { files(&path, into) } else { into.push(path) }
    }
}

#[test]
fn a_published_bundle_is_shown_by_single_samples() {
    let site = Site::shared();
    let (bundle, dir) = (small(&site), site.scratch());
    let url = publish(&site, &bundle, &site.collection("viewed"));
    let mut command = site.command(["view", &url, "--no-open", "--json"]);
    command.env("GULAR_CACHE", dir.path()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut process = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let said: Value = serde_json::from_str(&line).unwrap();
    let port = u16::try_from(said["port"].as_u64().unwrap()).unwrap();
    assert_eq!(said["ssh"].as_str().unwrap().matches(&port.to_string()).count(), 2);
    let page = Page { process, port, url: said["url"].as_str().unwrap().to_owned() };

    let views = &page.json("api/bundle")["views"];
    assert!(views.as_array().unwrap().contains(&"samples".into()), "{views}");
    let listed = page.json("api/samples?split=train&class=1");
    let samples = listed["samples"].as_array().unwrap();
    assert_eq!(samples.len(), 6);
    let (id, key) = (samples[0]["id"].as_str().unwrap(), samples[0]["key"].as_str().unwrap());
    let sample = page.json(&format!("api/sample?id={id}"));
    assert_eq!(
        (&sample["key"], &sample["fields"][0]["picture"]["bands"]),
        (&samples[0]["key"], &3.into()),
        "{key}"
    );
    assert!(page.get(&format!("api/picture?id={id}")).starts_with(b"\x89PNG"));
    let shards = || {
        let mut all = Vec::new();
        files(dir.path(), &mut all);
        let is_shard = |path: &&PathBuf| {
            let name = path.file_name().unwrap().to_string_lossy();
            name.ends_with(".safetensors") && !name.contains(".index.")
        };
        all.iter().filter(is_shard).count()
    };
    assert_eq!(shards(), 0, "only single samples were fetched");
    // What training sees needs whole shards.
    let batch = page.json("api/batch?settings=%7B%22batch_size%22%3A2%7D");
    assert_eq!(batch["samples"].as_array().unwrap().len(), 2, "{batch}");
    assert!(shards() > 0);
}
