"""Asking: who a study asks, and with what words: settings, endpoints, prompts, the ledger and the plans."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from itertools import chain
from pathlib import Path

from gatewise.errors import BadChoice, BrokenFile, Unavailable
from gatewise.files.disk import make_folder
from gatewise.recordings.endpoints import Settings
from gatewise.recordings.ledger import Ledger
from gatewise.recordings.prompts import PROMPTS, Prompt, read_prompt
from gatewise.recordings.recorder import Asking
from gatewise.recordings.voices import Ask
from gatewise.studies.designs import Asked, Design, Model
from gatewise.studies.running import Work
from gatewise.studies.steps import plans_of
from gatewise.types import Plan

Stop = Callable[[Unavailable], None]  # what calls fail with that have not been sent

NOWHERE = "http://127.0.0.1/v1"  # the address of a model in this process, which is never called


def prompt_of(asked: Asked, design: Design) -> Prompt:
    """Return the prompt that a model of the design is asked with: a built-in one, or that of a file."""
    if asked.prompt in PROMPTS:
        return PROMPTS[asked.prompt]
    path = design.folder / asked.prompt
    try:
        return read_prompt(path.read_text("utf-8"), asked.prompt)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "no UTF-8"
        raise BrokenFile(
            f"expected a prompt among {', '.join(PROMPTS)}, or a prompt file at {path}, found: {reason}. Check "
            "the path."
        ) from None


def settings_of(asked: Asked, design: Design) -> Settings:
    """Return the settings of a model of the design."""
    prices = asked.prices
    return Settings(
        model=asked.model or asked.local or asked.transformer,
        url=asked.url or NOWHERE,
        key_env=asked.key_env,
        temperature=asked.temperature,
        max_tokens=asked.max_tokens,
        seed=asked.seed,
        extra=asked.extra,
        logprobs=getattr(asked, "logprobs", False),
        top_logprobs=getattr(asked, "top_logprobs", 5),
        prices=prices,
        concurrency=asked.concurrency,
        requests_per_minute=asked.requests_per_minute,
        tokens_per_minute=asked.tokens_per_minute,
        timeout=asked.timeout,
        overall=asked.overall,
        proxy=asked.proxy,
        ca=str(asked.ca or ""),
    )


def name_of(asked: Asked, design: Design, cache: Path) -> str:
    """Return what the ledger knows an endpoint by, without opening it."""
    if asked.url:
        return settings_of(asked, design).address
    if asked.transformer:
        from gatewise.recordings.transformer import name_of as transformer_name

        return transformer_name(_from_folder(asked.transformer, design))
    from gatewise.recordings.local import name_of as local_name

    return local_name(_from_folder(asked.local, design), cache)


def _from_folder(model: str, design: Design) -> str:
    """Return a model's name, or the path of its files: like all paths of a study, it starts at the study's folder."""
    path = design.folder / model
    return str(path) if path.is_file() or (path / "config.json").is_file() else model


@asynccontextmanager
async def opened(asked: Asked, work: Work) -> AsyncIterator[tuple[str, Ask, int, Stop]]:
    """Yield an endpoint of the design, open: its name, how it is asked, how many calls it takes at once, its stop."""
    if asked.url:
        from gatewise.recordings.chats import chat

        if asked.key_env and not work.key(asked.key_env):
            raise BadChoice(
                f"expected a key for {asked.model} in the environment variable {asked.key_env}, found none. Set it."
            )
        settings = settings_of(asked, work.design)
        async with chat(settings, key=work.key(asked.key_env)) as endpoint:  # the key in no name of ours
            yield endpoint.name, lambda request: endpoint(request.body), asked.concurrency, endpoint.stop
    elif asked.transformer:
        from gatewise.recordings.transformer import Transformer

        place = _from_folder(asked.transformer, work.design)
        with Transformer(place, device=asked.device or "auto", batch=asked.batch) as model:
            yield model.name, lambda request: model(request.body), 2 * asked.batch, _at_once  # the next waits, full
    else:
        from gatewise.recordings.local import Local, model_file

        path = model_file(_from_folder(asked.local, work.design), work.cache)
        with Local(path, threads=asked.threads, context=asked.context) as local:
            # one at a time, so that depths share a cache
            yield local.name, lambda request: local(request.body), 1, _at_once


def _at_once(failure: Unavailable) -> None:
    """Do nothing: what answers in this process waits for no turn and tries nothing again."""


def asking_of(model: Model, design: Design) -> Asking:
    """Return how a model of the design is asked."""
    return Asking(model.name, prompt_of(model, design), model.attempts, model.p_true)


def ledger_of(design: Design, *, readonly: bool = False) -> Ledger:
    """Return the ledger of a design, open; one that is only read may stand where nobody writes."""
    if not readonly:
        make_folder(design.ledger.parent)
    return Ledger.open(design.ledger, readonly=readonly)


def plans_in(work: Work) -> tuple[int, Iterator[Plan]]:
    """Return how many plans a study has, and all of them."""
    parts = [plans_of(data, work) for data in work.design.data]
    return sum(count for count, _ in parts), chain.from_iterable(plans for _, plans in parts)
