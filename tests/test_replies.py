import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatewise.recordings.readings import Said, Unreadable, read_answer
from gatewise.recordings.replies import Completion, Token, p_true, read_reply, token_probability

CONTENT = '{"answer": "Zürich 😀", "confidence": 85}'


def raw(message=None, **fields):
    choice = {"message": {"content": CONTENT} if message is None else message, "finish_reason": "stop"}
    return json.dumps({"choices": [choice | fields.pop("choice", {})], **fields})


def tokens(*pieces, probability=0.5, told="bytes"):
    """The log-probabilities of a reply as servers list them, a piece of bytes a token."""
    rows = []
    for place, piece in enumerate(pieces):
        said = piece.encode() if isinstance(piece, str) else piece
        row = {"token": said.decode("utf-8", "replace"), "logprob": math.log(probability) - place}
        rows.append(row | ({"bytes": list(said)} if told == "bytes" else {"bytes": None}))
    return {"logprobs": {"content": rows}}


# Completions


def test_a_completion_holds_what_the_reply_says():
    found = read_reply(
        raw(
            model="m-2026",
            provider="P",
            usage={"prompt_tokens": 12, "completion_tokens": 3, "cost": 0.25e-3},
            choice={"finish_reason": "length"} | tokens("a", "b"),
        )
    )
    assert (found.content, found.finish, found.served_model, found.provider) == (CONTENT, "length", "m-2026", "P")
    assert (found.input_tokens, found.output_tokens, found.cost_usd) == (12, 3, 0.00025)
    assert [one.text for one in found.tokens] == ["a", "b"]


def test_what_a_server_does_not_say_is_empty_or_null():
    assert read_reply('{"choices": [{"message": {"content": "x"}}]}') == Completion("x")
    odd = {"prompt_tokens": True, "completion_tokens": -1, "cost": "0.1"}
    assert read_reply(raw({"content": "x"}, usage=odd, model=3, provider=None)) == Completion("x")
    assert read_reply(raw({"content": "x"}, usage={"prompt_tokens": 1e400, "cost": 10**400})) == Completion("x")


def test_empty_content_beside_reasoning_is_empty():
    found = read_reply(raw({"content": None, "reasoning": CONTENT, "reasoning_content": CONTENT}))
    assert found.content == ""
    assert read_answer(found.content, found.finish) == Unreadable("empty")


def test_a_refusal_in_its_own_field_is_a_refusal_whatever_stands_beside_it():
    for content in (None, CONTENT):
        found = read_reply(raw({"content": content, "refusal": "No."}))
        assert (found.refusal, found.finish) == ("No.", "refusal")
        assert read_answer(found.content, found.finish) == Unreadable("refusal")
    assert read_reply(raw({"content": CONTENT, "refusal": None})).finish == "stop"


def test_content_in_parts_is_joined_and_its_reasoning_left_out():
    parts = [
        {"type": "thinking", "thinking": [{"type": "text", "text": "Rome?"}]},
        {"type": "text", "text": CONTENT[:9]},
    ]
    found = read_reply(raw({"content": [*parts, {"type": "text", "text": CONTENT[9:]}, 3, {"type": "text"}]}))
    assert found.content == CONTENT


@pytest.mark.parametrize(
    "garbage",
    ["", "null", "[]", "{}", "<html>", '{"choices": []}', '{"choices": {}}', '{"choices": [1]}', '{"choices": [{}]}',
     '{"choices": [{"message": "x"}]}', '{"error": {"message": "no"}}', '{"choices": [{"mess', "[" * 100_000,
     '{"choices": ' + "9" * 10_000 + "}", "\ud800", '{"choices": [{"delta": {"content": "x"}}]}'],
    ids=lambda one: ascii(one)[:30],
)  # fmt: skip
def test_what_is_no_completion_is_refused(garbage):
    assert read_reply(garbage) == Unreadable("no completion")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
FIELDS = ["content", "refusal", "finish_reason", "logprobs", "usage", "model", "provider", "cost", "token", "logprob"]


@given(st.text() | json_values.map(json.dumps))
def test_no_reply_whatever_raises(text):
    assert isinstance(read_reply(text), Completion | Unreadable)


@given(*[json_values] * 8)
def test_no_odd_field_raises(content, refusal, finish, usage, model, logprobs, token, top):
    for probs in (
        logprobs,
        {"content": logprobs},
        {"content": [token, {"token": "a", "logprob": 0, "top_logprobs": top}]},
    ):
        reply = {
            "choices": [
                {"message": {"content": content, "refusal": refusal}, "finish_reason": finish, "logprobs": probs}
            ],
            "usage": {"prompt_tokens": usage, "completion_tokens": usage, "cost": usage},
            "model": model,
            "provider": model,
        }
        found = read_reply(json.dumps(reply))
        assert isinstance(found, Completion)
        for value in (token_probability(found), p_true(found)):
            assert value is None or 0 <= value <= 1


def test_five_megabytes_are_read():
    found = read_reply(raw({"content": json.dumps({"answer": "x" * 5_000_000, "confidence": 85})}))
    assert read_answer(found.content) == Said("x" * 5_000_000, 0.85)


# Token probability


def mean(*places):
    return math.fsum(0.5 * math.exp(-place) for place in places) / len(places)


def test_the_tokens_that_carry_the_answer_are_those_that_overlap_its_text():
    found = read_reply(raw(choice=tokens('{"', "answer", '": "Zü', "rich", " 😀", '",', ' "confidence": 85}')))
    assert token_probability(found) == pytest.approx(mean(2, 3, 4))


def test_a_token_of_punctuation_alone_does_not_count():
    found = read_reply(raw(choice=tokens('{"answer": "', "Zürich 😀", '", "confidence"', ": 85}")))
    assert token_probability(found) == pytest.approx(mean(1))


def test_characters_split_between_tokens_are_put_together_by_their_bytes():
    face = "😀".encode()
    pieces = ['{"answer": "', b"Z\xc3", b"\xbcrich ", face[:1], face[1:3], face[3:], '", "confidence": 85}']
    found = read_reply(raw(choice=tokens(*pieces)))
    assert token_probability(found) == pytest.approx(mean(1, 2, 3, 4, 5))
    without = read_reply(raw(choice=tokens(*pieces, told="text")))
    assert token_probability(without) is None


def test_tokens_without_bytes_serve_where_their_texts_are_the_content():
    found = read_reply(raw(choice=tokens('{"answer": "', "Zürich 😀", '", "confidence": 85}', told="text")))
    assert token_probability(found) == pytest.approx(mean(1))


def test_a_token_without_text_does_not_count_and_no_probability_exceeds_one():
    listed = tokens('{"answer": "', "Zürich", "", " 😀", '", "confidence": 85}')
    assert token_probability(read_reply(raw(choice=listed))) == pytest.approx(mean(1, 3))
    for row in listed["logprobs"]["content"]:
        row["logprob"] = 1e-7  # as rounding gives it
    assert token_probability(read_reply(raw(choice=listed))) == 1.0


def test_escapes_and_numbers_are_found_where_they_stand():
    content = '{"confidence": 85, "answer" : "a\\"\\u00e9\\n"}'
    found = read_reply(raw({"content": content}, choice=tokens(content[:31], content[31:35], content[35:])))
    assert content[31:35] == 'a\\"\\'
    assert token_probability(found) == pytest.approx(mean(1, 2))
    content = '{"answer": 1889, "confidence": 85}'
    found = read_reply(raw({"content": content}, choice=tokens('{"answer": ', "18", "89", ', "confidence": 85}')))
    assert token_probability(found) == pytest.approx(mean(1, 2))


def test_tokens_that_the_server_left_out_of_the_content_are_passed_over():
    # llama.cpp lists the fence that it strips; others a token that ends the turn, or the reasoning
    found = read_reply(
        raw(choice=tokens("```", "json\n", '{"answer": "', "Zürich 😀", '", "confidence": 85}', "\n```", ""))
    )
    assert token_probability(found) == pytest.approx(mean(3))


@pytest.mark.parametrize(
    "pieces",
    [(), ("other",), (CONTENT[:-1],), (CONTENT, CONTENT), (CONTENT + "\n", "So: ", CONTENT)],
    ids=["none", "other", "less", "twice", "a draft"],
)
def test_tokens_that_do_not_hold_the_content_once_give_no_value(pieces):
    assert token_probability(read_reply(raw(choice=tokens(*pieces)))) is None


def test_an_unreadable_reply_or_a_broken_token_gives_no_value():
    content = '{"answer": "a", "confidence": 0.5}'
    assert token_probability(read_reply(raw({"content": content}, choice=tokens(content)))) is None
    broken = tokens(CONTENT)
    broken["logprobs"]["content"].append({"token": "x", "logprob": None})
    assert token_probability(read_reply(raw(choice=broken))) is None
    half = '{"answer": "a\\ud800", "confidence": 85}'
    assert token_probability(read_reply(raw({"content": half}, choice=tokens(half)))) == pytest.approx(0.5)
    assert (
        token_probability(Completion('{"answer": "a\ud800", "confidence": 85}', tokens=(Token("a", -1.0),))) is None
    )


# Yes or No


def one_word(*top, said="Yes", before=()):
    probs = [*before, Token(said, top[0][1] if top else 0.0, tuple((text, math.log(mass)) for text, mass in top))]
    return Completion(said, tokens=tuple(probs))


def test_variants_of_yes_and_no_add_up():
    found = one_word(
        ("Yes", 0.4), (" yes", 0.1), ("YES", 0.05), ("No", 0.2), ("▁no", 0.05), ("Maybe", 0.1), ("Yesterday", 0.1)
    )
    assert p_true(found) == pytest.approx(0.55 / 0.8)


def test_the_first_token_that_is_not_blank_counts():
    assert p_true(one_word(("Yes", 0.6), ("No", 0.2), before=[Token("\n", -0.1, ((" ", -0.1),))])) == pytest.approx(
        0.75
    )


def test_a_word_that_is_not_among_the_likeliest_counts_as_nothing():
    assert p_true(one_word(("Yes", 0.9), ("Sure", 0.1))) == 1.0
    assert p_true(one_word(("No", 0.9), ("Nope", 0.1), said="No")) == 0.0


def test_without_either_word_or_a_list_there_is_no_value():
    assert p_true(one_word(("Maybe", 0.9), ("Sure", 0.1), said="Maybe")) is None
    assert p_true(one_word()) is None
    assert p_true(Completion("Yes")) is None
    assert p_true(Completion("", tokens=(Token("  ", 0.0, (("Yes", 0.0),)),))) is None


def test_p_true_is_read_off_a_reply():
    top = [
        {"token": "Yes", "logprob": math.log(0.6), "bytes": [89, 101, 115]},
        {"token": " No", "logprob": math.log(0.3)},
    ]
    first = {"token": "Yes", "logprob": math.log(0.6), "bytes": [89, 101, 115], "top_logprobs": top}
    found = read_reply(raw({"content": "Yes"}, choice={"logprobs": {"content": [first]}}))
    assert p_true(found) == pytest.approx(2 / 3)
