"""How numbers are printed for people."""

from __future__ import annotations

import math
from fractions import Fraction

from discreet._exact import floor_decimal, show


def short(value: Fraction, longest: int = 6, digits: int = 4) -> str:
    """Print an amount exactly if that is short, and otherwise in a few digits.

    >>> short(Fraction(1, 4)), short(Fraction(1, 3**12))
    ('0.25', '1.882e-06')
    """
    text = show(value)
    return text if len(text) <= longest else f"{float(value):.{digits}g}"


def short_down(value: Fraction) -> str:
    """Print what is left, never more than that: what is asked for as printed must fit.

    Cents of a large amount are shown, too: a small price must not seem to take ten.

    >>> short_down(Fraction(27, 10)), short_down(Fraction(2, 3)), short_down(Fraction(0))
    ('2.7', '0.6666', '0')
    >>> short_down(20_000 - Fraction(7, 100))
    '19999.93'
    """
    text = show(value)
    if len(text) <= 6 and "/" not in text:
        return text
    return floor_decimal(value, max(4, len(str(int(value))) + 2)) or "0"


def number(value: float, margin: float | None = None, most: int = 12) -> str:
    r"""Print a number with the digits that its margin leaves meaningful, at most so many decimals.

    >>> number(1234.5678, 0.25), number(7)
    ('1\u2009234.57', '7')
    """
    if not math.isfinite(value):
        return "?" if math.isnan(value) else ("∞" if value > 0 else "−∞")
    whole = float(value).is_integer()
    digits = 0
    if margin is not None and 0 < margin < math.inf:
        # counts have whole margins and stay whole
        if not (whole and float(margin).is_integer()):
            digits = max(0, 1 - math.floor(math.log10(margin)))
    elif not whole:
        digits = max(0, 3 - math.floor(math.log10(abs(value))))
    return f"{value:,.{min(digits, most)}f}".replace(",", "\u2009")


def interval(low: float, high: float, margin: float | None = None, most: int = 12) -> str:
    """Print an interval, its ends as :func:`number` does; spaces part their thousands.

    >>> interval(0, 12.25, 0.5)
    '[0.00, 12.25]'
    """
    return f"[{number(low, margin, most)}, {number(high, margin, most)}]"


def about(value: float) -> str:
    r"""Print what is known roughly, in three digits or as a whole number.

    >>> about(0.00701), about(8.214), about(1645.2)
    ('0.00701', '8.21', '1\u2009645')
    """
    return f"{value:.3g}" if value < 100 else number(round(value))


def enough(half: float, width: float) -> int:
    """An example of a number by which an error is divided: 1 000, or what makes it useful.

    >>> enough(1_645_201, 200_000), enough(10**9, 200_000)
    (1000, 100000)
    """
    return next((n for n in (10**3, 10**4, 10**5) if half / n <= width / 4), 10**6)


def if_rows(halves: tuple[float, float], width: float) -> str:
    r"""Say an error that falls with a private number of rows: an example, and how it falls.

    `halves` are its ends times that number, and `width` is that of all possible values.

    >>> if_rows((1_645_201, 2_396_586), 200_000)
    '1\u2009645 to 2\u2009397 if 1\u2009000 rows (a tenth of it if 10\u2009000)'
    """
    n = enough(halves[1], width)
    ends = dict.fromkeys(about(half / n) for half in halves)
    return f"{' to '.join(ends)} if {number(n)} rows (a tenth of it if {number(10 * n)})"


def if_divided(own: float, other: float) -> str:
    r"""Say the error of a quotient: that of its top, and of what it is divided by.

    >>> if_divided(7, 19)
    '0.007 + 0.019 × the ratio if divided by 1\u2009000 (a tenth of it if by 10\u2009000)'
    """
    n = enough(other, 1)
    parts = f"{about(own / n)} + {about(other / n)} × the ratio" if other else about(own / n)
    return f"{parts} if divided by {number(n)} (a tenth of it if by {number(10 * n)})"


def plural(n: int, what: str) -> str:
    """Count things whose plural ends in s.

    >>> plural(1, "row"), plural(2, "row")
    ('1 row', '2 rows')
    """
    return f"{n} {what}{'' if n == 1 else 's'}"
