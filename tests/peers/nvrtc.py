"""NVIDIA's run-time compiler takes the kernel that makes numbers of pixels, with the options that the
program gives it, for the GPUs that each line of libtorch serves. Needs no GPU."""

import ctypes
import importlib.util
import itertools
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCE = (ROOT / "runtime/src/cuda/convert.cu").read_bytes()
PROGRAM = (ROOT / "runtime/src/cuda/kernel.rs").read_text()
# CUDA 13 with libtorch 2.11, and CUDA 12 with 2.7; library, package, compute capabilities.
LINES = [
    ("libnvrtc.so.13", "nvidia-cuda-nvrtc==13.0.88", [75, 80, 86, 89, 90, 100]),
    ("libnvrtc.so.12", "nvidia-cuda-nvrtc-cu12==12.6.77", [60, 61, 70, 75, 80, 86, 90]),
]
failures = 0


def find(name):
    spec = importlib.util.find_spec("nvidia")
    folders = list(spec.submodule_search_locations) if spec else []
    return next((str(path) for folder in folders for path in pathlib.Path(folder).glob(f"*/lib/{name}")), None)


def compile(nvrtc, options):
    """The size of the machine code; raises with the compiler's own words."""
    program = ctypes.c_void_p()
    assert nvrtc.nvrtcCreateProgram(ctypes.byref(program), SOURCE, b"convert.cu", 0, None, None) == 0
    words = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
    code = nvrtc.nvrtcCompileProgram(program, len(options), words)
    size = ctypes.c_size_t()
    if code != 0:
        assert nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size)) == 0
        log = ctypes.create_string_buffer(size.value)
        assert nvrtc.nvrtcGetProgramLog(program, log) == 0
        raise ValueError(log.value.decode())
    assert nvrtc.nvrtcGetCUBINSize(program, ctypes.byref(size)) == 0
    code = ctypes.create_string_buffer(size.value)
    assert nvrtc.nvrtcGetCUBIN(program, code) == 0
    assert nvrtc.nvrtcDestroyProgram(ctypes.byref(program)) == 0
    return code.raw


def check(nvrtc, capability):
    exact = re.findall(r'"(--[a-z-]+=(?:true|false))"', PROGRAM)
    assert sorted(exact) == ["--fmad=false", "--ftz=false", "--prec-div=true"], exact
    kinds = itertools.product(["unsigned char", "unsigned short"], ["float", "Brain", "Half"], ["true", "false"], [3])
    for stored, number, planar, channels in kinds:
        options = [f"--gpu-architecture=sm_{capability}", *exact, f"-DSTORED={stored}", f"-DNUMBER={number}",
                   f"-DPLANAR={planar}", f"-DCHANNELS={channels}u", "-DPIXELS=50176u"]
        code = compile(nvrtc, options)
        assert code.startswith(b"\x7fELF") and b"convert" in code, options


for name, package, capabilities in LINES:
    path = find(name)
    if path is None:
        print(f"skip nvrtc_takes_the_kernel ({name}): {name} missing, install: pip install {package}")
        continue
    nvrtc = ctypes.CDLL(path)
    # As the program does: NVRTC looks for this by name alone, where no search path leads.
    for builtins in pathlib.Path(path).parent.glob("libnvrtc-builtins.so.*"):
        ctypes.CDLL(str(builtins))
    for capability in capabilities:
        try:
            check(nvrtc, capability)
            print(f"ok {name} takes the kernel for sm_{capability}")
        except (AssertionError, ValueError) as error:
            failures += 1
            print(f"fail {name} takes the kernel for sm_{capability}: {error}")
sys.exit(failures != 0)
