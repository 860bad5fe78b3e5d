import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import strategies
from gatewise.replays.arrays import Coded, exact_histogram, exact_sum, levels, ratio, rounded

numbers = st.one_of(strategies.grid, strategies.tied, st.floats(0, 1), st.just(math.nan))


@given(st.lists(numbers, max_size=40))
def test_levels_are_the_sorted_distinct_values_and_every_code_leads_back(values):
    array = np.array(values, np.float64)
    found, codes = levels(array)
    assert found.tolist() == sorted({v + 0.0 for v in values if not math.isnan(v)})
    for value, code in zip(values, codes.tolist(), strict=True):
        assert (code == 0) if math.isnan(value) else found[code - 1] == value


def test_levels_keep_the_shape_and_tell_neighbouring_doubles_apart():
    array = np.array([[0.3, 0.30000000000000004], [-0.0, np.nan]])
    found, codes = levels(array)
    assert found.tolist() == [0.0, 0.3, 0.30000000000000004]
    assert codes.tolist() == [[2, 3], [1, 0]]


prices = st.one_of(
    st.floats(0, 1e9), st.sampled_from([0.1, 1e-300, 5e-324, 1e300, 0.0, 1.0, 2.0**40]), st.integers(0, 9).map(float)
)


@given(st.lists(st.tuples(st.integers(0, 3), prices), max_size=30))
def test_an_exact_histogram_rounds_each_sum_once(pairs):
    places = np.array([place for place, _ in pairs], np.int64)
    weights = np.array([weight for _, weight in pairs], np.float64)
    found = rounded(exact_histogram(places, weights, 4))
    for place in range(4):
        exact = sum((Fraction(weight) for where, weight in pairs if where == place), Fraction(0))
        assert found[place] == float(exact)


def test_ratios_of_nothing_are_none_and_sums_depend_on_no_order():
    assert ratio(0, 0) is None
    values = np.array([0.1] * 10 + [1e16, -1e16])
    assert exact_sum(values) == exact_sum(values[::-1]) == 1.0


def test_a_coded_column_gives_its_texts_back():
    column = Coded.of(["b", None, "a", "b"])
    assert column.values.tolist() == ["a", "b"]
    assert column.texts().tolist() == ["b", None, "a", "b"]
    assert column[np.array([3, 1])].texts().tolist() == ["b", None]


@pytest.mark.parametrize("size", [3, 300, 70_000])
def test_codes_take_the_smallest_kind_that_holds_them(size):
    found, codes = levels(np.linspace(0, 1, size))
    assert len(found) == size
    assert codes.max() == size
    assert codes.itemsize == {3: 1, 300: 2, 70_000: 4}[size]
