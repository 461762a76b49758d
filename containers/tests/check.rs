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
    let all = ["/bin/bash", "/bin/sh", "/opt/app/bin/train"];
    fires(&image, &all.map(|program| (Error, "interpreter", program)));

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

/// This program, with a text in its headers replaced by one that is not longer.
fn patched(from: &str, to: &str) -> What {
    let mut bytes = fs::read("/proc/self/exe").unwrap();
    let from = [from.as_bytes(), b"\0"].concat();
    let to = [to.as_bytes(), b"\0"].concat();
    assert!(to.len() <= from.len());
    let at = bytes.windows(from.len()).position(|window| window == from).unwrap();
    bytes[at..at + to.len()].copy_from_slice(&to);
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
    fires(&image, &[(Error, "interpreter", "/opt/app/bin/train"), (Error, "program", "/opt/none")]);

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
fn a_script_that_starts_what_is_not_there_is_an_error() {
    let mut image = TestImage::sound();
    let missing = [(Error, "program", "/opt/app/bin/train")];
    for (script, expected) in [
        ("exec sim \"$@\"", &missing[..]),
        ("exec /opt/sim/bin/sim", &missing),
        ("exec sh -c true", &[]),
        ("exec /bin/sh", &[]),
        ("PATH=/opt/sim/bin:$PATH\nexec sim", &[]),
        (". /opt/sim/activate\nexec sim", &[]),
        ("if true; then\n  exec sim\nfi", &[]),
        ("exec \"$@\"", &[]),
        ("exec ./sim", &[]),
    ] {
        image.text(PROGRAM, 0o755, &format!("#!/bin/sh\n{script}\n"));
        fires(&image, expected);
    }
}

#[test]
fn scripts_of_conda_s_packages_may_lack_an_interpreter() {
    let mut image = TestImage::sound();
    image.env.insert("PATH".to_owned(), "/opt/env/bin:/usr/bin:/bin".to_owned());
    let script = RootPath::new("opt/env/bin/c_rehash").unwrap();
    image.tree.add_text(Layer::Python, &script, 0o755, "#!/usr/bin/env perl\n").unwrap();
    fires(&image, &[(Note, "interpreter", "/opt/env/bin/c_rehash")]);
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
    // A step may run `apt-get`, which installs such files, too.
    let step = Layer::Run(0);
    for (name, mode) in [("etc/gshadow", 0o640), ("bin/ssh-keysign", 0o4755), ("opt/made", 0o600)] {
        image.tree.add_text(step, &path(name), mode, "x").unwrap();
    }
    fires(
        &image,
        &[
            (Error, "setuid", "/opt/app/d"),
            (Error, "unreadable", "/opt/app/a"),
            (Error, "unreadable", "/opt/app/b"),
            (Error, "unreadable", "/opt/made"),
            (Warning, "link", "/opt/app/e"),
            (Warning, "link", "/opt/app/f"),
            (Warning, "link", "/opt/app/i"),
            (Warning, "setuid", "/bin/ssh-keysign"),
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

/// A file of the distribution.
fn of_base(image: &mut TestImage, at: &str, mode: u16, text: &str) {
    image.tree.add_text(Layer::Base, &path(at), mode, text).unwrap();
}

fn link(image: &mut TestImage, at: &str, to: &str) {
    image.tree.add(Layer::Base, &path(at), 0o777, What::Symlink(to.to_owned())).unwrap();
}

#[test]
fn libraries_of_the_distribution_are_followed_too() {
    const PLACE: &str = "usr/lib/x86_64-linux-gnu";
    let needs = || patched("libgcc_s.so.1", "libblas.so.3");
    let add = |image: &mut TestImage, at: &str| {
        image.tree.add(Layer::Base, &path(at), 0o755, needs()).unwrap();
    };
    let mut image = TestImage::sound();
    add(&mut image, "usr/bin/gdalinfo");
    add(&mut image, "usr/bin/ogrinfo");
    add(&mut image, &format!("{PLACE}/libgdal.so.32"));
    let found = fires(&image, &[(Error, "missing-library", "/usr/bin/gdalinfo")]);
    assert!(found[0].message.ends_with("; 2 other files need it, too"), "{found:?}");

    // A plugin, which nobody need open.
    let mut image = TestImage::sound();
    image.tree.add(Layer::Base, &path("usr/lib/x/plugin"), 0o644, needs()).unwrap();
    fires(&image, &[(Note, "missing-library", "/usr/lib/x/plugin")]);

    // A program in a folder of its own, whose script sets the search path.
    let mut image = TestImage::sound();
    add(&mut image, "usr/lib/R/bin/exec/R");
    fires(&image, &[(Error, "missing-library", "/usr/lib/R/bin/exec/R")]);
    let own = What::File(FileBytes::Bytes(elf(image.arch).into()));
    image.tree.add(Layer::Base, &path("usr/lib/R/lib/libblas.so.3"), 0o644, own).unwrap();
    fires(&image, &[]);

    // The same in an image that somebody else made.
    let mut image = TestImage::sound();
    image.recipe = "[image]\nname = \"x\"\n[base]\noci = \"base\"\n".to_owned();
    add(&mut image, "usr/bin/gdalinfo");
    fires(&image, &[(Warning, "missing-library", "/usr/bin/gdalinfo")]);
}

#[test]
fn a_missing_library_is_named_with_its_package() {
    let mut image = TestImage::sound();
    let cv2 = "usr/local/lib/python3.11/dist-packages/cv2/cv2.abi3.so";
    image.add(cv2, 0o755, patched("libgcc_s.so.1", "libGL.so.1"));
    let found = fires(&image, &[(Error, "missing-library", &format!("/{cv2}"))]);
    assert!(found[0].hint.as_ref().unwrap().contains("`libgl1`"), "{found:?}");
    // Its package is there, but its script has not run.
    of_base(&mut image, "var/lib/dpkg/status.d/libgl1", 0o644, "Package: libgl1\n");
    let found = fires(&image, &[(Error, "missing-library", &format!("/{cv2}"))]);
    assert!(found[0].hint.as_ref().unwrap().contains("has not run"), "{found:?}");
}

#[test]
fn commands_that_scripts_of_packages_make_are_missed() {
    let mut image = TestImage::sound();
    image.env.insert("PATH".to_owned(), "/usr/bin:/bin".to_owned());
    of_base(&mut image, "usr/lib/jvm/java-17-openjdk-amd64/bin/java", 0o755, "");
    of_base(&mut image, "usr/bin/convert-im6.q16", 0o755, "");
    of_base(&mut image, "usr/lib/x86_64-linux-gnu/graphviz/libgvplugin_core.so.6", 0o644, "");
    let config = "usr/lib/x86_64-linux-gnu/graphviz/config6a";
    let found = fires(
        &image,
        &[
            (Warning, "command", "convert"),
            (Warning, "command", "java"),
            (Warning, "package-script", "/usr/lib/*/graphviz/config6a"),
        ],
    );
    assert!(found[1].message.contains("/usr/lib/jvm/java-17-openjdk-amd64/bin/java"), "{found:?}");
    link(&mut image, "etc/alternatives/java", "/usr/lib/jvm/java-17-openjdk-amd64/bin/java");
    link(&mut image, "usr/bin/java", "/etc/alternatives/java");
    link(&mut image, "usr/bin/convert", "convert-im6.q16");
    of_base(&mut image, config, 0o644, "");
    fires(&image, &[]);
    image.remove("etc/alternatives/java");
    let links = [(Error, "command-link", "/usr/bin/java"), (Warning, "command", "java")];
    fires(&image, &links);
}

#[test]
fn interpreters_of_scripts_must_be_there() {
    let mut image = TestImage::sound();
    image.env.insert("PATH".to_owned(), "/usr/bin:/bin".to_owned());
    let env = fs::canonicalize("/usr/bin/env").unwrap();
    add_file(&mut image.tree, Layer::Base, "usr/bin/env", &env);
    image.text("opt/app/a.sh", 0o755, "#!/bin/csh -f\n");
    image.text("opt/app/b.sh", 0o755, "#!/bin/csh\n");
    image.text("opt/app/c.sh", 0o755, "#! /usr/bin/env sh\n");
    image.text("opt/app/d.sh", 0o755, "#!/usr/bin/env -S sh -e\n");
    image.text("opt/app/e.sh", 0o755, "#!/usr/bin/env sh -e\n");
    image.text("opt/app/f.sh", 0o755, "#!/bin/sh\r\n");
    image.text("opt/app/g.sh", 0o644, "#!/none\n");
    // Of packages: one that the recipe names, and one that came along.
    image.recipe.push_str("[base]\npackages = [\"default\", \"named\"]\n");
    for (package, file) in [("named", "usr/bin/one"), ("other", "usr/bin/two")] {
        of_base(&mut image, file, 0o755, "#!/usr/bin/perl\n");
        let list = format!("var/lib/dpkg/status.d/{package}.md5sums");
        of_base(&mut image, &list, 0o644, &format!("d41d8cd98f00b204e9800998ecf8427e  {file}\n"));
    }
    let found = fires(
        &image,
        &[
            (Error, "interpreter", "/opt/app/a.sh"),
            (Error, "interpreter", "/opt/app/e.sh"),
            (Error, "interpreter", "/opt/app/f.sh"),
            (Error, "interpreter", "/usr/bin/one"),
            (Note, "interpreter", "/usr/bin/two"),
        ],
    );
    assert!(found[0].message.ends_with("not in the image; `/opt/app/b.sh`, too"), "{found:?}");
    assert!(found[1].message.contains("`env -S sh -e`"), "{found:?}");
    assert!(found[2].message.contains("Windows"), "{found:?}");
    assert_eq!(found[3].hint.as_deref(), Some("add `perl` to `base.packages`, beside `default`"));
    // A package whose other commands start.
    of_base(&mut image, "usr/bin/three", 0o755, "");
    let list = "var/lib/dpkg/status.d/named.list";
    of_base(&mut image, list, 0o644, "/usr/bin/one\n/usr/bin/three\n");
    let report = image.check();
    let one = report.findings.iter().find(|finding| finding.subject == "/usr/bin/one").unwrap();
    assert_eq!(one.severity, Warning, "{one:?}");
}

/// An image with a Python that has `numpy`, and this program.
fn python(program: &str) -> TestImage {
    let mut image = TestImage::sound();
    image.env.insert("PATH".to_owned(), "/usr/bin:/bin".to_owned());
    let env = fs::canonicalize("/usr/bin/env").unwrap();
    add_file(&mut image.tree, Layer::Base, "usr/bin/env", &env);
    of_base(&mut image, "usr/bin/python3", 0o755, "");
    of_base(&mut image, "usr/lib/python3.11/os.py", 0o644, "");
    of_base(&mut image, "usr/lib/python3.11/importlib/__init__.py", 0o644, "");
    let site = "usr/local/lib/python3.11/dist-packages";
    image.text(&format!("{site}/numpy/__init__.py"), 0o644, "import none\n");
    image.text(&format!("{site}/google/protobuf/__init__.py"), 0o644, "");
    image.program = Some(path("app/bin/train.py"));
    image.text("app/bin/train.py", 0o755, program);
    image
}

#[test]
fn what_a_program_in_python_imports_must_be_there() {
    const AT: &str = "/app/bin/train.py";
    let line = "#!/usr/bin/env python3\n";
    let check = |body: &str, expected: &[(Severity, &str)]| {
        let image = python(&format!("{line}{body}"));
        let rules: Vec<_> =
            expected.iter().map(|(severity, _)| (*severity, "python-import", AT)).collect();
        let found = fires(&image, &rules);
        for (finding, (_, says)) in found.iter().zip(expected) {
            let said =
                format!("{} {}", finding.message, finding.hint.as_deref().unwrap_or_default());
            assert!(said.contains(says), "{said}\nexpected: {says}");
        }
    };
    check("import os, sys, numpy.linalg\nfrom importlib import util\n", &[]);
    check("import torch\n", &[(Error, "line 2 imports `torch`")]);
    check("import cv2\n", &[(Error, "`opencv-python-headless`")]);
    check("from sklearn.svm import SVC\n", &[(Error, "`scikit-learn`")]);
    check(
        "import google.protobuf\nfrom google.cloud import storage\n",
        &[(Error, "`google.cloud`")],
    );
    check("try:\n    import fast\nexcept ImportError:\n    fast = None\n", &[(Note, "`fast`")]);
    check("def f():\n    import wandb\n", &[(Warning, "`wandb`")]);
    check("if TYPE_CHECKING:\n    import wandb\n", &[]);
    check("from .model import Net\n", &[(Error, "inside of a package only")]);

    let image = python("\"\"\"Trains.\"\"\"\nimport numpy\n");
    let found = fires(&image, &[(Error, "program", AT)]);
    assert_eq!(found[0].hint.as_deref(), Some("make `#!/usr/bin/env python3` its first line"));
}

#[test]
fn a_program_s_own_modules_are_followed() {
    let mut image = python("#!/usr/bin/env python3\nimport model\nfrom parts import left\n");
    let missing = (Error, "python-import", "/app/bin/train.py");
    fires(&image, &[missing, missing]);
    image.text("app/bin/model.py", 0o644, "import parts.right\nimport train\n");
    image.text("app/bin/parts/__init__.py", 0o644, "");
    image.text("app/bin/parts/left.py", 0o644, "from . import inner\nfrom ..up import x\n");
    image.text("app/bin/parts/right.py", 0o644, "from .inner import x\n");
    fires(&image, &[]);
    image.text("app/bin/parts/inner.py", 0o644, "import PIL.Image\n");
    let found = fires(&image, &[(Error, "python-import", "/app/bin/parts/inner.py")]);
    assert!(found[0].hint.as_ref().unwrap().contains("`pillow`"), "{found:?}");

    // Files that the recipe names, without a program.
    let mut image = python("");
    image.remove("app/bin/train.py");
    image.program = None;
    image.recipe.push_str("[app.files]\n\"opt/run.py\" = \"run.py\"\n\"opt/all\" = \"all\"\n");
    image.text("opt/run.py", 0o644, "if __name__ == '__main__':\n    import torch\n");
    image.text("opt/all/tests/run.py", 0o644, "import pytest\nif __name__ == '__main__': x\n");
    image.text("opt/all/lib.py", 0o644, "import other\n");
    fires(
        &image,
        &[
            (Error, "python-import", "/opt/run.py"),
            (Warning, "python-import", "/opt/all/tests/run.py"),
        ],
    );
}
