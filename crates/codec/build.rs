//! Does nothing. It exists so that `gular-codec-tools` is built early; see there.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
}
