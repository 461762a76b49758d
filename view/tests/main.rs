//! The page as a browser asks for it.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use gular_bundle::{
    About, BundlePath, DATA_DIR, Dtype, Envelope, Field, FieldName, Manifest, OpenOptions, Payload,
    Row, SampleId, ShardEntry, ShardIdx, ShardSpec, ShardWriter, Split, npy_header, write_manifest,
};
use gular_codec::{DecodeOptions, Decoder, encode_png};
use gular_runtime::{Bundle, Loader, LoaderOptions, Numbers, Transform, Turns};
use gular_view::{Run, SavedPage, Server, Site};
use serde_json::{Value, json};

const SIDE: u32 = 32;
const HOSTILE: &str = "<script>alert('class')</script>\u{202e}";

/// The `n`th picture: its colours say where a pixel is.
fn pixels(n: u8) -> Vec<u8> {
    let pixel = |x: u32, y: u32| [(x * 8) as u8, (y * 8) as u8, n * 10];
    (0..SIDE).flat_map(|y| (0..SIDE).flat_map(move |x| pixel(x, y))).collect()
}

/// Label and picture of the `n`th sample.
type Content = fn(u8) -> (i64, u8);

fn shard(
    data: &Path,
    split: Split,
    fields: &[Field],
    samples: std::ops::Range<u8>,
    content: Content,
) -> ShardEntry {
    let mut writer =
        ShardWriter::create(data, &ShardSpec::new(Envelope::Shards, split, fields)).unwrap();
    for n in samples {
        let (label, picture) = content(n);
        let image = encode_png(&pixels(picture), SIDE, SIDE).unwrap();
        let mask: Vec<u8> = (0..SIDE * SIDE).map(|i| u8::from(i % SIDE < SIDE / 2)).collect();
        let mask = encode_png(&mask, SIDE, SIDE).unwrap();
        let sides: Vec<u8> =
            [0.25_f64, 0.0, 0.75, 1.0].iter().flat_map(|v| v.to_le_bytes()).collect();
        let boxes = [npy_header(Dtype::F64, &[1, 4]), sides].concat();
        let label = label.to_le_bytes();
        let caption = format!("<img src=x onerror=alert({n})>");
        let key = BundlePath::parse(&format!("{split}/<b>{n}</b>.png")).unwrap();
        let values = [&image[..], &label, &mask, &boxes, caption.as_bytes()];
        writer.push(&key, &values).unwrap();
    }
    writer.finish().unwrap()
}

fn write(dir: &Path) {
    write_of(dir, |n| (i64::from(n % 2), n));
}

fn write_of(dir: &Path, content: Content) {
    let data = dir.join(DATA_DIR);
    std::fs::create_dir(&data).unwrap();
    let bytes = |name: &str, media: &str| {
        Field::bytes(FieldName::parse(name).unwrap(), vec![media.to_owned()])
    };
    let fields = vec![
        bytes("image", "image/png"),
        Field::label(),
        bytes("mask", "image/png"),
        bytes("boxes", "application/x-npy"),
        bytes("caption", "text/plain"),
    ];
    let shards = vec![
        shard(&data, Split::Train, &fields, 0..8, content),
        shard(&data, Split::Train, &fields, 8..12, content),
        shard(&data, Split::Val, &fields, 12..16, content),
    ];
    let manifest = Manifest {
        envelope: Envelope::Shards,
        payload: Payload::Encoded,
        classes: vec!["cat".into(), HOSTILE.into()],
        fields,
        made: [].into(),
        about: About::default(),
        statistics: None,
        shards,
    };
    write_manifest(dir, &manifest).unwrap();
}

fn open(dir: &Path) -> Arc<Bundle> {
    Arc::new(Bundle::open(dir, OpenOptions::default()).unwrap())
}

/// A page that is served until it is dropped.
struct Served {
    port: u16,
    secret: String,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    _dir: tempfile::TempDir,
}

impl Served {
    fn new() -> Self {
        Self::with(|n| (i64::from(n % 2), n))
    }

    fn with(content: Content) -> Self {
        let dir = tempfile::tempdir().unwrap();
        write_of(dir.path(), content);
        Self::of(Site::new(open(dir.path()), "bundle", dir.path().to_owned()), dir)
    }

    fn of(site: Site, dir: tempfile::TempDir) -> Self {
        let server = Server::bind(None, site).unwrap();
        let (port, url) = (server.port(), server.url());
        let secret = url.trim_end_matches('/').rsplit('/').next().unwrap().to_owned();
        let stop = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&stop);
        let thread = Some(thread::spawn(move || server.run(&flag).unwrap()));
        Self { port, secret, stop, thread, _dir: dir }
    }

    /// Sends bytes; returns the whole answer.
    fn send(&self, bytes: &[u8]) -> Vec<u8> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.write_all(bytes).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        answer
    }

    fn status(&self, line: &str, headers: &str) -> u16 {
        let answer = self.send(format!("{line} HTTP/1.1\r\n{headers}\r\n").as_bytes());
        let text = String::from_utf8_lossy(&answer);
        text.split(' ').nth(1).unwrap().parse().unwrap()
    }

    fn get(&self, path: &str) -> (u16, String, Vec<u8>) {
        let Self { port, secret, .. } = self;
        let answer = self.send(
            format!("GET /{secret}/{path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n").as_bytes(),
        );
        let end = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n").unwrap();
        let head = String::from_utf8(answer[..end].to_vec()).unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, head, answer[end + 4..].to_vec())
    }

    fn json(&self, path: &str) -> Value {
        let (status, _, body) = self.get(path);
        let text = String::from_utf8(body).unwrap();
        assert_eq!(status, 200, "{path}: {text}");
        serde_json::from_str(&text).unwrap()
    }

    /// What is found in the background, once it is there.
    fn result(&self, path: &str) -> Value {
        let found = (0..6000).find_map(|_| {
            let found = self.json(path)["result"].clone();
            thread::sleep(Duration::from_millis(10));
            (!found.is_null()).then_some(found)
        });
        found.unwrap()
    }

    fn refused(&self, path: &str) -> (u16, String) {
        let (status, _, body) = self.get(path);
        let json: Value = serde_json::from_slice(&body).unwrap();
        (status, json["error"].as_str().unwrap().to_owned())
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
    }
}

#[test]
fn only_the_page_itself_is_answered() {
    let page = Served::new();
    let (port, secret) = (page.port, &page.secret);
    let own = format!("Host: 127.0.0.1:{port}\r\n");
    let get = format!("GET /{secret}/");
    assert_eq!(page.status(&get, &own), 200);
    assert_eq!(page.status(&get, &format!("Host: localhost:{port}\r\n")), 200);
    assert_eq!(page.status(&get, &format!("{own}Origin: http://127.0.0.1:{port}\r\n")), 200);
    for (line, headers, status) in [
        (get.as_str(), String::new(), 403),
        (&get, format!("Host: evil.example:{port}\r\n"), 403),
        (&get, "Host: 127.0.0.1\r\n".to_owned(), 403),
        (&get, format!("{own}Origin: http://evil.example\r\n"), 403),
        (&get, format!("{own}Origin: null\r\n"), 403),
        (&get, format!("{own}Host: evil.example\r\n"), 400),
        (&format!("POST /{secret}/"), own.clone(), 405),
        (&format!("DELETE /{secret}/api/sample?id=0.0"), own.clone(), 405),
        ("GET /", own.clone(), 404),
        (&format!("GET /{}/", "0".repeat(32)), own.clone(), 404),
        (&format!("GET /{secret}/../../etc/passwd"), own.clone(), 404),
        (&format!("GET /{secret}/api/nothing"), own.clone(), 404),
    ] {
        assert_eq!(page.status(line, &headers), status, "{line} {headers}");
    }
    for bytes in [&b"\x16\x03\x01\x02\x00"[..], &[0; 70_000], b"GET\r\n\r\n", b"\xff\r\n\r\n"] {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let _ = stream.write_all(bytes);
        drop(stream);
    }
    assert_eq!(page.status(&get, &own), 200, "it still answers");
}

#[test]
fn idle_connections_do_not_shut_the_page_out() {
    let page = Served::new();
    let idle: Vec<TcpStream> =
        (0..100).map(|_| TcpStream::connect(("127.0.0.1", page.port)).unwrap()).collect();
    assert_eq!(page.json("api/bundle")["views"], json!(["samples", "training", "pairs", "about"]));
    drop(idle);
}

#[test]
fn names_are_data_and_never_part_of_the_page() {
    let page = Served::new();
    for path in ["", "view.css", "view.js"] {
        let (status, head, body) = page.get(path);
        let text = String::from_utf8(body).unwrap();
        assert_eq!(status, 200);
        assert!(
            head.contains("default-src 'none'; script-src 'self'; style-src 'self';"),
            "{head}"
        );
        assert!(!head.contains("unsafe") && head.contains("nosniff"), "{head}");
        // A text is never taken for HTML, and nothing is asked of another server.
        for word in
            ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "https://"]
        {
            assert!(!text.contains(word), "{path}: {word}");
        }
        assert!(!text.contains("style=") && !text.contains("onclick=\""), "{path}");
    }
    let about = page.json("api/bundle");
    assert_eq!(about["classes"][1], HOSTILE);
    let (_, head, _) = page.get("api/bundle");
    assert!(head.contains("Content-Type: application/json"));
    let sample = page.json("api/sample?id=0.3");
    assert_eq!((&sample["key"], &sample["class"]), (&json!("train/<b>3</b>.png"), &json!(HOSTILE)));
    assert_eq!(sample["fields"][4]["text"], "<img src=x onerror=alert(3)>");
}

#[test]
fn samples_are_listed_page_by_page() {
    let page = Served::new();
    let ids = |query: &str| {
        let found = page.json(&format!("api/samples?{query}"));
        let ids = found["samples"].as_array().unwrap().iter().map(|s| s["id"].as_str().unwrap());
        (ids.map(str::to_owned).collect::<Vec<_>>(), found["next"].clone())
    };
    let (first, next) = ids("n=10");
    assert_eq!((first.len(), first[9].as_str(), &next), (10, "1.1", &json!("1.2")));
    let (rest, next) = ids("n=10&from=1.2");
    assert_eq!((rest.first().unwrap().as_str(), rest.len(), &next), ("1.2", 6, &Value::Null));
    assert_eq!(ids("split=val").0, ["2.0", "2.1", "2.2", "2.3"]);
    assert_eq!(ids("split=val&class=1").0, ["2.1", "2.3"]);
    assert_eq!(ids("key=%3CB%3E1").0, ["0.1", "1.2", "1.3", "2.0", "2.1", "2.2", "2.3"]);
    assert_eq!(ids("where=label%20%3D%201%20and%20split%20!%3D%20train").0, ["2.1", "2.3"]);
    assert_eq!(ids("where=caption%20~%20'*alert(7)*'").0, ["0.7"]);
    let (status, text) = page.refused("api/samples?where=nothing%20%3D%201");
    assert!(status == 400 && text.contains("is not a condition: at character 1"), "{text}");
    for query in ["split=all", "class=x", "from=9.9", "from=0.8", "n=-1"] {
        assert_eq!(page.refused(&format!("api/samples?{query}")).0, 400, "{query}");
    }
    assert_eq!(page.refused("api/sample?id=0.99").0, 400);
}

#[test]
fn a_page_reads_no_index_that_it_does_not_need() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path());
    let bundle = open(dir.path());
    for entry in &bundle.manifest().shards[1..] {
        std::fs::remove_file(bundle.path_of(&entry.index)).unwrap();
    }
    let site = Site::new(bundle, "bundle", dir.path().to_owned());
    let page = Served::of(site, dir);
    assert_eq!(page.json("api/samples?n=8")["samples"].as_array().unwrap().len(), 8);
    let (status, text) = page.refused("api/samples?n=9");
    assert!(status == 500 && text.contains("cannot"), "{text}");
    // The fault is shown beside what could be counted.
    let counts = loop {
        let counts = page.json("api/counts");
        if counts["read"] == counts["of"] {
            break counts;
        }
    };
    assert!(counts["fault"].as_str().unwrap().contains("cannot"), "{counts}");
    assert_eq!(counts["splits"]["train"], json!([4, 4]));
}

#[test]
fn a_sample_is_shown_with_its_picture_mask_and_boxes() {
    let page = Served::new();
    let sample = page.json("api/sample?id=1.2");
    assert_eq!((&sample["number"], &sample["split"]), (&json!(10), &json!("train")));
    for (id, previous, next) in [
        ("0.0", json!(null), json!("0.1")),
        ("1.0", json!("0.7"), json!("1.1")),
        ("2.3", json!("2.2"), json!(null)),
    ] {
        let sample = page.json(&format!("api/sample?id={id}"));
        assert_eq!((&sample["previous"], &sample["next"]), (&previous, &next), "{id}");
    }
    let fields = &sample["fields"];
    assert_eq!(fields[0]["picture"], json!({"width": 32, "height": 32, "bands": 3}));
    assert_eq!(fields[2]["legend"][0]["pixels"], 512);
    assert_eq!(fields[3]["boxes"], json!([[0.25, 0.0, 0.75, 1.0]]));
    let decode = |path: &str| {
        let (status, head, body) = page.get(path);
        assert!(status == 200 && head.contains("image/png"), "{head}");
        Decoder::new(DecodeOptions::default()).decode(&body).unwrap()
    };
    assert_eq!(decode("api/picture?id=1.2").data(), pixels(10));
    let swapped = decode("api/picture?id=1.2&bands=2,1,0");
    assert_eq!(swapped.data()[..3], [100, 0, 0]);
    assert_eq!(decode("api/picture?id=1.2&size=8").width(), 8);
    assert_eq!(decode("api/overlay?id=1.2&field=mask").data().len(), 3 * 32 * 32);
    let bands = page.json("api/histogram?id=1.2");
    assert_eq!((&bands[0]["name"], &bands[0]["most"]), (&json!("red"), &json!(248.0)));
    let (status, text) = page.refused("api/picture?id=1.2&field=caption");
    assert!(status == 500 && text.contains("`caption` of `train/<b>10</b>.png`"), "{text}");
    assert_eq!(page.refused("api/picture?id=1.2&bands=1,x").0, 400);
    assert_eq!(page.refused("api/picture?id=1.2&field=none").0, 400);
    let pairs = page.result("api/pairs?kind=equal");
    assert_eq!((&pairs["compared"], &pairs["n"]), (&json!(16), &json!(0)));
}

/// A leak between splits may be in samples that are not listed.
#[test]
fn a_group_of_duplicates_says_what_is_true_of_all_its_samples() {
    let page = Served::with(|n| (i64::from(n == 13), if n < 14 { 0 } else { n }));
    let found = page.result("api/pairs?kind=equal");
    let group = &found["groups"][0];
    assert_eq!((&found["n"], &group["n"]), (&json!(1), &json!(14)));
    let shown = group["samples"].as_array().unwrap();
    assert!(shown.len() < 14 && shown.iter().all(|one| one["split"] == "train"), "{group}");
    assert_eq!(group["splits"], json!(["train", "val"]));
    assert_eq!(group["labels_differ"], json!(true));
}

#[test]
fn the_sample_that_is_shown_is_the_one_that_was_asked_for() {
    // Those before it have unknown classes.
    let page = Served::with(|n| (if n < 3 { -1 } else { 0 }, n));
    for settings in [json!({"unknown_labels": "drop"}), json!({"on_bad_sample": "replace"})] {
        let encoded = encoded(&settings);
        for (id, n) in [("0.1", 1), ("0.4", 4), ("1.3", 11), ("2.0", 12)] {
            let found = page.json(&format!("api/epochs?id={id}&settings={encoded}&n=2"));
            let split = if n < 12 { "train" } else { "val" };
            for epoch in 0..2 {
                let shown = &found["epochs"][epoch];
                assert_eq!(shown["key"], format!("{split}/<b>{n}</b>.png"), "{settings} {found}");
            }
        }
    }
}

/// Settings as a part of an address.
fn encoded(settings: &Value) -> String {
    settings.to_string().bytes().map(|byte| format!("%{byte:02x}")).collect()
}

/// The batch of the page is that of a loader with the same settings, and the crop that is drawn on
/// the whole picture is where its pixels come from.
#[test]
fn what_training_sees_is_what_the_loader_delivers() {
    let page = Served::new();
    let settings = json!({
        "split": "train", "batch_size": 4, "seed": 5, "numbers": "stored",
        "transform": {"random": {"width": 16, "height": 16, "scale": [0.25, 0.25], "ratio": [1.0, 1.0], "flip": 0.5}},
    });
    let encoded = encoded(&settings);
    let found = page.json(&format!("api/batch?settings={encoded}&epoch=3&step=1"));
    assert_eq!((&found["step"], &found["steps"]), (&json!(1), &json!(3)));

    let mut options = LoaderOptions {
        batch_size: 4,
        numbers: Numbers::Stored,
        ..LoaderOptions::new(Split::Train)
    };
    options.order.seed = 5;
    options.transform = Transform::Train {
        width: 16,
        height: 16,
        scale: (0.25, 0.25),
        ratio: (1.0, 1.0),
        flip: 0.5,
    };
    let bundle = open(page._dir.path());
    let mut loader = Loader::new(bundle, options).unwrap();
    loader.set_turns(Turns { first: 1, of: 3 });
    let batch = loader.epoch(3).next().unwrap().unwrap();
    let rows = found["samples"].as_array().unwrap();
    assert_eq!(rows.len(), 4);
    for (row, shown) in rows.iter().enumerate() {
        assert_eq!(shown["key"], json!(batch.keys()[row]));
        let png = shown["image"].as_str().unwrap().strip_prefix("data:image/png;base64,").unwrap();
        let png = base64::Engine::decode(&base64::prelude::BASE64_STANDARD, png).unwrap();
        let shown_pixels = Decoder::new(DecodeOptions::default()).decode(&png).unwrap();
        let delivered = &batch.images()[row * 768..(row + 1) * 768];
        assert_eq!(shown_pixels.data(), delivered);
        // A quarter of the area is half of each side, at full size: pixels say where they are from.
        let corner = |n: usize, axis: usize| shown["crop"][n][axis].as_f64().unwrap();
        let (left, right, top) = (corner(0, 0), corner(1, 0), corner(0, 1));
        assert_eq!(((right - left).abs(), corner(3, 1) - top), (16.0, 16.0));
        let first = if right > left { left } else { left - 1.0 };
        assert_eq!((delivered[0], delivered[1]), ((first * 8.0) as u8, (top * 8.0) as u8));
        assert_eq!(shown["overlays"][0]["name"], "mask");
        // The stored box is the middle half of the columns.
        let column = |x: f64| ((x - left) / (right - left)).clamp(0.0, 1.0);
        let (one, other) = (column(8.0), column(24.0));
        let expected = [one.min(other), 0.0, one.max(other), 1.0];
        let boxes =
            if expected[2] - expected[0] < 1.0 / 16.0 { json!([]) } else { json!([expected]) };
        assert_eq!(shown["boxes"], boxes, "{shown}");
        // One sample by itself, in the same epoch.
        let id = shown["id"].as_str().unwrap();
        let alone = page.json(&format!("api/epochs?id={id}&settings={encoded}&epoch=3&n=2"));
        assert_eq!(
            (&alone["epochs"][0]["image"], &alone["epochs"][0]["epoch"]),
            (&shown["image"], &json!(3))
        );
        assert_eq!(alone["epochs"].as_array().unwrap().len(), 2);
    }
    let code = found["code"]["python"].as_str().unwrap();
    assert!(
        code.starts_with(
            "gular.DataLoader(\"bundle\", \"train\", 4, transform=gular.RandomCrop(16,"
        ),
        "{code}"
    );
    assert!(code.contains("fields=[\"mask\", \"boxes\"]"), "{code}");
    let rust = found["code"]["rust"].as_str().unwrap();
    assert!(rust.contains("fields: vec![\"mask\".to_owned(), \"boxes\".to_owned()]"), "{rust}");
}

#[test]
fn blended_batches_have_the_loaders_weights() {
    let page = Served::new();
    let settings = encoded(&json!({"mixup": 0.5, "batch_size": 4}));
    let found = page.json(&format!("api/batch?settings={settings}&epoch=2"));
    let blend = Some(gular_runtime::augment::Blend::MixUp { alpha: 0.5 });
    let options = LoaderOptions { batch_size: 4, blend, ..LoaderOptions::new(Split::Train) };
    let options = options.fitted(
        &open(page._dir.path()),
        gular_runtime::Unchosen { transform: true, bands: true },
        &AtomicBool::new(false),
    );
    let mut loader = Loader::new(open(page._dir.path()), options.unwrap()).unwrap();
    let batch = loader.epoch(2).next().unwrap().unwrap();
    let rows = found["samples"].as_array().unwrap();
    assert_eq!(rows.len(), 4);
    assert!(batch.blended().iter().any(|blended| blended.weight < 1.0));
    for (shown, blended) in rows.iter().zip(batch.blended()) {
        assert_eq!(shown["blended"]["weight"], json!(blended.weight));
        assert_eq!(shown["blended"]["label"], json!(blended.label));
        assert_eq!(shown["overlays"], json!([]));
    }
    let code = found["code"]["python"].as_str().unwrap();
    assert!(!code.contains("fields"), "the loader would refuse them: {code}");
}

#[test]
fn settings_that_are_not_used_or_too_large_are_refused() {
    let page = Served::new();
    let large = json!({"resize": {"width": 256, "height": 256}});
    for (settings, word) in [
        (json!({"batch": 3}), "unknown field `batch`"),
        (json!({"only": ["a"]}), "`only` is not used here"),
        (json!({"source": "b"}), "`source` is not used here"),
        (json!({"digest": format!("blake3:{}", "0".repeat(64))}), "`digest` is not used here"),
        (json!({"check": "always"}), "`check` is not used here"),
        (json!({"batch_size": 99_999_999}), "takes too much memory"),
        // Images of f32 and masks: 470 MB.
        (json!({"batch_size": 512, "transform": large}), "takes too much memory"),
        (
            json!({"batch_size": 1, "transform": {"resize": {"width": 9000, "height": 9000}}}),
            "takes too much memory",
        ),
    ] {
        let (status, text) = page.refused(&format!("api/batch?settings={}", encoded(&settings)));
        assert!(status == 400 && text.contains(word), "{settings}: {text}");
    }
    let (_, text) = page.refused("api/batch?settings=%7B%22batch_size%22%3A0%7D");
    assert!(text.contains("batch_size"), "{text}");
}

#[test]
fn predictions_are_joined_with_their_pictures_by_key() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path());
    let metrics = dir.path().join("run1");
    std::fs::create_dir(&metrics).unwrap();
    std::fs::write(
        metrics.join("metrics.jsonl"),
        "{\"step\":1,\"loss\":2.0}\n{\"step\":2,\"loss\":1.5}\n",
    )
    .unwrap();
    let table = dir.path().join("answers.csv");
    let header = format!("key,split,label,prediction,probability_cat,\"probability_{HOSTILE}\"\n");
    let row = |n: u8, label: &str, predicted: &str, cat: f64| {
        format!("val/<b>{n}</b>.png,val,{label},{predicted},{cat},{}\n", 1.0 - cat)
    };
    let rows = [
        row(12, "cat", "0", 0.9),
        row(13, HOSTILE, "0", 0.75),
        row(14, "cat", "1", 0.125),
        row(99, "cat", "1", 0.4),
        row(15, "", "0", 0.6),
    ];
    std::fs::write(&table, header + &rows.concat()).unwrap();
    let runs = [&metrics, &table].map(|path| Run::new(path).unwrap()).to_vec();
    let site = Site::new(open(dir.path()), "bundle", dir.path().to_owned()).with_runs(runs);
    let page = Served::of(site, dir);
    assert_eq!(page.json("api/bundle")["views"][3], "runs");
    let curves = page.json("api/runs");
    assert_eq!(
        curves["runs"][0]["curves"][0],
        json!({"name": "loss", "every": 1, "points": [[1.0, 2.0], [2.0, 1.5]]})
    );
    let found = page.result("api/predictions?table=0");
    assert_eq!(
        (&found["n"], &found["right"], &found["unknown"]),
        (&json!(5), &json!(1), &json!(0))
    );
    assert_eq!((&found["confusion"], &found["elsewhere"]), (&json!([[1, 2], [2, 0]]), &json!(0)));
    let of = |list: &str| {
        let list = found[list].as_array().unwrap().iter();
        list.map(|one| (one["id"].clone(), one["score"].as_f64().unwrap())).collect::<Vec<_>>()
    };
    assert_eq!(
        of("surest"),
        [(json!("2.2"), 0.875), (json!("2.1"), 0.75), (Value::Null, 0.6), (json!("2.3"), 0.6)]
    );
    assert_eq!(found["worst"][0]["score_of_class"], 0.125);
    assert_eq!(page.refused("api/predictions?table=1").0, 400);
}

/// Where the table has no labels, or other ones, the bundle says which they are.
#[test]
fn a_table_is_compared_with_the_labels_of_its_bundle() {
    let result = |table: &str| {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path());
        let path = dir.path().join("answers.csv");
        std::fs::write(&path, table).unwrap();
        let runs = vec![Run::new(&path).unwrap()];
        let site = Site::new(open(dir.path()), "bundle", dir.path().to_owned()).with_runs(runs);
        let page = Served::of(site, dir);
        page.result("api/predictions?table=0")
    };
    let example = |found: &Value, of: &str| (found[of]["n"].clone(), found[of]["key"].clone());
    let none = (json!(0), json!(""));
    // Sample `n` has label `n % 2`.
    let found = result(
        "key;prediction\ntrain/<b>2</b>.png;0\ntrain/<b>3</b>.png;0\nval/<b>13</b>.png;1\nelse;1\n",
    );
    assert_eq!(found["labels_of_bundle"], 4);
    assert_eq!(
        (&found["n"], &found["right"], &found["unknown"]),
        (&json!(4), &json!(2), &json!(1))
    );
    assert_eq!(found["confusion"], json!([[1, 0], [1, 1]]));
    let joined = &found["joined"];
    assert_eq!(example(joined, "missing"), (json!(1), json!("else")));
    assert_eq!((example(joined, "twice"), example(joined, "other_label")), (none.clone(), none));

    let found = result(
        "key,split,label,prediction\ntrain/<b>3</b>.png,train,0,0\ntrain/<b>3</b>.png,train,1,0\ntrain/<b>2</b>.png,val,0,0\n",
    );
    assert_eq!(found["labels_of_bundle"], 0);
    let joined = &found["joined"];
    assert_eq!(joined["rows"], 3);
    // The key is in another split.
    assert_eq!(example(joined, "missing"), (json!(1), json!("train/<b>2</b>.png")));
    assert_eq!(example(joined, "twice"), (json!(1), json!("train/<b>3</b>.png")));
    assert_eq!(example(joined, "other_label"), (json!(1), json!("train/<b>3</b>.png")));
}

/// Without the bundle, classes are those of the table, and nothing asks for samples.
#[test]
fn a_run_is_shown_without_its_bundle() {
    let dir = tempfile::tempdir().unwrap();
    let table = dir.path().join("answers.csv");
    let rows = "key,label,prediction,score_1,prediction_2,score_2\na,10,9,2.5,10,-1\nb,9,9,3,10,0\nc,10,9,-4,8,-5\n";
    std::fs::write(&table, rows).unwrap();
    let runs = vec![Run::new(&table).unwrap()];
    let page = Served::of(Site::of_runs(runs, "answers.csv", dir.path().to_owned()), dir);
    let about = page.json("api/bundle");
    assert_eq!((&about["views"], &about["source"]), (&json!(["runs"]), &json!("answers.csv")));
    let found = page.result("api/predictions?table=0");
    assert_eq!(found["classes"], json!(["9", "10"]));
    assert_eq!((&found["confusion"], &found["elsewhere"]), (&json!([[1, 0], [2, 0]]), &json!(0)));
    let keys = |list: &str| {
        let list = found[list].as_array().unwrap().iter();
        list.map(|one| one["key"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    // Scores may be negative. The class of `c` is not among its most probable ones.
    assert_eq!(
        (keys("surest"), keys("worst")),
        (vec!["a".into(), "c".into()], vec!["c".into(), "a".into()])
    );
    for path in
        ["samples", "sample?id=0.0", "picture?id=0.0", "batch", "pairs?kind=equal", "counts"]
    {
        let (status, text) = page.refused(&format!("api/{path}"));
        assert!(status == 400 && text.contains("without the bundle"), "{path}: {text}");
    }
}

#[test]
fn a_page_in_one_file_has_what_it_shows() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path());
    let bundle = open(dir.path());
    let id = |shard, row| SampleId { shard: ShardIdx(shard), row: Row(row) };
    let page = SavedPage::of_samples(&bundle, "b", &[id(0, 1), id(2, 3)]).unwrap().html();
    assert!(page.as_bytes().starts_with(SavedPage::START));
    let (_, data) = page.split_once("id=\"saved\">").unwrap();
    let data: Value = serde_json::from_str(data.split_once("</script>").unwrap().0).unwrap();
    assert_eq!(data["samples"][1]["key"], "val/<b>15</b>.png");
    assert_eq!(data["sample"]["0.1"]["fields"][3]["boxes"], json!([[0.25, 0.0, 0.75, 1.0]]));
    assert_eq!(data["counts"]["splits"], json!({"train": [6, 6], "val": [2, 2]}));
    assert_eq!(data["histogram"]["2.3"][0]["name"], "red");
    let picture = data["picture"]["2.3"].as_str().unwrap();
    let picture = picture.strip_prefix("data:image/png;base64,").unwrap();
    let picture = base64::Engine::decode(&base64::prelude::BASE64_STANDARD, picture).unwrap();
    assert_eq!(Decoder::new(DecodeOptions::default()).decode(&picture).unwrap().data(), pixels(15));
}

/// What the page adds to the program, which its documentation states.
#[test]
fn the_page_has_the_weight_that_is_documented() {
    let page = Served::new();
    let files = ["", "view.css", "view.js"].map(|path| page.get(path).2.len());
    let bytes: usize = files.iter().sum();
    assert!(bytes <= 500_000, "{bytes}");
    let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/view.md");
    let said = format!("{} KB of the program", bytes.div_ceil(1000));
    assert!(std::fs::read_to_string(docs).unwrap().contains(&said), "docs/view.md: {said}");
}
