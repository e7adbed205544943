// Other ways to ask for a view or a reshape: names that say what is meant.
#include <algorithm>

#include "core/ops/shape.h"

namespace weft {

struct Flatten {
  static constexpr Schema schema{"flatten(Tensor self, int start_dim=0, int end_dim=-1) -> Tensor"};
  static constexpr const char* backward_name = "ViewBackward0";
  int64_t start_dim, end_dim;

  Tensor compose(Inputs in) const {
    const Tensor& a = in[0];
    const int64_t first = wrap_dim(start_dim, a.ndim()), last = wrap_dim(end_dim, a.ndim());
    if (first > last) fail("flatten() has invalid args: start_dim cannot come after end_dim");
    if (a.ndim() == 0) return reshape(a, Dims{1});
    if (first == last) return a;
    int64_t together = 1;
    for (int64_t d = first; d <= last; ++d) together *= a.size(static_cast<int>(d));
    Dims sizes;
    for (int64_t d = 0; d < a.ndim(); ++d) {
      if (d == first) sizes.push_back(together);
      else if (d < first || d > last) sizes.push_back(a.size(static_cast<int>(d)));
    }
    return reshape(a, sizes);
  }
};
WEFT_OP(Flatten);

struct Unflatten {
  static constexpr Schema schema{"unflatten(Tensor self, int dim, int[] sizes) -> Tensor"};
  static constexpr const char* backward_name = "ViewBackward0";
  int64_t dim;
  Dims sizes;

  Tensor compose(Inputs in) const {
    const Tensor& a = in[0];
    const int64_t at = wrap_dim(dim, a.ndim());
    if (sizes.empty()) fail("unflatten: sizes must be non-empty");
    const int64_t size = a.ndim() == 0 ? 1 : a.size(static_cast<int>(at));
    int64_t known = 1;
    int inferred = -1;
    bool fits = true;
    for (int i = 0; i < sizes.size(); ++i) {
      if (sizes[i] == -1) {
        if (inferred >= 0) fail("only one dimension can be inferred");
        inferred = i;
      } else if (sizes[i] < 0 || __builtin_mul_overflow(known, sizes[i], &known)) {
        fits = false;
      }
    }
    if (fits && inferred >= 0) fits = known > 0 && size % known == 0;
    else fits = fits && known == size;
    if (!fits) {
      fail("unflatten: Provided sizes ", shape_text(sizes), " don't multiply up to the size of dim ", at, " (", size,
           ") in the input tensor");
    }
    Dims shape;
    for (int64_t d = 0; d < at; ++d) shape.push_back(a.size(static_cast<int>(d)));
    for (int i = 0; i < sizes.size(); ++i) shape.push_back(i == inferred ? size / known : sizes[i]);
    for (int64_t d = at + 1; d < a.ndim(); ++d) shape.push_back(a.size(static_cast<int>(d)));
    return view(a, shape);
  }
};
WEFT_OP(Unflatten);

struct Ravel {
  static constexpr Schema schema{"ravel(Tensor self) -> Tensor"};
  static constexpr const char* backward_name = "ViewBackward0";

  Tensor compose(Inputs in) const { return view(contiguous(in[0]), Dims{in[0].numel()}); }
};
WEFT_OP(Ravel);

struct Movedim {
  static constexpr Schema schema{"movedim(Tensor self, int[] source, int[] destination) -> Tensor"};
  static constexpr const char* backward_name = "PermuteBackward0";
  Dims source, destination;

  Tensor compose(Inputs in) const {
    const Tensor& a = in[0];
    if (source.size() != destination.size()) {
      fail("movedim: Invalid source or destination dims: source (", shape_text(source),
           " dims) should contain the same number of dims as destination (", shape_text(destination), " dims)");
    }
    Dims order;
    order.resize(a.ndim());
    std::fill_n(order.data(), a.ndim(), -1);
    bool taken[kMostDims] = {};
    for (int i = 0; i < source.size(); ++i) {
      const int64_t from = wrap_dim(source[i], a.ndim()), to = wrap_dim(destination[i], a.ndim());
      if (taken[from]) fail("movedim: repeated dim in `source` (", shape_text(source), ")");
      taken[from] = true;
      if (a.ndim() == 0) continue;
      if (order[static_cast<int>(to)] >= 0)
        fail("movedim: repeated dim in `destination` (", shape_text(destination), ")");
      order[static_cast<int>(to)] = from;
    }
    if (a.ndim() == 0) return view_of_all(a);
    // The dimensions that were not named keep their order in the places that are left.
    int next = 0;
    for (int d = 0; d < a.ndim(); ++d) {
      if (order[d] >= 0) continue;
      while (taken[next]) ++next;
      order[d] = next++;
    }
    return permute(a, order);
  }
};
WEFT_OP(Movedim);
WEFT_OP_ALIAS(Moveaxis, Movedim, "moveaxis(Tensor self, int[] source, int[] destination) -> Tensor");

struct Adjoint {
  static constexpr Schema schema{"adjoint(Tensor self) -> Tensor"};
  static constexpr const char* backward_name = "TransposeBackward0";

  Tensor compose(Inputs in) const {
    if (in[0].ndim() == 0) return view_of_all(in[0]);
    if (in[0].ndim() == 1)
      fail("tensor.adjoint() is only supported on matrices or batches of matrices. Got 1-D tensor.");
    return transpose(in[0], -2, -1);
  }
};
WEFT_OP(Adjoint);

// ---- to the shape of another tensor ----------------------------------------------------------------

struct ViewAs {
  static constexpr Schema schema{"view_as(Tensor self, Tensor other) -> Tensor"};
  static constexpr const char* backward_name = "ViewBackward0";

  Tensor compose(Inputs in) const { return view(in[0], in[1].sizes()); }
};
WEFT_OP(ViewAs);

struct ReshapeAs {
  static constexpr Schema schema{"reshape_as(Tensor self, Tensor other) -> Tensor"};
  static constexpr const char* backward_name = "ViewBackward0";

  Tensor compose(Inputs in) const { return reshape(in[0], in[1].sizes()); }
};
WEFT_OP(ReshapeAs);

struct ExpandAs {
  static constexpr Schema schema{"expand_as(Tensor self, Tensor other) -> Tensor"};
  static constexpr const char* backward_name = "ExpandBackward0";

  Tensor compose(Inputs in) const { return expand(in[0], in[1].sizes()); }
};
WEFT_OP(ExpandAs);

struct BroadcastTo {
  static constexpr Schema schema{"broadcast_to(Tensor self, int[] size) -> Tensor"};
  static constexpr const char* backward_name = "ExpandBackward0";
  Dims size;

  Tensor compose(Inputs in) const { return expand(in[0], size); }
};
WEFT_OP(BroadcastTo);

}  // namespace weft
