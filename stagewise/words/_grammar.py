"""Numbers and capitals, as sentences have them."""

NUMERALS = ["no", "One", "Two", "Three", "Four", "Five", "Six", "Seven", "Eight", "Nine", "Ten"]


def capital(text: str) -> str:
    """Return text as the beginning of a sentence."""
    return text[:1].upper() + text[1:]


def count(number: int, noun: str) -> str:
    """Write a number of things."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def more(number: int, what: str = "") -> list[str]:
    """Return a line that counts the things which are not listed; none where all are."""
    return [f"and {number} more {what}".rstrip()] if number > 0 else []


def numeral(number: int) -> str:
    """Write a number as the beginning of a sentence."""
    return NUMERALS[number] if 0 < number < len(NUMERALS) else str(number)
