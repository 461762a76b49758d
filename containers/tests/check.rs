//! What a check finds: nothing in a sound image, and each fault by itself.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gular_containers::check::{About, CheckReport, Finding, Form, Runs, Severity, check};
use gular_containers::elf::ElfFacts;
use gular_containers::oci::Compressor;
use gular_containers::recipe::{Runtime, TargetSection};
use gular_containers::rootfs::{FileBytes, Layer, RootPath, Rootfs, What};
use gular_containers::sif::{Arch, Squash};
use gular_containers::singularity::{Description, describe};

const PROGRAM: &str = "opt/app/bin/train";
const LIB: &str = "opt/app/lib";

fn path(text: &str) -> RootPath {
    RootPath::new(text).unwrap()
}

/// Files of this process's memory, as the kernel says.
fn mapped() -> BTreeSet<PathBuf> {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let paths = maps.lines().filter_map(|line| line.find('/').map(|at| PathBuf::from(&line[at..])));
    paths.filter(|path| matches!(ElfFacts::open(path), Ok(Some(_)))).collect()
}

/// An image, and all that a check is told about it.
struct TestImage {
    tree: Rootfs,
    target: TargetSection,
    arch: Arch,
    form: Form,
    file_name: String,
    file_bytes: u64,
    program: Option<RootPath>,
    env: BTreeMap<String, String>,
    labels: BTreeMap<String, String>,
    recipe: String,
    scratch: bool,
    cuda: Option<(u32, u32)>,
}

impl TestImage {
    /// An image with this very test as its program, and its libraries.
    fn sound() -> Self {
        let mut tree = Rootfs::default();
        let program = fs::read_link("/proc/self/exe").unwrap();
        let interpreter = ElfFacts::open(&program).unwrap().unwrap().interpreter.unwrap();
        for file in mapped().iter().filter(|file| **file != program) {
            let name = file.file_name().unwrap().to_str().unwrap();
            add_file(&mut tree, Layer::Base, &format!("usr/lib/{name}"), file);
        }
        add_file(&mut tree, Layer::Base, &interpreter, Path::new(&interpreter));
        add_file(&mut tree, Layer::App, PROGRAM, &program);
        for shell in ["bin/sh", "bin/bash"] {
            add_file(&mut tree, Layer::Base, shell, Path::new("/bin/sh"));
        }
        let mut image = Self {
            tree,
            target: TargetSection::default(),
            arch: if cfg!(target_arch = "aarch64") { Arch::Arm64 } else { Arch::Amd64 },
            form: Form::Sif(Some(Squash::Gzip)),
            file_name: "train-0123456789ab.sif".to_owned(),
            file_bytes: 1 << 20,
            program: Some(path(PROGRAM)),
            env: [("OMP_NUM_THREADS".to_owned(), "1".to_owned())].into(),
            labels: [("org.opencontainers.image.licenses".to_owned(), "MIT".to_owned())].into(),
            recipe: "[image]\nname = \"train\"\n[app]\npackage = \"train\"\n".to_owned(),
            scratch: false,
            cuda: None,
        };
        let of = Description {
            arch: image.arch,
            command: &[format!("/{PROGRAM}")],
            arguments: &[],
            env: &image.env,
            labels: &image.labels,
            recipe: &image.recipe,
        };
        describe(&mut image.tree, &of).unwrap();
        image
    }

    fn check(&self) -> CheckReport {
        let about = About {
            arch: self.arch,
            form: self.form,
            file_name: Some(&self.file_name),
            file_bytes: Some(self.file_bytes),
            program: self.program.as_ref(),
            env: &self.env,
            labels: &self.labels,
            recipe: &self.recipe,
            scratch: self.scratch,
            host_paths: &["/data/of/mine".to_owned()],
            cuda: self.cuda,
        };
        check(&self.tree, &about, &self.target).unwrap()
    }

    fn add(&mut self, at: &str, mode: u16, what: What) {
        self.tree.add(Layer::App, &path(at), mode, what).unwrap();
    }

    fn text(&mut self, at: &str, mode: u16, text: &str) {
        self.tree.add_text(Layer::App, &path(at), mode, text).unwrap();
    }

    fn remove(&mut self, at: &str) {
        self.tree.remove(&path(at));
    }

    /// A library with this GPU code: (capability, bytes) of machine code, and of PTX.
    fn gpu(&mut self, name: &str, cubin: &[(u32, usize)], ptx: &[u32]) {
        let mut bytes = elf(self.arch);
        let entries = cubin.iter().map(|(sm, len)| entry(2, *sm, *len));
        let entries: Vec<u8> =
            entries.chain(ptx.iter().map(|sm| entry(1, *sm, 9))).flatten().collect();
        bytes.extend([0x50, 0xed, 0x55, 0xba, 1, 0, 16, 0]);
        bytes.extend((entries.len() as u64).to_le_bytes());
        bytes.extend(entries);
        let what = What::File(FileBytes::Bytes(Arc::from(bytes)));
        self.add(&format!("{LIB}/{name}"), 0o755, what);
    }
}

fn add_file(tree: &mut Rootfs, layer: Layer, at: &str, file: &Path) {
    let source = FileBytes::of(file).unwrap();
    tree.add(layer, &path(at), 0o755, What::File(source)).unwrap();
}

/// The header of a library, with no bytes after it.
fn elf(arch: Arch) -> Vec<u8> {
    let mut bytes = b"\x7fELF\x02\x01\x01".to_vec();
    bytes.resize(64, 0);
    bytes[16] = 3;
    bytes[18] = if arch == Arch::Amd64 { 62 } else { 183 };
    bytes[20] = 1;
    bytes[52] = 64;
    bytes[54] = 56;
    bytes[58] = 64;
    bytes
}

/// An entry of a fat binary.
fn entry(kind: u16, sm: u32, payload: usize) -> Vec<u8> {
    let mut bytes = vec![0; 64 + payload];
    bytes[..2].copy_from_slice(&kind.to_le_bytes());
    bytes[4..8].copy_from_slice(&64_u32.to_le_bytes());
    bytes[8..16].copy_from_slice(&(payload as u64).to_le_bytes());
    bytes[28..32].copy_from_slice(&sm.to_le_bytes());
    bytes
}

/// Exactly these rules fire, at these severities, for these subjects.
fn fires(image: &TestImage, expected: &[(Severity, &str, &str)]) -> Vec<Finding> {
    let report = image.check();
    let found: Vec<_> = report
        .findings
        .iter()
        .map(|finding| (finding.severity, finding.rule, finding.subject.as_str()))
        .collect();
    assert_eq!(found, expected, "{:#?}", report.findings);
    let refused = expected.iter().any(|(severity, _, _)| *severity == Error);
    assert_eq!(report.refused(), refused);
    report.findings
}

use Severity::{Error, Note, Warning};

#[test]
fn a_sound_image_has_no_findings() {
    let image = TestImage::sound();
    fires(&image, &[]);
    let report = image.check();
    assert!(report.gpus.rows.is_empty() && report.cuda_runtime.is_none());
    assert!(report.glibc.as_ref().unwrap().starts_with("2."), "{:?}", report.glibc);
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["findings"], serde_json::json!([]));
    assert!(json["bytes"].as_u64().unwrap() > 1 << 20);
}

#[test]
fn libraries_that_are_missing_too_old_or_for_another_processor() {
    let mut image = TestImage::sound();
    image.remove("usr/lib/libgcc_s.so.1");
    let found = fires(&image, &[(Error, "missing-library", "/opt/app/bin/train")]);
    assert!(found[0].message.contains("`libgcc_s.so.1`"), "{found:?}");
    assert!(found[0].hint.is_some());

    // A library that is in the image, but not needed by the program.
    let mut image = TestImage::sound();
    let bytes = patched("libgcc_s.so.1", "libgcc_x.so.1");
    image.add("opt/app/lib/plugin.so", 0o755, bytes);
    fires(&image, &[(Error, "missing-library", "/opt/app/lib/plugin.so")]);

    let mut image = TestImage::sound();
    let version = {
        let program = ElfFacts::open(Path::new("/proc/self/exe")).unwrap().unwrap();
        let needed = program.versions_needed.iter();
        needed.filter(|(l, _)| l == "libc.so.6").map(|(_, v)| v.clone()).next().unwrap()
    };
    image.add(PROGRAM, 0o755, patched(&version, &version.replace("GLIBC_2", "GLIBC_9")));
    let found = fires(&image, &[(Error, "glibc", "/opt/app/bin/train")]);
    assert!(found[0].message.contains("ends at GLIBC_2."), "{found:?}");

    let mut image = TestImage::sound();
    let interpreter = ElfFacts::open(Path::new("/proc/self/exe")).unwrap().unwrap().interpreter;
    image.remove(&interpreter.unwrap());
    fires(&image, &[(Error, "interpreter", "/opt/app/bin/train")]);

    let mut image = TestImage::sound();
    let other = if image.arch == Arch::Amd64 { Arch::Arm64 } else { Arch::Amd64 };
    let what = What::File(FileBytes::Bytes(Arc::from(elf(other))));
    image.add("opt/app/lib/liba.so", 0o755, what);
    fires(&image, &[(Error, "processor", "/opt/app/lib/liba.so")]);

    let mut image = TestImage::sound();
    let what = What::File(FileBytes::Bytes(Arc::from(&b"\x7fELF\x02\x01\x01 and no more"[..])));
    image.add("opt/app/lib/liba.so", 0o755, what);
    fires(&image, &[(Error, "elf", "/opt/app/lib/liba.so")]);
}

/// This program, with a text in its headers replaced by one of the same length.
fn patched(from: &str, to: &str) -> What {
    let mut bytes = fs::read("/proc/self/exe").unwrap();
    let from = [from.as_bytes(), b"\0"].concat();
    let at = bytes.windows(from.len()).position(|window| window == from).unwrap();
    bytes[at..at + to.len()].copy_from_slice(to.as_bytes());
    What::File(FileBytes::Bytes(Arc::from(bytes)))
}

#[test]
fn what_is_opened_only_later_must_be_there() {
    let cudnn = ["adv", "cnn", "engines_precompiled", "engines_runtime_compiled", "graph"];
    let mut image = TestImage::sound();
    for name in cudnn.map(|part| format!("libcudnn_{part}.so.9")) {
        image.gpu(&name, &[], &[]);
    }
    image.gpu("libcudnn_heuristic.so.9", &[], &[]);
    image.gpu("libcudnn.so.9", &[], &[]);
    let found = fires(&image, &[(Error, "opened-library", "/opt/app/lib/libcudnn.so.9")]);
    assert!(found[0].message.contains("`libcudnn_ops.so.9`"), "{found:?}");
    image.gpu("libcudnn_ops.so.9", &[], &[]);
    fires(&image, &[]);

    image.gpu("libtorch_cuda.so", &[(80, 9)], &[]);
    image.gpu("libcudart.so.12", &[], &[]);
    image.gpu("libcaffe2_nvrtc.so", &[], &[]);
    image.gpu("libcusolver.so.11", &[], &[]);
    image.gpu("libnvrtc.so.12", &[], &[]);
    image.gpu("elsewhere/libnvrtc-builtins.so.12.6", &[], &[]);
    let found = fires(
        &image,
        &[
            (Error, "opened-library", "/opt/app/lib/libnvrtc.so.12"),
            (Error, "opened-library", "/opt/app/lib/libtorch_cuda.so"),
        ],
    );
    assert!(found[1].message.contains("`libtorch_cuda_linalg.so`"), "{found:?}");
    image.gpu("libnvrtc-builtins.so.12.6", &[], &[]);
    image.gpu("libtorch_cuda_linalg.so", &[], &[]);
    fires(&image, &[]);
}

/// Python loads one package before another that needs its libraries, and some wheels
/// bring libraries for what few machines have.
#[test]
fn libraries_of_python_packages_may_come_from_one_another() {
    const SITE: &str = "usr/local/lib/python3.11/dist-packages";
    let mut image = TestImage::sound();
    let at = |name: &str| format!("{SITE}/{name}");
    let needs = || patched("libgcc_s.so.1", "libother.so.1");
    image.add(&at("mine/_C.cpython-311-x86_64-linux-gnu.so"), 0o755, needs());
    image.add(&at("mine/plugin.so"), 0o755, needs());
    let found = fires(
        &image,
        &[
            (
                Error,
                "missing-library",
                "/usr/local/lib/python3.11/dist-packages/mine/_C.cpython-311-x86_64-linux-gnu.so",
            ),
            (Warning, "missing-library", "/usr/local/lib/python3.11/dist-packages/mine/plugin.so"),
        ],
    );
    assert!(found[1].message.ends_with("; programs that use it fail"), "{found:?}");
    let arch = image.arch;
    image.add(
        &at("torch/lib/libother.so.1"),
        0o755,
        What::File(FileBytes::Bytes(elf(arch).into())),
    );
    fires(&image, &[]);
    // A library that is opened later may be in another package, too.
    for name in [
        "adv",
        "cnn",
        "engines_precompiled",
        "engines_runtime_compiled",
        "graph",
        "heuristic",
        "ops",
    ] {
        let name = at(&format!("nvidia/cudnn/lib/libcudnn_{name}.so.9"));
        image.add(&name, 0o755, What::File(FileBytes::Bytes(elf(arch).into())));
    }
    image.add(&at("mine/libcudnn.so.9"), 0o755, What::File(FileBytes::Bytes(elf(arch).into())));
    fires(&image, &[]);
}

#[test]
fn the_host_s_libraries_and_stubs_are_refused() {
    let mut image = TestImage::sound();
    image.gpu("libcuda.so.1", &[], &[]);
    image.gpu("libnvidia-ml.so.550.54.15", &[], &[]);
    image.gpu("stubs/libcublas.so", &[], &[]);
    fires(
        &image,
        &[
            (Error, "driver-library", "/opt/app/lib/libcuda.so.1"),
            (Error, "driver-library", "/opt/app/lib/libnvidia-ml.so.550.54.15"),
            (Error, "stub", "/opt/app/lib/stubs/libcublas.so"),
        ],
    );
}

/// torch 2.11 in small: machine code by architecture as `libtorch_cuda` has it.
fn torch() -> TestImage {
    let mut image = TestImage::sound();
    for name in ["libcaffe2_nvrtc.so", "libcusolver.so.12", "libnvrtc.so.13"] {
        image.gpu(name, &[], &[]);
    }
    image.gpu("libcudart.so.13", &[], &[]);
    image.gpu("libnvrtc-builtins.so.13.0", &[], &[]);
    image.gpu("libtorch_cuda_linalg.so", &[(80, 60), (90, 60)], &[]);
    let torch =
        [(75, 340), (80, 470), (86, 470), (89, 2), (90, 500), (100, 610), (103, 15), (120, 560)];
    image.gpu("libtorch_cuda.so", &torch, &[]);
    image.gpu(
        "libcublasLt.so.13",
        &[(75, 65), (80, 88), (90, 394), (100, 944), (120, 294)],
        &[120],
    );
    image
}

fn target(gpus: &[&str]) -> TargetSection {
    let gpus = gpus.iter().map(|gpu| gpu.parse().unwrap()).collect();
    TargetSection { gpus, apptainer: Runtime::default() }
}

#[test]
fn gpus_without_code_are_refused_and_the_table_says_why() {
    let mut image = torch();
    image.target = target(&["8.0", "8.6", "8.9", "9.0", "10.3"]);
    image.gpu("libcusparseLt.so.0", &[(75, 9)], &[75]);
    image.target.gpus.push("7.5".parse().unwrap());
    fires(&image, &[(Note, "gpu-optional", "/opt/app/lib/libtorch_cuda_linalg.so")]);
    let report = image.check();
    let row = |name: &str| report.gpus.rows.iter().find(|row| row.name == name).unwrap();
    if image.arch == Arch::Amd64 {
        for name in ["Quadro RTX 6000", "RTX 2080 Ti", "A100", "A40", "RTX 3090", "L40S", "H200"] {
            assert_eq!(row(name).runs, Runs::Yes, "{name}");
        }
        assert_eq!(row("GH200").runs, Runs::No);
        assert!(row("GH200").why.contains("linux/arm64"), "{}", row("GH200").why);
        for name in ["P100", "V100"] {
            assert_eq!(row(name).runs, Runs::No, "{name}");
        }
        assert!(row("V100").why.contains("no code for 7.0"), "{}", row("V100").why);
    }
    assert_eq!(report.gpus.minimum.as_deref(), Some("7.5"));
    assert_eq!(report.minimum_driver.as_deref(), Some("580.65.06"));
    let older: Vec<_> = report.drivers.iter().map(|row| (row.cuda, row.from, row.runs)).collect();
    let expected = [(11, "450.80.02", false), (12, "525.60.13", false), (13, "580.65.06", true)];
    assert_eq!(older, expected);
    let instead = |row: usize| report.drivers[row].instead.unwrap_or_default();
    assert!(instead(0).contains("not supported; libtorch 2.7.0 built for CUDA 11.8"));
    assert!(instead(1).contains("libtorch 2.7.0, which is built for CUDA 12.6"));
    assert_eq!(report.drivers[2].instead, None);
    let cuda = report.cuda_runtime.unwrap();
    assert_eq!((cuda.major, cuda.minor), (13, Some(0)));

    image.target = target(&["7.0"]);
    fires(
        &image,
        &[
            (Error, "gpu-code", "/opt/app/lib/libcublasLt.so.13"),
            (Error, "gpu-code", "/opt/app/lib/libtorch_cuda.so"),
        ],
    );
}

#[test]
fn few_kernels_are_no_support_and_intermediate_code_is_compiled() {
    let mut image = TestImage::sound();
    image.gpu("libmine.so", &[(89, 10), (90, 1000)], &[]);
    image.gpu("libcudart.so.12", &[], &[]);
    image.target = target(&["8.9"]);
    fires(&image, &[(Error, "gpu-code", "/opt/app/lib/libmine.so")]);

    image.gpu("libmine.so", &[(80, 1000)], &[80]);
    image.target = target(&["8.6", "9.0", "12.0"]);
    let found = fires(
        &image,
        &[
            (Warning, "gpu-jit", "/opt/app/lib/libmine.so"),
            (Warning, "gpu-jit", "/opt/app/lib/libmine.so"),
        ],
    );
    assert!(found[0].message.contains("of 8.0 for 12.0"), "{found:?}");
    image.target = target(&["7.5"]);
    fires(&image, &[(Error, "gpu-code", "/opt/app/lib/libmine.so")]);

    let mut image = TestImage::sound();
    image.target = target(&["8.0"]);
    fires(&image, &[(Error, "gpu-code", "target.gpus")]);
}

#[test]
fn cuda_s_version_gives_the_oldest_driver() {
    let mut image = TestImage::sound();
    image.gpu("libmine.so", &[(80, 1000)], &[]);
    fires(&image, &[(Warning, "cuda-runtime", "libcudart")]);
    let version = |image: &TestImage| {
        let report = image.check();
        let cuda = report.cuda_runtime.unwrap();
        (cuda.major, cuda.minor, report.minimum_driver.unwrap())
    };
    image.gpu("libcudart.so.12", &[], &[]);
    assert_eq!(version(&image), (12, None, "525.60.13".to_owned()));
    image.text(
        "opt/app/licenses/nvidia_cuda_runtime_cu12-12.6.77.dist-info/License.txt",
        0o644,
        "",
    );
    assert_eq!(version(&image), (12, Some(6), "525.60.13".to_owned()));
    image.cuda = Some((12, 8));
    assert_eq!(version(&image), (12, Some(8), "525.60.13".to_owned()));
    image.gpu("libcudart.so.11.0", &[], &[]);
    fires(&image, &[(Warning, "cuda-mixed", "libcudart")]);
}

#[test]
fn what_apptainer_and_htcondor_look_for() {
    let mut image = TestImage::sound();
    image.remove("bin/bash");
    fires(&image, &[(Warning, "bash", "/bin/bash")]);
    image.remove("bin/sh");
    image.program = None;
    let scripts = [
        (Error, "interpreter", "/.singularity.d/test"),
        (Error, "shell", "/bin/sh"),
        (Warning, "bash", "/bin/bash"),
    ];
    fires(&image, &scripts);
    image.scratch = true;
    let scripts = [
        (Error, "interpreter", "/.singularity.d/test"),
        (Warning, "bash", "/bin/bash"),
        (Warning, "shell", "/bin/sh"),
    ];
    fires(&image, &scripts);

    let mut image = TestImage::sound();
    image.remove(".singularity.d/env/99-base.sh");
    fires(&image, &[(Error, "base-environment", "/.singularity.d/env/99-base.sh")]);

    let mut image = TestImage::sound();
    image.text(".singularity.d/test", 0o644, "#!/bin/sh\n");
    fires(&image, &[(Error, "test", "/.singularity.d/test")]);
    image.remove(".singularity.d/test");
    fires(&image, &[(Error, "test", "/.singularity.d/test")]);

    let mut image = TestImage::sound();
    image.text(PROGRAM, 0o754, "#!/usr/bin/env python3\n");
    fires(
        &image,
        &[(Error, "interpreter", "/opt/app/bin/train"), (Error, "program", "/opt/app/bin/train")],
    );
    image.program = Some(path("opt/none"));
    fires(&image, &[(Error, "program", "/opt/none")]);

    let mut image = TestImage::sound();
    for odd in ["/bin/../bin/sh", "../bin/sh"] {
        image.text(PROGRAM, 0o755, &format!("#!{odd}\n"));
        fires(&image, &[]);
    }
    for none in ["../../no", "/a\0b"] {
        image.text(PROGRAM, 0o755, &format!("#!{none}\n"));
        fires(&image, &[(Error, "interpreter", "/opt/app/bin/train")]);
    }
}

#[test]
fn zstd_needs_a_new_runtime() {
    let mut image = TestImage::sound();
    for form in [Form::Sif(Some(Squash::Zstd)), Form::Oci(Some(Compressor::Zstd))] {
        image.form = form;
        image.target.apptainer = Runtime(1, 3);
        fires(&image, &[(Error, "zstd", "target.apptainer")]);
        image.target.apptainer = Runtime(1, 4);
        fires(&image, &[]);
    }
}

#[test]
fn the_file_s_name_and_length() {
    let mut image = TestImage::sound();
    let big = 10_000_000_001;
    for (name, bytes, expected) in [
        ("train-20261122-deadbeef0.sif", 1, &[][..]),
        ("train-20261122.sif", 1, &[(Warning, "file-hash", "train-20261122.sif")]),
        ("train.sif", 1, &[(Warning, "file-hash", "train.sif")]),
        ("0123456789ab.img", 1, &[(Error, "file-name", "0123456789ab.img")]),
        ("a-0123456789ab.sif", big, &[(Warning, "size", "a-0123456789ab.sif")]),
    ] {
        (image.file_name, image.file_bytes) = (name.to_owned(), bytes);
        fires(&image, expected);
    }
    image.form = Form::Oci(None);
    fires(&image, &[]);
}

#[test]
fn modes_and_links_that_stop_or_endanger_a_plain_user() {
    let mut image = TestImage::sound();
    image.text("opt/app/a", 0o600, "x");
    image.add("opt/app/b", 0o700, What::Dir);
    image.add("opt/app/c", 0o777, What::Dir);
    image.text("opt/app/d", 0o4755, "x");
    image.add("opt/app/e", 0o777, What::Symlink("nowhere".to_owned()));
    image.add("opt/app/f", 0o777, What::Symlink("../../../outside".to_owned()));
    image.add("opt/app/g", 0o777, What::Symlink("/proc/self/mounts".to_owned()));
    image.add("opt/app/h", 0o777, What::Symlink("../app/a".to_owned()));
    image.add("opt/app/i", 0o777, What::Symlink("i".to_owned()));
    // A distribution's own files are not reported.
    let base = Layer::Base;
    image.tree.add_text(base, &path("etc/shadow"), 0o600, "x").unwrap();
    image.tree.add_text(base, &path("bin/su"), 0o4755, "x").unwrap();
    image.tree.add(base, &path("etc/x"), 0o777, What::Symlink("nowhere".to_owned())).unwrap();
    fires(
        &image,
        &[
            (Error, "setuid", "/opt/app/d"),
            (Error, "unreadable", "/opt/app/a"),
            (Error, "unreadable", "/opt/app/b"),
            (Warning, "link", "/opt/app/e"),
            (Warning, "link", "/opt/app/f"),
            (Warning, "link", "/opt/app/i"),
            (Warning, "setuid", "/bin/su"),
            (Warning, "world-writable", "/opt/app/c"),
        ],
    );
}

#[test]
fn secrets_and_host_paths_are_found_and_not_shown() {
    // Put together here, so that no scanner takes this file for a leak.
    let github = format!("ghp_{}", "a1B2".repeat(9));
    let signed = format!("eyJ{}", "hbGciOiJSUzI1NiJ9.".repeat(4));
    let aws = format!("AKIA{}", "0ABC".repeat(4));
    let mut image = TestImage::sound();
    for (name, value) in [
        ("A", github.clone()),
        ("B", format!("-x {signed}")),
        ("C", "https://me:hunter22@example.org/x".to_owned()),
        ("D", "/home/me/data".to_owned()),
        ("E", "/opt/home/x:/usr/bin https://example.org:80/x me@example.org".to_owned()),
        ("MY_PASSWORD", "hunter22".to_owned()),
        ("BEARER_TOKEN_FILE", "/run/token".to_owned()),
    ] {
        image.env.insert(name.to_owned(), value);
    }
    image.labels.insert("by".to_owned(), "built in /data/of/mine/x".to_owned());
    image.recipe.push_str(&format!("# {aws}\n"));
    image.text("root/.aws/credentials", 0o644, "[default]\n");
    let found = fires(
        &image,
        &[
            (Error, "secret", "/root/.aws/credentials"),
            (Error, "secret", "env.A"),
            (Error, "secret", "env.B"),
            (Error, "secret", "env.C"),
            (Error, "secret", "env.MY_PASSWORD"),
            (Error, "secret", "recipe line 5"),
            (Warning, "host-path", "env.D"),
            (Warning, "host-path", "labels.by"),
        ],
    );
    let text = format!("{found:?}");
    for secret in [github.as_str(), &signed, "hunter22", &aws] {
        assert!(!text.contains(secret), "{text}");
    }
}
