//! A fetch that is killed resumes where it stopped.

use std::fs;
use std::path::Path;
use std::process::{Child, Stdio};
use std::thread::sleep;
use std::time::Duration;

use crate::bundles::{assert_same, large, publish, text};
use crate::site::Site;

#[test]
fn a_killed_fetch_goes_on_where_it_was() {
    let site = Site::shared();
    let (bundle, dir) = (large(&site), site.scratch());
    let url = publish(&site, &bundle, &site.collection("killed"));
    let copy = dir.path().join("copy");
    // One shard is fetched at a time, so that some are left when the process is killed.
    let args = ["fetch", &url, text(&copy), "--jobs", "1", "--json"];
    let mut command = site.command(args);
    let fetch = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    kill_in_the_middle(fetch.spawn().unwrap(), &copy.join("data"));
    assert!(!copy.join("manifest.json").exists(), "the fetch was over before it was killed");
    // Files exist but were not written to their end, as after a loss of power.
    damage_the_end(&copy.join("data"));

    let report = site.json(["fetch", &url, text(&copy)]);
    assert_same(&copy, &bundle);
    assert!(report["bytes_kept"].as_u64().unwrap() >= 1 << 20, "{report}");
    assert!(report["bytes_fetched"].as_u64().unwrap() >= 1 << 20, "{report}");
}

/// Kills the process with SIGKILL once a temporary file has three blocks.
fn kill_in_the_middle(mut fetch: Child, data: &Path) {
    loop {
        let grown = unfinished(data).iter().any(|(_, len)| *len > 3 << 20);
        let ended = fetch.try_wait().unwrap();
        if grown || ended.is_some() {
            break;
        }
        sleep(Duration::from_millis(1));
    }
    let _ = fetch.kill();
    assert_eq!(fetch.wait().unwrap().code(), None, "the fetch ended before it could be killed");
}

/// Returns temporary files of shards with their lengths; their names begin with a dot.
fn unfinished(data: &Path) -> Vec<(std::path::PathBuf, u64)> {
    let Ok(entries) = fs::read_dir(data) else { return Vec::new() };
    let files =
        entries.flatten().map(|entry| (entry.path(), entry.metadata().map_or(0, |m| m.len())));
    let hidden = |path: &Path| path.file_name().unwrap().to_string_lossy().starts_with('.');
    files.filter(|(path, _)| hidden(path)).collect()
}

fn damage_the_end(data: &Path) {
    let mut unfinished = unfinished(data);
    unfinished.sort_by_key(|(_, len)| *len);
    let (path, len) = unfinished.pop().unwrap();
    let mut bytes = fs::read(&path).unwrap();
    for byte in bytes.iter_mut().skip(usize::try_from(len).unwrap() - 1000) {
        *byte = !*byte;
    }
    fs::write(path, bytes).unwrap();
}
