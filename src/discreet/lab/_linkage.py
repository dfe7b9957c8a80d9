"""Linkage: records without names, and a list that has them.

* :func:`link`: what both sides know about a person singles the record out, as birthday,
  sex and post code did in Massachusetts (Sweeney 1997).
* :func:`link_ratings`: a few films and rough dates suffice, even with errors, as for the
  Netflix prize (Narayanan & Shmatikov 2008).
* :func:`link_logs`: one pseudonym per user ties everything a person asked together, until
  some of it names them, as in the AOL logs of 2006.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any, TypeAlias

from discreet._dataclass import dataclass
from discreet.errors import Hint, ParameterError

Ratings: TypeAlias = Mapping[Hashable, tuple[float, float]]
"""Of one person: item to (stars, day)."""


@dataclass(frozen=True, slots=True)
class Link:
    """A named person and the record believed to be theirs."""

    name: Any
    record: int
    secret: Any


def link(
    records: Sequence[Mapping[str, Any]],
    public: Sequence[Mapping[str, Any]],
    *,
    on: Sequence[str],
    name: str = "name",
    secret: str,
) -> list[Link]:
    """Join records without names to a public list, where both sides are unique.

    Examples
    --------
    >>> from discreet import lab
    >>> records = [
    ...     {"born": "1945-07-31", "sex": "M", "post": "02138", "illness": "flu"},
    ...     {"born": "1960-01-02", "sex": "F", "post": "02139", "illness": "none"},
    ...     {"born": "1960-01-02", "sex": "F", "post": "02139", "illness": "asthma"},
    ... ]
    >>> voters = [
    ...     {"name": "the governor", "born": "1945-07-31", "sex": "M", "post": "02138"},
    ...     {"name": "a voter", "born": "1960-01-02", "sex": "F", "post": "02139"},
    ... ]
    >>> lab.link(records, voters, on=["born", "sex", "post"], secret="illness")
    [Link(name='the governor', record=0, secret='flu')]
    """
    if not on:
        raise ParameterError("say which columns both sides have", hint=Hint("on", ["age", "sex"]))
    kinds: dict[Any, list[int]] = defaultdict(list)
    kind = itemgetter(*on)
    for i, record in enumerate(records):
        kinds[kind(record)].append(i)
    namesakes = Counter(map(kind, public))
    links = []
    for person in public:
        matches = kinds.get(kind(person), [])
        if len(matches) == 1 and namesakes[kind(person)] == 1:
            links.append(Link(person[name], matches[0], records[matches[0]][secret]))
    return links


def link_ratings(
    records: Sequence[Ratings],
    notes: Ratings,
    *,
    stars: float = 1.0,
    days: float = 14.0,
    eccentricity: float = 1.5,
    agree: int = 2,
) -> int | None:
    """Find the record of a person of whom a few ratings are known, roughly.

    Each item that a record shares with the notes, within `stars` and `days`, scores
    1/ln(how many rated it): rare items say more. The best record is named only if at least
    `agree` items agree and it beats the second best by `eccentricity` standard deviations of
    all scores; else None.

    Examples
    --------
    >>> from discreet import lab
    >>> records = [{"Alien": (5, 10), "Brazil": (4, 12)}, {"Alien": (5, 300), "Casablanca": (2, 9)}]
    >>> records += [{"Alien": (float(k % 5), 20.0 * k)} for k in range(20)]
    >>> lab.link_ratings(records, {"Alien": (4, 14), "Brazil": (4, 9)})
    0
    """
    rated = Counter(item for record in records for item in record)
    shared = [
        [
            item
            for item, (s, d) in notes.items()
            if item in record
            and abs(record[item][0] - s) <= stars
            and abs(record[item][1] - d) <= days
        ]
        for record in records
    ]
    scores = [sum(1 / math.log(max(rated[item], 2)) for item in items) for items in shared]
    if len(scores) < 2:
        raise ParameterError("give at least two records")
    mean = sum(scores) / len(scores)
    spread = math.sqrt(sum((x - mean) ** 2 for x in scores) / len(scores))
    order = sorted(range(len(scores)), key=lambda i: -scores[i])
    clear = scores[order[0]] - scores[order[1]] >= eccentricity * spread > 0
    return order[0] if clear and len(shared[order[0]]) >= agree else None


def link_logs(
    logs: Iterable[tuple[Hashable, str]], directory: Mapping[str, Iterable[str]]
) -> dict[Hashable, str]:
    """Name the pseudonyms of a search log.

    Parameters
    ----------
    logs
        Pairs of a pseudonym and what was searched for.
    directory
        People, and whole words that point to them: surnames, streets, employers, hobbies.

    Returns
    -------
    dict
        Pseudonyms for which one person's words occur and nobody else's occur as often.

    Examples
    --------
    No single search names anybody; the pseudonym puts them together:

    >>> from discreet import lab
    >>> logs = [(4417749, "landscapers in lilburn"), (4417749, "homes in shadow lake"),
    ...         (4417749, "arnold family tree"), (17, "weather in lilburn")]
    >>> people = {"T. Arnold": ["lilburn", "arnold", "shadow lake"], "B. Cole": ["lilburn", "cole"]}
    >>> lab.link_logs(logs, people)
    {4417749: 'T. Arnold'}
    """
    texts: dict[Hashable, list[str]] = defaultdict(list)
    for pseudonym, text in logs:
        texts[pseudonym].append(text.lower())
    words = {
        person: [re.compile(rf"(?<!\w){re.escape(word.lower())}(?!\w)") for word in hints]
        for person, hints in directory.items()
    }
    names: dict[Hashable, str] = {}
    for pseudonym, searches in texts.items():
        joined = "\n".join(searches)
        hits = Counter(
            {
                person: sum(bool(word.search(joined)) for word in hints)
                for person, hints in words.items()
            }
        )
        (best, most), *rest = hits.most_common(2)
        # one hint fits many; two of them together point to somebody
        if most >= 2 and (not rest or rest[0][1] < most):
            names[pseudonym] = best
    return names
