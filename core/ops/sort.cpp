// Sorting and selecting by rank; the distinct values of a tensor.
#include <algorithm>
#include <numeric>

#include "core/kernels/cpu/rows.h"
#include "core/kernels/cpu/sort.h"
#include "core/ops/indexing.h"

namespace weft {

namespace {

constexpr int64_t kUnlockAt = 16 * 1024;

void check_ordered(const char* name, DType t) {
  if (is_complex(t)) fail(ErrorKind::NotImplemented, "\"", name, "\" not implemented for '", scalar_type_name(t), "'");
}

void values_and_indices(Meta* out) {
  out[1] = out[0];
  out[1].dtype = DType::Int64;
}

// A kernel's view of the input and both results. A 0-dim tensor is one line of one element.
struct SortCall {
  Layout x, values, indices;
  int dim;
  Unlocked unlocked;

  SortCall(const Tensor& in, const Tensor& out_values, const Tensor& out_indices, int64_t dim)
      : x(in),
        values(out_values),
        indices(out_indices),
        dim(static_cast<int>(wrap_dim(dim, in.ndim()))),
        unlocked(in.numel() >= kUnlockAt) {
    x.at_least_1d();
    values.at_least_1d();
    indices.at_least_1d();
  }
};

int64_t line_length(const Tensor& t, int64_t dim) {
  return t.ndim() == 0 ? 1 : t.size(static_cast<int>(wrap_dim(dim, t.ndim())));
}

}  // namespace

struct Sort {
  static constexpr Schema schema{
      "sort(Tensor self, int dim=-1, bool descending=False, *, bool? stable=None) -> (Tensor "
      "values, Tensor indices)"};
  static constexpr uint32_t traits = kFirstOutputOnly | kExactOut;
  static constexpr Saves saves{{output(1)}};
  int64_t dim;
  bool descending;
  std::optional<bool> stable;  // equal elements always keep their order

  void infer(Inputs in, Meta* out) const {
    check_ordered("sort", in[0].dtype());
    wrap_dim(dim, in[0].ndim());
    out[0].like(in[0]);
    values_and_indices(out);
  }
  void run(Inputs in, Tensor* out) const {
    if (in[0].numel() == 0) return;
    const SortCall c(in[0], out[0], out[1], dim);
    cpu::sort(in[0].dtype(), descending, c.x, c.values, c.indices, c.dim);
  }
  static void vjp(Backward& b) {
    b.set(0, selected_gradient(b.grad(), b.op<Sort>().dim, b.output(1), b.input_sizes(0), true));
  }
};
WEFT_OP(Sort);

struct Argsort {
  static constexpr Schema schema{
      "argsort(Tensor self, int dim=-1, bool descending=False, bool stable=False) -> Tensor"};
  static constexpr uint32_t traits = kNeverDifferentiable;
  int64_t dim;
  bool descending, stable;

  void infer(Inputs in, Meta* out) const {
    check_ordered("sort", in[0].dtype());
    wrap_dim(dim, in[0].ndim());
    out->set(DType::Int64, in[0]->device, in[0].sizes());
  }
  void run(Inputs in, Tensor* out) const {
    if (in[0].numel() == 0) return;
    const SortCall c(in[0], out[0], out[0], dim);
    cpu::Strided none = c.values;
    none.data = nullptr;
    cpu::sort(in[0].dtype(), descending, c.x, none, c.indices, c.dim);
  }
};
WEFT_OP(Argsort);

struct Topk {
  static constexpr Schema schema{
      "topk(Tensor self, int k, int dim=-1, bool largest=True, bool sorted=True) -> (Tensor "
      "values, Tensor indices)"};
  static constexpr uint32_t traits = kFirstOutputOnly | kExactOut;
  static constexpr Saves saves{{output(1)}};
  int64_t k, dim;
  bool largest, sorted;

  void infer(Inputs in, Meta* out) const {
    check_ordered("topk", in[0].dtype());
    const int64_t at = wrap_dim(dim, in[0].ndim());
    if (k < 0 || k > line_length(in[0], dim)) fail("selected index k out of range");
    out[0].like(in[0]);
    if (in[0].ndim() > 0) out[0].sizes[at] = k;
    values_and_indices(out);
  }
  void run(Inputs in, Tensor* out) const {
    if (in[0].numel() == 0 || k == 0) {
      // Of a 0-dim tensor, even none of its elements are one result.
      if (out[0].numel() == 0) return;
      copy_into(out[0], in[0]);
      return copy_into(out[1], zeros({}, DType::Int64));
    }
    const SortCall c(in[0], out[0], out[1], dim);
    cpu::topk(in[0].dtype(), k, largest, c.x, c.values, c.indices, c.dim);
  }
  static void vjp(Backward& b) {
    b.set(0, selected_gradient(b.grad(), b.op<Topk>().dim, b.output(1), b.input_sizes(0), true));
  }
};
WEFT_OP(Topk);

struct Kthvalue {
  static constexpr Schema schema{
      "kthvalue(Tensor self, int k, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor "
      "indices)"};
  static constexpr uint32_t traits = kFirstOutputOnly | kExactOut;
  static constexpr Saves saves{{output(1)}};
  int64_t k, dim;
  bool keepdim;

  void infer(Inputs in, Meta* out) const {
    const Tensor& a = in[0];
    check_ordered("kthvalue", a.dtype());
    const int64_t at = wrap_dim(dim, a.ndim());
    if (a.ndim() > 0 && a.size(static_cast<int>(at)) == 0) {
      fail(ErrorKind::Index, "kthvalue(): Expected reduction dim ", at, " to have non-zero size.");
    }
    if (k < 1 || k > line_length(a, dim)) fail("kthvalue(): selected number k out of range for dimension ", at);
    out[0].like(a);
    if (a.ndim() > 0) {
      if (keepdim) out[0].sizes[at] = 1;
      else std::copy(out[0].sizes + at + 1, out[0].sizes + out[0].ndim--, out[0].sizes + at);
    }
    values_and_indices(out);
  }
  void run(Inputs in, Tensor* out) const {
    if (in[0].numel() == 0) return;
    Dims kept(in[0].sizes());
    if (!kept.empty()) kept[static_cast<int>(wrap_dim(dim, kept.size()))] = 1;
    const SortCall c(in[0], alias_as(out[0], kept), alias_as(out[1], kept), dim);
    cpu::kth_value(in[0].dtype(), k, c.x, c.values, c.indices, c.dim);
  }
  static void vjp(Backward& b) {
    const Kthvalue& op = b.op<Kthvalue>();
    b.set(0, selected_gradient(b.grad(), op.dim, b.output(1), b.input_sizes(0), op.keepdim));
  }

 private:
  // A contiguous result with the dimension that was dropped.
  static Tensor alias_as(const Tensor& t, const Dims& sizes) {
    Dims strides;
    strides.resize(sizes.size());
    int64_t next = 1;
    for (int d = sizes.size(); d-- > 0; next *= sizes[d]) strides[d] = next;
    return alias(t, sizes, strides, 0);
  }
};
WEFT_OP(Kthvalue);

// ---- distinct values ----------------------------------------------------------------------------

namespace {

Tensor first_of(const Tensor& line, int64_t count) {
  const Tensor part = empty(Dims{count}, line.dtype());
  std::memcpy(part->data, line->data, static_cast<size_t>(count) * item_size(line.dtype()));
  return part;
}

// values, inverse and counts of the elements; what is not asked for is null.
void distinct_elements(bool runs, const Tensor& a, bool want_inverse, bool want_counts, std::vector<Tensor>& out) {
  check_ordered("unique", a.dtype());
  ensure_value(a.get());
  const Tensor flat = a->is_contiguous() ? a : detached_copy(a);
  const int64_t n = flat.numel();
  const Tensor values = empty(Dims{n}, a.dtype());
  const Tensor inverse = want_inverse ? empty(a.sizes(), DType::Int64) : Tensor();
  const Tensor counts = want_counts ? empty(Dims{n}, DType::Int64) : Tensor();
  int64_t found = 0;
  if (n > 0) {
    Unlocked unlocked(n >= kUnlockAt);
    found = (runs ? cpu::unique_consecutive : cpu::unique)(a.dtype(), flat->data, n, values->data,
                                                           inverse ? inverse.data<int64_t>() : nullptr,
                                                           counts ? counts.data<int64_t>() : nullptr);
  }
  out.push_back(first_of(values, found));
  out.push_back(inverse);
  out.push_back(counts ? first_of(counts, found) : Tensor());
}

// The same for slices along a dimension.
void distinct_slices(bool runs, const Tensor& a, int64_t dim, bool want_inverse, bool want_counts,
                     std::vector<Tensor>& out) {
  check_ordered("unique_dim", a.dtype());
  ensure_value(a.get());
  const int64_t at = wrap_dim(dim, a.ndim());
  const GradMode off(false);
  const Tensor along = a.ndim() == 0 ? reshape(a, Dims{1}) : a;
  Dims order_of_dims{at}, back;
  for (int d = 0; d < along.ndim(); ++d)
    if (d != at) order_of_dims.push_back(d);
  back.resize(along.ndim());
  for (int d = 0; d < along.ndim(); ++d) back[static_cast<int>(order_of_dims[d])] = d;
  const Tensor rows = detached_copy(permute(along, order_of_dims));
  const int64_t count = rows.size(0), width = count == 0 ? 0 : rows.numel() / count;
  if (count > 0 && width == 0) fail("There are 0 sized dimensions, and they aren't selected by `dim`");
  Tensor order = empty(Dims{count}, DType::Int64), group = empty(Dims{count}, DType::Int64);
  int64_t* const places = order.data<int64_t>();
  if (runs) std::iota(places, places + count, int64_t{0});
  else cpu::order_rows(a.dtype(), rows->data, count, width, places);
  const int64_t groups = cpu::group_rows(a.dtype(), rows->data, count, width, places, group.data<int64_t>());
  const Tensor first = empty(Dims{groups}, DType::Int64), inverse = empty(Dims{count}, DType::Int64);
  const Tensor counts = zeros(Dims{groups}, DType::Int64);
  for (int64_t i = count; i-- > 0;) {
    const int64_t g = group.data<int64_t>()[i];
    first.data<int64_t>()[g] = places[i];
    inverse.data<int64_t>()[places[i]] = g;
    ++counts.data<int64_t>()[g];
  }
  out.push_back(contiguous(permute(index_select(rows, 0, first), back)));
  out.push_back(want_inverse ? inverse : Tensor());
  out.push_back(want_counts ? counts : Tensor());
}

}  // namespace

// With `consecutive`, equal elements that follow one another; otherwise all of them, in ascending
// order.
struct Unique {
  static constexpr Schema schema{
      "_unique(Tensor self, bool consecutive, bool return_inverse, bool return_counts, int? "
      "dim=None) -> Tensor"};
  static constexpr uint32_t traits = kForcesValues | kNeverDifferentiable;
  bool consecutive, return_inverse, return_counts;
  std::optional<int64_t> dim;

  void compose_list(Inputs in, std::vector<Tensor>& out) const {
    if (dim) distinct_slices(consecutive, in[0], *dim, return_inverse, return_counts, out);
    else distinct_elements(consecutive, in[0], return_inverse, return_counts, out);
  }
};
WEFT_OP(Unique);

}  // namespace weft
