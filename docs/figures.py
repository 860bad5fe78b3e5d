"""Draw the figures of docs/report.md from the bundled reconstructions: python docs/figures.py."""

from pathlib import Path

from gatewise import calibrate
from gatewise.files import published, reconstruction
from gatewise.replays.findings import find
from gatewise.reports.panels import written
from gatewise.reports.plots import figures

FOLDER = Path(__file__).parent / "figures"


def main() -> None:
    """Write one small picture a figure."""
    found = []
    for model in published()["table"]:
        traces = reconstruction(model)
        calibration = traces.split("calibration")
        found.append(find(traces.split("test"), calibrated=calibrate(traces), calibration=calibration))
    for name, draw in figures(found).items():
        (FOLDER / f"{name}.png").write_bytes(written(draw(found), "png", dpi=130))


if __name__ == "__main__":
    main()
