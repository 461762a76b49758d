//! The machine and libraries on which the exact bits of a training run depend.

use std::fs;

use gular_files::Env;
use serde::{Deserialize, Serialize};

/// The hardware and libraries that compute. On the CPU libtorch, oneDNN and MKL choose their
/// kernels by it, and another kernel adds up floats in another order. A resumed run ends with the
/// same bits only on an equal machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// The kind of processor: architecture, maker, instruction sets that kernels are chosen by,
    /// and variables that limit them.
    pub processor: String,
    /// The GPU's name; empty on the CPU.
    pub gpu: String,
    /// libtorch's version, as far as it is known.
    pub libtorch: String,
    /// Number of threads inside one operation.
    pub threads: i32,
}

/// Environment variables that affect which kernels are chosen.
const VARIABLES: [&str; 4] =
    ["ATEN_CPU_CAPABILITY", "ONEDNN_MAX_CPU_ISA", "MKL_CBWR", "MKL_ENABLE_INSTRUCTIONS"];

impl Machine {
    /// Describes this machine, with the GPU `gpu` unless that is empty.
    #[must_use]
    pub fn here(env: &Env, gpu: &str) -> Self {
        Self {
            processor: processor(env),
            gpu: gpu.to_owned(),
            libtorch: libtorch(),
            threads: tch::get_num_threads(),
        }
    }

    /// Lists what differs from `earlier`: a word, before, now.
    #[must_use]
    pub fn changes<'a>(&'a self, earlier: &'a Self) -> Vec<(&'static str, String, String)> {
        let threads = |machine: &Self| machine.threads.to_string();
        let pairs = [
            ("processor", earlier.processor.clone(), self.processor.clone()),
            ("GPU", earlier.gpu.clone(), self.gpu.clone()),
            ("libtorch", earlier.libtorch.clone(), self.libtorch.clone()),
            ("number of computing threads", threads(earlier), threads(self)),
        ];
        pairs.into_iter().filter(|(_, was, now)| was != now).collect()
    }
}

fn processor(env: &Env) -> String {
    let mut words = vec![std::env::consts::ARCH.to_owned()];
    // The first CPU is described; all CPUs of a machine are alike.
    let about = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    for name in ["vendor_id", "CPU implementer", "CPU part"] {
        let line =
            about.lines().find_map(|line| line.split_once(':').filter(|l| l.0.trim() == name));
        words.extend(line.map(|(_, value)| value.trim().to_owned()));
    }
    words.extend(instructions().into_iter().map(str::to_owned));
    for name in VARIABLES {
        words.extend(env.get(name).map(|value| format!("{name}={value}")));
    }
    words.join(" ")
}

/// The instruction sets that libtorch, oneDNN and MKL tell apart.
#[cfg(target_arch = "x86_64")]
fn instructions() -> Vec<&'static str> {
    let known = [
        ("avx", is_x86_feature_detected!("avx")),
        ("avx2", is_x86_feature_detected!("avx2")),
        ("fma", is_x86_feature_detected!("fma")),
        ("avxvnni", is_x86_feature_detected!("avxvnni")),
        ("avx512f", is_x86_feature_detected!("avx512f")),
        ("avx512bw", is_x86_feature_detected!("avx512bw")),
        ("avx512vnni", is_x86_feature_detected!("avx512vnni")),
        ("avx512bf16", is_x86_feature_detected!("avx512bf16")),
        ("avx512fp16", is_x86_feature_detected!("avx512fp16")),
    ];
    known.into_iter().filter(|(_, has)| *has).map(|(name, _)| name).collect()
}

#[cfg(not(target_arch = "x86_64"))]
fn instructions() -> Vec<&'static str> {
    Vec::new()
}

/// The text of the file `build-version` beside the loaded library; if there is none, the
/// length of the library.
fn libtorch() -> String {
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let mut paths = maps.lines().filter_map(|line| line.split_once('/')).map(|(_, path)| path);
    let Some(path) = paths.find(|path| path.contains("/libtorch_cpu.so")) else {
        return "linked in".to_owned();
    };
    let path = std::path::PathBuf::from(format!("/{path}"));
    let root = path.parent().and_then(|lib| lib.parent());
    let version = root.and_then(|root| fs::read_to_string(root.join("build-version")).ok());
    match version {
        Some(version) => version.trim().to_owned(),
        None => format!("{} bytes", fs::metadata(&path).map_or(0, |file| file.len())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_equals_itself_and_changes_are_named() {
        let here = Machine::here(&Env::default(), "");
        assert!(here.processor.starts_with(std::env::consts::ARCH), "{here:?}");
        assert!(!here.libtorch.is_empty() && here.threads > 0, "{here:?}");
        assert_eq!(Machine::here(&Env::default(), "").changes(&here), []);
        let limited = Machine::here(&Env::from_pairs(&[("MKL_CBWR", "COMPATIBLE")]), "");
        let changes = limited.changes(&here);
        assert_eq!(changes.len(), 1);
        assert_eq!(changes[0].0, "processor");
        assert_eq!(changes[0].2, format!("{} MKL_CBWR=COMPATIBLE", here.processor));
        let other = Machine { libtorch: "9".into(), threads: 3, ..here.clone() };
        let names: Vec<_> = other.changes(&here).into_iter().map(|(name, ..)| name).collect();
        assert_eq!(names, ["libtorch", "number of computing threads"]);
    }
}
