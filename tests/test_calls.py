import hashlib
import json

from gatewise.recordings.calls import Request, as_sent

ENDPOINT = "http://localhost/v1/chat/completions"


def test_a_key_is_the_hash_of_endpoint_exact_body_and_attempt():
    one = Request(ENDPOINT, {"model": "m", "temperature": 0})
    said = '["0","http://localhost/v1/chat/completions",{"model":"m","temperature":0}]'
    assert one.key == hashlib.sha256(said.encode()).hexdigest()


def test_a_key_changes_with_endpoint_body_and_attempt_and_with_nothing_else():
    one = Request(ENDPOINT, {"model": "m", "seed": 1})
    others = [
        Request("http://localhost/v2/chat/completions", one.body),
        Request(ENDPOINT, {"model": "m", "seed": 2}),
        Request(ENDPOINT, {"model": "m"}),
        one.again(),
    ]
    assert len({one.key, *(other.key for other in others)}) == 5
    assert Request(ENDPOINT, {"model": "m", "seed": 1}, kind="verdict").key == one.key


def test_a_body_is_sent_as_ascii_in_the_order_given_which_is_the_order_in_which_a_schema_is_answered():
    body = {"b": "\ud800 \u202e é", "a": [1.5, None]}
    assert as_sent(body) == '{"b":"\\ud800 \\u202e \\u00e9","a":[1.5,null]}'
    assert json.loads(as_sent(body)) == body


def test_another_attempt_asks_the_same_once_more():
    again = Request(ENDPOINT, {"model": "m"}, kind="verdict").again().again()
    assert (again.attempt, again.kind, again.body) == (2, "verdict", {"model": "m"})
