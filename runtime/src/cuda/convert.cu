// How pixels become the numbers a network takes: (value / scale - mean) / std in f32, rounded once
// to what is asked for. NVRTC compiles this for the GPU at hand; the host's compiler does for the
// test that holds it against libtorch's operations, which have the bits of the loader's threads.
//
// There is no multiplication, so nothing can become a fused one with an addition.

#ifndef __CUDACC_RTC__
#define __device__
#endif

struct Brain {
  unsigned short bits;
};

struct Half {
  unsigned short bits;
};

__device__ inline unsigned bits_of(float number) {
  union {
    float number;
    unsigned bits;
  } same;
  same.number = number;
  return same.bits;
}

// `bits` without the last `n`, to the nearest; of two that are as near to the even one.
__device__ inline unsigned rounded(unsigned bits, unsigned n) {
  return (bits + (1u << (n - 1)) - 1 + ((bits >> n) & 1)) >> n;
}

__device__ inline void put(float number, float &to) { to = number; }

__device__ inline void put(float number, Brain &to) {
  unsigned bits = bits_of(number);
  bool is_number = (bits & 0x7fffffff) <= 0x7f800000;
  to.bits = (unsigned short)(is_number ? rounded(bits, 16) : (bits >> 16) | 0x40);
}

__device__ inline void put(float number, Half &to) {
  unsigned bits = bits_of(number), sign = bits >> 16 & 0x8000, size = bits & 0x7fffffff;
  unsigned half;
  if (size > 0x7f800000) {
    half = 0x7e00 | (size >> 13 & 0x3ff);
  } else if (size >= 0x47800000) {
    half = 0x7c00; // 65536 and more
  } else if (size >= 0x38800000) {
    half = rounded(size - 0x38000000, 13); // exponents count from -14, not -126
  } else if (size >= 0x33000000) {
    half = rounded((size & 0x7fffff) | 0x800000, 126 - (size >> 23)); // below 2^-14
  } else {
    half = 0;
  }
  to.bits = (unsigned short)(sign | half);
}

// Number `i` of an image of `pixels` pixels, which begins at `from` and `to`. Stored are pixels one
// after the other; planar are channels one after the other. `how` has scale, mean and standard
// deviation of each channel, all of one kind together.
template <typename Stored, typename Number, bool planar>
__device__ inline void convert_one(const Stored *from, Number *to, const float *how,
                                   unsigned channels, unsigned pixels, unsigned i) {
  unsigned channel = planar ? i / pixels : i % channels;
  unsigned at = planar ? i % pixels * channels + channel : i;
  float scaled = (float)from[at] / how[channel];
  float centred = scaled - how[channels + channel];
  put(centred / how[2 * channels + channel], to[i]);
}

#ifdef __CUDACC_RTC__
// An image per row of the grid.
extern "C" __global__ void convert(const STORED *from, NUMBER *to, const float *how) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < CHANNELS * PIXELS) {
    unsigned long long start = (unsigned long long)blockIdx.y * (CHANNELS * PIXELS);
    convert_one<STORED, NUMBER, PLANAR>(from + start, to + start, how, CHANNELS, PIXELS, i);
  }
}
#endif
