"""gatewise serve-local as its user meets it, where the smallest weights are in the cache."""

import json
import os
import signal
import subprocess
import sys
import urllib.request

import pytest

from gatewise.errors import BadChoice
from gatewise.recordings.local import model_file
from test_local import cache_folder


@pytest.fixture
def address():
    pytest.importorskip("xllamacpp", reason="needs the extra gatewise[local]")
    try:
        model_file("smollm2-135m", cache_folder())
    except BadChoice as missing:
        pytest.skip(f"THE EMBEDDED MODEL IS NOT TESTED: {missing}")
    command = [
        sys.executable,
        "-m",
        "gatewise",
        "serve-local",
        "--model",
        "smollm2-135m",
        "--port",
        "0",
        "--threads",
        "1",
    ]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    ) as server:
        try:
            word, address, *_ = server.stdout.readline().split()
            assert word == "ready"
            assert "b179c9523d0e" in server.stdout.readline()
            yield address
        finally:
            server.send_signal(signal.SIGINT)
            assert server.wait(30) == 0
            said = server.stderr.read()
            assert said.startswith("loading ")
            assert "stopped: " in said
            assert "Traceback" not in said
            assert len(said.splitlines()) == 2  # and nothing of llama.cpp


def test_the_embedded_model_is_served_and_ctrl_c_ends_it_cleanly(address):
    body = {
        "model": "smollm2-135m",
        "messages": [{"role": "user", "content": "Hi"}],
        "max_tokens": 3,
        "temperature": 0,
    }
    data = json.dumps(body).encode()
    asked = urllib.request.Request(f"{address}/chat/completions", data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(asked) as reply:
        first = reply.read()
    with urllib.request.urlopen(asked) as reply:
        assert reply.read() == first
    assert json.loads(first)["usage"]["completion_tokens"] == 3


def test_a_model_that_is_not_known_is_said():
    command = [sys.executable, "-m", "gatewise", "serve-local", "--model", "qwen-0.7b"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "did you mean qwen-0.5b" in done.stderr
