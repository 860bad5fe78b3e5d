"""Commands over questions: fetch, questions check, plan."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gatewise.cli.terminal import (
    JsonOption,
    cache_folder,
    key_from,
    own,
    print_json,
    print_lines,
    print_tables,
    progress,
    say,
    warn,
)
from gatewise.errors import BadChoice, nearest

if TYPE_CHECKING:
    from gatewise.questions.plans import PlanCount
    from gatewise.studies.planning import Source

FileOption = Annotated[
    Path | None,
    typer.Option(
        "--file",
        help="The question file: .json, .jsonl, .csv (also .gz) or .parquet; default: the fetched or bundled one.",
        show_default=False,
    ),
]
DatasetOption = Annotated[
    str,
    typer.Option(
        "--dataset",
        help="The name of the data set: hotpotqa, musique, 2wiki, worldfacts (bundled), or any other of yours.",
        show_default=False,
    ),
]
FormatOption = Annotated[
    str,
    typer.Option(
        "--format",
        help="How rows are read: hotpotqa, musique, 2wiki, own or module:name; default: by the data set's name.",
        show_default=False,
    ),
]
SkipOption = Annotated[
    list[str],
    typer.Option(
        "--skip",
        help="Count and leave out rows that break this rule instead of refusing the file; may be repeated.",
        show_default=False,
    ),
]

questions_app = typer.Typer(help="Look after question files.", no_args_is_help=True)
plan_app = typer.Typer(help="Fix which passages each depth of evidence reveals.", no_args_is_help=True)


@questions_app.command("check")
def check(
    file: Annotated[Path, typer.Argument(help="The question file.", show_default=False)],
    dataset: DatasetOption = "own",
    format_: FormatOption = "",
    skip: SkipOption = [],  # noqa: B006 -- typer reads the default and never changes it
    unlabelled: Annotated[
        bool, typer.Option("--unlabelled", help="Accept questions whose supports are not marked.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Validate a question file and say what it holds; every broken rule is named with its row and remedy."""
    from gatewise.reports.tables import Column, Table
    from gatewise.studies.planning import take_census

    with progress() as advance:
        found = take_census(_source(file, dataset, format_, skip), labelled=not unlabelled, progress=advance)
    if as_json:
        print_json(found.as_json())
        return
    print(f"{found.intake.rows:,} rows, {found.intake.kept:,} questions, {found.repeated_texts:,} texts asked before")
    columns = (Column("", "text"), Column("fewest", "count"), Column("most", "count"), Column("mean", "plain", 2))
    ranges = (("passages", found.passages), ("supports", found.supports), ("references", found.references))
    rows = tuple((name, one.fewest, one.most, one.total / found.intake.kept) for name, one in ranges)
    print_tables([Table("A question has", columns, rows)])
    for name, counts in (("splits named", found.splits), ("rows skipped", found.intake.skipped)):
        if counts:
            print(f"\n{name}  " + ", ".join(f"{key} {count:,}" for key, count in counts.items()))


def fetch(
    what: Annotated[str, typer.Argument(help="hotpotqa, musique, 2wiki, or model.", show_default=False)],
    name: Annotated[str, typer.Argument(help="With model: qwen-0.5b, qwen-1.5b, smollm2-135m or minilm.")] = "",
    cache: Annotated[
        Path | None,
        typer.Option("--cache", help="The folder to keep it in; default: GATEWISE_CACHE.", show_default=False),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Download a public data set or a model's weights into the cache, resumably, and verify what arrived."""
    from gatewise.questions.sources import SOURCES
    from gatewise.recordings.weights import MODELS

    folder = cache or cache_folder()
    if what == "model":
        if name not in MODELS:
            raise BadChoice(
                f"expected a model among {', '.join(MODELS)}, found {name!r}{nearest(name, list(MODELS))}. "
                "Choose one of them."
            )
        _fetch_model(name, folder, as_json)
    elif name or what not in SOURCES:
        known = [*SOURCES, "model NAME"]
        raise BadChoice(
            f"expected to fetch {', '.join(known)}, found {f'{what} {name}'.strip()!r}{nearest(what, known)}. "
            "Choose one of them."
        )
    else:
        _fetch_dataset(what, folder, as_json)


def _fetch_dataset(name: str, folder: Path, as_json: bool) -> None:
    from gatewise.questions.sources import SOURCES
    from gatewise.studies.fetching import fetch_dataset

    source = SOURCES[name]
    say(f"{source.title}, licence {source.licence}, {source.home}")
    with progress(unit="bytes") as advance:
        found = fetch_dataset(source, folder, progress=advance)
    if as_json:
        print_json(
            {
                "schema": "gatewise.fetch/1",
                "name": name,
                "licence": source.licence,
                "files": [{"path": str(found.path), "sha256": found.sha256, "rows": found.rows}],
                "origin": found.origin or None,
            }
        )
        return
    print(f"{found.rows:,} rows  {found.path}")
    print(f"sha256  {found.sha256}  ({f'fetched from {found.origin}' if found.origin else 'already in the cache'})")


def _fetch_model(name: str, folder: Path, as_json: bool) -> None:
    from gatewise.recordings.weights import MODELS, fetch_model

    model = MODELS[name]
    say(f"{model.title}, licence {model.licence}")
    with progress(unit="bytes") as advance:
        paths = asyncio.run(
            fetch_model(model, folder, progress=lambda done, total: advance(f"fetching {name}", done, total))
        )
    files = [{"path": str(path), "sha256": weight.sha256} for path, weight in zip(paths, model.weights, strict=True)]
    if as_json:
        print_json({"schema": "gatewise.fetch/1", "name": name, "licence": model.licence, "files": files})
        return
    for one in files:
        print(f"{one['path']}\nsha256  {one['sha256']}")


@plan_app.callback(invoke_without_command=True)
def plan(
    context: typer.Context,
    dataset: DatasetOption = "",
    file: FileOption = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="Write the plans here; default: standard output.", show_default=False),
    ] = None,
    order: Annotated[
        str,
        typer.Option("--order", help="paper, retriever, supports-first, distractors-first or random."),
    ] = "paper",
    similarity: Annotated[
        str,
        typer.Option("--similarity", help="What ranks passages: lexical, bm25, dense or module:name; joined by +."),
    ] = "lexical",
    embedder: Annotated[
        str,
        typer.Option(
            "--embedder",
            help="What dense asks for vectors: minilm, sentence-transformers, or the base address of an endpoint.",
        ),
    ] = "minilm",
    embedding_model: Annotated[
        str, typer.Option("--embedding-model", help="The model that the endpoint or sentence-transformers runs.")
    ] = "BAAI/bge-m3",
    key_env: Annotated[
        str, typer.Option("--key-env", help="The environment variable that holds the endpoint's key.")
    ] = "GATEWISE_API_KEY",
    ledger: Annotated[
        Path | None,
        typer.Option(
            "--ledger", help="Keep the endpoint's vectors in this ledger, and take them from it.", show_default=False
        ),
    ] = None,
    slices: Annotated[int, typer.Option("--slices", min=1, help="How many slices of evidence.")] = 3,
    distractors: Annotated[
        int | None,
        typer.Option(
            "--distractors", min=0, help="Keep this many of the best-ranked; default: all.", show_default=False
        ),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="Of a random order or split.")] = 0,
    split: Annotated[
        str, typer.Option("--split", help="source (.5/.25/rest in source order), random, or column:NAME.")
    ] = "source",
    shares: Annotated[
        tuple[float, float],
        typer.Option("--shares", help="Shares of calibration and validation; the rest is test."),
    ] = (0.5, 0.25),
    format_: FormatOption = "",
    skip: SkipOption = [],  # noqa: B006
    summary: Annotated[bool, typer.Option("--summary", help="Print what the plans add up to, by split.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Make every question's evidence plan: which passages each depth reveals, before any model is asked."""
    from gatewise import files
    from gatewise.files.disk import require_apart
    from gatewise.reports.evidence import plans_table
    from gatewise.studies import planning

    if context.invoked_subcommand:
        return
    if not dataset:
        raise BadChoice(
            "expected --dataset, the name of the data set, found none. Name hotpotqa, musique, 2wiki, worldfacts, "
            "or your own with --file."
        )
    source = _source(file, dataset, format_, skip)
    require_apart(output, [source.path])
    recipe = planning.Recipe(order, slices, distractors, seed, split, shares)
    with progress() as advance, asyncio.Runner() as run:
        found = planning.survey(source, recipe, advance)
        warn(found.warnings)
        with planning.embedding(
            similarity, embedder, embedding_model, lambda: key_from(key_env), cache_folder(), run, ledger=ledger
        ) as by:
            ranking = planning.Ranking.of(similarity, by, lambda name: own(name, "similarity", "of a question"))
            header = planning.header(source, recipe, ranking, found, run)
            counts: dict[str, PlanCount] = {}
            planned = planning.counted(planning.plans(source, recipe, ranking, found.splits, run, advance), counts)
            if output:
                files.write_plans(header, planned, output)
            elif summary or as_json:
                for _ in planned:
                    pass
            else:
                print_lines(files.plan_lines(header, planned))
                return
    splits = {name: one.as_json() for name, one in counts.items()}
    if as_json:
        print_json(
            {
                "schema": "gatewise.plan/1",
                "output": output and str(output),
                "header": header,
                "splits": splits,
                "shared_texts": found.shared_texts,
            }
        )
        return
    skipped = ", ".join(f"{count:,} {rule}" for rule, count in found.intake.skipped.items())
    print(
        f"{found.intake.kept:,} questions of {dataset}, order {order}" + (f"; skipped {skipped}" if skipped else "")
    )
    print_tables([plans_table(splits)])
    if output:
        print(f"\nwritten  {output}")


@plan_app.command("show")
def show(
    question_id: Annotated[str, typer.Argument(metavar="ID", help="The question's own id.", show_default=False)],
    plans: Annotated[Path, typer.Option("--plans", help="A plan file written by gatewise plan -o.")] = Path(
        "plans.jsonl"
    ),
    as_json: JsonOption = False,
) -> None:
    """Print one question's slices for reading, supports marked with a star."""
    from gatewise import files
    from gatewise.reports.evidence import plan_text

    _, walk = files.read_plans(plans)
    ids: list[str] = []
    for one in walk:
        if one.question.id == question_id:
            if as_json:
                print_json({"schema": "gatewise.plan-show/1", **files.plan_json(one)})
            else:
                print(plan_text(one))
            return
        ids.append(one.question.id)
    raise BadChoice(
        f"expected the id of one of the {len(ids):,} questions in {plans}, found {question_id!r}"
        f"{nearest(question_id, ids)}. Give an id as its source has it."
    )


def _source(file: Path | None, dataset: str, format_: str, skip: list[str]) -> "Source":
    """Return where questions come from: the file named, or the one that the data set's name stands for."""
    from gatewise.studies.planning import find_source

    return find_source(
        dataset,
        file,
        cache_folder(),
        format=format_,
        skip=skip,
        own=lambda name: own(name, "reader", "row -> Question"),
    )
