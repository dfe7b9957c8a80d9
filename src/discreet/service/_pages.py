"""Pages for people: rendered here, usable without scripts, every text escaped."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Mapping
from fractions import Fraction
from importlib.resources import files
from typing import Any, Final
from urllib.parse import parse_qsl, unquote
from urllib.parse import quote as address

from fastapi import APIRouter, Request, Response
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from discreet._exact import show
from discreet.answer import Answer, cells
from discreet.errors import DiscreetError, ParameterError
from discreet.service import _api, _books, _forms, _lines, _pictures, _views
from discreet.service._desk import Desk
from discreet.service._errors import (
    INTERNAL,
    ForbiddenError,
    GoneError,
    MediaError,
    UnknownCallerError,
    status_of,
)
from discreet.service._guide import STATISTICS, check_columns, fills, guided, on_page
from discreet.service._keys import Actor, Role
from discreet.service._orders import Order
from discreet.service._sessions import IDLE, Session, Sessions, own

_COOKIE: Final = "discreet_session"
_ATTEMPT: Final = "discreet_signin"
_CHOICE: Final = "discreet_policy"
_BLANK: Final = {
    "sql": "", "table": "", "statistic": "count", "of": "", "by": "", "where": "",
    "pay": "epsilon", "epsilon": "0.1", "delta": "", "column": "", "margin": "",
}  # fmt: skip
_SIGNS: Final = {"epsilon": "ε", "delta": "δ", "rho": "ρ"}
_HOLD: Final = 5.0
"""Seconds for which the page of an answer waits for it."""
_STATIC: Final = {
    "style.css": "text/css",
    "answer.js": "text/javascript",
    "ask.js": "text/javascript",
    "owner.js": "text/javascript",
    "icon.svg": "image/svg+xml",
}
_ASKING: Final = (Role.ANALYST, Role.OWNER)
_INSIDE: Final = (*_ASKING, Role.AUDITOR)
"""Whoever may use a policy; what somebody has asked is shown to them alone."""
_NAV: Final[tuple[tuple[str, str, tuple[Role, ...]], ...]] = (
    ("/ask", "Ask", _ASKING), ("/budget", "Budget", _INSIDE), ("/public", "Public", ()),
    ("/owner", "Owner", (Role.OWNER,)),
)  # fmt: skip
"""Pages, and whom each is for; empty: for everybody."""
_FILES: Final = {
    "record.json": _forms.JSON,
    "table.csv": _forms.CSV,
    "table.arrow": _forms.ARROW,
}
Page = Callable[[Request, Session], Awaitable[Response]]


class Pages:
    """The pages Ask, Budget, Owner and Public."""

    def __init__(self, house: _api.House, sessions: Sessions) -> None:
        self._house, self._sessions = house, sessions
        self._templates = Environment(
            loader=PackageLoader("discreet.service"), autoescape=True, undefined=StrictUndefined,
            trim_blocks=True,
        )  # fmt: skip
        self._templates.filters["moment"] = _moment
        self.router = APIRouter(include_in_schema=False)
        for method, path, page, roles in (
            ("GET", "/", self._home, Role), ("POST", "/logout", self._logout, Role),
            ("GET", "/ask", self._ask, _ASKING), ("POST", "/ask", self._submit, _ASKING),
            ("POST", "/ask/price", self._show_price, _ASKING),
            ("GET", "/answers/{id_}", self._answer, _INSIDE),
            ("GET", "/answers/{id_}/{file}", self._file, _INSIDE),
            ("GET", "/budget", self._budget, _INSIDE),
        ):  # fmt: skip
            self.add(method, path, page, *roles)
        self.router.add_api_route("/login", self._login, methods=["GET", "POST"])
        if house.oidc is not None:
            self.router.add_api_route("/login/oidc", self._leave_to_sign_in, methods=["GET"])
            self.router.add_api_route("/login/oidc/return", self._returned, methods=["GET"])
        self.router.add_api_route("/public", self._public, methods=["GET"])
        self.router.add_api_route("/static/{name}", _static, methods=["GET"])

    def add(self, method: str, path: str, page: Page, *roles: Role) -> None:
        """Serve a page to those who have signed in under one of these roles."""
        self.router.add_api_route(path, self._signed_in(page, roles), methods=[method])

    # -- who ---------------------------------------------------------------------------------

    def _signed_in(
        self, page: Page, roles: tuple[Role, ...]
    ) -> Callable[[Request], Awaitable[Response]]:
        """Serve a page to whoever has signed in and may see it; forms must be our own."""

        async def serve(request: Request) -> Response:
            session = self._session(request)
            if session is None:
                return redirect("/login")
            request.state.policy = None
            if request.method == "POST":
                form = await read_form(request)
                request.state.policy = session.check(form.get("token"), _site(request))
            try:
                _api.need(session.actor, *roles)
                if page != self._logout:
                    self._check_policy(request, session)
                return await page(request, session)
            except DiscreetError as refusal:
                return self.show(
                    "error.html", request, session, status_of(refusal), title="Refused",
                    refusal=on_page(refusal),
                )  # fmt: skip

        return serve

    def _check_policy(self, request: Request, session: Session) -> None:
        """Refuse a form that does not name one policy: of its page, whatever was shown since."""
        name, mine = request.state.policy, self._policies(session)
        asked = request.query_params.get("policy", name)
        if request.method == "POST" and mine and (name not in mine or asked != name):
            raise ForbiddenError("this form stands on a page of another policy")

    def missing(self, request: Request) -> Response:
        """Say to a browser that nothing is at an address."""
        body = {"message": "There is nothing at this address.", "hint": None}
        session = self._session(request)
        return self.show("error.html", request, session, 404, title="Not found", refusal=body)

    def failed(self) -> Response:
        """Say to a browser one constant; whatever failed is not asked again for this page."""
        shared: dict[str, Any] = {
            "session": None, "nav": [], "policies": [], "policy": None, "twin": None, "note": None,
            "choice": "", "stamp": None,
            "left": None, "title": "Failed", "refusal": INTERNAL,
        }  # fmt: skip
        text = self._templates.get_template("failed.html").render(shared)
        return Response(text, 500, media_type="text/html")

    def _session(self, request: Request) -> Session | None:
        name = request.cookies.get(_COOKIE)
        return self._sessions.find(name) if name and len(name) < 100 else None

    async def _login(self, request: Request) -> Response:
        if request.method == "GET":
            name = request.cookies.get(_COOKIE, "")
            gone = 0 < len(name) < 100 and self._session(request) is None
            note = self._sessions.ended(name) if gone else None
            return self.show("login.html", request, None, title="Sign in", note=note)
        if not own(_site(request)):
            raise UnknownCallerError("sign in from the page of this service")
        form = await read_form(request)
        actor = self._house.keys.find(form.get("key", "").strip())
        if actor is None:
            await _api.until_first_tick(request)
            body = {"message": "This key is not in force.", "hint": None}
            return self.show("login.html", request, None, 401, title="Sign in", refusal=body)
        return self._open_session(request, actor)

    def _open_session(self, request: Request, actor: Actor) -> Response:
        """Sign somebody in under a new name, whatever name the browser came with."""
        old = request.cookies.get(_COOKIE)
        if old:
            self._sessions.end(old)
        response = redirect(_first_page(actor.role))
        response.set_cookie(
            _COOKIE, self._sessions.begin(actor).name, max_age=int(IDLE) * 24, httponly=True,
            samesite="lax", secure=request.url.scheme == "https",
        )  # fmt: skip
        return response

    async def _leave_to_sign_in(self, request: Request) -> Response:
        assert self._house.oidc is not None
        try:
            url, name = await self._house.oidc.begin()
        except DiscreetError as refusal:
            return await self._not_signed_in(request, refusal)
        response = redirect(url)
        response.set_cookie(_ATTEMPT, name, max_age=600, httponly=True, samesite="lax",
                            secure=request.url.scheme == "https")  # fmt: skip
        return response

    async def _returned(self, request: Request) -> Response:
        assert self._house.oidc is not None
        try:
            attempt = request.cookies.get(_ATTEMPT, "-")[:100]
            actor = await self._house.oidc.finish(attempt, dict(request.query_params))
        except DiscreetError as refusal:
            return await self._not_signed_in(request, refusal)
        response = self._open_session(request, actor)
        response.delete_cookie(_ATTEMPT)
        return response

    async def _not_signed_in(self, request: Request, refusal: DiscreetError) -> Response:
        await _api.until_first_tick(request)
        return self.show("login.html", request, None, status_of(refusal), title="Sign in",
                         refusal=on_page(refusal))  # fmt: skip

    async def _logout(self, _: Request, session: Session) -> Response:
        self._sessions.end(session.name)
        response = redirect("/login")
        response.delete_cookie(_COOKIE)
        return response

    def show(
        self,
        template: str,
        request: Request,
        session: Session | None,
        status: int = 200,
        *,
        desk: Desk | None = None,
        **fields: Any,
    ) -> Response:
        mine = self._policies(session)
        if desk is None and session is not None and mine:
            desk = self.desk(request, session)
        role = None if session is None or desk is None else session.actor.role
        shared = {
            "session": session, "twin": None, "refusal": None,
            "nav": [(path, name) for path, name, roles in _NAV if not roles or role in roles],
            "note": None, "secret": None, "oidc": self._house.oidc is not None,
            "policies": mine,
            "policy": None if desk is None else desk.name,
            "choice": "" if desk is None or len(mine) < 2 else f"?policy={address(desk.name)}",
            "stamp": session and session.stamp(None if desk is None else desk.name),
            "left": None if desk is None or session is None
            else _views.left_of(desk, session.actor.name),
        }  # fmt: skip
        text = self._templates.get_template(template).render({**shared, **fields})
        response = Response(text, status, media_type="text/html")
        chosen = desk is not None and request.query_params.get("policy") == desk.name
        if desk is not None and chosen and own(_site(request)):
            response.set_cookie(_CHOICE, address(desk.name), httponly=True, samesite="lax",
                                secure=request.url.scheme == "https")  # fmt: skip
        return response

    def desk(self, request: Request, session: Session) -> Desk:
        """Give the desk of a form's page; or that chosen of late, or the first."""
        mine = self._policies(session)
        if not mine:
            raise GoneError("there is no policy for you here")
        name = request.query_params.get("policy") or unquote(request.cookies.get(_CHOICE, ""))
        name = getattr(request.state, "policy", None) or name
        return self._house.desks[name if name in mine else mine[0]]

    def _policies(self, session: Session | None) -> list[str]:
        if session is None:
            return []
        return [name for name in self._house.desks if session.actor.may_use(name)]

    def fragment(self, template: str, **fields: Any) -> Response:
        """Give a part of a page."""
        text = self._templates.get_template(template).render(**fields)
        return Response(text, media_type="text/html")

    # -- asking ------------------------------------------------------------------------------

    async def _home(self, _: Request, session: Session) -> Response:
        return redirect(_first_page(session.actor.role))

    async def _ask(self, request: Request, session: Session) -> Response:
        return self._ask_page(request, session, _BLANK)

    def _ask_page(
        self, request: Request, session: Session, form: Mapping[str, str], **more: Any
    ) -> Response:
        desk = self.desk(request, session)
        tables = desk.counter.policy.tables
        fields = {**_BLANK, **{k: v for k, v in form.items() if k in _BLANK}}
        columns = {name: list(table.columns) for name, table in tables.items()}
        current = fields["table"] if fields["table"] in tables else next(iter(tables))
        orders = [
            {"id": o.id, "asked": o.asked, "text": _pictures.shortened(question_of(o), 80),
             "state": o.state, "price": show(o.paid)}
            for o in desk.orders.of(session.actor.name, 20)
        ]  # fmt: skip
        extras = {"price": None, "refusal": None, **more}
        return self.show(
            "ask.html", request, session, extras.pop("status", 200), title="Ask", form=fields,
            key=secrets.token_hex(16), tables=columns, columns=columns[current],
            has_delta="delta" in desk.ledger.balance().amounts,
            statistics=list(STATISTICS), orders=orders,
            twin=self.twin(request, session, "answers"), **extras,
        )  # fmt: skip

    async def _submit(self, request: Request, session: Session) -> Response:
        form = await read_form(request)
        desk = self.desk(request, session)
        try:
            if form.get("action") == "withdraw":
                its_desk, order = self._house.order(session.actor, form.get("id", ""))
                if its_desk is not desk:
                    raise GoneError("there is no such question under this policy")
                await desk.withdraw(order)
                return redirect(f"/answers/{order.id}")
            if form.get("action") == "write":
                check_columns(form, desk.counter.policy)
                return self._ask_page(request, session, {**form, "sql": guided(form)})
            body = offered(form)
            if (action := form.get("action")) in ("ask", "rehearse"):
                answerer = desk if action == "ask" else _api.rehearsed(desk)
                order = await answerer.ask(session.actor.name, form.get("key") or None, body)
                return redirect(f"/answers/{order.id}")
            price = await self._priced(desk, session, body)
        except DiscreetError as refusal:
            await _api.until_first_tick(request)
            words, status = on_page(refusal), status_of(refusal)
            fields = {**form, **fills(words, form)}
            return self._ask_page(request, session, fields, refusal=words, status=status)
        return self._ask_page(request, session, form, price=_price_view(price))

    async def _show_price(self, request: Request, session: Session) -> Response:
        form = await read_form(request)
        desk = self.desk(request, session)
        price = refusal = None
        try:
            body = offered(form)
            price = await self._priced(desk, session, body)
        except DiscreetError as error:
            refusal = on_page(error)
        view = None if price is None else _price_view(price)
        return self.fragment("price.html", price=view, refusal=refusal)

    async def _priced(self, desk: Desk, session: Session, body: dict[str, Any]) -> dict[str, Any]:
        name = session.actor.name
        return await desk.preview(name, lambda: _views.price(desk, name, body))

    async def _answer(self, request: Request, session: Session) -> Response:
        _, order = self._house.order(session.actor, request.path_params["id_"])
        if order.state == "running":  # most answers are there when their page is
            await _api.until_over(order, _HOLD, request)
        if order.state != "done":
            return self._page_of(order, request, session, says=_stands(order), soon=_soon(order))

        def page() -> Response:
            answers = [_table(a) for a in _forms.answers_of(order)]
            return self._page_of(order, request, session, answers=answers)

        return await self._house.press.work(order, page)

    def _page_of(self, order: Order, request: Request, session: Session, **more: Any) -> Response:
        base = str(request.base_url).rstrip("/")
        desk, _ = self._house.order(session.actor, order.id)
        policy = desk.name if len(self._policies(session)) > 1 else None
        return self.show(
            "answer.html", request, session, desk=desk, title="Answer", id=order.id,
            state=order.state,
            question=question_of(order), sql=order.body.get("sql", ""), level="95 %",
            form=_offer(order), price=show(order.price),
            cached=order.cached, dummy=order.dummy, left_then=order.left,
            signer=self._house.signer.public,
            twin=f"/v1/answers/{order.id}",
            python=_lines.python(order, base, policy), curl=_lines.curl(order, base, policy),
            **{"answers": [], "says": "", "soon": None, **more},
        )  # fmt: skip

    async def _file(self, request: Request, session: Session) -> Response:
        desk, order = self._house.order(session.actor, request.path_params["id_"])
        if order.state != "done":
            raise GoneError("there is no such answer yet")
        print_, signer = desk.fingerprint, self._house.signer
        file = request.path_params["file"]
        media = _FILES.get(file)
        if media is None:
            raise GoneError("there is no such file")
        content = await self._house.press.copy(
            order, media, "0.95", lambda: _forms.write(order, media, print_, signer, "0.95")
        )
        fields = {"Content-Disposition": "attachment", **_forms.headers(order, media)}
        return Response(content, 200, fields, media)

    # -- budget ------------------------------------------------------------------------------

    async def _budget(self, request: Request, session: Session) -> Response:
        desk = self.desk(request, session)
        contents = await desk.write(lambda: _books.contents(desk, session.actor))
        twin = self.twin(request, session, "budget")
        return self.show("budget.html", request, session, title="Budget", twin=twin, **contents)

    def back(self, path: str, request: Request, session: Session) -> Response:
        """Go on at a page of the same policy."""
        name = self.desk(request, session).name
        several = len(self._policies(session)) > 1
        return redirect(f"{path}?policy={address(name)}" if several else path)

    def twin(self, request: Request, session: Session, route: str) -> str:
        """Address of the same as JSON."""
        query = f"?policy={address(self.desk(request, session).name)}"
        return f"/v1/{route}{query if len(self._policies(session)) > 1 else ''}"

    # -- everybody ---------------------------------------------------------------------------

    async def _public(self, request: Request) -> Response:
        desk = self._house.public_desk(request)
        facts = await desk.write(lambda: _views.public_of(desk, self._house.signer))
        policy = await desk.write(lambda: _views.policy_of(desk, self._house.signer))
        for row in facts["releases"]:
            row["epsilon"] = show(Fraction(row["cost"]["epsilon"]))
        query = f"?policy={address(desk.name)}"
        return self.show(
            "public.html", request, self._session(request), title="Public", facts=facts,
            served=list(self._house.desks), query=query, twin=f"/v1/releases{query}",
            toml=policy["toml"],
        )  # fmt: skip


def question_of(order: Order) -> str:
    """Write what an order asks for, for people."""
    if "sql" in order.body:
        return str(order.body["sql"])
    return ";\n".join(q["sql"] for q in order.body["questions"])


def _offer(order: Order) -> dict[str, str]:
    """Fields of the form that offer what an order has offered; margins in the order of columns."""
    within, delta = order.body.get("within"), {"delta": str(order.body.get("delta", ""))}
    if not within:
        return {"pay": "epsilon", "epsilon": str(order.body.get("epsilon", "0.1")), **delta}
    return {
        **delta,
        "pay": "within",
        "column": ", ".join(within),
        "margin": ", ".join(map(str, within.values())),
    }


def offered(form: Mapping[str, str]) -> dict[str, Any]:
    """Read the question and what is offered for it from a form."""
    body: dict[str, Any] = {"sql": form.get("sql", "").replace("\r\n", "\n")}
    if form.get("delta", "").strip():
        body["delta"] = form["delta"]
    if form.get("pay") == "within":
        return {**body, "within": _margins(form.get("column", ""), form.get("margin", ""))}
    return {**body, "epsilon": form.get("epsilon", "")}


def _margins(column: str, margin: str) -> dict[str, str]:
    """Read a margin of a column, or of several with commas between them."""
    if not column.strip() or not margin.strip():
        raise ParameterError("say which column must be exact, and within how much of the truth",
                             hint="column n, within ± 50")  # fmt: skip
    names, within = ([x.strip() for x in text.split(",")] for text in (column, margin))
    if len(names) != len(within):
        return {column.strip(): margin.strip()}
    return dict(zip(names, within, strict=True))


def _stands(order: Order) -> str:
    """Say where a question stands that has no answer."""
    if order.state == "waiting":
        terms = f"ε = {show(order.price)} is set aside, and nothing is charged before it"
        return f"It waits for an owner's decision: {terms}."
    if order.state == "running" and order.run is not None and order.run.held:
        return "Too many of its size were late: it is paid, and starts when the owner has looked."
    if order.state == "running":
        return f"It is running; such answers leave {order.tick:g} s after they start."
    if order.state == "failed":
        return "It failed, and stays paid. Why is not disclosed: that could depend on the data."
    if order.state == "withdrawn":
        return "You have withdrawn it. Nothing was charged."
    if order.state == "lost":
        return ("The ledger was restored from an older backup, and the line that paid for this is "
                "lost, its answer with it. What it cost counts as spent.")  # fmt: skip
    return f"It was {order.state}. {order.decided or ''}"


def _soon(order: Order) -> int | None:
    """Seconds after which a page is worth another look; none if nothing more will come."""
    if order.over:
        return None
    return 30 if order.state == "waiting" else max(1, round(order.tick))


def _price_view(price: Mapping[str, Any]) -> dict[str, Any]:
    level = f"{100 * price['confidence']:.4g} %"
    margins = {name: _unbroken(text, noisy=True) for name, text in price["error"].items()}
    cost = show(Fraction(price["cost"]["epsilon"]))
    return {**price, "epsilon": cost, "level": level, "error": margins}


def _table(answer: Answer) -> dict[str, Any]:
    ends = answer.interval("0.95")
    rows = [
        [_unbroken(text, noisy=isinstance(end, tuple))
         for text, end in zip(row, each.values(), strict=True)]
        for row, each in zip(cells(answer, ends), ends, strict=True)
    ]  # fmt: skip
    charts = _pictures.error_bars(answer, "0.95")
    pictures = [(name, Markup(svg)) for name, svg in charts]  # noqa: S704 - every text in it is escaped
    return {"columns": answer.columns, "rows": rows, "covers": answer.covers, "pictures": pictures}


def _unbroken(text: str, *, noisy: bool) -> str:
    """Keep a number and its margin whole where a narrow table breaks its lines."""
    if not noisy:
        return text
    return text.replace("\u2009", "\u202f").replace("± ", "±\u00a0").replace(", ", ",\u00a0")


async def read_form(request: Request) -> dict[str, str]:
    """Read a form; of a name that is there twice, the last one counts."""
    media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media != "application/x-www-form-urlencoded":
        raise MediaError("a page's form is expected here")
    try:
        text = (await request.body()).decode("ascii")
        return dict(parse_qsl(text, keep_blank_values=True, max_num_fields=50, errors="strict"))
    except ValueError:
        raise MediaError("this form cannot be read") from None


def _first_page(role: Role) -> str:
    return {Role.OWNER: "/owner", Role.ANALYST: "/ask", Role.AUDITOR: "/budget"}.get(
        role, "/public"
    )


def _site(request: Request) -> str | None:
    """Where a request comes from, as far as a browser says."""
    return request.headers.get("sec-fetch-site")


def redirect(where: str) -> Response:
    return Response(status_code=303, headers={"Location": where})


async def _static(name: str) -> Response:
    """Serve one of our own files."""
    if name not in _STATIC:
        raise GoneError("there is nothing at this address")
    raw = (files("discreet.service") / "static" / name).read_bytes()
    return Response(raw, 200, {"Cache-Control": "public, max-age=300"}, _STATIC[name])


def _moment(text: str) -> str:
    """Write a moment for people: to the minute, as everywhere in UTC."""
    return text[:16].replace("T", " ")
