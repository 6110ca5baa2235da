"""Numbers as sentences have them."""

from stagewise.words._grammar import capital, count, numeral


def test_numbers_up_to_ten_are_words_at_the_beginning_of_a_sentence() -> None:
    assert [numeral(number) for number in (2, 10, 11)] == ["Two", "Ten", "11"]


def test_one_thing_has_no_plural() -> None:
    assert (count(1, "curve"), count(3, "curve")) == ("1 curve", "3 curves")
    assert capital("a rise") == "A rise"
