"""A hundred runs of the recorder, each killed at a random moment, and what had to be asked for again.

python benchmarks/kills.py [KILLS] [SEED]
"""

import random
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import killing


def main() -> None:
    """Print what a hundred kills did, and end with 1 if anything was lost or paid for twice."""
    kills, seed = (int(value) for value in (*sys.argv[1:], "100", "0")[:2])
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, killing.serving(0.02) as url:
        found = killing.killed(Path(folder), url, 15, kills, random.Random(seed))
    print(f"  {found.kills} kills of {len(found.in_studies)} studies, seed {seed}, {time.monotonic() - begun:.0f} s")
    print(f"  {found.distinct:,} distinct calls, {found.requests:,} that the server saw")
    print(f"  {found.under_way} calls caught before their reply was kept, {found.again} asked again")
    print(f"  {found.paid_twice} calls asked again after their reply was kept")
    print(f"  {found.unexplained} calls asked again without a kill, {found.too_many} kills with too much under way")
    print(f"  {found.different} trace tables that differ from the uninterrupted run's")
    sys.exit(any((found.paid_twice, found.unexplained, found.too_many, found.different)))


if __name__ == "__main__":
    main()
