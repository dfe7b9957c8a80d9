"""What a release says about itself: the report."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Final

from discreet import meaning
from discreet import privacy as p
from discreet.errors import ParameterError
from discreet.release._declared import MEANINGS, Declaration, Declared
from discreet.release._folder import Issue

_DELTA: Final = 1e-6
_STYLE: Final = (
    "body{font:16px/1.5 sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}"
    "table{border-collapse:collapse}td,th{border:1px solid #bbb;padding:.3rem .6rem;"
    "text-align:left}pre{white-space:pre-wrap}img{max-width:100%}.dummy{color:#b00;"
    "font-weight:bold}body,td,p,li{overflow-wrap:anywhere}.wide{overflow-x:auto}.wide td,"
    ".wide th{overflow-wrap:normal}.method{color:#555;font-size:.9em}"
    "@media(prefers-color-scheme:dark){body{background:#161616;color:#e6e6e6}a{color:#8ab4f8}"
    "td,th{border-color:#555}.method{color:#aaa}.dummy{color:#ff8a80}img{background:#fff}}"
)


def exact_numbers(issue: Issue) -> list[str]:
    """Say what is unprotected in a table, and what is protected nevertheless."""
    sentences = [f"Released exactly: {MEANINGS[what]}." for what in issue.declared.unprotected]
    if issue.declared.get("unprotected"):
        graph = account(issue.declared.unprotected, issue.publication.plan.workload.shape[0])
        sentences.append(f"Protected for one record, these totals being known: {graph.secret}.")
    return sentences


def account(unprotected: Sequence[str], areas: int) -> meaning.Blowfish:
    """Return the distinctions that remain protected when totals are known (Blowfish).

    Known totals are harmless for a policy graph none of whose edges changes them: then
    neighbours are the same with and without them (He et al. 2014, section 8). Every value
    is kept from every other if that holds; otherwise values of the same area from each other.
    """
    count = min(max(areas, 2), 64)
    cells = [(area, k) for area in range(count) for k in range(2)]
    totals = [[1] * len(cells)]
    if "area-totals" in unprotected:
        totals += [[int(a == area) for a, _ in cells] for area in range(count)]
    every = meaning.Blowfish.complete(cells)
    if not every.sensitivity(totals):
        return every
    inside = meaning.Blowfish.partition(
        [[cell for cell in cells if cell[0] == area] for area in range(count)]
    )
    if inside.sensitivity(totals):
        raise ParameterError("no distinction is protected once these totals are known")
    return inside


def after_noise(table: Declared) -> list[str]:
    """Say what was done to the numbers after the noise."""
    changes = []
    if table.get("nonnegative"):
        changes.append("moved to the nearest non-negative numbers")
    if table.get("suppress_below") is not None:
        changes.append(f"noisy values below {table.get('suppress_below')} left out")
    if table.get("round_to") is not None:
        changes.append(f"rounded to multiples of {table.get('round_to')}, intervals outwards")
    return changes


def report(
    release: Declaration,
    issues: Sequence[Issue],
    whom: Mapping[str, str],
    charged: Mapping[str, Fraction],
    *,
    dummy: bool,
) -> str:
    """Return the report as one HTML page that needs nothing else but the charts."""
    e = html.escape
    lines = [
        "<!doctype html><html lang=en><meta charset=utf-8>",
        '<meta name=viewport content="width=device-width,initial-scale=1">',
        f"<title>{e(release.title)}</title><style>{_STYLE}</style>",
        f"<h1>{e(release.title)}</h1><p>Edition {e(release.edition)}</p>",
    ]
    if dummy:
        lines.append("<p class=dummy>Made-up data: a rehearsal, not a release.</p>")
    lines += ["<h2>For whom it protects</h2>", _list(list(whom.values()))]
    lines += ["<h2>What is not protected</h2>", _exposed(release, issues)]
    lines += ["<h2>What it costs</h2>", f"<p>{e(_together(issues, charged))}</p>"]
    lines += ["<h2>What was published</h2>", _overview(issues)]
    lines += [_section(issue) for issue in issues]
    words = str(meaning.of([issue.publication.loss for issue in issues]))
    lines += [f"<h2>What the price means</h2><pre>{e(words)}</pre>"]
    return "\n".join(lines) + "\n"


def overall(issues: Sequence[Issue]) -> dict[str, float]:
    """Parameters of all tables together: losses composed, with one δ where they need one."""
    joint = p.compose([issue.publication.loss for issue in issues])
    if all(issue.publication.plan.price.pure for issue in issues):
        return {"epsilon": float(joint.epsilon(0))}
    epsilon = float(joint.epsilon(_DELTA))
    return {"epsilon": epsilon, "delta": _DELTA, "rho": float(joint.zcdp().rho0)}


def _together(issues: Sequence[Issue], charged: Mapping[str, Fraction]) -> str:
    """Say what all tables cost together, and what the budget was charged."""
    joint = overall(issues)
    at = f" at δ = {joint['delta']:g}" if "delta" in joint else ""
    rho = f", ρ = {joint['rho']:.4g}" if "rho" in joint else ""
    return (
        f"All tables together: ε = {joint['epsilon']:.4g}{at}{rho}, by composition of their "
        f"losses. The budget was charged the sum of their prices: ε = "
        f"{float(charged['epsilon']):.4g}."
    )


def _list(items: Sequence[str]) -> str:
    return "<ul>" + "".join(f"<li>{html.escape(text)}</li>" for text in items) + "</ul>"


def _exposed(release: Declaration, issues: Sequence[Issue]) -> str:
    exact = [text for issue in issues for text in exact_numbers(issue)]
    if not exact:
        return "<p>Every number in this release is protected.</p>"
    owner = release.owner
    why = f" Reason: {html.escape(str(owner['reason']))}." if owner.get("reason") else ""
    decided = f"<p>So decided by {html.escape(str(owner['name']))}.{why}</p>"
    return _list(list(dict.fromkeys(exact))) + decided


def _overview(issues: Sequence[Issue]) -> str:
    head = ("table", "queries", "method", "price", "expected error", "achieved")
    rows = []
    for issue in issues:
        publication = issue.publication
        error = "depends on the data" if publication.rmse is None else f"{publication.rmse:.4g}"
        cells = (issue.declared.name, f"{len(publication.answers):,}", publication.method,
                 _price(issue), error, _achieved(issue))  # fmt: skip
        rows.append("<tr>" + "".join(f"<td>{html.escape(c)}</td>" for c in cells) + "</tr>")
    top = "".join(f"<th>{h}</th>" for h in head)
    return f"<div class=wide><table><tr>{top}</tr>{''.join(rows)}</table></div>"


def _price(issue: Issue) -> str:
    """Say what a table cost, and what it gave away beside."""
    exact = " and ".join(issue.publication.loss.unprotected)
    price = str(issue.publication.plan.price)
    return f"{price}, beside the unprotected: {exact}" if exact else price


def _achieved(issue: Issue) -> str:
    """Say how good the numbers are: truly on made-up data, by intervals otherwise."""
    if issue.achieved is not None:
        return f"{issue.achieved:.4g} (root mean square, on made-up data)"
    if issue.width is not None:
        return f"± {issue.width:.4g} (median interval)"
    return "not known without a further price"


def _section(issue: Issue) -> str:
    e, name, publication = html.escape, issue.declared.name, issue.publication
    columns = " by ".join(map(str, issue.declared.get("columns") or [name]))
    summary = f"{len(publication.answers):,} counts of {columns}, with noise"
    method = f"{publication.plan.workload.describe()}; {publication.plan.mechanism.describe()}"
    changed = "; ".join(after_noise(issue.declared)) or "nothing"
    files = [f"tables/{name}.parquet", f"tables/{name}.csv", f"measurements/{name}.parquet"]
    links = ", ".join(f'<a href="{f}">{f}</a>' for f in files)
    return (
        f"<h3>{e(name)}</h3><p>{e(summary)}. After the noise: {e(changed)}.</p>"
        f"<p class=method>Method: {e(method)}</p>"
        f'<p><img src="charts/{name}.svg" alt="chart of {e(name)}"></p><p>Files: {links}</p>'
    )
