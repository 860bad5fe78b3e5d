"""The embedded model itself, where its smallest weights are in the cache."""

import asyncio
import json
import os
from pathlib import Path

import pytest

from gatewise.errors import BadChoice
from gatewise.recordings.local import Local, model_file

SCHEMA = {
    "type": "object",
    "properties": {
        "answer": {"type": "string", "minLength": 1},
        "confidence": {"type": "integer", "minimum": 0, "maximum": 100},
    },
    "required": ["answer", "confidence"],
    "additionalProperties": False,
}
FORM = {"type": "json_schema", "json_schema": {"name": "answer", "strict": True, "schema": SCHEMA}}
EVIDENCE = [f"[{n}] The river number {n} flows through the valley of {n * 7} oaks.\n" for n in range(12)]


def cache_folder():
    named = os.environ.get("GATEWISE_CACHE")
    return Path(named) if named else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gatewise"


@pytest.fixture(scope="module")
def path():
    pytest.importorskip("xllamacpp", reason="needs the extra gatewise[local]")
    try:
        return model_file("smollm2-135m", cache_folder())
    except BadChoice as missing:
        pytest.skip(f"THE EMBEDDED MODEL IS NOT TESTED: {missing}")


@pytest.fixture(scope="module")
def model(path):
    with Local(path, threads=2) as one:
        yield one


def body(question="What is the capital of France?", *more, **settings):
    messages = [
        {"role": "system", "content": "Answer as JSON with answer and confidence."},
        {"role": "user", "content": question},
        *more,
    ]
    return {"model": "m", "messages": messages, "temperature": 0, "max_tokens": 30, **settings}


def shown(depth):
    return body("Which river is the longest?\n" + "".join(EVIDENCE[: 4 * depth]), response_format=FORM)


def ask(model, *bodies):
    async def all_of_them():
        return await asyncio.gather(*(model(one) for one in bodies))

    raws = [reply.raw for reply in asyncio.run(all_of_them())]
    return raws[0] if len(raws) == 1 else raws


def content(raw):
    return json.loads(raw)["choices"][0]["message"]["content"]


def test_the_model_is_known_by_its_name_and_digest(model):
    assert model.name == "local:smollm2-135m@sha256:b179c9523d0e"
    assert model.digest.startswith("b179c9523d0e")


def test_an_answer_holds_to_the_schema_on_one_line(model):
    raw = ask(model, body(response_format=FORM))
    found = json.loads(content(raw))
    assert list(found) == ["answer", "confidence"]
    assert "\n" not in content(raw)
    said = json.loads(raw)
    assert said["choices"][0]["finish_reason"] == "stop"
    assert said["model"] == model.name
    assert said["usage"]["total_tokens"] == said["usage"]["prompt_tokens"] + said["usage"]["completion_tokens"]
    assert str(Path.home()) not in raw


def test_a_reply_is_the_same_bytes_whatever_was_asked_before(model):
    first = ask(model, shown(3))
    ask(model, body("Tell me of Rome."))
    ladder = [ask(model, shown(depth)) for depth in (0, 1, 2, 3)]
    assert ladder[3] == first
    assert ask(model, shown(3)) == first
    assert ask(model, shown(1)) == ladder[1]
    assert ask(model, shown(2), shown(0), shown(3)) == [ladder[2], ladder[0], first]


def test_a_conversation_goes_on_with_the_same_bytes_wherever_the_models_words_came_from(model):
    one = shown(2)
    said = content(ask(model, one))
    more = {"role": "assistant", "content": said}, {"role": "user", "content": "Is that true? Say Yes or No."}
    after = {**one, "messages": [*one["messages"], *more], "max_tokens": 1, "logprobs": True, "top_logprobs": 5}
    del after["response_format"]
    follows = ask(model, after)
    assert ask(model, after) == follows
    ask(model, body("Tell me of Rome."))
    assert ask(model, after) == follows
    ask(model, one)
    assert ask(model, after) == follows


def test_the_evidence_that_two_depths_share_is_read_once(model):
    ask(model, body("Something else."), shown(1))
    read, reused = model.read, model.reused
    whole = json.loads(ask(model, shown(3)))["usage"]["prompt_tokens"]
    assert model.read - read < 0.8 * whole
    assert (model.read - read) + (model.reused - reused) == whole
