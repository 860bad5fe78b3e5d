"""Maps and frontiers as files: where they are written to, and what is no map."""

import json
import os
import threading

import pytest

from gatewise import BadChoice, BrokenFile, Isotonic
from gatewise.files import read_map, write_csv, write_map
from gatewise.files.disk import require_apart

MAP = Isotonic((0.5,), (0.5,))


def test_a_link_is_followed_and_stays_a_link(tmp_path):
    (tmp_path / "there").mkdir()
    target = tmp_path / "there" / "map.json"
    target.write_text("old")
    link = tmp_path / "map.json"
    link.symlink_to(target)
    write_map(MAP, link)
    assert link.is_symlink()
    assert read_map(target) == MAP
    target.unlink()
    write_map(MAP, link)  # a link that leads nowhere yet
    assert read_map(target) == MAP
    assert os.listdir(tmp_path / "there") == ["map.json"]


def test_an_existing_file_keeps_its_permissions(tmp_path):
    path = tmp_path / "map.json"
    path.write_text("old")
    path.chmod(0o640)
    write_map(MAP, path)
    assert path.stat().st_mode & 0o777 == 0o640


def test_a_pipe_and_a_device_are_written_into_and_stay_what_they_are(tmp_path):
    pipe, link = tmp_path / "pipe", tmp_path / "link"
    os.mkfifo(pipe)
    link.symlink_to(pipe)
    heard = []
    for path in (pipe, link):
        listener = threading.Thread(target=lambda: heard.append(pipe.read_text()), daemon=True)
        listener.start()
        write_csv(path, ["a"], [[1]])
        listener.join(5)
    assert heard == ["a\n1\n"] * 2
    assert pipe.is_fifo()
    write_csv("/dev/null", ["a"], [[1]])
    assert not os.path.isfile("/dev/null")


def test_a_full_disk_is_one_clear_error():
    if not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full here")
    with pytest.raises(BrokenFile, match=r"No space left on device. Choose another place"):
        write_csv("/dev/full", ["a"], [[1]])


def test_an_output_that_is_read_is_refused_by_whatever_name(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("")
    (tmp_path / "link.csv").symlink_to(path)
    os.link(path, tmp_path / "hard.csv")
    for name in ("t.csv", "link.csv", "hard.csv", f"../{tmp_path.name}/t.csv"):
        with pytest.raises(BadChoice, match="Choose another -o"):
            require_apart(tmp_path / name, [tmp_path / "none.csv", path])
    require_apart(tmp_path / "other.csv", [path])
    require_apart(None, [path])


@pytest.mark.parametrize(("x", "y"), [([0.5, 0.2], [0, 1]), ([0.2], [2]), ([], []), ([0.1, 0.2], [1, 0])])
def test_a_map_whose_knots_are_broken_is_refused_with_its_file(tmp_path, x, y):
    path = tmp_path / "map.json"
    path.write_text(json.dumps({"schema": "gatewise.map/1", "kind": "isotonic", "x": x, "y": y}))
    with pytest.raises(BrokenFile, match=r"expected a map in .*map\.json, found one that is broken: .* Fit the map"):
        read_map(path)


@pytest.mark.parametrize("kind", [["isotonic"], {}, None, 1])
def test_a_kind_that_is_no_name_is_refused(tmp_path, kind):
    path = tmp_path / "map.json"
    path.write_text(json.dumps({"schema": "gatewise.map/1", "kind": kind, "x": [0.5], "y": [0.5]}))
    with pytest.raises(BrokenFile, match="Write one with gatewise calibrate"):
        read_map(path)
