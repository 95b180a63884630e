"""A client of the Outcry exchange: one file, no dependencies, Python 3.9 or newer.

    import outcry

    with outcry.Exchange("127.0.0.1:12345") as exchange:
        exchange.open_account("1", 20000)
        order = exchange.buy("1", "SPY", 100, "123.45")
        print(exchange.query("1", order.id))

An Exchange is one connection. Only one thread at a time may use it.

Numbers. Prices, shares and money are decimal.Decimal, exact in both directions. A number may be
given as Decimal, int or str. A float raises TypeError, since it is rarely the intended number. Any
other value that is not a number raises ValueError. In both cases nothing is sent. The exchange
checks ranges.

Errors. If the exchange refuses a command that was sent alone (open_account, buy, query …), Refused
is raised. In a frame of several commands, and in a pipeline, a refused command has a Refusal as its
result, and the other commands are not affected.

Broken connections. If the connection breaks or a reply is late after a frame was sent, it is unknown
whether the frame was executed. ConnectionLost is then raised, with the frames that have no reply.
Only retry() sends a frame twice. The next call reconnects. A connection that is found closed before
anything was sent is replaced without an error.

Several addresses. For a cluster give all, "a:12345,b:12345,c:12345": each connection goes to the one
that accepts orders. When a reply has been missing for `switch_time` seconds, the client asks the
other addresses, since a machine that hangs does not close its connections. If one accepts orders,
the connection is closed, and retry() continues there.

Instructions. Orders have the keyword arguments of Order: market, tif, post, stp, cod, report. The
client ignores parts of a reply that it does not know, such as those of a newer exchange.

Retries. A command that creates something accepts a ref, a name of your choice that is unique in its
account; an amend accepts a newref. If a command is sent again with the same ref, the exchange
repeats its first answer and does not execute the command again. A frame whose commands have refs
can therefore be sent until there is a reply, as retry() does. Store the refs of what you send if
they must survive your program. If a command was sent before and got no reply, a Refusal does not
prove that it was not executed, as the exchange can refuse it without checking the ref. Such a
Refusal has maybe_done.
"""

from __future__ import annotations

import ipaddress
import os
import re
import selectors
import socket
import ssl
import time
import uuid
import warnings
from collections import deque
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Iterable, Iterator, Sequence, TypeVar, Union
from xml.etree import ElementTree
from xml.sax.saxutils import quoteattr

__all__ = [
    "Account", "Amend", "Amended", "Cancel", "CancelAfter", "CancelAll", "Canceled", "CanceledAll", "Command", "ConnectionLost",
    "Created", "Exchange", "Execution", "Fill", "Fills", "Frame", "InsecureToken", "ListFills", "ListOrders", "MakeSymbol",
    "NotAuthorized", "Number", "OpenAccount", "OpenOrder", "Opened", "Order", "Orders", "OutcryError", "Place", "Position",
    "ProtocolError", "Query", "Reduced", "Refusal", "Refused", "Reply", "Result", "ShowAccount", "Status", "SwitchSet", "buy",
    "create", "new_ref", "sell", "transactions",
]

__version__ = "0.1.0"

Number = Union[Decimal, int, str]


# Commands


@dataclass(frozen=True)
class OpenAccount:
    """Opens an account. `account` is its id, digits; `balance` is in dollars, 0 or more."""

    account: str
    balance: Number
    ref: str | None = None

    def xml(self) -> str:
        balance = _number("balance", self.balance)
        return f'<account id={_id(self.account)} balance="{balance}"{_ref(self.ref)}/>'


@dataclass(frozen=True)
class MakeSymbol:
    """Creates a symbol, A-Z a-z 0-9, if it does not exist. Limits of its orders must be multiples of
    `tick`, and amounts of `lot`, if given. An existing symbol keeps its tick and lot; different ones
    are refused."""

    sym: str
    tick: Number | None = None
    lot: Number | None = None

    def xml(self) -> str:
        return f"<symbol sym={_attribute('sym', self.sym)}{_given('tick', self.tick)}{_given('lot', self.lot)}/>"


@dataclass(frozen=True)
class Place:
    """Adds `shares`, more than 0, to an account's position, and creates the symbol if it does not exist."""

    sym: str
    account: str
    shares: Number
    ref: str | None = None

    def xml(self) -> str:
        return (f"<symbol sym={_attribute('sym', self.sym)}><account id={_id(self.account)}{_ref(self.ref)}>"
                f"{_number('shares', self.shares)}</account></symbol>")


@dataclass(frozen=True)
class Order:
    """Places an order: a positive `amount` of shares buys, a negative one sells. With `market` it
    executes at the best available prices, up to `limit` if given.

    `tif`, the time in force: "GTC" (good till canceled, the default), "IOC" (what does not execute
    at once is canceled) or "FOK" (refused unless all of it executes at once). `post`: refused if it
    would execute at once. `stp`, self-trade prevention: what is canceled if the order meets one of its
    own account, "newest", "oldest" or "both". `cod`, cancel on disconnect: whether the open part is
    canceled when the connection ends; None follows the Exchange's cancel_on_disconnect. `report`: the
    result has the order's status right after it was placed."""

    sym: str
    amount: Number
    limit: Number | None = None
    ref: str | None = None
    market: bool = False
    tif: str | None = None
    post: bool = False
    stp: str | None = None
    cod: bool | None = None
    report: bool = False

    def xml(self) -> str:
        sym, amount = _attribute("sym", self.sym), _number("amount", self.amount)
        limit = "" if self.limit is None and self.market else f' limit="{_number("limit", self.limit)}"'
        return (f'<order sym={sym} amount="{amount}"{limit}'
                f"{_flag('type', self.market, 'market')}{_word('tif', self.tif)}{_flag('post', self.post, 'yes')}"
                f"{_word('stp', self.stp)}{'' if self.cod is None else _flag('cod', self.cod, 'yes', 'no')}"
                f"{_flag('report', self.report, 'full')}{_ref(self.ref)}/>")


@dataclass(frozen=True)
class Amend:
    """Changes one of the account's orders, named by its id or ref. `amount` is its new total, including
    executed shares, negative for a sell order; `limit` is its new limit. At least one is required. A
    smaller amount at the same limit keeps the order's priority. Any other change replaces it by a new
    order. With `newref` the amend is executed once, however often it is sent, and newref then names the
    resulting order; the order's own ref names it too. `report` is that of Order."""

    order: int | None = None
    amount: Number | None = None
    limit: Number | None = None
    ref: str | None = None
    newref: str | None = None
    report: bool = False

    def xml(self) -> str:
        if self.amount is None and self.limit is None:
            raise ValueError(f"{self!r} has no amount and no limit")
        return (f"<amend{_named(self.order, self.ref)}{_given('amount', self.amount)}{_given('limit', self.limit)}"
                f"{_flag('report', self.report, 'full')}{_word('newref', self.newref)}/>")


@dataclass(frozen=True)
class Query:
    """Asks for an order's status, by its id or ref. Any account may ask for any order by id; a ref
    names one of the account's own orders."""

    order: int | None = None
    ref: str | None = None

    def xml(self) -> str:
        return f"<query{_named(self.order, self.ref)}/>"


@dataclass(frozen=True)
class Cancel:
    """Cancels the open part of one of the account's orders, named by its id or ref."""

    order: int | None = None
    ref: str | None = None

    def xml(self) -> str:
        return f"<cancel{_named(self.order, self.ref)}/>"


@dataclass(frozen=True)
class CancelAll:
    """Cancels all open orders of the account, or only those of one symbol if `sym` is given."""

    sym: str | None = None

    def xml(self) -> str:
        return f"<cancel-all{_word('sym', self.sym)}/>"


@dataclass(frozen=True)
class CancelAfter:
    """Arms a dead man's switch: after `seconds` whole seconds, up to 86,400, the exchange cancels all
    open orders of the account, unless the command is sent again before. 0 disarms it."""

    seconds: int

    def xml(self) -> str:
        return f'<cancel-after seconds="{_count("seconds", self.seconds)}"/>'


@dataclass(frozen=True)
class ShowAccount:
    """Asks for the account's balance and positions."""

    def xml(self) -> str:
        return "<account/>"


@dataclass(frozen=True)
class ListOrders:
    """Asks for up to 1,000 open orders of the account, in order of their ids: those above `after` if it
    is given, and only those of one symbol if `sym` is given."""

    sym: str | None = None
    after: int | None = None

    def xml(self) -> str:
        return f"<orders{_word('sym', self.sym)}{_after(self.after)}/>"


@dataclass(frozen=True)
class ListFills:
    """Asks for up to 1,000 executions of the account, oldest first: the last ones, or with `after` the
    first ones whose number is above it."""

    after: int | None = None

    def xml(self) -> str:
        return f"<fills{_after(self.after)}/>"


Command = Union[OpenAccount, MakeSymbol, Place, Order, Amend, Query, Cancel, CancelAll, CancelAfter, ShowAccount, ListOrders,
                ListFills]
_IN_CREATE = (OpenAccount, MakeSymbol, Place)
_ASKING = (Query, ShowAccount, ListOrders, ListFills)  # commands that change nothing


def buy(sym: str, shares: Number, limit: Number | None = None, ref: str | None = None, **instructions: Any) -> Order:
    """Returns an order to buy `shares`, more than 0, for at most `limit` dollars each. Instructions are
    those of Order."""
    return Order(sym, _positive(shares), limit, ref, **instructions)


def sell(sym: str, shares: Number, limit: Number | None = None, ref: str | None = None, **instructions: Any) -> Order:
    """Returns an order to sell `shares`, more than 0, for at least `limit` dollars each. Instructions are
    those of Order."""
    # Not `-shares`: arithmetic of Decimal rounds to the digits of its context.
    return Order(sym, _positive(shares).copy_negate(), limit, ref, **instructions)


def new_ref() -> str:
    """Returns a new ref: 32 random hexadecimal digits."""
    return uuid.uuid4().hex


@dataclass(frozen=True)
class Frame:
    """Commands that are sent together and executed in order, each independently: a refused command
    does not undo or stop the others. Made by create() or transactions()."""

    commands: tuple[Command, ...]
    account: str | None = None  # account of transactions

    def xml(self) -> bytes:
        """Returns the frame's XML, without the length line. Raises ValueError or TypeError for invalid values."""
        tag = "create" if self.account is None else "transactions"
        for c in self.commands:
            if isinstance(c, _IN_CREATE) != (self.account is None) or type(c) not in _ANSWERS:
                raise TypeError(f"{c!r} does not belong into <{tag}>")
        who = "" if self.account is None else f" id={_id(self.account)}"
        return f"<{tag}{who}>{''.join(c.xml() for c in self.commands)}</{tag}>".encode()


def create(*commands: OpenAccount | MakeSymbol | Place) -> Frame:
    """Returns a frame that opens accounts, creates symbols and places shares."""
    return Frame(commands)


def transactions(account: str, *commands: Command) -> Frame:
    """Returns a frame of orders, queries, cancels and other commands of one account."""
    return Frame(commands, account)


# Results


@dataclass(frozen=True)
class Created:
    """An account was opened, a symbol created or, if both are set, shares placed."""

    sym: str | None
    account: str | None
    ref: str | None = None


@dataclass(frozen=True)
class Opened:
    """An order was accepted with this id, now or when its ref was sent first; it may have executed.
    `limit` is None for a market order without a limit. `status` is the order's status right after it was
    placed, if it asked for a report."""

    id: int
    sym: str
    amount: Decimal
    limit: Decimal | None
    ref: str | None = None
    status: Status | None = None


@dataclass(frozen=True)
class Amended:
    """The order with this id was amended. `by` is the id of the order that has replaced it, None if it
    keeps its priority. `status` is the change of an order that keeps its priority or, with a report, the
    status of the new order."""

    id: int
    by: int | None
    status: Status | None
    ref: str | None = None
    newref: str | None = None


@dataclass(frozen=True)
class Execution:
    """An execution: shares, the price in dollars a share, and the time in seconds since the Unix epoch."""

    shares: Decimal
    price: Decimal
    time: int


@dataclass(frozen=True)
class Canceled:
    """A cancel: the shares, and the time in seconds since the Unix epoch."""

    shares: Decimal
    time: int


@dataclass(frozen=True)
class Reduced:
    """The shares that amends removed, and the time of the last one in seconds since the Unix epoch."""

    shares: Decimal
    time: int


@dataclass(frozen=True)
class Status:
    """The status of an order, which a query or a cancel returns. Shares are positive also for a sell
    order; `open` is 0 if no share is open; executions are oldest first. `replaced` is the id of the order
    by which an amend replaced it. With `more`, a report does not have all executions."""

    id: int
    open: Decimal
    canceled: Canceled | None
    executed: tuple[Execution, ...]
    ref: str | None = None  # set if the order was named by its ref
    replaced: int | None = None
    reduced: Reduced | None = None
    more: bool = False


@dataclass(frozen=True)
class CanceledAll:
    """The number of orders that were canceled."""

    count: int
    sym: str | None = None


@dataclass(frozen=True)
class SwitchSet:
    """The account's dead man's switch was set to this number of seconds; 0 means that it is off."""

    seconds: int


@dataclass(frozen=True)
class Position:
    """An account's position in a symbol: `shares` that it can sell, and `held` for its open orders."""

    sym: str
    shares: Decimal
    held: Decimal


@dataclass(frozen=True)
class Account:
    """The state of an account: dollars that it can spend, dollars held for its open orders, and its
    positions that are not 0, in order of their symbols."""

    id: str
    balance: Decimal
    held: Decimal
    positions: tuple[Position, ...]


@dataclass(frozen=True)
class OpenOrder:
    """An order with open shares. `amount` is its total, including executed shares: the amount that an
    amend changes, negative for a sell order. `time` is in seconds since the Unix epoch."""

    id: int
    sym: str
    amount: Decimal
    limit: Decimal
    open: Decimal
    time: int
    post: bool = False
    stp: str | None = None
    cod: bool = False


@dataclass(frozen=True)
class Orders:
    """Open orders, in order of their ids. With `more` there may be further ones, even if this page has
    none: request them with ListOrders and `after`."""

    orders: tuple[OpenOrder, ...]
    more: bool
    after: int | None = None


@dataclass(frozen=True)
class Fill:
    """An execution from the view of one of its two accounts. `n` numbers the account's fills 1, 2, 3 …
    without a gap; `id` is the account's order, `side` is "buy" or "sell"."""

    n: int
    id: int
    sym: str
    side: str
    shares: Decimal
    price: Decimal
    time: int


@dataclass(frozen=True)
class Fills:
    """Executions, oldest first. With `more` there are further ones: request them with ListFills and `after`."""

    fills: tuple[Fill, ...]
    more: bool
    after: int | None = None


@dataclass(frozen=True)
class Refusal:
    """The exchange refused a command, which changed nothing. `text` is the reason, for people. With
    `whole_frame` it refused the frame before executing any of it. With `maybe_done`, which only
    results of retry() have, the command was sent before on a connection that was lost, and may have
    been executed then. It is safe to send it again later with the same ref."""

    command: Command
    text: str
    whole_frame: bool = False
    maybe_done: bool = False


Result = Union[Created, Opened, Amended, Status, CanceledAll, SwitchSet, Account, Orders, Fills, Refusal]


@dataclass(frozen=True)
class Reply:
    """The reply to a frame of a pipeline: a result for each command, in order."""

    frame: Frame
    results: tuple[Result, ...]


# Errors


class OutcryError(Exception):
    """The base of this client's errors, except TypeError and ValueError for invalid values, and OSError
    if no connection could be made; in those cases nothing was sent."""


class Refused(OutcryError):
    """The exchange refused a command that was sent alone. `refusal` has the command and the text."""

    def __init__(self, refusal: Refusal):
        super().__init__(refusal.text)
        self.refusal = refusal


class NotAuthorized(OutcryError):
    """The exchange does not accept the token, or requires one and none was given. It does not say
    why. Nothing was executed."""


class InsecureToken(OutcryError):
    """The token would go to another machine over an unencrypted connection. Nothing was sent. Give an
    ssl_context, or allow it with insecure_token=True."""


class ConnectionLost(OutcryError):
    """The connection ended, or a reply was late. `unanswered` are the frames without a reply, in the
    order in which they were sent. It is unknown whether they were executed; a frame is executed only
    after those before it. `last_words` is the text that the exchange sent before it closed the
    connection, None if it sent none."""

    def __init__(self, reason: str, unanswered: Sequence[Frame], last_words: str | None = None):
        frames = f"{len(unanswered)} frame{'s' if len(unanswered) != 1 else ''}"
        super().__init__(f"{reason}; whether {frames} without a reply took effect is unknown")
        self.reason = reason
        self.unanswered = tuple(unanswered)
        self.last_words = last_words


class ProtocolError(ConnectionLost):
    """The exchange's output is not a valid reply. The connection is closed."""


# The connection

_LENGTH_LINE_MAX = 19
# Beginnings of errors about a token or about <auth> itself. Any other error in their place is temporary.
_NOT_AUTHORIZED = ('this exchange takes <auth token="…"/> as the first frame, with a token that is known and has not ended',
                   "unknown root element <auth>")
_LATER = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)  # errors of a socket that would block
_RECEIVE_BYTES = 1 << 16
_ADDRESSES_MAX = 16
_ROUND_PAUSE_MAX = 0.2  # longest pause in seconds after no address accepted orders; the first is a quarter of it
_Kind = TypeVar("_Kind", Created, Opened, Amended, Status, CanceledAll, SwitchSet, Account, Orders, Fills)


class Exchange:
    """A connection to an exchange. It connects when it is first needed.

    `address` is "host:port", or several in a list or separated by commas, of which one accepts
    orders. Its default is the environment's OUTCRY_ADDR, else 127.0.0.1:12345.
    `timeout` is the maximum time in seconds to connect, and to wait for each reply.
    `switch_time` is the maximum time in seconds for one of several addresses to accept a connection
    and answer on it, and how long a reply may be missing before the other addresses are asked.
    With `cancel_on_disconnect` the exchange cancels the open orders of a connection when it ends for
    any reason, except those with cod=False; with `silence_time` also when the connection has been
    silent for that number of whole seconds. Each new connection requests this first.
    `reply_bytes_max` bounds a reply; a larger one raises ProtocolError.
    `token` is sent to an exchange that requires one; its default is the environment's OUTCRY_TOKEN,
    if set. `ssl_context` enables TLS: ssl.create_default_context(cafile="ca.pem") accepts an exchange
    whose certificate is from that authority. Without TLS a token is sent only to this machine: any
    other address raises InsecureToken, unless `insecure_token`, or OUTCRY_INSECURE_TOKEN=true in the
    environment, allows it with a warning.

    Every method that communicates may raise ConnectionLost, ProtocolError or, if no connection could
    be made or the exchange has no free connection, OSError; NotAuthorized if the token is not
    accepted.
    """

    def __init__(self, address: str | Sequence[str] | None = None, timeout: float = 30.0, reply_bytes_max: int = 256 << 20,
                 token: str | None = None, ssl_context: ssl.SSLContext | None = None, insecure_token: bool = False,
                 switch_time: float = 0.5, cancel_on_disconnect: bool = False, silence_time: int | None = None):
        self._addresses = _addresses(address or os.environ.get("OUTCRY_ADDR") or "127.0.0.1:12345")  # next one first
        self._timeout, self._reply_bytes_max = timeout, reply_bytes_max
        self._patience = timeout  # maximum wait for a reply; shorter while one of several addresses is tried
        self._switch_time = self._quiet = switch_time  # quiet: how long a reply may be missing before others are asked
        self._until = float("inf")  # when retry() gives up
        self._token, self._ssl_context = token or os.environ.get("OUTCRY_TOKEN") or "", ssl_context
        self._session = b"" if not cancel_on_disconnect else b'<session cancel="disconnect"%s/>' % (
            b"" if silence_time is None else b' timeout="%d"' % silence_time)
        self._insecure_token = insecure_token or os.environ.get("OUTCRY_INSECURE_TOKEN", "") == "true"
        self._socket: socket.socket | None = None
        self._selector = selectors.DefaultSelector()
        self._events = 0  # events that the selector waits for
        self._received = bytearray()  # bytes not yet parsed as a reply
        self._ended = ""  # why no more bytes will arrive
        self._unanswered: deque[Frame] = deque()

    def __enter__(self) -> Exchange:
        return self.connect()

    def __exit__(self, *_: object) -> None:
        self.close()

    def connect(self) -> Exchange:
        """Connects, unless there is a connection. Returns self. Tries several addresses one after the
        other for up to `timeout` seconds. Raises OSError, NotAuthorized, InsecureToken."""
        if self._socket is None and len(self._addresses) == 1:
            self._connect_to(self._addresses[0])
        deadline, pause = min(time.monotonic() + self._timeout, self._until), _ROUND_PAUSE_MAX / 4
        while self._socket is None:
            why = self._round()
            if self._socket is None:
                if time.monotonic() + pause > deadline:
                    raise ConnectionError(f"no address accepts orders: {why}")
                time.sleep(pause)
                pause = min(2 * pause, _ROUND_PAUSE_MAX)
        return self

    def _round(self) -> str:
        """Connects to the first of several addresses that answers; the next round tries it last. Returns
        why none answers. Raises errors that a retry would not change."""
        why = []
        self._patience = min(self._timeout, self._switch_time)
        try:
            for address in list(self._addresses):
                try:
                    self._connect_to(address)
                    self._probe()
                except (ssl.SSLCertVerificationError, NotAuthorized, InsecureToken):
                    self.close()
                    raise
                except OSError as e:
                    self.close()
                    why.append(f"{address[0]}:{address[1]}: {e}")
                else:
                    self._addresses.remove(address)
                    self._addresses.append(address)
                    break
        finally:
            self._patience = self._timeout
        return "; ".join(why)

    def _connect_to(self, address: tuple[str, int]) -> None:
        """Makes the connection, with TLS and the token."""
        connection = socket.create_connection(address, self._patience)
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._token and self._ssl_context is None:
                self._permit(connection.getpeername()[0])
            if self._ssl_context is not None:
                connection = self._ssl_context.wrap_socket(connection, server_hostname=address[0])
            connection.setblocking(False)
        except BaseException:
            connection.close()
            raise
        self._socket = connection
        self._events = selectors.EVENT_READ
        self._selector.register(self._socket, self._events)
        if self._token:
            self._prove()
        if self._session:
            self._begin()

    def _probe(self) -> None:
        """Sends a frame without effect and waits for its answer."""
        try:
            self._send(b"9\n<create/>")
            root = self._reply()
        except ConnectionLost as e:
            raise ConnectionError(e.reason) from e
        text = "".join(root.itertext())
        if text.startswith(_NOT_AUTHORIZED[0]):
            raise NotAuthorized(text)
        if len(root):
            raise ConnectionError(f"the exchange takes no connection: {text}")

    def _look_elsewhere(self) -> None:
        """Closes the connection if another address accepts orders; the next connection goes there.
        Otherwise the exchange may only be slow. If two addresses lead to the same slow exchange, it gets
        more time with each switch."""
        own = self._addresses[-1]
        for address in self._addresses[:-1]:
            other = Exchange([f"[{address[0]}]:{address[1]}"], self._switch_time, self._reply_bytes_max, self._token,
                             self._ssl_context, self._insecure_token)
            try:
                other.connect()._probe()
            except (OSError, OutcryError):
                continue
            finally:
                other.close()
            self._addresses.remove(address)
            self._addresses.insert(0, address)
            self._quiet, quiet = 2 * self._quiet, self._quiet
            raise self._lost(ConnectionLost, f"no reply from {own[0]}:{own[1]} within {quiet} seconds, and another address "
                                             "accepts orders")

    def _permit(self, host: str) -> None:
        """Raises InsecureToken unless the token may be sent to a host without encryption."""
        if _is_loopback(host):
            return
        if not self._insecure_token:
            raise InsecureToken(f"the token is not sent to {host}: the connection is not encrypted; "
                                "give an ssl_context, or allow it with insecure_token=True")
        warnings.warn(f"the token is sent to {host} over a connection that is not encrypted", RuntimeWarning, stacklevel=2)

    def _prove(self) -> None:
        """Sends the token, which must come first on a connection."""
        try:
            xml = f"<auth token={quoteattr(self._token)}/>".encode()
            self._send(b"%d\n%s" % (len(xml), xml))
            root = self._reply()
            if len(root) != 1 or root[0].tag != "authorized":
                text = "".join(root.itertext())
                if text and not text.startswith(_NOT_AUTHORIZED):
                    raise ConnectionError(f"the exchange takes no connection: {text}")
                raise NotAuthorized(text)
        except ConnectionLost as e:
            self.close()
            raise ConnectionError(f"no answer to the token: {e.reason}") from e
        except BaseException:
            self.close()
            raise

    def _begin(self) -> None:
        """Requests what the exchange does when the connection ends."""
        try:
            self._send(b"%d\n%s" % (len(self._session), self._session))
            root = self._reply()
            if len(root) != 1 or root[0].tag != "session":
                text = "".join(root.itertext())
                if text.startswith(_NOT_AUTHORIZED[0]):
                    raise NotAuthorized(f"no token was given: {text}")
                raise ConnectionError(f"the exchange does not cancel on disconnect: {text}")
        except ConnectionLost as e:
            self.close()
            raise ConnectionError(f"no answer to <session>: {e.reason}") from e
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Closes the connection, if there is one. A later call reconnects."""
        if self._socket is not None:
            self._selector.unregister(self._socket)
            self._socket.close()
        self._socket, self._ended = None, ""
        self._received.clear()
        self._unanswered.clear()

    # Single commands: each raises Refused if the exchange refuses it.

    def open_account(self, account: str, balance: Number, ref: str | None = None) -> Created:
        """Opens an account with a balance in dollars."""
        return self._one(create(OpenAccount(account, balance, ref)), Created)

    def make_symbol(self, sym: str, tick: Number | None = None, lot: Number | None = None) -> Created:
        """Creates a symbol if it does not exist. Refused if it exists with another tick or lot."""
        return self._one(create(MakeSymbol(sym, tick, lot)), Created)

    def place(self, sym: str, account: str, shares: Number, ref: str | None = None) -> Created:
        """Adds shares to an account's position, and creates the symbol if it does not exist."""
        return self._one(create(Place(sym, account, shares, ref)), Created)

    def order(self, account: str, sym: str, amount: Number, limit: Number | None = None, ref: str | None = None,
              **instructions: Any) -> Opened:
        """Places an order: a positive amount of shares buys, a negative one sells. Instructions are those of Order."""
        return self._one(transactions(account, Order(sym, amount, limit, ref, **instructions)), Opened)

    def buy(self, account: str, sym: str, shares: Number, limit: Number | None = None, ref: str | None = None,
            **instructions: Any) -> Opened:
        """Places an order to buy `shares`, more than 0, for at most `limit` dollars each."""
        return self._one(transactions(account, buy(sym, shares, limit, ref, **instructions)), Opened)

    def sell(self, account: str, sym: str, shares: Number, limit: Number | None = None, ref: str | None = None,
             **instructions: Any) -> Opened:
        """Places an order to sell `shares`, more than 0, for at least `limit` dollars each."""
        return self._one(transactions(account, sell(sym, shares, limit, ref, **instructions)), Opened)

    def amend(self, account: str, order: int | None = None, amount: Number | None = None, limit: Number | None = None,
              ref: str | None = None, newref: str | None = None, report: bool = False) -> Amended:
        """Changes one of the account's orders: see Amend."""
        return self._one(transactions(account, Amend(order, amount, limit, ref, newref, report)), Amended)

    def query(self, account: str, order: int | None = None, ref: str | None = None) -> Status:
        """Returns an order's status: of any order by its id, of the account's own by its ref."""
        return self._one(transactions(account, Query(order, ref)), Status)

    def cancel(self, account: str, order: int | None = None, ref: str | None = None) -> Status:
        """Cancels the open part of one of the account's orders; executions stay."""
        return self._one(transactions(account, Cancel(order, ref)), Status)

    def cancel_all(self, account: str, sym: str | None = None) -> int:
        """Cancels all open orders of an account, or those of one symbol if `sym` is given. Returns their number."""
        return self._one(transactions(account, CancelAll(sym)), CanceledAll).count

    def cancel_after(self, account: str, seconds: int) -> None:
        """Sets the account's dead man's switch: see CancelAfter."""
        self._one(transactions(account, CancelAfter(seconds)), SwitchSet)

    def account(self, account: str) -> Account:
        """Returns the state of an account, which includes every command answered before, on any connection."""
        return self._one(transactions(account, ShowAccount()), Account)

    def orders(self, account: str, sym: str | None = None) -> list[OpenOrder]:
        """Returns all open orders of an account, or those of one symbol if `sym` is given, in order of their
        ids. It requests page after page; each shows a moment of its own."""
        found: list[OpenOrder] = []
        after: int | None = None
        while True:
            page = self._one(transactions(account, ListOrders(sym, after)), Orders)
            found += page.orders
            if not page.more:
                return found
            after = page.after

    def fills(self, account: str, after: int | None = None) -> tuple[Fill, ...]:
        """Returns up to 1,000 executions of an account, oldest first: the last ones, or with `after` the
        first ones whose number is above it."""
        return self._one(transactions(account, ListFills(after)), Fills).fills

    # Frames

    def send(self, frame: Frame) -> tuple[Result, ...]:
        """Sends one frame and returns the results of its commands, in order. A refused command has a
        Refusal as its result."""
        (reply,) = self.pipeline([frame])
        return reply.results

    def retry(self, frame: Frame, seconds: float = 60.0) -> tuple[Result, ...]:
        """Sends a frame again, over new connections, until there is a reply, and returns the results of its
        commands. No command is executed twice: commands that create something must have a ref, and
        amends a newref, otherwise ValueError is raised and nothing is sent. After `seconds`, or on an
        error that a retry would not change (a certificate, a token, a malformed reply, a frame that the
        exchange does not accept), it raises the last ConnectionLost, or another error only if the frame
        was never sent. It is still safe to send the same frame later. A cancel that was executed before
        its reply was lost is answered with a Refusal that says so. A command that is refused after a
        ConnectionLost has maybe_done."""
        for c in frame.commands:
            if isinstance(c, (OpenAccount, Place, Order)) and c.ref is None or isinstance(c, Amend) and c.newref is None:
                raise ValueError(f"{c!r} has no ref: sent again, it could be done twice")
        self._until = time.monotonic() + seconds
        try:
            return self._retry(frame, self._until)
        finally:
            self._until = float("inf")

    def _retry(self, frame: Frame, deadline: float) -> tuple[Result, ...]:
        pause = 0.05
        lost: ConnectionLost | None = None  # last loss after the frame was sent
        while True:
            # The exchange's last words may or may not be about this frame: a connection that answers right
            # before the frame is sent decides it.
            probe = lost is not None and lost.last_words is not None
            failure: Exception | None = lost
            try:
                if not probe or self._is_good():
                    results = self.send(frame)
                    return results if lost is None else tuple(_doubtful(r) for r in results)
            except ProtocolError:
                raise
            except ConnectionLost as e:
                if probe and e.last_words is not None:
                    raise
                failure = lost = e
            except (ssl.SSLCertVerificationError, NotAuthorized, InsecureToken) as e:
                if lost is None:
                    raise
                raise lost from e
            except OSError as e:
                failure = lost or e
            if failure is not None and time.monotonic() + pause > deadline:
                raise failure
            time.sleep(pause)
            pause = min(2 * pause, 2.0 if len(self._addresses) == 1 else _ROUND_PAUSE_MAX)

    def _is_good(self) -> bool:
        """Returns whether the exchange answers a frame without effect."""
        try:
            self.send(create())
        except ConnectionLost:
            return False
        return True

    def pipeline(self, frames: Iterable[Frame], window: int = 64) -> Iterator[Reply]:
        """Sends frames without waiting for the reply to each, and yields the replies in the order of the
        frames. At most `window` frames are without a reply at a time; further ones are read from `frames`
        as replies arrive.

        A caller that ends the iteration early closes the connection, and does not learn what became of
        the frames without a reply. No other method may be called during the iteration."""
        if window < 1:
            raise ValueError(f"window {window}: must be at least 1")
        if self._unanswered:
            raise RuntimeError("the replies of a pipeline on this connection have not all been taken")
        return self._replies(iter(frames), window)

    def _replies(self, frames: Iterator[Frame], window: int) -> Iterator[Reply]:
        failure: Exception | None = None  # error of an invalid frame, raised after the replies to those before it
        more = True
        try:
            while True:
                while more and not self._ended and len(self._unanswered) < window:
                    try:
                        frame = next(frames, None)
                        xml = frame.xml() if frame is not None else b""
                    except Exception as e:
                        failure, frame = e, None
                    if frame is None:
                        more = False
                    else:
                        self._put(frame, xml)
                if not self._unanswered:
                    break
                yield self._take()
        finally:
            if self._unanswered:  # after an error, or if the caller ended the iteration
                self.close()
        if failure is not None:
            raise failure

    def _one(self, frame: Frame, kind: type[_Kind]) -> _Kind:
        """Sends a frame of one command and returns its result."""
        (result,) = self.send(frame)
        if isinstance(result, Refusal):
            raise Refused(result)
        assert isinstance(result, kind)
        return result

    def _put(self, frame: Frame, xml: bytes) -> None:
        """Sends a frame. If no frame is unanswered, a connection that has ended is replaced."""
        if not self._unanswered and self._socket is not None:
            self._receive()
            if self._received or self._ended:  # only last words can arrive without a request
                self.close()
        self.connect()
        self._unanswered.append(frame)
        self._send(b"%d\n%s" % (len(xml), xml))

    def _take(self) -> Reply:
        """Waits for the reply to the oldest frame without one."""
        root = self._reply()
        for e in list(root):
            if e.tag not in _KNOWN:
                root.remove(e)
        frame = self._unanswered[0]
        whole = len(root) == 1 and root[0].tag == "error" and not root[0].attrib
        if whole and frame.commands:
            text = root[0].text or ""
            goes_on = self._goes_on()
            if not (goes_on or self._token) and text.startswith(_NOT_AUTHORIZED[0]):
                self.close()
                raise NotAuthorized(f"no token was given: {text}")
            if not goes_on:
                raise self._lost(ConnectionLost, f"the exchange closed the connection: {text}", text)
            results: list[Result] = [Refusal(c, text, whole_frame=True) for c in frame.commands]
        elif len(root) != len(frame.commands):
            raise self._lost(ProtocolError, f"{len(root)} answers to {len(frame.commands)} commands")
        else:
            try:
                results = [_result(c, e) for c, e in zip(frame.commands, root)]
            except (KeyError, ValueError, ArithmeticError) as e:
                raise self._lost(ProtocolError, f"an answer is not one of the protocol: {e}") from e
        self._unanswered.popleft()
        self._quiet = self._switch_time
        return Reply(frame, tuple(results))

    def _goes_on(self) -> bool:
        """Returns whether the exchange still answers after an error about a whole frame. Such an error is
        either the last text of a connection that ends, or the answer to a malformed frame. The next reply
        shows which; if none is due, a frame without effect is sent."""
        asked = len(self._unanswered) == 1
        if asked:
            self._send(b"9\n<create/>")  # has no effect; its reply is <results/>
        deadline = time.monotonic() + self._timeout
        while not self._received and not self._ended:
            self._wait(deadline, selectors.EVENT_READ)
        if asked and not self._ended:
            self._reply()
        return not self._ended

    # Bytes

    def _send(self, data: bytes) -> None:
        """Sends bytes, and receives while it cannot send: an exchange whose replies are not read stops
        reading. If the connection breaks, the replies before that can still be parsed."""
        view, deadline = memoryview(data), time.monotonic() + self._patience
        while len(view) > 0 and not self._ended:
            assert self._socket is not None
            try:
                view = view[self._socket.send(view):]
                deadline = time.monotonic() + self._patience
            except _LATER:
                self._wait(deadline, selectors.EVENT_READ | selectors.EVENT_WRITE)
            except OSError as e:
                while not self._ended:
                    self._wait(deadline, selectors.EVENT_READ)  # receive what the exchange sent before
                self._ended = f"the connection broke: {e}"

    def _reply(self) -> ElementTree.Element:
        """Receives the next reply and returns its root."""
        deadline = time.monotonic() + self._patience
        searched = 0
        while True:
            begin, end = self._bounds(searched)
            if max(end, len(self._received) if end == 0 else 0) > self._reply_bytes_max:
                raise self._lost(ProtocolError, f"a reply is over the limit of {self._reply_bytes_max} bytes")
            if 0 < end <= len(self._received):
                break
            searched = len(self._received)
            if self._ended:
                raise self._lost(ConnectionLost, self._ended)
            self._wait(deadline, selectors.EVENT_READ)
        xml = bytes(self._received[begin:end])
        del self._received[:end]
        try:
            root = ElementTree.fromstring(xml)
        except ElementTree.ParseError as e:
            raise self._lost(ProtocolError, f"a reply is not XML: {e}") from e
        if root.tag != "results":
            raise self._lost(ProtocolError, f"<{root.tag}> is not a reply")
        return root

    def _bounds(self, searched: int) -> tuple[int, int]:
        """Returns the begin and the end of the first reply's XML; the end is 0 if it has not arrived. In a
        reply without a length line, the first `searched` bytes contain no end."""
        if self._received.startswith(b"<"):  # an exchange with --bare-replies
            if self._received.startswith(b"<results/>"):
                return 0, len(b"<results/>")
            last = b"</results>"  # no value can contain it, as "<" is escaped
            found = self._received.find(last, max(0, searched - len(last)))
            return 0, found + len(last) if found >= 0 else 0
        line = bytes(self._received[:_LENGTH_LINE_MAX])
        complete = re.match(rb"([0-9]+)\n", line)
        if complete:
            return complete.end(), complete.end() + int(complete[1])
        if len(line) == _LENGTH_LINE_MAX or not re.fullmatch(rb"[0-9]*", line):
            raise self._lost(ProtocolError, f"a reply begins with {line!r}, not with its length")
        return 0, 0

    def _wait(self, deadline: float, events: int) -> None:
        """Receives the bytes that have arrived. If there are none, it first waits for one of the events.
        Raises ConnectionLost at the deadline."""
        assert self._socket is not None
        if events != self._events:
            self._selector.modify(self._socket, events)
            self._events = events
        while not self._receive():
            left = deadline - time.monotonic()
            looks = len(self._addresses) > 1 and bool(self._unanswered) and 0 < self._quiet < left
            if left <= 0 or not self._selector.select(self._quiet if looks else left):
                if not looks:
                    raise self._lost(ConnectionLost, f"no reply within {self._patience} seconds")
                self._look_elsewhere()
                continue
            self._receive()
            return

    def _receive(self) -> bool:
        """Receives the bytes that have arrived. Returns whether there were any, or the connection's end."""
        assert self._socket is not None
        try:
            data = self._socket.recv(_RECEIVE_BYTES)
        except _LATER:
            return False
        except OSError as e:
            self._ended = f"the connection broke: {e}"
            return True
        self._received += data
        if not data:
            self._ended = "the exchange closed the connection"
        return True

    def _lost(self, kind: type[ConnectionLost], reason: str, last_words: str | None = None) -> ConnectionLost:
        """Closes the connection and returns the error with the frames whose outcome is unknown."""
        error = kind(reason, self._unanswered, last_words)
        self.close()
        return error


# Values

_DECIMAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)")
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def _addresses(given: str | Sequence[str]) -> list[tuple[str, int]]:
    """Returns the hosts and ports of addresses. Raises ValueError with the address that is malformed."""
    texts = [text.strip() for part in ([given] if isinstance(given, str) else given) for text in part.split(",")]
    if not 0 < len(texts) <= _ADDRESSES_MAX:
        raise ValueError(f"{len(texts)} addresses: 1 to {_ADDRESSES_MAX} are needed")
    found = []
    for text in texts:
        host, colon, port = text.rpartition(":")
        if not (colon and re.fullmatch("[0-9]{1,5}", port)):
            raise ValueError(f'address {text!r}: "host:port" is needed')
        found.append((host.strip("[]"), int(port)))
    return found


def _is_loopback(host: str) -> bool:
    """Returns whether a peer's address, in a socket's format, is a loopback address."""
    address = ipaddress.ip_address(host.partition("%")[0])
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback


def _doubtful(result: Result) -> Result:
    """Returns the result with maybe_done if it is a refusal: the frame was sent before."""
    if isinstance(result, Refusal) and not isinstance(result.command, _ASKING):
        return replace(result, maybe_done=True)
    return result


def _exact(name: str, value: Number | None) -> Decimal:
    """Returns a number unchanged, or raises ValueError or TypeError with its name."""
    if isinstance(value, bool) or not isinstance(value, (Decimal, int, str)):
        raise TypeError(f"{name} {value!r}: a Decimal, int or str is needed, not {type(value).__name__}")
    if isinstance(value, str) and _DECIMAL.fullmatch(value) is None:
        raise ValueError(f"{name} {value!r} is not a decimal number")
    number = Decimal(value)
    if not number.is_finite():
        raise ValueError(f"{name} {value!r} is not a finite number")
    return number


def _positive(shares: Number) -> Decimal:
    number = _exact("shares", shares)
    if number <= 0:
        raise ValueError(f"shares {shares!r}: must be more than 0; buy and sell say the side")
    return number


def _number(name: str, value: Number | None) -> str:
    """Returns a number in the protocol's format; a str is unchanged."""
    number = _exact(name, value)
    return value if isinstance(value, str) else f"{number:f}"


def _attribute(name: str, value: object) -> str:
    """Returns a text as an attribute's value."""
    if not isinstance(value, str):
        raise TypeError(f"{name} {value!r}: a str is needed, not {type(value).__name__}")
    if _NOT_XML.search(value):
        raise ValueError(f"{name} {value!r} has a character that XML does not have")
    return quoteattr(value)


def _id(value: str | int) -> str:
    """Returns an account or order id as an attribute's value. The account ids "7" and "007" are two
    accounts; the int 7 is the first."""
    return _attribute("id", str(value) if type(value) is int else value)


def _word(name: str, value: str | None) -> str:
    """Returns a text as an attribute, or "" for None."""
    return "" if value is None else f" {name}={_attribute(name, value)}"


def _flag(name: str, given: bool, value: str, otherwise: str | None = None) -> str:
    """Returns an attribute for a bool, or the default for None. Only bools are accepted, as "no" would be true."""
    if type(given) is not bool:
        raise TypeError(f"{name} {given!r}: a bool is needed, not {type(given).__name__}")
    return _word(name, value if given else otherwise)


def _given(name: str, value: Number | None) -> str:
    """Returns a number as an attribute, or "" for None."""
    return "" if value is None else f' {name}="{_number(name, value)}"'


def _count(name: str, value: int) -> int:
    """Returns a whole number, or raises TypeError with its name."""
    if type(value) is not int:
        raise TypeError(f"{name} {value!r}: an int is needed, not {type(value).__name__}")
    return value


def _after(after: int | None) -> str:
    """Returns the attribute after which a list begins, or "" for None."""
    return "" if after is None else f' after="{_count("after", after)}"'


def _ref(ref: str | None) -> str:
    """Returns a ref as an attribute, or "" for None."""
    return "" if ref is None else f" ref={_attribute('ref', ref)}"


def _named(order: int | str | None, ref: str | None) -> str:
    """Returns the attribute that names an order."""
    if (order is None) == (ref is None):
        raise ValueError(f"order {order!r}, ref {ref!r}: one of the two names an order")
    return _ref(ref) if order is None else f" id={_id(order)}"


_ANSWERS = {OpenAccount: "created", MakeSymbol: "created", Place: "created", Order: "opened", Amend: "amended", Query: "status",
            Cancel: "canceled", CancelAll: "canceled-all", CancelAfter: "cancel-after", ShowAccount: "account",
            ListOrders: "orders", ListFills: "fills"}
_KNOWN = {"error", *_ANSWERS.values()}


def _result(command: Command, e: ElementTree.Element) -> Result:
    """Parses the answer to a command. Raises KeyError, ValueError or ArithmeticError if it is malformed."""
    if e.tag == "error":
        return Refusal(command, e.text or "")
    if e.tag != _ANSWERS[type(command)]:
        raise ValueError(f"<{e.tag}> answers no {type(command).__name__}")
    if e.tag == "created":
        return Created(e.get("sym"), e.get("id"), e.get("ref"))
    if e.tag == "canceled-all":
        return CanceledAll(int(e.attrib["count"]), e.get("sym"))
    if e.tag == "cancel-after":
        return SwitchSet(int(e.attrib["seconds"]))
    if e.tag == "account":
        return Account(e.attrib["id"], Decimal(e.attrib["balance"]), Decimal(e.attrib["held"]),
                       tuple(Position(p.attrib["sym"], Decimal(p.attrib["shares"]), Decimal(p.attrib["held"]))
                             for p in e.iter("position")))
    if isinstance(command, (ListOrders, ListFills)):
        after = _next_after(command, e)
        if isinstance(command, ListOrders):
            return Orders(tuple(_open_order(o) for o in e.iter("order")), after is not None, after)
        return Fills(tuple(_fill(f) for f in e.iter("fill")), after is not None, after)
    id = int(e.attrib["id"])
    if isinstance(command, Order):
        limit = Decimal(e.attrib["limit"]) if not command.market or "limit" in e.attrib else None
        return Opened(id, e.attrib["sym"], Decimal(e.attrib["amount"]), limit, e.get("ref"),
                      _status(id, None, e) if command.report else None)
    if isinstance(command, Amend):
        by = int(e.attrib["by"]) if "by" in e.attrib else None
        return Amended(id, by, None if by and not command.report else _status(by or id, None, e), e.get("ref"), e.get("newref"))
    return _status(id, e.get("ref"), e)


def _next_after(command: ListOrders | ListFills, e: ElementTree.Element) -> int | None:
    """Returns the number after which the next page begins, None if there is none. Raises ValueError if it is
    not above the one that the command requested: a caller that reads page after page would never finish."""
    more = e.find("more")
    if more is None:
        return None
    after, asked = int(more.attrib["after"]), command.after or 0
    if after <= asked:
        raise ValueError(f"there are more after {after}, which is not above {asked}")
    return after


def _status(id: int, ref: str | None, e: ElementTree.Element) -> Status:
    """Parses the status of an order. Unknown parts are ignored."""
    status = Status(id, Decimal(0), None, (), ref, more=e.find("more") is not None)
    executed: list[Execution] = []
    for part in e:
        if part.tag == "open":
            status = replace(status, open=Decimal(part.attrib["shares"]))
        elif part.tag == "canceled":
            status = replace(status, canceled=Canceled(Decimal(part.attrib["shares"]), int(part.attrib["time"])))
        elif part.tag == "replaced":
            status = replace(status, replaced=int(part.attrib["id"]))
        elif part.tag == "reduced":
            status = replace(status, reduced=Reduced(Decimal(part.attrib["shares"]), int(part.attrib["time"])))
        elif part.tag == "executed":
            executed.append(Execution(Decimal(part.attrib["shares"]), Decimal(part.attrib["price"]), int(part.attrib["time"])))
    return replace(status, executed=tuple(executed))


def _open_order(o: ElementTree.Element) -> OpenOrder:
    return OpenOrder(int(o.attrib["id"]), o.attrib["sym"], Decimal(o.attrib["amount"]), Decimal(o.attrib["limit"]),
                     Decimal(o.attrib["open"]), int(o.attrib["time"]), o.get("post") == "yes", o.get("stp"), o.get("cod") == "yes")


def _fill(f: ElementTree.Element) -> Fill:
    if f.attrib["side"] not in ("buy", "sell"):
        raise ValueError(f"{f.attrib['side']!r} is not a side")
    return Fill(int(f.attrib["n"]), int(f.attrib["id"]), f.attrib["sym"], f.attrib["side"], Decimal(f.attrib["shares"]),
                Decimal(f.attrib["price"]), int(f.attrib["time"]))
