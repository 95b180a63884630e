"""A client of the Outcry exchange for asyncio, over JSON and WebSocket: orders, verified market data,
and an account's own events without a gap. It needs Python 3.11, outcry.py in the same directory, and
the package websockets: pip install "./clients/python[ws]" in a checkout.

    import asyncio, outcry_ws

    async def main():
        async with outcry_ws.Exchange("127.0.0.1:8080") as exchange:
            book = await exchange.book("SPY")
            order = await exchange.buy("1", "SPY", 100, "123.45")
            print(order.id, order.state, book.bid, book.ask)

    asyncio.run(main())

Numbers. Prices, shares and money are decimal.Decimal, exact in both directions. A number may be
given as Decimal, int or str; a float raises TypeError, and nothing is sent.

Errors. If the exchange refuses a request, Refused is raised; decide by its `reason`, which never
changes. If a connection ends before the result, ConnectionLost is raised: the command was executed
completely or not at all. Only retry(), which needs a ref, sends a command twice.

Connections. The client replaces a lost connection, with the next address if there are several, and
subscribes again: a book starts with a snapshot, and an account's feed continues after its last event
and delivers what it missed. The methods must be called from one event loop.
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

CANNOT_NOW = 1002  # code of temporary refusals: nothing was executed
_MESSAGE_BYTES_MAX = 1 << 20  # the exchange sends no larger message
_SUBSCRIBE_MAX = 100  # maximum number of channels in one request
_PAUSE_MIN, _PAUSE_MAX = 0.05, 2.0  # seconds between attempts to connect
_NOT_TAKEN = 4001  # close code for a token that is wrong, expired or revoked
_CHECKED_LEVELS = 10  # levels of each side that a checksum covers
_Result = TypeVar("_Result")


# Data of the exchange


@dataclass(frozen=True)
class Fill:
    """An execution from the view of one of its two accounts. `fill` numbers the account's fills 1, 2, 3 …
    without a gap; `trade` is the number of the symbol's trade; `maker` means that the order was resting."""

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
    """The state of an order. `amount` is negative for a sell order; `state` is open, executed, canceled or
    replaced. Only results have `fills`, not lists and events."""

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
    """The state of an account: dollars that it can spend, dollars held for its open orders, and positions.
    `n` is the number of its newest event, `last_fill` that of its newest fill."""

    id: str
    n: int
    last_fill: int
    balance: Decimal
    held: Decimal
    positions: tuple[Position, ...]


@dataclass(frozen=True)
class Event:
    """The effect of one record on an account: its `fills`, the `orders` and `positions` that changed, and the
    balance after it. With `snapshot` it is the account's state: `orders` and `positions` are complete. A feed
    begins with a snapshot; one that follows a long absence has the `fills` that were missed."""

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
    """A trade of a symbol. `id` numbers the symbol's trades 1, 2, 3 … without a gap; `side` is that of the order
    that arrived last, `buy` and `sell` are the orders."""

    id: int
    price: Decimal
    shares: Decimal
    side: str
    buy: int
    sell: int
    time_ns: int


@dataclass(frozen=True)
class Symbol:
    """A symbol. Limits are multiples of `tick`, amounts of `lot`, if set."""

    sym: str
    tick: Decimal | None
    lot: Decimal | None
    halted: bool


@dataclass(frozen=True)
class Level:
    """A price of a book, and the total open shares at it."""

    price: Decimal
    shares: Decimal


# Errors


class Refused(OutcryError):
    """The exchange refused a request, which changed nothing. `reason` is for programs, the text for people.
    With `code` CANNOT_NOW the refusal is temporary. With `maybe_done`, which only retry() sets, an earlier
    try may have been executed: send it again later with the same ref."""

    def __init__(self, code: int, reason: str, text: str):
        super().__init__(text)
        self.code, self.reason, self.maybe_done = code, reason, False


class ConnectionLost(OutcryError):
    """The connection ended, or a result was late. It is unknown whether the request was executed."""


class Exchange:
    """A connection to an exchange: `async with Exchange() as exchange`.

    `address` is "host:port" of its HTTP side, or several in a list or separated by commas; its default is the
    environment's OUTCRY_HTTP, else 127.0.0.1:8080. `timeout` is the maximum time in seconds to connect, and to
    wait for each result. `token`, `ssl_context` and `insecure_token` are those of outcry.Exchange. With
    `cancel_on_disconnect` the exchange cancels a connection's open orders when it ends. `queue_max` bounds what
    waits in each feed; a feed that exceeds it requests the rest later. `lost` counts lost connections.

    Every method with a request raises Refused, ConnectionLost, OSError if no connection could be made, or
    NotAuthorized if the token is not accepted."""

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
        self._up = asyncio.Event()  # set while connected, and when `_end` has ended all attempts
        self._end: OutcryError | None = None
        self._why: Exception = ConnectionError("there is no connection")  # why it is not connected
        self._asked: dict[int, tuple[asyncio.Future[dict[str, Any]], Sequence[Channel]]] = {}  # and channels to start
        self._next_id = 0
        self._channels: dict[str, Channel] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Exchange:
        await self.connect()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def connect(self) -> None:
        """Connects to the first address that accepts the connection, and reconnects from then on."""
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
        """Closes the connection. Pending requests raise ConnectionLost."""
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
        outcry.Order. The result is the order right after it was placed, with its fills. The same order with
        the same `ref` is placed once, and answered as the first time."""
        result = await self.call("order.place", account=account, sym=sym, amount=_number("amount", amount),
                                 limit=_text("limit", limit), type="market" if market else None, tif=tif, post=post, stp=stp,
                                 cod=cod, ref=ref)
        return _order(result["order"])

    async def buy(self, account: str, sym: str, shares: Number, limit: Number | None = None, **instructions: Any) -> Order:
        """Places an order to buy `shares`, more than 0."""
        return await self.order(account, sym, _positive(shares), limit, **instructions)

    async def sell(self, account: str, sym: str, shares: Number, limit: Number | None = None, **instructions: Any) -> Order:
        """Places an order to sell `shares`, more than 0."""
        # Not `-shares`: arithmetic of Decimal rounds to the digits of its context.
        return await self.order(account, sym, _positive(shares).copy_negate(), limit, **instructions)

    async def amend(self, account: str, id: int | None = None, *, ref: str | None = None, amount: Number | None = None,
                    limit: Number | None = None, newref: str | None = None) -> Order:
        """Changes an order, as outcry.Amend does, and returns the resulting order."""
        result = await self.call("order.amend", account=account, id=id, ref=ref, amount=_text("amount", amount),
                                 limit=_text("limit", limit), newref=newref)
        return _order(result["order"])

    async def cancel(self, account: str, id: int | None = None, *, ref: str | None = None) -> Order:
        """Cancels the open part of an order, named by its id or ref."""
        return _order((await self.call("order.cancel", account=account, id=id, ref=ref))["order"])

    async def cancel_all(self, account: str, sym: str | None = None) -> int:
        """Cancels all open orders of the account, or those of one symbol if `sym` is given; returns their number."""
        return int((await self.call("order.cancel_all", account=account, sym=sym))["count"])

    async def cancel_after(self, account: str, seconds: int) -> None:
        """Sets the dead man's switch of the account, as outcry.CancelAfter does. 0 disarms it."""
        await self.call("cancel_after", account=account, seconds=seconds)

    async def query(self, account: str, id: int | None = None, *, ref: str | None = None) -> Order:
        """Returns an order of the account, by its id or its ref."""
        return _order((await self.call("order.get", account=account, id=id, ref=ref))["order"])

    async def retry(self, do: Callable[..., Awaitable[_Result]], *args: Any, seconds: float = 60.0, **named: Any) -> _Result:
        """Calls `do(*args, **named)` until there is a result, for up to `seconds`: it retries after a lost
        connection and after a temporary refusal. `do` is order, buy or sell with a ref, amend with a newref, or
        a method that changes nothing; otherwise ValueError is raised. With several addresses it goes to the
        next one after a temporary refusal. When the time is over it raises the last error."""
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

    # Queries

    async def account(self, account: str) -> Account:
        """Returns the state of an account."""
        a = await self.call("account.get", account=account)
        return Account(a["account"], a["n"], a["last_fill"], Decimal(a["balance"]), Decimal(a["held"]), _positions(a))

    async def orders(self, account: str, sym: str | None = None) -> list[Order]:
        """Returns all open orders of an account, or those of one symbol if `sym` is given, by id."""
        found: list[Order] = []
        while True:
            page = await self.call("orders.open", account=account, sym=sym, after=found[-1].id if found else None)
            found += map(_order, page["orders"])
            if not page["more"]:
                return found

    async def fills(self, account: str, after: int | None = None) -> list[Fill]:
        """Returns executions of an account, oldest first: the newest 1,000, or all whose number is above
        `after`. Raises Refused with not_kept if these are too old."""
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

    # Subscriptions

    async def book(self, sym: str, every: str | None = None) -> Book:
        """Keeps the book of a symbol. With `every` "100ms" it changes at most ten times a second."""
        return await self._add(Book(self, f"book.{sym}" + (f".{every}" if every else "")))

    async def watch_trades(self, sym: str, after: int | None = None) -> Trades:
        """Iterates over the trades of a symbol from now on, or after number `after`, without a gap."""
        return await self._add(Trades(self, sym, after))

    async def watch_account(self, account: str, after: int | None = None, last_fill: int | None = None) -> AccountFeed:
        """Iterates over the events of an account, without a gap. A program that restarts gives the number of the
        last event that it knows as `after`, and that of the last fill as `last_fill`."""
        return await self._add(AccountFeed(self, account, after, last_fill))

    async def channel(self, name: str) -> Channel:
        """Iterates over the data of any other channel, such as "ticker.SPY", unchanged."""
        return await self._add(Channel(self, name))

    async def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Sends any request; parameters that are None are left out. Returns its result."""
        return await self._ask(await self._connection(), method, {k: v for k, v in params.items() if v is not None})

    async def _connection(self) -> ClientConnection:
        """Returns the connection; waits while there is none."""
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
            # Results arrive in order, so all later ones would be late as well.
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
        """Allows the token to go to another machine without TLS, with a warning, or raises InsecureToken."""
        if not self._insecure_token:
            raise InsecureToken(f"the token would go to {host} over a connection that is not encrypted: "
                                "give an ssl_context, or allow it with insecure_token=True")
        warnings.warn(f"the token goes to {host} over a connection that is not encrypted", stacklevel=4)

    async def _keep(self, made: ClientConnection | None) -> None:
        """Reads the connection, and reconnects when it has ended."""
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
                return self._finish(NotAuthorized(made.close_reason or "the token is not accepted"))
            self._rotate()
            made, pause = None, _PAUSE_MIN if time.monotonic() - begun > pause else min(2 * pause, _PAUSE_MAX)
            await asyncio.sleep(pause)

    async def _restore(self, made: ClientConnection) -> None:
        """Starts a connection: subscribes again to all channels."""
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
            # A standby has no accounts, and a server that starts refuses for a while: the next connection,
            # perhaps to another address, tries again.
            made.transport.abort()

    async def _begin(self, made: ClientConnection, channels: list[Channel]) -> None:
        """Starts channels, and ends those that are refused permanently."""
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
            for c in channels:  # one at a time, to find the refused one
                await self._begin(made, [c])

    async def _add(self, channel: _AnyChannel) -> _AnyChannel:
        """Subscribes to a channel, and returns it once its first message has arrived."""
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
        """Restarts a channel on the current connection; without one, the next connection restarts it."""
        made = self._socket
        if made is not None and channel.name in self._channels:
            self._spawn(self._begin_again(made, channel))

    async def _begin_again(self, made: ClientConnection, channel: Channel) -> None:
        try:
            await self._begin(made, [channel])
        except (ConnectionLost, Refused):
            made.transport.abort()

    def _take(self, text: str | bytes) -> None:
        """Processes a message. Raises ValueError, KeyError, TypeError or ArithmeticError if it is malformed."""
        m = json.loads(text)
        if "method" in m:
            channel = self._channels.get(m["params"]["channel"])
            if channel is not None:
                channel._receive(m["params"]["data"])
            return
        future, channels = self._asked.get(m["id"], (None, ()))
        if future is None or future.done():  # its caller no longer waits
            return
        if "error" in m:
            e = m["error"]
            future.set_exception(Refused(e["code"], e.get("data", {}).get("reason", ""), e["message"]))
        else:
            future.set_result(m["result"])
            for c in channels:  # now, because the next message may be the channel's first
                c._answered()

    def _drop(self, why: str) -> None:
        """Ends all pending requests with an error, and marks channels as cut off."""
        for future, _ in self._asked.values():
            if not future.done():
                future.set_exception(ConnectionLost(why))
        for channel in self._channels.values():
            channel._starts()

    def _finish(self, e: OutcryError) -> None:
        """Ends the client permanently."""
        self._end = e
        self._up.set()
        for channel in self._channels.values():
            channel._finish(e)

    async def _elsewhere(self) -> None:
        """Closes the connection if there are several addresses: another one may accept orders."""
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
    """The data of a channel, as dicts, in order: `async for data in channel`. A new snapshot follows if the
    chain broke, a connection was lost, or the reader fell behind by more than the exchange's `queue_max`.
    There may be one reader at a time. `restarts` counts restarts."""

    def __init__(self, exchange: Exchange, name: str):
        self.name, self.restarts = name, 0
        self._exchange = exchange
        self._queue: deque[Any] = deque()
        self._wake = asyncio.Event()
        self._end: Exception | None = None
        self._parts: dict[str, Any] | None = None  # parts of an incomplete message
        self._prev = -1  # newest record of the chain; -1 before the snapshot
        self._waits = True  # the result of the subscribe request is pending
        self._begun = asyncio.Event()
        self._behind = False
        self._added = False  # subscribed, also on later connections

    def __aiter__(self) -> Any:
        return self

    async def __anext__(self) -> Any:
        while not self._queue:
            if self._end is not None:
                raise self._end
            if self._behind:
                self._behind = False
                if not self._waits:  # otherwise the missed items are already requested
                    self._restart()
            self._wake.clear()
            await self._wake.wait()
        return await self._item(self._queue.popleft())

    async def close(self) -> None:
        """Ends the subscription. A reader that waits gets StopAsyncIteration."""
        self._finish(StopAsyncIteration())
        await self._exchange._remove(self)

    async def _item(self, item: Any) -> Any:
        """Returns the reader's item for a queued one."""
        return item

    def _params(self) -> dict[str, Any]:
        """Returns the parameters of the request that continues the channel at its position."""
        return {"channels": [self.name]}

    async def _started(self) -> None:
        """Returns once the channel has started."""
        await self._begun.wait()

    def _starts(self) -> None:
        """Marks the channel for a restart, now or on the next connection. Data that arrives before the result
        belongs to the old chain, and may begin within a message with parts: it is dropped."""
        self._waits = True

    def _answered(self) -> None:
        """Starts the new chain: the result of the subscribe request has arrived."""
        self._waits, self._parts, self._prev = False, None, -1

    def _restart(self) -> None:
        """Restarts the channel, because the chain broke."""
        self.restarts += 1
        self._starts()
        self._exchange._again(self)

    def _finish(self, e: Exception) -> None:
        self._end = e
        self._begun.set()
        self._wake.set()

    def _receive(self, data: dict[str, Any]) -> None:
        """Joins the parts of a message, and processes it when it is complete."""
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
        """Processes a message."""
        if "prev" in data and data["prev"] != self._prev:
            if self._prev >= 0:
                self._restart()
            return
        if data["type"] == "snapshot":
            self._begun.set()
        self._prev = data["seq"]
        self._put(data)

    def _put(self, item: Any) -> None:
        """Queues an item for the reader. If the queue is full, notes that the reader must request the rest."""
        if self._behind or len(self._queue) >= self._exchange._queue_max:
            self._behind = True
        else:
            self._queue.append(item)


_AnyChannel = TypeVar("_AnyChannel", bound=Channel)


class Book(Channel):
    """The book of a symbol. Each change is checked against the chain and the checksum; if one does not match,
    the book restarts with a snapshot. While `in_step` is False, as after a lost connection, the book shows its
    last state. `await book.changed()` waits for the next change; `seq` is its newest record."""

    def __init__(self, exchange: Exchange, name: str):
        super().__init__(exchange, name)
        self.seq, self.in_step = 0, False
        self._bids, self._asks = _Side(-1), _Side(1)

    @property
    def bid(self) -> Level | None:
        """The best bid, None if there are no bids."""
        return next(iter(self.bids(1)), None)

    @property
    def ask(self) -> Level | None:
        """The best ask, None if there are no asks."""
        return next(iter(self.asks(1)), None)

    def bids(self, depth: int | None = None) -> list[Level]:
        """Returns the bids, best first, at most `n`."""
        return self._bids.levels(depth)

    def asks(self, depth: int | None = None) -> list[Level]:
        """Returns the asks, best first, at most `n`."""
        return self._asks.levels(depth)

    async def changed(self) -> Book:
        """Waits until the book has changed since the last call, and returns it."""
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
    """One side of a book. Invariant: `_keys` are the sorted keys of `_levels`, best first; a key is the price,
    negative for bids. Levels keep the exchange's texts, which the checksum covers."""

    def __init__(self, sign: int):
        self._sign = sign
        self._keys: list[Decimal] = []
        self._levels: dict[Decimal, tuple[str, str]] = {}

    def clear(self) -> None:
        self._keys.clear()
        self._levels.clear()

    def change(self, levels: list[list[str]]) -> None:
        """Sets levels to new totals; 0 removes a level."""
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
    """The trades of a symbol, each once, in order, without a gap: `async for trade in trades`. Trades that were
    missed while there was no connection come first. `last` is the newest that was returned."""

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
    """The events of an account, each once, in order, without a gap: `async for event in feed`. From its first
    snapshot on the feed also has the account's state as of the newest event received: `balance`, `held`,
    `positions` by symbol, and `orders`, the open ones by id. `n` and `last_fill` number the newest event and
    fill: a program that stores them continues with watch_account(…, after=n, last_fill=last_fill)."""

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
        """With `after`, no message arrives until the next event."""
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
        """Applies an event to the account's state."""
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
    """Returns a number in the protocol's format, or None for None."""
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
