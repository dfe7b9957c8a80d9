"""Write the hashes of every pinned file: ``make hashes`` after a pin was changed.

Each pin gets the SHA-256 of all files of that version that the index names, for every
platform, so that ``pip install --require-hashes`` takes nothing else. Where to look is
pip's own configuration: no address stands here.
"""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlparse

from pip._internal.configuration import Configuration
from pip._internal.models.index import PyPI
from pip._vendor import requests
from pip._vendor.packaging import utils
from pip._vendor.packaging.version import InvalidVersion, Version

_LINK = re.compile(r'href="([^"]+?)#sha256=([0-9a-f]{64})"')
_PIN = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)")


def main() -> None:
    """Rewrite the files that are named, or all of them."""
    here = Path(__file__).parent
    for file in map(Path, sys.argv[1:]) if sys.argv[1:] else sorted(here.glob("*.txt")):
        lines = [line for line in file.read_text().splitlines() if not line.startswith(" ")]
        file.write_text("".join(_hashed(line.removesuffix(" \\")) for line in lines))


def _hashed(line: str) -> str:
    pin = _PIN.match(line)
    if pin is None:
        return f"{line}\n"
    found = sorted(set(_files(utils.canonicalize_name(pin[1]), Version(pin[2]))))
    if not found:
        sys.exit(f"no file of {line} is found")
    return " \\\n".join([line, *(f"    --hash=sha256:{h}" for h in found)]) + "\n"


def _files(name: str, version: Version) -> Iterator[str]:
    """Hashes of all files of a version, on the index and in local folders."""
    settings = dict(_configuration().items())
    given = " ".join(v for k, v in settings.items() if k.endswith(("index-url", "find-links")))
    index = settings.get("global.index-url", PyPI.simple_url)
    session = requests.Session()
    session.verify = settings.get(":env:.cert", settings.get("global.cert", True))
    for place in {index, *given.split()}:
        url = urlparse(place)
        if url.scheme in {"http", "https"}:
            page = session.get(f"{place.rstrip('/')}/{name}/", timeout=60)
            links = _LINK.findall(page.text) if page.ok else []
            yield from (h for link, h in links if _is(link, name, version))
        else:
            folder = Path(unquote(url.path))
            for file in (*folder.glob("*"), *folder.glob(f"{name}/*")):
                if file.is_file() and _is(file.name, name, version):
                    yield hashlib.sha256(file.read_bytes()).hexdigest()


def _configuration() -> Configuration:
    """Read pip's configuration."""
    configuration = Configuration(isolated=False)
    configuration.load()
    return configuration


def _is(link: str, name: str, version: Version) -> bool:
    """Whether a file is one of a version."""
    file = unquote(link.rpartition("/")[2])
    try:
        if file.endswith(".whl"):
            own, number = utils.parse_wheel_filename(file)[:2]
        else:
            own, number = utils.parse_sdist_filename(file)
    except (ValueError, InvalidVersion):
        return False
    return (own, number) == (name, version)


if __name__ == "__main__":
    main()
