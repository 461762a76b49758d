//! Libraries that CUDA programs load although no ELF header names them.

/// Libraries that come with a driver, and so from the host: `nvliblist.conf` of
/// Apptainer, by their beginnings.
const FROM_HOST: [&str; 8] = [
    "libcuda.so",
    "libcudadebugger.so",
    "libnvcuvid.so",
    "libnvidia-",
    "libnvoptix.so",
    "libGLX_nvidia.so",
    "libEGL_nvidia.so",
    "libGLESv2_nvidia.so",
];

/// Libraries that a library opens by name once it runs, so that no header lists them. A `*` stands
/// for any version. These are the names in the wheels of torch 2.5 to 2.11.
const OPENED: [(&str, &[&str]); 4] = [
    (
        "libcudnn.so.9",
        &[
            "libcudnn_adv.so.9",
            "libcudnn_cnn.so.9",
            "libcudnn_engines_precompiled.so.9",
            "libcudnn_engines_runtime_compiled.so.9",
            "libcudnn_graph.so.9",
            "libcudnn_heuristic.so.9",
            "libcudnn_ops.so.9",
        ],
    ),
    (
        "libcudnn.so.8",
        &[
            "libcudnn_adv_infer.so.8",
            "libcudnn_adv_train.so.8",
            "libcudnn_cnn_infer.so.8",
            "libcudnn_cnn_train.so.8",
            "libcudnn_ops_infer.so.8",
            "libcudnn_ops_train.so.8",
        ],
    ),
    (
        "libtorch_cuda.so",
        &["libcaffe2_nvrtc.so", "libcusolver.so.*", "libnvrtc.so.*", "libtorch_cuda_linalg.so"],
    ),
    ("libnvrtc.so.*", &["libnvrtc-builtins.so.*"]),
];

/// Returns whether a library of this name comes from the host with its driver, and so must not be
/// in an image.
pub fn from_host(name: &str) -> bool {
    FROM_HOST.iter().any(|start| name.starts_with(start))
}

/// The names that `library` opens once it runs; to be compared by [`matches`].
pub(crate) fn opened_by(library: &str) -> impl Iterator<Item = &'static str> {
    let openers = OPENED.iter().filter(move |(opener, _)| matches(opener, library));
    openers.flat_map(|(_, names)| names.iter().copied())
}

/// Whether `name` is `pattern`, or begins with it if `pattern` ends with `*`.
pub(crate) fn matches(pattern: &str, name: &str) -> bool {
    pattern.strip_suffix('*').map_or(name == pattern, |start| name.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_opened_is_known_by_its_opener() {
        let of = |name| opened_by(name).collect::<Vec<_>>();
        assert_eq!(of("libnvrtc.so.13"), ["libnvrtc-builtins.so.*"]);
        assert_eq!(of("libcudnn.so.9").len(), 7);
        assert_eq!(of("libcudnn_ops.so.9"), [""; 0]);
        assert!(matches("libnvrtc.so.*", "libnvrtc.so.13"));
        assert!(!matches("libnvrtc.so.*", "libnvrtc.alt.so.13"));
    }

    #[test]
    fn the_driver_is_the_hosts() {
        for name in ["libcuda.so.1", "libcuda.so", "libnvidia-ml.so.1"] {
            assert!(from_host(name), "{name}");
        }
        for name in ["libcudart.so.13", "libcudnn.so.9", "libnvrtc.so.13"] {
            assert!(!from_host(name), "{name}");
        }
    }
}
