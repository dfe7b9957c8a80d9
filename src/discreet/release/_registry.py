"""Entries of the public registry of deployments: a release, or a policy that is asked under.

The fields are those of the registry's schema (github.com/opendp/deployments-registry-data,
``schemas/deployments-schema.yaml``); a test holds both entries against it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from discreet import __version__
from discreet._dataclass import dataclass
from discreet._exact import show
from discreet.policy import Policy
from discreet.release._declared import Declaration
from discreet.release._folder import Issue
from discreet.release._report import after_noise, exact_numbers, overall

OPEN: Final = "to be filled in"
"""Stands where only the curator knows what to write."""
_NOISE: Final = (
    "integer noise, exactly sampled; sensitivities are integers, no floating-point number "
    "carries one"
)


@dataclass(frozen=True, slots=True)
class About:
    """What a policy does not say about its deployment; what is left out is marked as open."""

    curator: str = OPEN
    description: str = OPEN
    use: str = OPEN
    region: str = OPEN
    since: str | None = None
    """Day of the first publication, as YYYY-MM-DD; left out: today."""


def registry(release: Declaration, issues: Sequence[Issue], whom: Mapping[str, str]) -> str:
    """Return the entry of a release, as YAML."""
    parameters = overall(issues)
    pure = "delta" not in parameters
    exact = [text for issue in issues for text in exact_numbers(issue)]
    synthetic = any(issue.publication.method == "synthetic" for issue in issues)
    after = [f"{i.declared.name}: {'; '.join(after_noise(i.declared))}" for i in issues
             if after_noise(i.declared)]  # fmt: skip
    methods = sorted({issue.publication.method for issue in issues})
    about = About(
        str(release.owner.get("name") or OPEN),
        str(release.document.get("description", release.title)),
        str(release.document.get("use", OPEN)),
        str(release.document.get("region", OPEN)),
    )
    details = "; ".join(f"{i.declared.name}: {i.publication.plan.price}" for i in issues)
    return _entry(
        release.title,
        "Synthetic data" if synthetic else "Summary statistics",
        about,
        dp_variant={
            "variant_name": "Pure DP" if pure else "Zero-concentrated DP",
            "data_domain": "all tables over the public domains of the policy",
            "unprotected_quantities": " ".join(exact) or "none",
        },
        privacy_loss={
            "privacy_unit": whom["unit"],
            "privacy_unit_details": f"{whom['relation']} {whom['limits']}",
            "privacy_parameters": parameters,
            "privacy_parameters_details": f"all tables composed: at most the sum of {details}",
        },
        deployment_model={
            "model_name": "Central",
            "release_type": "One release",
            "data_source_type": "Static",
            "access_type": "Non-interactive",
        },
        accounting={
            "post_processing": "; ".join(after) or "least squares only",
            "composition": "parameters fixed in advance; losses composed, debited first",
        },
        mechanisms=f"discreet {__version__}: {', '.join(methods)}; {_NOISE}",
    )


def deployment(policy: Policy, about: About, *, exact: Sequence[str] = ()) -> str:
    """Return the entry of a policy under which people ask, as YAML.

    Parameters
    ----------
    policy
        What is public, who is protected and how much may be lost.
    about
        What the policy does not say.
    exact
        What was released without protection under it.
    """
    private = [t for t in policy.tables.values() if not t.public]
    open_tables = [f"table {t.name}, which protects nobody" for t in policy.tables.values()
                   if t.public]  # fmt: skip
    budget, service = policy.budget, policy.service
    amounts = ((n, getattr(budget, n)) for n in ("epsilon", "delta", "rho"))
    parameters = {name: float(value) for name, value in amounts if value}
    rules = ["one cap for all analysts together, above any shares: collusion gains nothing"]
    if budget.shares:
        rules.append("shares: " + ", ".join(show(part) for part in budget.shares.values()))
    if service.daily is not None:
        rules.append(f"at most ε={show(service.daily)} a day for one analyst")
    if service.approval is not None:
        rules.append(f"questions above ε={show(service.approval)} wait for an owner")
    return _entry(
        policy.identity,
        "SQL queries",
        about,
        dp_variant={
            "variant_name": _VARIANTS[budget.accounting],
            "data_domain": "all tables over the public domains of the policy",
            "unprotected_quantities": "; ".join([*exact, *open_tables]) or "none",
        },
        privacy_loss={
            "privacy_unit": "; ".join(f"{t.name}: {t.unit or 'one row'}" for t in private),
            "privacy_unit_details": "; ".join(_neighbours(t) for t in private),
            "privacy_parameters": parameters,
            "privacy_parameters_details": "for everything that is ever released under the policy",
        },
        deployment_model={
            "model_name": "Central",
            "actors": "the curator's machine is trusted with the data; owners decide from texts "
            "and prices; analysts and the public are not trusted",
            "release_type": "Many releases",
            "release_type_details": "the budget is fixed; when it is spent no more is answered",
            "data_source_type": "Static",
            "access_type": "Interactive",
            "access_type_details": "; ".join(rules),
        },
        accounting={
            "post_processing": "answers are scaled, combined and rounded after the noise",
            "composition": f"{budget.accounting} accounting by a filter: parameters may be chosen "
            "after earlier answers; every question is debited before it runs and never refunded",
        },
        mechanisms=f"discreet {__version__}: {_NOISE}. Times of answers are fixed by plans and "
        "declared sizes before a run. Statements are proved before they run; analysts never "
        "reach the data; who asks is known by key or sign-in; the ledger is a chain of hashes.",
    )


_VARIANTS: Final = {
    "pure": "Pure DP", "approx": "Approximate DP", "zcdp": "Zero-concentrated DP",
}  # fmt: skip


def _neighbours(table: Any) -> str:
    one = table.unit or "row"
    how = "is added or removed" if table.neighbours.value == "add-remove" else "is changed"
    most = table.max_rows_per_unit
    rows = "one row counts" if most == 1 else f"{most} rows count"
    limit = "" if most is None else f", of which at most {rows}"
    return f"{table.name}: one {one} {how}{limit}"


def _entry(name: str, product: str, about: About, *, mechanisms: str, **parts: Any) -> str:
    """Put an entry together in the schema's order."""
    slug = "".join(c if c.isalnum() else "-" for c in name.lower()).strip("-")
    basic = {
        "name": name,
        "data_curators": [about.curator],
        "description": about.description,
        "intended_use": about.use,
        "data_product_type": product,
        "data_product_region": about.region,
        "publication_date": about.since or datetime.now(UTC).date().isoformat(),
    }
    entry = {
        "url_slug": slug,
        "status": "Draft",
        "tier": 3,
        "deployment": {
            "basic": basic,
            **parts,
            "implementation": {"mechanisms": mechanisms},
            "administrative": {
                "registry_authors": ["discreet" if about.curator == OPEN else about.curator]
            },
        },
    }
    return _yaml(entry)


def _yaml(node: Any, depth: int = 0) -> str:
    """Write nested mappings, lists and scalars; JSON's scalars are YAML's."""
    pad = "  " * depth
    lines = []
    for key, value in node.items():
        if isinstance(value, Mapping):
            lines.append(f"{pad}{key}:\n{_yaml(value, depth + 1)}")
        elif isinstance(value, list):
            items = "".join(f"{pad}  - {_scalar(v)}\n" for v in value)
            lines.append(f"{pad}{key}:\n{items}")
        else:
            lines.append(f"{pad}{key}: {_scalar(value)}\n")
    return "".join(lines)


def _scalar(value: Any) -> str:
    """Write a scalar; YAML 1.1 takes 1e-06 for a text, and 1.0e-06 for a number.

    >>> _scalar(1e-06), _scalar(0.5), _scalar("1e-06")
    ('1.0e-06', '0.5', '"1e-06"')
    """
    text = json.dumps(value, ensure_ascii=False)
    bare = isinstance(value, float) and "." not in text
    return text.replace("e", ".0e") if bare else text
