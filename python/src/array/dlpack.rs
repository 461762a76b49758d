//! Arrays that are lent by DLPack: <https://dmlc.github.io/dlpack/latest/c_api.html>.
//!
//! ```text
//!   PyCapsule "dltensor" ──▶ DLManagedTensor { dl_tensor ──▶ shape, strides, data
//!                                              manager_ctx ──▶ Export: owns all of these }
//! ```
//!
//! The reader that takes the tensor renames the capsule and calls the deleter when done, on any
//! thread, with or without Python's lock; a capsule whose tensor was not taken calls the deleter
//! itself.

#![expect(unsafe_code, reason = "capsules of Python's C interface, and callbacks from C")]

use std::ffi::{CStr, c_void};

use gular_runtime::Dtype;
use pyo3::ffi;
use pyo3::prelude::*;

use super::Column;

/// The device type `kDLCPU`.
pub(crate) const CPU: i32 = 1;
/// The newest version of the protocol that this module knows.
const VERSION: Version = Version { major: 1, minor: 0 };
/// The flag `DLPACK_FLAG_BITMASK_IS_COPIED`.
const IS_COPIED: u64 = 1 << 1;

const PLAIN: &CStr = c"dltensor";
const VERSIONED: &CStr = c"dltensor_versioned";

#[repr(C)]
#[derive(Clone, Copy)]
struct Version {
    major: u32,
    minor: u32,
}

#[repr(C)]
struct Device {
    kind: i32,
    id: i32,
}

#[repr(C)]
struct DataType {
    code: u8,
    bits: u8,
    lanes: u16,
}

#[repr(C)]
struct Tensor {
    data: *mut c_void,
    device: Device,
    n_axes: i32,
    dtype: DataType,
    shape: *mut i64,
    strides: *mut i64,
    byte_offset: u64,
}

#[repr(C)]
struct Managed {
    tensor: Tensor,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Self)>,
}

#[repr(C)]
struct ManagedVersioned {
    version: Version,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Self)>,
    flags: u64,
    tensor: Tensor,
}

/// The values that must live as long as a lent tensor: the memory, and the numbers that its
/// description points to.
struct Export<T> {
    managed: T,
    shape: Box<[i64]>,
    strides: Box<[i64]>,
    _column: Column,
}

/// Returns the `DLDataTypeCode` and the number of bits of a type.
fn data_type(dtype: Dtype) -> DataType {
    let code = match dtype {
        Dtype::I8 | Dtype::I16 | Dtype::I32 | Dtype::I64 => 0,
        Dtype::U8 | Dtype::U16 | Dtype::U32 => 1,
        Dtype::F16 | Dtype::F32 | Dtype::F64 => 2,
        Dtype::Bf16 => 4,
    };
    DataType { code, bits: dtype.size_bytes() as u8 * 8, lanes: 1 }
}

/// Makes a capsule that lends `column`, in the newest form that a reader of `max_version` knows.
pub(crate) fn capsule(
    py: Python<'_>,
    column: Column,
    max_version: Option<(u32, u32)>,
    copied: bool,
) -> PyResult<Py<PyAny>> {
    if max_version.is_some_and(|(major, _)| major >= VERSION.major) {
        let managed = |tensor, context| ManagedVersioned {
            version: VERSION,
            context,
            deleter: Some(delete_versioned),
            flags: if copied { IS_COPIED } else { 0 },
            tensor,
        };
        let export = export(column, managed, |managed| &mut managed.tensor, |m, c| m.context = c);
        // SAFETY: the pointer is what `export` made, under the name of its type.
        return unsafe { wrap(py, export.cast(), VERSIONED, drop_versioned) };
    }
    let managed = |tensor, context| Managed { tensor, context, deleter: Some(delete_plain) };
    let export = export(column, managed, |managed| &mut managed.tensor, |m, c| m.context = c);
    // SAFETY: the pointer is what `export` made, under the name of its type.
    unsafe { wrap(py, export.cast(), PLAIN, drop_plain) }
}

/// Puts `column` and its description where they stay until the deleter is called.
fn export<T>(
    column: Column,
    managed: impl FnOnce(Tensor, *mut c_void) -> T,
    tensor: impl FnOnce(&mut T) -> &mut Tensor,
    context: impl FnOnce(&mut T, *mut c_void),
) -> *mut T {
    let shape: Box<[i64]> = column.shape.iter().map(|n| *n as i64).collect();
    let strides: Box<[i64]> = column.strides.iter().map(|n| *n as i64).collect();
    let empty = Tensor {
        data: column.address() as *mut c_void,
        device: Device { kind: CPU, id: 0 },
        n_axes: shape.len() as i32,
        dtype: data_type(column.dtype),
        shape: std::ptr::null_mut(),
        strides: std::ptr::null_mut(),
        byte_offset: 0,
    };
    let managed = managed(empty, std::ptr::null_mut());
    let mut made = Box::new(Export { managed, shape, strides, _column: column });
    let (at, steps) = (made.shape.as_mut_ptr(), made.strides.as_mut_ptr());
    let tensor = tensor(&mut made.managed);
    (tensor.shape, tensor.strides) = (at, steps);
    let made = Box::into_raw(made);
    // SAFETY: the pointer is from the line above, and nobody else has it.
    unsafe {
        context(&mut (*made).managed, made.cast());
        &raw mut (*made).managed
    }
}

/// # Safety
/// `managed` is what `destructor` takes from a capsule named `name`.
unsafe fn wrap(
    py: Python<'_>,
    managed: *mut c_void,
    name: &'static CStr,
    destructor: unsafe extern "C" fn(*mut ffi::PyObject),
) -> PyResult<Py<PyAny>> {
    // SAFETY: the pointer is not null, the name lives for ever, and Python's lock is held.
    let made = unsafe { ffi::PyCapsule_New(managed, name.as_ptr(), Some(destructor)) };
    // SAFETY: the pointer is a new reference, or null with an exception set.
    unsafe { Bound::from_owned_ptr_or_err(py, made) }.map(Bound::unbind)
}

/// Frees a tensor when the reader that took it is done with it.
unsafe extern "C" fn delete_plain(managed: *mut Managed) {
    // SAFETY: the pointer is from `export`, and is handed over to this one call.
    drop(unsafe { Box::from_raw((*managed).context.cast::<Export<Managed>>()) });
}

/// Does the same as [`delete_plain`].
unsafe extern "C" fn delete_versioned(managed: *mut ManagedVersioned) {
    // SAFETY: the pointer is from `export`, and is handed over to this one call.
    drop(unsafe { Box::from_raw((*managed).context.cast::<Export<ManagedVersioned>>()) });
}

/// Frees the tensor of a capsule that is deleted; it was not taken if it still has its first name.
unsafe extern "C" fn drop_plain(capsule: *mut ffi::PyObject) {
    // SAFETY: this is a capsule of `wrap`, whose pointer is a tensor that was not taken.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, PLAIN.as_ptr()) == 1 {
            delete_plain(ffi::PyCapsule_GetPointer(capsule, PLAIN.as_ptr()).cast());
        }
    }
}

/// Does the same as [`drop_plain`].
unsafe extern "C" fn drop_versioned(capsule: *mut ffi::PyObject) {
    // SAFETY: this is a capsule of `wrap`, whose pointer is a tensor that was not taken.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, VERSIONED.as_ptr()) == 1 {
            delete_versioned(ffi::PyCapsule_GetPointer(capsule, VERSIONED.as_ptr()).cast());
        }
    }
}
