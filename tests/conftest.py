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
def gatewise(capsys, monkeypatch):
    """The command line as a function: arguments → exit code, standard output, standard error."""
    from gatewise.cli import main

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["gatewise", *map(str, arguments)])
        code = 0
        try:
            main()
        except SystemExit as stop:
            code = stop.code or 0
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        return code, out, err

    return run
