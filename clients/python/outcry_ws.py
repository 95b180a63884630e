"""A client of the Outcry exchange for asyncio, over JSON and WebSocket: orders, market data that is
kept in step, and an account's own events without a gap. It needs Python 3.11, outcry.py beside it,
and the package websockets: pip install "./clients/python[ws]" in a checkout.

    import asyncio, outcry_ws

    async def main():
        async with outcry_ws.Exchange("127.0.0.1:8080") as exchange:
            book = await exchange.book("SPY")
            order = await exchange.buy("1", "SPY", 100, "123.45")
            print(order.id, order.state, book.bid, book.ask)

    asyncio.run(main())

Numbers. Prices, shares and money are decimal.Decimal, exact in both directions. A number may be
given as Decimal, int or str; a float is a TypeError, and nothing is sent.

Errors. What the exchange refuses raises Refused; decide by its `reason`, which never changes. A
connection that ends before the result raises ConnectionLost: the command was done whole or not at
all. Nothing is sent twice except by retry(), which needs a ref.

Connections. A lost connection is made again by itself, of several addresses to the next, and what
was subscribed to goes on: a book starts anew, an account's feed goes on after its last event, and
what it slept through is delivered. The methods are for one event loop.
"""

from __future__ import annotations

import asyncio
import bisect
import json
import os
import socket
import ssl
import time
import warnings
import zlib
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, TypeVar

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus

from outcry import (InsecureToken, NotAuthorized, Number, OutcryError, Position, _addresses, _is_loopback, _number, _positive,
                    new_ref)

__all__ = ["Account", "AccountFeed", "Book", "Channel", "ConnectionLost", "Event", "Exchange", "Fill", "InsecureToken", "Level",
           "NotAuthorized", "Order", "OutcryError", "Position", "Refused", "Symbol", "Trade", "Trades", "new_ref"]

CANNOT_NOW = 1002  # the class of refusals that may pass: nothing was done
_MESSAGE_BYTES_MAX = 1 << 20  # the exchange sends none that is larger
_SUBSCRIBE_MAX = 100  # channels of one request
_PAUSE_MIN, _PAUSE_MAX = 0.05, 2.0  # seconds between tries to connect
_NOT_TAKEN = 4001  # the close code of a token that is wrong, ended or revoked
_CHECKED_LEVELS = 10  # of each side, in a checksum
_Result = TypeVar("_Result")


# What the exchange tells


@dataclass(frozen=True)
class Fill:
    """An execution, as one of its two accounts sees it. `fill` is 1 for the account's first, and so on,
    without a gap; `trade` is its number of the symbol; `maker` means that the order was resting."""

    fill: int
    order: int
    trade: int
    sym: str
    side: str
    shares: Decimal
    price: Decimal
    maker: bool
    time_ns: int


@dataclass(frozen=True)
class Order:
    """The state of an order. `amount` is signed, negative where it sells; `state` is open, executed,
    canceled or replaced. `fills` are there in results, not in lists and events."""

    id: int
    sym: str
    amount: Decimal
    state: str
    open: Decimal
    executed: Decimal
    notional: Decimal
    canceled: Decimal
    reduced: Decimal
    before: Decimal
    type: str
    tif: str
    limit: Decimal | None
    protection: Decimal | None
    post: bool
    cod: bool
    stp: str | None
    ref: str | None
    newref: str | None
    why: str | None
    replaces: int | None
    by: int | None
    time_ns: int
    changed_ns: int
    fills: tuple[Fill, ...]


@dataclass(frozen=True)
class Account:
    """What an account has: dollars that it can spend, dollars that its open orders hold, and positions.
    `n` is the number of its newest event, `last_fill` that of its newest fill."""

    id: str
    n: int
    last_fill: int
    balance: Decimal
    held: Decimal
    positions: tuple[Position, ...]


@dataclass(frozen=True)
class Event:
    """What one record did to an account: `fills`, `orders` that changed, `positions` that it touched, and
    what it had afterwards. The first of a feed is the state as it stands, and so is one that follows
    a long absence: `snapshot` is True, `orders` and `positions` are all, and `fills` those in between."""

    account: str
    n: int
    seq: int
    balance: Decimal
    held: Decimal
    positions: tuple[Position, ...]
    orders: tuple[Order, ...]
    fills: tuple[Fill, ...]
    snapshot: bool
    time_ns: int | None


@dataclass(frozen=True)
class Trade:
    """A trade of a symbol. `id` is 1 for its first, and so on, without a gap; `side` is whose order came
    last, `buy` and `sell` are the orders."""

    id: int
    price: Decimal
    shares: Decimal
    side: str
    buy: int
    sell: int
    time_ns: int


@dataclass(frozen=True)
class Symbol:
    """A symbol. Limits are multiples of `tick`, amounts of `lot`, where these are given."""

    sym: str
    tick: Decimal | None
    lot: Decimal | None
    halted: bool


@dataclass(frozen=True)
class Level:
    """A price of a book, and all that is open at it."""

    price: Decimal
    shares: Decimal


# Errors


class Refused(OutcryError):
    """The exchange refused a request, and as things stood nothing was done. `reason` says why, for
    programs; the text is for people. With `code` CANNOT_NOW it may be done later. With `maybe_done`,
    which only retry() sets, an earlier try may have been done: ask again later with the same ref."""

    def __init__(self, code: int, reason: str, text: str):
        super().__init__(text)
        self.code, self.reason, self.maybe_done = code, reason, False


class ConnectionLost(OutcryError):
    """The connection ended, or a result did not come in time. Whether the request was done is unknown."""


class Exchange:
    """A connection to an exchange: `async with Exchange() as exchange`.

    `address` is "host:port" of its HTTP side, or several with commas between them or in a list; without
    it the environment's OUTCRY_HTTP, else 127.0.0.1:8080. `timeout` is how many seconds connecting may
    take, and the wait for each result. `token` and `ssl_context` are those of outcry.Exchange, and so is
    `insecure_token`. With `cancel_on_disconnect` the exchange cancels what is open of a connection's orders
    when that ends. `queue_max` bounds what waits in each feed; one that falls behind asks for the rest
    later. `lost` counts the connections that were lost.

    Every method that asks raises Refused, ConnectionLost, or OSError where no connection could be made;
    NotAuthorized where the token is not taken."""

    def __init__(self, address: str | Sequence[str] | None = None, *, token: str | None = None,
                 ssl_context: ssl.SSLContext | None = None, insecure_token: bool = False, timeout: float = 30.0,
                 cancel_on_disconnect: bool = False, queue_max: int = 10_000):
        self._hosts = _addresses(address or os.environ.get("OUTCRY_HTTP") or "127.0.0.1:8080")  # next one first
        self._token = token or os.environ.get("OUTCRY_TOKEN") or ""
        self._ssl_context, self._timeout, self._queue_max = ssl_context, timeout, queue_max
        self._insecure_token = insecure_token or os.environ.get("OUTCRY_INSECURE_TOKEN", "") == "true"
        self._cancel_on_disconnect = cancel_on_disconnect
        self.lost = 0
        self._socket: ClientConnection | None = None
        self._up = asyncio.Event()  # there is a connection, or `_end` says that there will be none
        self._end: OutcryError | None = None
        self._why: Exception = ConnectionError("there is no connection")  # why there is none
        self._asked: dict[int, tuple[asyncio.Future[dict[str, Any]], Sequence[Channel]]] = {}  # and what the result starts
        self._next_id = 0
        self._channels: dict[str, Channel] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Exchange:
        await self.connect()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def connect(self) -> None:
        """Connects, to the first address that takes the connection, and keeps it from then on."""
        for left in reversed(range(len(self._hosts))):
            try:
                first = await self._dial()
                break
            except (OSError, InvalidHandshake):
                self._rotate()
                if not left:
                    raise
        self._spawn(self._keep(first))

    async def close(self) -> None:
        """Closes the connection. What waits for a result raises ConnectionLost."""
        self._end = self._end or ConnectionLost("the client is closed")
        made, self._socket = self._socket, None
        if made is not None:
            await made.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._drop("the client is closed")
        self._up.set()

    # Orders

    async def order(self, account: str, sym: str, amount: Number, limit: Number | None = None, *, market: bool = False,
                    tif: str | None = None, post: bool | None = None, stp: str | None = None, cod: bool | None = None,
                    ref: str | None = None) -> Order:
        """Places an order: a positive `amount` buys, a negative one sells. Instructions are those of
        outcry.Order. The result has what it came to at once, with its fills. The same order with the
        same `ref` is placed once, and answered as it was first."""
        result = await self.call("order.place", account=account, sym=sym, amount=_number("amount", amount),
                                 limit=_text("limit", limit), type="market" if market else None, tif=tif, post=post, stp=stp,
                                 cod=cod, ref=ref)
        return _order(result["order"])

    async def buy(self, account: str, sym: str, shares: Number, limit: Number | None = None, **instructions: Any) -> Order:
        """Places an order to buy so many shares, more than 0."""
        return await self.order(account, sym, _positive(shares), limit, **instructions)

    async def sell(self, account: str, sym: str, shares: Number, limit: Number | None = None, **instructions: Any) -> Order:
        """Places an order to sell so many shares, more than 0."""
        # Not `-shares`: arithmetic of Decimal rounds to the digits of its context.
        return await self.order(account, sym, _positive(shares).copy_negate(), limit, **instructions)

    async def amend(self, account: str, id: int | None = None, *, ref: str | None = None, amount: Number | None = None,
                    limit: Number | None = None, newref: str | None = None) -> Order:
        """Changes an order, as outcry.Amend does, and returns the one that is there now."""
        result = await self.call("order.amend", account=account, id=id, ref=ref, amount=_text("amount", amount),
                                 limit=_text("limit", limit), newref=newref)
        return _order(result["order"])

    async def cancel(self, account: str, id: int | None = None, *, ref: str | None = None) -> Order:
        """Cancels what is open of an order, by its id or its ref."""
        return _order((await self.call("order.cancel", account=account, id=id, ref=ref))["order"])

    async def cancel_all(self, account: str, sym: str | None = None) -> int:
        """Cancels all that the account has open, of one symbol where `sym` is given; returns how many."""
        return int((await self.call("order.cancel_all", account=account, sym=sym))["count"])

    async def cancel_after(self, account: str, seconds: int) -> None:
        """Sets the dead man's switch of the account, as outcry.CancelAfter does. 0 turns it off."""
        await self.call("cancel_after", account=account, seconds=seconds)

    async def query(self, account: str, id: int | None = None, *, ref: str | None = None) -> Order:
        """Returns an order of the account, by its id or its ref."""
        return _order((await self.call("order.get", account=account, id=id, ref=ref))["order"])

    async def retry(self, do: Callable[..., Awaitable[_Result]], *args: Any, seconds: float = 60.0, **named: Any) -> _Result:
        """Does `await do(*args, **named)` until there is a result, for up to `seconds`: again after a lost
        connection, and after a refusal that may pass. `do` is order, buy or sell with a ref, amend with a
        newref, or a method that only asks. What would be done twice is a ValueError. Of several addresses
        it goes to the next where one cannot now. Raises the last error when the time is over."""
        name = getattr(do, "__name__", "")
        needed = {"order": "ref", "buy": "ref", "sell": "ref", "amend": "newref"}.get(name)
        if name in ("cancel", "cancel_all", "call") or needed and named.get(needed) is None:
            raise ValueError(f"{name} has no {needed or 'ref'}: it could be done twice")
        deadline, pause, lost = time.monotonic() + seconds, _PAUSE_MIN, False
        while True:
            try:
                return await do(*args, **named)
            except (ConnectionLost, OSError) as e:
                if self._end is not None or time.monotonic() + pause > deadline:
                    raise
                lost = lost or isinstance(e, ConnectionLost)
            except Refused as e:
                e.maybe_done = lost and needed is not None
                if e.code != CANNOT_NOW or time.monotonic() + pause > deadline:
                    raise
                await self._elsewhere()
            await asyncio.sleep(pause)
            pause = min(2 * pause, _PAUSE_MAX)

    # Questions

    async def account(self, account: str) -> Account:
        """Returns what an account has."""
        a = await self.call("account.get", account=account)
        return Account(a["account"], a["n"], a["last_fill"], Decimal(a["balance"]), Decimal(a["held"]), _positions(a))

    async def orders(self, account: str, sym: str | None = None) -> list[Order]:
        """Returns all open orders of an account, of one symbol where `sym` is given, by id."""
        found: list[Order] = []
        while True:
            page = await self.call("orders.open", account=account, sym=sym, after=found[-1].id if found else None)
            found += map(_order, page["orders"])
            if not page["more"]:
                return found

    async def fills(self, account: str, after: int | None = None) -> list[Fill]:
        """Returns executions of an account, oldest first: the newest 1,000, or all whose number is above
        `after`. Refused with not_kept where these are too old."""
        found: list[Fill] = []
        while True:
            page = await self.call("fills.list", account=account, after=after)
            found += map(_fill, page["fills"])
            if after is None or not page["more"]:
                return found
            after = found[-1].fill

    async def trades(self, sym: str, after: int | None = None) -> list[Trade]:
        """Returns trades of a symbol, oldest first: the newest 100, or all whose number is above `after`."""
        found: list[Trade] = []
        while True:
            page = await self.call("trades.list", sym=sym, after=after)
            found += map(_trade, page["trades"])
            if after is None or not page["more"]:
                return found
            after = found[-1].id

    async def symbols(self) -> list[Symbol]:
        """Returns all symbols, by name."""
        found: list[Symbol] = []
        while True:
            page = await self.call("symbols.list", after=found[-1].sym if found else None)
            found += [Symbol(s["sym"], _decimal(s.get("tick")), _decimal(s.get("lot")), s["halted"]) for s in page["symbols"]]
            if not page["more"]:
                return found

    # What is subscribed to

    async def book(self, sym: str, every: str | None = None) -> Book:
        """Keeps the book of a symbol. With `every` "100ms" it changes ten times a second at most."""
        return await self._add(Book(self, f"book.{sym}" + (f".{every}" if every else "")))

    async def watch_trades(self, sym: str, after: int | None = None) -> Trades:
        """Iterates over the trades of a symbol from now on, or from behind number `after`, without a gap."""
        return await self._add(Trades(self, sym, after))

    async def watch_account(self, account: str, after: int | None = None, last_fill: int | None = None) -> AccountFeed:
        """Iterates over the events of an account, without a gap. Of a program that was away, `after` is the
        number of the last event that it knows, and `last_fill` that of the last fill."""
        return await self._add(AccountFeed(self, account, after, last_fill))

    async def channel(self, name: str) -> Channel:
        """Iterates over the data of any other channel, such as "ticker.SPY", as it comes."""
        return await self._add(Channel(self, name))

    async def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Sends any request; parameters that are None are left out. Returns its result."""
        return await self._ask(await self._connection(), method, {k: v for k, v in params.items() if v is not None})

    async def _connection(self) -> ClientConnection:
        """Returns the connection, once there is one."""
        if not self._up.is_set():
            try:
                await asyncio.wait_for(self._up.wait(), self._timeout)
            except asyncio.TimeoutError:
                raise ConnectionError(f"no connection within {self._timeout} seconds: {self._why}") from None
        if self._end is not None or self._socket is None:
            raise self._end or ConnectionLost(str(self._why))
        return self._socket

    async def _ask(self, made: ClientConnection, method: str, params: dict[str, Any],
                   channels: Sequence[Channel] = ()) -> dict[str, Any]:
        """Sends a request on a connection and waits for its result, which starts `channels`."""
        self._next_id += 1
        id, future = self._next_id, asyncio.get_running_loop().create_future()
        text = json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params}, allow_nan=False)
        self._asked[id] = future, channels
        for c in channels:
            c._starts()
        try:
            async with asyncio.timeout(self._timeout):
                try:
                    await made.send(text)
                except ConnectionClosed as e:
                    raise ConnectionLost(f"the connection ended: {e}") from e
                return await future
        except TimeoutError:
            # Results come in order: all later ones would be late as well.
            made.transport.abort()
            raise ConnectionLost(f"no result within {self._timeout} seconds") from None
        finally:
            self._asked.pop(id, None)

    # The connection

    async def _dial(self) -> ClientConnection:
        """Connects to the next address. Raises OSError, InvalidHandshake, NotAuthorized, InsecureToken."""
        host, port = self._hosts[0]
        stream = await asyncio.to_thread(socket.create_connection, (host, port), self._timeout)
        try:
            if self._token and self._ssl_context is None and not _is_loopback(stream.getpeername()[0]):
                self._permit(host)
            stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            name, scheme = f"[{host}]" if ":" in host else host, "ws" if self._ssl_context is None else "wss"
            secure: dict[str, Any] = {} if self._ssl_context is None else {"ssl": self._ssl_context}
            made = await connect(f"{scheme}://{name}:{port}/api/v1/ws", sock=stream, compression=None, proxy=None,
                                 open_timeout=self._timeout, close_timeout=1, max_size=_MESSAGE_BYTES_MAX,
                                 additional_headers={"Authorization": f"Bearer {self._token}"} if self._token else None, **secure)
        except InvalidStatus as e:
            if e.response.status_code == 401:
                raise NotAuthorized(e.response.body.decode(errors="replace").strip()) from None
            raise
        except BaseException:
            stream.close()
            raise
        return made

    def _permit(self, host: str) -> None:
        """Lets the token go to another machine without TLS, with a warning, or raises InsecureToken."""
        if not self._insecure_token:
            raise InsecureToken(f"the token would go to {host} over a connection that is not encrypted: "
                                "give an ssl_context, or allow it with insecure_token=True")
        warnings.warn(f"the token goes to {host} over a connection that is not encrypted", stacklevel=4)

    async def _keep(self, made: ClientConnection | None) -> None:
        """Reads the connection, and makes the next when it has ended."""
        pause = _PAUSE_MIN
        while self._end is None:
            try:
                made = made or await self._dial()
            except (NotAuthorized, InsecureToken) as e:
                return self._finish(e)
            except (OSError, InvalidHandshake) as e:
                self._why = e
                self._rotate()
                await asyncio.sleep(pause)
                pause = min(2 * pause, _PAUSE_MAX)
                continue
            begun = time.monotonic()
            self._socket = made
            restore = self._spawn(self._restore(made))
            try:
                async for text in made:
                    self._take(text)
                self._why = ConnectionLost("the exchange closed the connection")
            except ConnectionClosed as e:
                self._why = e
            except (ValueError, KeyError, TypeError, ArithmeticError) as e:
                self._why = ConnectionLost(f"what came is no message of the protocol: {e!r}")
            finally:
                restore.cancel()
                made.transport.abort()
                self._socket = None
                self._up.clear()
                self.lost += 1
                self._drop(f"the connection ended: {self._why}")
            if made.close_code == _NOT_TAKEN:
                return self._finish(NotAuthorized(made.close_reason or "the token is not taken"))
            self._rotate()
            made, pause = None, _PAUSE_MIN if time.monotonic() - begun > pause else min(2 * pause, _PAUSE_MAX)
            await asyncio.sleep(pause)

    async def _restore(self, made: ClientConnection) -> None:
        """Begins a connection: subscribes again to all channels."""
        try:
            if self._cancel_on_disconnect:
                await self._ask(made, "session.cancel_on_disconnect", {"on": True})
            self._up.set()
            added = [c for c in self._channels.values() if c._added]
            plain = [c for c in added if c._params().keys() == {"channels"}]
            for at in range(0, len(plain), _SUBSCRIBE_MAX):
                await self._begin(made, plain[at:at + _SUBSCRIBE_MAX])
            for c in [c for c in added if c not in plain]:
                await self._begin(made, [c])
        except (ConnectionLost, Refused):
            # A standby has no accounts, and a server that starts refuses for a while: the next
            # connection, perhaps to another address, tries it again.
            made.transport.abort()

    async def _begin(self, made: ClientConnection, channels: list[Channel]) -> None:
        """Starts channels, and gives up those that are refused for good."""
        params: dict[str, Any] = {"channels": [c.name for c in channels]}
        if len(channels) == 1:
            params = channels[0]._params()
        try:
            await self._ask(made, "subscribe", params, channels)
        except Refused as e:
            if e.code == CANNOT_NOW:
                raise
            if len(channels) == 1:
                self._channels.pop(channels[0].name, None)
                channels[0]._finish(e)
                return
            for c in channels:  # to find the one that is wrong
                await self._begin(made, [c])

    async def _add(self, channel: _AnyChannel) -> _AnyChannel:
        """Subscribes to a channel, and returns it once its first message is here."""
        if channel.name in self._channels:
            raise ValueError(f"there is a subscription to {channel.name} already")
        self._channels[channel.name] = channel
        try:
            await self._ask(await self._connection(), "subscribe", channel._params(), [channel])
            channel._added = True
            await asyncio.wait_for(channel._started(), self._timeout)
        except BaseException:
            self._channels.pop(channel.name, None)
            raise
        return channel

    async def _remove(self, channel: Channel) -> None:
        """Ends a subscription."""
        if self._channels.pop(channel.name, None) is not None:
            await self.call("unsubscribe", channels=[channel.name])

    def _again(self, channel: Channel) -> None:
        """Starts a channel anew on the connection that there is; without one the next connection does."""
        made = self._socket
        if made is not None and channel.name in self._channels:
            self._spawn(self._begin_again(made, channel))

    async def _begin_again(self, made: ClientConnection, channel: Channel) -> None:
        try:
            await self._begin(made, [channel])
        except (ConnectionLost, Refused):
            made.transport.abort()

    def _take(self, text: str | bytes) -> None:
        """Takes a message. Raises ValueError, KeyError, TypeError or ArithmeticError where it is none."""
        m = json.loads(text)
        if "method" in m:
            channel = self._channels.get(m["params"]["channel"])
            if channel is not None:
                channel._receive(m["params"]["data"])
            return
        future, channels = self._asked.get(m["id"], (None, ()))
        if future is None or future.done():  # of somebody who has given up
            return
        if "error" in m:
            e = m["error"]
            future.set_exception(Refused(e["code"], e.get("data", {}).get("reason", ""), e["message"]))
        else:
            future.set_result(m["result"])
            for c in channels:  # at once: what it waits for may be the next message
                c._answered()

    def _drop(self, why: str) -> None:
        """Tells everybody who waits for a result that none will come, and channels that they are cut off."""
        for future, _ in self._asked.values():
            if not future.done():
                future.set_exception(ConnectionLost(why))
        for channel in self._channels.values():
            channel._starts()

    def _finish(self, e: OutcryError) -> None:
        """Ends everything for good."""
        self._end = e
        self._up.set()
        for channel in self._channels.values():
            channel._finish(e)

    async def _elsewhere(self) -> None:
        """Gives the connection up if there are several addresses: another may take orders."""
        if len(self._hosts) > 1 and self._socket is not None:
            self._socket.transport.abort()

    def _rotate(self) -> None:
        self._hosts.append(self._hosts.pop(0))

    def _spawn(self, work: Any) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


class Channel:
    """What a channel sends, as dicts, in order: `async for data in channel`. A new snapshot follows where
    the chain broke, where a connection was lost, and where the reader fell behind by more than the
    exchange's `queue_max`. One reader at a time. `restarts` counts what was begun anew."""

    def __init__(self, exchange: Exchange, name: str):
        self.name, self.restarts = name, 0
        self._exchange = exchange
        self._queue: deque[Any] = deque()
        self._wake = asyncio.Event()
        self._end: Exception | None = None
        self._parts: dict[str, Any] | None = None  # of a message that is not whole yet
        self._prev = -1  # newest record of the chain; -1 where the snapshot is still to come
        self._waits = True  # for the result that starts it
        self._begun = asyncio.Event()
        self._behind = False
        self._added = False  # it is subscribed to, and again on the next connection

    def __aiter__(self) -> Any:
        return self

    async def __anext__(self) -> Any:
        while not self._queue:
            if self._end is not None:
                raise self._end
            if self._behind:
                self._behind = False
                if not self._waits:  # else what was missed is asked for already
                    self._restart()
            self._wake.clear()
            await self._wake.wait()
        return await self._item(self._queue.popleft())

    async def close(self) -> None:
        """Ends the subscription. Who waits for more is told with StopAsyncIteration."""
        self._finish(StopAsyncIteration())
        await self._exchange._remove(self)

    async def _item(self, item: Any) -> Any:
        """Returns what the reader is given for what was queued."""
        return item

    def _params(self) -> dict[str, Any]:
        """Returns the parameters with which the channel goes on where it stands."""
        return {"channels": [self.name]}

    async def _started(self) -> None:
        """Returns once what was subscribed to has begun."""
        await self._begun.wait()

    def _starts(self) -> None:
        """It is asked for anew, or will be on the next connection. Until the result all that comes is of
        the old chain, and may begin within a message that has parts: nothing of it counts."""
        self._waits = True

    def _answered(self) -> None:
        """The result is here: what comes from now on is of the new chain."""
        self._waits, self._parts, self._prev = False, None, -1

    def _restart(self) -> None:
        """Begins anew, since the chain broke."""
        self.restarts += 1
        self._starts()
        self._exchange._again(self)

    def _finish(self, e: Exception) -> None:
        self._end = e
        self._begun.set()
        self._wake.set()

    def _receive(self, data: dict[str, Any]) -> None:
        """Joins the parts of a message, and takes it when it is whole."""
        if self._waits:
            return
        if self._parts is not None:
            for key, value in self._parts.items():
                if isinstance(value, list):
                    data[key] = value + data.get(key, [])
        self._parts = data if data.pop("more", False) else None
        if self._parts is None:
            self._whole(data)
            self._wake.set()

    def _whole(self, data: dict[str, Any]) -> None:
        """Takes a message."""
        if "prev" in data and data["prev"] != self._prev:
            if self._prev >= 0:
                self._restart()
            return
        if data["type"] == "snapshot":
            self._begun.set()
        self._prev = data["seq"]
        self._put(data)

    def _put(self, item: Any) -> None:
        """Queues something for the reader, or notes that there is more for it to ask for."""
        if self._behind or len(self._queue) >= self._exchange._queue_max:
            self._behind = True
        else:
            self._queue.append(item)


_AnyChannel = TypeVar("_AnyChannel", bound=Channel)


class Book(Channel):
    """The book of a symbol, kept in step: each change is checked against its chain and its checksum, and
    where one does not fit the book begins anew. While `in_step` is False, as after a lost connection, it
    is what it was last. `await book.changed()` waits for the next change; `seq` is its newest record."""

    def __init__(self, exchange: Exchange, name: str):
        super().__init__(exchange, name)
        self.seq, self.in_step = 0, False
        self._bids, self._asks = _Side(-1), _Side(1)

    @property
    def bid(self) -> Level | None:
        """The best bid, None where there is none."""
        return next(iter(self.bids(1)), None)

    @property
    def ask(self) -> Level | None:
        """The best ask, None where there is none."""
        return next(iter(self.asks(1)), None)

    def bids(self, depth: int | None = None) -> list[Level]:
        """Returns the bids, best first, at most so many."""
        return self._bids.levels(depth)

    def asks(self, depth: int | None = None) -> list[Level]:
        """Returns the asks, best first, at most so many."""
        return self._asks.levels(depth)

    async def changed(self) -> Book:
        """Waits until something has changed since the last call, and returns the book."""
        await self._wake.wait()
        self._wake.clear()
        if self._end is not None:
            raise self._end
        return self

    async def __anext__(self) -> Book:
        return await self.changed()

    def checksum(self) -> int:
        """Returns the checksum of the ten best asks and bids."""
        return zlib.crc32((self._asks.text() + self._bids.text()).encode())

    def _starts(self) -> None:
        super()._starts()
        self.in_step = False
        self._wake.set()

    def _whole(self, data: dict[str, Any]) -> None:
        if data["type"] == "snapshot":
            self._bids.clear()
            self._asks.clear()
        elif data["prev"] != self._prev:
            if self._prev >= 0:
                self._restart()
            return
        self._bids.change(data["bids"])
        self._asks.change(data["asks"])
        self.seq = self._prev = data["seq"]
        self.in_step = self.checksum() == data["checksum"]
        if not self.in_step:
            self._restart()
        else:
            self._begun.set()


class _Side:
    """One side of a book. Invariant: `_keys` are the sorted keys of `_levels`, best first; a key is the
    price, negative for bids. Levels have the texts of the exchange, which a checksum needs."""

    def __init__(self, sign: int):
        self._sign = sign
        self._keys: list[Decimal] = []
        self._levels: dict[Decimal, tuple[str, str]] = {}

    def clear(self) -> None:
        self._keys.clear()
        self._levels.clear()

    def change(self, levels: list[list[str]]) -> None:
        """Sets levels to new totals; 0 removes one."""
        for price, shares in levels:
            key = Decimal(price) if self._sign > 0 else Decimal(price).copy_negate()
            if shares != "0":
                if key not in self._levels:
                    bisect.insort(self._keys, key)
                self._levels[key] = (price, shares)
            elif self._levels.pop(key, None) is not None:
                del self._keys[bisect.bisect_left(self._keys, key)]

    def levels(self, depth: int | None) -> list[Level]:
        return [Level(Decimal(price), Decimal(shares)) for price, shares in map(self._levels.__getitem__, self._keys[:depth])]

    def text(self) -> str:
        return "".join(f"{price}:{shares};" for price, shares in map(self._levels.__getitem__, self._keys[:_CHECKED_LEVELS]))


class Trades(Channel):
    """The trades of a symbol, each once, in order, without a gap: `async for trade in trades`. What was
    missed while there was no connection comes first. `last` is the newest that was given out."""

    def __init__(self, exchange: Exchange, sym: str, after: int | None):
        super().__init__(exchange, f"trades.{sym}")
        self._sym, self._newest, self.last = sym, after, after

    async def __anext__(self) -> Trade:
        return await super().__anext__()

    async def _item(self, item: Any) -> Any:
        if isinstance(item, int):  # trades up to this one were missed
            wanted = item
            missed = [t for t in await self._exchange.retry(self._exchange.trades, self._sym, self.last)
                      if t.id <= wanted]
            if [t.id for t in missed] != list(range(self.last + 1, wanted + 1)):
                raise OutcryError(f"trades {self.last + 1} to {wanted} of {self._sym} are no longer kept")
            self._queue.extendleft(reversed(missed))
            item = self._queue.popleft()
        self.last = item.id
        return item

    def _whole(self, data: dict[str, Any]) -> None:
        if data["type"] == "snapshot":
            if self._newest is None:
                self._newest = self.last = data["last_trade"]
            elif data["last_trade"] > self._newest:
                self._put(data["last_trade"])
                if not self._behind:
                    self._newest = data["last_trade"]
            self._prev = data["seq"]
            self._begun.set()
            return
        for t in map(_trade, data["trades"]):
            if self._prev < 0 or self._behind or t.id <= self._newest:
                continue
            if t.id != self._newest + 1:
                return self._restart()
            self._put(t)
            if not self._behind:
                self._newest = t.id


class AccountFeed(Channel):
    """The events of an account, each once, in order, without a gap: `async for event in feed`. It also knows
    what the account has, from its first snapshot on, as of the newest event that has come: `balance`,
    `held`, `positions` by symbol, and `orders`, the open ones by id. `n` and `last_fill` number the newest
    event and fill: a program that keeps them goes on with watch_account(…, after=n, last_fill=last_fill)."""

    def __init__(self, exchange: Exchange, account: str, after: int | None, last_fill: int | None):
        super().__init__(exchange, f"account.{account}")
        self.account, self.n, self.last_fill = account, after, last_fill
        self.balance: Decimal | None = None
        self.held: Decimal | None = None
        self.positions: dict[str, Position] = {}
        self.orders: dict[int, Order] = {}

    async def __anext__(self) -> Event:
        return await super().__anext__()

    async def _item(self, item: Any) -> Any:
        if not isinstance(item, tuple):
            return item
        event, after, until = item  # a snapshot, and the fills that were missed before it
        fills = await self._exchange.retry(self._exchange.fills, self.account, after)
        return Event(**{**vars(event), "fills": tuple(f for f in fills if f.fill <= until)})

    def _params(self) -> dict[str, Any]:
        return super()._params() if self.n is None else {"channels": [self.name], "after": self.n}

    async def _started(self) -> None:
        """With `after` nothing comes until something happens."""
        if self.n is None:
            await self._begun.wait()

    def _whole(self, data: dict[str, Any]) -> None:
        snapshot = data["type"] == "snapshot"
        if self._behind or not snapshot and self.n is not None and data["n"] <= self.n:
            return
        if not snapshot and data["n"] != (self.n or 0) + 1:
            return self._restart()
        fills = tuple(map(_fill, data.get("fills", [])))
        event = Event(self.account, data["n"], data["seq"], Decimal(data["balance"]), Decimal(data["held"]), _positions(data),
                      tuple(map(_order, data["orders"])), fills, snapshot, int(data["time_ns"]) if "time_ns" in data else None)
        last = data["last_fill"] if snapshot else fills[-1].fill if fills else self.last_fill
        missed = snapshot and self.last_fill is not None and last > self.last_fill
        self._put((event, self.last_fill, last) if missed else event)
        if self._behind:
            return
        self.n, self.last_fill = event.n, last
        self._apply(event)
        self._begun.set()

    def _apply(self, event: Event) -> None:
        """Brings what the account has up to date."""
        if event.snapshot:
            self.positions.clear()
            self.orders.clear()
        self.balance, self.held = event.balance, event.held
        self.positions.update((p.sym, p) for p in event.positions)
        for o in event.orders:
            if o.state == "open":
                self.orders[o.id] = o
            else:
                self.orders.pop(o.id, None)


# Values


def _text(name: str, value: Number | None) -> str | None:
    """Returns a number as the protocol has it, None where there is none."""
    return None if value is None else _number(name, value)


def _decimal(text: str | None) -> Decimal | None:
    return None if text is None else Decimal(text)


def _positions(data: dict[str, Any]) -> tuple[Position, ...]:
    return tuple(Position(p["sym"], Decimal(p["shares"]), Decimal(p["held"])) for p in data["positions"])


def _fill(f: dict[str, Any]) -> Fill:
    return Fill(f["fill"], f["order"], f["trade"], f["sym"], f["side"], Decimal(f["shares"]), Decimal(f["price"]), f["maker"],
                int(f["time_ns"]))


def _trade(t: dict[str, Any]) -> Trade:
    return Trade(t["id"], Decimal(t["price"]), Decimal(t["shares"]), t["side"], t["buy"], t["sell"], int(t["time_ns"]))


def _order(o: dict[str, Any]) -> Order:
    exact = {key: Decimal(o.get(key, "0")) for key in ("open", "executed", "notional", "canceled", "reduced", "before")}
    given = {key: o.get(key) for key in ("stp", "ref", "newref", "why", "replaces", "by")}
    return Order(id=o["id"], sym=o["sym"], amount=Decimal(o["amount"]), state=o["state"], type=o["type"], tif=o["tif"],
                 limit=_decimal(o.get("limit")), protection=_decimal(o.get("protection")), post=o["post"], cod=o["cod"],
                 time_ns=int(o["time_ns"]), changed_ns=int(o["changed_ns"]), fills=tuple(map(_fill, o.get("fills", []))),
                 **exact, **given)
