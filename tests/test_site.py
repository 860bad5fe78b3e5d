"""The documentation site: built without a warning, every link leads somewhere, nothing comes from elsewhere."""

import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

import gatewise
from browser import opened

ROOT = Path(__file__).parents[1]


class Page(HTMLParser):
    """What a page links to, what it loads, and the places that it has."""

    def __init__(self, text):
        super().__init__()
        self.links, self.loads, self.places = [], [], {"", "__skip"}
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.places |= {found.get("id"), found.get("name")} - {None}
        if tag == "a" and "href" in found:
            self.links.append(found["href"])
        elif tag == "link" and "canonical" not in found.get("rel", ""):
            self.loads.append(found["href"])
        if found.get("src"):
            self.loads.append(found["src"])


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    shutil.copytree(ROOT / "docs", folder / "docs", ignore=shutil.ignore_patterns("reference", "__pycache__"))
    shutil.copy(ROOT / "zensical.toml", folder)
    subprocess.run([sys.executable, ROOT / "docs" / "reference.py", folder / "docs" / "reference"], check=True)
    program = Path(sys.executable).with_name("zensical")
    done = subprocess.run([program, "build", "--strict"], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "No issues found" in done.stdout + done.stderr, done.stdout + done.stderr
    return folder / "site"


@pytest.fixture(scope="module")
def pages(site):
    return {path: Page(path.read_text()) for path in sorted(site.rglob("*.html"))}


def test_every_link_and_anchor_of_the_site_leads_somewhere(site, pages):
    count = 0
    for path, page in pages.items():
        if path.name == "404.html":
            continue
        for link in [*page.links, *page.loads]:
            parts = urlsplit(link)
            if parts.scheme in ("http", "https", "mailto"):
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            assert target.exists(), f"{path.relative_to(site)} links to {link}"
            if target in pages:
                place = unquote(parts.fragment)
                assert place in pages[target].places, f"{path.relative_to(site)} links to {link}: no such place"
            count += 1
    assert count > 500


def test_no_page_loads_anything_from_elsewhere(site, pages):
    for path, page in pages.items():
        for address in page.loads:
            assert not re.match(r"(https?:)?//", address), f"{path.name} loads {address}"
    for path in site.rglob("*.css"):
        assert not re.search(r"url\(\s*['\"]?(https?:)?//|@import\s+(url\()?['\"]?(https?:)?//", path.read_text()), (
            path
        )


def test_every_public_name_stands_in_the_reference_with_its_place(pages, site):
    index = pages[site / "reference" / "index.html"]
    for name in gatewise.__all__:
        assert any(link.endswith(f".{name}") for link in index.links), name


def test_the_reference_is_the_same_whenever_it_is_written(tmp_path):
    for name in ("one", "two"):
        subprocess.run([sys.executable, ROOT / "docs" / "reference.py", tmp_path / name], check=True)
    written = [{path.name: path.read_bytes() for path in (tmp_path / name).iterdir()} for name in ("one", "two")]
    assert written[0] == written[1]


def test_the_reference_shows_no_docstring_as_markup():
    sys.path.insert(0, str(ROOT / "docs"))
    try:
        import reference
    finally:
        sys.path.pop(0)
    assert reference.plain("a < b, `x < y`, *c*, d_e [f](g)") == r"a \< b, `x < y`, \*c\*, d\_e \[f\](g)"


@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (820, "light"), (1280, "light")])
def test_a_browser_shows_the_pages_from_disk_and_asks_nobody(site, width, scheme):
    with opened() as browser:
        tab = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        asked, wrong = [], []
        tab.on("request", lambda request: asked.append(request.url))
        tab.on("pageerror", lambda error: wrong.append(str(error)))
        for name in ("index", "tutorial", "studies", "reference/index"):
            tab.goto((site / f"{name}.html").as_uri())
            tab.wait_for_timeout(200)
            assert tab.locator("h1").is_visible()
            assert tab.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), f"{name} at {width}"
        assert not [url for url in asked if not url.startswith(("file:", "data:"))]
        assert not wrong
