"""Who may import whom: the table of the design, read off the syntax trees. Function-local imports count too."""

import ast
import re
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "gatewise"

# Every module has a room; a new one fails here until it is given one.
ROOMS = {
    "errors": "ground",
    "types": "ground",
    "wording": "ground",
    "questions": "questions",
    "recordings": "recordings",
    "replays": "replays",
    "gate": "gate",
    "reports": "reports",
    "files": "files",
    "servers": "servers",
    "studies": "studies",
    "cli": "cli",
    "__main__": "cli",
    "__init__": "names",
}

# The three rooms of the method do not know each other: values pass between them.
MAY_IMPORT = {
    "ground": {"ground"},
    "questions": {"ground", "questions"},
    "recordings": {"ground", "recordings"},
    "replays": {"ground", "replays"},
    "gate": {"ground", "replays", "gate"},
    "reports": {"ground", "replays", "reports"},
    "files": {"ground", "replays", "gate", "files"},
    "servers": {"ground", "servers"},
    "studies": {"ground", "questions", "recordings", "replays", "reports", "files", "studies"},
    "cli": {"ground", "questions", "recordings", "replays", "gate", "reports", "files", "servers", "studies", "cli"},
    "names": {"ground", "replays", "gate"},
}

# Foreign packages, by the room or module that may load them; and where the standard library reaches the world.
FOREIGN = {
    "numpy": {"questions", "recordings", "replays", "gate", "reports", "files", "studies"},
    "numba": {"replays"},
    "pyarrow": {"files"},
    "msgspec": {"files", "questions"},
    "typer": {"cli"},
    "rich": {"cli"},
    "bm25s": {"questions"},
    "aiohttp": {"recordings/client", "recordings/chats", "recordings/downloads", "recordings/retries", "servers"},
    "xllamacpp": {"recordings/local"},
    "torch": {"recordings/transformer"},
    "transformers": {"recordings/transformer"},
    "huggingface_hub": {"recordings/transformer"},
    "jinja2": {"recordings/transformer"},
    "matplotlib": {"reports/panels"},
    "onnxruntime": {"recordings/embedders"},
    "tokenizers": {"recordings/embedders"},
    "sentence_transformers": {"recordings/embedders"},
}
TAPS = {
    "open": {"files"},
    "print": {"cli"},
    "input": set(),
    "socket": set(),
    "sqlite3": {"recordings/store"},
    "http": set(),
    "urllib": {"recordings/client", "recordings/chats", "recordings/endpoints"},
    "time": {"recordings"},
    "datetime": {"recordings"},
    "random": {"recordings/retries"},
    "subprocess": {"recordings/weights"},
    "tempfile": {"files", "recordings/weights"},
    "zipfile": {"files", "recordings/weights"},
}

MODULES = sorted(SOURCE.rglob("*.py"))


def name_of(path):
    return path.relative_to(SOURCE).with_suffix("").as_posix()


def room_of(name):
    return ROOMS[name.split("/")[0]]


def imports(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            yield node.module
            if node.module == "gatewise" or node.module.count(".") == 1:
                yield from (f"{node.module}.{alias.name}" for alias in node.names)


def names(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            yield node.func.id


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_a_module_imports_only_from_the_rooms_below_it(path):
    assert name_of(path).split("/")[0] in ROOMS, f"give {name_of(path)} a room"
    room = room_of(name_of(path))
    for module in imports(path):
        top, *rest = module.split(".")
        if top == "gatewise" and rest:
            if rest[0] in ROOMS:
                assert room_of(rest[0]) in MAY_IMPORT[room], f"{name_of(path)} imports {module}"
        elif top in FOREIGN:
            assert {room, name_of(path)} & FOREIGN[top], f"{name_of(path)} imports {module}"
        elif top in TAPS:
            assert {room, name_of(path)} & TAPS[top], f"{name_of(path)} imports {module}"


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_only_files_opens_and_only_cli_prints(path):
    for name in names(path):
        if name in TAPS:
            assert {room_of(name_of(path)), name_of(path)} & TAPS[name], f"{name_of(path)} calls {name}"


def test_foreign_packages_are_all_known():
    import sys

    known = set(sys.stdlib_module_names) | set(FOREIGN) | {"gatewise"}
    for path in MODULES:
        for module in imports(path):
            assert module.split(".")[0] in known, f"{name_of(path)} imports {module}"


def test_the_pure_rooms_have_no_clock_no_chance_and_no_environment():
    for path in [*(SOURCE / "replays").glob("*.py"), *(SOURCE / "questions").glob("*.py")]:
        text = path.read_text()
        for word in ("np.random", "os.environ", "getenv", "global "):
            assert word not in text, f"{name_of(path)} uses {word}"


def test_no_module_shares_its_name_with_what_it_exports():
    for path in MODULES:
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and path.stem not in ("frontier", "census"):
                assert node.name != path.stem, f"{name_of(path)} exports {node.name}"


def test_tests_mirror_the_source():
    tested = {path.stem.removeprefix("test_") for path in Path(__file__).parent.glob("test_*.py")}
    for path in MODULES:
        if path.stem not in ("__init__", "__main__", "types", "errors"):
            names = {path.stem, name_of(path).replace("/", "_")}
            assert names & tested, f"{name_of(path)} has no test file"


def test_the_architecture_gives_every_module_a_line():
    text = (SOURCE.parents[1] / "ARCHITECTURE.md").read_text()
    room, told = "", set()
    for bars, name in re.findall(r"^([│├└─ ]+)(\w+(?:/|\.py))", text, re.M):
        room = name if name.endswith("/") else room if bars.startswith("│") else ""
        told |= {f"{room}{name}".removesuffix(".py")} if name.endswith(".py") else set()
    modules = {name_of(path) for path in MODULES if not path.stem.startswith("__")}
    assert told == modules, (
        "give every module a line in ARCHITECTURE.md, and take away those of modules that are gone"
    )
