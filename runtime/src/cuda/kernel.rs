//! The kernel that converts pixels to numbers, compiled for the GPU of this process.

#![expect(unsafe_code, reason = "cudarc's safe form takes no machine code")]

use std::ffi::c_void;
use std::fmt;
use std::sync::Arc;

use cudarc::driver::{CudaContext, DriverError, result, sys};
use gular_bundle::Dtype;
use tch::Tensor;

use super::lanes::refused;
use super::{CudaError, Gpu, nvrtc};
use crate::{AxisOrder, Error, Numbers};

const SOURCE: &str = include_str!("convert.cu");

/// Threads in a block. Any multiple of 32 works, since a thread reads and writes one number.
const BLOCK: u32 = 256;

/// Images of a batch: the most rows that a grid can have.
const MOST_IMAGES: i64 = 65_535;

/// The types that are converted, and the shape of the images.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Conversion {
    pub(crate) stored: Dtype,
    pub(crate) channels: u32,
    /// The number of pixels of an image.
    pub(crate) pixels: u32,
    pub(crate) numbers: Numbers,
    pub(crate) layout: AxisOrder,
}

impl Conversion {
    /// Whether the kernel supports the conversion.
    pub(crate) fn has_kernel(&self) -> bool {
        matches!(self.stored, Dtype::U8 | Dtype::U16)
            && self.numbers != Numbers::Stored
            && self.values().is_some_and(|n| n > 0)
    }

    /// Number of values in an image, if it is not too large.
    fn values(&self) -> Option<u32> {
        // There must be space for the last block.
        self.channels.checked_mul(self.pixels).filter(|n| *n < u32::MAX - BLOCK)
    }

    /// The options of NVRTC for a GPU of this compute capability.
    fn options(&self, (major, minor): (i32, i32)) -> Vec<String> {
        let stored = if self.stored == Dtype::U16 { "unsigned short" } else { "unsigned char" };
        let number = match self.numbers {
            Numbers::Bf16 => "Brain",
            Numbers::F16 => "Half",
            Numbers::F32 | Numbers::Stored => "float",
        };
        let (channels, pixels) = (self.channels, self.pixels);
        let planar = self.layout == AxisOrder::Contiguous;
        vec![
            format!("--gpu-architecture=sm_{major}{minor}"),
            // Exact division, and numbers near zero as they are: the CPU's bits.
            "--prec-div=true".into(),
            "--ftz=false".into(),
            "--fmad=false".into(),
            format!("-DSTORED={stored}"),
            format!("-DNUMBER={number}"),
            format!("-DPLANAR={planar}"),
            format!("-DCHANNELS={channels}u"),
            format!("-DPIXELS={pixels}u"),
        ]
    }

    /// Machine code for a GPU of this compute capability.
    fn compile(&self, capability: (i32, i32)) -> Result<Vec<u8>, String> {
        nvrtc::compile(SOURCE, &self.options(capability))
    }
}

/// Compiles every kernel for GPUs of these compute capabilities (major, minor); their sizes in
/// bytes. Needs NVRTC, and no GPU.
///
/// # Errors
/// Why NVRTC could not.
pub fn compile_kernels(capabilities: &[(i32, i32)]) -> Result<Vec<usize>, String> {
    let mut sizes = Vec::new();
    for capability in capabilities {
        for stored in [Dtype::U8, Dtype::U16] {
            for numbers in [Numbers::F32, Numbers::Bf16, Numbers::F16] {
                for layout in [AxisOrder::Contiguous, AxisOrder::ChannelsLast] {
                    let pixels = 224 * 224;
                    let of = Conversion { stored, channels: 3, pixels, numbers, layout };
                    sizes.push(of.compile(*capability)?.len());
                }
            }
        }
    }
    Ok(sizes)
}

/// The loaded kernel of one [`Conversion`].
pub(crate) struct Kernel {
    context: Arc<CudaContext>,
    module: sys::CUmodule,
    function: sys::CUfunction,
    of: Conversion,
}

impl Kernel {
    pub(crate) fn new(gpu: &Gpu, of: Conversion) -> Result<Self, Error> {
        let failed = |reason| CudaError::Gpu {
            index: gpu.index,
            action: "compile the kernel that makes numbers of pixels",
            reason,
        };
        let code = of.compile(gpu.capability).map_err(failed)?;
        let refused = |e: DriverError| refused(gpu.index, "load a kernel", e);
        let context = Arc::clone(gpu.context());
        context.bind_to_thread().map_err(refused)?;
        // SAFETY: a whole module, as NVRTC made it; the driver copies it.
        let module = unsafe { result::module::load_data(code.as_ptr().cast()) }.map_err(refused)?;
        let mut kernel = Self { context, module, function: std::ptr::null_mut(), of };
        // SAFETY: loaded just now, with a function of this name.
        let function = unsafe { result::module::get_function(module, c"convert".to_owned()) };
        kernel.function = function.map_err(refused)?;
        Ok(kernel)
    }

    /// Whether the kernel can convert a batch of `n` images.
    pub(crate) fn takes(n: i64) -> bool {
        (0..=MOST_IMAGES).contains(&n)
    }

    /// Gives libtorch's stream the conversion of `from`, `[n, h, w, channels]` as bytes, to `to`,
    /// as many numbers in the layout it is of. `how` is `f32`: scales, means, standard deviations.
    pub(crate) fn launch(&self, from: &Tensor, to: &Tensor, how: &Tensor) -> Result<(), Error> {
        let refused =
            |e: DriverError| Error::from(refused(self.context.ordinal(), "start a kernel", e));
        let n = from.size().first().copied().unwrap_or(0);
        let values = self.of.values().unwrap_or(0);
        let bytes = n as usize * values as usize * self.of.stored.size_bytes() as usize;
        let fits = from.numel() == bytes
            && to.numel() == n as usize * values as usize
            && how.numel() == 3 * self.of.channels as usize
            && Self::takes(n);
        if !fits {
            let (from, to) = (from.size(), to.size());
            let reason = format!("a kernel for {:?} is given {from:?} to make {to:?} of", self.of);
            return Err(Error::Tensors { reason });
        }
        if n == 0 {
            return Ok(());
        }
        let mut places = [from, to, how].map(Tensor::data_ptr);
        let mut parameters = places.each_mut().map(|place| (&raw mut *place).cast::<c_void>());
        let grid = (values.div_ceil(BLOCK), n as u32, 1);
        self.context.bind_to_thread().map_err(refused)?;
        let stream = self.context.default_stream();
        // SAFETY: three pointers, as the kernel declares, to memory of this device that libtorch
        // or the ring holds until its stream is past this; the lengths were compared above, and
        // the kernel reads and writes no more.
        let launched = unsafe {
            let stream = stream.cu_stream();
            result::launch_kernel(self.function, grid, (BLOCK, 1, 1), 0, stream, &mut parameters)
        };
        launched.map_err(refused)
    }
}

impl Drop for Kernel {
    fn drop(&mut self) {
        let context = &self.context;
        context.record_err(context.bind_to_thread());
        // Launched kernels may still be running.
        context.record_err(context.default_stream().synchronize());
        // SAFETY: loaded by `new`, and nothing of it runs any more.
        context.record_err(unsafe { result::module::unload(self.module) });
    }
}

impl fmt::Debug for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Kernel({:?})", self.of)
    }
}

// SAFETY: module and function are numbers given to the driver, which takes them from any
// thread that the context is bound to.
unsafe impl Send for Kernel {}
// SAFETY: as above.
unsafe impl Sync for Kernel {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_cannot_do_is_left_to_libtorch() {
        let of = |stored, numbers, channels, pixels| {
            let layout = AxisOrder::Contiguous;
            Conversion { stored, channels, pixels, numbers, layout }.has_kernel()
        };
        assert!(of(Dtype::U8, Numbers::F32, 3, 50_176));
        assert!(of(Dtype::U16, Numbers::Bf16, 13, 1));
        assert!(!of(Dtype::U8, Numbers::Stored, 3, 50_176));
        assert!(!of(Dtype::F32, Numbers::F16, 3, 50_176));
        assert!(!of(Dtype::U8, Numbers::F32, 1 << 16, 1 << 16), "more than a grid can count");
        assert!(!of(Dtype::U8, Numbers::F32, 0, 1));
    }

    #[test]
    fn batches_of_more_images_than_a_grid_has_rows_are_left_to_libtorch() {
        assert!([0, 1, 65_535].into_iter().all(Kernel::takes));
        assert!(!Kernel::takes(65_536));
    }

    #[test]
    fn the_compiler_is_told_all_that_the_source_asks_for() {
        let layout = AxisOrder::ChannelsLast;
        let (stored, numbers) = (Dtype::U16, Numbers::F16);
        let of = Conversion { stored, channels: 4, pixels: 9, numbers, layout };
        let options = of.options((9, 0));
        assert!(options.contains(&"--gpu-architecture=sm_90".to_owned()));
        for name in ["STORED", "NUMBER", "PLANAR", "CHANNELS", "PIXELS"] {
            let told = options.iter().any(|option| option.starts_with(&format!("-D{name}=")));
            assert!(told && SOURCE.contains(name), "{name}");
        }
    }
}
