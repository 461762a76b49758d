//! Reading ahead on a slow file system, which a preloaded library simulates.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use crate::fixtures::{Recipe, make};
use gular_bundle::{Dtype, Field, FieldName};
use gular_runtime::{Bundle, Digest, Loader, LoaderOptions, OpenOptions, Split, Transform};

/// A library with which each read of a sample waits a millisecond, like one from a server. At its
/// end a process says how many reads waited at the same time.
const LIBRARY: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/types.h>
#include <unistd.h>

static atomic_int waiting, most;

__attribute__((destructor)) static void say(void) {
    dprintf(2, "at once: %d\n", most);
}

ssize_t pread64(int fd, void *to, size_t len, off64_t offset) {
    static ssize_t (*next)(int, void *, size_t, off64_t);
    if (!next) next = (ssize_t (*)(int, void *, size_t, off64_t))dlsym(RTLD_NEXT, "pread64");
    if (len >= 512) {
        int n = atomic_fetch_add(&waiting, 1) + 1, known = most;
        while (n > known && !atomic_compare_exchange_weak(&most, &known, n)) {}
        usleep(1000);
        atomic_fetch_sub(&waiting, 1);
    }
    return next(fd, to, len, offset);
}
"#;

const SIDE: u64 = 16;
const SHARDS: [usize; 3] = [200, 200, 200];
const N: usize = 600;

#[test]
fn reads_that_wait_are_made_ahead_and_change_no_tensor() {
    let dir = tempfile::tempdir().unwrap();
    let (code, library) = (dir.path().join("slow.c"), dir.path().join("slow.so"));
    fs::write(&code, LIBRARY).unwrap();
    let cc = Command::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .arg(&library)
        .arg(&code)
        .arg("-ldl")
        .output();
    let Ok(built) = cc else {
        println!("skip slow_reads: no `cc`, install: apt-get install gcc");
        return;
    };
    assert!(built.status.success(), "{built:?}");
    let pixels = |i: usize| (0..SIDE * SIDE * 3).map(move |p| (p as usize * 7 + i) as u8).collect();
    let replace: Vec<(usize, Vec<u8>)> = (0..N).map(|i| (i, pixels(i))).collect();
    let image = Field::fixed(FieldName::image(), Dtype::U8, vec![SIDE, SIDE, 3]);
    let recipe = Recipe {
        train: &SHARDS,
        val: &[],
        replace: &replace,
        image: Some(image),
        ..Recipe::default()
    };
    let made = make(&recipe);
    let run = |library: Option<&Path>, read_ahead: u64| {
        let mut child = Command::new(env::current_exe().unwrap());
        child.args(["--exact", "slow_reads::child", "--nocapture"]);
        child.env("GULAR_TEST_BUNDLE", made.dir.path());
        child.env("GULAR_TEST_READ_AHEAD", read_ahead.to_string());
        if let Some(library) = library {
            child.env("LD_PRELOAD", library);
        }
        let out = child.output().unwrap();
        let (text, said) = (String::from_utf8(out.stdout).unwrap(), String::from_utf8(out.stderr));
        let line = text.lines().find_map(|line| line.split("loaded: ").nth(1));
        let (ahead, digest) = line.unwrap_or_else(|| panic!("{text}")).split_once(' ').unwrap();
        let at_once =
            said.unwrap().lines().find_map(|line| line.strip_prefix("at once: ")?.parse().ok());
        (ahead.parse::<usize>().unwrap(), at_once.unwrap_or(0_usize), digest.to_owned())
    };
    let (_, _, expected) = run(None, 1 << 20);
    let (ahead, at_once, digest) = run(Some(&library), 0);
    // Each of the two threads that decode waits for its own reads.
    assert_eq!((ahead, &digest), (0, &expected));
    assert!((1..=2).contains(&at_once), "{at_once}");
    let (ahead, at_once, digest) = run(Some(&library), 1 << 20);
    assert_eq!(digest, expected);
    assert!(ahead > N / 2 && at_once > 4, "{ahead} samples, {at_once} at once");
}

/// Runs in the processes that [`reads_that_wait_are_made_ahead_and_change_no_tensor`] starts.
#[test]
fn child() {
    let Some(dir) = env::var_os("GULAR_TEST_BUNDLE").map(PathBuf::from) else { return };
    let read_ahead = env::var("GULAR_TEST_READ_AHEAD").unwrap().parse().unwrap();
    let bundle = Arc::new(Bundle::open(&dir, OpenOptions::default()).unwrap());
    let side = u32::try_from(SIDE).unwrap();
    let options = LoaderOptions {
        transform: Transform::Resize { width: side, height: side },
        threads: 2,
        read_ahead_bytes: read_ahead,
        ..LoaderOptions::new(Split::Train)
    };
    let mut loader = Loader::new(bundle, options).unwrap();
    let mut bytes = Vec::new();
    for batch in loader.epoch(0) {
        bytes.extend_from_slice(batch.unwrap().images());
    }
    println!("loaded: {} {}", loader.stats().n_read_ahead, Digest::of(&bytes));
}
