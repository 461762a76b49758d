//! NCCL, the library for collective operations between GPUs: only the functions that are needed.
//!
//! cudarc's own binding looks for `libnccl.so`; PyTorch's packages bring `libnccl.so.2`,
//! and two copies in one process are one too many. So the one that libtorch has opened is
//! asked for by its own name. Types and numbers are those of `nccl.h`, the same since 2.10.

#![expect(unsafe_code, reason = "functions of a C library")]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, TryLockError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use cudarc::driver::{CudaContext, CudaEvent, DevicePtrMut as _};
use libloading::os::unix::Library;
use tch::{Kind, Tensor};

use super::lanes::refused as refused_by_driver;
use super::library::{self, reason};
use super::{CudaError, Gpu};
use crate::Error;
use crate::group::Group;
use crate::tensor_options::BUCKET_BYTES;

const NAME: &str = "libnccl.so.2";

/// `ncclUniqueId`: where the ranks of a communicator meet.
#[derive(Clone, Copy)]
#[repr(C)]
struct UniqueId([c_char; 128]);

type Comm = *mut c_void;
type Answer = c_int;

const SUCCESS: Answer = 0;
const IN_PROGRESS: Answer = 7;
/// The value of `ncclSum`.
const SUM: c_int = 0;
/// The value of `ncclFloat32`.
const FLOAT: c_int = 7;

/// How long joining may take, since NCCL itself waits forever.
const INIT_TIMEOUT: Duration = Duration::from_secs(300);

/// How long the GPUs may take for one sum while all ranks run: as long as ranks wait for each other
/// in an operation of the group.
const STALLED: Duration = Duration::from_secs(600);

/// Numbers of the large sum that is tried first; as many as a bucket has.
const WARM_UP: usize = BUCKET_BYTES / size_of::<f32>();

#[derive(Clone, Copy)]
struct Api {
    version: unsafe extern "C" fn(*mut c_int) -> Answer,
    unique_id: unsafe extern "C" fn(*mut UniqueId) -> Answer,
    init: unsafe extern "C" fn(*mut Comm, c_int, UniqueId, c_int) -> Answer,
    all_reduce: unsafe extern "C" fn(
        *const c_void,
        *mut c_void,
        usize,
        c_int,
        c_int,
        Comm,
        *mut c_void,
    ) -> Answer,
    async_error: unsafe extern "C" fn(Comm, *mut Answer) -> Answer,
    abort: unsafe extern "C" fn(Comm) -> Answer,
    text: unsafe extern "C" fn(Answer) -> *const c_char,
}

impl Api {
    /// Opens the library once.
    fn open() -> Result<&'static Self, CudaError> {
        // libtorch's CUDA half loads NCCL, wherever it is stored.
        let _ = library::open();
        static OPENED: OnceLock<Result<Api, String>> = OnceLock::new();
        let open = || {
            // SAFETY: the library that libtorch's CUDA half depends on and has opened;
            // each symbol's type is that of `nccl.h`.
            let api = unsafe {
                let library = Library::new(NAME)?;
                let api = Self {
                    version: *library.get(c"ncclGetVersion".to_bytes())?,
                    unique_id: *library.get(c"ncclGetUniqueId".to_bytes())?,
                    init: *library.get(c"ncclCommInitRank".to_bytes())?,
                    all_reduce: *library.get(c"ncclAllReduce".to_bytes())?,
                    async_error: *library.get(c"ncclCommGetAsyncError".to_bytes())?,
                    abort: *library.get(c"ncclCommAbort".to_bytes())?,
                    text: *library.get(c"ncclGetErrorString".to_bytes())?,
                };
                std::mem::forget(library);
                api
            };
            Ok(api)
        };
        let opened = OPENED.get_or_init(|| open().map_err(|e: libloading::Error| reason(&e)));
        let refused =
            |reason: &String| CudaError::Nccl { action: "open it", reason: reason.clone() };
        opened.as_ref().map_err(refused)
    }

    fn check(&self, action: &'static str, answer: Answer) -> Result<(), CudaError> {
        if answer == SUCCESS || answer == IN_PROGRESS {
            return Ok(());
        }
        // SAFETY: for any number it returns a string that lives as long as the library.
        let text = unsafe { CStr::from_ptr((self.text)(answer)) };
        Err(CudaError::Nccl { action, reason: text.to_string_lossy().into_owned() })
    }
}

/// A communicator that joins the GPUs of all ranks.
#[derive(Debug)]
pub struct Nccl {
    comm: Arc<Mutex<Shared>>,
    context: Arc<CudaContext>,
    /// Dropped, it ends the thread that looks for errors.
    _watch: mpsc::Sender<()>,
}

#[derive(Debug)]
struct Shared {
    /// The communicator, until it is ended.
    handle: Option<Handle>,
    /// Why the communicator was ended.
    reason: &'static str,
    /// An event after the oldest sum that may not be done, and the time when it was recorded.
    under_way: Option<(CudaEvent, Instant)>,
}

/// A communicator, which must be used behind a lock.
#[derive(Debug)]
struct Handle(Comm);

// SAFETY: NCCL lets any thread use a communicator, one at a time.
unsafe impl Send for Handle {}

impl Nccl {
    /// Makes one communicator of the GPUs of all ranks of `group`; all must call it.
    ///
    /// # Errors
    /// [`CudaError::Nccl`]; when a rank is lost meanwhile, the group's error.
    pub fn join(gpu: &Gpu, group: &Group) -> Result<Self, Error> {
        let api = Api::open()?;
        let mut id = Vec::new();
        if group.rank() == 0 {
            id = unique_id(api)?.0.map(c_char::cast_unsigned).to_vec();
        }
        group.broadcast(&mut id)?;
        let id = id.try_into().map_err(|id: Vec<u8>| CudaError::Nccl {
            action: "meet the other ranks",
            reason: format!("its address is {} bytes, expected 128", id.len()),
        })?;
        let id = UniqueId(<[u8; 128]>::map(id, u8::cast_signed));
        let context = Arc::clone(gpu.context());
        let comm = init(api, &context, group, id)?;
        let reason = "a rank was lost";
        let comm = Shared { handle: Some(comm), reason, under_way: None };
        let comm = Arc::new(Mutex::new(comm));
        let (watch, ended) = mpsc::channel();
        let watched = Arc::clone(&comm);
        let thread = thread::Builder::new().name("gular-nccl".into());
        let bound = Arc::clone(&context);
        let spawned = thread.spawn(move || {
            // Without the bound context, the driver refuses to answer questions about an event.
            bound.record_err(bound.bind_to_thread());
            look_for_errors(api, &watched, &ended);
        });
        spawned.map_err(no_thread)?;
        let lost = Arc::clone(&comm);
        // This uses a thread of its own, since the thread that watches the group must not wait for
        // NCCL.
        group.on_failure(move |_| drop(thread::spawn(move || abort(api, &lost))));
        Ok(Self { comm, context, _watch: watch })
    }

    /// Waits until all that was given to the GPU is done, and sees that it was done: sums
    /// that were ended leave anything behind.
    pub(crate) fn wait(&self) -> Result<(), Error> {
        let (index, action) = (self.context.ordinal(), "add up gradients");
        self.context.synchronize().map_err(|e| refused_by_driver(index, action, e))?;
        let shared = self.comm.lock().unwrap_or_else(PoisonError::into_inner);
        match shared.handle {
            Some(_) => Ok(()),
            None => Err(CudaError::Nccl { action, reason: shared.reason.into() }.into()),
        }
    }

    /// The version of the library, such as 2.28.9.
    ///
    /// # Errors
    /// [`CudaError::Nccl`] where there is none.
    pub fn version() -> Result<(i32, i32, i32), Error> {
        let api = Api::open()?;
        let mut version = 0;
        // SAFETY: the call writes one number.
        api.check("tell its version", unsafe { (api.version)(&raw mut version) })?;
        Ok((version / 10_000, version % 10_000 / 100, version % 100))
    }

    /// Replaces `tensor` by the sum over all ranks, in the order of libtorch's stream.
    ///
    /// The tensor must be contiguous memory of this GPU, which libtorch frees in the order of the
    /// same stream.
    pub(crate) fn sum(&self, tensor: &mut Tensor) -> Result<(), Error> {
        let action = "add up gradients";
        let api = Api::open()?;
        let refused = |reason: String| CudaError::Nccl { action, reason };
        let kind = tensor.f_kind()?;
        let number = number(kind).ok_or_else(|| refused(format!("a tensor of kind {kind:?}")))?;
        if !tensor.is_contiguous() || !tensor.device().is_cuda() {
            return Err(refused("a tensor that is not contiguous on a GPU".into()).into());
        }
        let bound = self.context.bind_to_thread();
        bound.map_err(|e| refused_by_driver(self.context.ordinal(), action, e))?;
        let mut shared = self.comm.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(Handle(comm)) = shared.handle else {
            return Err(refused(shared.reason.into()).into());
        };
        let (start, n) = (tensor.data_ptr(), tensor.numel());
        let mut later = SUCCESS;
        // SAFETY: `n` numbers of that kind on this GPU, which the borrow keeps others on the
        // host from; work of libtorch before and after is on the same stream. The
        // communicator is not aborted, since the lock is held.
        let (given, asked) = unsafe {
            let stream = ptr::null_mut();
            let given = (api.all_reduce)(start, start, n, number, SUM, comm, stream);
            (given, (api.async_error)(comm, &raw mut later))
        };
        api.check(action, given)?;
        api.check(action, asked)?;
        api.check(action, later)?;
        if shared.under_way.is_none() {
            let refused = |e| refused_by_driver(self.context.ordinal(), action, e);
            let event = self.context.new_event(None).map_err(refused)?;
            event.record(&self.context.default_stream()).map_err(refused)?;
            shared.under_way = Some((event, Instant::now()));
        }
        Ok(())
    }
}

impl Drop for Nccl {
    fn drop(&mut self) {
        if let Ok(api) = Api::open() {
            // Work that was submitted to the stream is finished first, unless a rank was lost.
            if self.comm.lock().unwrap_or_else(PoisonError::into_inner).handle.is_some() {
                self.context.record_err(self.context.synchronize());
            }
            abort(api, &self.comm);
        }
    }
}

/// Ends the communicator, and with it kernels that wait for other ranks.
fn abort(api: &Api, comm: &Mutex<Shared>) {
    let since = Instant::now();
    loop {
        let held = match comm.try_lock() {
            Ok(mut shared) => shared.handle.take(),
            Err(TryLockError::Poisoned(shared)) => shared.into_inner().handle.take(),
            Err(TryLockError::WouldBlock) => {
                // A call that connects to a lost rank may not come back at all.
                if since.elapsed() > Duration::from_secs(10) {
                    return;
                }
                thread::sleep(Duration::from_millis(10));
                continue;
            }
        };
        if let Some(Handle(comm)) = held {
            // SAFETY: taken out under the lock, so nobody uses it now or later.
            let _ = unsafe { (api.abort)(comm) };
        }
        return;
    }
}

/// Ends the communicator when NCCL itself reports an error, such as a network that fails
/// between ranks that live, or when a sum does not end: its kernels would wait for ever, and the
/// host for them.
fn look_for_errors(api: &Api, comm: &Mutex<Shared>, ended: &mpsc::Receiver<()>) {
    while ended.recv_timeout(Duration::from_secs(1)) == Err(mpsc::RecvTimeoutError::Timeout) {
        let Ok(mut shared) = comm.try_lock() else { continue };
        let Some(Handle(handle)) = shared.handle else { return };
        if let Some((event, since)) = &shared.under_way {
            match event.try_is_complete() {
                Ok(true) => shared.under_way = None,
                Ok(false) if since.elapsed() > STALLED => {
                    shared.reason = "a sum did not end within ten minutes, though all ranks live";
                    drop(shared);
                    return abort(api, comm);
                }
                _ => {}
            }
        }
        let mut answer = SUCCESS;
        // SAFETY: a communicator that is not aborted: the lock is held.
        let asked = unsafe { (api.async_error)(handle, &raw mut answer) };
        if api.check("look", asked).and_then(|()| api.check("look", answer)).is_err() {
            shared.reason = "a connection between the GPUs failed; NCCL_DEBUG=WARN says which";
            drop(shared);
            return abort(api, comm);
        }
    }
}

fn unique_id(api: &Api) -> Result<UniqueId, CudaError> {
    let mut id = UniqueId([0; 128]);
    // SAFETY: the call writes 128 bytes.
    api.check("make an address", unsafe { (api.unique_id)(&raw mut id) })?;
    Ok(id)
}

/// Waits for all ranks' GPUs, in a thread of its own: it would wait for ever for a rank
/// that is lost. The thread then stays until the process ends.
fn init(
    api: &'static Api,
    context: &Arc<CudaContext>,
    group: &Group,
    id: UniqueId,
) -> Result<Handle, Error> {
    let count = |n: u64| {
        let reason = || format!("{n} ranks are too many");
        c_int::try_from(n).map_err(|_| CudaError::Nccl { action: "join", reason: reason() })
    };
    let (n, rank) = (count(group.world_size())?, count(group.rank())?);
    let (done, joined) = mpsc::channel();
    let bound = Arc::clone(context);
    let index = context.ordinal();
    let work = move || {
        let join = || {
            let action = "join the other ranks";
            bound.bind_to_thread().map_err(|e| refused_by_driver(index, action, e))?;
            let mut comm = ptr::null_mut();
            // SAFETY: writes the communicator; the GPU is this thread's, as NCCL wants it.
            let answer = unsafe { (api.init)(&raw mut comm, n, id, rank) };
            api.check(action, answer)?;
            let comm = Handle(comm);
            // NCCL connects at the first sums, small and large ones in other ways; where a
            // rank is lost meanwhile, nobody waits for this thread.
            let stream = bound.default_stream();
            for len in [1, WARM_UP] {
                let numbers = stream.alloc_zeros::<f32>(len);
                let mut numbers = numbers.map_err(|e| refused_by_driver(index, action, e))?;
                let (start, _none) = numbers.device_ptr_mut(&stream);
                let start = start as usize as *mut c_void;
                // SAFETY: `len` numbers on this GPU, until the stream is done with them below.
                let answer = unsafe {
                    (api.all_reduce)(start, start, len, FLOAT, SUM, comm.0, ptr::null_mut())
                };
                api.check(action, answer)?;
                bound.synchronize().map_err(|e| refused_by_driver(index, action, e))?;
            }
            Ok(comm)
        };
        // The receiver may no longer exist.
        drop(done.send(join()));
    };
    let thread = thread::Builder::new().name("gular-nccl".into()).spawn(work);
    thread.map_err(no_thread)?;
    let since = Instant::now();
    loop {
        match joined.recv_timeout(Duration::from_millis(200)) {
            Ok(comm) => return comm,
            Err(mpsc::RecvTimeoutError::Timeout) => {
                group.check()?;
                if since.elapsed() > INIT_TIMEOUT {
                    let reason = format!(
                        "not connected after {INIT_TIMEOUT:?}, although all ranks are running; set \
                        NCCL_SOCKET_IFNAME to the network that they share"
                    );
                    return Err(CudaError::Nccl { action: "join the other ranks", reason }.into());
                }
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                let reason = "its thread panicked".into();
                return Err(CudaError::Nccl { action: "join the other ranks", reason }.into());
            }
        }
    }
}

#[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
fn no_thread(error: std::io::Error) -> CudaError {
    CudaError::Nccl { action: "start a thread", reason: error.to_string() }
}

/// Returns the `ncclDataType_t` of a kind.
fn number(kind: Kind) -> Option<c_int> {
    Some(match kind {
        Kind::Uint8 => 1,
        Kind::Int64 => 4,
        Kind::Half => 6,
        Kind::Float => FLOAT,
        Kind::Double => 8,
        Kind::BFloat16 => 9,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_tells_its_version_or_is_named_as_missing() {
        match Nccl::version() {
            Ok((major, minor, _)) => {
                assert!((major, minor) >= (2, 10));
                // Symbols of other types would show here, without a GPU too.
                let api = Api::open().unwrap();
                let error = api.check("try", 4).unwrap_err().to_string();
                assert_eq!(
                    error,
                    "NCCL cannot try: invalid argument (run with NCCL_DEBUG=WARN for details)"
                );
            }
            Err(error) => assert!(error.to_string().contains(NAME), "{error}"),
        }
    }
}
