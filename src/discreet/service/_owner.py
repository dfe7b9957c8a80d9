"""The owner's pages: what waits, keys, budget, ledger, and policies in the making."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, Final

from fastapi import Request, Response

from discreet import policy as pol
from discreet._exact import show
from discreet.errors import DiscreetError, ParameterError
from discreet.service import _api, _views
from discreet.service._errors import GoneError, envelope
from discreet.service._keys import Role
from discreet.service._pages import Pages, read_form
from discreet.service._sessions import Session

_DEED_COOKIE: Final = "discreet_done"
_DEEDS: Final = {
    "approved": "Approved, and paid for.",
    "declined": "Declined; nothing was charged.",
    "agreed": "You have agreed to it: the new total is on record, in both names.",
    "disagreed": "Declined; the total stays what it was.",
    "raised": "The new total is on record.",
    "proposed": "Proposed: another owner must agree.",
    "shared": "The shares are on record.",
    "closed": "Closed for new questions.",
    "opened": "Open for questions again.",
    "revoked": "The key is revoked.",
}
_PLACE: Final = re.compile(r"^<policy>(, line \d+)?: ")


class OwnerPages:
    """Pages under ``/owner``; every one of them is for owners."""

    def __init__(self, house: _api.House, pages: Pages) -> None:
        self._house, self._pages = house, pages
        for method, path, page in (
            ("GET", "/owner", self._owner), ("POST", "/owner/requests/{id_}", self._decide),
            ("POST", "/owner/keys", self._add_key), ("POST", "/owner/keys/{id_}", self._revoke),
            ("POST", "/owner/budget", self._raise), ("POST", "/owner/closure", self._close),
            ("POST", "/owner/shares", self._share),
            ("POST", "/owner/check", self._check), ("POST", "/owner/checked", self._checked),
            ("POST", "/owner/draft", self._draft),
        ):  # fmt: skip
            pages.add(method, path, page, Role.OWNER)

    async def _owner(self, request: Request, session: Session) -> Response:
        return await self._page(request, session)

    async def _page(self, request: Request, session: Session, **more: Any) -> Response:
        desk = self._pages.desk(request, session)
        waiting = await desk.write(lambda: _views.requests_of(desk))
        for entry in waiting:
            entry["text"] = entry["question"].get("sql") or json.dumps(entry["question"], indent=1)
        raises = [r.to_dict() for r in await desk.write(desk.raises.waiting)]
        report = await desk.write(desk.ledger.verify)
        state = await desk.write(lambda: desk.ledger.state)
        toml = more.pop("toml", None) or await desk.write(lambda: _views.draft_of(desk))
        deed = request.cookies.get(_DEED_COOKIE) if request.method == "GET" else None
        fields = {"name": "", "columns": "", "checked": None, "revoking": None,
                  "note": _DEEDS.get(deed or ""), **more}  # fmt: skip
        totals = {n: show(v) for n in ("epsilon", "delta", "rho")
                  if (v := getattr(state.limits, n))}  # fmt: skip
        response = self._pages.show(
            "owner.html", request, session, title="Owner", requests=waiting, raises=raises,
            totals=totals,
            keys=self._house.keys_of(session.actor), verified=str(report),
            health=_views.health_of(desk),
            closed=bool(state.closed) or desk.braked, toml=toml, drafts=self._house.draft,
            two=desk.counter.policy.service.owners > 1, shares=_shares_text(state.limits.shares),
            twin=self._pages.twin(request, session, "requests"), **fields,
        )  # fmt: skip
        if deed is not None:
            response.delete_cookie(_DEED_COOKIE)
        return response

    def _back(self, request: Request, session: Session, what: str) -> Response:
        """Go back to the page, which says once what was done."""
        response = self._pages.back("/owner", request, session)
        response.set_cookie(_DEED_COOKIE, what, max_age=60, httponly=True, samesite="lax")
        return response

    async def _decide(self, request: Request, session: Session) -> Response:
        form, desk = await read_form(request), self._pages.desk(request, session)
        id_, approve = request.path_params["id_"], form.get("decision") == "approve"
        asked = desk.orders.find(id_) is not None  # or a new total is proposed
        await desk.decide(
            id_, approve=approve, by=session.actor.name, reason=form.get("reason", "")[:2000],
            seen=form.get("seen", ""),
        )  # fmt: skip
        words = ("approved", "declined") if asked else ("agreed", "disagreed")
        return self._back(request, session, words[0] if approve else words[1])

    async def _add_key(self, request: Request, session: Session) -> Response:
        form = await read_form(request)
        role = form.get("role", "")
        if role not in set(Role):
            raise GoneError("there is no such role")
        key = self._house.add_key(form.get("name", ""), role, session.actor)
        note = f"The key of {form['name']}, {role}. It is not stored and cannot be shown again:"
        return await self._page(request, session, note=note, secret=key)

    async def _revoke(self, request: Request, session: Session) -> Response:
        form, id_ = await read_form(request), request.path_params["id_"]
        key = self._house.revocable(id_, session.actor)
        if form.get("sure") != "yes":
            return await self._page(request, session, revoking=key)
        self._house.revoke_key(id_, session.actor)
        return self._back(request, session, "revoked")

    async def _raise(self, request: Request, session: Session) -> Response:
        form, desk = await read_form(request), self._pages.desk(request, session)
        totals = {n: text for n in ("epsilon", "delta", "rho") if (text := form.get(n, "").strip())}
        by, reason = session.actor.name, form.get("reason", "")[:2000]
        proposal = await desk.write(lambda: desk.raises.propose(totals, by=by, reason=reason))
        return self._back(request, session, "raised" if proposal is None else "proposed")

    async def _share(self, request: Request, session: Session) -> Response:
        form, desk = await read_form(request), self._pages.desk(request, session)
        shares, reason = _read_shares(form.get("shares", "")), form.get("reason", "")[:2000]
        await desk.write(lambda: desk.ledger.set_shares(shares, by=session.actor.name, note=reason))
        return self._back(request, session, "shared")

    async def _close(self, request: Request, session: Session) -> Response:
        form, desk = await read_form(request), self._pages.desk(request, session)
        act = desk.ledger.close if form.get("closed") == "yes" else desk.ledger.reopen
        reason = form.get("reason", "")[:2000]
        await desk.write(lambda: act(by=session.actor.name, note=reason))
        if form.get("closed") != "yes":
            desk.acknowledge()
        return self._back(request, session, "closed" if form.get("closed") == "yes" else "opened")

    # -- policies in the making --------------------------------------------------------------

    async def _check(self, request: Request, session: Session) -> Response:
        toml = _typed(await read_form(request), "toml")
        return await self._page(request, session, toml=toml, checked=verdict(toml))

    async def _checked(self, request: Request, _: Session) -> Response:
        """Say about a draft, while it is typed, what the button says."""
        toml = _typed(await read_form(request), "toml")
        return self._pages.fragment("checked.html", checked=verdict(toml))

    async def _draft(self, request: Request, session: Session) -> Response:
        """Draft a policy from names and types of columns; no value of a table is asked for."""
        form = await read_form(request)
        name, columns = form.get("name", ""), _typed(form, "columns")
        if self._house.draft is None:
            raise GoneError("this service drafts no policies")
        toml = self._house.draft(name, columns)
        return await self._page(request, session, toml=toml, name=name, columns=columns,
                                checked=verdict(toml))  # fmt: skip


def verdict(toml: str) -> dict[str, Any]:
    """Say whether a text is a policy, and if not, why."""
    try:
        pol.loads(toml + "\n")
    except DiscreetError as refusal:
        body = envelope(refusal)
        # the page names the line, and shows the text above
        return {**body, "message": _PLACE.sub("", body["message"].partition("\n")[0])}
    except RecursionError:
        return envelope(ParameterError("this text is nested too deeply"))
    return {"ok": True, "message": "This draft is a policy that can be used.", "hint": None}


def _typed(form: dict[str, str], name: str) -> str:
    return form.get(name, "").replace("\r\n", "\n")


def _shares_text(shares: Mapping[str, Fraction]) -> str:
    """Shares as an owner writes them."""
    return ", ".join(f"{name} = {show(part)}" for name, part in shares.items())


def _read_shares(text: str) -> dict[str, str]:
    """Read shares as an owner writes them; nothing: there are none any more."""
    pairs = [part.partition("=") for part in text.split(",") if part.strip()]
    shares = {name.strip(): part.strip() for name, _, part in pairs}
    if len(shares) < len(pairs) or not all(name and part for name, part in shares.items()):
        raise ParameterError("a share is a name and a part of the whole, each name once",
                             hint="ana = 0.5, ben = 0.25")  # fmt: skip
    return shares
