import json
import os
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from gatewise.questions.datasets import READERS
from gatewise.questions.sources import SOURCES

FOLDER = os.environ.get("GATEWISE_DATA", "")
ORDER = {
    "hotpotqa": ("hotpot_dev_official_order.jsonl", "_id"),
    "musique": ("musique_ans_dev_official_order_noparagraphs.jsonl", "id"),
}


@pytest.mark.skipif(not FOLDER, reason="GATEWISE_DATA does not name the folder of the official order files")
@pytest.mark.parametrize("name", ORDER)
def test_what_is_known_of_a_whole_copy_agrees_with_the_official_order(name):
    file, id_ = ORDER[name]
    with (Path(FOLDER) / file).open(encoding="utf-8") as lines:
        ids = [json.loads(line)[id_] for line in lines]
    source = SOURCES[name]
    assert (source.rows, source.first, source.last) == (len(ids), ids[0], ids[-1])
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize("name", SOURCES)
def test_every_source_says_where_it_lives_and_under_which_licence(name):
    source = SOURCES[name]
    assert source.name == name
    assert source.title
    assert source.licence in ("CC BY-SA 4.0", "CC BY 4.0", "Apache-2.0")
    assert urlsplit(source.home).scheme == "https"
    assert source.rows > 1000
    assert bool(source.first) == bool(source.last)
    assert Path(source.file).name == source.file
    assert Path(source.file).suffix in (".json", ".jsonl")
    assert name in READERS


@pytest.mark.parametrize("name", SOURCES)
def test_every_source_has_mirrors_and_an_archive_names_its_member(name):
    mirrors = SOURCES[name].mirrors
    assert len(mirrors) >= 2
    assert len({mirror.url for mirror in mirrors}) == len(mirrors)
    for mirror in mirrors:
        parts = urlsplit(mirror.url)
        assert parts.scheme in ("https", "http")
        assert parts.hostname
        assert parts.path.endswith(".zip") == bool(mirror.member)
        assert "/" not in mirror.member
    assert any(urlsplit(mirror.url).scheme == "https" for mirror in mirrors)


def test_a_source_knows_what_its_home_calls_the_file():
    assert {name: source.official for name, source in SOURCES.items()} == {
        "hotpotqa": "hotpot_dev_distractor_v1.json",
        "musique": "musique_ans_v1.0_dev.jsonl",
        "2wiki": "dev.json",
    }


def test_no_two_sources_share_a_file():
    assert len({source.file for source in SOURCES.values()}) == len(SOURCES)
