"""`make docs`: makes a site of the pages, and fails where it asks another machine for something or a link is dead.

The README is its first page. A page of all that `edgemem` exports is made of the docstrings. The site stands in build/site
and can be read from disk. Looked at is what a page asks a browser to load, in HTML and in style sheets, and where each link leads.
"""

import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).resolve().parent.parent
PAGES = ROOT / "build" / "pages"
SITE = ROOT / "build" / "site"
LOADED = {
    "link": "href",
    "script": "src",
    "img": "src",
    "source": "src",
    "iframe": "src",
    "object": "data",
    "use": "href",
}
"""What a browser loads with a page, by element and attribute."""


class Page(HTMLParser):
    """What a page of the site has: names that can be linked to, links, and what is loaded with it."""

    def __init__(self, text: str) -> None:
        """Read the page."""
        super().__init__()
        self.names: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what one element has."""
        values = {name: value for name, value in attrs if value}
        self.names |= {values[name] for name in ("id", "name") if name in values}
        self.loaded += asked_for(values.get("style", ""))
        target = values.get(LOADED.get(tag, ""))
        if target and not (tag == "link" and values.get("rel") in ("canonical", "next", "prev")):
            self.loaded.append(target)
        if tag == "a" and "href" in values:
            self.links.append(values["href"])


def asked_for(style: str) -> list[str]:
    """Return what a style sheet loads."""
    named = re.findall(r"url\(\s*['\"]?(.*?)['\"]?\s*\)|@import\s+['\"](.*?)['\"]", style)
    return [url or imported for url, imported in named]


def faults(site: Path) -> list[str]:
    """Return what is wrong with a site: a sentence for each thing that comes from outside, and for each dead link."""
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}
    loaded = [(path, target) for path, page in pages.items() for target in page.loaded]
    for path in [*site.rglob("*.css"), *site.rglob("*.svg")]:
        loaded += [(path, target) for target in asked_for(path.read_text(encoding="utf-8"))]
    outside = [(path, target) for path, target in loaded if urlsplit(target).netloc]
    links = [(path, target) for path, page in pages.items() for target in page.links]
    dead = [
        (path, target)
        for path, target in [*loaded, *links]
        if not _leads_somewhere(path, target, site, pages)
    ]
    return [
        *(f"{path.relative_to(site)} loads {target} from outside" for path, target in outside),
        *(f"{path.relative_to(site)} links to {target}, which is not there" for path, target in dead),
    ]


def _leads_somewhere(path: Path, target: str, site: Path, pages: dict[Path, Page]) -> bool:
    parts = urlsplit(target)
    if parts.scheme or parts.netloc:
        return True
    file = path
    if parts.path:
        start = site if parts.path.startswith("/") else path.parent
        file = (start / unquote(parts.path).lstrip("/")).resolve()
        if file.is_dir():
            file /= "index.html"
    named = unquote(parts.fragment)
    return file.is_file() and (not named or file not in pages or named in pages[file].names)


def collect() -> None:
    """Put the pages where the site is made of them."""
    shutil.rmtree(PAGES, ignore_errors=True)
    shutil.copytree(ROOT / "docs", PAGES)
    for name, page in (("README.md", "index.md"), ("CONTRIBUTING.md", "contributing.md")):
        text = (ROOT / name).read_text(encoding="utf-8").replace("](docs/)", "](index.md)")
        text = text.replace("](docs/", "](").replace("](CONTRIBUTING.md)", "](contributing.md)")
        (PAGES / page).write_text(text, encoding="utf-8")
    sys.path.insert(0, str(ROOT))
    import edgemem

    exported = "\n".join(f"::: edgemem.{name}\n" for name in edgemem.__all__)
    (PAGES / "python.md").write_text(
        f"# Python\n\nAll that `edgemem` exports. `edgemem.open` is `Memory`.\n\n{exported}", encoding="utf-8"
    )


def main() -> None:
    """Make the site and look at it."""
    collect()
    command = [str(Path(sys.executable).with_name("mkdocs")), "build", "--strict", "--quiet", "--clean"]
    quiet = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}  # a notice of its makers, in each run
    if subprocess.run([*command, "-f", str(ROOT / ".ci" / "mkdocs.yml")], check=False, env=quiet).returncode:
        sys.exit("The site could not be made.")
    wrong = faults(SITE)
    if wrong:
        sys.exit("\n".join(wrong))
    print(
        f"{SITE.relative_to(ROOT) / 'index.html'} is ready: {len(list(SITE.rglob('*.html')))} pages, nothing from outside"
    )


if __name__ == "__main__":
    main()
