import json
import pickle
from dataclasses import asdict, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatewise.errors import BadChoice, Refused
from gatewise.recordings.calls import as_sent
from gatewise.recordings.endpoints import FIRST, SCHEMAS, Form, Prices, Settings, request_body, simpler

HERE = "http://localhost:8000/v1"
ASKED = [{"role": "system", "content": "Answer."}, {"role": "user", "content": "Who?"}]
SCHEMA = {
    "title": "answer",
    "type": "object",
    "properties": {
        "answer": {"type": "string", "minLength": 1},
        "confidence": {"type": "integer", "minimum": 0, "maximum": 100},
    },
    "required": ["answer", "confidence"],
    "additionalProperties": False,
}
MODEL = Settings("some/model", HERE, seed=7, logprobs=True)


def body(form=FIRST, settings=MODEL, schema=SCHEMA, **more):
    return request_body(settings, form, ASKED, schema, **more)


# Bodies


def test_the_first_body_is_strict_and_says_everything():
    bound = {name: value for name, value in SCHEMA.items() if name != "title"}
    assert body() == {
        "model": "some/model",
        "messages": ASKED,
        "max_tokens": 400,
        "temperature": 0.0,
        "seed": 7,
        "logprobs": True,
        "top_logprobs": 5,
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "answer", "strict": True, "schema": bound},
        },
    }


def test_a_form_leaves_out_what_a_server_does_not_understand():
    least = body(Form("plain", "max_completion_tokens", temperature=False, seed=False, logprobs=False))
    assert least == {"model": "some/model", "messages": ASKED, "max_completion_tokens": 400}
    assert body(replace(FIRST, schema="json_object"))["response_format"] == {"type": "json_object"}


def test_a_bare_schema_has_the_same_fields_without_bounds():
    told = body(replace(FIRST, schema="bare_schema"))["response_format"]["json_schema"]
    assert told["schema"]["properties"] == {"answer": {"type": "string"}, "confidence": {"type": "integer"}}
    assert (told["strict"], told["schema"]["additionalProperties"]) == (True, False)
    assert "minLength" in SCHEMA["properties"]["answer"]


def test_settings_without_temperature_seed_or_log_probabilities_send_none():
    least = body(settings=Settings("m", HERE, temperature=None), schema=None)
    assert least == {"model": "m", "messages": ASKED, "max_tokens": 400}


def test_one_call_may_have_another_limit_and_ask_for_log_probabilities():
    settings = Settings("m", HERE)
    asked = body(settings=settings, schema=None, max_tokens=1, top_logprobs=20)
    assert (asked["max_tokens"], asked["logprobs"], asked["top_logprobs"]) == (1, True, 20)
    off = body(replace(FIRST, logprobs=False), settings, None, max_tokens=1, top_logprobs=20)
    assert "logprobs" not in off


def test_the_extra_body_joins_as_it_is_and_has_the_last_word():
    extra = {"provider": {"order": ["here"]}, "temperature": 0.7, "usage": {"include": True}}
    asked = body(settings=replace(MODEL, extra=extra))
    assert {name: asked[name] for name in extra} == extra


def test_the_same_settings_give_the_same_bytes_whatever_the_order_of_the_extra_body():
    one, other = ({"b": 1, "a": 2}, {"a": 2, "b": 1})
    first, second = (as_sent(body(settings=replace(MODEL, extra=extra))) for extra in (one, other))
    assert first == second


def test_a_body_shares_nothing_with_the_messages_that_were_given():
    messages = [{"role": "user", "content": "Who?"}]
    made = request_body(MODEL, FIRST, messages)
    made["messages"][0]["content"] = "else"
    assert messages == [{"role": "user", "content": "Who?"}]


# Settings


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("https://openrouter.ai/api/v1", "https://openrouter.ai/api/v1/chat/completions"),
        ("http://localhost:11434/v1/", "http://localhost:11434/v1/chat/completions"),
        ("http://[::1]:8080/v1/chat/completions", "http://[::1]:8080/v1/chat/completions"),
    ],
)
def test_the_address_is_found_from_the_base_or_given_in_full(url, address):
    assert Settings("m", url).address == address


@pytest.mark.parametrize(
    "wrong",
    [
        {"url": "localhost:8000"},
        {"url": "ftp://localhost/v1"},
        {"url": "http://"},
        {"url": "http://[::1/v1"},
        {"url": "https://me:sk-canary-0123@example.org/v1"},
        {"url": "https://example.org/v1?key=sk-canary-0123"},
        {"url": "https://example.org/v1#sk-canary-0123"},
        {"url": "https://example.org/v1\n"},
        {"proxy": "http://me:sk-canary-0123@proxy:3128"},
        {"proxy": "proxy:3128"},
        {"model": ""},
        {"max_tokens": 0},
        {"concurrency": 0},
        {"timeout": 0},
        {"timeout": float("nan")},
        {"overall": -1},
        {"largest_reply": 0},
        {"requests_per_minute": 0},
        {"tokens_per_minute": -5},
        {"top_logprobs": 21},
        {"extra": {"model": "other"}},
        {"extra": {"stream": True}},
        {"extra": {"messages": []}},
        {"extra": {"weight": float("nan")}},
        {"extra": {"weight": {1, 2}}},
        {"extra": {"api_key": "sk-canary-0123"}},
    ],
)
def test_settings_that_cannot_be_are_refused_and_no_secret_is_shown(wrong):
    with pytest.raises(BadChoice) as caught:
        Settings(**{"model": "m", "url": HERE, **wrong})
    assert "canary" not in str(caught.value)
    assert "settings of a model" in str(caught.value)


def test_settings_hold_the_name_of_a_variable_and_no_key(monkeypatch):
    monkeypatch.setenv("OPENROUTER_API_KEY", "sk-canary-0123456789")
    settings = Settings("m", HERE, key_env="OPENROUTER_API_KEY", prices=Prices(0.1, 0.4), proxy="http://proxy:3128")
    dumped = f"{settings!r} {settings} {asdict(settings)} {json.dumps(asdict(settings))} {pickle.dumps(settings)!r}"
    assert "OPENROUTER_API_KEY" in dumped
    assert "canary" not in dumped


def test_a_key_put_where_its_variable_belongs_is_refused_and_not_shown():
    for value in ("sk-canary-0123456789", "sk or v1", "9lives"):
        with pytest.raises(BadChoice, match="the name of an environment variable") as caught:
            Settings("m", HERE, key_env=value)
        assert value not in str(caught.value)


# Forms


@given(
    st.builds(
        Form,
        st.sampled_from(SCHEMAS),
        st.sampled_from(["max_tokens", "max_completion_tokens"]),
        st.booleans(),
        st.booleans(),
        st.booleans(),
    )
)
def test_the_form_that_was_noted_is_read_back(form):
    assert Form.from_json(form.as_json()) == form


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "7", '{"schema": "xml"}', '{"limit": null}', '{"seed": 1}', '{"speed": true}', '{"schema": []}'],
)
def test_a_note_that_is_no_form_is_refused(text):
    with pytest.raises(BadChoice, match="Negotiate anew"):
        Form.from_json(text)


# Refusals, as these servers really word them


def openai(message, param=None, code=None):
    return json.dumps({"error": {"message": message, "type": "invalid_request_error", "param": param, "code": code}})


def openrouter(raw, provider="OpenAI"):
    metadata = {"raw": raw, "provider_name": provider}
    return json.dumps({"error": {"message": "Provider returned error", "code": 400, "metadata": metadata}})


def pydantic(*place, kind="extra_forbidden", said="Extra inputs are not permitted", **more):
    return json.dumps({"detail": [{"type": kind, "loc": ["body", *place], "msg": said, **more}]})


MAX_TOKENS = (
    "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
)
TEMPERATURE = (
    "Unsupported value: 'temperature' does not support 0 with this model. Only the default (1) value is supported."
)

WORDINGS = [
    # OpenAI
    (openai(MAX_TOKENS, "max_tokens", "unsupported_parameter"), {"limit": "max_completion_tokens"}),
    (openai(TEMPERATURE, "temperature", "unsupported_value"), {"temperature": False}),
    (openai("Unsupported parameter: 'temperature' is not supported with this model."), {"temperature": False}),
    (
        openai(
            "Invalid parameter: 'response_format' of type 'json_schema' is not supported with this model. Learn more "
            "about supported models at the Structured Outputs guide.",
        ),
        {"schema": "json_object"},
    ),
    (
        openai(
            "Invalid schema for response_format 'answer': In context=('properties', 'answer'), 'minLength' is not "
            "permitted."
        ),
        {"schema": "bare_schema"},
    ),
    (openai("You are not allowed to request logprobs from this model."), {"logprobs": False}),
    (openai("This model does not support the 'logprobs' parameter.", "logprobs"), {"logprobs": False}),
    (openai("Unknown parameter: 'seed'.", "seed", "unknown_parameter"), {"seed": False}),
    # through OpenRouter
    (openrouter(openai(MAX_TOKENS, "max_tokens")), {"limit": "max_completion_tokens"}),
    (openrouter(openai(TEMPERATURE, "temperature")), {"temperature": False}),
    (openrouter("top_logprobs is not supported by this model", "Other"), {"logprobs": False}),
    (
        json.dumps(
            {"error": {"message": "No endpoints found that can handle the requested parameters.", "code": 404}}
        ),
        {"schema": "json_object"},
    ),
    # vLLM
    (
        "{\"object\":\"error\",\"message\":\"[{'type': 'extra_forbidden', 'loc': ('body', 'response_format'), 'msg': "
        "'Extra inputs are not permitted', 'input': {'type': 'json_schema'}}]\",\"type\":\"BadRequestError\"}",
        {"schema": "json_object"},
    ),
    (
        '{"object":"error","message":"The provided JSON schema contains features not supported by xgrammar.",'
        '"type":"BadRequestError","param":null,"code":400}',
        {"schema": "bare_schema"},
    ),
    # llama.cpp
    (
        '{"error":{"code":500,"message":"response_format type must be one of \\"text\\" or \\"json_object\\", but got'
        ': json_schema","type":"server_error"}}',
        {"schema": "json_object"},
    ),
    (
        '{"error":{"code":400,"message":"Failed to initialize samplers: failed to parse grammar",'
        '"type":"invalid_request_error"}}',
        {"schema": "json_object"},
    ),
    (
        openai('response_format type must be one of "text" or "json_object", but got: json_schema'),
        {"schema": "json_object"},
    ),
    # Ollama
    (
        '{"error":{"message":"invalid response_format type: json_schema","type":"invalid_request_error"}}',
        {"schema": "json_object"},
    ),
    ('{"error":"logprobs is not supported by this runner"}', {"logprobs": False}),
    # Others behind the same interface: Mistral, Groq, DeepSeek, Gemini
    (pydantic("seed", input=7), {"seed": False}),
    (pydantic("logprobs", input=True), {"logprobs": False}),
    (pydantic("max_tokens", input=400), {"limit": "max_completion_tokens"}),
    (
        openai("This model does not support response format `json_schema`. See supported models.", "response_format"),
        {"schema": "json_object"},
    ),
    (openai("This response_format type is unavailable now"), {"schema": "json_object"}),
    (
        '[{"error":{"code":400,"message":"Invalid JSON payload received. Unknown name \\"seed\\": Cannot find '
        'field."}}]',
        {"seed": False},
    ),
    (
        '[{"error":{"code":400,"message":"Logprobs is not enabled for models/flash","status":"INVALID_ARGUMENT"}}]',
        {"logprobs": False},
    ),
    (
        '{"error":{"message":"For \'integer\' type, properties maximum, minimum are not supported in the '
        'output_config JSON schema"}}',
        {"schema": "bare_schema"},
    ),
    # Those who say nothing
    ("", {"schema": "json_object"}),
    ("Bad Request", {"schema": "json_object"}),
]


@pytest.mark.parametrize(("said", "change"), WORDINGS)
def test_a_refusal_leads_to_the_next_form(said, change):
    assert simpler(FIRST, Refused("", 400, said)) == replace(FIRST, **change)


LM_STUDIO = openai("'response_format.type' must be 'json_schema' or 'text'")
NO_WORD_JSON = openai(
    "'messages' must contain the word 'json' in some form, to use 'response_format' of type 'json_object'."
)


@pytest.mark.parametrize("said", [LM_STUDIO, NO_WORD_JSON])
def test_a_server_without_json_objects_is_asked_plainly(said):
    assert simpler(replace(FIRST, schema="json_object"), Refused("", 400, said)).schema == "plain"


TOO_LONG = [
    "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens (4600 in the messages, "
    "400 in the completion). Please reduce the length of the messages or completion.",
    "'max_tokens' or 'max_completion_tokens' is too large: 400. This model's maximum context length is 4096 tokens "
    "and your request has 3900 input tokens (400 > 4096 - 3900).",
    "request (3031 tokens) exceeds the available context size (1024 tokens), try increasing it",
    "the request exceeds the available context size. try increasing the context size or enable context shift",
    "Trying to keep the first 5000 tokens when context the overflows. However, the model is loaded with context "
    "length of only 4096 tokens",
]


@pytest.mark.parametrize(
    "said", [*map(openai, TOO_LONG), openai("Failed to generate JSON. See 'failed_generation'.")]
)
def test_a_refusal_that_no_other_form_betters_leads_to_none(said):
    assert simpler(FIRST, Refused("", 400, said)) is None


def test_a_named_parameter_comes_before_what_the_words_mention():
    said = openai("With response_format set, this model takes no other seed", "seed")
    assert simpler(FIRST, Refused("", 400, said)) == replace(FIRST, seed=False)


@given(st.text() | st.sampled_from([said for said, _ in WORDINGS]))
def test_negotiation_always_ends(said):
    form, steps = FIRST, 0
    while form is not None:
        form, steps = simpler(form, Refused("", 400, said)), steps + 1
    assert steps <= 9
