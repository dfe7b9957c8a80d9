"""Text that comes from outside."""

from __future__ import annotations

from discreet.errors import DiscreetError, ParameterError


def plain_str(
    value: object, what: str = "this", error: type[DiscreetError] = ParameterError
) -> str:
    """Copy a text into a plain ``str``; refuse anything else.

    A subclass of ``str`` may answer ``replace``, ``==`` or ``str()`` as it likes.
    Every text is copied here, at the door, by the methods of ``str`` itself, so
    that nobody's code runs when it is compared, escaped or written.

    >>> class Loud(str):
    ...     def __str__(self):
    ...         return "DROP"
    >>> type(plain_str(Loud("age"))), plain_str(Loud("age"))
    (<class 'str'>, 'age')
    """
    if not issubclass(type(value), str):  # isinstance also believes a false __class__
        raise error(f"{what} must be text, got {type(value).__name__}")
    return str.__str__(value)
