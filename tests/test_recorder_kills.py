"""A recorder that is killed at random moments: what was kept is never asked for again, and the table is the same."""

import random

import killing
from gatewise.recordings.ledger import Ledger


def test_ten_kills_lose_nothing_and_nothing_that_was_kept_is_asked_again(tmp_path):
    with killing.serving(0.02) as url:
        found = killing.killed(tmp_path, url, 3, 10, random.Random(7))
    assert found.kills == 10
    assert (found.paid_twice, found.unexplained, found.too_many, found.different) == (0, 0, 0, 0)
    assert found.again <= found.under_way


def test_two_processes_at_once_record_one_study_and_lose_nothing(tmp_path):
    with killing.serving(0.02) as url:
        alone = killing.written(tmp_path / "alone", url, 3)
        assert killing.ended(killing.started(alone))
        both = killing.written(tmp_path / "both", url, 3)
        two = [killing.started(both), killing.started(both)]
        for one in two:
            assert killing.ended(one)
        assert killing.table_of(both) == killing.table_of(alone)
        with Ledger.open(both.parent / "killed" / "ledger.sqlite", readonly=True) as ledger:
            assert list(ledger.verify()) == []
        assert killing.kept_in(both) == killing.kept_in(alone)
