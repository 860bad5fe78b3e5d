"""Write docs/reference/*.md from the docstrings: what `import gatewise` gives, then every module, a page a room.

Sources are read, not run, so the pages need no extra and are the same for the same sources. `make docs` calls it;
its pages are not kept in the repository.

python docs/reference.py [FOLDER]
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "gatewise"
ROOMS = ("questions", "recordings", "replays", "reports", "files", "servers", "studies")
GROUND = ("types", "errors", "gate", "wording")

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def pages() -> dict[str, str]:
    """Return every page by its name."""
    ground = "".join(module(SOURCE / f"{name}.py") for name in GROUND)
    found = {"index": overview(), "ground": f"# Shared by the rooms\n\n{ground}"}
    for room in ROOMS:
        parts = sorted((SOURCE / room).glob("*.py"))
        first = said(ast.parse((SOURCE / room / "__init__.py").read_text()))
        body = "".join(module(path) for path in parts if path.stem != "__init__")
        found[room] = f"# gatewise.{room}\n\n{first}{body}"
    return found


def overview() -> str:
    """Return the page of names that `import gatewise` gives, each with its first line and the way to the rest."""
    tree = ast.parse((SOURCE / "__init__.py").read_text())
    homes = next(node.value for node in tree.body if is_assigned(node, "_HOMES"))
    lines = ["# Reference", "", said(tree).strip(), "", "| name | what it is |", "| --- | --- |"]
    rows = []
    for home, names in ast.literal_eval(homes).items():
        room, _, _ = home.partition(".")
        defined = {one.name: one for one in public(ast.parse((SOURCE / f"{home.replace('.', '/')}.py").read_text()))}
        page = room if room in ROOMS else "ground"
        for name in names.split():
            first = (ast.get_docstring(defined[name]) or "").partition("\n")[0]
            rows.append((name, f"| [`{name}`]({page}.md#{anchor(f'gatewise.{home}', name)}) | {plain(first)} |"))
    lines += [row for _, row in sorted(rows)]
    lines += ["", "Everything else stands in its room:", ""]
    lines += [f"- [`gatewise.{room}`]({room}.md)" for room in ROOMS]
    lines += ["- [types, errors, the gate, wording](ground.md)", ""]
    return "\n".join(lines)


def is_assigned(node: ast.stmt, name: str) -> bool:
    """Tell whether a statement gives this name its value."""
    return isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == name


def module(path: Path) -> str:
    """Return one module's part of its page."""
    name = ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts)
    source = path.read_text()
    tree = ast.parse(source)
    parts = [f"## {name}\n\n", said(tree)]
    for one in public(tree):
        parts += [f"### `{one.name}` {{ #{anchor(name, one.name)} }}\n\n", shown(one, source), said(one)]
        if isinstance(one, ast.ClassDef):
            parts += properties(one)
            for part in public(one):
                if not is_property(part):
                    parts += [f"#### `{one.name}.{part.name}`\n\n", shown(part, source), said(part)]
    return "".join(parts)


def properties(node: ast.ClassDef) -> Iterator[str]:
    """Yield a class's properties, a line each."""
    found = [one for one in public(node) if is_property(one)]
    for one in found:
        returns = f": `{ast.unparse(one.returns)}`" if isinstance(one, ast.FunctionDef) and one.returns else ""
        yield f"- **`.{one.name}`**{returns}. {plain(' '.join((ast.get_docstring(one) or '').split()))}\n"
    if found:
        yield "\n"


def is_property(node: Definition) -> bool:
    """Tell whether this is read like a field."""
    return any(ast.unparse(one) in ("property", "cached_property") for one in node.decorator_list)


def anchor(module: str, name: str) -> str:
    """Return the place of a name on its page."""
    return f"{module}.{name}"


def public(tree: ast.Module | ast.ClassDef) -> Iterator[Definition]:
    """Yield the functions and classes that are for others."""
    for node in tree.body:
        if isinstance(node, Definition) and (node.name == "__call__" or not node.name.startswith("_")):
            yield node


def shown(node: Definition, source: str) -> str:
    """Return how a function is called, or what a class holds."""
    decorators = {ast.unparse(one).partition("(")[0] for one in node.decorator_list}
    if isinstance(node, ast.ClassDef):
        bases = f"({', '.join(map(ast.unparse, node.bases))})" if node.bases else ""
        lines = source.splitlines()
        values = [
            one
            for one in node.body
            if (isinstance(one, ast.AnnAssign) and not ast.unparse(one.target).startswith("_"))
            or (isinstance(one, ast.Assign) and "IntEnum" in bases)
        ]
        fields = [line for one in values for line in lines[one.lineno - 1 : one.end_lineno]]
        text = "\n".join([f"class {node.name}{bases}", *fields])
    else:
        word = "async def" if isinstance(node, ast.AsyncFunctionDef) else "def"
        returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
        text = f"{word} {node.name}({ast.unparse(node.args)}){returns}"
        if len(text) > 100:
            lines = "".join(f"    {one},\n" for one in arguments(node.args))
            text = f"{word} {node.name}(\n{lines}){returns}"
        text = "".join(f"@{one}\n" for one in sorted(decorators & {"classmethod", "staticmethod"})) + text
    return f"```text\n{text}\n```\n\n"


def arguments(node: ast.arguments) -> list[str]:
    """Return the arguments of a function, one by one."""
    count = len(node.args) - len(node.defaults)
    found = [
        ast.unparse(one) + (f"={ast.unparse(node.defaults[place - count])}" if place >= count else "")
        for place, one in enumerate(node.args)
    ]
    found += [f"*{ast.unparse(node.vararg)}"] if node.vararg else ["*"] if node.kwonlyargs else []
    for one, default in zip(node.kwonlyargs, node.kw_defaults, strict=True):
        found.append(ast.unparse(one) + (f"={ast.unparse(default)}" if default else ""))
    return found + ([f"**{ast.unparse(node.kwarg)}"] if node.kwarg else [])


def said(node: ast.Module | Definition) -> str:
    """Return a docstring as Markdown: paragraphs, drawings as they are, and sessions as code."""
    parts = []
    for paragraph in re.split(r"\n\s*\n", ast.get_docstring(node) or ""):
        if paragraph.lstrip().startswith(">>>"):
            parts.append(f"```pycon\n{paragraph}\n```")
        elif re.search(r"^(    |[├└│])", paragraph, re.M):
            parts.append(f"```text\n{paragraph}\n```")
        elif paragraph:
            parts.append(plain(paragraph))
    return "\n\n".join(parts) + "\n\n" if parts else ""


def plain(text: str) -> str:
    """Return prose with everything but code spans free of Markdown."""
    spans = re.split(r"(`[^`]*`)", text)
    return "".join(one if one.startswith("`") else re.sub(r"([\\*_<>|\[\]])", r"\\\1", one) for one in spans)


def main() -> None:
    """Write the pages."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "reference"
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in pages().items():
        (folder / f"{name}.md").write_text(text)


if __name__ == "__main__":
    main()
