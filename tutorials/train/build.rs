//! Makes the program look for libtorch in `../lib` next to its folder, where an image has it.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-link-arg-bins=-Wl,-rpath,$ORIGIN/../lib");
}
