// The extension module weft._core.
#include <nanobind/nanobind.h>

#include <cstdlib>
#include <string>

#include "bind/object.h"
#include "core/kernels/cpu/gemm.h"
#include "core/kernels/cpu/isa.h"
#include "core/kernels/cpu/threads.h"
#include "core/tensor/promotion.h"

namespace nb = nanobind;

namespace weft::bind {

void init_generator(nb::module_& m);
bool init_optimisers(PyObject* module);
bool init_module_type(PyObject* module);

namespace {

// A misspelt or impossible WEFT_CPU would silently measure or test another build of the kernels.
void check_wanted_cpu() {
  const char* const wanted = std::getenv("WEFT_CPU");
  const std::string chosen = cpu::isa_name(cpu::chosen_isa());
  if (wanted == nullptr || chosen == wanted) return;
  throw nb::import_error(
      ("WEFT_CPU=" + std::string(wanted) + ": this processor runs baseline up to " + chosen).c_str());
}

DType checked_dtype(nb::handle o) {
  DType t;
  if (!dtype_from(o.ptr(), &t)) throw nb::type_error("expected a dtype");
  return t;
}

nb::object dtype_handle(DType t) { return nb::borrow(dtype_object(t)); }

}  // namespace
}  // namespace weft::bind

NB_MODULE(_core, m) {
  using namespace weft;
  using namespace weft::bind;
  nb::set_leak_warnings(false);
  check_wanted_cpu();
  init_sites();
  PyObject* module = m.ptr();
  if (!init_small_types(module) || !init_tensor_type(module) || !init_node_type(module) || !init_result_types(module) ||
      !init_op_functions(module) || !init_autograd(module) || !init_conversions(module) || !init_composed(module) ||
      !init_shapes(module) || !init_observer(module) || !init_doctor(module) || !init_modes(module) ||
      !init_module_type(module) || !init_optimisers(module)) {
    throw nb::python_error();
  }
  init_generator(m);
  m.def("_set_size_type", [](nb::handle type) { set_size_type(type.ptr()); });
  m.def("get_default_dtype", [] { return dtype_handle(default_dtype()); });
  m.def("_set_default_dtype", [](nb::handle t) { set_default_dtype(checked_dtype(t)); });
  m.def("promote_types",
        [](nb::handle a, nb::handle b) { return dtype_handle(promote(checked_dtype(a), checked_dtype(b))); });
  m.def("result_type", [](nb::handle a, nb::handle b) {
    DType common{};
    PyObject* done = guarded([&]() -> PyObject* {
      ResultType result;
      for (nb::handle o : {a, b}) {
        const Tensor t = is_tensor(o.ptr()) ? Tensor::share(impl_of(o.ptr())) : number_to_tensor(o.ptr());
        if (!t)
          fail(ErrorKind::Type, "result_type(): arguments must be Tensors or Numbers, not ", Py_TYPE(o.ptr())->tp_name);
        result.add(t.get());
      }
      common = result.get();
      Py_RETURN_NONE;
    });
    if (!done) throw nb::python_error();
    return dtype_handle(common);
  });
  m.def("can_cast", [](nb::handle a, nb::handle b) { return can_cast(checked_dtype(a), checked_dtype(b)); });
  m.def("get_num_threads", [] { return cpu::num_threads(); });
  m.def("_set_num_threads", [](int n) { cpu::set_num_threads(n); });
  m.def("cpu_capability", [] { return cpu::isa_name(cpu::chosen_isa()); });
  m.def("describe_products", [] { return cpu::describe_products(); });
}
