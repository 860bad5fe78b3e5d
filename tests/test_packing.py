import base64
import json
import zlib

import numpy as np

from gatewise.reports.packing import Pack, deflated


def unpacked(text):
    content = zlib.decompress(base64.b64decode(text))
    size = int.from_bytes(content[:8], "little")
    return json.loads(content[8 : 8 + size]), content[8 + size :]


def array(body, reference):
    kind, start, length = reference[:3]
    return np.frombuffer(body, f"<{kind}", length, start)


def test_arrays_come_back_as_they_were_and_stand_where_their_type_may_be_read():
    pack = Pack()
    values = [np.array([0.1, 1e-300]), np.array([3, 255]), np.array([70000]), np.array([[-1, 1], [0, 1]])]
    references = [
        pack.array(values[0], "f8"),
        pack.ranks(values[1]),
        pack.ranks(values[2]),
        pack.array(values[3], "i1"),
    ]
    header, body = unpacked(pack.packed({"references": references}))
    assert [one[0] for one in header["references"]] == ["f8", "u1", "u4", "i1"]
    for reference, value in zip(header["references"], values, strict=True):
        assert reference[1] % 8 == 0
        assert array(body, reference).tolist() == value.ravel().tolist()


def test_counts_are_kept_as_steps_along_rows_and_other_sums_exactly():
    pack = Pack()
    counts, sums = np.array([[9, 7, 0], [4, 4, 1]]), np.array([[0.1, 2.5]])
    steps, exact = pack.counts(counts), pack.counts(sums)
    _, body = unpacked(pack.packed({}))
    assert array(body, steps).reshape(2, 3).cumsum(axis=1).tolist() == counts.tolist()
    assert (steps[3], exact[3]) == (3, 0)
    assert array(body, exact).tolist() == [0.1, 2.5]


def test_a_text_stands_once_however_often_it_is_named():
    pack = Pack()
    references = pack.texts(["a", None, "b", "a"]), pack.texts(["b", "</script>\ud800\u2028"])
    header, body = unpacked(pack.packed({}))
    assert header["texts"] == ["a", "b", "</script>\ud800\u2028"]
    assert [array(body, one).tolist() for one in references] == [[1, 0, 2, 1], [2, 3]]


def test_what_is_packed_is_plain_ascii_without_markup():
    text = deflated("<script>é".encode())
    assert text.isascii()
    assert "<" not in text
