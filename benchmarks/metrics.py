"""Isotonic maps, calibration error and AUROC beside the libraries that people use, for speed and for right answers.

    python benchmarks/metrics.py

scikit-learn and scipy come with the development requirements. Where torchmetrics or netcal are installed
(`pip install torch torchmetrics netcal`), they are measured too; otherwise the run says that they were not.
"""

import importlib.util
import math
from typing import Any

import numpy as np
from scipy.optimize import isotonic_regression
from sides import best, line
from sklearn.isotonic import IsotonicRegression
from sklearn.metrics import brier_score_loss, roc_auc_score

from gatewise import aurc, auroc, ece, fit_isotonic

N = 1_000_000


def exact_ece(score: list[float], correct: list[int]) -> float:
    """Return the definition, state by state: bins min(int(10 s), 9), exact sums."""
    bins: list[list[tuple[float, int]]] = [[] for _ in range(10)]
    for s, y in zip(score, correct, strict=True):
        bins[min(int(10 * s), 9)].append((s, y))
    return math.fsum(abs(math.fsum(s for s, _ in b) - sum(y for _, y in b)) for b in bins) / len(score)


def main() -> None:
    """Print speed, then who keeps the definition where scores tie or stand on the edge of a bin."""
    rng = np.random.default_rng(0)
    score = rng.integers(0, 101, N) / 100
    correct = (rng.random(N) < score).astype(np.int8)
    wide = correct.astype(np.int64)
    print(f"{N:,} records, 101 distinct scores (float64), labels int8")

    def ours_against(name: str, ours: Any, peers: dict[str, Any]) -> None:
        taken = best(ours)
        line(f"{name}: gatewise", taken)
        for peer, work in peers.items():
            theirs = best(work, 3)
            line(f"{name}: {peer}", theirs, f"gatewise is {theirs / taken:6.1f} × faster")

    phi = fit_isotonic(score, correct)
    theirs = IsotonicRegression(out_of_bounds="clip").fit(score, correct)
    order = np.argsort(score, kind="stable")
    ours_against(
        "fit isotonic",
        lambda: fit_isotonic(score, correct),
        {
            "scikit-learn": lambda: IsotonicRegression(out_of_bounds="clip").fit(score, correct),
            "scipy (sorted for it, not counted)": lambda: isotonic_regression(correct[order].astype(np.float64)),
        },
    )
    ours_against("apply isotonic", lambda: phi(score, 0), {"scikit-learn": lambda: theirs.predict(score)})
    print(f"  largest difference of the maps: {np.abs(phi(score, 0) - theirs.predict(score)).max():.1e}")
    ours_against("AUROC", lambda: auroc(score, correct), {"scikit-learn": lambda: roc_auc_score(wide, score)})
    line("AURC, ties as one step: gatewise", best(lambda: aurc(score, correct)))
    torch_peers: dict[str, Any] = {}
    found: dict[str, Any] = {}
    if importlib.util.find_spec("torchmetrics") is not None:
        import torch
        from torchmetrics.functional.classification import binary_calibration_error

        tensor, target = torch.from_numpy(score), torch.from_numpy(wide)
        torch_peers["torchmetrics"] = lambda: binary_calibration_error(tensor, target, n_bins=10)
        found["torchmetrics"] = lambda s, y: float(
            binary_calibration_error(torch.tensor(s, dtype=torch.float64), torch.tensor(y), n_bins=10)
        )
    if importlib.util.find_spec("netcal") is not None:
        from netcal.metrics import ECE

        torch_peers["netcal"] = lambda: ECE(10).measure(score, wide)
        found["netcal"] = lambda s, y: float(ECE(10).measure(np.array(s), np.array(y)))
    for peer in sorted({"torchmetrics", "netcal"} - set(torch_peers)):
        print(f"  {peer} is not installed here: not measured")
    ours_against("ECE", lambda: ece(score, correct), torch_peers)
    print(f"  Brier: scikit-learn {brier_score_loss(wide, score):.6f}")

    print("\nwho keeps the definition (ECE state by state in exact sums; .1, .2, … open their bins)")
    cases = {
        "all at .3, half right": ([0.3] * 4, [1, 1, 0, 0]),
        ".29 wrong and .3 right: two bins": ([0.29, 0.3], [0, 1]),
        ".69 right and .7 wrong: two bins": ([0.69, 0.7], [1, 0]),
        "1.0 right and .95 wrong: one bin": ([1.0, 0.95], [1, 0]),
    }
    for name, (values, labels) in cases.items():
        truth = exact_ece(values, labels)
        rows = {
            "gatewise": ece(np.array(values), np.array(labels)),
            **{k: f(values, labels) for k, f in found.items()},
        }
        shown = "   ".join(
            f"{peer} {value:.4f} {'agrees' if abs(value - truth) < 1e-6 else 'DIFFERS'}"
            for peer, value in rows.items()
        )
        print(f"  {name:36} truth {truth:.4f}   {shown}")
    tied, verdict = np.array([0.9] * 50 + [0.5] * 50), np.array([1, 0] * 50)
    areas = set()
    for seed in range(20):
        mixed = np.random.default_rng(seed).permutation(100)
        areas.add(aurc(tied[mixed], verdict[mixed]))
    print(f"  AURC of 100 states with two distinct scores under 20 row orders: {len(areas)} value(s), {areas}")


if __name__ == "__main__":
    main()
