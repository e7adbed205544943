"""The update rules compile with NVRTC, and on a GPU give the CPU's bits."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from ._target import submodule, weft, weft_only
from .kernels.math import device_kernels

optim = submodule("optim")
pytestmark = [
    weft_only,
    pytest.mark.skipif(device_kernels.nvrtc_library() is None, reason="no NVRTC"),
]

# One kernel for all rules: two steps from a[i], with the gradients b[i] and c[i].
SOURCE = """
#include "core/math/optimiser.h"

using namespace weft;
using namespace weft::math::update;
using Number = TypeOf<DTYPE>::type;

struct Beginning { double numbers[8], scalars[kMostScalars], states[kMostStates]; };

template <class Rule>
__device__ Number two_steps(const Beginning& beginning, Number a, Number b, Number c) {
  Rule rule;
  double* fields = reinterpret_cast<double*>(&rule);
  for (int k = 0; k < static_cast<int>(sizeof(Rule) / sizeof(double)); ++k)
    fields[k] = beginning.numbers[k];
  Scalars scalars{};
  scalars.single = scalars.fresh = true;
  Number state[kMostStates];
  for (int k = 0; k < kMostScalars; ++k) scalars.set(k, beginning.scalars[k]);
  for (int k = 0; k < kMostStates; ++k) state[k] = static_cast<Number>(beginning.states[k]);
  rule.begin(scalars)(a, b, state);
  scalars.fresh = false;
  rule.begin(scalars)(a, c, state);
  return a;
}

enum {
#define ENUMERATOR(name, Rule) rule_##name,
  WEFT_UPDATE_RULES(ENUMERATOR)
};

extern "C" __global__ void update(int which, const Beginning* beginning, int n, const Number* a,
                                  const Number* b, const Number* c, void* out) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i >= n) return;
  Number* result = static_cast<Number*>(out);
  switch (which) {
#define CASE(name, Rule) \\
    case rule_##name: result[i] = two_steps<Rule>(*beginning, a[i], b[i], c[i]); break;
    WEFT_UPDATE_RULES(CASE)
  }
}
"""

# By rule, in the order of the list: the optimiser, its options, the numbers kept and the states at
# the beginning.
RULES: tuple[tuple[str, dict[str, Any], tuple[float, ...], tuple[float, ...]], ...] = (
    ("SGD", {"lr": 0.1, "weight_decay": 0.2}, (), ()),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True}, (), ()),
    ("Adam", {"lr": 0.1, "weight_decay": 0.2}, (0,), ()),
    ("Adam", {"lr": 0.1, "amsgrad": True}, (0,), ()),
    ("NAdam", {"lr": 0.1}, (0, 1), ()),
    ("RAdam", {"lr": 0.1}, (0,), ()),
    ("Adamax", {"lr": 0.1}, (0,), ()),
    ("RMSprop", {"lr": 0.1}, (0,), ()),
    ("RMSprop", {"lr": 0.1, "centered": True}, (0,), ()),
    ("RMSprop", {"lr": 0.1, "momentum": 0.5}, (0,), ()),
    ("RMSprop", {"lr": 0.1, "momentum": 0.5, "centered": True}, (0,), ()),
    ("Adagrad", {"lr": 0.1, "initial_accumulator_value": 0.5}, (0,), (0.5,)),
    ("Adadelta", {}, (0,), ()),
    ("ASGD", {"lr": 0.1, "t0": 1}, (0, 0.1, 1), ()),
    ("Rprop", {"lr": 0.1}, (0,), (0, 0.1)),
)


@pytest.fixture(autouse=True)
def our_source(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_kernels, "SOURCE", SOURCE)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_every_rule_compiles(dtype: str) -> None:
    assert len(device_kernels.compile_for_device(dtype)) > 1000


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_device_gives_the_same_bits(dtype: str) -> None:
    test_device = pytest.importorskip("tests.kernels.math.test_device")
    gpu = test_device.device()
    if gpu is None:
        pytest.skip("no CUDA device")
    import numpy as np

    start, first, second = (
        np.random.default_rng(seed).normal(size=5000).astype(dtype) for seed in range(3)
    )
    for index, (name, options, scalars, states) in enumerate(RULES):
        param = weft.from_numpy(start.copy())
        optimizer = getattr(optim, name)([param], **options)
        _, numbers = optimizer._rule(optimizer.param_groups[0])
        for grad in (first, second):
            param.grad = weft.from_numpy(grad.copy())
            optimizer.step()
        fields = [
            *(float(number) for number in numbers), *[0.0] * (8 - len(numbers)),
            *scalars, *[0.0] * (3 - len(scalars)),
            *states, *[0.0] * (3 - len(states)),
        ]  # fmt: skip
        beginning = gpu.upload(struct.pack("14d", *fields))
        head = [test_device.ctypes.c_int(index), beginning]
        found = gpu.run(dtype, "update", head, [start, first, second], np.empty_like(start))
        assert np.array_equal(found, param.numpy()), name
