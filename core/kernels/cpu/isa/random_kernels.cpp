#include "core/kernels/cpu/isa/random_table.h"
#include "core/math/philox.h"

namespace weft::cpu::WEFT_ISA {
namespace {

// kAtOnce steps, of which the first `wanted` are kept.
template <int kAtOnce>
inline void some_words(uint64_t seed, uint64_t counter, int64_t wanted, uint32_t* __restrict__ to) {
  // Word by word first, so that the rounds run in vectors; then interleaved.
  uint32_t w0[kAtOnce], w1[kAtOnce], w2[kAtOnce], w3[kAtOnce];
  for (int i = 0; i < kAtOnce; ++i) {
    const random::Words made = random::philox(seed, counter + static_cast<uint64_t>(i));
    w0[i] = made.w[0];
    w1[i] = made.w[1];
    w2[i] = made.w[2];
    w3[i] = made.w[3];
  }
  for (int64_t i = 0; i < wanted; ++i) {
    to[4 * i] = w0[i];
    to[4 * i + 1] = w1[i];
    to[4 * i + 2] = w2[i];
    to[4 * i + 3] = w3[i];
  }
}

void words(uint64_t seed, uint64_t counter, int64_t steps, uint32_t* out) {
  for (; steps > 16; steps -= 64, counter += 64, out += 4 * 64) {
    some_words<64>(seed, counter, steps < 64 ? steps : 64, out);
  }
  // Small tensors take a few steps only.
  if (steps > 2) return some_words<16>(seed, counter, steps, out);
  for (; steps > 0; --steps, ++counter, out += 4) some_words<1>(seed, counter, 1, out);
}

WEFT_FN float unit(const uint32_t* words, int64_t i, float) { return random::unit_float(words[i]); }
WEFT_FN double unit(const uint32_t* words, int64_t i, double) {
  return random::unit_double(random::wide_word(words[2 * i], words[2 * i + 1]));
}

template <class T>
void uniform(const uint32_t* words, int64_t n, double from, double to, T* __restrict__ out) {
  const random::Uniform<T> make{static_cast<T>(from), static_cast<T>(to)};
  for (int64_t i = 0; i < n; ++i) out[i] = make(unit(words, i, T()));
}

template <class T>
void normal(const uint32_t* words, int64_t n, double mean, double deviation, T* __restrict__ out) {
  const random::NormalPair<T> make{static_cast<T>(mean), static_cast<T>(deviation)};
  for (int64_t i = 0; i + 1 < n; i += 2) {
    T even, odd;
    make(unit(words, i, T()), unit(words, i + 1, T()), &even, &odd);
    out[i] = even;
    out[i + 1] = odd;
  }
  if (n % 2 != 0) {
    T odd;
    make(unit(words, n - 1, T()), unit(words, n, T()), out + n - 1, &odd);
  }
}

template <class T>
void exponential(const uint32_t* words, int64_t n, double rate, double, T* __restrict__ out) {
  const random::Exponential<T> make{static_cast<T>(rate)};
  for (int64_t i = 0; i < n; ++i) out[i] = make(unit(words, i, T()));
}

template <class T>
void cauchy(const uint32_t* words, int64_t n, double median, double scale, T* __restrict__ out) {
  const random::Cauchy<T> make{static_cast<T>(median), static_cast<T>(scale)};
  for (int64_t i = 0; i < n; ++i) out[i] = make(unit(words, i, T()));
}

void geometric(const uint32_t* words, int64_t n, double log_failure, double, double* __restrict__ out) {
  const random::Geometric make{log_failure};
  for (int64_t i = 0; i < n; ++i) out[i] = make(unit(words, i, double()));
}

template <class T> void exp_all(T* x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) x[i] = math::exp(x[i]);
}

void bernoulli(const uint32_t* words, int64_t n, const double* p, bool one_p, int* __restrict__ out) {
  if (one_p) {
    const double same = *p;
    for (int64_t i = 0; i < n; ++i) out[i] = random::succeeds(words[i], same);
  } else {
    for (int64_t i = 0; i < n; ++i) out[i] = random::succeeds(words[i], p[i]);
  }
}

constexpr RandomTable kTable = {
    words,          uniform<float>,     uniform<double>,     normal<float>,
    normal<double>, exponential<float>, exponential<double>, cauchy<float>,
    cauchy<double>, geometric,          exp_all<float>,      exp_all<double>,
    bernoulli,
};

}  // namespace

const RandomTable& random_table() { return kTable; }

}  // namespace weft::cpu::WEFT_ISA
