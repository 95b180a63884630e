"""A client of the Outcry exchange: one file, no dependencies, Python 3.9 or newer.

    import outcry

    with outcry.Exchange("127.0.0.1:12345") as exchange:
        exchange.open_account("1", 20000)
        order = exchange.buy("1", "SPY", 100, "123.45")
        print(exchange.query("1", order.id))

An Exchange is one connection. It is for one thread at a time.

Numbers. Prices, shares and money are decimal.Decimal, exact in both directions. A
number may be given as Decimal, int or str; a float is refused with TypeError, since it
is rarely the number that was meant. What is no number is refused with ValueError, and
nothing is sent. Ranges are checked by the exchange.

Errors. A command that the exchange refuses raises Refused where it was sent alone
(open_account, buy, query …). In a frame of several commands, and in a pipeline, each
command stands for itself: the refused one has a Refusal as its result, in its place.

Broken connections. Where the connection breaks, or a reply does not come in time, after
a frame has been sent, nobody here knows whether it was done: ConnectionLost is raised,
with the frames that have no reply. Nothing is sent twice but by retry(). The next call
connects anew. A connection that is found closed before anything was sent is replaced
silently.

Several addresses. Of a cluster give all, "a:12345,b:12345,c:12345": each connection is made
to the one that takes orders. While a reply is owed for `switch_time` seconds, the others are
asked, since a machine that hangs closes nothing; where one takes orders, the connection is
given up. retry() goes on there.

Instructions. Orders take the keyword arguments of Order: market, tif, post, stp, cod, report. An
exchange may tell more than this client knows: what it does not know of a reply, it ignores.

Retries. A command that makes something takes a ref, a name of your own that its account
uses once: sent again with the same ref, it is answered as it was first, and not done
again; an amend takes a newref. So a frame whose commands have refs can be sent until there is a reply, which
retry() does. Keep the refs of what you send where they outlive your program. A Refusal
of what was sent before and got no reply then does not prove that it was not done: an
exchange can refuse without a look at the ref. Such a Refusal has maybe_done.
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
    """Makes a symbol, A-Z a-z 0-9, where it is new. Limits of its orders have to be multiples of
    `tick`, amounts of `lot`, where these are given. One that is there already keeps what it was
    made with: others are refused."""

    sym: str
    tick: Number | None = None
    lot: Number | None = None

    def xml(self) -> str:
        return f"<symbol sym={_attribute('sym', self.sym)}{_given('tick', self.tick)}{_given('lot', self.lot)}/>"


@dataclass(frozen=True)
class Place:
    """Makes a symbol where it is new, and gives `shares` of it, more than 0, to an account."""

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
    executes at the best prices that there are, up to `limit` where that is given.

    `tif`, the time in force: "GTC" (good till canceled, the standard), "IOC" (what does not execute
    at once is canceled) or "FOK" (all of it at once, else it is refused). `post`: it is refused where
    it would execute at once. `stp`, self-trade prevention, what is canceled where it meets an order of
    its own account: "newest", "oldest" or "both". `cod`, cancel on disconnect: what is open is canceled
    when the connection ends; None is as the Exchange's cancel_on_disconnect says. `report`: the result
    has a status, which says what it came to at once."""

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
    """Changes an order of the account's own, by its id or by its ref. `amount` is its new total, with
    what is executed already, negative where it sells; `limit` is its new limit; at least one of them
    is needed. A smaller amount at the same limit keeps the order's place. Anything else replaces it by
    a new order. With `newref` it is done once, however often it is sent, and the ref names what it
    leaves; a ref of the order names that too. `report` is that of Order."""

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
    """Asks for an order, by its id or by its ref. Any account may ask for any order by id; a ref
    names an order of the account's own."""

    order: int | None = None
    ref: str | None = None

    def xml(self) -> str:
        return f"<query{_named(self.order, self.ref)}/>"


@dataclass(frozen=True)
class Cancel:
    """Cancels what is open of an order of the account's own, by its id or by its ref."""

    order: int | None = None
    ref: str | None = None

    def xml(self) -> str:
        return f"<cancel{_named(self.order, self.ref)}/>"


@dataclass(frozen=True)
class CancelAll:
    """Cancels all that the account has open, of one symbol where `sym` is given."""

    sym: str | None = None

    def xml(self) -> str:
        return f"<cancel-all{_word('sym', self.sym)}/>"


@dataclass(frozen=True)
class CancelAfter:
    """Has all that the account then has open canceled after so many whole seconds, up to 86,400, unless it
    is sent again before: a dead man's switch. 0 turns it off."""

    seconds: int

    def xml(self) -> str:
        return f'<cancel-after seconds="{_count("seconds", self.seconds)}"/>'


@dataclass(frozen=True)
class ShowAccount:
    """Asks what the account has."""

    def xml(self) -> str:
        return "<account/>"


@dataclass(frozen=True)
class ListOrders:
    """Asks for up to 1,000 open orders of the account, in order of their ids, those above `after` where
    it is given, and of one symbol where `sym` is."""

    sym: str | None = None
    after: int | None = None

    def xml(self) -> str:
        return f"<orders{_word('sym', self.sym)}{_after(self.after)}/>"


@dataclass(frozen=True)
class ListFills:
    """Asks for up to 1,000 executions of the account, oldest first: its last ones, or the first ones whose
    number is above `after` where it is given."""

    after: int | None = None

    def xml(self) -> str:
        return f"<fills{_after(self.after)}/>"


Command = Union[OpenAccount, MakeSymbol, Place, Order, Amend, Query, Cancel, CancelAll, CancelAfter, ShowAccount, ListOrders,
                ListFills]
_IN_CREATE = (OpenAccount, MakeSymbol, Place)
_ASKING = (Query, ShowAccount, ListOrders, ListFills)  # change nothing


def buy(sym: str, shares: Number, limit: Number | None = None, ref: str | None = None, **instructions: Any) -> Order:
    """An order to buy so many shares, more than 0, at `limit` dollars a share or less. Instructions are
    those of Order."""
    return Order(sym, _positive(shares), limit, ref, **instructions)


def sell(sym: str, shares: Number, limit: Number | None = None, ref: str | None = None, **instructions: Any) -> Order:
    """An order to sell so many shares, more than 0, at `limit` dollars a share or more. Instructions are
    those of Order."""
    # Not `-shares`: arithmetic of Decimal rounds to the digits of its context.
    return Order(sym, _positive(shares).copy_negate(), limit, ref, **instructions)


def new_ref() -> str:
    """A ref that nobody has used: 32 random hexadecimal digits."""
    return uuid.uuid4().hex


@dataclass(frozen=True)
class Frame:
    """Commands that are sent together and done in their order, each on its own: one that is
    refused does not undo or stop the others. Made by create() or transactions()."""

    commands: tuple[Command, ...]
    account: str | None = None  # of transactions

    def xml(self) -> bytes:
        """The frame's XML, without the length line. ValueError or TypeError name what cannot be sent."""
        tag = "create" if self.account is None else "transactions"
        for c in self.commands:
            if isinstance(c, _IN_CREATE) != (self.account is None) or type(c) not in _ANSWERS:
                raise TypeError(f"{c!r} does not belong into <{tag}>")
        who = "" if self.account is None else f" id={_id(self.account)}"
        return f"<{tag}{who}>{''.join(c.xml() for c in self.commands)}</{tag}>".encode()


def create(*commands: OpenAccount | MakeSymbol | Place) -> Frame:
    """A frame that opens accounts, makes symbols and places shares."""
    return Frame(commands)


def transactions(account: str, *commands: Command) -> Frame:
    """A frame of orders, queries, cancels and whatever else one account may ask."""
    return Frame(commands, account)


# Results


@dataclass(frozen=True)
class Created:
    """An account was opened, a symbol made, or, where both are there, shares placed."""

    sym: str | None
    account: str | None
    ref: str | None = None


@dataclass(frozen=True)
class Opened:
    """An order was accepted under this id, whether or not it executed at once, now or when its
    ref was sent first. `limit` is None where a market order was sent without one. `status` is what
    the order came to at once, where it asked for a report."""

    id: int
    sym: str
    amount: Decimal
    limit: Decimal | None
    ref: str | None = None
    status: Status | None = None


@dataclass(frozen=True)
class Amended:
    """An amend was done to the order of this id. `by` is the id of the order that has replaced it, None
    where it keeps its place. `status` is what the amend did to the order that keeps its place, or, where
    it asked for a report, what the new order came to at once."""

    id: int
    by: int | None
    status: Status | None
    ref: str | None = None
    newref: str | None = None


@dataclass(frozen=True)
class Execution:
    """So many shares at so many dollars a share, at a time in seconds since the Unix epoch."""

    shares: Decimal
    price: Decimal
    time: int


@dataclass(frozen=True)
class Canceled:
    """So many shares were canceled, at a time in seconds since the Unix epoch."""

    shares: Decimal
    time: int


@dataclass(frozen=True)
class Reduced:
    """So many shares were taken off by amends, the last time at a time in seconds since the Unix epoch."""

    shares: Decimal
    time: int


@dataclass(frozen=True)
class Status:
    """An order as it stands, answered to a query or a cancel. Shares are positive also where
    it sells; `open` is 0 where nothing is open; executions are oldest first. `replaced` is the id of the
    order that an amend has made in its place. With `more`, of a report, there are further executions."""

    id: int
    open: Decimal
    canceled: Canceled | None
    executed: tuple[Execution, ...]
    ref: str | None = None  # where it was asked for by it
    replaced: int | None = None
    reduced: Reduced | None = None
    more: bool = False


@dataclass(frozen=True)
class CanceledAll:
    """So many orders were canceled."""

    count: int
    sym: str | None = None


@dataclass(frozen=True)
class SwitchSet:
    """The account's dead man's switch is set to so many seconds, or, with 0, off."""

    seconds: int


@dataclass(frozen=True)
class Position:
    """What an account has of a symbol: `shares` that it can sell, and what its open orders hold."""

    sym: str
    shares: Decimal
    held: Decimal


@dataclass(frozen=True)
class Account:
    """What an account has: dollars that it can spend, dollars that its open orders hold, and positions
    in order of their symbols, without those that are empty."""

    id: str
    balance: Decimal
    held: Decimal
    positions: tuple[Position, ...]


@dataclass(frozen=True)
class OpenOrder:
    """An order with something open. `amount` is its total, with what is executed, as an amend has it:
    negative where it sells. `time` is in seconds since the Unix epoch."""

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
    """Open orders, in order of their ids. With `more` there may be further ones, also where this page has
    none: ListOrders with `after` asks for them."""

    orders: tuple[OpenOrder, ...]
    more: bool
    after: int | None = None


@dataclass(frozen=True)
class Fill:
    """An execution, as one of its two accounts sees it. `n` is 1 for the account's first, and so on,
    without a gap; `id` is the account's order, `side` "buy" or "sell"."""

    n: int
    id: int
    sym: str
    side: str
    shares: Decimal
    price: Decimal
    time: int


@dataclass(frozen=True)
class Fills:
    """Executions, oldest first. With `more` there are further ones: ListFills with `after` asks for them."""

    fills: tuple[Fill, ...]
    more: bool
    after: int | None = None


@dataclass(frozen=True)
class Refusal:
    """The exchange refused a command, and it changed nothing. `text` says why, for people.
    With `whole_frame` the frame was refused before any of it was done. With `maybe_done`,
    which only results of retry() have, the command was sent before on a connection that was
    lost, and may have been done then: send it again later, with the same ref, which is safe."""

    command: Command
    text: str
    whole_frame: bool = False
    maybe_done: bool = False


Result = Union[Created, Opened, Amended, Status, CanceledAll, SwitchSet, Account, Orders, Fills, Refusal]


@dataclass(frozen=True)
class Reply:
    """What a frame of a pipeline came to: a result for each of its commands, in their order."""

    frame: Frame
    results: tuple[Result, ...]


# Errors


class OutcryError(Exception):
    """Every error of this client but TypeError and ValueError for what cannot be sent, and
    OSError where no connection could be made; in those cases nothing was sent."""


class Refused(OutcryError):
    """The exchange refused a command that was sent alone. `refusal` has the command and the text."""

    def __init__(self, refusal: Refusal):
        super().__init__(refusal.text)
        self.refusal = refusal


class NotAuthorized(OutcryError):
    """The exchange does not take the token, or asks for one and none was given. It does not say
    why. Nothing was done."""


class InsecureToken(OutcryError):
    """The token would go to another machine over a connection that is not encrypted. Nothing
    was sent. Give an ssl_context, or allow it with insecure_token=True."""


class ConnectionLost(OutcryError):
    """The connection ended, or a reply did not come in time. `unanswered` are the frames that
    were sent and have no reply, in the order in which they were sent. Of each it is unknown
    whether it was done; a frame is done only after those before it. `last_words` is what the
    exchange said before it closed the connection, None where it said nothing."""

    def __init__(self, reason: str, unanswered: Sequence[Frame], last_words: str | None = None):
        frames = f"{len(unanswered)} frame{'s' if len(unanswered) != 1 else ''}"
        super().__init__(f"{reason}; whether {frames} without a reply took effect is unknown")
        self.reason = reason
        self.unanswered = tuple(unanswered)
        self.last_words = last_words


class ProtocolError(ConnectionLost):
    """What came is not a reply of the protocol. The connection has been closed."""


# The connection

_LENGTH_LINE_MAX = 19
# How an error begins that is about a token, or about <auth> itself. Any other in its place passes.
_NOT_AUTHORIZED = ('this exchange takes <auth token="…"/> as the first frame, with a token that is known and has not ended',
                   "unknown root element <auth>")
_LATER = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)  # what a socket says that would wait
_RECEIVE_BYTES = 1 << 16
_ADDRESSES_MAX = 16
_ROUND_PAUSE_MAX = 0.2  # seconds after a round of several addresses without a taker; the first is a quarter
_Kind = TypeVar("_Kind", Created, Opened, Amended, Status, CanceledAll, SwitchSet, Account, Orders, Fills)


class Exchange:
    """A connection to an exchange. It connects when it is first needed.

    `address` is "host:port", or several with commas between them or in a list, of which one
    takes orders; without it the environment's OUTCRY_ADDR, else 127.0.0.1:12345.
    `timeout` is how many seconds connecting may take, and then the wait for each reply.
    `switch_time` is how many seconds one of several addresses may take to accept a connection
    and answer on it, and how long a reply may be owed before the others are asked.
    With `cancel_on_disconnect` the exchange cancels what is open of the orders of a connection when
    that ends, for whatever reason, of all that do not say cod=False; with `silence_time` also when it
    has been silent for so many whole seconds. Each connection that is made says so first.
    `reply_bytes_max` bounds a reply; a larger one is a ProtocolError.
    `token` is shown to an exchange that asks for one; without it the environment's
    OUTCRY_TOKEN, where that is set. `ssl_context` is how TLS is spoken, None for not at all:
    ssl.create_default_context(cafile="ca.pem") takes an exchange whose certificate that
    authority has made. Without TLS a token goes to this machine only: for any other address
    InsecureToken is raised, unless `insecure_token` allows it, or OUTCRY_INSECURE_TOKEN=true
    in the environment; then there is a warning.

    Every method that talks to the exchange may raise ConnectionLost, ProtocolError or, where
    no connection could be made or the exchange has no place for one, OSError; NotAuthorized
    where the token is not taken.
    """

    def __init__(self, address: str | Sequence[str] | None = None, timeout: float = 30.0, reply_bytes_max: int = 256 << 20,
                 token: str | None = None, ssl_context: ssl.SSLContext | None = None, insecure_token: bool = False,
                 switch_time: float = 0.5, cancel_on_disconnect: bool = False, silence_time: int | None = None):
        self._addresses = _addresses(address or os.environ.get("OUTCRY_ADDR") or "127.0.0.1:12345")  # next one first
        self._timeout, self._reply_bytes_max = timeout, reply_bytes_max
        self._patience = timeout  # for a reply; less while one of several addresses is tried
        self._switch_time = self._quiet = switch_time  # quiet: how long a reply may be owed before others are asked
        self._until = float("inf")  # when retry() gives up
        self._token, self._ssl_context = token or os.environ.get("OUTCRY_TOKEN") or "", ssl_context
        self._session = b"" if not cancel_on_disconnect else b'<session cancel="disconnect"%s/>' % (
            b"" if silence_time is None else b' timeout="%d"' % silence_time)
        self._insecure_token = insecure_token or os.environ.get("OUTCRY_INSECURE_TOKEN", "") == "true"
        self._socket: socket.socket | None = None
        self._selector = selectors.DefaultSelector()
        self._events = 0  # what the selector waits for
        self._received = bytearray()  # not yet taken as a reply
        self._ended = ""  # why nothing more will come
        self._unanswered: deque[Frame] = deque()

    def __enter__(self) -> Exchange:
        return self.connect()

    def __exit__(self, *_: object) -> None:
        self.close()

    def connect(self) -> Exchange:
        """Connects, unless there is a connection. Returns self. Of several addresses it tries
        one after the other, for up to `timeout` seconds. Raises OSError, NotAuthorized,
        InsecureToken."""
        if self._socket is None and len(self._addresses) == 1:
            self._connect_to(self._addresses[0])
        deadline, pause = min(time.monotonic() + self._timeout, self._until), _ROUND_PAUSE_MAX / 4
        while self._socket is None:
            why = self._round()
            if self._socket is None:
                if time.monotonic() + pause > deadline:
                    raise ConnectionError(f"no address takes orders: {why}")
                time.sleep(pause)
                pause = min(2 * pause, _ROUND_PAUSE_MAX)
        return self

    def _round(self) -> str:
        """Connects to the first of several addresses that answers, which comes last in the next
        round. Returns why none does. Raises what does not pass by itself."""
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
        """Has the exchange answer a frame without effect."""
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
        """Gives the connection up if another address takes orders; the next one goes there. Else
        the exchange may only be slow. If two addresses are of one that is slow, it gets more
        time with each change."""
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
                                             "takes orders")

    def _permit(self, host: str) -> None:
        """Raises InsecureToken unless the token may go to a host in the clear."""
        if _is_loopback(host):
            return
        if not self._insecure_token:
            raise InsecureToken(f"the token is not sent to {host}: the connection is not encrypted; "
                                "give an ssl_context, or allow it with insecure_token=True")
        warnings.warn(f"the token is sent to {host} over a connection that is not encrypted", RuntimeWarning, stacklevel=2)

    def _prove(self) -> None:
        """Shows the token, which comes before everything else on a connection."""
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
        """Says what is to happen when the connection ends."""
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
        """Closes the connection, if there is one. Any later call connects anew."""
        if self._socket is not None:
            self._selector.unregister(self._socket)
            self._socket.close()
        self._socket, self._ended = None, ""
        self._received.clear()
        self._unanswered.clear()

    # Single commands: each raises Refused where the exchange refuses it.

    def open_account(self, account: str, balance: Number, ref: str | None = None) -> Created:
        """Opens an account with a balance in dollars."""
        return self._one(create(OpenAccount(account, balance, ref)), Created)

    def make_symbol(self, sym: str, tick: Number | None = None, lot: Number | None = None) -> Created:
        """Makes a symbol. One that is there already is fine, unless its tick or lot is another."""
        return self._one(create(MakeSymbol(sym, tick, lot)), Created)

    def place(self, sym: str, account: str, shares: Number, ref: str | None = None) -> Created:
        """Makes a symbol where it is new, and gives shares of it to an account."""
        return self._one(create(Place(sym, account, shares, ref)), Created)

    def order(self, account: str, sym: str, amount: Number, limit: Number | None = None, ref: str | None = None,
              **instructions: Any) -> Opened:
        """Places an order: a positive amount of shares buys, a negative one sells. Instructions are those of Order."""
        return self._one(transactions(account, Order(sym, amount, limit, ref, **instructions)), Opened)

    def buy(self, account: str, sym: str, shares: Number, limit: Number | None = None, ref: str | None = None,
            **instructions: Any) -> Opened:
        """Places an order to buy so many shares, more than 0, at `limit` dollars a share or less."""
        return self._one(transactions(account, buy(sym, shares, limit, ref, **instructions)), Opened)

    def sell(self, account: str, sym: str, shares: Number, limit: Number | None = None, ref: str | None = None,
             **instructions: Any) -> Opened:
        """Places an order to sell so many shares, more than 0, at `limit` dollars a share or more."""
        return self._one(transactions(account, sell(sym, shares, limit, ref, **instructions)), Opened)

    def amend(self, account: str, order: int | None = None, amount: Number | None = None, limit: Number | None = None,
              ref: str | None = None, newref: str | None = None, report: bool = False) -> Amended:
        """Changes an order of the account's own: see Amend."""
        return self._one(transactions(account, Amend(order, amount, limit, ref, newref, report)), Amended)

    def query(self, account: str, order: int | None = None, ref: str | None = None) -> Status:
        """Asks for an order: for any by its id, for one of the account's own by its ref."""
        return self._one(transactions(account, Query(order, ref)), Status)

    def cancel(self, account: str, order: int | None = None, ref: str | None = None) -> Status:
        """Cancels what is open of an order of the account's own; what has executed stays."""
        return self._one(transactions(account, Cancel(order, ref)), Status)

    def cancel_all(self, account: str, sym: str | None = None) -> int:
        """Cancels all that an account has open, of one symbol where `sym` is given. Returns how many orders that were."""
        return self._one(transactions(account, CancelAll(sym)), CanceledAll).count

    def cancel_after(self, account: str, seconds: int) -> None:
        """Sets the account's dead man's switch: see CancelAfter."""
        self._one(transactions(account, CancelAfter(seconds)), SwitchSet)

    def account(self, account: str) -> Account:
        """Asks what an account has. It knows of all that was answered before, on any connection."""
        return self._one(transactions(account, ShowAccount()), Account)

    def orders(self, account: str, sym: str | None = None) -> list[OpenOrder]:
        """Asks for all open orders of an account, of one symbol where `sym` is given, in order of their ids,
        in as many pages as there are: each is of its own moment, and may be empty before the last."""
        found: list[OpenOrder] = []
        after: int | None = None
        while True:
            page = self._one(transactions(account, ListOrders(sym, after)), Orders)
            found += page.orders
            if not page.more:
                return found
            after = page.after

    def fills(self, account: str, after: int | None = None) -> tuple[Fill, ...]:
        """Asks for up to 1,000 executions of an account, oldest first: its last ones, or the first ones
        whose number is above `after` where it is given."""
        return self._one(transactions(account, ListFills(after)), Fills).fills

    # Frames

    def send(self, frame: Frame) -> tuple[Result, ...]:
        """Sends one frame and returns the results of its commands, in their order. A command
        that is refused has a Refusal in its place."""
        (reply,) = self.pipeline([frame])
        return reply.results

    def retry(self, frame: Frame, seconds: float = 60.0) -> tuple[Result, ...]:
        """Sends a frame again and again, over new connections, until there is a reply, and
        returns the results of its commands. Nothing is done twice: what makes something must
        have a ref, an amend a newref, else ValueError is raised and nothing is sent. After so many seconds, and at
        what does not pass by itself (a certificate, a token, a malformed reply, a frame that
        the exchange does not take), the last ConnectionLost is raised, and any other error only
        where the frame was never sent. Then it is still safe to go on with the same frame, today
        or next year. A cancel that was done before its reply was lost is answered with a Refusal
        that says so. What is refused after a ConnectionLost has maybe_done."""
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
        lost: ConnectionLost | None = None  # of the frame
        while True:
            # After last words, which may be about the frame or about nobody: a connection
            # that is good right before the frame tells which.
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
        """Tells whether the exchange answers a frame without effect."""
        try:
            self.send(create())
        except ConnectionLost:
            return False
        return True

    def pipeline(self, frames: Iterable[Frame], window: int = 64) -> Iterator[Reply]:
        """Sends frames without waiting for the reply to each, and yields the replies in the
        order of the frames. At most `window` frames are without a reply at a time; further
        ones are taken from `frames` as replies come.

        Whoever ends the iteration early gives the connection up, and does not learn what the
        frames without a reply came to. No other method may be called meanwhile."""
        if window < 1:
            raise ValueError(f"window {window}: must be at least 1")
        if self._unanswered:
            raise RuntimeError("the replies of a pipeline on this connection have not all been taken")
        return self._replies(iter(frames), window)

    def _replies(self, frames: Iterator[Frame], window: int) -> Iterator[Reply]:
        failure: Exception | None = None  # of a frame that cannot be sent: those before it come first
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
            if self._unanswered:  # an error, or whoever iterates has had enough
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
        """Sends a frame. With nothing under way, a connection that has ended is replaced."""
        if not self._unanswered and self._socket is not None:
            self._receive()
            if self._received or self._ended:  # only a farewell can come unasked
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
        """Tells whether the exchange still answers after an error about a whole frame. Such an
        error is the last word of a connection that ends, but not of a frame that was malformed.
        The next reply tells, or the end in its place; where none is due, one is asked for."""
        asked = len(self._unanswered) == 1
        if asked:
            self._send(b"9\n<create/>")  # has no effect, and <results/> as its reply
        deadline = time.monotonic() + self._timeout
        while not self._received and not self._ended:
            self._wait(deadline, selectors.EVENT_READ)
        if asked and not self._ended:
            self._reply()
        return not self._ended

    # Bytes

    def _send(self, data: bytes) -> None:
        """Sends bytes, and receives where they do not go: an exchange that is owed reading
        stops reading. Where the connection has broken, the replies before that can be taken."""
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
                    self._wait(deadline, selectors.EVENT_READ)  # what the exchange said before
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
        """Returns the begin of the first reply's XML and its end, which is 0 where it is not
        known yet. In a reply without a length line, the first `searched` bytes hold no end."""
        if self._received.startswith(b"<"):  # an exchange with --bare-replies
            if self._received.startswith(b"<results/>"):
                return 0, len(b"<results/>")
            last = b"</results>"  # no value can hold it: "<" is escaped
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
        """Receives what is there. Where that is nothing, it first waits for one of the events.
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
        """Receives what is there, and tells whether that was something, the end included."""
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
        """Closes the connection and returns the error that says what that leaves unknown."""
        error = kind(reason, self._unanswered, last_words)
        self.close()
        return error


# Values

_DECIMAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)")
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def _addresses(given: str | Sequence[str]) -> list[tuple[str, int]]:
    """Returns the hosts and ports of addresses. Raises ValueError that names what is none."""
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
    """Tells whether an address, as a socket names its peer, is of this machine alone."""
    address = ipaddress.ip_address(host.partition("%")[0])
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback


def _doubtful(result: Result) -> Result:
    """Returns the result of a frame that was sent before: a refusal proves nothing then."""
    if isinstance(result, Refusal) and not isinstance(result.command, _ASKING):
        return replace(result, maybe_done=True)
    return result


def _exact(name: str, value: Number | None) -> Decimal:
    """Returns a number as it is, or raises ValueError or TypeError that names it."""
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
    """Returns a number as the protocol has it, a str as it was given."""
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
    """Returns an account or order id as an attribute's value. The account ids "7" and "007"
    are two accounts; 7 is the first."""
    return _attribute("id", str(value) if type(value) is int else value)


def _word(name: str, value: str | None) -> str:
    """Returns a text as an attribute, or nothing."""
    return "" if value is None else f" {name}={_attribute(name, value)}"


def _flag(name: str, given: bool, value: str, otherwise: str | None = None) -> str:
    """Returns an attribute where it is given, or what it is otherwise. Only bools will do: "no" would be true."""
    if type(given) is not bool:
        raise TypeError(f"{name} {given!r}: a bool is needed, not {type(given).__name__}")
    return _word(name, value if given else otherwise)


def _given(name: str, value: Number | None) -> str:
    """Returns a number as an attribute, or nothing."""
    return "" if value is None else f' {name}="{_number(name, value)}"'


def _count(name: str, value: int) -> int:
    """Returns a whole number, or raises TypeError that names it."""
    if type(value) is not int:
        raise TypeError(f"{name} {value!r}: an int is needed, not {type(value).__name__}")
    return value


def _after(after: int | None) -> str:
    """Returns the attribute after which a list begins, or nothing."""
    return "" if after is None else f' after="{_count("after", after)}"'


def _ref(ref: str | None) -> str:
    """Returns a ref as an attribute, or nothing."""
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
    """Reads the answer to a command. Raises KeyError, ValueError or ArithmeticError where it is none."""
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
    """Reads after what the next page of a list comes, None where there is none. Raises ValueError where that is
    not behind what the command asked for: a caller that asks for page after page would never end."""
    more = e.find("more")
    if more is None:
        return None
    after, asked = int(more.attrib["after"]), command.after or 0
    if after <= asked:
        raise ValueError(f"there are more after {after}, which is not above {asked}")
    return after


def _status(id: int, ref: str | None, e: ElementTree.Element) -> Status:
    """Reads what has become of an order. Parts that it does not know are left out."""
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
