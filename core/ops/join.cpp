// Joining tensors along a dimension, and taking them apart again.
#include <algorithm>
#include <cstring>

#include "core/kernels/cpu/indexing.h"
#include "core/ops/create.h"
#include "core/ops/shape.h"
#include "core/tensor/promotion.h"

namespace weft {
namespace {

DType common_dtype(Inputs in) {
  const DType first = in[0].dtype();
  bool uniform = true;
  for (int i = 1; i < in.size(); ++i) uniform = uniform && in[i].dtype() == first;
  if (uniform) return first;
  ResultType result;
  for (int i = 0; i < in.size(); ++i) result.add(in[i].get());
  return result.get();
}

void check_present(const char* name, const TensorImpl* t, int position) {
  if (!t) fail(ErrorKind::Type, name, "(): expected Tensor as element ", position, " in argument 0, but got NoneType");
}

// Tensors of shape (0,) are skipped whatever the shape of the others: an empty list once looked so.
bool is_skipped(const TensorImpl* t) { return t->ndim == 1 && t->dims[0] == 0; }

bool all_channels_last(Inputs in, int64_t memory_format) {
  for (int i = 0; i < in.size(); ++i) {
    if (is_skipped(in[i].get())) continue;
    if (in[i]->is_contiguous() || !is_laid_out(in[i], memory_format)) return false;
  }
  return true;
}

// Copies `from` to where `window` is in a result.
void write_part(const Tensor& window, const Tensor& from) {
  if (window.dtype() != from.dtype()) return copy_into(window, from);
  const int size = item_size(from.dtype());
  int64_t to_strides[kMostDims], from_strides[kMostDims];
  for (int d = 0; d < from.ndim(); ++d) {
    to_strides[d] = window.stride(d) * size;
    from_strides[d] = from.stride(d) * size;
  }
  cpu::copy_strided(size, {window->data, window.ndim(), window.sizes().data(), to_strides},
                    {from->data, from.ndim(), from.sizes().data(), from_strides});
}

// A small result that is written part by part: each gives some bytes of every row.
class Rows {
 public:
  // A row is what the dimensions from `dim` on hold.
  Rows(const Tensor& result, int dim, int64_t row_bytes) : out_(result->data), row_bytes_(row_bytes) {
    for (int d = 0; d < dim; ++d) rows_ *= result.size(d);
  }

  void take(const Tensor& part, int64_t part_bytes) {
    const char* from = part->data;
    for (int64_t r = 0; r < rows_; ++r) std::memcpy(out_ + r * row_bytes_, from + r * part_bytes, part_bytes);
    out_ += part_bytes;
  }

 private:
  char* out_;
  int64_t row_bytes_, rows_ = 1;
};

constexpr int64_t kSmallBytes = 16 * 1024;  // below, starting the general copy costs more than it saves

}  // namespace

// ---- joining ---------------------------------------------------------------------------------------

// What cat() records: `starts` says where each part begins, which backward could not tell from the
// parts that need no gradient.
struct CatParts {
  static constexpr Schema schema{"cat_parts(Tensor[] tensors, int dim, int[] starts) -> Tensor"};
  static constexpr uint32_t traits = kLinear | kInternal;
  static constexpr const char* backward_name = "CatBackward0";
  int64_t dim;
  Dims starts;

  void infer(Inputs in, Meta* out) const {
    if (in.size() == 0) fail(ErrorKind::Value, "torch.cat(): expected a non-empty list of Tensors");
    const TensorImpl* model = nullptr;
    int64_t at = 0, total = 0;
    for (int i = 0; i < in.size(); ++i) {
      const TensorImpl* t = in[i].get();
      check_present("cat", t, i);
      if (t->ndim == 0) fail("zero-dimensional tensor (at position ", i, ") cannot be concatenated");
      if (is_skipped(t)) continue;
      if (!model) {
        model = t;
        at = wrap_dim(dim, t->ndim);
      } else if (t->ndim != model->ndim) {
        fail("Tensors must have same number of dimensions: got ", int{model->ndim}, " and ", int{t->ndim});
      }
      for (int d = 0; d < t->ndim; ++d) {
        if (d == at || t->dims[d] == model->dims[d]) continue;
        fail("Sizes of tensors must match except in dimension ", at, ". Expected size ", model->dims[d],
             " but got size ", t->dims[d], " for tensor number ", i, " in the list.");
      }
      total += t->dims[at];
    }
    if (!model) {  // all are skipped
      model = in[0].get();
      at = wrap_dim(dim, 1);
    }
    out->set(common_dtype(in), model->device, model->sizes());
    out->sizes[at] = total;
    if (out->ndim == 4 && all_channels_last(in, kChannelsLast)) lay_out(out, kChannelsLast, Tensor());
    if (out->ndim == 5 && all_channels_last(in, kChannelsLast3d)) lay_out(out, kChannelsLast3d, Tensor());
  }
  void run(Inputs in, Tensor* out) const {
    const Tensor& result = out[0];
    if (result.numel() == 0) return;
    const int at = static_cast<int>(wrap_dim(dim, result.ndim()));
    const int64_t size = item_size(result.dtype());
    bool small = result->is_contiguous() && result.numel() * size <= kSmallBytes;
    for (int i = 0; i < in.size() && small; ++i) small = in[i]->is_contiguous() && in[i].dtype() == result.dtype();
    if (small) {
      const int64_t inner_bytes = result.stride(at) * size;
      Rows rows(result, at, result.size(at) * inner_bytes);
      for (int i = 0; i < in.size(); ++i)
        if (in[i].numel() > 0) rows.take(in[i], in[i].size(at) * inner_bytes);
      return;
    }
    for (int i = 0; i < in.size(); ++i) {
      if (in[i].numel() > 0)
        write_part(alias(result, in[i].sizes(), result.strides(), starts[i] * result.stride(at)), in[i]);
    }
  }
  static void vjp(Backward& b) {
    const CatParts& op = b.op<CatParts>();
    for (int i = 0; i < b.inputs(); ++i) {
      if (!b.needs(i)) continue;
      const IntSpan sizes = b.input_sizes(i);
      if (sizes.size() != b.output_sizes().size() || sizes.empty()) {  // was skipped
        b.set(i, zeros(sizes, b.input_dtype(i)));
        continue;
      }
      const int64_t length = sizes[static_cast<size_t>(wrap_dim(op.dim, static_cast<int64_t>(sizes.size())))];
      b.set(i, slice(b.grad(), op.dim, op.starts[i], op.starts[i] + length, 1));
    }
  }
};
WEFT_OP(CatParts);

struct Cat {
  static constexpr Schema schema{"cat(Tensor[] tensors, int dim=0) -> Tensor"};
  static constexpr const char* backward_name = "CatBackward0";
  int64_t dim;

  // The contract is that of CatParts: what it refuses is only passed over here.
  Tensor compose(Inputs in) const {
    CatParts parts{dim, Dims()};
    parts.starts.resize(in.size());
    int64_t start = 0;
    for (int i = 0; i < in.size(); ++i) {
      parts.starts[i] = start;
      if (!in[i] || is_skipped(in[i].get())) continue;
      const int64_t at = dim < 0 ? dim + in[i].ndim() : dim;
      if (at >= 0 && at < in[i].ndim()) start += in[i].size(static_cast<int>(at));
    }
    Tensor out[1];
    apply(op_CatParts, &parts, in, out);
    return std::move(out[0]);
  }
};
WEFT_OP(Cat);
WEFT_OP_ALIAS(Concat, Cat, "concat(Tensor[] tensors, int dim=0) -> Tensor");
WEFT_OP_ALIAS(Concatenate, Cat, "concatenate(Tensor[] tensors, int dim=0) -> Tensor");

struct Stack {
  static constexpr Schema schema{"stack(Tensor[] tensors, int dim=0) -> Tensor"};
  static constexpr uint32_t traits = kLinear;
  int64_t dim;

  void infer(Inputs in, Meta* out) const {
    if (in.size() == 0) fail("stack expects a non-empty TensorList");
    for (int i = 0; i < in.size(); ++i) check_present("stack", in[i].get(), i);
    const Tensor& model = in[0];
    const int64_t at = wrap_dim(dim, model.ndim() + 1);
    for (int i = 1; i < in.size(); ++i) {
      if (!std::equal(model.sizes().begin(), model.sizes().end(), in[i].sizes().begin(), in[i].sizes().end())) {
        fail("stack expects each tensor to be equal size, but got ", shape_text(model.sizes()), " at entry 0 and ",
             shape_text(in[i].sizes()), " at entry ", i);
      }
    }
    if (model.ndim() == kMostDims) fail("stack: a tensor can have at most ", kMostDims, " dimensions");
    out->set(common_dtype(in), model->device, model.sizes());
    std::copy_backward(out->sizes + at, out->sizes + out->ndim, out->sizes + out->ndim + 1);
    out->sizes[at] = in.size();
    ++out->ndim;
  }
  void run(Inputs in, Tensor* out) const {
    const Tensor& result = out[0];
    if (result.numel() == 0) return;
    const int at = static_cast<int>(wrap_dim(dim, result.ndim()));
    const int64_t size = item_size(result.dtype());
    bool small = result.numel() * size <= kSmallBytes;
    for (int i = 0; i < in.size() && small; ++i) small = in[i]->is_contiguous() && in[i].dtype() == result.dtype();
    if (small) {
      const int64_t inner_bytes = result.stride(at) * size;
      Rows rows(result, at, result.size(at) * inner_bytes);
      for (int i = 0; i < in.size(); ++i) rows.take(in[i], inner_bytes);
      return;
    }
    int64_t strides[kMostDims];
    for (int d = 0; d < in[0].ndim(); ++d) strides[d] = result.stride(d < at ? d : d + 1);
    for (int i = 0; i < in.size(); ++i) {
      write_part(alias(result, in[i].sizes(), {strides, static_cast<size_t>(in[i].ndim())}, i * result.stride(at)),
                 in[i]);
    }
  }
  static void vjp(Backward& b) {
    for (int i = 0; i < b.inputs(); ++i)
      if (b.needs(i)) b.set(i, select(b.grad(), b.op<Stack>().dim, i));
  }
};
WEFT_OP(Stack);

namespace {

template <class Op>
Tensor call_on_list(const OpTable& table, const Op& op, const std::vector<Tensor>& tensors) {
  std::vector<TensorImpl*> items(tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) items[i] = tensors[i].get();
  Tensor out[1];
  apply(table, &op, Inputs(items.data(), static_cast<int>(items.size())), out);
  return std::move(out[0]);
}

}  // namespace

Tensor cat(const std::vector<Tensor>& tensors, int64_t dim) { return call_on_list(op_Cat, Cat{dim}, tensors); }
Tensor stack(const std::vector<Tensor>& tensors, int64_t dim) { return call_on_list(op_Stack, Stack{dim}, tensors); }

// ---- taking apart ----------------------------------------------------------------------------------
//
// Note [Several views of one tensor]
// split(), chunk() and unbind() make one view after the other, each with a node of its own; in backward
// each adds into its part of the one gradient, so the cost stays that of one pass. PyTorch has one node
// for all views, and therefore refuses to write into one of them under autograd; so does weft.

namespace {

// chunk() and split() into pieces of one size, the last one shorter.
void split_evenly(const Tensor& a, int64_t piece, int64_t dim, std::vector<Tensor>& out) {
  const int64_t at = wrap_dim(dim, a.ndim()), size = a.size(static_cast<int>(at));
  const int64_t pieces = piece == 0 ? 1 : std::max<int64_t>(1, (size - 1) / piece + 1);
  out.reserve(static_cast<size_t>(pieces));
  for (int64_t i = 0; i < pieces; ++i) {
    const int64_t start = i * piece;
    out.push_back(split_part(a, at, start, std::min(piece, size - start), false));
  }
}

}  // namespace

struct Split {
  static constexpr Schema schema{"split(Tensor self, int split_size, int dim=0) -> Tensor[]"};
  int64_t split_size, dim;

  void compose_list(Inputs in, std::vector<Tensor>& out) const {
    const Tensor& a = in[0];
    if (a.ndim() == 0) fail("split expects at least a 1-dimensional tensor");
    if (split_size < 0) fail("split expects split_size be non-negative, but got split_size=", split_size);
    const int64_t size = a.size(static_cast<int>(wrap_dim(dim, a.ndim())));
    if (split_size == 0 && size != 0) {
      fail("split_size can only be 0 if dimension size is 0, but got dimension size of ", size);
    }
    split_evenly(a, split_size, dim, out);
  }
};
WEFT_OP(Split);

struct SplitWithSizes {
  static constexpr Schema schema{"split_with_sizes(Tensor self, int[] split_sizes, int dim=0) -> Tensor[]"};
  Dims split_sizes;
  int64_t dim;

  void compose_list(Inputs in, std::vector<Tensor>& out) const {
    const Tensor& a = in[0];
    if (a.ndim() == 0) fail("split_with_sizes expects at least a 1-dimensional tensor");
    const int64_t at = wrap_dim(dim, a.ndim()), size = a.size(static_cast<int>(at));
    int64_t total = 0;
    for (int64_t s : split_sizes) {
      if (s < 0) {
        fail("split_with_sizes expects split_sizes have only non-negative entries, but got split_sizes=",
             shape_text(split_sizes));
      }
      if (__builtin_add_overflow(total, s, &total)) total = -1;
      if (total < 0) break;
    }
    if (total != size) {
      fail("split_with_sizes expects split_sizes to sum exactly to ", size, " (input tensor's size at dimension ", at,
           "), but got split_sizes=", shape_text(split_sizes));
    }
    out.reserve(static_cast<size_t>(split_sizes.size()));
    int64_t start = 0;
    for (int64_t s : split_sizes) {
      out.push_back(split_part(a, at, start, s, true));
      start += s;
    }
  }
};
WEFT_OP(SplitWithSizes);

struct SplitSizes {
  static constexpr Schema schema{"split.sizes(Tensor self, int[] split_size, int dim=0) -> Tensor[]"};
  Dims split_size;
  int64_t dim;

  void compose_list(Inputs in, std::vector<Tensor>& out) const {
    SplitWithSizes{split_size, dim}.compose_list(in, out);
  }
};
WEFT_OP(SplitSizes);
// weft.split() calls its parameters by other names than Tensor.split().
WEFT_OP_ALIAS(SplitOf, Split, "split.of(Tensor tensor, int split_size_or_sections, int dim=0) -> Tensor[]");
WEFT_OP_ALIAS(SplitSizesOf, SplitSizes,
              "split.sizes_of(Tensor tensor, int[] split_size_or_sections, int dim=0) -> Tensor[]");

struct Chunk {
  static constexpr Schema schema{"chunk(Tensor self, int chunks, int dim=0) -> Tensor[]"};
  int64_t chunks, dim;

  void compose_list(Inputs in, std::vector<Tensor>& out) const {
    const Tensor& a = in[0];
    if (a.ndim() == 0) fail("chunk expects at least a 1-dimensional tensor");
    if (chunks <= 0) fail("chunk expects `chunks` to be greater than 0, got: ", chunks);
    const int64_t size = a.size(static_cast<int>(wrap_dim(dim, a.ndim())));
    if (size == 0) {  // as many empty pieces as were asked for
      if (chunks > (int64_t{1} << 20))
        fail("chunk: ", chunks, " pieces of an empty dimension are more than can be made");
      for (int64_t i = 0; i < chunks; ++i) out.push_back(split_part(a, dim, 0, 0, true));
      return;
    }
    split_evenly(a, size / chunks + (size % chunks != 0), dim, out);
  }
};
WEFT_OP(Chunk);

struct Unbind {
  static constexpr Schema schema{"unbind(Tensor self, int dim=0) -> Tensor[]"};
  int64_t dim;

  void compose_list(Inputs in, std::vector<Tensor>& out) const {
    const Tensor& a = in[0];
    if (a.ndim() == 0) fail(ErrorKind::Index, "Dimension specified as ", dim, " but tensor has no dimensions");
    const int64_t at = wrap_dim(dim, a.ndim()), size = a.size(static_cast<int>(at));
    out.reserve(static_cast<size_t>(size));
    for (int64_t i = 0; i < size; ++i) out.push_back(unbound(a, at, i));
  }
};
WEFT_OP(Unbind);

// ---- tensor_split: ordinary slices -----------------------------------------------------------------

namespace {

void check_splittable(const Tensor& a) {
  if (a.ndim() == 0) fail("tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims");
}

void split_in_sections(const Tensor& a, int64_t sections, int64_t dim, std::vector<Tensor>& out) {
  const int64_t at = wrap_dim(dim, a.ndim()), size = a.size(static_cast<int>(at));
  if (sections <= 0) fail("number of sections must be larger than 0, got ", sections);
  if (sections > std::max<int64_t>(size, 1) + (int64_t{1} << 20)) {
    fail("tensor_split: ", sections, " sections of a dimension of size ", size, " are more than can be made");
  }
  const int64_t least = size / sections, longer = size % sections;
  int64_t start = 0;
  for (int64_t i = 0; i < sections; ++i) {
    const int64_t length = least + (i < longer);
    out.push_back(slice(a, at, start, start + length, 1));
    start += length;
  }
}

void split_at(const Tensor& a, IntSpan indices, int64_t dim, std::vector<Tensor>& out) {
  const int64_t at = wrap_dim(dim, a.ndim()), size = a.size(static_cast<int>(at));
  int64_t start = 0;
  for (int64_t end : indices) {
    out.push_back(slice(a, at, start, end, 1));
    start = end;
  }
  out.push_back(slice(a, at, start, size, 1));
}

}  // namespace

struct TensorSplitSections {
  static constexpr Schema schema{"tensor_split(Tensor self, int sections, int dim=0) -> Tensor[]"};
  int64_t sections, dim;

  void compose_list(Inputs in, std::vector<Tensor>& out) const {
    check_splittable(in[0]);
    split_in_sections(in[0], sections, dim, out);
  }
};
WEFT_OP(TensorSplitSections);

struct TensorSplitIndices {
  static constexpr Schema schema{"tensor_split.indices(Tensor self, int[] indices, int dim=0) -> Tensor[]"};
  Dims indices;
  int64_t dim;

  void compose_list(Inputs in, std::vector<Tensor>& out) const {
    check_splittable(in[0]);
    split_at(in[0], indices, dim, out);
  }
};
WEFT_OP(TensorSplitIndices);

struct TensorSplitTensor {
  static constexpr Schema schema{
      "tensor_split.tensor(Tensor self, Tensor tensor_indices_or_sections, int dim=0) -> Tensor[]"};
  int64_t dim;

  void compose_list(Inputs in, std::vector<Tensor>& out) const {
    check_splittable(in[0]);
    const Tensor& where = in[1];
    if (where.dtype() != DType::Int64) {
      fail("tensor_split expected tensor_indices_or_sections to have dtype of long, but got ",
           dtype_name(where.dtype()));
    }
    if (where.ndim() > 1) {
      fail(
          "tensor_split expected tensor_indices_or_sections to be a zero-dimensional or one-dimensional tensor, but "
          "got a "
          "tensor with ",
          where.ndim(), " dims");
    }
    const Tensor values = contiguous(where);
    ensure_value(values.get());
    if (where.ndim() == 0) return split_in_sections(in[0], *values.data<int64_t>(), dim, out);
    split_at(in[0], {values.data<int64_t>(), static_cast<size_t>(values.numel())}, dim, out);
  }
};
WEFT_OP(TensorSplitTensor);

}  // namespace weft
