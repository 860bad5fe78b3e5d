"""Snippets: the gate on screen as a command and as Python, with places for lo, hi and budget.

Whatever names a file, model or column comes from outside: it is quoted here so that a shell and Python read it as
the same name and as nothing else.
"""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

Slots = dict[str, str]


@dataclass(frozen=True)
class Origin:
    """Where the traces on show came from: what a command needs to show them again."""

    files: Sequence[str] = ("traces.parquet",)
    datasets: Sequence[str] = ()
    split: str = "test"
    signal: str = "confidence"
    cost: str = "cost"
    maps: Mapping[str | None, str] = field(default_factory=dict)  # model → file, where maps were given
    allow_leak: bool = False


def shell_word(text: str) -> str:
    r"""Return one word for a POSIX shell, with nothing in it that a terminal would obey.

    >>> print(shell_word("plain.csv"), shell_word("it's"), shell_word("a\x1b"))
    plain.csv 'it'"'"'s' $'a\x1b'
    """
    if text.isprintable():
        return shlex.quote(text)
    pieces = []
    for byte in text.encode("utf-8", "surrogateescape" if _escaped(text) else "surrogatepass"):
        char = chr(byte)
        plain = char.isascii() and char.isprintable() and char not in "\\'"
        pieces.append(char if plain else f"\\x{byte:02x}")
    return f"$'{''.join(pieces)}'"


def _escaped(text: str) -> bool:
    """Tell whether a name holds bytes that were no UTF-8, as the system's names may."""
    return any("\udc80" <= char <= "\udcff" for char in text)


def command(origin: Origin, model: str | None, *, several: bool) -> str:
    """Return the command that replays one model's gate; {lo}, {hi}, {budget} and {by} are filled in later."""
    words = ["gatewise replay", *(_path(file) for file in origin.files)]
    if several and model is not None:
        words.append(f"--model {shell_word(model)}")
    words += [f"--dataset {shell_word(name)}" for name in origin.datasets]
    defaults = {"split": "test", "signal": "confidence", "cost": "cost"}
    for name, default in defaults.items():
        value = getattr(origin, name)
        if value != default:
            words.append(f"--{name} {shell_word(value)}")
    if model in origin.maps:
        words.append(f"--map {_path(origin.maps[model])}")
    if origin.allow_leak:
        words.append("--allow-leak")
    return _braced(" ".join(words)) + " --lo {lo} --hi {hi} --budget {budget}{by}"


def by_option(column: str) -> str:
    """Return the option that breaks a replay down by a column."""
    return f" --by {shell_word(column)}"


def program(origin: Origin, model: str | None, *, several: bool) -> Slots:
    """Return Python that replays one model's gate, raw and calibrated; the same slots are filled in later."""
    options = "".join(
        f", {name}={value!a}"
        for name, value, default in (("signal", origin.signal, "confidence"), ("cost", origin.cost, "cost"))
        if value != default
    )
    chosen = [model] if several and model is not None else []
    choose = f".choose({chosen!a}, {list(origin.datasets)!a})" if chosen or origin.datasets else ""
    read = f"read_traces({', '.join(map(ascii, origin.files))}{options}){choose}"
    given = origin.maps.get(model)
    fit = f"read_map({given!a})" if given else "calibrate(traces)"

    def lines(score: str, names: str, files: str) -> str:
        return (
            _braced(
                f"from gatewise import Threshold, {names}measure, replay\n"
                f"from gatewise.files import {files}read_traces\n\n"
                f"traces = {read}\npart = traces.split({origin.split!a})\n"
            )
            + "gate = Threshold(lo={lo}, hi={hi})\n"
            + f"episodes = replay(part, gate, {score}budget={{budget}})\nprint(measure(episodes{{among}}))\n"
        )

    names, files = ("", "read_map, ") if given else ("calibrate, ", "")
    return {"raw": lines("", "", ""), "calibrated": lines(f"score={_braced(fit)}, ", names, files)}


def among(column: str, value: str | int | float | None) -> str:
    """Return the argument that measures one group alone."""
    return f", among=part.column({column!a}) == {value!a}"


def _path(path: str) -> str:
    return shell_word(f"./{path}" if path.startswith("-") else path)


def _braced(text: str) -> str:
    """Return text whose braces are no slots."""
    return text.replace("{", "{{").replace("}", "}}")
