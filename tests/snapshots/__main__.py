"""Write the nets down, compare them, or show what one family gives."""

from __future__ import annotations

import argparse
import sys

from tests import snapshots


def show(where: str) -> None:
    """Everything that the cases of a family give, in words."""
    net, _, rest = where.partition(":")
    family, _, one = rest.partition("/")
    for name, case in snapshots.families(net)[family]():
        if one in ("", name):
            words, doubles = snapshots.flat(snapshots.outcome(case))
            sizes = iter(doubles)
            told = [w if w[:1] != "#" else f"{w[1:]}{next(sizes):.15g}" for w in words]
            print(f"{name}\n    {' | '.join(told)}")


def write(net: str) -> None:
    """Write a net down."""
    lines = [
        f"{family}/{name}  {what}"
        for family in snapshots.families(net)
        for name, what in snapshots.measured(net, family).items()
    ]
    assert len({line.split("  ")[0] for line in lines}) == len(lines), "two cases of one name"
    (snapshots.HERE / f"{net}.txt").write_text("\n".join(lines) + "\n", "utf-8")
    print(f"{net}: {len(lines)} cases")


def main() -> int:
    """Read the command and do it."""
    parser = argparse.ArgumentParser(prog="python -m tests.snapshots")
    parser.add_argument("nets", nargs="*", help="nets, or net:family/case with --show")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--show", action="store_true")
    given = parser.parse_args()
    if given.show:
        for where in given.nets:
            show(where)
        return 0
    told = []
    for net in given.nets or snapshots.NETS:
        if given.write:
            write(net)
        else:
            told += [
                x for family in snapshots.families(net) for x in snapshots.changed(net, family)
            ]
    print("\n".join(told) or "nothing has moved")
    return 1 if told else 0


if __name__ == "__main__":
    sys.exit(main())
