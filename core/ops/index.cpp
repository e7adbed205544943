// Reading and writing by index tensors.
#include "core/ops/functions.h"

namespace weft {

Tensor index(const Tensor&, const std::vector<Tensor>&) { fail(ErrorKind::NotImplemented, "index"); }
void index_put_into(const Tensor&, const std::vector<Tensor>&, const Tensor&) { fail(ErrorKind::NotImplemented, "index_put"); }

}  // namespace weft
