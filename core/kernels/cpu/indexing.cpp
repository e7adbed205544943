#include "core/kernels/cpu/indexing.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>

#include "core/kernels/cpu/indexing_walk.h"
#include "core/kernels/cpu/isa/indexing_table.h"
#include "core/kernels/cpu/lines.h"
#include "core/kernels/cpu/threads.h"
#include "core/math/arithmetic.h"
#include "core/math/reduction.h"

namespace weft::cpu {

namespace {

inline int64_t wrapped(int64_t value, int64_t size) { return value < 0 ? value + size : value; }

int64_t pieces_of(int64_t elements) { return (elements + kPieceElements - 1) / kPieceElements; }

// ---- checks -------------------------------------------------------------------------------------

bool all_within(const char* index, int64_t stride, int64_t n, int64_t lowest, int64_t end) {
  if (stride == sizeof(int64_t)) {
    return indexing_table().all_within(reinterpret_cast<const int64_t*>(index), n, lowest, end);
  }
  bool within = true;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t value = at<int64_t>(index + i * stride);
    within &= (value >= lowest) & (value < end);
  }
  return within;
}

SharedDims<1> dims_of(int ndim, const int64_t* sizes, const int64_t* strides) {
  SharedDims<1> dims;
  for (int d = 0; d < ndim; ++d) dims.add(sizes[d], {strides[d]});
  return dims;
}

IndexStatus first_outside(const SharedDims<1>& dims, const char* data, int64_t lowest, int64_t size) {
  IndexStatus status;
  dims.for_runs(0, dims.count(), [&](int64_t position, int64_t n, const int64_t* offsets) {
    for (int64_t i = 0; i < n && status.ok; ++i) {
      const int64_t value = at<int64_t>(data + offsets[0] + i * dims.run_stride(0));
      if (value < lowest || value >= size) status = {false, 0, value, position + i, size};
    }
  });
  return status;
}

// ---- several dimensions indexed at once ---------------------------------------------------------

constexpr int64_t kOffsetBlock = 256;

// The places that an advanced index names, in row-major order, beside the elements of `other` (out
// or values) that belong to them.
class Places {
 public:
  Places(const AdvancedIndex& index, const Strided& other) : index_(index) {
    for (int d = 0; d < index.ndim; ++d) {
      if (index.sizes[d] == 1) continue;
      bool merges = ndim_ > 0 && other_strides_[ndim_ - 1] == index.sizes[d] * other.strides[d];
      for (int i = 0; i < index.count && merges; ++i) {
        const int64_t* const strides = index.dims[i].index_strides;
        merges = strides[kept_[ndim_ - 1]] == index.sizes[d] * strides[d];
      }
      if (!merges) sizes_[ndim_++] = 1;
      sizes_[ndim_ - 1] *= index.sizes[d];
      kept_[ndim_ - 1] = d;
      other_strides_[ndim_ - 1] = other.strides[d];
    }
  }

  int64_t count() const { return element_count(ndim_, sizes_); }

  // body(offsets into self, how many, offset into other of the first, other's stride between them)
  template <class Body> void for_blocks(int64_t begin, int64_t end, Body&& body) const {
    const int64_t length = ndim_ == 0 ? 1 : sizes_[ndim_ - 1];
    const int64_t other_step = ndim_ == 0 ? 0 : other_strides_[ndim_ - 1];
    int64_t offsets[kOffsetBlock];
    for (int64_t position = begin; position < end;) {
      const int64_t first = position % length;
      const int64_t n = std::min({length - first, end - position, kOffsetBlock});
      int64_t coordinates[kMaxDims];
      int64_t other_offset = 0;
      int64_t rest = position;
      for (int d = ndim_ - 1; d >= 0; --d) {
        coordinates[d] = rest % sizes_[d];
        rest /= sizes_[d];
        other_offset += coordinates[d] * other_strides_[d];
      }
      std::fill_n(offsets, n, 0);
      for (int i = 0; i < index_.count; ++i) {
        const IndexedDim& dim = index_.dims[i];
        const char* p = dim.index;
        for (int d = 0; d < ndim_; ++d) p += coordinates[d] * dim.index_strides[kept_[d]];
        const int64_t step = ndim_ == 0 ? 0 : dim.index_strides[kept_[ndim_ - 1]];
        for (int64_t j = 0; j < n; ++j) { offsets[j] += wrapped(at<int64_t>(p + j * step), dim.size) * dim.stride; }
      }
      body(offsets, n, other_offset, other_step);
      position += n;
    }
  }

 private:
  const AdvancedIndex& index_;
  int ndim_ = 0;
  int64_t sizes_[kMaxDims];
  int kept_[kMaxDims];  // the innermost of the merged dims, whose strides hold for all of them
  int64_t other_strides_[kMaxDims];
};

IndexStatus check_places(const AdvancedIndex& index) {
  for (int i = 0; i < index.count; ++i) {
    const IndexedDim& dim = index.dims[i];
    IndexStatus status =
        check_index({const_cast<char*>(dim.index), index.ndim, index.sizes, dim.index_strides}, dim.size);
    status.which = i;
    if (!status.ok) return status;
  }
  return {};
}

// The dimensions that are not indexed: of `rest` (first) and of out or values (second).
SharedDims<2> slice_dims(const Strided& rest, const AdvancedIndex& index, const Strided& other) {
  SharedDims<2> dims;
  for (int d = 0; d < rest.ndim; ++d) { dims.add(rest.sizes[d], {rest.strides[d], other.strides[index.ndim + d]}); }
  return dims;
}

template <class Item>
void get_blocks(const Places& places, const SharedDims<2>& slice, int64_t begin, int64_t end, const char* self,
                char* out) {
  const int64_t slice_count = slice.count();
  const bool rows = slice.ndim == 1 && slice.strides[0][0] == sizeof(Item) && slice.strides[0][1] == sizeof(Item);
  places.for_blocks(begin, end, [&](const int64_t* offsets, int64_t n, int64_t at_out, int64_t step) {
    char* const to = out + at_out;
    if (slice.ndim == 0) {
      for (int64_t i = 0; i < n; ++i) at<Item>(to + i * step) = at<Item>(self + offsets[i]);
    } else if (rows) {
      for (int64_t i = 0; i < n; ++i) {
        std::memcpy(to + i * step, self + offsets[i], static_cast<size_t>(slice_count) * sizeof(Item));
      }
    } else {
      for (int64_t i = 0; i < n; ++i) {
        slice.for_runs(0, slice_count, [&](int64_t, int64_t length, const int64_t* begins) {
          const char* const from_run = self + offsets[i] + begins[0];
          char* const to_run = to + i * step + begins[1];
          for (int64_t j = 0; j < length; ++j) {
            at<Item>(to_run + j * slice.run_stride(1)) = at<Item>(from_run + j * slice.run_stride(0));
          }
        });
      }
    }
  });
}

// Short pieces of rows that lie far apart, or in any order, are nothing the hardware can foresee.
inline void prefetch(const char* from, int64_t bytes) {
  constexpr int64_t kLine = 64;
  for (int64_t i = 0; i < bytes; i += kLine) __builtin_prefetch(from + i);
}

// place(destination, source) for adjacent elements; some ways of placing know a faster way for rows.
template <class Item, class Place> void place_row(Place place, Item* to, const Item* from, int64_t n) {
  if constexpr (requires { place.row(to, from, n); }) {
    place.row(to, from, n);
  } else {
    for (int64_t i = 0; i < n; ++i) place(to[i], from[i]);
  }
}

// place(destination, source) for all places in order, on the part [first, first + n) of the slice's
// dimension d.
constexpr int64_t kPrefetched = 4096;  // bytes of a row

template <class Item, class Place>
void put_blocks(const Places& places, SharedDims<2> slice, int d, int64_t first, int64_t n, char* self,
                const char* values, Place place) {
  if (slice.ndim > 0) {
    slice.sizes[d] = n;
    self += first * slice.strides[d][0];
    values += first * slice.strides[d][1];
  }
  const int64_t slice_count = slice.count();
  places.for_blocks(0, places.count(), [&](const int64_t* offsets, int64_t block, int64_t at_values, int64_t step) {
    const char* const from = values + at_values;
    if (slice.ndim == 0) {
      for (int64_t i = 0; i < block; ++i) place(at<Item>(self + offsets[i]), at<Item>(from + i * step));
      return;
    }
    const bool adjacent = slice.ndim == 1 && slice.strides[0][0] == sizeof(Item);
    for (int64_t i = 0; i < block; ++i) {
      if (adjacent && i + 1 < block) {
        prefetch(self + offsets[i + 1],
                 std::min<int64_t>(kPrefetched, slice_count * static_cast<int64_t>(sizeof(Item))));
      }
      slice.for_runs(0, slice_count, [&](int64_t, int64_t length, const int64_t* begins) {
        char* const to_run = self + offsets[i] + begins[0];
        const char* const from_run = from + i * step + begins[1];
        const int64_t to_step = slice.run_stride(0), from_step = slice.run_stride(1);
        if (to_step == sizeof(Item) && from_step == sizeof(Item)) {
          Item* const to_items = reinterpret_cast<Item*>(to_run);
          const Item* const from_items = reinterpret_cast<const Item*>(from_run);
          place_row(place, to_items, from_items, length);
        } else {
          for (int64_t j = 0; j < length; ++j) {
            place(at<Item>(to_run + j * to_step), at<Item>(from_run + j * from_step));
          }
        }
      });
    }
  });
}

// Places may repeat, so they keep their order; what is shared out is the slice.
template <class Item, class Place>
void put_all(const Places& places, const SharedDims<2>& slice, char* self, const char* values, Place place) {
  constexpr int64_t kLeastColumns = 1024 / sizeof(Item);  // shorter pieces of rows waste the memory's speed
  int longest = 0;
  for (int d = 1; d < slice.ndim; ++d) {
    if (slice.sizes[d] > slice.sizes[longest]) longest = d;
  }
  const int64_t length = slice.ndim == 0 ? 1 : slice.sizes[longest];
  const int64_t elements = places.count() * slice.count();
  const int64_t pieces = std::clamp<int64_t>(std::min(elements / kPieceElements, length / kLeastColumns), 1, 16);
  const int64_t width = (length + pieces - 1) / pieces;
  parallel((length + width - 1) / width, [&](int64_t piece) {
    const int64_t first = piece * width;
    put_blocks<Item>(places, slice, longest, first, std::min(width, length - first), self, values, place);
  });
}

// ---- additions and the like, rounded each time --------------------------------------------------

template <class T> T summed(T a, T b) { return math::plus(a, b); }
template <class T> T multiplied(T a, T b) { return math::times(a, b); }
template <class T> T larger(T a, T b) { return a > b || math::is_nan(a) ? a : b; }
template <class T> T smaller(T a, T b) { return a < b || math::is_nan(a) ? a : b; }
template <class T> T lowest() {
  if constexpr (math::kIsFloat<T>) return -math::infinity<T>();
  else return std::numeric_limits<T>::lowest();
}
template <class T> T highest() {
  if constexpr (math::kIsFloat<T>) return math::infinity<T>();
  else return std::numeric_limits<T>::max();
}
inline Complex64 summed(Complex64 a, Complex64 b) { return reduction::add(a, b); }
inline Complex128 summed(Complex128 a, Complex128 b) { return reduction::add(a, b); }
inline Complex64 multiplied(Complex64 a, Complex64 b) { return reduction::multiply(a, b); }
inline Complex128 multiplied(Complex128 a, Complex128 b) { return reduction::multiply(a, b); }

template <class T> inline constexpr bool kIsHalf = sizeof(T) == 2 && std::is_class_v<T>;

// fn on T, or on float for the 16 bit floats.
template <class T, class Fn> T computed(T a, T b, Fn fn) {
  if constexpr (kIsHalf<T>) return math::cast<T>(fn(math::widen(a), math::widen(b)));
  else return fn(a, b);
}

// ---- along one dimension ------------------------------------------------------------------------

struct LineWork {
  const Lines<3>& lines;  // of index (in range, none negative), self and, beside the index, src or out
  int64_t self_size, self_step;

  // Whether all lines' first elements should come before all lines' second. An index that all lines
  // share says nothing about the order of the memory.
  bool across() const {
    const int64_t index_next = lines.neighbour_stride(0);
    return index_next != 0 ? lines.step[0] > index_next : lines.step[2] > lines.neighbour_stride(2);
  }
};

// Every line, with its neighbours: body(first line, how many lines lie beside it). Lines are
// independent of each other, so they are shared out.
template <class T, class Body> void for_line_groups(const LineWork& work, Body&& body) {
  const Lines<3>& lines = work.lines;
  if (lines.count == 0 || lines.length == 0) return;
  int64_t group = std::max<int64_t>(1, kPieceElements / lines.length);
  if (work.across()) {
    // As many lines as the second level of cache holds: their places are named in any order.
    constexpr int64_t kCached = 1 << 20;
    const int64_t cached = kCached / static_cast<int64_t>(sizeof(T)) / std::max<int64_t>(1, work.self_size);
    group = std::max<int64_t>(group, cached);
  }
  parallel((lines.count + group - 1) / group, [&](int64_t piece) {
    const int64_t end = std::min(lines.count, (piece + 1) * group);
    for (int64_t line = piece * group; line < end;) {
      const int64_t beside = std::min(end - line, lines.neighbours(line));
      body(line, beside);
      line += beside;
    }
  });
}

// fn(the element of self that the index names, the element beside the index) for elements
// [begin, end) of neighbouring lines, each line's in order: line by line, or all lines' first
// elements, then all lines' second where that suits the memory better.
template <class T, class Fn>
void for_indexed(const LineWork& work, int64_t line, int64_t beside, int64_t begin, int64_t end, Fn fn) {
  const Lines<3>& lines = work.lines;
  const char* const index = lines.line(0, line);
  char* const self = lines.line(1, line);
  char* const other = lines.line(2, line);
  const int64_t index_next = lines.neighbour_stride(0), self_next = lines.neighbour_stride(1),
                other_next = lines.neighbour_stride(2);
  const int64_t index_step = lines.step[0], self_step = work.self_step, other_step = lines.step[2];
  constexpr int64_t item = sizeof(T);
  if (beside > 1 && work.across()) {
    const bool adjacent = index_next == sizeof(int64_t) && self_next == item && other_next == item;
    for (int64_t l = begin; l < end; ++l) {
      const char* const index_row = index + l * index_step;
      char* const other_row = other + l * other_step;
      if (adjacent) {
        prefetch(index_row + 2 * index_step, beside * static_cast<int64_t>(sizeof(int64_t)));
        prefetch(other_row + 2 * other_step, beside * item);
        const int64_t* const places = reinterpret_cast<const int64_t*>(index_row);
        T* const other_items = reinterpret_cast<T*>(other_row);
#pragma GCC unroll 4
        for (int64_t i = 0; i < beside; ++i) fn(at<T>(self + i * item + places[i] * self_step), other_items[i]);
      } else {
        for (int64_t i = 0; i < beside; ++i) {
          const int64_t place = at<int64_t>(index_row + i * index_next);
          fn(at<T>(self + i * self_next + place * self_step), at<T>(other_row + i * other_next));
        }
      }
    }
    return;
  }
  for (int64_t i = 0; i < beside; ++i) {
    const char* const index_line = index + i * index_next;
    char* const self_line = self + i * self_next;
    char* const other_line = other + i * other_next;
    if (index_step == sizeof(int64_t) && self_step == item && other_step == item) {
      const int64_t* const places = reinterpret_cast<const int64_t*>(index_line);
      T* const self_items = reinterpret_cast<T*>(self_line);
      T* const other_items = reinterpret_cast<T*>(other_line);
#pragma GCC unroll 8
      for (int64_t l = begin; l < end; ++l) fn(self_items[places[l]], other_items[l]);
    } else {
      for (int64_t l = begin; l < end; ++l) {
        const int64_t place = at<int64_t>(index_line + l * index_step);
        fn(at<T>(self_line + place * self_step), at<T>(other_line + l * other_step));
      }
    }
  }
}

// For every index. Places may repeat within a line, so that a line is not shared out.
template <class T, class Fn> void for_all_indexed(const LineWork& work, Fn fn) {
  for_line_groups<T>(
      work, [&](int64_t line, int64_t beside) { for_indexed<T>(work, line, beside, 0, work.lines.length, fn); });
}

// Results do not meet, so that a single long line is shared out as well.
void take_along(int item_size, const LineWork& work) {
  const int64_t length = work.lines.length;
  with_item(item_size, [&](auto item) {
    using Item = decltype(item);
    const auto take = [](Item from, Item& to) { to = from; };
    if (work.lines.count > 1 || length <= kPieceElements) return for_all_indexed<Item>(work, take);
    parallel(pieces_of(length), [&](int64_t piece) {
      const int64_t begin = piece * kPieceElements;
      for_indexed<Item>(work, 0, 1, begin, std::min(length, begin + kPieceElements), take);
    });
  });
}

// The 16 bit floats of a line meet in float32 and are rounded once.
template <class T, class Fn>
void scatter_line_in_float(const LineWork& work, int64_t line, bool include_self, float identity, Fn fn) {
  const Lines<3>& lines = work.lines;
  const char* const index = lines.line(0, line);
  char* const self = lines.line(1, line);
  const char* const src = lines.line(2, line);
  const auto place = [&](int64_t l) { return static_cast<size_t>(at<int64_t>(index + l * lines.step[0])); };
  std::vector<float> sums(static_cast<size_t>(work.self_size));
  for (int64_t p = 0; p < work.self_size; ++p) {
    sums[static_cast<size_t>(p)] = math::widen(at<T>(self + p * work.self_step));
  }
  if (!include_self) {
    for (int64_t l = 0; l < lines.length; ++l) sums[place(l)] = identity;
  }
  for (int64_t l = 0; l < lines.length; ++l) {
    float& sum = sums[place(l)];
    sum = fn(sum, math::widen(at<T>(src + l * lines.step[2])));
  }
  for (int64_t p = 0; p < work.self_size; ++p) {
    at<T>(self + p * work.self_step) = math::cast<T>(sums[static_cast<size_t>(p)]);
  }
}

template <class T, class Compute, class Fn>
void scatter_with(const LineWork& work, bool include_self, Compute identity, Fn fn) {
  if constexpr (kIsHalf<T>) {
    for_line_groups<T>(work, [&](int64_t line, int64_t beside) {
      for (int64_t i = line; i < line + beside; ++i) { scatter_line_in_float<T>(work, i, include_self, identity, fn); }
    });
  } else {
    if (!include_self) for_all_indexed<T>(work, [&](T& to, T) { to = identity; });
    for_all_indexed<T>(work, [&](T& to, T from) { to = fn(to, from); });
  }
}

template <class T> T divided(T sum, int64_t count) {
  if constexpr (kIsHalf<T>) {
    return math::cast<T>(math::widen(sum) / static_cast<float>(count));
  } else if constexpr (math::kIsComplex<T>) {
    const auto n = static_cast<decltype(sum.re)>(count);
    return {sum.re / n, sum.im / n};
  } else if constexpr (math::kIsFloat<T>) {
    return sum / static_cast<T>(count);
  } else if constexpr (math::kIsBool<T>) {
    return sum && count == 1;
  } else {
    const auto value = static_cast<int64_t>(sum);
    return static_cast<T>(value / count - (value % count < 0 ? 1 : 0));
  }
}

// Sums as above, then every place that was written is divided by how many elements met there.
template <class T> void scatter_mean(const LineWork& work, bool include_self) {
  using Compute = std::conditional_t<kIsHalf<T>, float, T>;
  scatter_with<T>(work, include_self, Compute{}, [](Compute a, Compute b) { return summed(a, b); });
  const Lines<3>& lines = work.lines;
  for_line_groups<T>(work, [&](int64_t line, int64_t beside) {
    std::vector<int64_t> counts(static_cast<size_t>(work.self_size));
    for (int64_t i = line; i < line + beside; ++i) {
      std::fill(counts.begin(), counts.end(), 0);
      const char* const index = lines.line(0, i);
      char* const self = lines.line(1, i);
      for (int64_t l = 0; l < lines.length; ++l) {
        ++counts[static_cast<size_t>(at<int64_t>(index + l * lines.step[0]))];
      }
      for (int64_t p = 0; p < work.self_size; ++p) {
        const int64_t count = counts[static_cast<size_t>(p)];
        if (count == 0) continue;
        T& sum = at<T>(self + p * work.self_step);
        sum = divided(sum, count + (include_self ? 1 : 0));
      }
    }
  });
}

template <class T> void scatter_as(Scatter kind, const LineWork& work, bool include_self) {
  using Compute = decltype(math::widen(T{}));
  if (kind == Scatter::Mean) return scatter_mean<T>(work, include_self);
  if constexpr (math::kIsComplex<T>) {
    if (kind == Scatter::Sum) {
      return scatter_with<T>(work, include_self, T{}, [](T a, T b) { return summed(a, b); });
    }
    return scatter_with<T>(work, include_self, T{1, 0}, [](T a, T b) { return multiplied(a, b); });
  } else {
    const auto scatter_by = [&](Compute identity, auto fn) { scatter_with<T>(work, include_self, identity, fn); };
    switch (kind) {
      case Scatter::Sum: return scatter_by(Compute(0), [](Compute a, Compute b) { return summed(a, b); });
      case Scatter::Prod: return scatter_by(Compute(1), [](Compute a, Compute b) { return multiplied(a, b); });
      case Scatter::Amax: return scatter_by(lowest<Compute>(), [](Compute a, Compute b) { return larger(a, b); });
      case Scatter::Amin: return scatter_by(highest<Compute>(), [](Compute a, Compute b) { return smaller(a, b); });
      default: __builtin_unreachable();
    }
  }
}

struct AddFloats {
  void operator()(float& to, float from) const { to += from; }
  void row(float* to, const float* from, int64_t n) const { indexing_table().add_floats(to, from, n); }
};
struct AddDoubles {
  void operator()(double& to, double from) const { to += from; }
  void row(double* to, const double* from, int64_t n) const { indexing_table().add_doubles(to, from, n); }
};

// Calls body(a value of the type to work on, how an element is written to its place).
template <class Body> void write_each(DType dtype, bool accumulate, Body&& body) {
  if (!accumulate) {
    with_item(item_size(dtype), [&](auto item) {
      using Item = decltype(item);
      body(item, [](Item& to, Item from) { to = from; });
    });
  } else if (dtype == DType::Float32) {
    body(float{}, AddFloats{});
  } else if (dtype == DType::Float64) {
    body(double{}, AddDoubles{});
  } else {
    with_dtype(dtype, [&](auto zero) {
      using T = decltype(zero);
      body(zero, [](T& to, T from) { to = computed(to, from, [](auto a, auto b) { return summed(a, b); }); });
    });
  }
}

// Whether the elements along dim are neighbours, in many rows.
bool lies_within_rows(const Strided& x, int dim, int item_size) { return x.ndim > 1 && x.strides[dim] == item_size; }

// A one-dimensional index (in range) as an index for every element of `other`: all rows share it.
struct IndexOfRows {
  std::vector<int64_t> places;
  int64_t strides[kMaxDims] = {};
  Strided index;

  IndexOfRows(const Strided& one, int64_t size, const Strided& other, int dim)
      : places(static_cast<size_t>(other.sizes[dim])) {
    const int64_t step = one.ndim == 0 ? 0 : one.strides[0];
    for (size_t i = 0; i < places.size(); ++i) {
      places[i] = wrapped(at<int64_t>(one.data + static_cast<int64_t>(i) * step), size);
    }
    strides[dim] = sizeof(int64_t);
    index = {reinterpret_cast<char*>(places.data()), other.ndim, other.sizes, strides};
  }
};

// One dimension by a one-dimensional index, as an advanced index of one dimension.
struct OneDim {
  IndexedDim indexed;
  AdvancedIndex index;
  int64_t rest_sizes[kMaxDims], rest_strides[kMaxDims], other_strides[kMaxDims + 1];
  Strided rest, other;

  OneDim(const Strided& self, int dim, const Strided& one, const Strided& other_view) {
    // A tensor without dimensions is treated as one of a single element.
    const bool scalar = self.ndim == 0;
    indexed = {one.data, one.strides, scalar ? 1 : self.sizes[dim], scalar ? 0 : self.strides[dim]};
    index = {one.ndim, one.sizes, 1, &indexed};
    int n = 0;
    if (one.ndim > 0) other_strides[n++] = scalar ? 0 : other_view.strides[dim];
    int kept = 0;
    for (int d = 0; d < self.ndim; ++d) {
      if (d == dim) continue;
      rest_sizes[kept] = self.sizes[d];
      rest_strides[kept++] = self.strides[d];
      other_strides[n++] = other_view.strides[d];
    }
    rest = {self.data, kept, rest_sizes, rest_strides};
    other = {other_view.data, n, nullptr, other_strides};
  }
};

}  // namespace

IndexStatus check_index(Strided index, int64_t size, Negative negative) {
  const int64_t lowest = negative == Negative::FromEnd ? -size : 0;
  const SharedDims<1> dims = dims_of(index.ndim, index.sizes, index.strides);
  const int64_t count = dims.count();
  std::atomic<bool> outside{false};
  parallel(std::max<int64_t>(1, pieces_of(count)), [&](int64_t piece) {
    const int64_t begin = piece * kPieceElements;
    dims.for_runs(begin, std::min(count, begin + kPieceElements), [&](int64_t, int64_t n, const int64_t* offsets) {
      if (!all_within(index.data + offsets[0], dims.run_stride(0), n, lowest, size)) {
        outside.store(true, std::memory_order_relaxed);
      }
    });
  });
  return outside.load(std::memory_order_relaxed) ? first_outside(dims, index.data, lowest, size) : IndexStatus{};
}

IndexRange index_range(Strided index) {
  const SharedDims<1> dims = dims_of(index.ndim, index.sizes, index.strides);
  IndexRange range{INT64_MAX, INT64_MIN};
  dims.for_runs(0, dims.count(), [&](int64_t, int64_t n, const int64_t* offsets) {
    for (int64_t i = 0; i < n; ++i) {
      const int64_t value = at<int64_t>(index.data + offsets[0] + i * dims.run_stride(0));
      range.smallest = std::min(range.smallest, value);
      range.largest = std::max(range.largest, value);
    }
  });
  return range;
}

IndexStatus index_get(int item_size, Strided out, Strided rest, const AdvancedIndex& index) {
  const SharedDims<2> slice = slice_dims(rest, index, out);
  const Places places(index, out);
  const int64_t count = places.count(), slice_count = slice.count();
  if (const IndexStatus status = check_places(index); !status || count * slice_count == 0) return status;
  const int64_t group = std::max<int64_t>(1, kPieceElements / slice_count);
  parallel((count + group - 1) / group, [&](int64_t piece) {
    with_item(item_size, [&](auto item) {
      get_blocks<decltype(item)>(places, slice, piece * group, std::min(count, (piece + 1) * group), rest.data,
                                 out.data);
    });
  });
  return {};
}

IndexStatus index_put(DType dtype, Strided rest, const AdvancedIndex& index, Strided values, bool accumulate) {
  const SharedDims<2> slice = slice_dims(rest, index, values);
  const Places places(index, values);
  if (const IndexStatus status = check_places(index); !status || places.count() * slice.count() == 0) { return status; }
  write_each(dtype, accumulate,
             [&](auto zero, auto write) { put_all<decltype(zero)>(places, slice, rest.data, values.data, write); });
  return {};
}

IndexStatus index_select(int item_size, Strided out, Strided self, int dim, Strided index) {
  if (!lies_within_rows(out, dim, item_size)) {
    const OneDim one(self, dim, index, out);
    return index_get(item_size, one.other, one.rest, one.index);
  }
  if (const IndexStatus status = check_index(index, self.sizes[dim]); !status) return status;
  const IndexOfRows rows(index, self.sizes[dim], out, dim);
  const Lines<3> lines({&rows.index, &self, &out}, dim);
  take_along(item_size, {lines, self.sizes[dim], self.strides[dim]});
  return {};
}

IndexStatus index_write(DType dtype, Strided self, int dim, Strided index, Strided values, bool accumulate) {
  if (!lies_within_rows(self, dim, item_size(dtype))) {
    const OneDim one(self, dim, index, values);
    return index_put(dtype, one.rest, one.index, one.other, accumulate);
  }
  if (const IndexStatus status = check_index(index, self.sizes[dim]); !status) return status;
  const IndexOfRows rows(index, self.sizes[dim], values, dim);
  const Lines<3> lines({&rows.index, &self, &values}, dim);
  write_each(dtype, accumulate, [&](auto zero, auto write) {
    for_all_indexed<decltype(zero)>({lines, self.sizes[dim], self.strides[dim]}, write);
  });
  return {};
}

IndexStatus gather(int item_size, Strided out, Strided self, int dim, Strided index) {
  const int64_t size = self.ndim == 0 ? 1 : self.sizes[dim];
  if (const IndexStatus status = check_index(index, size, Negative::Outside); !status) return status;
  const Lines<3> lines({&index, &self, &out}, dim);
  const int64_t self_step = self.ndim == 0 ? 0 : self.strides[dim];
  take_along(item_size, {lines, size, self_step});
  return {};
}

IndexStatus scatter(Scatter kind, DType dtype, Strided self, int dim, Strided index, Strided src, bool include_self) {
  const int64_t size = self.ndim == 0 ? 1 : self.sizes[dim];
  if (const IndexStatus status = check_index(index, size, Negative::Outside); !status) return status;
  const Lines<3> lines({&index, &self, &src}, dim);
  const LineWork work{lines, size, self.ndim == 0 ? 0 : self.strides[dim]};
  if (kind == Scatter::Assign) {
    with_item(item_size(dtype), [&](auto item) {
      using Item = decltype(item);
      for_all_indexed<Item>(work, [](Item& to, Item from) { to = from; });
    });
  } else {
    with_dtype(dtype, [&](auto zero) { scatter_as<decltype(zero)>(kind, work, include_self); });
  }
  return {};
}

}  // namespace weft::cpu
