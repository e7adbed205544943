// Searching in sorted lines, and counting.
#include <algorithm>
#include <string>

#include "core/ops/indexing.h"
#include "core/tensor/promotion.h"

namespace weft {

namespace {

constexpr int64_t kUnlockAt = 16 * 1024;

DType common_dtype(const Tensor& a, const Tensor& b) {
  ResultType result;
  result.add(a.get());
  result.add(b.get());
  return result.get();
}

Tensor cast_plain(const Tensor& t, DType to) {
  if (t.dtype() == to) return t;
  const Tensor cast = empty(t.sizes(), to);
  copy_into(cast, t);
  return cast;
}

void check_real(const char* name, const Tensor& a, const Tensor& b) {
  for (const Tensor* t : {&a, &b}) {
    if (is_complex(t->dtype())) {
      fail(ErrorKind::NotImplemented, "\"", name, "\" not implemented for '", scalar_type_name(t->dtype()), "'");
    }
  }
}

// Every value's place in the line of `sorted` that belongs to it; a single line serves all values.
void search(const Tensor& sorted, const Tensor& values, bool right, const Tensor& sorter, const Tensor& out) {
  if (out.numel() == 0) return;
  const DType common = common_dtype(sorted, values);
  const Tensor lines = cast_plain(sorted, common), wanted = cast_plain(values, common);
  const Tensor places = out.dtype() == DType::Int64 ? out : empty(out.sizes(), DType::Int64);
  Layout to(places), from(wanted);
  to.at_least_1d();
  from.at_least_1d();
  Dims shape(wanted.sizes());
  if (shape.empty()) shape = Dims{1};
  shape[shape.size() - 1] = lines.size(lines.ndim() - 1);
  const Layout in(lines, shape);
  cpu::IndexStatus status;
  {
    Unlocked unlocked(out.numel() >= kUnlockAt);
    if (sorter) {
      const Layout order(sorter, shape);
      const cpu::Strided o = order;
      status = cpu::searchsorted(common, to, in, from, right, &o);
    } else {
      status = cpu::searchsorted(common, to, in, from, right, nullptr);
    }
  }
  if (!status) fail("torch.searchsorted(): sorter index out of range");
  if (places.get() != out.get()) copy_into(out, places);
}

}  // namespace

struct Searchsorted {
  static constexpr Schema schema{
      "searchsorted(Tensor sorted_sequence, Tensor|Scalar self, *, bool out_int32=False, bool "
      "right=False, "
      "str? side=None, Tensor? sorter=None) -> Tensor"};
  static constexpr uint32_t traits = kNeverDifferentiable | kExactOut;
  bool out_int32, right;
  std::optional<std::string> side;

  void infer(Inputs in, Meta* out) const {
    const Tensor &sorted = in[0], &values = in[1], &sorter = in[2];
    check_side();
    check_real("searchsorted", sorted, values);
    if (sorted.ndim() == 0) {
      fail(
          "torch.searchsorted(): input value can be a scalar only when boundaries tensor dimension "
          "is 1, but we got "
          "boundaries tensor dim(0) and input value's dim(",
          values.ndim(), ") numel(", values.numel(), ")");
    }
    if (values.ndim() == 0 && sorted.ndim() != 1) {
      fail(
          "torch.searchsorted(): input value can be a scalar only when boundaries tensor dimension "
          "is 1, but we got "
          "boundaries tensor dim(",
          sorted.ndim(), ") and input value's dim(0) numel(1)");
    }
    bool match = sorted.ndim() == 1 || sorted.ndim() == values.ndim();
    for (int d = 0; match && sorted.ndim() > 1 && d + 1 < sorted.ndim(); ++d) match = sorted.size(d) == values.size(d);
    if (!match) {
      fail(
          "torch.searchsorted(): boundaries tensor should be 1 dimension or the first N-1 "
          "dimensions of boundaries tensor "
          "and input value tensor must match, but we got boundaries tensor ",
          shape_text(sorted.sizes()), " and input value tensor ", shape_text(values.sizes()));
    }
    if (sorter) check_sorter(sorted, sorter);
    out->set(out_int32 ? DType::Int32 : DType::Int64, sorted->device, values.sizes());
  }
  void run(Inputs in, Tensor* out) const { search(in[0], in[1], right || side == "right", in[2], out[0]); }

 private:
  void check_side() const {
    if (!side) return;
    if (*side != "left" && *side != "right") {
      fail("torch.searchsorted(): side can only be 'left' or 'right' but got ", *side);
    }
    if (*side == "left" && right) {
      fail(
          "torch.searchsorted(): side and right can't be set to opposites, got side of left while "
          "right was True");
    }
  }
  static void check_sorter(const Tensor& sorted, const Tensor& sorter) {
    if (sorter.dtype() != DType::Int64) {
      fail("torch.searchsorted(): sorter must be a tensor of long dtype but got dtype ",
           scalar_type_name(sorter.dtype()));
    }
    if (!std::equal(sorted.sizes().begin(), sorted.sizes().end(), sorter.sizes().begin(), sorter.sizes().end())) {
      fail(
          "torch.searchsorted(): boundary and sorter must have the same size, but got boundary "
          "tensor ",
          shape_text(sorted.sizes()), "and got sorter tensor ", shape_text(sorter.sizes()));
    }
  }
};
WEFT_OP(Searchsorted);

struct Bucketize {
  static constexpr Schema schema{
      "bucketize(Tensor|Scalar self, Tensor boundaries, *, bool out_int32=False, bool right=False) "
      "-> Tensor"};
  static constexpr uint32_t traits = kNeverDifferentiable | kExactOut;
  bool out_int32, right;

  void infer(Inputs in, Meta* out) const {
    check_real("bucketize", in[0], in[1]);
    if (in[1].ndim() != 1) fail("boundaries tensor must be 1 dimension, but got dim(", in[1].ndim(), ")");
    out->set(out_int32 ? DType::Int32 : DType::Int64, in[1]->device, in[0].sizes());
  }
  void run(Inputs in, Tensor* out) const { search(in[1], in[0], right, Tensor(), out[0]); }
};
WEFT_OP(Bucketize);

struct Bincount {
  static constexpr Schema schema{"bincount(Tensor self, Tensor? weights=None, int minlength=0) -> Tensor"};
  static constexpr uint32_t traits = kForcesValues | kNeverDifferentiable;
  int64_t minlength;

  void infer(Inputs in, Meta* out) const {
    const Tensor &x = in[0], &weights = in[1];
    if (minlength < 0) fail("minlength should be >= 0");
    const bool counts = is_integral(x.dtype()) && x.dtype() != DType::Bool;
    if (!counts)
      fail(ErrorKind::NotImplemented, "\"bincount_cpu\" not implemented for '", scalar_type_name(x.dtype()), "'");
    if (x.ndim() != 1) fail("bincount only supports 1-d non-negative integral inputs.");
    if (weights && (weights.ndim() != 1 || weights.numel() != x.numel())) {
      fail("weights should be 1-d and have the same length as input");
    }
    ensure_value(x.get());
    int64_t bins = minlength;
    if (x.numel() > 0) {
      const Tensor wide = cast_plain(x, DType::Int64);
      const cpu::IndexRange range = cpu::index_range(Layout(wide));
      if (range.smallest < 0) fail("bincount only supports 1-d non-negative integral inputs.");
      if (range.largest == INT64_MAX) fail("maximum value of input overflowed, it should be < ", INT64_MAX);
      bins = std::max(bins, range.largest + 1);
    }
    out->dtype = !weights ? DType::Int64 : weights.dtype() == DType::Float32 ? DType::Float32 : DType::Float64;
    out->device = x->device;
    out->ndim = 1;
    out->sizes[0] = bins;
  }
  void run(Inputs in, Tensor* out) const {
    const Tensor wide = cast_plain(in[0], DType::Int64);
    const Layout x(wide);
    if (!in[1]) return cpu::bincount(x, nullptr, DType::Int64, out[0].numel(), out[0]->data);
    const Tensor amounts = cast_plain(in[1], out[0].dtype());
    const Layout layout(amounts);
    const cpu::Strided weights = layout;
    cpu::bincount(x, &weights, out[0].dtype(), out[0].numel(), out[0]->data);
  }
};
WEFT_OP(Bincount);

}  // namespace weft
