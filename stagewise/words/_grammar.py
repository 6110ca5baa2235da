"""Numbers and capitals, as sentences have them."""

import re

NUMERALS = ["no", "One", "Two", "Three", "Four", "Five", "Six", "Seven", "Eight", "Nine", "Ten"]


def capital(text: str) -> str:
    """Return text as the beginning of a sentence; a first word with capitals of its own, as mAP, stays as it is.

    >>> capital("loss of one"), capital("mAP")
    ('Loss of one', 'mAP')
    """
    return text if re.match(r"\S+[A-Z]", text) else text[:1].upper() + text[1:]


def count(number: int, noun: str) -> str:
    """Write a number of things."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def more(number: int, what: str = "") -> list[str]:
    """Return a line that counts the things which are not listed; none where all are."""
    return [f"and {number} more {what}".rstrip()] if number > 0 else []


def numeral(number: int) -> str:
    """Write a number as the beginning of a sentence."""
    return NUMERALS[number] if 0 < number < len(NUMERALS) else str(number)
