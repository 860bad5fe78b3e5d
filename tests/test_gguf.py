"""What a model file says of itself, read from small made-up ones."""

import struct

import pytest

from gatewise.errors import BrokenFile
from gatewise.recordings.gguf import read_card


def text(value):
    return struct.pack("<Q", len(value.encode())) + value.encode()


def field(name, kind, content):
    return text(name) + struct.pack("<I", kind) + content


def texts(name, values):
    return field(name, 9, struct.pack("<IQ", 8, len(values)) + b"".join(map(text, values)))


def numbers(name, values):
    return field(name, 9, struct.pack(f"<IQ{len(values)}i", 5, len(values), *values))


FIELDS = [
    field("general.architecture", 8, text("llama")),
    field("general.name", 8, text("Tiny")),
    field("llama.context_length", 4, struct.pack("<I", 2048)),
    field("llama.eps", 6, struct.pack("<f", 0.5)),
    texts("tokenizer.ggml.tokens", ["a", "<|end|>", "<|end|>s", "<", "b"]),
    numbers("tokenizer.ggml.token_type", [1, 3, 3, 3, 1]),
    field("behind", 99, b""),  # which is not read
]


def gguf(fields=FIELDS, magic=b"GGUF", version=3):
    return magic + struct.pack("<IQQ", version, 0, len(fields)) + b"".join(fields)


@pytest.fixture
def card(tmp_path):
    def read(content):
        path = tmp_path / "tiny.gguf"
        path.write_bytes(content)
        return read_card(path)

    return read


def test_a_card_names_the_model_and_its_control_tokens(card):
    found = card(gguf())
    assert (found.title, found.context) == ("Tiny", 2048)
    assert found.controls == ("<|end|>s", "<|end|>")  # the longer first, and none of one letter


def test_a_file_without_words_has_no_control_tokens(card):
    assert card(gguf(FIELDS[:1])) == card(gguf([FIELDS[0]]))
    assert card(gguf([])).title == "tiny"
    assert card(gguf([])).controls == ()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"GGUF",
        gguf(magic=b"GGML"),
        gguf(version=1),
        gguf()[:100],
        gguf([field("x", 99, b"")]),
        gguf([field("x", 8, struct.pack("<Q", 1 << 60))]),
        gguf([field("x", 9, struct.pack("<IQ", 4, 1 << 60))]),
        gguf([field("x", 9, struct.pack("<IQ", 9, 1))]),
        b"GGUF" + struct.pack("<IQQ", 3, 0, 1 << 60),
    ],
)
def test_what_is_no_model_file_is_refused(card, content):
    with pytest.raises(BrokenFile, match="expected a model in the GGUF format"):
        card(content)


def test_a_file_that_is_not_there_is_said(tmp_path):
    with pytest.raises(BrokenFile, match="No such file"):
        read_card(tmp_path / "none.gguf")
