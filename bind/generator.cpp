// weft.Generator.
#include <nanobind/nanobind.h>

#include "bind/object.h"
#include "core/graph/generator.h"

namespace nb = nanobind;

namespace weft::bind {
namespace {

constexpr int64_t kStateBytes = 2 * sizeof(uint64_t);  // seed, offset

// As PyTorch takes it: any int64 or uint64; a negative seed stands for its bits.
uint64_t seed_from(nb::handle o) {
  if (!PyLong_Check(o.ptr()) || PyBool_Check(o.ptr())) {
    fail("manual_seed expected a long, but got ", Py_TYPE(o.ptr())->tp_name);
  }
  int overflow;
  const long long value = PyLong_AsLongLongAndOverflow(o.ptr(), &overflow);
  if (overflow == 0) return static_cast<uint64_t>(value);
  const unsigned long long large = overflow > 0 ? PyLong_AsUnsignedLongLong(o.ptr()) : 0;
  if (overflow < 0 || PyErr_Occurred()) {
    PyErr_Clear();
    fail(ErrorKind::Value, "Overflow when unpacking long long: a seed lies between -2**63 and 2**64 - 1");
  }
  return large;
}

Tensor state_of(const Generator& g) {
  Tensor state = empty(Dims{kStateBytes}, DType::UInt8);
  std::memcpy(state->data, &g.seed, sizeof g.seed);
  std::memcpy(state->data + sizeof g.seed, &g.offset, sizeof g.offset);
  return state;
}

void set_state(Generator& g, PyObject* o) {
  if (!is_tensor(o)) fail(ErrorKind::Type, "expected a torch.ByteTensor, but got ", Py_TYPE(o)->tp_name);
  TensorImpl* t = impl_of(o);
  ensure_value(t);
  if (t->dtype != DType::UInt8 || !t->is_contiguous()) fail(ErrorKind::Type, "RNG state must be a torch.ByteTensor");
  if (t->numel != kStateBytes) {
    fail("Expected a generator state of ", kStateBytes, " bytes, but found the input RNG state size to be ", t->numel);
  }
  std::memcpy(&g.seed, t->data, sizeof g.seed);
  std::memcpy(&g.offset, t->data + sizeof g.seed, sizeof g.offset);
}

// Runs `body`, whose errors become Python's.
template <class Body>
nb::object answer(Body&& body) {
  PyObject* result = guarded([&]() -> PyObject* { return body(); });
  if (!result) throw nb::python_error();
  return nb::steal(result);
}

nb::object device_of(nb::handle) { return nb::steal(device_object(Device{})); }

}  // namespace

Generator* generator_from(PyObject* o) {
  Generator* g = nullptr;
  return nb::try_cast<Generator*>(nb::handle(o), g) ? g : nullptr;
}

void init_generator(nb::module_& m) {
  nb::class_<Generator>(m, "Generator", "A stream of random numbers: a seed, and how much of the stream has been used.")
      .def(
          "__init__",
          [](Generator* self, nb::object device) {
            new (self) Generator;
            Device where;
            if (!device_from(device.ptr(), &where)) throw nb::python_error();
            answer([&] {
              check_device(where);
              Py_RETURN_NONE;
            });
          },
          nb::arg("device") = "cpu")
      .def(
          "manual_seed",
          [](nb::handle self, nb::handle seed) {
            return answer([&] {
              nb::cast<Generator&>(self).restart(seed_from(seed));
              return self.inc_ref().ptr();
            });
          },
          nb::arg("seed"), "Restarts the stream from `seed`.")
      .def(
          "seed", [](Generator& self) { return self.reseed(); },
          "Restarts from a seed of the system's, and returns it.")
      .def(
          "initial_seed", [](const Generator& self) { return self.seed; }, "The seed the stream began with.")
      .def("get_offset", [](const Generator& self) { return self.offset; })
      .def(
          "set_offset", [](Generator& self, uint64_t offset) { self.offset = offset; }, nb::arg("offset"))
      .def(
          "get_state", [](const Generator& self) { return answer([&] { return wrap(state_of(self)); }); },
          "The state as a tensor of bytes.")
      .def(
          "set_state",
          [](Generator& self, nb::handle state) {
            answer([&] {
              set_state(self, state.ptr());
              Py_RETURN_NONE;
            });
          },
          nb::arg("new_state"))
      .def("clone_state", [](const Generator& self) { return Generator(self); })
      .def("__getstate__", [](const Generator& self) { return nb::make_tuple(self.seed, self.offset); })
      .def("__setstate__",
           [](Generator& self, const nb::tuple& state) {
             new (&self) Generator{nb::cast<uint64_t>(state[0]), nb::cast<uint64_t>(state[1])};
           })
      .def_prop_ro("device", [](nb::handle self) { return device_of(self); });
  m.attr("default_generator") = nb::cast(&default_generator(), nb::rv_policy::reference);
}

}  // namespace weft::bind
