// A tensor over memory that is given back when the last one that shares it is gone. tch makes
// tensors over memory of others, but tells nobody when they end.

#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>

#include <cstdint>
#include <memory>

// `owner` is given back exactly once, also where no tensor is made and null is returned.
extern "C" at::Tensor *gular_lend(void *data, const int64_t *sizes, const int64_t *strides,
                                  size_t n_axes, int kind, void *owner,
                                  void (*give_back)(void *)) noexcept {
  try {
    std::shared_ptr<void> held(owner, give_back);
    auto options = at::TensorOptions().dtype(static_cast<at::ScalarType>(kind));
    return new at::Tensor(at::from_blob(data, at::IntArrayRef(sizes, n_axes),
                                        at::IntArrayRef(strides, n_axes),
                                        [held](void *) {}, options));
  } catch (...) {
    return nullptr;
  }
}
