"""The names of events, as sentences about several runs have them."""

from collections import Counter
from collections.abc import Callable, Sequence

from stagewise.event import Event, EventKind
from stagewise.table import Quantities, Quantity
from stagewise.words._onsets import Row, change, head


def event_names(
    catalogue: Sequence[Event], quantities: Quantities, name_head: Callable[[Row], str] = head
) -> list[str]:
    """Name events, each another way: where two would have one name, by their probes and quantities too."""
    plain = {one.unnumbered: _name(one, quantities, name_head) for one in catalogue}
    times, told = Counter(plain.values()), []
    for event in catalogue:
        name = plain[event.unnumbered]
        name += f" ({event.probe} {event.quantity})" if times[name] > 1 else ""
        told.append(name + (f" (number {event.number})" if event.number > 1 else ""))
    return told


def _name(event: Event, quantities: Quantities, name_head: Callable[[Row], str]) -> str:
    if event.kind is EventKind.BOUNDARY:
        return f"end of the stage of {event.reference}"
    quantity = quantities.get(event.probe, {}).get(event.quantity) or Quantity(f"{event.probe} {event.quantity}")
    return change(dict(event.labels), quantity, up=event.up, name_head=name_head)
