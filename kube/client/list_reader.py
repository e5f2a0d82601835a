"""Takes in the body of a list as it arrives, a few items at a time: 100,000 pods are 150 MB, too much for one step.

The text is cut between two items: `},` and then what the first item begins with. That may as well stand inside an item;
it is a border exactly where what comes before it, in brackets, is valid JSON, as nothing that is open is valid. What
was not cut, all of it where a server writes lists in another way, stays in the text and is still the list, with
fewer items.

Owner: a `rest.Client`, one reader for each answer.
"""

from collections.abc import Callable

import aiohttp
import msgspec

from kube.client.backoff import TimeSlice

#: bytes that are looked through in one step
BLOCK = 2**17
#: borders that may turn out to be none before more text is waited for
MAX_TRIES = 8
ITEMS = b'"items":'

_decode_items = msgspec.json.Decoder(list[msgspec.Raw]).decode


class ListReader:
    """One list. `take` is called with each item that was cut out of the text."""

    def __init__(self, take: Callable[[msgspec.Raw], None]) -> None:
        self._take = take
        #: what comes before the items, empty until it is known
        self._head = b""
        self._border = b""
        self._text = bytearray()
        #: so much text must be there before the next step
        self._enough = BLOCK

    async def read(self, content: aiohttp.StreamReader) -> bytes:
        """Read to the end; the list without the items that were taken."""
        work = TimeSlice()
        async for chunk in content.iter_any():
            self._text += chunk
            while len(self._text) >= self._enough:
                for item in self._cut():
                    self._take(item)
                    if work.spent:
                        await work.give_way()
        return self._head + self._text

    def _cut(self) -> list[msgspec.Raw]:
        """The items up to the last border in the text that is enough; where there is none, more is wanted."""
        if self._head or self._begin():
            border = self._enough
            for _ in range(MAX_TRIES):
                border = self._text.rfind(self._border, 0, border)
                if border < 0:
                    break
                items = _items(self._text[: border + 1])
                if items is not None:
                    del self._text[: border + 2]
                    self._enough = BLOCK
                    return items
        self._enough *= 2
        return []

    def _begin(self) -> bool:
        """Set apart what comes before the first item, and see how that begins."""
        end = self._text.find(ITEMS + b"[{") + len(ITEMS) + 1
        colon = self._text.find(b":", end)
        if end <= len(ITEMS) or colon < 0 or not _is_json(self._text[:end] + b"]}"):
            return False
        self._head = bytes(self._text[:end])
        self._border = b"}," + self._text[end : colon + 1]
        del self._text[:end]
        return True


def _items(text: bytearray) -> list[msgspec.Raw] | None:
    """The items, or None where the text ends within one."""
    try:
        return _decode_items(b"[" + text + b"]")
    except msgspec.DecodeError:
        return None


def _is_json(text: bytearray) -> bool:
    try:
        msgspec.json.decode(text, type=msgspec.Raw)
    except msgspec.DecodeError:
        return False
    return True
