//! Stops the build with a clear message where libjpeg-turbo's own build would fail with an unclear
//! one.

use std::env;

#[allow(unreachable_pub, reason = "a library on its own")]
#[path = "src/lib.rs"]
mod tools;

fn main() {
    // A build script that failed is run again in any case.
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=src/lib.rs");
    if env::var_os("CARGO_FEATURE_REQUIRED").is_none() {
        return;
    }
    // These variables name another libjpeg-turbo than the one that would be built.
    let target = env::var("TARGET").unwrap_or_default().to_uppercase().replace('-', "_");
    let source = env::var(format!("{target}_TURBOJPEG_SOURCE"));
    let source = source.or_else(|_| env::var("TURBOJPEG_SOURCE"));
    if source.is_ok_and(|source| !source.eq_ignore_ascii_case("vendor")) {
        return;
    }
    let arch = env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
    for line in tools::missing(&arch, has) {
        println!("cargo::error={line}");
    }
}

/// Returns whether a program is in `PATH`, or is named in one of the ways that the crate `cmake`
/// and CMake itself accept.
fn has(program: &str) -> bool {
    let target = env::var("TARGET").unwrap_or_default().replace('-', "_");
    let is_of_target = |name: &str| {
        name.strip_prefix("CMAKE_").is_some_and(|rest| rest.replace('-', "_") == target)
    };
    let is_named = |name: &str| match program {
        "cmake" => name == "CMAKE" || name.ends_with("_CMAKE") || is_of_target(name),
        // With another generator CMake needs another program, and says which.
        "make" => name == "CMAKE_GENERATOR",
        "nasm" => name == "ASM_NASM",
        _ => false,
    };
    let mut names = env::vars_os().map(|(name, _)| name);
    let named = names.any(|name| is_named(&name.to_string_lossy()));
    let path = env::var_os("PATH").unwrap_or_default();
    let file = format!("{program}{}", env::consts::EXE_SUFFIX);
    named || env::split_paths(&path).any(|dir| dir.join(&file).is_file())
}
