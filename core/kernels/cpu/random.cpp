#include "core/kernels/cpu/random.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "core/kernels/cpu/isa/random_table.h"
#include "core/kernels/cpu/isa/reduce_convert.h"
#include "core/kernels/cpu/scan.h"
#include "core/kernels/cpu/sort.h"
#include "core/kernels/cpu/threads.h"

namespace weft::cpu {

namespace {

constexpr int64_t kStepsPerPiece = 8192;

// Calls body(words, first element, elements) for groups of at most kRandomSteps steps; every step
// serves `per_step` elements.
template <class Body>
int64_t for_words(Stream stream, int64_t n, int64_t per_step, Body body) {
  const int64_t steps = (n + per_step - 1) / per_step;
  const int64_t pieces = (steps + kStepsPerPiece - 1) / kStepsPerPiece;
  if (n == 0) return 0;
  parallel(pieces, [&](int64_t piece) {
    alignas(64) uint32_t words[4 * kRandomSteps];
    const int64_t end = std::min(steps, (piece + 1) * kStepsPerPiece);
    for (int64_t step = piece * kStepsPerPiece; step < end; step += kRandomSteps) {
      const int64_t count = std::min(kRandomSteps, end - step);
      random_table().words(stream.seed, stream.offset + static_cast<uint64_t>(step), count, words);
      const int64_t first = step * per_step;
      body(words, first, std::min(count * per_step, n - first));
    }
  });
  return steps;
}

template <class T> using FillLoop = void (*)(const uint32_t*, int64_t, double, double, T*);
template <class T> using MapLoop = void (*)(T*, int64_t);

constexpr int64_t kNarrow = 4, kWide = 2;  // elements per step

// Fills with numbers of T, which are then stored as `type`.
template <class T>
int64_t fill_with(Stream stream, DType type, FillLoop<T> loop, double a, double b, MapLoop<T> then, void* out,
                  int64_t n) {
  constexpr Compute compute = sizeof(T) == 4 ? Compute::Float32 : Compute::Float64;
  const ConvertTable::Store store = convert_table().stores(compute, type);
  const bool in_place = is_stored_as(type, compute);
  const int64_t size = item_size(type);
  return for_words(stream, n, sizeof(T) == 4 ? kNarrow : kWide,
                   [&](const uint32_t* words, int64_t first, int64_t count) {
                     alignas(64) T buffer[4 * kRandomSteps];
                     char* place = static_cast<char*>(out) + first * size;
                     T* to = in_place ? reinterpret_cast<T*>(place) : buffer;
                     loop(words, count, a, b, to);
                     if (then) then(to, count);
                     if (!in_place) store(buffer, count, place, size);
                   });
}

// Floating types: float64 from wide draws, the others from narrow ones.
int64_t fill_floats(Stream stream, DType type, FillLoop<float> narrow, FillLoop<double> wide, double a, double b,
                    void* out, int64_t n, MapLoop<float> then_narrow = nullptr, MapLoop<double> then_wide = nullptr) {
  if (type == DType::Float64) return fill_with<double>(stream, type, wide, a, b, then_wide, out, n);
  return fill_with<float>(stream, type, narrow, a, b, then_narrow, out, n);
}

// Loads weights or probabilities as double.
void load_doubles(DType type, const void* x, int64_t first, int64_t n, double* out) {
  const int64_t size = item_size(type);
  convert_table().loads(type, Compute::Float64)(static_cast<const char*>(x) + first * size, size, n, out);
}

}  // namespace

int64_t fill_uniform(Stream stream, DType type, double from, double to, void* out, int64_t n) {
  const RandomTable& table = random_table();
  return fill_floats(stream, type, table.uniform_float, table.uniform_double, from, to, out, n);
}

int64_t fill_normal(Stream stream, DType type, double mean, double deviation, void* out, int64_t n) {
  const RandomTable& table = random_table();
  return fill_floats(stream, type, table.normal_float, table.normal_double, mean, deviation, out, n);
}

int64_t fill_log_normal(Stream stream, DType type, double mean, double deviation, void* out, int64_t n) {
  const RandomTable& table = random_table();
  return fill_floats(stream, type, table.normal_float, table.normal_double, mean, deviation, out, n, table.exp_float,
                     table.exp_double);
}

int64_t fill_exponential(Stream stream, DType type, double rate, void* out, int64_t n) {
  const RandomTable& table = random_table();
  return fill_floats(stream, type, table.exponential_float, table.exponential_double, rate, 0, out, n);
}

int64_t fill_cauchy(Stream stream, DType type, double median, double scale, void* out, int64_t n) {
  const RandomTable& table = random_table();
  return fill_floats(stream, type, table.cauchy_float, table.cauchy_double, median, scale, out, n);
}

int64_t fill_geometric(Stream stream, DType type, double p, void* out, int64_t n) {
  return fill_with<double>(stream, type, random_table().geometric, math::log1p(-p), 0, nullptr, out, n);
}

int64_t fill_bernoulli(Stream stream, DType type, double p, void* out, int64_t n) {
  const ConvertTable::Store store = convert_table().stores(Compute::Int32, type);
  const int64_t size = item_size(type);
  return for_words(stream, n, kNarrow, [&](const uint32_t* words, int64_t first, int64_t count) {
    int hits[4 * kRandomSteps];
    random_table().bernoulli(words, count, &p, true, hits);
    store(hits, count, static_cast<char*>(out) + first * size, size);
  });
}

int64_t fill_bernoulli(Stream stream, DType type, DType p_type, const void* p, void* out, int64_t n) {
  const ConvertTable::Store store = convert_table().stores(Compute::Int32, type);
  const int64_t size = item_size(type);
  return for_words(stream, n, kNarrow, [&](const uint32_t* words, int64_t first, int64_t count) {
    int hits[4 * kRandomSteps];
    double each[4 * kRandomSteps];
    load_doubles(p_type, p, first, count, each);
    random_table().bernoulli(words, count, each, false, hits);
    store(hits, count, static_cast<char*>(out) + first * size, size);
  });
}

int64_t fill_integers(Stream stream, DType type, int64_t low, int64_t high, void* out, int64_t n) {
  const ConvertTable::Store store = convert_table().stores(Compute::Int64, type);
  const int64_t size = item_size(type);
  const uint64_t range = high <= low ? 0 : static_cast<uint64_t>(high) - static_cast<uint64_t>(low);
  const uint64_t first_value = high <= low ? 0 : static_cast<uint64_t>(low);
  const random::Integer make{first_value, range};
  return for_words(stream, n, kWide, [&](const uint32_t* words, int64_t first, int64_t count) {
    int64_t drawn[kWide * kRandomSteps];
    for (int64_t i = 0; i < count; ++i) { drawn[i] = make(random::wide_word(words[2 * i], words[2 * i + 1])); }
    store(drawn, count, static_cast<char*>(out) + first * size, size);
  });
}

int64_t fill_permutation(Stream stream, DType type, void* out, int64_t n) {
  std::unique_ptr<uint64_t[]> keys(new uint64_t[static_cast<size_t>(n)]);
  std::unique_ptr<int64_t[]> order(new int64_t[static_cast<size_t>(n)]);
  const int64_t steps = for_words(stream, n, kWide, [&](const uint32_t* words, int64_t first, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      keys[static_cast<size_t>(first + i)] = random::wide_word(words[2 * i], words[2 * i + 1]);
    }
  });
  argsort_keys(keys.get(), n, order.get());
  convert_table().stores(Compute::Int64, type)(order.get(), n, static_cast<char*>(out), item_size(type));
  return steps;
}

const char* multinomial_problem(DType type, const void* weights, int64_t rows, int64_t categories, int64_t draws,
                                bool replacement) {
  std::unique_ptr<double[]> row(new double[static_cast<size_t>(categories)]);
  for (int64_t r = 0; r < rows; ++r) {
    load_doubles(type, weights, r * categories, categories, row.get());
    int64_t positive = 0;
    for (int64_t c = 0; c < categories; ++c) {
      const double weight = row[static_cast<size_t>(c)];
      if (!(weight >= 0) || !std::isfinite(weight)) return "a weight is negative, infinite or NaN";
      positive += weight > 0;
    }
    if (positive == 0) return "all weights of a row are 0";
    if (!replacement && draws > categories) { return "more draws than categories, without replacement"; }
  }
  return nullptr;
}

namespace {

// With replacement: the first category whose cumulated weight exceeds a draw.
int64_t draw_with_replacement(Stream stream, DType type, const void* weights, int64_t rows, int64_t categories,
                              int64_t draws, int64_t* out) {
  std::unique_ptr<double[]> cumulated(new double[static_cast<size_t>(rows * categories)]);
  const int64_t sizes[2] = {rows, categories};
  const int64_t size = item_size(type);
  const int64_t in_strides[2] = {categories * size, size}, out_strides[2] = {categories * 8, 8};
  char* in_data = static_cast<char*>(const_cast<void*>(weights));
  scan(Scan::Sum, type, DType::Float64, Strided{in_data, 2, sizes, in_strides},
       Strided{reinterpret_cast<char*>(cumulated.get()), 2, sizes, out_strides}, 1);
  return for_words(stream, rows * draws, kWide, [&](const uint32_t* words, int64_t first, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      const double* row = cumulated.get() + (first + i) / draws * categories;
      const double unit = random::unit_double(random::wide_word(words[2 * i], words[2 * i + 1]));
      const double* found = std::upper_bound(row, row + categories, unit * row[categories - 1]);
      // Rounding may reach the total: then the last category that has any weight.
      if (found == row + categories) { found = std::lower_bound(row, row + categories, row[categories - 1]); }
      out[first + i] = found - row;
    }
  });
}

// Without: the largest weight / exponential draw come first (a race of exponential clocks).
int64_t draw_without_replacement(Stream stream, DType type, const void* weights, int64_t rows, int64_t categories,
                                 int64_t draws, int64_t* out) {
  const int64_t n = rows * categories;
  std::unique_ptr<double[]> races(new double[static_cast<size_t>(n)]);
  const int64_t steps = fill_exponential(stream, DType::Float64, 1, races.get(), n);
  constexpr int64_t kBatch = 1024;
  double batch[kBatch];
  for (int64_t first = 0; first < n; first += kBatch) {
    const int64_t count = std::min(kBatch, n - first);
    load_doubles(type, weights, first, count, batch);
    for (int64_t i = 0; i < count; ++i) {
      double& race = races[static_cast<size_t>(first + i)];
      // A draw of 0 still wins against all others, but a weight of 0 never does.
      race = batch[i] == 0 ? -1.0 : batch[i] / race;
    }
  }
  const int64_t sizes[2] = {rows, categories}, out_sizes[2] = {rows, draws};
  const int64_t strides[2] = {categories * 8, 8}, out_strides[2] = {draws * 8, 8};
  topk(DType::Float64, draws, true, Strided{reinterpret_cast<char*>(races.get()), 2, sizes, strides},
       Strided{nullptr, 2, out_sizes, out_strides}, Strided{reinterpret_cast<char*>(out), 2, out_sizes, out_strides},
       1);
  return steps;
}

}  // namespace

int64_t fill_multinomial(Stream stream, DType type, const void* weights, int64_t rows, int64_t categories,
                         int64_t draws, bool replacement, int64_t* out) {
  if (rows == 0 || draws == 0) return 0;
  return replacement ? draw_with_replacement(stream, type, weights, rows, categories, draws, out)
                     : draw_without_replacement(stream, type, weights, rows, categories, draws, out);
}

}  // namespace weft::cpu
