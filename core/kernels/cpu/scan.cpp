#include "core/kernels/cpu/scan.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "core/kernels/cpu/isa/scan_table.h"
#include "core/kernels/cpu/lines.h"
#include "core/kernels/cpu/threads.h"
#include "core/math/reduction.h"

namespace weft::cpu {

namespace {

using reduction::kSegment;

constexpr int64_t kPieceElements = 32768;
constexpr int64_t kBatch = 8 * kSegment;  // elements that are converted at a time
constexpr int64_t kWidth = 128;           // lines that are scanned side by side

int64_t magnitude(int64_t stride) { return stride < 0 ? -stride : stride; }
int64_t ceil_divide(int64_t a, int64_t b) { return (a + b - 1) / b; }

class Scanner {
 public:
  Scanner(const ScanKernel& kernel, Compute compute, DType in, DType out, const Strided& x, const Strided& y, int dim)
      : kernel_(kernel),
        lines_({&x, &y}, dim),
        size_(size_of(compute)),
        load_(convert_table().loads(in, compute)),
        store_(convert_table().stores(compute, out)),
        x_is_compute_(is_stored_as(in, compute)),
        y_is_compute_(is_stored_as(out, compute)) {}

  void run() {
    if (lines_.count == 0 || lines_.length == 0) return;
    const bool neighbours_are_closer =
        lines_.ndim > 0 && magnitude(lines_.neighbour_stride(1)) < magnitude(lines_.step[1]);
    if (neighbours_are_closer && lines_.neighbours(0) >= 4) return run_across();
    if (lines_.count == 1 && lines_.length >= 4 * kPieceElements && num_threads() > 1) { return run_one_line(); }
    const int64_t per_piece = std::max<int64_t>(1, kPieceElements / lines_.length);
    parallel(ceil_divide(lines_.count, per_piece), [&](int64_t piece) {
      const int64_t end = std::min(lines_.count, (piece + 1) * per_piece);
      for (int64_t line = piece * per_piece; line < end; ++line) {
        alignas(16) char before[kMaxComputeSize];
        kernel_.begin(before, 1);
        along(lines_.line(0, line), lines_.line(1, line), lines_.length, before);
      }
    });
  }

 private:
  void along(const char* x, char* y, int64_t n, void* before) const {
    if (x_is_compute_ && y_is_compute_ && lines_.step[0] == size_ && lines_.step[1] == size_) {
      return kernel_.along(x, y, n, before);
    }
    alignas(64) char buffer[kBatch * kMaxComputeSize];
    for (int64_t i = 0; i < n; i += kBatch) {
      const int64_t count = std::min(kBatch, n - i);
      load_(x + i * lines_.step[0], lines_.step[0], count, buffer);
      kernel_.along(buffer, buffer, count, before);
      store_(buffer, count, y + i * lines_.step[1], lines_.step[1]);
    }
  }

  // One long line: the totals of all segments, then what comes before each, then the results. The
  // elements are read twice, so this pays only with several threads; the bits are the same.
  void run_one_line() const {
    const int64_t n = lines_.length, segments = ceil_divide(n, kSegment);
    const int64_t pieces = ceil_divide(n, kPieceElements);
    std::unique_ptr<char[]> totals(new char[static_cast<size_t>(segments * size_)]);
    const char* x = lines_.line(0, 0);
    parallel(pieces, [&](int64_t piece) {
      alignas(64) char buffer[kBatch * kMaxComputeSize];
      const int64_t end = std::min(n, (piece + 1) * kPieceElements);
      for (int64_t first = piece * kPieceElements; first < end; first += kBatch) {
        const int64_t count = std::min(kBatch, end - first);
        const char* from = x + first * lines_.step[0];
        if (!x_is_compute_ || lines_.step[0] != size_) {
          load_(from, lines_.step[0], count, buffer);
          from = buffer;
        }
        kernel_.totals(from, count, totals.get() + first / kSegment * size_);
      }
    });
    alignas(16) char before[kMaxComputeSize], total[kMaxComputeSize];
    kernel_.begin(before, 1);
    for (int64_t segment = 0; segment < segments; ++segment) {
      char* place = totals.get() + segment * size_;
      std::memcpy(total, place, static_cast<size_t>(size_));
      std::memcpy(place, before, static_cast<size_t>(size_));
      kernel_.fold(before, total, before, 1);
    }
    parallel(pieces, [&](int64_t piece) {
      const int64_t first = piece * kPieceElements;
      along(x + first * lines_.step[0], lines_.line(1, 0) + first * lines_.step[1], std::min(kPieceElements, n - first),
            totals.get() + first / kSegment * size_);
    });
  }

  // Lines side by side: the states of all of them lie next to each other.
  void run_across() const {
    const int64_t inner = lines_.neighbours(0);
    const int64_t width = std::min(kWidth, inner);
    const int64_t blocks = ceil_divide(inner, width);
    const int64_t units = lines_.count / inner * blocks;
    const int64_t per_piece = std::max<int64_t>(1, kPieceElements / (width * lines_.length));
    parallel(ceil_divide(units, per_piece), [&](int64_t piece) {
      const int64_t end = std::min(units, (piece + 1) * per_piece);
      for (int64_t unit = piece * per_piece; unit < end; ++unit) {
        const int64_t first = unit % blocks * width;
        const int64_t line = unit / blocks * inner + first;
        across(lines_.line(0, line), lines_.line(1, line), std::min(width, inner - first));
      }
    });
  }

  void across(const char* x, char* y, int64_t width) const {
    constexpr int64_t bytes = kWidth * kMaxComputeSize;
    alignas(64) char before[bytes], local[bytes], row[bytes];
    const bool x_in_place = x_is_compute_ && lines_.neighbour_stride(0) == size_;
    const bool y_in_place = y_is_compute_ && lines_.neighbour_stride(1) == size_;
    kernel_.begin(before, width);
    kernel_.begin(local, width);
    for (int64_t i = 0; i < lines_.length; ++i) {
      if (i > 0 && i % kSegment == 0) {
        kernel_.fold(before, local, before, width);
        kernel_.begin(local, width);
      }
      const char* from = x + i * lines_.step[0];
      char* to = y + i * lines_.step[1];
      if (!x_in_place) {
        load_(from, lines_.neighbour_stride(0), width, row);
        from = row;
      }
      kernel_.across(from, y_in_place ? to : row, width, before, local);
      if (!y_in_place) store_(row, width, to, lines_.neighbour_stride(1));
    }
  }

  const ScanKernel& kernel_;
  const Lines<2> lines_;
  const int64_t size_;
  const ConvertTable::Load load_;
  const ConvertTable::Store store_;
  const bool x_is_compute_, y_is_compute_;
};

// Nothing compares with a NaN, so one that is best gives way only to the next NaN.
template <class T> bool takes_over(Extreme kind, T candidate, T best) {
  const bool reaches = kind == Extreme::Largest ? candidate >= best : candidate <= best;
  return reaches | (candidate != candidate);
}

// `width` neighbouring lines at a time.
template <class T, int width>
void extremes_of_lines(Extreme kind, const Lines<3>& lines, int64_t first) {
  const char* x = lines.line(0, first);
  char* values = lines.line(1, first);
  char* places = lines.line(2, first);
  const int64_t next_x = lines.neighbour_stride(0), next_value = lines.neighbour_stride(1),
                next_place = lines.neighbour_stride(2);
  T best[width];
  int64_t index[width] = {};
  for (int w = 0; w < width; ++w) best[w] = *reinterpret_cast<const T*>(x + w * next_x);
  for (int64_t i = 0; i < lines.length; ++i) {
    for (int w = 0; w < width; ++w) {
      const T candidate = *reinterpret_cast<const T*>(x + w * next_x);
      const bool takes = takes_over(kind, math::widen(candidate), math::widen(best[w]));
      best[w] = takes ? candidate : best[w];
      index[w] = takes ? i : index[w];
      *reinterpret_cast<T*>(values + w * next_value) = best[w];
      *reinterpret_cast<int64_t*>(places + w * next_place) = index[w];
    }
    x += lines.step[0];
    values += lines.step[1];
    places += lines.step[2];
  }
}

template <Extreme kind, class T>
void extremes_one_by_one(const T* x, T* values, int64_t* places, int64_t first, int64_t end, T& best, int64_t& index) {
  for (int64_t i = first; i < end; ++i) {
    const bool takes = takes_over(kind, math::widen(x[i]), math::widen(best));
    values[i] = best = takes ? x[i] : best;
    places[i] = index = takes ? i : index;
  }
}

// One line of adjacent elements. The best so far seldom changes, so blocks where it does not are
// looked for, and written at once.
template <Extreme kind, class T> void extremes_of_row(const T* x, T* values, int64_t* places, int64_t n) {
  constexpr int64_t kBlock = 16;
  T best = x[0];
  int64_t index = 0;
  int64_t first = 0;
  for (; first + kBlock <= n; first += kBlock) {
    int changes = 0;
    for (int64_t i = first; i < first + kBlock; ++i) changes |= takes_over(kind, math::widen(x[i]), math::widen(best));
    if (changes == 0) {
      std::fill_n(values + first, kBlock, best);
      std::fill_n(places + first, kBlock, index);
    } else {
      extremes_one_by_one<kind>(x, values, places, first, first + kBlock, best, index);
    }
  }
  extremes_one_by_one<kind>(x, values, places, first, n, best, index);
}

template <class T> void extremes_of_type(Extreme kind, const Lines<3>& lines) {
  constexpr int kTogether = 16;
  constexpr int64_t item = sizeof(T);
  const bool neighbours_are_closer = lines.ndim > 0 && magnitude(lines.neighbour_stride(1)) < magnitude(lines.step[1]);
  const bool adjacent = lines.step[0] == item && lines.step[1] == item && lines.step[2] == sizeof(int64_t);
  const int64_t together = neighbours_are_closer ? kTogether : 1;
  const int64_t per_piece = std::max<int64_t>(1, kPieceElements / lines.length);
  parallel(ceil_divide(lines.count, per_piece), [&](int64_t piece) {
    const int64_t end = std::min(lines.count, (piece + 1) * per_piece);
    for (int64_t line = piece * per_piece; line < end;) {
      if (end - line >= together && lines.neighbours(line) >= together && together > 1) {
        extremes_of_lines<T, kTogether>(kind, lines, line);
        line += together;
      } else if (adjacent) {
        const auto of_row =
            kind == Extreme::Largest ? extremes_of_row<Extreme::Largest, T> : extremes_of_row<Extreme::Smallest, T>;
        of_row(reinterpret_cast<const T*>(lines.line(0, line)), reinterpret_cast<T*>(lines.line(1, line)),
               reinterpret_cast<int64_t*>(lines.line(2, line)), lines.length);
        ++line;
      } else {
        extremes_of_lines<T, 1>(kind, lines, line);
        ++line;
      }
    }
  });
}

}  // namespace

void scan(Scan kind, DType in, DType out, Strided x, Strided y, int dim) {
  const DType wider = in > out ? in : out;
  const Compute compute = is_integral(wider) ? Compute::Int64 : compute_of(wider);
  const ScanKernel& kernel = scan_table().kernels[static_cast<int>(kind)][static_cast<int>(compute)];
  Scanner(kernel, compute, in, out, x, y, dim).run();
}

void running_extreme(Extreme kind, DType type, Strided x, Strided values, Strided indices, int dim) {
  const Lines<3> lines({&x, &values, &indices}, dim);
  if (lines.count == 0 || lines.length == 0) return;
  switch (type) {
    case DType::Bool: return extremes_of_type<bool>(kind, lines);
    case DType::UInt8: return extremes_of_type<unsigned char>(kind, lines);
    case DType::Int8: return extremes_of_type<signed char>(kind, lines);
    case DType::Int16: return extremes_of_type<short>(kind, lines);
    case DType::Int32: return extremes_of_type<int>(kind, lines);
    case DType::Int64: return extremes_of_type<Int64>(kind, lines);
    case DType::Float16: return extremes_of_type<Half>(kind, lines);
    case DType::BFloat16: return extremes_of_type<BFloat16>(kind, lines);
    case DType::Float32: return extremes_of_type<float>(kind, lines);
    case DType::Float64: return extremes_of_type<double>(kind, lines);
    default: return;  // complex numbers have no order
  }
}

}  // namespace weft::cpu
