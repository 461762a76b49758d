// What a GPU does, one number after the other: for tests.

#include "convert.cu"

template <typename Stored, typename Number, bool planar>
static void all(const void *from, void *to, const float *how, unsigned channels, unsigned pixels,
                unsigned images) {
  for (unsigned image = 0; image < images; image++) {
    unsigned long long start = (unsigned long long)image * channels * pixels;
    for (unsigned i = 0; i < channels * pixels; i++) {
      convert_one<Stored, Number, planar>(static_cast<const Stored *>(from) + start,
                                          static_cast<Number *>(to) + start, how, channels, pixels,
                                          i);
    }
  }
}

template <typename Stored, typename Number>
static void laid(bool planar, const void *from, void *to, const float *how, unsigned channels,
                 unsigned pixels, unsigned images) {
  if (planar) {
    all<Stored, Number, true>(from, to, how, channels, pixels, images);
  } else {
    all<Stored, Number, false>(from, to, how, channels, pixels, images);
  }
}

template <typename Stored>
static void kinds(int number, bool planar, const void *from, void *to, const float *how,
                  unsigned channels, unsigned pixels, unsigned images) {
  switch (number) {
  case 0:
    return laid<Stored, float>(planar, from, to, how, channels, pixels, images);
  case 1:
    return laid<Stored, Brain>(planar, from, to, how, channels, pixels, images);
  default:
    return laid<Stored, Half>(planar, from, to, how, channels, pixels, images);
  }
}

extern "C" void gular_convert_on_host(bool wide, int number, bool planar, const void *from,
                                      void *to, const float *how, unsigned channels,
                                      unsigned pixels, unsigned images) {
  if (wide) {
    kinds<unsigned short>(number, planar, from, to, how, channels, pixels, images);
  } else {
    kinds<unsigned char>(number, planar, from, to, how, channels, pixels, images);
  }
}
