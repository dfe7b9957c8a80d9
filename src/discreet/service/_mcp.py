"""Tools for assistants: a conversation asks a curator, within a cap of its own.

A program that asks in a loop would spend a whole share. So a price (ε, or margins) must be
stated each time, a conversation has a cap, a question that was asked in it before is
answered again for free, and a refusal says what would still fit. Texts that tools return come
from the policy and from released numbers; labels are data, not instructions.
"""

from __future__ import annotations

import json
import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from fractions import Fraction
from typing import Any, Final

from discreet import meaning
from discreet._canonical import canonical, digest, plain
from discreet._exact import Number, decimal, show
from discreet._log import note
from discreet.answer import Answer, as_data
from discreet.errors import (
    AwaitsOwnerError,
    BudgetExceededError,
    DiscreetError,
    Hint,
    ParameterError,
)
from discreet.service._errors import INTERNAL, BusyError, envelope

_LETTERS: Final = 2 << 20
"""Letters of the answers that one conversation knows, at most."""
_WAITING: Final = 100
"""Questions that wait for an owner and that a conversation knows, at most."""


class Tools:
    """What an assistant can do with a curator, local or remote.

    Parameters
    ----------
    curator
        Whoever answers: a :class:`discreet.Curator` or a :class:`Remote`.
    cap
        ε that this conversation may spend.
    turns
        Calls that its caller may have at the same time, in all conversations; None: any number.
    """

    def __init__(self, curator: Any, cap: Number, turns: threading.Semaphore | None = None) -> None:
        self._curator = curator
        self._cap = decimal(cap, "cap")
        self._spent = Fraction(0)
        self._answers: OrderedDict[str, str] = OrderedDict()  # as JSON, the latest last
        self._letters = 0
        self._waits: OrderedDict[str, str] = OrderedDict()
        """Keys of questions that an owner decides about."""
        self._lock = threading.Lock()
        self._turns = turns

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Hold one of the caller's turns; whoever has none left is refused, and does not wait."""
        if self._turns is not None and not self._turns.acquire(blocking=False):
            raise BusyError("your other calls are not answered yet", hint="wait for their answers")
        try:
            yield
        finally:
            if self._turns is not None:
                self._turns.release()

    def tables(self) -> dict[str, Any]:
        """List tables, columns, their public domains, and whom they protect."""
        mapping: Any = self._curator.policy.to_mapping()
        for table in mapping["tables"].values():
            table.pop("source", None)
        return {"tables": plain(mapping["tables"])}

    def preview(
        self, sql: str, epsilon: Number | None, within: Any, delta: Number | None = None
    ) -> dict[str, Any]:
        """Price a question; nothing is read or charged."""
        quote = self._curator.preview(sql, **_offer(epsilon, within, delta))
        return {"cost": quote.cost, "error": quote.error(), "left": quote.left,
                "refused": quote.refused,
                "needs_approval": getattr(quote, "needs_approval", False),
                "conversation_left": show(self._cap - self._spent)}  # fmt: skip

    def ask(
        self, sql: str, epsilon: Number | None, within: Any, delta: Number | None = None
    ) -> dict[str, Any]:
        """Ask and pay; the same question again is free, and one that waits is looked for."""
        offer = _offer(epsilon, within, delta)
        name = digest(canonical([sql, plain(offer)]))
        with self._lock:
            if name in self._answers:
                self._answers.move_to_end(name)
                known: dict[str, Any] = json.loads(self._answers[name])
                return known
            price = Fraction(0) if name in self._waits else self._reserved(sql, offer)
            answer = self._answer(name, sql, offer)
            if answer.cached:
                self._spent -= price
            data: dict[str, Any] = plain(as_data(answer, "0.95", record=False))
            data["conversation_left"] = show(self._cap - self._spent)
            self._keep(name, json.dumps(data))
            return data

    def _keep(self, name: str, text: str) -> None:
        """Know an answer, and forget the oldest: its curator has them all, and gives them free."""
        self._answers[name] = text
        self._letters += len(text)
        while self._letters > _LETTERS:
            self._letters -= len(self._answers.popitem(last=False)[1])

    def _reserved(self, sql: str, offer: Mapping[str, Any]) -> Fraction:
        """Take a price from the cap, before the question runs: what fails stays paid."""
        quote = self._curator.preview(sql, **offer)
        if quote.stored:
            return Fraction(0)
        price = Fraction(quote.cost["epsilon"])
        left = self._cap - self._spent
        if price > left:
            raise BudgetExceededError(
                f"this conversation may spend ε={show(self._cap)} and has ε={show(left)} left; "
                f"this question costs ε={show(price)}",
                hint=Hint("epsilon", show(left)) if left else "tell the person who started it",
            )
        self._spent += price
        return price

    def _answer(self, name: str, sql: str, offer: Mapping[str, Any]) -> Answer:
        """Ask; what waits for an owner is asked again by its key, and counts once."""
        key = self._waits.pop(name, None)
        try:
            answer: Answer = self._curator.sql(sql, **offer, **({"key": key} if key else {}))
        except AwaitsOwnerError as waits:
            if isinstance(waits.hint, Hint):
                self._waits[name] = str(dict(waits.hint.parameters)["key"])
                if len(self._waits) > _WAITING:
                    self._waits.popitem(last=False)
            raise waits.with_hint("ask the same again once an owner has decided") from None
        return answer

    def budget(self) -> dict[str, Any]:
        """Say what is left, for the analyst and for this conversation."""
        budget = self._curator.budget
        return {"left": plain(budget.left), "says": repr(budget),
                "conversation_left": show(self._cap - self._spent)}  # fmt: skip

    def explain(self, epsilon: Number) -> dict[str, Any]:
        """Say what an ε means for one person."""
        return {"meaning": str(meaning.of(decimal(epsilon, "epsilon")))}


def _offer(
    epsilon: Number | None, within: Mapping[str, Number] | None, delta: Number | None
) -> dict[str, Any]:
    if (epsilon is None) == (within is None):
        raise ParameterError(
            "say what the question may cost, or how exact it must be: one of epsilon and within",
            hint=Hint("epsilon", "0.05"),
        )
    offer = {"epsilon": epsilon, "within": within, "delta": delta}
    return {name: value for name, value in offer.items() if value is not None}


Find = Callable[[Any], Tools]
"""Gives the tools of whoever sent a message, by its request; over standard input it has none."""


def _refusal_text(body: Mapping[str, Any]) -> str:
    """Write a refusal as errors are written, from what every route says of it."""
    hint = body["hint"]
    return str(body["message"]) + ("" if hint is None else f"\n    try: {hint}")


def server(find: Find) -> Any:
    """Offer tools by the Model Context Protocol."""
    from mcp.server import MCPServer  # noqa: PLC0415 - an extra
    from mcp.server.mcpserver import Context  # noqa: PLC0415 - as above
    from mcp.server.mcpserver.exceptions import ToolError  # noqa: PLC0415 - as above

    # it would print what every library of the process says, addresses and durations included
    root, quiet = logging.getLogger(), logging.getLogger("mcp")
    handlers, level = root.handlers[:], root.level
    app = MCPServer("discreet")
    root.handlers[:] = handlers
    root.setLevel(level)
    quiet.propagate = False
    quiet.addHandler(logging.NullHandler())
    # it would hand durations to whatever telemetry the process has
    app.middleware[:] = [m for m in app.middleware if "Telemetry" not in type(m).__name__]

    def refusing(ctx: Any, work: Callable[[Tools], Any]) -> str:
        message = ""
        try:
            tools = find(ctx.request_context.request)
            with tools.turn():
                return json.dumps(plain(work(tools)), ensure_ascii=False)
        except DiscreetError as refusal:
            message = _refusal_text(envelope(refusal))
        except Exception as error:  # noqa: BLE001 - whatever it says could depend on the data
            note("internal", error)
            message = _refusal_text(INTERNAL)
        raise ToolError(message)

    def tables(ctx: Any) -> str:
        """List the tables, their columns with public domains, and whom they protect. Free."""
        return refusing(ctx, Tools.tables)

    def preview(
        ctx: Any,
        sql: str,
        epsilon: str | float | None = None,
        within: dict[str, float] | None = None,
        delta: str | float | None = None,
    ) -> str:
        """Price one SELECT without reading data: cost, expected error, why it would be refused.

        Free. needs_approval: whether it would wait for an owner. delta is for questions that a
        refusal says need one.
        """
        return refusing(ctx, lambda tools: tools.preview(sql, epsilon, within, delta))

    def ask(
        ctx: Any,
        sql: str,
        epsilon: str | float | None = None,
        within: dict[str, float] | None = None,
        delta: str | float | None = None,
    ) -> str:
        """Ask one SELECT and pay for it: state epsilon, or margins per column in within.

        delta is for questions that a refusal says need one.
        """
        return refusing(ctx, lambda tools: tools.ask(sql, epsilon, within, delta))

    def budget(ctx: Any) -> str:
        """Say what is left of the privacy budget, in all and in this conversation. Free."""
        return refusing(ctx, Tools.budget)

    def explain(ctx: Any, epsilon: str | float) -> str:
        """Say what an epsilon means for one person in the data. Free."""
        return refusing(ctx, lambda tools: tools.explain(epsilon))

    for tool in (tables, preview, ask, budget, explain):
        # the library gives its own object to the parameter of this type
        tool.__annotations__["ctx"] = Context
        app.tool()(tool)
    return app
