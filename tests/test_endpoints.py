import pytest

from gatewise.errors import BadChoice
from gatewise.recordings.endpoints import Form

HERE = "http://localhost:8000/v1"
ASKED = [{"role": "user", "content": "Who?"}]


def test_the_form_that_was_noted_is_read_back():
    form = Form("plain", "max_completion_tokens", temperature=False, seed=False, logprobs=False)
    assert Form.from_json(form.as_json()) == form
    with pytest.raises(BadChoice):
        Form.from_json("{}x")
