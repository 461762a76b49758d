// Forgetting a gradient, which tch can only set to zero.

#include <ATen/core/Tensor.h>

extern "C" void gular_forget_grad(at::Tensor *variable) noexcept {
  // A variable that never had a gradient has no place for one either; one that was frozen may have.
  if (variable->grad().defined()) {
    variable->mutable_grad() = at::Tensor();
  }
}
