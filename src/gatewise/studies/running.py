"""Running: the steps of a study in order, each only where something that it reads has changed.

A step is known by a digest of its part of the design, of the files that it reads and of what the steps before it
wrote. What was done stands in `state.json` in the study's folder: removing it costs time, never a paid call.
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from gatewise.errors import BadChoice, BrokenFile, nearest, shown
from gatewise.files import digest_of
from gatewise.files.disk import make_folder, replace_file
from gatewise.studies.designs import Design

STATE_SCHEMA = "gatewise.study/1"
STEPS = ("plan", "record", "judge", "calibrate", "replay", "report")
AFTER = {
    "plan": (),
    "record": ("plan",),
    "judge": ("plan", "record"),
    "calibrate": ("judge",),
    "replay": ("judge", "calibrate"),
    "report": ("plan", "judge", "calibrate", "replay"),
}
AGAIN = ""  # the digest of no input: a step that is known by it has left its files, and is done again
ASKING = ("record", "judge")  # the steps that cost money: a dry run asks them what they would

Progress = Callable[[str, int, int | None], None]  # what, done, of how many where known


@dataclass(frozen=True)
class Outcome:
    """What a step did: the files it wrote, and a few words for the reader.

    One that is not complete is not noted, and no later step runs: running again goes on where it stopped. One that is
    not `noted` is followed by the next, now or later, and done again in the next run: some of it may be had then.
    """

    files: tuple[Path, ...] = ()
    told: tuple[str, ...] = ()
    complete: bool = True
    noted: bool = True


@dataclass(frozen=True)
class Work:
    """What a step is handed: the design, and the ways out into the world that only the command line has."""

    design: Design
    cache: Path  # where fetched data sets and weights are
    dry_run: bool = False
    fresh: bool = False  # whether this step was asked to start anew
    planned: bool = False  # whether the plans that stand are known to be those of the design
    own: Callable[[str, str, str], Any] = lambda name, what, shape: _no_own(name)
    key: Callable[[str], str] = lambda variable: ""  # the key that an environment variable holds
    progress: Progress = lambda what, done, total: None
    warn: Callable[[Iterable[str]], None] = lambda warnings: None


@dataclass(frozen=True)
class Step:
    """One step: what it reads beside the files of earlier steps, as plain values, and what it does."""

    reads: Callable[[Work], Any]
    act: Callable[[Work], Outcome]


@dataclass(frozen=True)
class Noted:
    """What is known of a step that was done: the digest of what it read, and of each file that it wrote."""

    reads: str
    files: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class State:
    """The steps of a study that were done."""

    steps: Mapping[str, Noted] = field(default_factory=dict)

    def noting(self, name: str, noted: Noted) -> "State":
        """Return the state with one more step done."""
        return State({**self.steps, name: noted})

    def without(self, name: str) -> "State":
        """Return the state as if a step had not been done."""
        return State({one: noted for one, noted in self.steps.items() if one != name})


@dataclass(frozen=True)
class Done:
    """How a step ended: done, unchanged, stopped, would run, or absent."""

    step: str
    how: str
    told: tuple[str, ...] = ()
    files: tuple[Path, ...] = ()


def run(
    work: Work, steps: Mapping[str, Step], *, fresh: Sequence[str] = (), only: Sequence[str] = ()
) -> Iterator[Done]:
    """Yield how each step ended, as it ends; a step whose inputs and files are unchanged is not done again.

    Steps named in `fresh` are done in any case; `only` names the steps to look at, by default all. A dry run changes
    no file: it says which steps would run, and has those that cost money say what they would ask.
    """
    for name in (*fresh, *only):
        if name not in STEPS:
            raise BadChoice(f"expected a step among {', '.join(STEPS)}, found {name!r}{nearest(name, STEPS)}.")
    path = state_path(work.design)
    state = read_state(path)
    stale: set[str] = set()  # in a dry run: steps that would run, so that later ones cannot know what they will read
    for name in STEPS:
        if only and name not in only:
            continue
        if name not in steps:
            yield Done(name, "absent")
            continue
        planned = "plan" not in stale and "plan" in state.steps
        step, handed = steps[name], replace(work, fresh=name in fresh, planned=planned)
        if work.dry_run and (stale & set(AFTER[name]) or name in fresh):
            stale.add(name)
            yield Done(name, "would run", _told_dry(name, step, handed))
            continue
        for earlier in AFTER[name]:
            if earlier in steps and earlier not in state.steps:
                raise BadChoice(
                    f"expected step {earlier} to be done before {name}, found that it is not. Run the whole study, "
                    f"or {earlier} first."
                )
        reads = _digest({"step": step.reads(handed), "after": [_left(state, one) for one in AFTER[name]]})
        noted = state.steps.get(name)
        if name not in fresh and noted and noted.reads == reads and _stands(work.design, noted):
            yield Done(name, "unchanged", files=tuple(_place(work.design, one) for one in noted.files))
            continue
        if work.dry_run:
            stale.add(name)
            yield Done(name, "would run", _told_dry(name, step, handed))
            continue
        state = state.without(name)  # half done is not done
        write_state(state, path)
        outcome = step.act(handed)
        if outcome.complete:
            files = {_named(work.design, one): digest_of(one) for one in outcome.files}
            state = state.noting(name, Noted(reads if outcome.noted else AGAIN, files))
            write_state(state, path)
        yield Done(name, "done" if outcome.complete else "stopped", outcome.told, outcome.files)
        if not outcome.complete:
            return


def _told_dry(name: str, step: Step, work: Work) -> tuple[str, ...]:
    return step.act(work).told if name in ASKING else ()


def state_path(design: Design) -> Path:
    """Return where the state of a study stands."""
    return design.out / "state.json"


def read_state(path: Path) -> State:
    """Return the state in a file, an empty one where there is none."""
    if not path.is_file():
        return State()
    try:
        record = json.loads(path.read_bytes())
        if record["schema"] != STATE_SCHEMA:
            raise ValueError(f"another schema than {STATE_SCHEMA}")
        return State({name: Noted(str(one["reads"]), dict(one["files"])) for name, one in record["steps"].items()})
    except OSError as error:
        raise BrokenFile(f"expected to read {path}, found: {error.strerror}. Check the path.") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise BrokenFile(
            f"expected the state of a study in {path}, found: {shown(str(error))}. Remove it: every step then runs "
            "again, and what was paid for is still in the ledger."
        ) from None


def write_state(state: State, path: Path) -> None:
    """Write the state of a study whole or not at all."""
    make_folder(path.parent)
    steps = {name: {"reads": noted.reads, "files": dict(noted.files)} for name, noted in state.steps.items()}
    replace_file(path, (json.dumps({"schema": STATE_SCHEMA, "steps": steps}, indent=1) + "\n").encode())


def _left(state: State, name: str) -> Any:
    """Return what a step left behind for later ones: its files, or, of one without files, what it read."""
    noted = state.steps.get(name)
    return noted and (sorted(noted.files.items()) or noted.reads)


def _stands(design: Design, noted: Noted) -> bool:
    places = {_place(design, name): digest for name, digest in noted.files.items()}
    return all(path.is_file() and digest_of(path) == digest for path, digest in places.items())


def _named(design: Design, path: Path) -> str:
    """Return how the state names a file: by its way from the study's folder, so that the folder may move."""
    return Path(os.path.relpath(path, design.out)).as_posix()


def _place(design: Design, name: str) -> Path:
    return Path(os.path.normpath(design.out / name))


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, allow_nan=False).encode()).hexdigest()


def _no_own(name: str) -> Any:
    raise BadChoice(f"expected a built-in, found {name!r}, and no way to look for functions of your own here.")
