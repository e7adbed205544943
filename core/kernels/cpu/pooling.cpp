#include "core/kernels/cpu/pooling.h"

#include <algorithm>
#include <limits>

#include "core/kernels/cpu/isa/pooling_table.h"
#include "core/kernels/cpu/scratch.h"
#include "core/kernels/cpu/threads.h"

namespace weft::cpu {

namespace {

constexpr int64_t kPieceElements = 32768;

void larger_integer(const int64_t* x, int64_t step, int64_t n, int64_t* best, int32_t* where, int32_t first,
                    int32_t position_step) {
  for (int64_t i = 0; i < n; ++i) {
    if (x[i * step] <= best[i]) continue;
    best[i] = x[i * step];
    where[i] = first + static_cast<int32_t>(i) * position_step;
  }
}

void add_integer(const int64_t* x, int64_t step, int64_t n, int64_t* sum) {
  for (int64_t i = 0; i < n; ++i) sum[i] += x[i * step];
}

void largest_integer(const int64_t* x, const int32_t* positions, int64_t places, int64_t n, int64_t* best,
                     int64_t* where) {
  for (int64_t i = 0; i < n; ++i) {
    where[i] = positions[i];
    for (int64_t place = 1; place < places; ++place) {
      if (x[positions[place * n + i]] > x[where[i]]) where[i] = positions[place * n + i];
    }
    best[i] = x[where[i]];
  }
}

template <class T> PoolingLoops<T> loops_of() {
  if constexpr (std::is_integral_v<T>) return {larger_integer, largest_integer, add_integer, nullptr};
  else return pooling_table().loops(T{});
}

template <class T> T lowest() {
  if constexpr (std::is_integral_v<T>) return std::numeric_limits<T>::min();
  else return -std::numeric_limits<T>::infinity();
}

// The places of a line of windows, one along each output of the last dimension: calls
// place(position, low, high) with the outputs that have the place and the position that the first of them sees;
// the next one is `stride` further.
template <class Place>
void for_each_place(const PoolingShape& s, int64_t o0, int64_t o1, Place place) {
  const WindowsAlong &a = s.along[0], &b = s.along[1], &c = s.along[2];
  for (int64_t i0 = a.begin[o0]; i0 < a.end[o0]; i0 += a.step) {
    for (int64_t i1 = b.begin[o1]; i1 < b.end[o1]; i1 += b.step) {
      const int64_t line = (i0 * b.in + i1) * c.in;
      if (c.stride == 0) {
        for (int64_t o2 = 0; o2 < c.out; ++o2) {
          for (int64_t i2 = c.begin[o2]; i2 < c.end[o2]; i2 += c.step) place(line + i2, o2, o2 + 1);
        }
        continue;
      }
      for (int64_t k = 0; k < c.places; ++k) {
        const int64_t first = c.offset + k * c.step;
        const int64_t low = first >= 0 ? 0 : (-first + c.stride - 1) / c.stride;
        const int64_t high = first >= c.in ? 0 : std::min(c.out, (c.in - 1 - first) / c.stride + 1);
        if (low < high) place(line + first + low * c.stride, low, high);
      }
    }
  }
}

// The places of one window.
template <class Place>
void for_each_place_of_one(const PoolingShape& s, int64_t o0, int64_t o1, int64_t o2, Place place) {
  const WindowsAlong &a = s.along[0], &b = s.along[1], &c = s.along[2];
  for (int64_t i0 = a.begin[o0]; i0 < a.end[o0]; i0 += a.step) {
    for (int64_t i1 = b.begin[o1]; i1 < b.end[o1]; i1 += b.step) {
      for (int64_t i2 = c.begin[o2]; i2 < c.end[o2]; i2 += c.step) place((i0 * b.in + i1) * c.in + i2);
    }
  }
}

// Where a window begins, for when nothing in it is larger than the lowest number.
int32_t first_position(const PoolingShape& s, int64_t o0, int64_t o1, int64_t o2) {
  const auto begin = [](const WindowsAlong& w, int64_t o) { return std::min(w.begin[o], w.in - 1); };
  return static_cast<int32_t>((begin(s.along[0], o0) * s.along[1].in + begin(s.along[1], o1)) * s.along[2].in +
                              begin(s.along[2], o2));
}

// A unit of work is a line of outputs: of one channel, or of all channels at one position.
template <class Body> void for_each_piece(int64_t units, int64_t elements_of_unit, Body body) {
  const int64_t per_piece = std::max<int64_t>(1, kPieceElements / std::max<int64_t>(1, elements_of_unit));
  parallel((units + per_piece - 1) / per_piece,
           [&](int64_t piece) { body(piece * per_piece, std::min(units, (piece + 1) * per_piece)); });
}

// Elements that one output line of one channel sees.
int64_t line_work(const PoolingShape& s) {
  const int64_t lines = s.along[0].out * s.along[1].out;
  return std::max(s.along[2].out, s.in_volume() / std::max<int64_t>(1, lines));
}

struct At { int64_t plane, o0, o1; };
At at_line(const PoolingShape& s, int64_t line) {
  const int64_t o1 = line % s.along[1].out, rest = line / s.along[1].out;
  return {rest / s.along[0].out, rest % s.along[0].out, o1};
}

thread_local Scratch line_scratch, index_scratch;
template <class T> T* line_of(Scratch& scratch, int64_t n) {
  return reinterpret_cast<T*>(scratch.at_least(static_cast<size_t>(n) * sizeof(T)));
}

// ---- the largest --------------------------------------------------------------------------------

// What every output sees, place by place: one table serves all planes. Windows that have fewer places than
// others see their last one several times, which changes no maximum.
std::vector<int32_t> positions_of_places(const PoolingShape& s, int64_t* places) {
  const auto most = [](const WindowsAlong& w) {
    int64_t n = 1;
    for (int64_t o = 0; o < w.out; ++o) n = std::max(n, (w.end[o] - w.begin[o] + w.step - 1) / w.step);
    return n;
  };
  const auto position = [](const WindowsAlong& w, int64_t o, int64_t place) {
    const int64_t last = std::max<int64_t>(0, (w.end[o] - w.begin[o] - 1) / w.step);
    return std::min(w.begin[o] + std::min(place, last) * w.step, w.in - 1);
  };
  const auto& [a, b, c] = s.along;
  const int64_t n0 = most(a), n1 = most(b), n2 = most(c);
  *places = n0 * n1 * n2;
  std::vector<int32_t> positions;
  positions.reserve(static_cast<size_t>(*places * s.out_volume()));
  for (int64_t place = 0; place < *places; ++place) {
    const int64_t k0 = place / (n1 * n2), k1 = place / n2 % n1, k2 = place % n2;
    for (int64_t o0 = 0; o0 < a.out; ++o0) {
      for (int64_t o1 = 0; o1 < b.out; ++o1) {
        const int64_t line = (position(a, o0, k0) * b.in + position(b, o1, k1)) * c.in;
        for (int64_t o2 = 0; o2 < c.out; ++o2) positions.push_back(static_cast<int32_t>(line + position(c, o2, k2)));
      }
    }
  }
  return positions;
}

// Short lines of outputs are not worth a loop each: whole planes by a table.
template <class T> void max_small_planes(const PoolingShape& s, const T* x, T* y, int64_t* indices) {
  int64_t places;
  const std::vector<int32_t> positions = positions_of_places(s, &places);
  const auto largest = loops_of<T>().largest;
  const int64_t n = s.out_volume();
  for_each_piece(s.batch * s.channels, std::max(s.in_volume(), n * places), [&](int64_t begin, int64_t end) {
    for (int64_t plane = begin; plane < end; ++plane) {
      largest(x + plane * s.in_volume(), positions.data(), places, n, y + plane * n, indices + plane * n);
    }
  });
}

template <class T> void max_planar(const PoolingShape& s, const T* x, T* y, int64_t* indices) {
  constexpr int64_t kLongLine = 48;
  // Elements outside every window would be read where a window is empty: those are left to the loop over lines.
  bool all_have_places = true;
  for (const WindowsAlong& w : s.along) {
    for (int64_t o = 0; o < w.out; ++o) all_have_places = all_have_places && w.begin[o] < w.end[o];
  }
  if (all_have_places && s.along[2].out < kLongLine) return max_small_planes(s, x, y, indices);
  const auto larger = loops_of<T>().larger;
  const int64_t width = s.along[2].out, lines = s.batch * s.channels * s.along[0].out * s.along[1].out;
  for_each_piece(lines, line_work(s), [&](int64_t begin, int64_t end) {
    int32_t* const where = line_of<int32_t>(index_scratch, width);
    for (int64_t line = begin; line < end; ++line) {
      const At at = at_line(s, line);
      const T* const plane = x + at.plane * s.in_volume();
      T* const best = y + line * width;
      std::fill_n(best, width, lowest<T>());
      for (int64_t i = 0; i < width; ++i) where[i] = first_position(s, at.o0, at.o1, i);
      for_each_place(s, at.o0, at.o1, [&](int64_t position, int64_t low, int64_t high) {
        const int64_t step = s.along[2].stride;
        larger(plane + position, step, high - low, best + low, where + low, static_cast<int32_t>(position),
               static_cast<int32_t>(step));
      });
      std::copy_n(where, width, indices + line * width);
    }
  });
}

template <class T> void max_channels_last(const PoolingShape& s, const T* x, T* y, int64_t* indices) {
  const auto larger = loops_of<T>().larger;
  const int64_t channels = s.channels, width = s.along[2].out;
  const int64_t lines = s.batch * s.along[0].out * s.along[1].out;
  for_each_piece(lines, line_work(s) * channels, [&](int64_t begin, int64_t end) {
    int32_t* const where = line_of<int32_t>(index_scratch, channels);
    for (int64_t line = begin; line < end; ++line) {
      const At at = at_line(s, line);
      const T* const image = x + at.plane * s.in_volume() * channels;
      for (int64_t o2 = 0; o2 < width; ++o2) {
        T* const best = y + (line * width + o2) * channels;
        std::fill_n(best, channels, lowest<T>());
        std::fill_n(where, channels, first_position(s, at.o0, at.o1, o2));
        for_each_place_of_one(s, at.o0, at.o1, o2, [&](int64_t position) {
          larger(image + position * channels, 1, channels, best, where, static_cast<int32_t>(position), 0);
        });
        std::copy_n(where, channels, indices + (line * width + o2) * channels);
      }
    }
  });
}

// ---- the average --------------------------------------------------------------------------------

template <class T> T divisor_at(const PoolingShape& s, int64_t o0, int64_t o1, int64_t o2) {
  if (s.divisor != 0) return static_cast<T>(s.divisor);
  return static_cast<T>(s.along[0].counted[o0] * s.along[1].counted[o1] * s.along[2].counted[o2]);
}

template <class T> void average_planar(const PoolingShape& s, const T* x, T* y) {
  const auto add = loops_of<T>().add;
  const int64_t width = s.along[2].out, lines = s.batch * s.channels * s.along[0].out * s.along[1].out;
  for_each_piece(lines, line_work(s), [&](int64_t begin, int64_t end) {
    for (int64_t line = begin; line < end; ++line) {
      const At at = at_line(s, line);
      const T* const plane = x + at.plane * s.in_volume();
      T* const sums = y + line * width;
      std::fill_n(sums, width, T{});
      for_each_place(s, at.o0, at.o1, [&](int64_t position, int64_t low, int64_t high) {
        add(plane + position, s.along[2].stride, high - low, sums + low);
      });
      for (int64_t i = 0; i < width; ++i) sums[i] /= divisor_at<T>(s, at.o0, at.o1, i);
    }
  });
}

template <class T> void average_channels_last(const PoolingShape& s, const T* x, T* y) {
  const auto add = loops_of<T>().add;
  const int64_t channels = s.channels, width = s.along[2].out;
  const int64_t lines = s.batch * s.along[0].out * s.along[1].out;
  for_each_piece(lines, line_work(s) * channels, [&](int64_t begin, int64_t end) {
    for (int64_t line = begin; line < end; ++line) {
      const At at = at_line(s, line);
      const T* const image = x + at.plane * s.in_volume() * channels;
      for (int64_t o2 = 0; o2 < width; ++o2) {
        T* const sums = y + (line * width + o2) * channels;
        std::fill_n(sums, channels, T{});
        for_each_place_of_one(s, at.o0, at.o1, o2,
                              [&](int64_t position) { add(image + position * channels, 1, channels, sums); });
        const T divisor = divisor_at<T>(s, at.o0, at.o1, o2);
        for (int64_t c = 0; c < channels; ++c) sums[c] /= divisor;
      }
    }
  });
}

template <class T> void average_gradient_planar(const PoolingShape& s, const T* grad_y, T* grad_x) {
  const auto spread = loops_of<T>().spread;
  const int64_t width = s.along[2].out, lines = s.along[0].out * s.along[1].out;
  for_each_piece(s.batch * s.channels, s.in_volume(), [&](int64_t begin, int64_t end) {
    T* const shares = line_of<T>(line_scratch, width);
    for (int64_t plane = begin; plane < end; ++plane) {
      T* const to = grad_x + plane * s.in_volume();
      std::fill_n(to, s.in_volume(), T{});
      for (int64_t line = 0; line < lines; ++line) {
        const At at = at_line(s, line);
        const T* const from = grad_y + (plane * lines + line) * width;
        for (int64_t i = 0; i < width; ++i) shares[i] = from[i] / divisor_at<T>(s, at.o0, at.o1, i);
        for_each_place(s, at.o0, at.o1, [&](int64_t position, int64_t low, int64_t high) {
          spread(shares + low, high - low, to + position, s.along[2].stride);
        });
      }
    }
  });
}

template <class T> void average_gradient_channels_last(const PoolingShape& s, const T* grad_y, T* grad_x) {
  const auto spread = loops_of<T>().spread;
  const int64_t channels = s.channels, width = s.along[2].out, lines = s.along[0].out * s.along[1].out;
  for_each_piece(s.batch, s.in_volume() * channels, [&](int64_t begin, int64_t end) {
    T* const shares = line_of<T>(line_scratch, channels);
    for (int64_t image = begin; image < end; ++image) {
      T* const to = grad_x + image * s.in_volume() * channels;
      std::fill_n(to, s.in_volume() * channels, T{});
      for (int64_t line = 0; line < lines; ++line) {
        const At at = at_line(s, line);
        for (int64_t o2 = 0; o2 < width; ++o2) {
          const T* const from = grad_y + ((image * lines + line) * width + o2) * channels;
          const T divisor = divisor_at<T>(s, at.o0, at.o1, o2);
          for (int64_t c = 0; c < channels; ++c) shares[c] = from[c] / divisor;
          for_each_place_of_one(s, at.o0, at.o1, o2,
                                [&](int64_t position) { spread(shares, channels, to + position * channels, 1); });
        }
      }
    }
  });
}

template <class Run> void with_floating(DType dtype, Run run) {
  if (dtype == DType::Float64) run(double{});
  else run(float{});
}

template <class Run> void with_number(DType dtype, Run run) {
  if (dtype == DType::Int64) run(int64_t{});
  else with_floating(dtype, run);
}

}  // namespace

WindowsAlong regular_windows(int64_t in, int64_t out, int64_t kernel, int64_t stride, int64_t padding, int64_t dilation,
                             bool count_padding) {
  WindowsAlong w;
  w.in = in;
  w.out = out;
  w.step = dilation;
  w.stride = stride;
  w.places = kernel;
  w.offset = -padding;
  for (int64_t o = 0; o < out; ++o) {
    const int64_t start = o * stride - padding, end = start + (kernel - 1) * dilation + 1;
    const int64_t begin = start >= 0 ? start : start + (-start + dilation - 1) / dilation * dilation;
    w.begin.push_back(begin);
    w.end.push_back(std::min(end, in));
    const int64_t counted = count_padding ? std::min(end, in + padding) - start : w.end.back() - begin;
    w.counted.push_back(std::max<int64_t>(counted, 1));
  }
  return w;
}

WindowsAlong adaptive_windows(int64_t in, int64_t out) {
  WindowsAlong w;
  w.in = in;
  w.out = out;
  for (int64_t o = 0; o < out; ++o) {
    w.begin.push_back(o * in / out);
    w.end.push_back(((o + 1) * in + out - 1) / out);
    w.counted.push_back(w.end.back() - w.begin.back());
  }
  if (in % out == 0) {
    w.stride = in / out;
    w.places = w.stride;
  }
  return w;
}

void pool_max(DType dtype, const PoolingShape& shape, Images x, Images y, int64_t* indices) {
  with_number(dtype, [&](auto zero) {
    using T = decltype(zero);
    const T* const from = reinterpret_cast<const T*>(x.data);
    T* const to = reinterpret_cast<T*>(y.data);
    x.channels_last ? max_channels_last(shape, from, to, indices) : max_planar(shape, from, to, indices);
  });
}

void pool_average(DType dtype, const PoolingShape& shape, Images x, Images y) {
  with_number(dtype, [&](auto zero) {
    using T = decltype(zero);
    const T* const from = reinterpret_cast<const T*>(x.data);
    T* const to = reinterpret_cast<T*>(y.data);
    x.channels_last ? average_channels_last(shape, from, to) : average_planar(shape, from, to);
  });
}

void pool_average_gradient(DType dtype, const PoolingShape& shape, Images grad_y, Images grad_x) {
  with_floating(dtype, [&](auto zero) {
    using T = decltype(zero);
    const T* const from = reinterpret_cast<const T*>(grad_y.data);
    T* const to = reinterpret_cast<T*>(grad_x.data);
    grad_y.channels_last ? average_gradient_channels_last(shape, from, to) : average_gradient_planar(shape, from, to);
  });
}

// ---- by indices into planes ---------------------------------------------------------------------

namespace {

template <class Body> void with_element(DType dtype, Body body) {
  switch (item_size(dtype)) {
    case 1: return body(uint8_t{});
    case 2: return body(uint16_t{});
    case 4: return body(uint32_t{});
    default: return body(uint64_t{});
  }
}

template <class Plane> void for_each_plane(int64_t planes, int64_t in, int64_t out, Plane plane) {
  for_each_piece(planes, in + out, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) plane(p);
  });
}

}  // namespace

void add_at_indices(DType dtype, int64_t planes, int64_t in, int64_t out, const void* narrow, const int64_t* indices,
                    void* wide) {
  with_floating(dtype, [&](auto zero) {
    using T = decltype(zero);
    for_each_plane(planes, in, out, [&](int64_t p) {
      T* const to = static_cast<T*>(wide) + p * in;
      const T* const from = static_cast<const T*>(narrow) + p * out;
      const int64_t* const at = indices + p * out;
      std::fill_n(to, in, T{});
      for (int64_t i = 0; i < out; ++i) to[at[i]] += from[i];
    });
  });
}

void put_at_indices(DType dtype, int64_t planes, int64_t in, int64_t out, const void* narrow, const int64_t* indices,
                    void* wide) {
  with_element(dtype, [&](auto zero) {
    using T = decltype(zero);
    for_each_plane(planes, in, out, [&](int64_t p) {
      T* const to = static_cast<T*>(wide) + p * in;
      const T* const from = static_cast<const T*>(narrow) + p * out;
      const int64_t* const at = indices + p * out;
      std::fill_n(to, in, T{});
      for (int64_t i = 0; i < out; ++i) to[at[i]] = from[i];
    });
  });
}

void take_at_indices(DType dtype, int64_t planes, int64_t in, int64_t out, const void* wide, const int64_t* indices,
                     void* narrow) {
  with_element(dtype, [&](auto zero) {
    using T = decltype(zero);
    for_each_plane(planes, in, out, [&](int64_t p) {
      const T* const from = static_cast<const T*>(wide) + p * in;
      T* const to = static_cast<T*>(narrow) + p * out;
      const int64_t* const at = indices + p * out;
      for (int64_t i = 0; i < out; ++i) to[i] = from[at[i]];
    });
  });
}

const int64_t* find_index_outside(const int64_t* indices, int64_t count, int64_t in) {
  const int64_t* const end = indices + count;
  const int64_t* const found = std::find_if(indices, end, [&](int64_t index) { return index < 0 || index >= in; });
  return found == end ? nullptr : found;
}

}  // namespace weft::cpu
