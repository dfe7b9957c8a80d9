"""The same page for a browser: one file, a slider, no network.

The file carries a content security policy that forbids every connection, so it
can be opened from a disk and mailed around. Without JavaScript it shows the
figures for the ε and prior it was made with; the script recomputes the
closed forms of :mod:`discreet.meaning._odds` and, for pure ε, of the trade-off curve.
"""

from __future__ import annotations

import base64
import hashlib
import html as escaping
from importlib import resources
from string import Template

from discreet import privacy as p
from discreet._exact import Number
from discreet.meaning._odds import chance, pure_epsilon, read_group
from discreet.meaning._page import assumption_lines, attack_rows, sentence
from discreet.meaning._spending import of
from discreet.meaning._words import exactly
from discreet.privacy import read_neighbours


def html(
    epsilon: Number,
    prior: Number = "0.02",
    *,
    group: int = 1,
    neighbours: p.Neighbours | str = p.Neighbours.ADD_REMOVE,
    title: str = "What does ε mean?",
) -> str:
    """Return a self-contained HTML page with a slider for ε.

    Parameters
    ----------
    epsilon, prior, group, neighbours
        Where the sliders stand at first; see :func:`discreet.meaning.page`.
    title
        Heading of the page.

    Examples
    --------
    >>> text = html("0.5", "0.02")
    >>> text.startswith("<!doctype html>"), "://" in text
    (True, False)
    """
    eps, size, before = pure_epsilon(epsilon), read_group(group), chance(prior, "prior")
    relation = read_neighbours(neighbours) or p.Neighbours.ADD_REMOVE
    parts = resources.files("discreet.meaning")
    script = (parts / "page.js").read_text("utf-8")
    style = (parts / "page.css").read_text("utf-8")
    rows = attack_rows(of(p.Pure(eps), group=size).attacker)
    return Template((parts / "page.html").read_text("utf-8")).substitute(
        title=escaping.escape(title),
        script=script,
        style=style,
        script_hash=_hash(script),
        style_hash=_hash(style),
        epsilon=repr(float(eps)),
        epsilon_text=exactly(eps),
        prior=repr(before),
        group=size,
        relation=str(relation),
        sentence=_text(sentence(eps, before, size, relation)),
        attacks="\n".join(
            f"<tr><td>{_text(label)}</td><td class=number>{_text(share)}</td></tr>"
            for label, share in rows
        ),
        assumptions="\n".join(f"<li>{_text(x)}</li>" for x in _items(relation)),
    )


def _items(relation: p.Neighbours) -> list[str]:
    joined = " ".join(line.strip() for line in assumption_lines(relation, exact=True))
    return [item.strip() for item in joined.split("•") if item.strip()]


def _text(words: str) -> str:
    # a number and its unit stay on one line
    return escaping.escape(words).replace(" %", "\u00a0%")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
