"""The other end: a curator that is asked over HTTP, with the methods of a local one."""

from __future__ import annotations

import datetime as dt
import http.client
import json
import secrets
import ssl
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from fractions import Fraction
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import parse_qsl, urlsplit
from urllib.parse import quote as quoted

from discreet import errors
from discreet import policy as pol
from discreet import sql as front
from discreet._dataclass import dataclass, field
from discreet._exact import Number, show
from discreet._log import state_directory
from discreet._text import plain_str
from discreet.answer import Answer, Union
from discreet.curator import (
    Budget,
    Curator,
    Description,
    Pending,
    open_curator,
    read_outcome,
)
from discreet.ledger import Balance
from discreet.service._errors import RequestError
from discreet.service._sign import check, signed_part

if TYPE_CHECKING:
    from discreet import frame
    from discreet.inference import ErrorEstimate

_TRIES: Final = 6
_PATIENCE: Final = 600.0
_AGAIN: Final = (429, 503)
_HERE: Final = {
    "unauthenticated": errors.Hint.either(
        'dc.connect(url, key="dk_…")', "export DISCREET_KEY=dk_…"
    ),
}
"""What to try here, where a refusal speaks of HTTP."""
ONLY_LOCAL: Final = frozenset(
    {"coverage", "ledger", "linear", "partition", "preview_regression", "publication", "publish",
     "record_external", "regression", "survey"}
)  # fmt: skip
"""What a curator has and a service does not: it needs the ledger, or more than SQL can say."""
_ENDED: Final = {
    "declined": "the question was declined",
    "withdrawn": "the question was withdrawn; nothing was charged",
    "lost": "the line of the ledger that paid for it is lost, and its answer with it",
}


def connect(
    url: str, key: str, *, policy: str | None = None, dummy: bool = False
) -> Remote | Curator:
    """Open a curator that somebody else runs.

    Parameters
    ----------
    url
        Where the service is: ``https://curator.example``.
    key
        Your key, as ``discreet key add`` has shown it.
    policy
        Which policy, where the service has several.
    dummy
        Answer here, from data that are made up from the service's public policy: free, and no
        release; every answer says so.
    """
    remote = Remote(url, key, policy=policy)
    if not dummy:
        return remote
    with remote:
        return open_curator(policy=remote.policy, dummy=True)


@dataclass(frozen=True)
class Price:
    """What a question would cost, and how exact its answer would be, as the service says."""

    data: Mapping[str, Any]

    @property
    def cost(self) -> dict[str, str]:
        """Price in every currency defined for it."""
        return dict(self.data["cost"])

    @property
    def price(self) -> str:
        """Price in words: what would be paid now."""
        if self.stored:
            return "free: answered before"
        return f"ε {show(Fraction(self.cost['epsilon']))}"

    @property
    def left(self) -> str:
        """What is left before it is paid."""
        return str(self.data["left"])

    @property
    def stored(self) -> bool:
        """Whether the same question has been answered: it would be free."""
        return bool(self.data["stored"])

    @property
    def refused(self) -> str | None:
        """Why the question would be refused now; None: it would not be."""
        return None if self.data["refused"] is None else str(self.data["refused"])

    @property
    def needs_approval(self) -> bool:
        """Whether it would wait for an owner's decision: one that is free or refused never does."""
        new = not self.stored and self.refused is None
        return new and bool(self.data["needs_approval"])

    @property
    def sql(self) -> tuple[str, ...]:
        """Statements that would run."""
        return tuple(self.data["sql"])

    @property
    def confidence(self) -> float:
        """Level of the margins."""
        return float(self.data["confidence"])

    def error(self) -> dict[str, str]:
        """Expected margin of every output, in words."""
        return dict(self.data["error"])

    def __repr__(self) -> str:
        lines = [f"cost    {self.price}"]
        if self.refused is not None and not self.stored:
            lines.append(f"        would be refused: {self.refused}")
        if self.needs_approval:
            lines.append("        would wait for an owner's decision; it is set aside until then")
        lines += [f"budget  {self.left}", f"noise   {self.data['why']}"]
        level = f"{100 * self.confidence:.4g} %"
        lines += [f"error   {name}: {margin} at {level}" for name, margin in self.error().items()]
        lines += [f"note    {text}" for text in self.data["warnings"]]
        lines.append(f"answer  after {self.data['tick']:g} s")
        lines += ["        " + line for line in self.data["describes"].splitlines()]
        return "\n".join(lines)


class Remote:
    """A curator behind HTTP; made by :func:`discreet.connect`."""

    def __init__(self, url: str, key: str, *, policy: str | None = None) -> None:
        parts = urlsplit(plain_str(url, "url"))
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise errors.ParameterError(
                "a service has an address that begins with https://",
                hint=errors.Hint.call("dc.connect", None, "https://curator.example", key="dk_…"),
            )
        if parts.query:
            raise errors.ParameterError(
                "the address of a service has no query: which of its policies is said beside it",
                hint=errors.Hint("policy", dict(parse_qsl(parts.query)).get("policy", "NAME")),
            )
        self.url = f"{parts.scheme}://{parts.netloc}"
        self._parts = parts
        self._key = plain_str(key, "key").strip()
        self._query = "" if policy is None else f"?policy={quoted(policy)}"
        self._line: http.client.HTTPConnection | None = None
        self._public: Mapping[str, Any] | None = None

    @property
    def analyst(self) -> str:
        """Who asks: the name of your key."""
        return str(self._call("GET", "/v1/budget")[1]["analyst"])

    def __getattr__(self, name: str) -> Any:
        if name in ONLY_LOCAL:
            raise AttributeError(f"a service does not offer {name}: it is asked in SQL or by table")
        raise AttributeError(f"'Remote' has no attribute {name!r}")

    # -- asking ---------------------------------------------------------------------------

    def sql(
        self,
        query: str,
        *,
        epsilon: Number | None = None,
        delta: Number | None = None,
        rho: Number | None = None,
        within: Mapping[str, Number] | None = None,
        confidence: Number = 0.95,
        key: str | None = None,
        fresh: bool = False,
    ) -> Answer:
        """Answer a SQL query; the parameters are those of :meth:`discreet.Curator.sql`."""
        body = _body(query, within, epsilon=epsilon, delta=delta, rho=rho, confidence=confidence)
        result = self._ordered("/v1/answers", {**body, **({"fresh": True} if fresh else {})}, key)
        return self._answers(result, [query])[0]

    def preview(
        self,
        query: str | frame.Table,
        *,
        epsilon: Number | None = None,
        delta: Number | None = None,
        rho: Number | None = None,
        within: Mapping[str, Number] | None = None,
        confidence: Number = 0.95,
    ) -> Price:
        """Price a query without touching data or budget."""
        body = _body(
            _text(query), within, epsilon=epsilon, delta=delta, rho=rho, confidence=confidence
        )
        return Price(self._call("POST", "/v1/preview", body)[1])

    def table(self, name: str) -> frame.Table:
        """Start a question in Python instead of SQL."""
        from discreet import frame  # noqa: PLC0415 - only for questions in Python

        return frame.Table(self.policy.table(name).name, self.policy, self, _unknown)

    @property
    def tables(self) -> tuple[str, ...]:
        """Names of the tables."""
        return tuple(self.policy.tables)

    def describe(self, table: str | None = None) -> Description:
        """Say which columns there are and what may stand in them; free, from the policy alone."""
        own = self.policy.tables.values() if table is None else [self.policy.table(table)]
        return Description(tuple(own))

    def ask(self, question: frame.Table, **how: Any) -> Answer:
        """Answer a question of the fluent API; the parameters are those of :meth:`sql`."""
        return self.sql(_text(question), **how)

    def batch(
        self, epsilon: Number | None = None, delta: Number | None = None, *, nulls: bool = False
    ) -> RemoteBatch:
        """Collect several questions, compose them tightly, pay once."""
        return RemoteBatch(self, epsilon, delta, nulls)

    def error_of(
        self, answer: Any, truth_query: str, *, epsilon: Number, **how: Any
    ) -> ErrorEstimate:
        """Buy an estimate of how far a published number is from the truth."""
        from discreet import inference  # noqa: PLC0415 - loaded when it is called

        return inference.error_of(self, answer, truth_query, epsilon, **how)

    @property
    def budget(self) -> Budget:
        """Spent and left, for the table and for you."""
        reply = self._call("GET", "/v1/budget")[1]
        table, share = (
            Balance(
                reply["accounting"],
                {c: (Fraction(x["spent"]), Fraction(x["total"])) for c, x in reply[part].items()},
            )
            for part in ("whole", "share")
        )
        return Budget(table, share, reply["analyst"], Fraction(reply.get("set_aside", 0)))

    @property
    def policy(self) -> pol.Policy:
        """What is public about the data; places are not."""
        return pol.loads(self._about()["toml"])

    def close(self) -> None:
        """Let go of the connection."""
        if self._line is not None:
            self._line.close()
            self._line = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Remote({self.url!r})"

    # -- the line --------------------------------------------------------------------------

    def _about(self) -> Mapping[str, Any]:
        if self._public is None:
            self._public = self._call("GET", "/v1/policy")[1]
            _pin(self.url, str(self._public["signing_key"]))
        return self._public

    def _ordered(self, path: str, body: Mapping[str, Any], key: str | None) -> Mapping[str, Any]:
        """Ask, and wait until the answer leaves; what is cut short is asked again by its key."""
        name = secrets.token_hex(16) if key is None else plain_str(key, "key")
        self._about()
        status, result = self._call("POST", path, body, key=name)
        over = time.monotonic() + _PATIENCE
        with _Progress() as progress:
            while status == 202:
                if result["state"] == "waiting":
                    raise errors.AwaitsOwnerError(
                        "this question waits for an owner's decision: its price is set aside, and "
                        "nothing is charged before it",
                        hint=errors.Hint("key", name),
                    )
                if result.get("held"):
                    raise errors.EngineError(
                        "too many questions of this size were late: it is paid for, and starts "
                        "when the owner has looked",
                        hint=errors.Hint("key", name),
                    )
                if time.monotonic() > over:
                    raise errors.EngineError(
                        "no answer has come in time; it is paid for and will be kept",
                        hint=errors.Hint("key", name),
                    )
                progress.show(result["tick"])
                time.sleep(min(float(result["tick"]), 1.0))
                status, result = self._call("GET", f"/v1/answers/{result['id']}")
        if result["state"] != "done":
            raise errors.EngineError(
                _ENDED.get(result["state"], "the question failed; why is not disclosed, and it "
                           "stays paid"),
                hint=result.get("decision"),
            )  # fmt: skip
        return result

    def _answers(self, result: Mapping[str, Any], queries: list[str]) -> list[Answer]:
        """Rebuild answers from their records, once the signature fits."""
        signed = signed_part(result)
        check(signed, signed["signature"], self._about()["signing_key"])
        about = {"left": signed["left"], "cached": bool(signed["cached"])}
        return [
            _rebuilt(record, _kinds(query, self.policy), about).vouched(signed)
            for record, query in zip(signed["records"], queries, strict=True)
        ]

    def _call(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        key: str | None = None,
    ) -> tuple[int, Mapping[str, Any]]:
        """Send a request, again if the line breaks or the service is busy; refusals are raised."""
        headers = {"Authorization": f"Bearer {self._key}", "Accept": "application/json"}
        payload = None if body is None else json.dumps(body).encode()
        if payload is not None:
            headers["Content-Type"] = "application/json"
        if key is not None:
            headers["Idempotency-Key"] = key
        for tries_left in reversed(range(_TRIES)):
            try:
                line = self._connected()
                line.request(method, path + self._query, payload, headers)
                response = line.getresponse()
                status, raw = response.status, response.read()
            except (OSError, http.client.HTTPException):
                self.close()
                if not tries_left:
                    raise errors.EngineError(f"the service at {self.url} does not answer") from None
            else:
                if status not in _AGAIN or not tries_left:
                    return status, _result(status, raw)
                self.close()  # one that is silent for as long is let go at the other end
            time.sleep(0.2 * 2 ** (_TRIES - tries_left))
        raise AssertionError("unreachable")

    def _connected(self) -> http.client.HTTPConnection:
        if self._line is None:
            host, port = self._parts.hostname or "", self._parts.port
            if self._parts.scheme == "https":
                context = ssl.create_default_context()
                self._line = http.client.HTTPSConnection(host, port, timeout=60, context=context)
            else:
                self._line = http.client.HTTPConnection(host, port, timeout=60)
        return self._line


@dataclass
class RemoteBatch:
    """Collects questions inside a ``with`` block and sends them when it closes."""

    remote: Remote
    epsilon: Number | None
    delta: Number | None = None
    nulls: bool = False
    _questions: list[tuple[dict[str, Any], Pending]] = field(default_factory=list)

    def sql(self, query: str, **how: Any) -> Pending:
        """Add a SQL query; the parameters are those of :meth:`ask`."""
        return self.ask(query, **how)

    def ask(
        self,
        question: str | frame.Table,
        *,
        weight: Number = 1,
        within: Mapping[str, Number] | None = None,
        confidence: Number = 0.95,
    ) -> Pending:
        """Add a question: how exact it is beside the others, or the margins that it must meet."""
        part: dict[str, Any] = {"sql": _text(question), "weight": str(weight)}
        if confidence != 0.95:
            part["confidence"] = str(confidence)
        if within is not None:
            part["within"] = {name: str(margin) for name, margin in within.items()}
        self._questions.append((part, Pending()))
        return self._questions[-1][1]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is not None:
            return
        body: dict[str, Any] = {"questions": [part for part, _ in self._questions]}
        for name in ("epsilon", "delta"):
            if getattr(self, name) is not None:
                body[name] = str(getattr(self, name))
        if self.nulls:
            body["nulls"] = True
        result = self.remote._ordered("/v1/batches", body, None)  # noqa: SLF001 - its own batch
        queries = [part["sql"] for part, _ in self._questions]
        answers = self.remote._answers(result, queries)  # noqa: SLF001 - as above
        for (_, pending), answer in zip(self._questions, answers, strict=True):
            pending.fill(answer)


class _Progress:
    """Says on a terminal that an answer is awaited, and when answers of its kind leave."""

    def __init__(self) -> None:
        self._shown = False

    def show(self, tick: float) -> None:
        if not self._shown and sys.stderr.isatty():
            sys.stderr.write(f"waiting; such answers leave {tick:g} s after they start…\r")
            sys.stderr.flush()
            self._shown = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._shown:
            sys.stderr.write("\x1b[2K\r")


def _body(
    query: str, within: Mapping[str, Number] | None, **numbers: Number | None
) -> dict[str, Any]:
    if not isinstance(query, str):
        raise errors.QueryError(f"sql takes text, not {type(query).__name__}")
    body: dict[str, Any] = {"sql": query}
    body |= {name: str(value) for name, value in numbers.items() if value is not None}
    if within is not None:
        body["within"] = {str(k): str(v) for k, v in within.items()}
    return body


def _text(question: str | frame.Table) -> str:
    if isinstance(question, str):
        return question
    from discreet import frame  # noqa: PLC0415 - only for questions in Python

    return frame.to_sql(question)


def _unknown(_: str, __: tuple[str, ...]) -> int:
    """How often keys of public tables repeat is the service's to know; it reads text anew."""
    return 1


def _rebuilt(record: Mapping[str, Any], kinds: dict[str, str], about: dict[str, Any]) -> Answer:
    """Make an answer of its record; a union's holds those of its branches."""
    branches = record.get("union", [record])
    answers = read_outcome(json.dumps(branches), kinds=[kinds] * len(branches), **about)
    if "union" not in record:
        return answers[0]
    order = [(int(place), bool(falling)) for place, falling in record["order"]]
    return Union(answers, order, record["limit"], cost=record["cost"])


def _kinds(query: str, policy: pol.Policy) -> dict[str, str]:
    """Types of the keys of a question, so that dates come back as dates."""
    with suppress(errors.DiscreetError):
        parsed = front.parse_any(query, policy, public_fanout=_unknown)
        questions = parsed.branches if isinstance(parsed, front.United) else (parsed.query,)
        return {key.name: key.expr.type.kind.value for q in questions for key in q.keys}
    return {}


def _result(status: int, raw: bytes) -> Mapping[str, Any]:
    """Give what a response says, or raise the refusal that it carries."""
    try:
        body = json.loads(raw)
        ok = body["ok"]
    except (ValueError, TypeError, KeyError):
        raise errors.EngineError(f"the service answered with status {status} and no JSON") from None
    if ok:
        result: Mapping[str, Any] = body["result"]
        return result
    raise _refusal(body)


def _refusal(body: Mapping[str, Any]) -> errors.DiscreetError:
    """Turn an envelope back into the error that it was written from."""
    kinds = {kind.code: kind for kind in _tree(errors.DiscreetError)}
    kind = kinds.get(str(body.get("error")), RequestError)
    fix = body.get("fix")
    hint = errors.Hint.of(fix) if isinstance(fix, dict) and fix else body.get("hint")
    hint = _HERE.get(kind.code, hint)
    error = kind(str(body.get("message")), hint=hint)
    for name in ("line", "column"):
        if name in body:
            setattr(error, name, body[name])
    return error


def _tree(kind: type[errors.DiscreetError]) -> list[type[errors.DiscreetError]]:
    return [kind, *(below for child in kind.__subclasses__() for below in _tree(child))]


def _pin(url: str, key: str) -> None:
    """Remember a service's signing key at its first use; another one later is refused."""
    try:
        place = state_directory() / "known_curators.json"
        pins = json.loads(place.read_text("utf-8")) if place.exists() else {}
    except (OSError, RuntimeError, ValueError):
        return
    if pins.get(url, {}).get("key", key) != key:
        raise errors.PrivacyError(
            f"the service at {url} signs with another key than before",
            hint=f"ask its owner; then remove it from {place}",
        )
    if url not in pins:
        pins[url] = {"key": key, "since": dt.datetime.now(dt.UTC).date().isoformat()}
        with suppress(OSError):
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(json.dumps(pins, indent=1), "utf-8")
