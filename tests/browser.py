"""A real browser for the tests: Debian's Chromium, or any Chrome or Chromium on the PATH; without one they say so."""

import shutil
import warnings
from contextlib import contextmanager
from pathlib import Path

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "microsoft-edge")


def found():
    """The browser's path, None where there is none."""
    debian = Path("/usr/bin/chromium")
    return str(debian) if debian.exists() else next(filter(None, map(shutil.which, NAMES)), None)


@contextmanager
def opened():
    """A running browser, or a skip that nobody overlooks."""
    path = found()
    if path is None:
        said = "NO BROWSER: the page was not tested. Install Chromium or Chrome and run the tests again."
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            warnings.warn(said, stacklevel=2)
        pytest.skip(said)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()
