"""Run the faults and print one table; counts are arguments."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

from chaos import _calls, _copies, _long, _server
from chaos._common import Row


def main(arguments: list[str] | None = None) -> int:
    """Give 0 if nothing was lost, doubled or undetected."""
    parser = argparse.ArgumentParser(prog="python -m chaos", description=__doc__)
    add = parser.add_argument
    add("--flip-every", type=int, default=1, help="bytes between flipped bits (0: none)")
    add("--moments", type=int, default=200, help="moments to restore from")
    add("--copies", type=int, default=16, help="copies used at once")
    add("--trials", type=int, default=50, help="trials with copies")
    add("--call-every", type=int, default=1, help="calls between kills and failures (0: none)")
    add("--cuts", type=int, default=3700, help="power cuts")
    add("--client-kills", type=int, default=100, help="clients killed, per level of isolation")
    add("--server-kills", type=int, default=14, help="server killed, per level of isolation")
    add("--lines", type=int, default=10**6, help="lines of a long ledger")
    given = parser.parse_args(arguments)
    work: list[tuple[object, Callable[[], list[Row]]]] = [
        (given.flip_every, lambda: _copies.flips(given.flip_every)),
        (given.moments, lambda: [_copies.restores(given.moments)]),
        (given.trials, lambda: [_copies.copies(given.copies, given.trials)]),
        (given.call_every, lambda: _calls.apart("calls", given.call_every)),
        (given.cuts, lambda: _calls.apart("cuts", given.cuts)),
        (
            given.client_kills or given.server_kills,
            lambda: _server.servers(given.client_kills, given.server_kills),
        ),
    ]
    print("| fault | tried | lost | doubled | undetected |\n|---|---|---|---|---|", flush=True)
    clean = True
    for wanted, faults in work:
        for row in faults() if wanted else ():
            print(row, flush=True)
            clean = clean and row.clean
    for line in _long.long(given.lines) if given.lines else ():
        print(f"\n{line}", flush=True)
    return 0 if clean else 1


if __name__ == "__main__":
    sys.exit(main())
