"""Random numbers: published vectors, the same bits everywhere, and the right distributions."""

from __future__ import annotations

import math

import numpy as np
import pytest

from .kernels import DISTRIBUTIONS, Kernels, all_kernels, best, bits

PARAMETERS = {
    "uniform": (-1.0, 3.0),
    "normal": (2.0, 3.0),
    "log_normal": (0.5, 0.25),
    "exponential": (1.5, 0.0),
    "cauchy": (1.0, 2.0),
    "geometric": (0.3, 0.0),
    "bernoulli": (0.3, 0.0),
    "permutation": (0.0, 0.0),
}


def philox(key: tuple[int, int], counter: tuple[int, int, int, int]) -> list[int]:
    """Philox4x32-10 in plain integers."""
    c, k = list(counter), list(key)
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [p1 >> 32 ^ c[1] ^ k[0], p1 & 0xFFFFFFFF, p0 >> 32 ^ c[3] ^ k[1], p0 & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c


def test_philox() -> None:
    # The known answer for an all-zero counter and key (Random123's kat_vectors).
    assert philox((0, 0), (0, 0, 0, 0)) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
    for seed, counter in [(0, 0), (1, 2), (0x123456789ABCDEF, 2**40 + 7), (2**64 - 1, 2**64 - 1)]:
        expected = philox((seed % 2**32, seed >> 32), (counter % 2**32, counter >> 32, 0, 0))
        assert best().philox(seed, counter) == expected


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("what", DISTRIBUTIONS)
def test_same_bits_everywhere(what: str, dtype: type) -> None:
    found = set()
    for kernels in all_kernels():
        for threads in (1, 2, 8):
            kernels.threads(threads)
            for n in (100003,) if threads != 1 else (100003, 100003):
                found.add(bits(kernels.fill(what, n, dtype, *PARAMETERS[what])[0]))
    assert len(found) == 1


@pytest.mark.parametrize("what", DISTRIBUTIONS[:-1])
def test_elements_do_not_depend_on_the_length(what: str) -> None:
    long, _ = best().fill(what, 5000, np.float32, *PARAMETERS[what])
    for n in (1, 2, 3, 5, 1023, 1025):
        short, _ = best().fill(what, n, np.float32, *PARAMETERS[what])
        assert bits(short) == bits(long[:n])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_next_call_goes_on_where_this_one_ended(dtype: type) -> None:
    whole, steps = best().fill("uniform", 4096, dtype)
    first, used = best().fill("uniform", 1024, dtype)
    second, more = best().fill("uniform", 3072, dtype, offset=used)
    assert bits(np.concatenate([first, second])) == bits(whole) and used + more == steps


def test_words_of_the_stream() -> None:
    floats, steps = best().fill("uniform", 6, np.float32, seed=7, offset=3)
    words = best().philox(7, 3) + best().philox(7, 4)
    assert steps == 2 and floats.tolist() == [(w >> 8) / 2**24 for w in words[:6]]
    doubles, steps = best().fill("uniform", 3, np.float64, seed=7, offset=3)
    wide = [(words[2 * i] << 32 | words[2 * i + 1]) >> 11 for i in range(3)]
    assert steps == 2 and doubles.tolist() == [w / 2**53 for w in wide]


def moments(x: np.ndarray) -> tuple[float, float]:
    wide = x.astype(np.float64)
    return float(wide.mean()), float(wide.std())


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_distributions(dtype: type) -> None:
    n = 1 << 20
    near = 8 / math.sqrt(n)  # eight standard errors of a unit variable, about
    fill = best().fill
    x, _ = fill("uniform", n, dtype, -1, 3)
    assert x.min() >= -1 and x.max() < 3
    assert moments(x) == pytest.approx((1, 4 / math.sqrt(12)), abs=4 * near)
    x, _ = fill("normal", n, dtype, 2, 3)
    assert moments(x) == pytest.approx((2, 3), abs=3 * near)
    standard = (x.astype(np.float64) - 2) / 3
    assert np.mean(standard**3) == pytest.approx(0, abs=0.02)
    assert np.mean(standard**4) == pytest.approx(3, abs=0.06)
    assert abs(np.corrcoef(standard[::2], standard[1::2])[0, 1]) < near
    x, _ = fill("exponential", n, dtype, 1.5)
    assert x.min() >= 0 and moments(x) == pytest.approx((1 / 1.5, 1 / 1.5), abs=near)
    x, _ = fill("log_normal", n, dtype, 0.5, 0.25)
    assert moments(np.log(x)) == pytest.approx((0.5, 0.25), abs=near)
    x, _ = fill("cauchy", n, dtype, 1, 2)
    assert np.percentile(x, [25, 50, 75]) == pytest.approx([-1, 1, 3], abs=0.03)
    x, _ = fill("geometric", n, dtype, 0.3)
    assert x.min() == 1 and moments(x) == pytest.approx(
        (1 / 0.3, math.sqrt(0.7) / 0.3), abs=5 * near
    )


def test_bernoulli() -> None:
    n = 1 << 20
    for p in (0.0, 0.25, 1.0):
        hits, steps = best().fill("bernoulli", n, np.bool_, p)
        assert steps == n // 4 and hits.mean() == pytest.approx(p, abs=0.005 * (0 < p < 1))
        assert bits(hits) == bits(best().bernoulli(np.full(n, p)))
    p = np.random.default_rng(0).random(n).astype(np.float32)
    hits = best().bernoulli(p)
    assert abs((hits - p).mean()) < 0.005 and np.corrcoef(hits, p)[0, 1] > 0.5


def test_integers() -> None:
    x = best().integers(600000, -3, 3)
    assert set(x.tolist()) == set(range(-3, 3))
    assert np.bincount(x + 3) == pytest.approx(100000, abs=2000)
    assert set(best().integers(1000, 5, 6).tolist()) == {5}
    everything = best().integers(1000, 0, 0)
    assert everything.min() < -(2**60) and everything.max() > 2**60
    assert best().integers(1000, 0, 256, np.uint8).max() > 240
    low = -(2**63)
    assert (best().integers(1000, low, 2**63 - 1) < 0).mean() == pytest.approx(0.5, abs=0.1)


def test_permutation() -> None:
    for n in (0, 1, 2, 1000, 100000):
        order, steps = best().fill("permutation", n, np.int64)
        assert sorted(order.tolist()) == list(range(n)) and steps == (n + 1) // 2
    places = np.array([best().fill("permutation", 4, np.int64, seed=s)[0] for s in range(4000)])
    for column in places.T:
        assert np.bincount(column) == pytest.approx(1000, abs=150)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_multinomial(dtype: type) -> None:
    weights = np.array([[0, 1, 2, 1, 0], [4, 0, 0, 0, 4]], dtype)
    drawn = best().multinomial(weights, 40000, True)
    assert drawn is not None
    shares = [np.bincount(row, minlength=5) / 40000 for row in drawn]
    np.testing.assert_allclose(shares, weights / weights.sum(1, keepdims=True), atol=0.02)
    assert all(row[i] == 0 for row, i in [(shares[0], 0), (shares[0], 4), (shares[1], 1)])
    firsts = []
    for seed in range(3000):
        drawn = best().multinomial(weights[:1], 3, False, seed)
        assert drawn is not None and sorted(drawn[0].tolist()) == [1, 2, 3]
        firsts.append(drawn[0, 0])
    np.testing.assert_allclose(
        np.bincount(firsts, minlength=5) / 3000, [0, 0.25, 0.5, 0.25, 0], atol=0.04
    )
    for bad in ([[0, 0]], [[-1, 1]], [[np.nan, 1]], [[np.inf, 1]]):
        assert best().multinomial(np.array(bad, dtype), 1, True) is None
    assert best().multinomial(np.ones((1, 2), dtype), 3, False) is None


def test_all_instruction_sets_are_loaded() -> None:
    assert all(isinstance(k, Kernels) for k in all_kernels())
    assert len({k.isa for k in all_kernels()}) == len(all_kernels())
