//! Compiles bindings to functions of libtorch that tch does not offer, for feature `torch`.

fn main() {
    // Without this line, any change of the package would run the script again.
    println!("cargo:rerun-if-changed=build.rs");
    #[cfg(feature = "torch")]
    torch::compile();
}

#[cfg(feature = "torch")]
mod torch {
    use std::env;
    use std::path::PathBuf;

    const FILES: [&str; 3] = ["src/torch/autocast.cpp", "src/torch/grad.cpp", "src/torch/lend.cpp"];
    /// The kernel of `cuda`, for the test that runs it on the CPU.
    const KERNEL: [&str; 2] = ["src/cuda/convert.cu", "src/cuda/convert_on_host.cpp"];

    /// Compiles our C++, with the headers beside the library that `torch-sys` found.
    pub(super) fn compile() {
        for file in FILES.iter().chain(&KERNEL) {
            println!("cargo:rerun-if-changed={file}");
        }
        for name in ["LIBTORCH_INCLUDE", "LIBTORCH_CXX11_ABI", "DEP_TCH_LIBTORCH_LIB"] {
            println!("cargo:rerun-if-env-changed={name}");
        }
        let given = env::var_os("LIBTORCH_INCLUDE").map(PathBuf::from);
        let beside = env::var_os("DEP_TCH_LIBTORCH_LIB").map(|lib| PathBuf::from(lib).join(".."));
        let include = given.or(beside).unwrap_or_default().join("include");
        let abi = env::var("LIBTORCH_CXX11_ABI").unwrap_or_else(|_| "1".into());
        let mut build = cc::Build::new();
        build.cpp(true).std("c++17").include(include).warnings(false);
        build.define("_GLIBCXX_USE_CXX11_ABI", abi.as_str());
        if cfg!(feature = "cuda") {
            build.file(KERNEL[1]);
        }
        build.files(FILES).compile("gular_torch");
    }
}
