"""Tests of the client over WebSocket, against a real server whose addresses are in the environment and that
is killed and started again (cmd/outcryd/python_ws_test.go), and against a peer that sends what the real
server never sends."""

import asyncio
import contextlib
import json
import os
import pathlib
import random
import re
import sys
import unittest
import unittest.mock
import urllib.request
import warnings
from decimal import Decimal

from websockets.asyncio.server import serve

import outcry
import outcry_ws
from outcry_ws import ConnectionLost, Exchange, Level, Refused, new_ref

_names = iter(range(1, 1 << 30))
_TIMES = {"time_ns": "1795359391127904408", "time_ms": 1795359391127}
PATIENCE = 60  # maximum wait in seconds for something that must happen; no result depends on it


def snapshot(seq, bids=(), asks=(), **more):
    """Data of a book's channel, with the right checksum."""
    book = outcry_ws.Book(None, "book.S")
    book._bids.change(bids)
    book._asks.change(asks)
    return {"type": "snapshot", "seq": seq, "bids": list(bids), "asks": list(asks), "checksum": book.checksum(), **more}


def event(n, fills=(), **more):
    """Data of an account's channel: an event with fills of these numbers."""
    return {"type": "event", "n": n, "seq": 100 + n, "balance": str(1000 - n), "held": "0", "positions": [], "orders": [],
            "fills": [fill(f) for f in fills], **_TIMES, **more}


def state(n, last_fill, **more):
    """Data of an account's channel: a snapshot."""
    return {"type": "snapshot", "n": n, "last_fill": last_fill, "seq": 100 + n, "balance": str(1000 - n), "held": "0",
            "positions": [], "orders": [], **more}


def fill(n):
    return {"fill": n, "order": 7, "trade": 40 + n, "sym": "S", "side": "buy", "shares": "2", "price": "3.5", "maker": False,
            **_TIMES}


def trade(n):
    return {"id": n, "price": "1", "shares": "1", "side": "buy", "buy": 1, "sell": 2, **_TIMES}


def order(id):
    return {"id": id, "sym": "S", "amount": "1", "type": "limit", "limit": "2", "tif": "GTC", "post": False, "cod": False,
            "state": "open", "open": "1", "executed": "0", "notional": "0", "reduced": "0", "canceled": "0", "fills": [],
            "changed_ns": "1", "changed_ms": 0, **_TIMES}


class PeerTest(unittest.IsolatedAsyncioTestCase):
    """A peer answers each request with the next of its scripts for the method: a result, a Refused, None or a
    code to close the connection, and the data of the channel that follow. A list before the result has data
    that are sent before it."""

    async def asyncSetUp(self):
        self.requests, self.scripts, self.sockets = [], {}, []
        server = await self.enterAsyncContext(serve(self.talk, "127.0.0.1", 0, compression=None))
        self.port = server.sockets[0].getsockname()[1]

    async def talk(self, socket):
        self.sockets.append(socket)
        async for text in socket:
            m = json.loads(text)
            self.requests.append((m["method"], m["params"]))
            answer, *data = self.scripts[m["method"]].pop(0)
            if isinstance(answer, list):
                await self.tell(m["params"]["channels"][0], *answer, socket=socket)
                answer, *data = data
            if answer is None:
                return
            if isinstance(answer, int):
                return await socket.close(answer, "no such token")
            if isinstance(answer, Refused):
                error = {"code": answer.code, "message": str(answer), "data": {"reason": answer.reason}}
                await socket.send(json.dumps({"jsonrpc": "2.0", "id": m["id"], "error": error}))
                continue
            await socket.send(json.dumps({"jsonrpc": "2.0", "id": m["id"], "result": answer}))
            if data:
                await self.tell(m["params"]["channels"][0], *data, socket=socket)

    async def tell(self, channel, *data, socket=None):
        for d in data:
            message = {"jsonrpc": "2.0", "method": "subscription", "params": {"channel": channel, "data": d}}
            await (socket or self.sockets[-1]).send(json.dumps(message))

    def script(self, method, *answers):
        self.scripts.setdefault(method, []).extend(answers)

    def asked(self, method):
        return [params for m, params in self.requests if m == method]

    async def exchange(self, **changed):
        return await self.enterAsyncContext(Exchange(f"127.0.0.1:{self.port}", **{"timeout": PATIENCE, **changed}))

    async def test_a_checksum_is_that_of_the_protocol(self):
        book = outcry_ws.Book(None, "book.S")
        book._whole(snapshot(3, [["5", "1"]], [["101", "5"], ["101.5", "0.25"]]))
        self.assertEqual(book.checksum(), 682763730)
        self.assertEqual((book.bid, book.asks(1)), (Level(Decimal(5), Decimal(1)), [Level(Decimal(101), Decimal(5))]))

    async def test_a_book_whose_chain_or_checksum_does_not_fit_begins_anew(self):
        wrong = {**snapshot(3, [["5", "1"]]), "checksum": 1}
        gap = {**snapshot(9, [["5", "2"]]), "type": "delta", "prev": 8}
        for bad in ([wrong], [snapshot(3, [["5", "1"]]), gap]):
            self.requests.clear()
            self.script("subscribe", [{}, *bad], [{}, snapshot(9, [["5", "2"]])])
            exchange = await self.exchange()
            book = await exchange.book("S")
            while book.seq != 9 or not book.in_step:
                await book.changed()
            self.assertEqual((book.restarts, book.bids()), (1, [Level(Decimal(5), Decimal(2))]))
            self.assertEqual(self.asked("subscribe"), [{"channels": ["book.S"]}] * 2)
            await exchange.close()

    async def test_a_book_that_waits_for_a_snapshot_is_not_in_step(self):
        book = outcry_ws.Book(unittest.mock.Mock(), "book.S")
        book._answered()
        for data, in_step in [(snapshot(3), True), ({**snapshot(9), "type": "delta", "prev": 8}, False)]:
            book._receive(data)
            self.assertEqual((book.seq, book.in_step), (3, in_step))

    async def test_a_message_in_parts_counts_when_it_is_whole(self):
        whole = snapshot(3, [["5", "1"], ["4", "1"]], [["6", "1"]])
        first = {**whole, "bids": [["5", "1"]], "asks": [], "more": True}
        rest = {**whole, "bids": [["4", "1"]]}
        self.script("subscribe", [{}, first, rest])
        book = await (await self.exchange()).book("S")
        self.assertEqual((len(book.bids()), len(book.asks()), book.restarts), (2, 1, 0))

    async def test_the_events_of_an_account_have_no_gap(self):
        self.script("subscribe", [{}, state(4, 1), event(5, [2]), event(7, [4])],
                    [{}, event(5, [2]), event(6, [3]), event(7, [4]), event(8)])
        feed = await (await self.exchange()).watch_account("1")
        got = [await anext(feed) for _ in range(5)]
        self.assertEqual([(e.n, e.snapshot, [f.fill for f in e.fills]) for e in got],
                         [(4, True, []), (5, False, [2]), (6, False, [3]), (7, False, [4]), (8, False, [])])
        self.assertEqual(self.asked("subscribe"), [{"channels": ["account.1"]}, {"channels": ["account.1"], "after": 5}])
        self.assertEqual((feed.n, feed.last_fill, feed.balance, feed.restarts), (8, 4, 992, 1))

    async def test_what_a_feed_slept_through_comes_first(self):
        """A snapshot replaces events that are no longer kept: the client requests their fills."""
        self.script("subscribe", [{}, state(50, 9), event(51, [10])])
        self.script("fills.list", [None], [{"last_fill": 10, "more": True, "fills": [fill(7), fill(8)]}],
                    [{"last_fill": 10, "more": False, "fills": [fill(9), fill(10)]}])
        self.script("subscribe", [{}])
        feed = await (await self.exchange()).watch_account("1", after=5, last_fill=6)
        slept, live = await anext(feed), await anext(feed)
        self.assertEqual([f.fill for f in slept.fills], [7, 8, 9])
        self.assertEqual([f.fill for f in live.fills], [10])
        self.assertEqual(self.asked("subscribe")[0], {"channels": ["account.1"], "after": 5})
        self.assertEqual([p["after"] for p in self.asked("fills.list")], [6, 6, 8])

    async def test_a_feed_that_is_not_read_stays_small_and_loses_nothing(self):
        self.script("subscribe", [{}, state(1, 0), *map(event, range(2, 50))], *[[{}, *map(event, range(n, 50))] for n in
                                                                                range(4, 60, 3)])
        exchange = await self.exchange(queue_max=3)
        feed = await exchange.watch_account("1")
        got = [(await anext(feed)).n for _ in range(49)]
        self.assertEqual(got, list(range(1, 50)))
        self.assertLessEqual(len(feed._queue), 3)
        self.assertGreater(len(self.asked("subscribe")), 10)

    async def test_the_rest_of_a_snapshot_is_no_snapshot(self):
        """A reader that fell behind has read all that waited, and restarts while a snapshot arrives in parts. The
        remaining parts arrive before the result, and are not a complete snapshot."""
        orders = [{"type": "snapshot", "seq": 1, "bids": [], "asks": []},
                  *({"type": "delta", "prev": n, "seq": n + 1, "changes": []} for n in (1, 2))]
        for name, watch, waiting, entries, parts in [
            ("account.1", lambda e: e.watch_account("1", after=5, last_fill=0), [event(n) for n in (6, 7, 8)],
             lambda got: [o.id for o in got.orders],
             [state(9, 0, orders=[order(1)], more=True), state(9, 0, orders=[order(2)])]),
            ("orders.S", lambda e: e.channel("orders.S"), orders, lambda got: [o[0] for o in got["bids"]],
             [{"type": "snapshot", "seq": 9, "bids": [[1, "2", "1"]], "asks": [], "more": True},
              {"type": "snapshot", "seq": 9, "bids": [[2, "2", "1"]], "asks": []}]),
        ]:
            with self.subTest(name):
                self.requests.clear()
                self.script("subscribe", [{}, *waiting], [{}, parts[0]], [parts[1:], {}, *parts])
                self.script("symbols.list", *[[{"symbols": [], "more": False}]] * 2)
                exchange = await self.exchange(queue_max=2)
                feed = await watch(exchange)
                await exchange.symbols()  # after this, all data before the result has arrived
                await self.sockets[-1].close()
                await exchange.retry(exchange.symbols)
                got = [await anext(feed) for _ in range(3)]
                self.assertEqual((entries(got[2]), feed.restarts), ([1, 2], 1))
                self.assertEqual([p["channels"] for p in self.asked("subscribe")], [[name]] * 3)
                await exchange.close()

    async def test_what_comes_before_a_channel_begins_anew_is_of_the_old_chain(self):
        """Also the parts of a message whose others never arrive, and all data after the gap."""
        gap = {**snapshot(9, [["5", "2"]]), "type": "delta", "prev": 8}
        self.script("subscribe", [{}, snapshot(3, [["5", "1"]]), gap],
                    [[{**gap, "prev": 9, "seq": 10, "bids": [["4", "7"]], "more": True}], {}, snapshot(11, [["5", "3"]])],
                    [{}, state(4, 0), event(6)], [[event(7), event(5, more=True, orders=[order(1)])], {}, event(5)])
        exchange = await self.exchange()
        book = await exchange.book("S")
        while book.seq != 11:
            await book.changed()
        self.assertEqual((book.bids(), book.restarts), ([Level(Decimal(5), Decimal(3))], 1))
        feed = await exchange.watch_account("1")
        self.assertEqual([((e := await anext(feed)).n, e.orders) for _ in range(2)], [(4, ()), (5, ())])
        self.assertEqual((feed.restarts, feed.orders), (1, {}))

    async def test_trades_have_no_gap(self):
        delta = [{"type": "delta", "seq": n, "trades": [trade(n)]} for n in range(9)]
        self.script("subscribe", [{}, {"type": "snapshot", "seq": 0, "last_trade": 3}, delta[4]],
                    [{}, {"type": "snapshot", "seq": 0, "last_trade": 6}, delta[7]])
        self.script("trades.list", [{"last_trade": 6, "more": False, "trades": [trade(5), trade(6)]}])
        exchange = await self.exchange()
        trades = await exchange.watch_trades("S")
        self.assertEqual((await anext(trades)).id, 4)
        await self.sockets[-1].close()
        self.assertEqual([(await anext(trades)).id for _ in range(3)], [5, 6, 7])
        self.assertEqual((self.asked("trades.list"), exchange.lost), ([{"sym": "S", "after": 4}], 1))

    async def test_a_lost_connection_says_that_nobody_knows(self):
        self.script("order.place", [None])
        exchange = await self.exchange()
        with self.assertRaises(ConnectionLost):
            await exchange.buy("1", "S", 1, 2)
        self.assertEqual(len(self.asked("order.place")), 1, "nothing is sent twice by itself")

    async def test_retry_goes_on_until_there_is_a_result(self):
        self.script("order.place", [None], [Refused(1002, "database_behind", "not now")], [{"order": order(7)}],
                    [None], [Refused(1000, "insufficient_funds", "no")])
        exchange = await self.exchange()
        self.assertEqual((await exchange.retry(exchange.buy, "1", "S", 1, 2, ref="r")).id, 7)
        self.assertEqual([p["ref"] for p in self.asked("order.place")], ["r"] * 3)
        with self.assertRaises(Refused) as caught:
            await exchange.retry(exchange.buy, "1", "S", 1, 2, ref="q")
        self.assertEqual((caught.exception.reason, caught.exception.maybe_done), ("insufficient_funds", True))
        for call in [lambda: exchange.retry(exchange.buy, "1", "S", 1, 2), lambda: exchange.retry(exchange.cancel, "1", 1),
                     lambda: exchange.retry(exchange.amend, "1", 1, limit=2, ref="r")]:
            with self.assertRaisesRegex(ValueError, "could be done twice"):
                await call()

    async def test_a_node_that_takes_no_orders_is_left_for_the_next(self):
        """Both of two addresses lead here: the first connection is to a standby."""
        standby = Refused(1002, "not_ready", "this node is a standby")
        self.script("subscribe", [{}, state(4, 0)], [standby], [{}, event(5)])
        account = {"account": "1", "n": 5, "last_fill": 0, "balance": "1", "held": "0", "positions": []}
        self.script("account.get", [standby], *[[account]] * 3)  # a connection may end before its result
        both = f"127.0.0.1:{self.port},127.0.0.2:{self.port}"
        async with serve(self.talk, "127.0.0.2", self.port, compression=None), Exchange(both, timeout=PATIENCE) as exchange:
            feed = await exchange.watch_account("1")
            self.assertEqual((await exchange.retry(exchange.account, "1")).n, 5)
            self.assertEqual([(await anext(feed)).n for _ in range(2)], [4, 5])
        self.assertEqual([s.local_address[0] for s in self.sockets], ["127.0.0.1", "127.0.0.2", "127.0.0.1"])

    async def test_what_is_no_number_is_not_sent(self):
        exchange = await self.exchange()
        for value, error in [(1.5, TypeError), ("x", ValueError), (True, TypeError)]:
            with self.assertRaises(error):
                await exchange.buy("1", "S", 1, value)
        with self.assertRaises(ValueError):
            await exchange.sell("1", "S", -1, 2)
        self.assertEqual(self.requests, [])

    async def test_a_channel_that_is_refused_is_told_to_its_reader_alone(self):
        self.script("subscribe", [{}, snapshot(1)], [Refused(-32602, "unknown_channel", "there is no channel x")])
        exchange = await self.exchange()
        book = await exchange.book("S")
        with self.assertRaises(Refused):
            await exchange.channel("x")
        self.assertTrue(book.in_step)

    async def test_a_token_goes_to_other_machines_over_tls_only(self):
        with unittest.mock.patch.object(outcry_ws, "_is_loopback", return_value=False):
            with self.assertRaisesRegex(outcry_ws.InsecureToken, "not encrypted"):
                await self.exchange(token="secret")
            self.assertEqual(self.sockets, [])
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always")
                await self.exchange(token="secret", insecure_token=True)
        self.assertEqual(self.sockets[0].request.headers["Authorization"], "Bearer secret")
        self.assertIn("not encrypted", str(told[0].message))

    async def test_a_token_that_is_not_taken_ends_the_client(self):
        self.script("account.get", [4001])
        exchange = await self.exchange(token="t")
        with self.assertRaisesRegex(ConnectionLost, "no such token"):
            await exchange.account("1")
        with self.assertRaisesRegex(outcry_ws.NotAuthorized, "no such token"):
            await exchange.account("1")
        self.assertEqual((len(self.sockets), len(self.requests)), (1, 1))


class RealTest(unittest.IsolatedAsyncioTestCase):
    """The real server. It is killed and started again by a request to OUTCRY_TEST_KILL."""

    async def asyncSetUp(self):
        n = next(_names)
        self.buyer, self.seller, self.sym = f"{n}1", f"{n}2", f"W{n}"
        with outcry.Exchange(os.environ["OUTCRY_ADDR"]) as opener:
            opener.open_account(self.buyer, 1_000_000)
            opener.open_account(self.seller, 1_000_000)
            for account in (self.buyer, self.seller):
                opener.place(self.sym, account, 100_000)
        self.exchange = await self.enterAsyncContext(Exchange(timeout=PATIENCE))

    async def kill(self):
        await asyncio.to_thread(urllib.request.urlopen, os.environ["OUTCRY_TEST_KILL"], b"")

    async def until(self, done):
        """Waits until done() is true."""
        async with asyncio.timeout(PATIENCE):
            while not done():
                await asyncio.sleep(0.01)

    async def test_a_trade_is_exact_and_everybody_is_told(self):
        book, feed = await self.exchange.book(self.sym), await self.exchange.watch_account(self.buyer)
        trades = await self.exchange.watch_trades(self.sym)
        first = await anext(feed)
        self.assertTrue(first.snapshot)
        sold = await self.exchange.sell(self.seller, self.sym, 10, "123.45", ref="s")
        bought = await self.exchange.buy(self.buyer, self.sym, "2.5", 150)
        self.assertEqual((sold.state, sold.open, sold.ref, sold.amount), ("open", 10, "s", -10))
        self.assertEqual((bought.state, bought.executed, bought.notional), ("executed", Decimal("2.5"), Decimal("308.625")))
        self.assertEqual([(f.shares, f.price, f.maker) for f in bought.fills], [(Decimal("2.5"), Decimal("123.45"), False)])
        event = await anext(feed)
        self.assertEqual((event.n, event.fills, event.balance), (first.n + 1, bought.fills, Decimal("999691.375")))
        self.assertEqual((await anext(trades)).id, bought.fills[0].trade)
        while book.ask != Level(Decimal("123.45"), Decimal("7.5")):
            await book.changed()
        again = await self.exchange.sell(self.seller, self.sym, 10, "123.45", ref="s")
        self.assertEqual(again, sold, "the first answer again")
        moved = await self.exchange.amend(self.seller, sold.id, limit=124, newref="m")
        self.assertEqual((moved.replaces, moved.limit, moved.before), (sold.id, 124, Decimal("2.5")))
        canceled = await self.exchange.cancel(self.seller, ref="s")
        self.assertEqual((canceled.id, canceled.state, canceled.why, canceled.canceled), (moved.id, "canceled", "cancel",
                                                                                         Decimal("7.5")))
        self.assertEqual(await self.exchange.orders(self.seller), [])
        with self.assertRaises(Refused) as caught:
            await self.exchange.cancel(self.seller, sold.id)
        self.assertEqual(caught.exception.reason, "already_replaced")

    async def test_refusals_have_reasons(self):
        for refused, reason in [
            (lambda: self.exchange.buy(self.buyer, self.sym, 10**9, 1000), "insufficient_funds"),
            (lambda: self.exchange.buy(self.buyer, "NONE", 1, 1), "unknown_symbol"),
            (lambda: self.exchange.buy("404", self.sym, 1, 1), "unknown_account"),
            (lambda: self.exchange.query(self.buyer, 1 << 52), "unknown_order"),
            (lambda: self.exchange.buy(self.buyer, self.sym, 1, 1, tif="ioc"), "invalid_value"),
            (lambda: self.exchange.call("order.place", account=self.buyer, colour="red"), "unknown_param"),
            (lambda: self.exchange.call("order.steal"), "unknown_method"),
        ]:
            with self.assertRaises(Refused) as caught:
                await refused()
            self.assertEqual(caught.exception.reason, reason)

    async def test_feeds_and_books_go_on_over_kills(self):
        seed = random.randrange(1 << 32)
        rand = random.Random(seed)
        book, slow = await self.exchange.book(self.sym), await self.exchange.book(self.sym, every="100ms")
        feeds = {a: await self.exchange.watch_account(a) for a in (self.buyer, self.seller)}
        trades, fills, traded = await self.exchange.watch_trades(self.sym), {a: [] for a in feeds}, []

        async def follow(account):
            n = None
            async for event in feeds[account]:
                self.assertTrue(event.snapshot or event.n == n + 1, f"event {event.n} follows {n}, seed {seed}")
                n = event.n
                fills[account] += event.fills

        async def tape():
            async for trade in trades:
                traded.append(trade.id)
        tasks = [asyncio.create_task(t) for t in (follow(self.buyer), follow(self.seller), tape())]
        for n in range(300):
            if n in (100, 200):
                tasks.append(asyncio.create_task(self.kill()))
            account, side = rand.choice(list(feeds)), rand.choice((1, -1))
            await self.exchange.retry(self.exchange.order, account, self.sym, side * rand.randrange(1, 20),
                                      rand.randrange(95, 106), ref=new_ref())
        await asyncio.gather(*tasks[3:])
        newest = {a: await self.exchange.retry(self.exchange.account, a) for a in feeds}
        tape_end = (await self.exchange.call("trades.list", sym=self.sym))["last_trade"]
        await self.until(lambda: all(feeds[a].n == newest[a].n for a in feeds) and book.in_step and slow.in_step
                         and all(len(fills[a]) == newest[a].last_fill for a in feeds) and len(traded) == tape_end)
        for account, feed in feeds.items():
            self.assertEqual(fills[account], await self.exchange.fills(account, after=0), f"seed {seed}")
            self.assertEqual((feed.balance, feed.held), (newest[account].balance, newest[account].held))
            self.assertEqual(sorted(feed.orders), [o.id for o in await self.exchange.orders(account)])
        self.assertEqual(traded, list(range(1, tape_end + 1)))
        self.assertGreaterEqual(self.exchange.lost, 2)
        told = await self.exchange.call("book.get", sym=self.sym, depth=1000)
        want = [[Level(Decimal(p), Decimal(s)) for p, s in told[side]] for side in ("bids", "asks")]
        for kept in (book, slow):
            await self.until(lambda: [kept.bids(), kept.asks()] == want)
            self.assertEqual((kept.checksum(), kept.restarts), (told["checksum"], 0), f"seed {seed}")
        for task in tasks[:3]:
            task.cancel()

    async def test_orders_of_a_connection_end_with_it(self):
        async with Exchange(cancel_on_disconnect=True) as other:
            order = await other.sell(self.seller, self.sym, 1, 500)
            self.assertTrue(order.cod)
            kept = await other.sell(self.seller, self.sym, 1, 500, cod=False)
        feed = await self.exchange.watch_account(self.seller)
        await self.until(lambda: order.id not in feed.orders)
        self.assertIn(kept.id, feed.orders)
        self.assertEqual((await self.exchange.query(self.seller, order.id)).why, "disconnect")

    async def test_the_readme_runs(self):
        here = pathlib.Path(__file__).parent
        (code,) = re.findall(r"```py\n(.*?)```", (here / "README.md").read_text(), re.S)
        with outcry.Exchange(os.environ["OUTCRY_ADDR"]) as opener:
            opener.place(self.sym, self.buyer, 1)
        code = code.replace('"SPY"', repr(self.sym)).replace('"1"', repr(self.buyer))
        run = await asyncio.create_subprocess_exec(sys.executable, "-B", "-W", "error", "-c", code, cwd=here,
                                                   stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT)
        out = (await run.communicate())[0].decode()
        self.assertRegex(out, r"^open with 10 open\nevent \d+ leaves 998765\.5 dollars\nbest bid 10 at 123\.45\n"
                              r"already_canceled\n$")

    async def test_the_documents_examples_run(self):
        """The examples of docs/DOORS.md, each after a line that begins with test:."""
        page = (pathlib.Path(__file__).parents[2] / "docs" / "DOORS.md").read_text()
        code = dict(re.findall(r"<!-- test: (\w+) -->\n```python\n(.*?)```", page, re.S))["websocket"]
        self.assertIn("127.0.0.1:8080", code)
        code = code.replace("127.0.0.1:8080", os.environ["OUTCRY_HTTP"]).replace("SPY", self.sym)
        code = code.replace('"1"', repr(self.seller)).replace("account.1", f"account.{self.seller}")
        run = await asyncio.create_subprocess_exec(sys.executable, "-u", "-B", "-c", code, stdout=asyncio.subprocess.PIPE)
        told = []
        async with asyncio.timeout(PATIENCE):
            while len(told) < 6:  # two results, two snapshots, a change of the book and an event
                told.append(json.loads(await run.stdout.readline()))
        run.kill()
        await run.wait()
        self.assertEqual(sorted(m["id"] for m in told if "id" in m), [0, 1])
        self.assertEqual(sorted(m["params"]["data"]["type"] for m in told if "id" not in m),
                         ["delta", "event", "snapshot", "snapshot"])

    async def test_the_market_maker_of_the_docs_makes_a_market(self):
        """The maker quotes, is hit, and leaves no order in the book."""
        here = pathlib.Path(__file__).parent
        with outcry.Exchange(os.environ["OUTCRY_ADDR"]) as opener:
            opener.place("SPY", self.buyer, 100_000)
        await self.exchange.buy(self.buyer, "SPY", 100, 99)
        await self.exchange.sell(self.buyer, "SPY", 100, 101)
        maker = await asyncio.create_subprocess_exec(sys.executable, "-B", "-W", "error", here / "maker_ws.py", cwd=here,
                                                     stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT)
        book = await self.exchange.book("SPY")
        said = asyncio.create_task(maker.communicate())
        while not said.done():
            if book.bid and book.bid.price > 99:
                await self.exchange.sell(self.buyer, "SPY", 3, 98, tif="IOC")
            elif book.ask and book.ask.price < 101:
                await self.exchange.buy(self.buyer, "SPY", 3, 102, tif="IOC")
            else:  # changes the book, so that the maker makes another turn
                moved = await self.exchange.buy(self.buyer, "SPY", 1, 90)
                await self.exchange.cancel(self.buyer, moved.id)
            await asyncio.sleep(0.01)
        out = (await said)[0].decode()
        self.assertEqual(maker.returncode, 0, out)
        self.assertRegex(out, r"^position -?[0-9.]+ SPY, cash -?[0-9.]+\n$")
        self.assertEqual(await self.exchange.orders("9"), [])
        self.assertNotEqual(await self.exchange.fills("9"), [], out)


if __name__ == "__main__":
    unittest.main()
