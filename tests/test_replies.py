import json

from gatewise.recordings.replies import Completion, read_reply


def test_a_completion_is_read():
    raw = json.dumps({"choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}], "model": "m"})
    assert read_reply(raw) == Completion("Hi", served_model="m")
