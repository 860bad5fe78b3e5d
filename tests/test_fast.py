import numpy as np
import pytest

import strategies
from gatewise.replays.frontier import tally_codes

pytest.importorskip("numba", reason="the fast extra is not installed")


@pytest.mark.parametrize("nulls", [True, False])
@pytest.mark.parametrize("levels", [1, 5, 101, 255])
@pytest.mark.parametrize("n", [1, 2048, 70_001, 200_000])
def test_the_compiled_kernel_counts_what_numpy_counts(n, levels, nulls):
    codes, labels = strategies.coded(n, levels, nulls=nulls)
    axis = np.arange(1, levels + 1) / levels
    low = levels // 3
    plain = tally_codes(codes, labels, levels=axis, low=low, compiled=False)
    for threads in (1, 3):
        fast = tally_codes(codes, labels, levels=axis, low=low, compiled=True, threads=threads)
        for name in ("reached", "correct", "unlabelled", "low"):
            assert (getattr(fast, name) == getattr(plain, name)).all()
