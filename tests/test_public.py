import subprocess
import sys

import pytest

import gatewise


def test_the_public_names_are_these():
    assert sorted(gatewise.__all__) == gatewise.__all__ == dir(gatewise)
    assert set(gatewise.__all__) == set(gatewise._HOME)
    for name in gatewise.__all__:
        assert getattr(gatewise, name).__name__ == name
        assert getattr(gatewise, name).__doc__


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="nothing"):
        gatewise.nothing  # noqa: B018


def test_importing_gatewise_loads_nothing_heavy():
    program = (
        "import sys; before = set(sys.modules); import gatewise; from gatewise import Traces, replay\n"
        "print(sorted({m.split('.')[0] for m in set(sys.modules) - before} - set(sys.stdlib_module_names)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['gatewise', 'numpy']"
