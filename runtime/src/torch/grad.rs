//! Gradients, as far as tch cannot reach them.

use tch::Tensor;
use torch_sys::C_tensor;

#[expect(unsafe_code, reason = "tch cannot unset a gradient")]
unsafe extern "C" {
    fn gular_forget_grad(variable: *mut C_tensor);
}

/// Leaves `variable` without a gradient.
#[expect(unsafe_code, reason = "tch cannot unset a gradient")]
pub(super) fn forget(variable: &mut Tensor) {
    // SAFETY: the tensor lives as long as the call; a variable's gradient may be replaced by
    // nothing at any time outside a backward pass, and that borrows no gradient of ours.
    unsafe { gular_forget_grad(variable.as_mut_ptr()) }
}
