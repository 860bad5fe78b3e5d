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


class Shown:
    """One page on screen, and everything that it should not have said or asked for."""

    def __init__(self, browser, url, offline=True, **options):
        self.context = browser.new_context(offline=offline, **options)
        self.tab = self.context.new_page()
        self.tab.set_default_timeout(20_000)
        self.complaints, self.requests = [], []
        self.tab.on("console", lambda message: self.complaints.append(message.text))
        self.tab.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.tab.on("dialog", lambda dialog: self.complaints.append(dialog.message))
        self.tab.on("request", lambda request: self.requests.append(request.url))
        self.url = url
        self.tab.goto(url)
        self.tab.wait_for_selector("#rows > *", timeout=20_000)
        self.look = self.tab.evaluate

    def value(self, system, what):
        return self.tab.get_attribute(f'#numbers tr[data-system="{system}"] td[data-what="{what}"]', "data-value")

    def painted(self):
        self.look("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def until(self, expression):
        """Wait for an expression to hold; the page's policy forbids Playwright's own way of waiting."""
        for _ in range(200):
            if self.look(expression):
                return
            self.tab.wait_for_timeout(25)
        raise AssertionError(f"never held: {expression}")

    def rows(self):
        return self.tab.locator("#rows > div")
