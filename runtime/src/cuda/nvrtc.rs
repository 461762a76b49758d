//! NVIDIA's run-time compiler, loaded from libtorch's folder.

#![expect(unsafe_code, reason = "functions of a C library")]

use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_void};
use std::fs;
use std::path::{Path, PathBuf};

use libloading::os::unix::Library;

use super::library;

/// The first is libtorch's own way to it, and brings it along under whatever name it has; then
/// those of CUDA 13 and 12.
const NAMES: [&str; 4] = ["libcaffe2_nvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"];

/// A program in NVRTC.
type Program = *mut c_void;
type Code = c_int;

/// The functions of the library that are used, as its header declares them since CUDA 11.1.
struct Nvrtc {
    create: unsafe extern "C" fn(
        *mut Program,
        *const c_char,
        *const c_char,
        c_int,
        *const *const c_char,
        *const *const c_char,
    ) -> Code,
    compile: unsafe extern "C" fn(Program, c_int, *const *const c_char) -> Code,
    log_size: unsafe extern "C" fn(Program, *mut usize) -> Code,
    log: unsafe extern "C" fn(Program, *mut c_char) -> Code,
    code_size: unsafe extern "C" fn(Program, *mut usize) -> Code,
    code: unsafe extern "C" fn(Program, *mut c_char) -> Code,
    destroy: unsafe extern "C" fn(*mut Program) -> Code,
    explain: unsafe extern "C" fn(Code) -> *const c_char,
    /// The library that the functions are from.
    _library: Library,
    /// A library that NVRTC opens by name alone when it compiles; the search path may not find it.
    _builtins: Option<Library>,
}

/// The machine code of `source` for one kind of GPU, which `options` name; else why there is none.
pub(super) fn compile(source: &str, options: &[String]) -> Result<Vec<u8>, String> {
    let nvrtc = Nvrtc::open(&NAMES)?;
    let text = |text: &str| CString::new(text).map_err(|e| e.to_string());
    let source = text(source)?;
    let options = options.iter().map(|option| text(option)).collect::<Result<Vec<_>, _>>()?;
    nvrtc.compile(&source, &options)
}

impl Nvrtc {
    fn open(names: &[&str]) -> Result<Self, String> {
        let mut missing = Vec::new();
        for name in names {
            // SAFETY: a library of NVIDIA's or libtorch's, whose initialisers register what they
            // have and start nothing.
            match unsafe { Library::new(*name) }.and_then(Self::of) {
                Ok(nvrtc) => return Ok(nvrtc),
                Err(error) => missing.push(format!("`{name}`: {}", library::reason(&error))),
            }
        }
        Err(format!("NVRTC cannot be opened: {}", missing.join("; ")))
    }

    fn of(library: Library) -> Result<Self, libloading::Error> {
        // SAFETY: names and types are those of `nvrtc.h`, which have not changed since CUDA 11.1;
        // the functions are called only while the library is open.
        unsafe {
            Ok(Self {
                create: *library.get(c"nvrtcCreateProgram".to_bytes())?,
                compile: *library.get(c"nvrtcCompileProgram".to_bytes())?,
                log_size: *library.get(c"nvrtcGetProgramLogSize".to_bytes())?,
                log: *library.get(c"nvrtcGetProgramLog".to_bytes())?,
                code_size: *library.get(c"nvrtcGetCUBINSize".to_bytes())?,
                code: *library.get(c"nvrtcGetCUBIN".to_bytes())?,
                destroy: *library.get(c"nvrtcDestroyProgram".to_bytes())?,
                explain: *library.get(c"nvrtcGetErrorString".to_bytes())?,
                _library: library,
                // The library from the same folder has the same version.
                _builtins: beside().and_then(|path| Library::new(path).ok()),
            })
        }
    }

    fn compile(&self, source: &CStr, options: &[CString]) -> Result<Vec<u8>, String> {
        let mut program: Program = std::ptr::null_mut();
        let none = std::ptr::null();
        // SAFETY: a source and a name that end with a zero, and no headers.
        let created = unsafe {
            (self.create)(&raw mut program, source.as_ptr(), c"convert.cu".as_ptr(), 0, none, none)
        };
        self.checked(created)?;
        let options: Vec<*const c_char> = options.iter().map(|option| option.as_ptr()).collect();
        let n = c_int::try_from(options.len()).unwrap_or(c_int::MAX);
        // SAFETY: `program` was made above; as many options as `n` says.
        let compiled = unsafe { (self.compile)(program, n, options.as_ptr()) };
        let made = match self.checked(compiled) {
            Ok(()) => self.read(program, self.code_size, self.code),
            Err(error) => {
                let log = self.read(program, self.log_size, self.log).unwrap_or_default();
                let log = String::from_utf8_lossy(&log);
                Err(format!("{error}: {}", log.trim_end_matches('\0').trim()))
            }
        };
        // SAFETY: the program was made above, and is not used after this.
        unsafe { (self.destroy)(&raw mut program) };
        made
    }

    /// Reads one of a program's outputs.
    fn read(
        &self,
        program: Program,
        size: unsafe extern "C" fn(Program, *mut usize) -> Code,
        fill: unsafe extern "C" fn(Program, *mut c_char) -> Code,
    ) -> Result<Vec<u8>, String> {
        let mut n = 0;
        // SAFETY: the call writes one number.
        self.checked(unsafe { size(program, &raw mut n) })?;
        let mut bytes = vec![0_u8; n];
        // SAFETY: writes as many bytes as it said it would.
        self.checked(unsafe { fill(program, bytes.as_mut_ptr().cast()) })?;
        Ok(bytes)
    }

    fn checked(&self, code: Code) -> Result<(), String> {
        if code == 0 {
            return Ok(());
        }
        // SAFETY: gives a constant text for every number.
        let text = unsafe { CStr::from_ptr((self.explain)(code)) };
        Err(format!("NVRTC: {}", text.to_string_lossy()))
    }
}

/// The built-in declarations beside the NVRTC that this process has opened.
fn beside() -> Option<PathBuf> {
    let maps = fs::read_to_string("/proc/self/maps").ok()?;
    let is_nvrtc = |path: &&Path| {
        let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
        name.starts_with("libnvrtc") && !name.starts_with("libnvrtc-builtins")
    };
    let mut mapped = maps.lines().filter_map(|line| line.find('/').and_then(|at| line.get(at..)));
    let folder = mapped.find_map(|path| Some(Path::new(path)).filter(is_nvrtc))?.parent()?;
    let entries = fs::read_dir(folder).ok()?.filter_map(Result::ok).map(|entry| entry.path());
    let mut builtins: Vec<PathBuf> = entries
        .filter(|path| {
            let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
            // Beside it may be another one, for options that are not used.
            name.starts_with("libnvrtc-builtins") && !name.contains(".alt.")
        })
        .collect();
    builtins.sort();
    builtins.pop()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_that_is_missing_or_another_is_named() {
        let refused = |names: &[&str]| Nvrtc::open(names).err().unwrap();
        let told = refused(&["libnone-of-it.so"]);
        assert!(
            told.contains("NVRTC cannot be opened") && told.contains("libnone-of-it"),
            "{told}"
        );
        let told = refused(&["libm.so.6"]);
        assert!(told.contains("`libm.so.6`") && told.contains("nvrtcCreateProgram"), "{told}");
    }
}
