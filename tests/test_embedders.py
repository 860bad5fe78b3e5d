import asyncio
import json
import math
import os
import sys
import types
from pathlib import Path

import numpy as np
import pytest

from gatewise.errors import BadChoice, Mistake, Unavailable
from gatewise.recordings import embedders
from gatewise.recordings.client import post, session
from gatewise.recordings.embedders import BATCH, Endpoint, MiniLM, SentenceTransformer, kept, vectors_in
from gatewise.recordings.ledger import Ledger
from gatewise.recordings.retries import Patience
from gatewise.recordings.weights import MODELS, fetch_model, weight_path
from server import Reply, Server, as_json

QUICK = Patience(attempts=2, first_wait=0.01, longest_wait=1, silence=0.5)
KEY = "sk-very-secret-0123456789"


@pytest.fixture
def server():
    with Server() as one:
        yield one


def embed(by, texts):
    async def once():
        return await by(texts)

    return asyncio.run(once())


# An endpoint


def vector(text):
    """Return what the made-up model says of a text: its length and its first letter."""
    return [float(len(text)), float(ord(text[0]))]


def answering(seen):
    texts = seen.json["input"]
    data = [{"object": "embedding", "index": place, "embedding": vector(text)} for place, text in enumerate(texts)]
    return as_json({"object": "list", "model": seen.json["model"], "data": data[::-1], "usage": {"total_tokens": 1}})


def ask(url, texts, key=""):
    async def once():
        async with session(QUICK) as opened:
            by = Endpoint("bge-m3", lambda body: post(opened, url, body, key=key, patience=QUICK))
            assert (by.name, by.digest) == ("bge-m3", "")
            return await by(texts)

    return asyncio.run(once())


def refused(url, texts=("a", "bb", "ccc"), key=""):
    with pytest.raises(Mistake) as caught:
        ask(url, texts, key)
    return str(caught.value)


def test_an_endpoint_gives_a_vector_a_text_in_the_order_of_the_texts(server):
    texts = ["b", "aa", "dé", "c"]
    found = ask(server.on("/v1/embeddings", answering), texts, KEY)
    assert found.dtype == np.float32
    assert found.tolist() == [vector(text) for text in texts]
    (seen,) = server.seen
    assert seen.json == {"model": "bge-m3", "input": texts, "encoding_format": "float"}
    assert seen.headers["authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize("count", [1, BATCH, BATCH + 1, 3 * BATCH - 1])
def test_many_texts_are_asked_for_in_batches(server, count):
    texts = [f"{chr(97 + place % 26)}{'x' * place}" for place in range(count)]
    found = ask(server.on("/e", answering), texts)
    assert found.tolist() == [vector(text) for text in texts]
    sizes = [len(seen.json["input"]) for seen in server.seen]
    assert sum(sizes) == count
    assert max(sizes) <= BATCH
    assert len(sizes) == -(-count // BATCH)


def test_only_so_many_requests_are_under_way_at_once(monkeypatch):
    monkeypatch.setattr(embedders, "BATCH", 1)
    under_way, most = 0, 0

    async def call(body):
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0.001)
        under_way -= 1
        return {"data": [{"index": 0, "embedding": [1.0]}]}

    async def once():
        return await Endpoint("m", call)(["a"] * 40)

    assert asyncio.run(once()).shape == (40, 1)
    assert most == embedders.AT_ONCE


def ask_kept(url, texts, path):
    async def once():
        async with session(QUICK) as opened:
            call = kept(lambda body: post(opened, url, body, key=KEY, patience=QUICK), url, ledger)
            return await Endpoint("bge-m3", call)(texts)

    with Ledger.open(path) as ledger:
        return asyncio.run(once())


def test_vectors_that_were_paid_for_are_taken_from_the_ledger(server, tmp_path):
    path, texts = tmp_path / "ledger.sqlite", [f"text {place}" for place in range(BATCH + 3)]
    url = server.on("/v1/embeddings", answering)
    first = ask_kept(url, texts, path)
    assert len(server.seen) == 2
    assert np.array_equal(ask_kept(url, texts, path), first)
    assert len(server.seen) == 2
    with Ledger.open(path) as ledger:
        entries = list(ledger.entries())
    assert {(entry.kind, entry.endpoint) for entry in entries} == {("embedding", url)}
    assert all(entry.started and entry.latency is not None for entry in entries)
    assert not any(KEY.encode() in one.read_bytes() for one in tmp_path.iterdir())


def test_a_reply_without_vectors_is_no_answer_and_not_kept(server, tmp_path):
    path = tmp_path / "ledger.sqlite"
    url = server.on("/v1/embeddings", as_json({"error": {"message": "overloaded"}}), answering)
    with pytest.raises(Unavailable, match="expected a list of embeddings"):
        ask_kept(url, ["a"], path)
    assert ask_kept(url, ["a"], path).tolist() == [vector("a")]
    with Ledger.open(path) as ledger:
        assert len(ledger) == 1


def test_an_endpoint_survives_more_than_one_event_loop():
    async def call(body):
        await asyncio.sleep(0)
        return {"data": [{"index": place, "embedding": [1.0]} for place, _ in enumerate(body["input"])]}

    by = Endpoint("m", call)
    assert embed(by, ["a"] * 1000).shape == (1000, 1)
    assert embed(by, ["a"] * 1000).shape == (1000, 1)


def rows(*vectors, places=None):
    places = range(len(vectors)) if places is None else places
    return {"data": [{"index": at, "embedding": one} for at, one in zip(places, vectors, strict=True)]}


WRONG = {
    "too few": rows([1.0], [2.0]),
    "too many": rows([1.0], [2.0], [3.0], [4.0]),
    "none": {"data": []},
    "ragged": rows([1.0, 2.0], [1.0], [1.0, 2.0]),
    "without numbers": rows([], [], []),
    "not a number": rows([math.nan], [1.0], [2.0]),
    "infinite": rows([math.inf], [1.0], [2.0]),
    "too large": rows([1e300], [1.0], [2.0]),
    "far too large": rows([10**400], [1.0], [2.0]),
    "null inside": rows([None], [1.0], [2.0]),
    "null": rows(None, None, None),
    "numbers": rows(1.0, 2.0, 3.0),
    "nested": rows([[1.0]], [[1.0]], [[1.0]]),
    "texts": rows("AACAPw==", "AACAPw==", "AACAPw=="),
    "an index twice": rows([1.0], [2.0], [3.0], places=[0, 1, 1]),
    "an index beyond": rows([1.0], [2.0], [3.0], places=[1, 2, 3]),
    "an infinite index": rows([1.0], [2.0], [3.0], places=[0, 1, math.inf]),
    "no number as index": rows([1.0], [2.0], [3.0], places=[0, 1, math.nan]),
    "a text as index": rows([1.0], [2.0], [3.0], places=["a", "b", "c"]),
    "no index": {"data": [{"embedding": [1.0]}] * 3},
    "no embedding": {"data": [{"index": place} for place in range(3)]},
    "an error": {"error": {"message": "model not found"}},
    "no data": {"data": None},
    "data of another kind": {"data": {"index": 0}},
    "a list": [1, 2, 3],
    "a text": "sorry",
    "null at all": None,
    "a chat": {"choices": [{"message": {"content": "Hello"}}]},
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_reply_that_is_no_vector_a_text_is_refused(server, wrong):
    said = refused(server.on("/e", as_json(WRONG[wrong])))
    assert said.startswith("expected")
    assert "found" in said
    assert said.endswith("Is this an embedding model?")
    with pytest.raises(Unavailable):
        vectors_in(WRONG[wrong], 3)


def test_batches_of_different_length_are_refused(server):
    def growing(seen):
        return as_json(rows(*[[1.0] * (1 + len(seen.json["input"]))] * len(seen.json["input"])))

    assert "vectors of one length" in refused(server.on("/e", growing), ["a"] * (BATCH + 1))


@pytest.mark.parametrize("count", [1, BATCH + 1, 5 * BATCH])
def test_a_refused_key_is_one_plain_mistake_however_many_batches_there_are(server, count):
    body = {"error": {"message": f"Incorrect API key provided: {KEY}"}}
    said = refused(server.on("/e", as_json(body, 401)), ["a"] * count, KEY)
    assert "HTTP 401" in said
    assert said.endswith("Check the key.")
    assert KEY not in said


def test_an_error_that_passes_is_waited_out_in_the_batch_that_has_it(server):
    busy = Reply(429, headers={"Retry-After": "0"})
    found = ask(server.on("/e", busy, answering), ["a"] * (2 * BATCH))
    assert len(found) == 2 * BATCH
    assert len(server.seen) == 3


# The embedded model


def cache_folder():
    named = os.environ.get("GATEWISE_CACHE")
    return Path(named) if named else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gatewise"


@pytest.fixture(scope="module")
def minilm():
    pytest.importorskip("onnxruntime", reason="needs the extra gatewise[embed]")
    pytest.importorskip("tokenizers", reason="needs the extra gatewise[embed]")
    try:
        asyncio.run(fetch_model(MODELS["minilm"], cache_folder(), patience=QUICK))
    except Unavailable as failure:
        pytest.skip(f"the weights of minilm are not in {cache_folder()}, and could not be fetched: {failure}")
    return MiniLM(cache_folder())


TEXTS = [
    "The cat sleeps on the warm sofa.",
    "A kitten is napping on the cosy couch.",
    "The central bank raised its interest rate by half a point.",
    "Interest rates went up by fifty basis points, the central bank said.",
    "Tin is a metal.",
]


def test_the_embedded_model_is_known_by_the_digest_of_its_weights(minilm):
    assert minilm.name == "minilm"
    assert minilm.digest == MODELS["minilm"].weights[0].sha256


def test_a_text_has_the_same_vector_alone_as_in_company(minilm):
    together = embed(minilm, TEXTS)
    assert together.dtype == np.float32
    assert together.shape == (5, 384)
    assert np.array_equal(together, np.concatenate([embed(minilm, [text]) for text in TEXTS]))
    assert np.array_equal(together[::-1], embed(minilm, TEXTS[::-1]))


def test_vectors_have_length_one(minilm):
    found = embed(minilm, [*TEXTS, "", " ", "?"]).astype(float)
    assert np.allclose(np.linalg.norm(found, axis=1), 1, atol=1e-6)


def test_a_paraphrase_is_closer_than_another_subject(minilm):
    cosines = (found := embed(minilm, TEXTS)) @ found.T
    for one, other in ((0, 1), (2, 3)):
        assert cosines[one, other] > 0.6
        assert all(cosines[one, other] > cosines[one, k] + 0.3 for k in range(5) if k not in (one, other))


def test_words_are_read_as_the_model_was_taught_them(minilm):
    def ids(text):
        return minilm._tokens.encode(text).ids

    assert ids("Hello, world!") == [101, 7592, 1010, 2088, 999, 102]  # as bert-base-uncased has them
    assert ids("") == [101, 102]
    assert ids("Café \u4e2d") == [101, 7668, 1746, 102]  # accents are stripped, an ideograph is a word
    assert minilm._tokens.get_vocab_size() == 30522


def test_case_and_accents_do_not_matter_and_the_order_of_words_does(minilm):
    found = embed(minilm, ["Café au lait", "cafe AU LAIT", "Man bites dog", "Dog bites man"])
    assert np.array_equal(found[0], found[1])
    assert not np.array_equal(found[2], found[3])


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\0",
        "\ud800",
        "a\udfffb",
        "\U0001f600" * 1000,
        "x" * 1_000_000,
        "中" * 50_000,
        "[CLS] [SEP] [MASK] [PAD] [UNK]",
        "\u202e\u200d\ufeff\x1b[31m",
        "e" + "\u0301" * 10_000,
        "\n" * 100_000,
    ],
    ids=lambda text: f"{text[:3]!a} × {len(text)}",
)
def test_long_and_hostile_texts_have_a_vector_like_any_other(minilm, text):
    found = embed(minilm, [text, TEXTS[0]])
    assert np.isfinite(found).all()
    assert abs(float(np.linalg.norm(found[0].astype(float))) - 1) < 1e-6
    assert np.array_equal(found[1], embed(minilm, [TEXTS[0]])[0])


def test_what_stands_beyond_the_longest_text_is_not_read(minilm):
    long = "word " * 300
    one, other = embed(minilm, [long, long + "and a cat"])
    assert np.array_equal(one, other)


def test_weights_that_are_missing_are_said_with_the_command_that_fetches_them(tmp_path):
    pytest.importorskip("onnxruntime", reason="needs the extra gatewise[embed]")
    with pytest.raises(BadChoice) as caught:
        MiniLM(tmp_path)
    said = str(caught.value)
    assert str(tmp_path / "models" / "minilm") in said
    assert said.endswith("Run gatewise fetch model minilm.")


def test_weights_that_are_not_the_meant_ones_are_not_loaded(tmp_path):
    pytest.importorskip("onnxruntime", reason="needs the extra gatewise[embed]")
    for weight in MODELS["minilm"].weights:
        path = weight_path(MODELS["minilm"], weight, tmp_path)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"no model")
    with pytest.raises(BadChoice, match="Run gatewise fetch model minilm"):
        MiniLM(tmp_path)


@pytest.mark.parametrize("library", ["onnxruntime", "tokenizers"])
def test_the_embedded_model_without_its_extra_says_what_to_install(tmp_path, monkeypatch, library):
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(BadChoice) as caught:
        MiniLM(tmp_path)
    assert library in str(caught.value)
    assert "Install gatewise[embed]" in str(caught.value)


# sentence-transformers


def test_sentence_transformers_without_its_extra_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(BadChoice) as caught:
        SentenceTransformer()
    assert "Install gatewise[sentence-transformers]" in str(caught.value)
    assert "endpoint" in str(caught.value)


@pytest.fixture
def stand_in(monkeypatch):
    """Let a few lines stand in for the library, which is large: what it is asked for is noted."""
    asked = []

    class Model:
        def __init__(self, name):
            if name == "absent":
                raise OSError("absent is not a local folder\nand not on the hub \x1b[31m")
            asked.append(name)

        def encode(self, texts, **settings):
            asked.append((texts, settings))
            return np.ones((len(texts), 2), np.float64)

    monkeypatch.setitem(sys.modules, "sentence_transformers", types.SimpleNamespace(SentenceTransformer=Model))
    return asked


def test_sentence_transformers_is_asked_for_normalized_vectors_of_the_model_of_the_paper(stand_in):
    by = SentenceTransformer()
    assert (by.name, by.digest) == ("BAAI/bge-m3", "")
    found = embed(by, ("a", "b"))
    assert found.dtype == np.float32
    assert found.shape == (2, 2)
    assert stand_in == ["BAAI/bge-m3", (["a", "b"], {"normalize_embeddings": True, "show_progress_bar": False})]


@pytest.mark.usefixtures("stand_in")
def test_a_model_that_sentence_transformers_cannot_load_is_said():
    with pytest.raises(Unavailable) as caught:
        SentenceTransformer("absent")
    said = str(caught.value)
    assert "expected the model absent, found: absent is not a local folder" in said
    assert said.isprintable()


def test_vectors_that_are_under_way_at_an_interrupt_are_kept(tmp_path):
    reply = {"data": [{"index": 0, "embedding": [1.0, 2.0]}]}

    async def slow(body):
        await asyncio.sleep(0.2)
        return reply

    async def interrupted(call):
        task = asyncio.create_task(call({"model": "e", "input": ["a"]}))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with Ledger.open(tmp_path / "l.sqlite") as ledger:
        asyncio.run(interrupted(kept(slow, "http://localhost/v1/embeddings", ledger)))
        assert [json.loads(one.raw) for one in ledger.entries()] == [reply]
