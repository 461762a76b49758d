// Mixed precision in bf16, which tch cannot choose: its own is f16 and for a GPU alone.

#include <ATen/autocast_mode.h>

namespace {
at::DeviceType device_of(bool gpu) { return gpu ? at::kCUDA : at::kCPU; }
} // namespace

// What there was before comes back with `gular_autocast_end`; -1 where libtorch refuses.
extern "C" int gular_autocast_begin(bool gpu) noexcept {
  try {
    auto device = device_of(gpu);
    int before = static_cast<int>(at::autocast::get_autocast_dtype(device)) << 1 |
                 static_cast<int>(at::autocast::is_autocast_enabled(device));
    at::autocast::set_autocast_dtype(device, at::kBFloat16);
    at::autocast::set_autocast_enabled(device, true);
    at::autocast::increment_nesting();
    return before;
  } catch (...) {
    return -1;
  }
}

extern "C" void gular_autocast_end(bool gpu, int before) noexcept {
  try {
    auto device = device_of(gpu);
    // Weights in bf16 are made once per outermost use, and weights change between two.
    if (at::autocast::decrement_nesting() == 0) {
      at::autocast::clear_cache();
    }
    at::autocast::set_autocast_enabled(device, (before & 1) != 0);
    at::autocast::set_autocast_dtype(device, static_cast<at::ScalarType>(before >> 1));
  } catch (...) {
  }
}
