"""Takes docs/page.png, the picture of the README: the page that the demo writes, in a real browser.

python docs/screenshot.py
"""

import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from browser import found


def main() -> None:
    """Write one picture."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        subprocess.run([sys.executable, "-m", "gatewise", "demo", "-o", folder], check=True)
        browser = playwright.chromium.launch(executable_path=found(), args=["--no-sandbox"])
        tab = browser.new_page(viewport={"width": 1180, "height": 940}, color_scheme="light")
        tab.goto((Path(folder) / "index.html").as_uri())
        tab.wait_for_selector("#rows [role=row]")
        tab.screenshot(path=Path(__file__).with_name("page.png"))
        browser.close()


if __name__ == "__main__":
    main()
