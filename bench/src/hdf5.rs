//! The HDF5 library, loaded only when it is measured. Each sample is read as one hyperslab, as h5py
//! does.
//!
//! The library allows one call at a time (Debian's build is not thread-safe, and a thread-safe one
//! has a lock of its own), so a mutex guards each, as in h5py.

#![expect(unsafe_code, reason = "a C library is opened and called")]

use std::ffi::{CString, c_char, c_int, c_void};
use std::fmt;
use std::mem::ManuallyDrop;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use libloading::Library;

use crate::Error;

/// File names of the library, by distribution and version.
const NAMES: [&str; 8] = [
    "libhdf5_serial.so.310",
    "libhdf5_serial.so.200",
    "libhdf5_serial.so.103",
    "libhdf5.so.310",
    "libhdf5.so.200",
    "libhdf5.so.103",
    "libhdf5_serial.so",
    "libhdf5.so",
];

/// The note if the library is missing.
pub(crate) const MISSING: &str = "the HDF5 library was not found: install it with `apt-get install libhdf5-103-1` (or libhdf5-310), or load your site's module";

/// A handle; from version 1.10 on it has 64 bits.
type Id = i64;

/// The functions used, as the library's public headers declare them.
struct Functions {
    eset_auto2: unsafe extern "C" fn(Id, *const c_void, *mut c_void) -> c_int,
    fopen: unsafe extern "C" fn(*const c_char, u32, Id) -> Id,
    fclose: unsafe extern "C" fn(Id) -> c_int,
    dopen2: unsafe extern "C" fn(Id, *const c_char, Id) -> Id,
    dclose: unsafe extern "C" fn(Id) -> c_int,
    dget_space: unsafe extern "C" fn(Id) -> Id,
    dread: unsafe extern "C" fn(Id, Id, Id, Id, Id, *mut c_void) -> c_int,
    screate_simple: unsafe extern "C" fn(c_int, *const u64, *const u64) -> Id,
    sget_ndims: unsafe extern "C" fn(Id) -> c_int,
    sget_dims: unsafe extern "C" fn(Id, *mut u64, *mut u64) -> c_int,
    sselect:
        unsafe extern "C" fn(Id, c_int, *const u64, *const u64, *const u64, *const u64) -> c_int,
    sclose: unsafe extern "C" fn(Id) -> c_int,
    dget_type: unsafe extern "C" fn(Id) -> Id,
    tget_size: unsafe extern "C" fn(Id) -> usize,
    tclose: unsafe extern "C" fn(Id) -> c_int,
    native_i64: Id,
}

/// The library, and the lock around it.
pub(crate) struct Hdf5 {
    functions: Mutex<Functions>,
    /// File name and version, such as `libhdf5_serial.so.103 1.10.10`.
    pub(crate) name: String,
    /// The library is never unloaded, since the libraries it uses have destructors for threads,
    /// which may end later.
    _library: ManuallyDrop<Library>,
}

impl fmt::Debug for Hdf5 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hdf5").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Hdf5 {
    /// Returns the first library found that is new enough.
    pub(crate) fn find() -> Option<Arc<Self>> {
        NAMES.iter().find_map(|name| Self::open(name)).map(Arc::new)
    }

    fn open(name: &str) -> Option<Self> {
        // SAFETY: the HDF5 library's initialisers only set up its own state.
        let library = ManuallyDrop::new(unsafe { Library::new(name) }.ok()?);
        macro_rules! get {
            ($symbol:literal) => {
                // SAFETY: the type written at the use is that of the public header.
                *unsafe { library.get($symbol) }.ok()?
            };
        }
        let (mut major, mut minor, mut release) = (0_u32, 0_u32, 0_u32);
        let version: unsafe extern "C" fn(*mut u32, *mut u32, *mut u32) -> c_int =
            get!(b"H5get_libversion\0");
        let open: unsafe extern "C" fn() -> c_int = get!(b"H5open\0");
        // SAFETY: the call writes to three live integers.
        let known = unsafe { version(&raw mut major, &raw mut minor, &raw mut release) };
        if known < 0 || (major, minor) < (1, 10) {
            return None;
        }
        // SAFETY: `H5open` has no arguments and may be called any number of times.
        if unsafe { open() } < 0 {
            return None;
        }
        let i64_at: *const Id = get!(b"H5T_NATIVE_INT64_g\0");
        let functions = Functions {
            eset_auto2: get!(b"H5Eset_auto2\0"),
            fopen: get!(b"H5Fopen\0"),
            fclose: get!(b"H5Fclose\0"),
            dopen2: get!(b"H5Dopen2\0"),
            dclose: get!(b"H5Dclose\0"),
            dget_space: get!(b"H5Dget_space\0"),
            dread: get!(b"H5Dread\0"),
            screate_simple: get!(b"H5Screate_simple\0"),
            sget_ndims: get!(b"H5Sget_simple_extent_ndims\0"),
            sget_dims: get!(b"H5Sget_simple_extent_dims\0"),
            sselect: get!(b"H5Sselect_hyperslab\0"),
            sclose: get!(b"H5Sclose\0"),
            dget_type: get!(b"H5Dget_type\0"),
            tget_size: get!(b"H5Tget_size\0"),
            tclose: get!(b"H5Tclose\0"),
            // SAFETY: a variable of the library, set by `H5open`; it stays loaded.
            native_i64: unsafe { *i64_at },
        };
        // SAFETY: no handler is set in place of the one that prints on stderr.
        unsafe { (functions.eset_auto2)(0, std::ptr::null(), std::ptr::null_mut()) };
        let name = format!("{name} {major}.{minor}.{release}");
        Some(Self { functions: Mutex::new(functions), name, _library: library })
    }

    fn lock(&self) -> MutexGuard<'_, Functions> {
        // The functions do not change, so a panic elsewhere spoiled nothing.
        self.functions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The dataset of one field in one file.
#[derive(Debug)]
pub(crate) struct Samples {
    library: Arc<Hdf5>,
    path: PathBuf,
    file: Id,
    dataset: Id,
    space: Id,
    /// The dataset's own type: read as that, elements are the bytes of the file.
    element: Id,
    /// Bytes of an element, at least 1.
    element_bytes: usize,
    /// Dimensions of the dataset; the first is rows (fixed values) or bytes.
    dims: Vec<u64>,
    /// Where each value begins, with the end of the last; `None` for values of fixed length.
    offsets: Option<Vec<i64>>,
}

impl Samples {
    /// Opens `field` of the HDF5 file at `path`; `bytes` says that values vary in length.
    pub(crate) fn open(
        library: &Arc<Hdf5>,
        path: &Path,
        field: &str,
        bytes: bool,
    ) -> Result<Self, Error> {
        let mut this = Self {
            library: Arc::clone(library),
            path: path.to_owned(),
            file: -1,
            dataset: -1,
            space: -1,
            element: -1,
            element_bytes: 0,
            dims: Vec::new(),
            offsets: None,
        };
        let path = this.c_string(path.as_os_str().as_bytes())?;
        this.file = this.fopen(&path)?;
        if bytes {
            this.offsets = Some(this.numbers(&format!("{field}.offsets"))?);
        }
        let name = if bytes { format!("{field}.bytes") } else { field.to_owned() };
        (this.dataset, this.space, this.dims) = this.dataset(&name)?;
        (this.element, this.element_bytes) = this.element()?;
        Ok(this)
    }

    /// Reads the whole dataset `name`, which is a list of numbers.
    fn numbers(&self, name: &str) -> Result<Vec<i64>, Error> {
        let (dataset, space, dims) = self.dataset(name)?;
        let read = match dims[..] {
            [n] => self.read_all(dataset, n),
            _ => Err(self.fail("H5Sget_simple_extent_dims")),
        };
        self.close(dataset, space);
        read
    }

    /// Reads value `row` into `out`.
    pub(crate) fn read(&self, row: usize, out: &mut Vec<u8>) -> Result<(), Error> {
        let (start, count) = match &self.offsets {
            Some(offsets) => {
                let at = |i: usize| offsets.get(i).and_then(|o| u64::try_from(*o).ok());
                let ends = at(row).zip(at(row + 1));
                let (start, end) = ends.ok_or_else(|| self.fail("offsets"))?;
                (vec![start], vec![end.saturating_sub(start)])
            }
            None => {
                let mut start = vec![0; self.dims.len()];
                let mut count = self.dims.clone();
                if let (Some(start), Some(count)) = (start.first_mut(), count.first_mut()) {
                    (*start, *count) = (row as u64, 1);
                }
                (start, count)
            }
        };
        let inside = start.iter().zip(&count).zip(&self.dims);
        if !inside.clone().all(|((s, c), d)| s.checked_add(*c).is_some_and(|end| end <= *d)) {
            return Err(self.fail("H5Sselect_hyperslab"));
        }
        self.hyperslab(&start, &count, out)
    }

    fn hyperslab(&self, start: &[u64], count: &[u64], out: &mut Vec<u8>) -> Result<(), Error> {
        let len = count
            .iter()
            .try_fold(self.element_bytes, |len, n| len.checked_mul(usize::try_from(*n).ok()?));
        out.resize(len.ok_or_else(|| self.fail("H5Sselect_hyperslab"))?, 0);
        let f = self.library.lock();
        let rank = c_int::try_from(count.len()).map_err(|_| self.fail("H5Screate_simple"))?;
        let none = std::ptr::null();
        // SAFETY: `count` has `rank` numbers; no maximum is given.
        let memory = unsafe { (f.screate_simple)(rank, count.as_ptr(), none) };
        if memory < 0 {
            return Err(self.fail("H5Screate_simple"));
        }
        // SAFETY: `start` and `count` have the rank of the dataset's space, `dims`' length;
        // stride and block are left out, which means 1. Operation 0 is H5S_SELECT_SET.
        let chosen =
            unsafe { (f.sselect)(self.space, 0, start.as_ptr(), none, count.as_ptr(), none) };
        let mut done = -1;
        if chosen >= 0 {
            // SAFETY: `out` has `element_bytes`, the size of memory type `element`, for each
            // of the selection's product of `count` elements; the lock keeps other threads
            // from `space`.
            done = unsafe {
                (f.dread)(
                    self.dataset,
                    self.element,
                    memory,
                    self.space,
                    0,
                    out.as_mut_ptr().cast(),
                )
            };
        }
        // SAFETY: a handle made above, closed once.
        unsafe { (f.sclose)(memory) };
        if done < 0 { Err(self.fail("H5Dread")) } else { Ok(()) }
    }

    fn fopen(&self, path: &CString) -> Result<Id, Error> {
        // SAFETY: a string that ends in NUL; flags 0 open for reading, with default properties.
        let file = unsafe { (self.library.lock().fopen)(path.as_ptr(), 0, 0) };
        if file < 0 { Err(self.fail("H5Fopen")) } else { Ok(file) }
    }

    /// Opens a dataset, and returns it with its space and its dimensions.
    fn dataset(&self, name: &str) -> Result<(Id, Id, Vec<u64>), Error> {
        let name = self.c_string(name.as_bytes())?;
        let f = self.library.lock();
        // SAFETY: an open file and a string that ends in NUL.
        let dataset = unsafe { (f.dopen2)(self.file, name.as_ptr(), 0) };
        if dataset < 0 {
            return Err(self.fail("H5Dopen2"));
        }
        // SAFETY: an open dataset.
        let space = unsafe { (f.dget_space)(dataset) };
        // SAFETY: a handle; of a bad one the answer is negative.
        let rank = unsafe { (f.sget_ndims)(space) };
        let mut dims = vec![0; usize::try_from(rank).unwrap_or(0)];
        // SAFETY: `dims` has room for the rank just asked for; maxima may be left out.
        let known = unsafe { (f.sget_dims)(space, dims.as_mut_ptr(), std::ptr::null_mut()) };
        if known != rank || rank < 1 {
            drop(f);
            self.close(dataset, space);
            return Err(self.fail("H5Sget_simple_extent_dims"));
        }
        Ok((dataset, space, dims))
    }

    /// The type of the dataset's elements, and its bytes.
    fn element(&self) -> Result<(Id, usize), Error> {
        let f = self.library.lock();
        // SAFETY: an open dataset.
        let element = unsafe { (f.dget_type)(self.dataset) };
        // SAFETY: a handle; of a bad one the answer is 0.
        match unsafe { (f.tget_size)(element) } {
            0 => Err(self.fail("H5Dget_type")),
            bytes => Ok((element, bytes)),
        }
    }

    /// Reads all of `dataset`, whose one dimension is `n`.
    fn read_all(&self, dataset: Id, n: u64) -> Result<Vec<i64>, Error> {
        let mut out = vec![0_i64; usize::try_from(n).unwrap_or(0)];
        let f = self.library.lock();
        // SAFETY: spaces 0 (H5S_ALL) read the whole dataset, of one dimension, which
        // gave `out` its length, as i64.
        let done = unsafe { (f.dread)(dataset, f.native_i64, 0, 0, 0, out.as_mut_ptr().cast()) };
        if done < 0 { Err(self.fail("H5Dread")) } else { Ok(out) }
    }

    fn close(&self, dataset: Id, space: Id) {
        let f = self.library.lock();
        // SAFETY: handles are closed once, by who made them; of bad ones it is an error code.
        unsafe { ((f.sclose)(space), (f.dclose)(dataset)) };
    }

    fn c_string(&self, bytes: &[u8]) -> Result<CString, Error> {
        CString::new(bytes).map_err(|_| self.fail("H5Fopen"))
    }

    fn fail(&self, call: &'static str) -> Error {
        Error::Hdf5 { call, path: self.path.display().to_string() }
    }
}

impl Drop for Samples {
    fn drop(&mut self) {
        if self.element >= 0 {
            // SAFETY: an open type, closed once.
            unsafe { (self.library.lock().tclose)(self.element) };
        }
        if self.dataset >= 0 {
            self.close(self.dataset, self.space);
        }
        if self.file >= 0 {
            // SAFETY: an open file, closed once.
            unsafe { (self.library.lock().fclose)(self.file) };
        }
    }
}

#[cfg(test)]
mod tests {
    use gular_bundle::{
        BundlePath, Dtype, Envelope, Field, FieldName, ShardSpec, ShardWriter, Split,
    };

    use super::*;

    fn value(row: u8) -> Vec<u8> {
        (0..16).map(|i| row * 16 + i).collect()
    }

    #[test]
    fn elements_of_several_bytes_are_read_as_they_lie() {
        let Some(library) = Hdf5::find() else {
            println!("skipped: {MISSING}");
            return;
        };
        let dir = tempfile::tempdir().unwrap();
        for dtype in [Dtype::U16, Dtype::F16, Dtype::F32] {
            let shape = vec![16 / (2 * dtype.size_bytes()), 2];
            let fields = [Field::fixed(FieldName::image(), dtype, shape)];
            let data = dir.path().join(format!("{dtype:?}"));
            std::fs::create_dir(&data).unwrap();
            let spec = ShardSpec::new(Envelope::Hdf5, Split::Train, &fields);
            let mut writer = ShardWriter::create(&data, &spec).unwrap();
            for row in 0..3 {
                let key = BundlePath::parse(&format!("{row}.png")).unwrap();
                writer.push(&key, &[&value(row)]).unwrap();
            }
            let path = data.join(writer.finish().unwrap().file.name.as_str());
            let samples = Samples::open(&library, &path, "image", false).unwrap();
            let mut out = vec![0xff; 3];
            for row in [2, 0, 1] {
                samples.read(usize::from(row), &mut out).unwrap();
                assert_eq!(out, value(row), "{dtype:?}");
            }
            assert!(samples.read(3, &mut out).is_err());
            // A list of numbers has one dimension, or more is written than there is room for.
            assert!(matches!(samples.numbers("image"), Err(Error::Hdf5 { .. })));
        }
    }
}
