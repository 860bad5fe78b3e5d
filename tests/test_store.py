"""The store: one file of one kind, only ever added to, by whatever tool has it in hand."""

import pytest

from gatewise.errors import BrokenFile
from gatewise.recordings.store import Store


def test_a_file_of_another_format_is_refused(tmp_path):
    path = tmp_path / "l.sqlite"
    store = Store.open(path, 1.0)
    store.rows("PRAGMA user_version = 2")
    store.close()
    with pytest.raises(BrokenFile, match=r"found format 2\. Use the gatewise that wrote it"):
        Store.open(path, 1.0)
