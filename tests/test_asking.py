import asyncio
from pathlib import Path

import pytest

from gatewise.errors import BadChoice, BrokenFile
from gatewise.recordings.prompts import PROMPTS
from gatewise.studies.asking import asking_of, ledger_of, name_of, opened, prompt_of, settings_of
from gatewise.studies.designs import read_design
from gatewise.studies.running import Work

HEAD = '[study]\nname = "s"\n[[data]]\ndataset = "worldfacts"\n[[models]]\nname = "m"\n'


def design_of(model, folder=Path("/nowhere")):
    return read_design(HEAD + model, folder)


def test_a_prompt_is_built_in_or_a_file_beside_the_study(tmp_path):
    (tmp_path / "mine.toml").write_text('system = "Answer."')
    built_in = design_of('local = "qwen-0.5b"\nprompt = "small"\n')
    assert prompt_of(built_in.models[0], built_in) is PROMPTS["small"]
    mine = design_of('local = "qwen-0.5b"\nprompt = "mine.toml"\n', tmp_path)
    assert prompt_of(mine.models[0], mine).system == "Answer."
    assert asking_of(mine.models[0], mine).prompt.name == "mine.toml"
    absent = design_of('local = "qwen-0.5b"\nprompt = "absent.toml"\n', tmp_path)
    with pytest.raises(BrokenFile, match="expected a prompt among paper, small, or a prompt file at"):
        prompt_of(absent.models[0], absent)


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ('url = "https://example.org/v1"\nmodel = "x"\n', "https://example.org/v1/chat/completions"),
        ('local = "qwen-1.5b"\n', "local:qwen-1.5b@sha256:cc324af070c2"),
        ('transformer = "transformers:x@sha256:0123"\n', "transformers:x@sha256:0123"),
    ],
)
def test_an_endpoint_has_its_name_without_being_opened(model, name, tmp_path):
    design = design_of(model)
    assert name_of(design.models[0], design, tmp_path) == name


def test_settings_say_what_the_study_says():
    design = design_of('url = "http://localhost/v1"\nmodel = "x"\nmax_tokens = 7\nseed = 3\nlogprobs = true\n')
    settings = settings_of(design.models[0], design)
    assert (settings.model, settings.max_tokens, settings.seed, settings.logprobs) == ("x", 7, 3, True)


def test_an_endpoint_whose_key_is_not_set_is_not_opened(tmp_path):
    design = design_of('url = "http://localhost/v1"\nmodel = "x"\nkey_env = "GATE_TEST_ABSENT"\n')

    async def enter():
        async with opened(design.models[0], Work(design, tmp_path)):
            pass

    with pytest.raises(BadChoice, match="environment variable GATE_TEST_ABSENT, found none"):
        asyncio.run(enter())


def test_a_ledger_that_is_only_read_is_not_made(tmp_path):
    design = design_of('local = "qwen-0.5b"\n', tmp_path)
    with pytest.raises(BrokenFile):
        ledger_of(design, readonly=True)
    assert list(tmp_path.iterdir()) == []
    with ledger_of(design) as ledger:
        assert len(ledger) == 0
