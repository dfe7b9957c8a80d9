"""The role of an engine: it turns one aggregate into exact integers, nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from discreet.errors import EngineError, SchemaError
from discreet.plan import Aggregate, Groups, JoinPublic, Salt, Scan, nodes

T = TypeVar("T")


class Engine(Protocol):
    """Executes aggregates over the tables of one policy.

    Every engine returns the integers of :func:`discreet.plan.run`, bit for bit,
    and lets nothing else out: no engine exception, no text of the source.
    """

    name: str

    def execute(self, aggregate: Aggregate, salt: Salt) -> Groups:
        """Return one tuple of exact integers per group."""
        ...

    def sql(self, aggregate: Aggregate, salt: Salt | None = None) -> str:
        """Return the SQL that would run; without a salt, with placeholders for it."""
        ...

    def fanout(self, public: Scan, columns: tuple[str, ...]) -> int:
        """Return how many rows of a public table share one value of `columns`, at most."""
        ...

    def close(self) -> None:
        """Release what the engine itself opened."""
        ...


def check_fanout(engine: Engine, aggregate: Aggregate) -> None:
    """Refuse a join whose public table repeats a key more often than the plan assumes.

    Sensitivities rest on it. Public tables hold nothing private, so the refusal
    may say so.
    """
    for join in nodes(aggregate.relation):
        if isinstance(join, JoinPublic):
            most = engine.fanout(join.public, tuple(right for _, right in join.on))
            if most > join.fanout:
                raise SchemaError(
                    f"public table {join.public.table.name!r} repeats a key {most} times, "
                    f"the plan assumes at most {join.fanout}"
                )


def sealed(work: Callable[[], T], *, but: tuple[type[Exception], ...] = ()) -> T:
    """Run `work`; whatever goes wrong in it, but for errors of `but`, becomes one constant error.

    Engine messages quote cells, and even their kind is one unpriced bit. The
    original exception is therefore not chained, not even as hidden context.
    """
    try:
        return work()
    except but:
        raise
    except Exception:  # noqa: BLE001, S110 - every failure must look the same
        pass
    raise EngineError(
        "the engine could not compute the answer; the data owner can look into its own log"
    )
