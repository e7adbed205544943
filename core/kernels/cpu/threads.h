// One pool of threads for all kernels, started on first use.
#pragma once

#include <cstdint>

namespace weft::cpu {

int num_threads();
void set_num_threads(int n);  // n >= 1

// Calls body(context, piece) for every piece in [0, pieces), on the caller and on the pool. How work is
// cut into pieces must depend on the problem's size only, never on num_threads(): that is what gives the
// same bits for any number of threads. Nested calls and calls in a forked child run on the caller.
void run_pieces(int64_t pieces, void (*body)(void* context, int64_t piece), void* context);

template <class Body>
inline void parallel(int64_t pieces, Body&& body) {
  if (pieces == 1) return body(int64_t{0});
  run_pieces(
      pieces, [](void* context, int64_t piece) { (*static_cast<Body*>(context))(piece); },
      const_cast<void*>(static_cast<const void*>(&body)));
}

}  // namespace weft::cpu
