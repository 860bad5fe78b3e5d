import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

sys.path.insert(0, str(Path(__file__).parent))
settings.register_profile(
    "gatewise",
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("gatewise")


@pytest.fixture
def command_line(monkeypatch):
    """What makes the command line a function: arguments → exit code, and the two outputs that `read` returns."""
    from gatewise.cli import main

    def reading(read):
        def run(*arguments):
            monkeypatch.setattr(sys, "argv", ["gatewise", *map(str, arguments)])
            code = 0
            try:
                main()
            except SystemExit as stop:
                code = stop.code or 0
            out, err = read()
            assert "Traceback" not in err
            return code, out, err

        return run

    return reading


@pytest.fixture
def gatewise(capsys, command_line):
    """The command line as a function: arguments → exit code, standard output, standard error."""
    return command_line(capsys.readouterr)
