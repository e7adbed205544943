// The same elements elsewhere: turned, shifted, repeated, padded, put into a larger tensor.
#include <algorithm>
#include <cstring>

#include "core/kernels/cpu/fill.h"
#include "core/kernels/cpu/indexing.h"
#include "core/ops/create.h"
#include "core/ops/shape.h"

namespace weft {
namespace {

// Strides in bytes, for kernels.
struct ByteStrides {
  int64_t of[kMostDims];

  ByteStrides(IntSpan strides, DType dtype) {
    for (size_t d = 0; d < strides.size(); ++d) of[d] = strides[d] * item_size(dtype);
  }
};

void copy_window(DType dtype, IntSpan sizes, char* to, IntSpan to_strides, const char* from, IntSpan from_strides) {
  const ByteStrides a(to_strides, dtype), b(from_strides, dtype);
  const int ndim = static_cast<int>(sizes.size());
  cpu::copy_strided(item_size(dtype), {to, ndim, sizes.data(), a.of},
                    {const_cast<char*>(from), ndim, sizes.data(), b.of});
}

}  // namespace

// ---- turned and shifted ----------------------------------------------------------------------------

extern const OpTable op_Flip;
struct Flip {
  static constexpr Schema schema{"flip(Tensor self, int[] dims) -> Tensor"};
  static constexpr uint32_t traits = kLinear;
  Dims dims;

  void infer(Inputs in, Meta* out) const {
    bool seen[kMostDims] = {};
    for (int64_t d : dims) {
      const int64_t at = wrap_dim(d, in[0].ndim());
      if (seen[at]) fail("dim ", at, " appears multiple times in the list of dims");
      seen[at] = true;
    }
    out->like(in[0]);
    lay_out(out, kPreserveFormat, in[0]);
  }
  void run(Inputs in, Tensor* out) const {
    const Tensor& a = in[0];
    if (a.numel() == 0) return;
    const char* from = a->data;
    Dims strides(a.strides());
    for (int64_t d : dims) {
      if (a.ndim() == 0) break;
      const int at = static_cast<int>(wrap_dim(d, a.ndim()));
      from += (a.size(at) - 1) * a.stride(at) * item_size(a.dtype());
      strides[at] = -strides[at];
    }
    copy_window(a.dtype(), a.sizes(), out[0]->data, out[0].strides(), from, strides);
  }
  static void vjp(Backward& b) { b.set(0, call(op_Flip, b.op<Flip>(), b.grad())); }
};
WEFT_OP(Flip);

extern const OpTable op_Roll;
struct Roll {
  static constexpr Schema schema{"roll(Tensor self, int[] shifts, int[] dims=[]) -> Tensor"};
  static constexpr uint32_t traits = kLinear;
  Dims shifts, dims;

  void infer(Inputs in, Meta* out) const {
    if (shifts.empty()) fail("`shifts` required");
    if (dims.empty() ? shifts.size() != 1 : dims.size() != shifts.size()) {
      fail("shifts and dimensions must align. shifts: ", shifts.size(), ", dims:", dims.size());
    }
    for (int64_t d : dims) {
      if (in[0].ndim() == 0) fail(ErrorKind::Index, "Dimension specified as ", d, " but tensor has no dimensions");
      wrap_dim(d, in[0].ndim());
    }
    out->like(in[0]);
  }
  void run(Inputs in, Tensor* out) const {
    const Tensor& a = in[0];
    if (a.numel() == 0) return;
    if (dims.empty()) {
      const Tensor line = a->is_contiguous() ? a : detached_copy(a);
      const Dims size{a.numel()}, stride{1}, by{shift_of(0, a.numel())};
      return copy_shifted(a.dtype(), size, by, out[0]->data, stride, line->data, stride, 0);
    }
    Dims by;
    by.resize(a.ndim());
    std::fill_n(by.data(), a.ndim(), 0);
    for (int i = 0; i < dims.size(); ++i) {
      const int at = static_cast<int>(wrap_dim(dims[i], a.ndim()));
      by[at] = (by[at] + shift_of(i, a.size(at))) % a.size(at);
    }
    copy_shifted(a.dtype(), Dims(a.sizes()), by, out[0]->data, out[0].strides(), a->data, a.strides(), 0);
  }
  static void vjp(Backward& b) {
    const Roll& op = b.op<Roll>();
    const Tensor& g = b.grad();
    Roll back = op;
    for (int i = 0; i < op.shifts.size(); ++i) {
      const int64_t size = op.dims.empty() ? g.numel() : g.size(static_cast<int>(wrap_dim(op.dims[i], g.ndim())));
      back.shifts[i] = size == 0 ? 0 : -op.shift_of(i, size);
    }
    b.set(0, call(op_Roll, back, g));
  }

 private:
  // In [0, size).
  int64_t shift_of(int i, int64_t size) const {
    const int64_t shift = shifts[i] % size;
    return shift < 0 ? shift + size : shift;
  }
  // Two blocks for each dimension that is shifted.
  static void copy_shifted(DType dtype, const Dims& sizes, const Dims& by, char* to, IntSpan to_strides,
                           const char* from, IntSpan from_strides, int dim) {
    while (dim < sizes.size() && by[dim] == 0) ++dim;
    if (dim == sizes.size()) return copy_window(dtype, sizes, to, to_strides, from, from_strides);
    const int64_t shift = by[dim], rest = sizes[dim] - shift, item = item_size(dtype);
    Dims block = sizes;
    block[dim] = rest;
    copy_shifted(dtype, block, by, to + shift * to_strides[dim] * item, to_strides, from, from_strides, dim + 1);
    block[dim] = shift;
    copy_shifted(dtype, block, by, to, to_strides, from + rest * from_strides[dim] * item, from_strides, dim + 1);
  }
};
WEFT_OP(Roll);

// ---- triangles -------------------------------------------------------------------------------------

namespace {

void infer_triangle(const char* name, const Tensor& a, Meta* out) {
  if (a.ndim() < 2) fail(name, ": input tensor must have at least 2 dimensions");
  out->like(a);
}

void zero_triangle(const Tensor& t, int64_t diagonal, bool below) {
  const ByteStrides strides(t.strides(), t.dtype());
  cpu::zero_triangle(item_size(t.dtype()), {t->data, t.ndim(), t.sizes().data(), strides.of}, diagonal, below);
}

}  // namespace

extern const OpTable op_Tril;
struct Tril {
  static constexpr Schema schema{"tril(Tensor self, int diagonal=0) -> Tensor"};
  static constexpr uint32_t traits = kUpdatesSelf | kLinear | kExactOut;
  int64_t diagonal;

  void infer(Inputs in, Meta* out) const { infer_triangle("tril", in[0], out); }
  void run(Inputs, Tensor* out) const { zero_triangle(out[0], diagonal, false); }
  static void vjp(Backward& b) { b.set(0, call(op_Tril, b.op<Tril>(), b.grad())); }
};
WEFT_OP(Tril);

extern const OpTable op_Triu;
struct Triu {
  static constexpr Schema schema{"triu(Tensor self, int diagonal=0) -> Tensor"};
  static constexpr uint32_t traits = kUpdatesSelf | kLinear | kExactOut;
  int64_t diagonal;

  void infer(Inputs in, Meta* out) const { infer_triangle("triu", in[0], out); }
  void run(Inputs, Tensor* out) const { zero_triangle(out[0], diagonal, true); }
  static void vjp(Backward& b) { b.set(0, call(op_Triu, b.op<Triu>(), b.grad())); }
};
WEFT_OP(Triu);

// ---- repeated --------------------------------------------------------------------------------------

struct Repeat {
  static constexpr Schema schema{"repeat(Tensor self, int[] repeats) -> Tensor"};
  static constexpr uint32_t traits = kLinear;
  Dims repeats;

  void infer(Inputs in, Meta* out) const {
    const Tensor& a = in[0];
    const int added = repeats.size() - a.ndim();
    if (added < 0) {
      fail("Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor");
    }
    if (2 * repeats.size() > kMostDims) fail("repeat: more than ", kMostDims / 2, " dimensions");
    out->dtype = a.dtype();
    out->device = a->device;
    out->ndim = repeats.size();
    for (int d = 0; d < out->ndim; ++d) {
      if (repeats[d] < 0)
        fail("Trying to create tensor with negative dimension ", repeats[d], ": repeat ", shape_text(repeats));
      const int64_t own = d < added ? 1 : a.size(d - added);
      if (__builtin_mul_overflow(own, repeats[d], &out->sizes[d]))
        fail("repeat: the result is larger than can be addressed");
    }
    checked_numel(out->shape());
  }
  void run(Inputs in, Tensor* out) const {
    if (out[0].numel() == 0) return;
    const Tensor& a = in[0];
    const int added = repeats.size() - a.ndim();
    Dims from, to;
    for (int d = 0; d < repeats.size(); ++d) {
      const int64_t own = d < added ? 1 : a.size(d - added);
      from.push_back(0);
      from.push_back(d < added ? 0 : a.stride(d - added));
      to.push_back(own * out[0].stride(d));
      to.push_back(out[0].stride(d));
    }
    copy_window(a.dtype(), interleaved(a.sizes()), out[0]->data, to, a->data, from);
  }
  static void vjp(Backward& b) {
    const Repeat& op = b.op<Repeat>();
    const IntSpan sizes = b.input_sizes(0);
    Dims copies;
    for (int d = 0; d < op.repeats.size(); ++d) copies.push_back(2 * d);
    Tensor g = reshape(b.grad(), op.interleaved(sizes));
    if (!copies.empty()) g = sum(g, copies, false);
    b.set(0, reshape(g, sizes));
  }

 private:
  // Repeat count, size, repeat count, size, ...
  Dims interleaved(IntSpan sizes) const {
    const int added = repeats.size() - static_cast<int>(sizes.size());
    Dims shape;
    for (int d = 0; d < repeats.size(); ++d) {
      shape.push_back(repeats[d]);
      shape.push_back(d < added ? 1 : sizes[static_cast<size_t>(d - added)]);
    }
    return shape;
  }
};
WEFT_OP(Repeat);

struct Tile {
  static constexpr Schema schema{"tile(Tensor self, int[] dims) -> Tensor"};
  static constexpr const char* backward_name = "RepeatBackward0";
  Dims dims;

  Tensor compose(Inputs in) const {
    Repeat op;
    for (int d = dims.size(); d < in[0].ndim(); ++d) op.repeats.push_back(1);
    for (int64_t d : dims) op.repeats.push_back(d);
    return call(op_Repeat, op, in[0]);
  }
};
WEFT_OP(Tile);

// Position i, repeats[i] times over.
extern const OpTable op_RepeatedPositions;
struct RepeatedPositions {
  static constexpr Schema schema{"repeat_interleave(Tensor repeats, *, int? output_size=None) -> Tensor"};
  static constexpr uint32_t traits = kForcesValues | kNeverDifferentiable;
  std::optional<int64_t> output_size;

  void infer(Inputs in, Meta* out) const {
    const Tensor& repeats = in[0];
    if (repeats.ndim() != 1) fail("repeat_interleave only accept 1D vector as repeat");
    if (repeats.dtype() != DType::Int64 && repeats.dtype() != DType::Int32)
      refuse_dtype("repeat_interleave", repeats.dtype());
    ensure_value(repeats.get());
    int64_t total = 0;
    for (int64_t i = 0; i < repeats.size(0); ++i) {
      const int64_t n = count(repeats, i);
      if (n < 0) fail("repeats can not be negative");
      if (__builtin_add_overflow(total, n, &total))
        fail("repeat_interleave: the result is larger than can be addressed");
    }
    if (output_size && *output_size != total) {
      fail("allocated size does not match required size: output_size is ", *output_size, ", the repeats sum to ",
           total);
    }
    const Dims size{total};
    checked_numel(size);
    out->set(repeats.dtype(), repeats->device, size);
  }
  void run(Inputs in, Tensor* out) const {
    if (out[0].dtype() == DType::Int64) fill(in[0], out[0].data<int64_t>());
    else fill(in[0], out[0].data<int32_t>());
  }

 private:
  static int64_t count(const Tensor& repeats, int64_t i) {
    const int64_t at = i * repeats.stride(0);
    return repeats.dtype() == DType::Int64 ? repeats.data<int64_t>()[at] : repeats.data<int32_t>()[at];
  }
  template <class T>
  static void fill(const Tensor& repeats, T* out) {
    for (int64_t i = 0; i < repeats.size(0); ++i) out = std::fill_n(out, count(repeats, i), static_cast<T>(i));
  }
};
WEFT_OP(RepeatedPositions);

struct RepeatInterleave {
  static constexpr Schema schema{
      "repeat_interleave.each(Tensor self, int repeats, int? dim=None, *, int? output_size=None) -> Tensor"};
  int64_t repeats;
  std::optional<int64_t> dim, output_size;

  Tensor compose(Inputs in) const {
    if (repeats < 0) fail("Repeats must be non-negative");
    const Tensor a = dim ? in[0].ndim() == 0 ? reshape(in[0], Dims{1}) : in[0] : reshape(in[0], Dims{-1});
    const int at = static_cast<int>(wrap_dim(dim.value_or(0), in[0].ndim() == 0 || !dim ? 1 : a.ndim()));
    Dims apart, together(a.sizes());
    for (int d = 0; d < a.ndim(); ++d) {
      apart.push_back(a.size(d));
      if (d == at) apart.push_back(repeats);
    }
    if (__builtin_mul_overflow(together[at], repeats, &together[at]))
      fail("repeat_interleave: the result is larger than can be addressed");
    if (output_size && *output_size != together[at]) {
      fail("repeat_interleave: Invalid output_size, expected ", together[at], " but got ", *output_size);
    }
    checked_numel(together);
    return view(contiguous_copy(expand(unsqueeze(a, at + 1), apart)), together);
  }
};
WEFT_OP(RepeatInterleave);

struct RepeatInterleaveBy {
  static constexpr Schema schema{
      "repeat_interleave.by(Tensor self, Tensor repeats, int? dim=None, *, int? output_size=None) -> Tensor"};
  static constexpr uint32_t traits = kForcesValues;
  std::optional<int64_t> dim, output_size;

  Tensor compose(Inputs in) const {
    const Tensor& given = in[1];
    const Tensor a = dim ? in[0].ndim() == 0 ? reshape(in[0], Dims{1}) : in[0] : reshape(in[0], Dims{-1});
    const int at = static_cast<int>(wrap_dim(dim.value_or(0), in[0].ndim() == 0 || !dim ? 1 : a.ndim()));
    Tensor repeats = given;
    if (given.ndim() == 0 || (given.ndim() == 1 && given.size(0) == 1)) {
      repeats = expand(reshape(given, Dims{1}), Dims{a.size(at)});
    } else if (given.ndim() != 1) {
      fail("repeats must be 0-dim or 1-dim tensor");
    } else if (given.size(0) != a.size(at)) {
      fail("repeats must have the same size as input along dim, but got repeats.size(0) = ", given.size(0),
           " and input.size(", at, ") = ", a.size(at));
    }
    std::vector<Tensor> indices(static_cast<size_t>(at) + 1);
    indices.back() = to_dtype(call(op_RepeatedPositions, RepeatedPositions{output_size}, repeats), DType::Int64);
    return index(a, indices);
  }
};
WEFT_OP(RepeatInterleaveBy);

// ---- padded ----------------------------------------------------------------------------------------

extern const OpTable op_ConstantPad;
struct ConstantPad {
  static constexpr Schema schema{"constant_pad_nd(Tensor self, int[] pad, Scalar value=0) -> Tensor"};
  static constexpr uint32_t traits = kLinear;
  static constexpr const char* backward_name = "ConstantPadNdBackward0";
  Dims pad;  // before and after, for the last dimension first; negative numbers cut off
  Scalar value;

  void infer(Inputs in, Meta* out) const {
    const Tensor& a = in[0];
    if (pad.size() % 2 != 0) fail("Length of pad must be even but instead it equals ", pad.size());
    if (pad.size() > 2 * a.ndim()) {
      fail("Length of pad should be no more than twice the number of dimensions of the input. Pad length is ",
           pad.size(), " while the input has ", a.ndim(), " dimensions.");
    }
    out->like(a);
    for (int d = 0; d < a.ndim(); ++d) {
      const Sides p = sides(d, a.ndim());
      int64_t& size = out->sizes[d];
      if (__builtin_add_overflow(size, p.before, &size) || __builtin_add_overflow(size, p.after, &size)) {
        fail("pad: the result is larger than can be addressed");
      }
      if (size < 0) {
        fail("The input size ", a.size(d), ", plus negative padding ", p.before, " and ", p.after,
             " resulted in a negative output size, which is invalid. Check dimension ", d, " of your input.");
      }
    }
    checked_numel(out->shape());
    stored_number(value, a.dtype());
    if (is_laid_out_last(a)) lay_out(out, a.ndim() == 4 ? kChannelsLast : kChannelsLast3d, a);
  }
  void run(Inputs in, Tensor* out) const {
    const Tensor& a = in[0];
    fill_value(out[0], value);
    Dims window(a.sizes());
    const int64_t item = item_size(a.dtype());
    const char* from = a->data;
    char* to = out[0]->data;
    for (int d = 0; d < a.ndim(); ++d) {
      const Sides p = sides(d, a.ndim());
      from += std::max<int64_t>(-p.before, 0) * a.stride(d) * item;
      to += std::max<int64_t>(p.before, 0) * out[0].stride(d) * item;
      window[d] = a.size(d) + std::min<int64_t>(p.before, 0) + std::min<int64_t>(p.after, 0);
      if (window[d] <= 0) return;
    }
    copy_window(a.dtype(), window, to, out[0].strides(), from, a.strides());
  }
  static void vjp(Backward& b) {
    ConstantPad back{b.op<ConstantPad>().pad, Scalar(0)};
    for (int i = 0; i < back.pad.size(); ++i) back.pad[i] = -back.pad[i];
    b.set(0, call(op_ConstantPad, back, b.grad()));
  }

 private:
  struct Sides { int64_t before, after; };
  Sides sides(int dim, int ndim) const {
    const int at = 2 * (ndim - 1 - dim);
    return at < pad.size() ? Sides{pad[at], pad[at + 1]} : Sides{0, 0};
  }
  static bool is_laid_out_last(const Tensor& a) {
    if (a->is_contiguous()) return false;
    return (a.ndim() == 4 && is_laid_out(a, kChannelsLast)) || (a.ndim() == 5 && is_laid_out(a, kChannelsLast3d));
  }
};
WEFT_OP(ConstantPad);

// ---- put into a larger tensor ----------------------------------------------------------------------

struct DiagEmbed {
  static constexpr Schema schema{"diag_embed(Tensor self, int offset=0, int dim1=-2, int dim2=-1) -> Tensor"};
  int64_t offset, dim1, dim2;

  Tensor compose(Inputs in) const {
    const Tensor& a = in[0];
    const int ndim = a.ndim() + 1;
    if (a.ndim() == 0) wrap_dim(-2, 1);
    if (ndim > kMostDims) fail("diag_embed: a tensor can have at most ", kMostDims, " dimensions");
    const int first = static_cast<int>(wrap_dim(dim1, ndim)), second = static_cast<int>(wrap_dim(dim2, ndim));
    if (first == second) fail("diagonal dimensions cannot be identical ", dim1, ", ", dim2);
    int64_t side;
    const int64_t reach = offset == INT64_MIN ? INT64_MAX : std::abs(offset);
    if (__builtin_add_overflow(a.size(a.ndim() - 1), reach, &side))
      fail("diag_embed: offset ", offset, " is too large");
    Dims sizes;
    for (int d = 0, own = 0; d < ndim; ++d) sizes.push_back(d == first || d == second ? side : a.size(own++));
    checked_numel(sizes);
    const Dims strides = contiguous_strides(sizes);
    Dims window;
    for (int d = 0; d < ndim; ++d)
      if (d != first && d != second) window.push_back(strides[d]);
    window.push_back(strides[first] + strides[second]);
    return place_in_zeros(a, sizes, window, offset < 0 ? reach * strides[first] : reach * strides[second]);
  }
};
WEFT_OP(DiagEmbed);

struct Diag {
  static constexpr Schema schema{"diag(Tensor self, int diagonal=0) -> Tensor"};
  static constexpr uint32_t traits = kExactOut;
  int64_t diagonal;

  Tensor compose(Inputs in) const {
    const Tensor& a = in[0];
    if (a.ndim() == 1) return DiagEmbed{diagonal, 0, 1}.compose(in);
    if (a.ndim() != 2) fail("diag(): Supports 1D or 2D tensors. Got ", a.ndim(), "D");
    return contiguous_copy(weft::diagonal(a, diagonal, 0, 1));
  }
};
WEFT_OP(Diag);

}  // namespace weft
