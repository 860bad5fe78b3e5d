"""Panels: the paper that figures are drawn on, and the bytes they become; the only module that knows matplotlib.

Figures are laid out in inches, so that letters keep their size at every width. Nothing global is changed: the
settings hold inside `drawing` alone, no window and no pyplot is involved, and neither a date nor the name of a
program enters a file, so that the same values give the same bytes.
"""

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from gatewise.errors import BadChoice
from gatewise.reports.tables import printable

try:
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Figure
    from matplotlib.font_manager import FontProperties, findfont, get_font
except ImportError:
    raise BadChoice("expected matplotlib to draw figures, found none. Install gatewise[plots].") from None

PAGE, COLUMN = 7.0, 3.3  # inches: a page's width, and one of its two columns
SMALL, NORMAL = 7, 8  # points
DPI, TALLEST = 300, 20_000  # dots an inch, and the most dots of a side
FONT = "DejaVu Sans"  # ships with matplotlib, so every machine has the same letters

# Okabe and Ito's colours: told apart with every common kind of colour vision.
BLACK, GREY, PALE = "#000000", "#595959", "#c8c8c8"
BLUE, VERMILLION, GREEN, ORANGE, SKY = "#0072B2", "#D55E00", "#009E73", "#E69F00", "#56B4E9"

_SETTINGS = {
    "font.family": [FONT],
    "font.size": SMALL,
    "axes.titlesize": NORMAL,
    "axes.titlelocation": "left",
    "axes.titlepad": 4.0,
    "axes.labelsize": NORMAL,
    "axes.linewidth": 0.6,
    "axes.edgecolor": GREY,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e6e6e6",
    "grid.linewidth": 0.5,
    "xtick.labelsize": SMALL,
    "ytick.labelsize": SMALL,
    "xtick.color": GREY,
    "ytick.color": GREY,
    "xtick.labelcolor": BLACK,
    "ytick.labelcolor": BLACK,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "legend.fontsize": SMALL,
    "legend.frameon": False,
    "legend.handlelength": 1.9,
    "legend.columnspacing": 1.2,
    "legend.handletextpad": 0.5,
    "legend.borderaxespad": 0.0,
    "lines.linewidth": 1.2,
    "hatch.linewidth": 0.5,
    "text.parse_math": False,  # a dollar sign in a name is a dollar sign
    "text.usetex": False,
    "pdf.fonttype": 42,  # letters go along as TrueType, and can be searched
    "ps.fonttype": 42,
    "svg.fonttype": "path",  # letters are drawn, whatever fonts a reader has
    "svg.hashsalt": "gatewise",
    "savefig.facecolor": "white",
}


@contextmanager
def drawing() -> Iterator[None]:
    """Let the settings hold inside, whatever the user's own are, and leave those as they were."""
    settings: Any = {n: value for n, value in matplotlib.rcParamsDefault.items() if not n.startswith("backend")}
    with matplotlib.rc_context(settings | _SETTINGS):
        yield


METADATA: dict[str, dict[str, None]] = {
    "pdf": {"Creator": None, "Producer": None, "CreationDate": None},
    "svg": {"Creator": None, "Date": None, "Format": None, "Type": None},
    "png": {"Software": None},
}


def written(figure: Figure, kind: str, *, dpi: int = DPI) -> bytes:
    """Return a figure as a PDF, SVG or PNG file: the same figure, the same bytes."""
    if kind not in METADATA:
        raise BadChoice(f"expected one of {', '.join(METADATA)} to write a figure as, found {kind!r}. Choose one.")
    sink = io.BytesIO()
    dpi = min(dpi, int(TALLEST / max(figure.get_size_inches())))
    with drawing():
        figure.savefig(sink, format=kind, dpi=dpi, metadata=METADATA[kind])
    return sink.getvalue()


@dataclass(frozen=True)
class Margins:
    """Room in inches: around the panels, between them, and over each block's heading."""

    left: float = 0.52
    right: float = 0.1
    top: float = 0.24
    bottom: float = 0.42
    across: float = 0.16
    down: float = 0.46
    heading: float = 0.22


def sheet(
    blocks: Sequence[tuple[str, int]],
    *,
    width: float,
    columns: int,
    height: float,
    margins: Margins,
) -> tuple[Figure, list[list[Any]]]:
    """Return a figure with blocks of panels, each block with its heading.

    `height` is that of one panel. A block takes as many rows as its panels need.
    """
    heads = [margins.heading if heading else 0.0 for heading, _ in blocks]
    rows = [-(-count // columns) for _, count in blocks]
    total = margins.top + sum(heads) + sum(rows) * height + (sum(rows) - 1) * margins.down + margins.bottom
    figure = Figure(figsize=(width, total))
    FigureCanvasAgg(figure)
    wide = (width - margins.left - margins.right - (columns - 1) * margins.across) / columns
    y = total - margins.top
    panels: list[list[Any]] = []
    for (heading, count), head, lines in zip(blocks, heads, rows, strict=True):
        if heading:
            title = lettered(heading, width - margins.left, NORMAL)
            figure.text(margins.left / width, (y + 0.04) / total, title, size=NORMAL, weight="bold", va="bottom")
        y -= head
        found = []
        for place in range(count):
            row, column = divmod(place, columns)
            x = margins.left + column * (wide + margins.across)
            bottom = y - height - row * (height + margins.down)
            found.append(figure.add_axes((x / width, bottom / total, wide / width, height / total)))
            found[-1].set_gid(f"panel-{len(panels)}-{place}")
        panels.append(found)
        y -= lines * (height + margins.down)
    return figure, panels


def finish(figure: Figure, margins: Margins, entries: Sequence[tuple[Any, str]], *, x: str = "", y: str = "") -> None:
    """Name the axes that all panels share, and put a legend under them, in as many columns as there is room for."""
    width, height = figure.get_size_inches()
    middle = (margins.left + width - margins.right) / 2 / width
    figure.text(middle, (margins.bottom - 0.36) / height, x, size=NORMAL, ha="center", va="bottom")
    centre = (margins.bottom + height - margins.top) / 2 / height
    figure.text(0.03 / width, centre, y, size=NORMAL, rotation=90, ha="left", va="center")
    labels = {label: handle for handle, label in reversed(entries)}
    names = list(dict.fromkeys(label for _, label in entries))
    for columns in range(min(len(names), 5), 0, -1):
        legend = figure.legend([labels[name] for name in names], names, loc="lower center", ncols=columns)
        box = legend.get_window_extent()
        if box.width / figure.dpi <= width - 0.12 or columns == 1:
            rows = -(-len(names) // columns)
            if -(-len(names) // rows) < columns:  # as many lines with fewer columns: more even
                columns = -(-len(names) // rows)
                legend.remove()
                legend = figure.legend([labels[name] for name in names], names, loc="lower center", ncols=columns)
            _grow(figure, box.height / figure.dpi + 0.06)
            legend.set_bbox_to_anchor((0.5, 0.03 / figure.get_size_inches()[1]), transform=figure.transFigure)
            break
        legend.remove()


def _grow(figure: Figure, inches: float) -> None:
    """Make a figure taller at its foot; everything on it keeps its size and its distance from the top."""
    width, height = figure.get_size_inches()
    ratio = height / (height + inches)
    for axes in figure.axes:
        left, bottom, wide, high = axes.get_position().bounds
        axes.set_position((left, 1 - (1 - bottom) * ratio, wide, high * ratio))
    for text in figure.texts:
        text.set_y(1 - (1 - text.get_position()[1]) * ratio)
    figure.set_size_inches(width, height + inches)


def lettered(value: str, inches: float, points: float) -> str:
    """Return text that the font can draw and the room can hold; what it has no letter for is spelled out."""
    font = get_font(findfont(FontProperties(family=FONT)))
    known = font.get_charmap()
    text = "".join(
        c if ord(c) in known else c.encode("unicode_escape").decode() for c in printable(value.replace("\n", "\\n"))
    )
    most = max(6, int(inches * 72 / (0.64 * points)))
    if len(text) <= most:
        return text
    return f"{text[: most // 2]}…{text[-(most - most // 2 - 1) :]}"
