"""How long gatewise takes to start, beside what it starts with.

python benchmarks/startup.py
"""

import subprocess
import sys
import tempfile
from pathlib import Path

from sides import best, line

BARE = """
import typer

app = typer.Typer()


@app.command()
def one(number: int = 1) -> None:
    "Do one thing."


@app.command()
def two(number: int = 1) -> None:
    "Do another."


app()
"""
RUNS = 15


def taken(*command: str) -> float:
    """Return the shortest of several runs of a program, in seconds."""
    return best(lambda: subprocess.run([sys.executable, *command], capture_output=True, check=True), RUNS)


def main() -> None:
    """Print start-up times and their ratios."""
    with tempfile.TemporaryDirectory() as folder:
        bare = Path(folder) / "bare.py"
        bare.write_text(BARE)
        numpy, ours = taken("-c", "import numpy"), taken("-c", "import gatewise")
        names = taken("-c", "from gatewise import Traces, replay, frontier, summarize")
        line("import numpy", numpy)
        line("import gatewise", ours, f"{ours / numpy:.2f} × import numpy")
        line("from gatewise import Traces, replay, …", names, f"{names / numpy:.2f} × import numpy")
        typer, shown = taken(str(bare), "--help"), taken("-m", "gatewise", "--help")
        line("a bare typer program --help", typer)
        line("gatewise --help", shown, f"{shown / typer:.2f} × the bare program")
        line("gatewise replay --help", taken("-m", "gatewise", "replay", "--help"))
        line("gatewise paper, start included", best(lambda: taken_once("-m", "gatewise", "paper"), 3))


def taken_once(*command: str) -> None:
    """Run a program once."""
    subprocess.run([sys.executable, *command], capture_output=True, check=True)


if __name__ == "__main__":
    main()
