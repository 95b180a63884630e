"""Tests of the client, against real servers whose addresses are in the environment
(OUTCRY_TEST_ADDR and others, see cmd/outcryd/python_test.go), and against a peer that
breaks connections and violates the protocol."""

import contextlib
import dataclasses
import io
import os
import pathlib
import random
import re
import select
import socket
import ssl
import threading
import time
import unittest
import unittest.mock
from decimal import Decimal
from xml.etree import ElementTree

import outcry
from outcry import Cancel, Canceled, Created, MakeSymbol, OpenAccount, Order, Place, Query, Refusal, create, transactions

_names = iter(range(1, 1 << 30))


def fresh_market(exchange):
    """Opens a buyer with money and a seller with shares, and returns them and the symbol."""
    n = next(_names)
    buyer, seller, sym = f"{n}1", f"{n}2", f"S{n}"
    exchange.open_account(buyer, 100000)
    exchange.open_account(seller, 0)
    exchange.place(sym, seller, 1000)
    return buyer, seller, sym


class ProtectedTest(unittest.TestCase):
    """An exchange that requires a token, and speaks TLS with clients that have a certificate."""

    def exchange(self, **changed):
        context = ssl.create_default_context(cafile=os.environ["OUTCRY_TEST_CA"])
        context.load_cert_chain(os.environ["OUTCRY_TEST_CERT"], os.environ["OUTCRY_TEST_KEY"])
        arguments = {"token": os.environ["OUTCRY_TEST_TOKEN"], "ssl_context": context, **changed}
        exchange = outcry.Exchange(os.environ["OUTCRY_TEST_PROTECTED_ADDR"], timeout=60, **arguments)
        self.addCleanup(exchange.close)
        return exchange

    def test_it_is_traded_as_always(self):
        exchange = self.exchange()
        buyer, seller, sym = fresh_market(exchange)
        exchange.sell(seller, sym, 100, 5)
        frames = [transactions(buyer, *[outcry.buy(sym, "0.01", 5)] * 50) for _ in range(200)]
        replies = list(exchange.pipeline(frames))
        self.assertEqual(sum(isinstance(r, outcry.Opened) for reply in replies for r in reply.results), 10000)
        exchange.close()
        self.assertEqual(exchange.query(buyer, replies[0].results[0].id).executed[0].price, 5, "a new connection sends the token again")

    def test_a_wrong_token_is_told(self):
        right = os.environ["OUTCRY_TEST_TOKEN"]
        exchange = self.exchange(token=right[:-8] + "00000000")
        with self.assertRaisesRegex(outcry.NotAuthorized, "with a token that is known") as caught:
            exchange.open_account("1", 1)
        self.assertNotIn(right[30:50], str(caught.exception))
        with unittest.mock.patch.dict(os.environ, {"OUTCRY_TOKEN": right}):
            self.exchange(token=None).make_symbol("A")

    def test_without_tls_or_another_authority_nothing_is_sent(self):
        with self.assertRaises(OSError):
            self.exchange(ssl_context=None).make_symbol("A")
        for call in [lambda e: e.make_symbol("A"), lambda e: e.retry(create(MakeSymbol("A")), seconds=1000)]:
            with self.assertRaises(ssl.SSLCertVerificationError):
                call(self.exchange(ssl_context=ssl.create_default_context()))

    def test_a_certificate_that_is_not_the_hosts_is_refused(self):
        """The server fails the test if anything is sent to it, least of all the token."""
        for name, why in [("ELSEWHERE", "IP address mismatch"), ("EXPIRED", "certificate has expired")]:
            with unittest.mock.patch.dict(os.environ, {"OUTCRY_TEST_PROTECTED_ADDR": os.environ[f"OUTCRY_TEST_{name}_ADDR"]}):
                for call in [lambda e: e.make_symbol("A"), lambda e: e.retry(create(MakeSymbol("A")), seconds=1000)]:
                    with self.assertRaisesRegex(ssl.SSLCertVerificationError, why):
                        call(self.exchange())
        port = os.environ["OUTCRY_TEST_ELSEWHERE_ADDR"].rpartition(":")[2]
        with unittest.mock.patch.dict(os.environ, {"OUTCRY_TEST_PROTECTED_ADDR": f"localhost:{port}"}):
            with self.assertRaisesRegex(ssl.SSLCertVerificationError, "Hostname mismatch.*'localhost'"):
                self.exchange().make_symbol("A")


class TradingTest(unittest.TestCase):
    address = os.environ["OUTCRY_TEST_ADDR"]

    def setUp(self):
        self.exchange = outcry.Exchange(self.address)
        self.addCleanup(self.exchange.close)
        self.buyer, self.seller, self.sym = fresh_market(self.exchange)

    def test_a_trade_is_exact(self):
        sell = self.exchange.sell(self.seller, self.sym, 100, "123.45")
        self.assertEqual(sell, outcry.Opened(sell.id, self.sym, Decimal(-100), Decimal("123.45")))
        buy = self.exchange.buy(self.buyer, self.sym, Decimal("0.00000001"), 150)
        before = int(time.time())
        status = self.exchange.query(self.seller, buy.id)
        self.assertEqual(status.id, buy.id)
        self.assertEqual((status.open, status.canceled), (0, None))
        (execution,) = status.executed
        self.assertEqual((execution.shares, execution.price), (Decimal("0.00000001"), Decimal("123.45")))
        self.assertLess(abs(execution.time - before), 100)
        self.assertEqual(self.exchange.query(self.seller, sell.id).open, Decimal("99.99999999"))

    def test_a_cancel_tells_what_was_open_and_what_had_executed(self):
        order = self.exchange.order(self.seller, self.sym, -10, 5)
        self.exchange.buy(self.buyer, self.sym, 4, 5)
        status = self.exchange.cancel(self.seller, order.id)
        self.assertEqual([status.id, status.open, status.canceled.shares], [order.id, 0, 6])
        self.assertEqual([(x.shares, x.price) for x in status.executed], [(4, 5)])
        self.assertEqual(self.exchange.query(self.buyer, order.id), status)

    def test_what_is_created_is_named(self):
        n = next(_names)
        self.assertEqual(self.exchange.open_account(f"00{n}", "0.5"), Created(None, f"00{n}"))
        self.assertEqual(self.exchange.make_symbol(f"A{n}"), Created(f"A{n}", None))
        self.assertEqual(self.exchange.place(f"A{n}", f"00{n}", "0.1"), Created(f"A{n}", f"00{n}"))

    def test_a_refused_command_raises_with_command_and_reason(self):
        with self.assertRaisesRegex(outcry.Refused, "insufficient funds") as caught:
            self.exchange.buy(self.buyer, self.sym, 1, 100001)
        self.assertEqual(caught.exception.refusal.command, Order(self.sym, Decimal(1), 100001))
        for refused, reason in [
            (lambda: self.exchange.open_account(self.buyer, 1), "already exists"),
            (lambda: self.exchange.open_account("x", 1), 'account id "x" is not made of digits'),
            (lambda: self.exchange.make_symbol("A-B"), 'symbol "A-B" has a character'),
            (lambda: self.exchange.make_symbol("é" * 5000), "symbol .* is not 1 to 32 characters"),
            (lambda: self.exchange.place(self.sym, "404", 1), "there is no account 404"),
            (lambda: self.exchange.sell(self.buyer, self.sym, 1, 1), "insufficient shares"),
            (lambda: self.exchange.buy(self.buyer, "<&\"'\n>", 1, 1), "symbol .* has a character"),
            (lambda: self.exchange.query(self.buyer, 1 << 62), "there is no order"),
            (lambda: self.exchange.cancel(self.buyer, -1), "order id \"-1\" is not a whole number"),
        ]:
            with self.assertRaisesRegex(outcry.Refused, reason):
                refused()

    def test_a_frame_of_several_commands_answers_each_in_its_place(self):
        results = self.exchange.send(create(
            MakeSymbol(self.sym), OpenAccount(self.buyer, 1), Place(self.sym, self.seller, "  2 ".strip()), Place("?", self.seller, 1)))
        self.assertEqual([type(r) for r in results], [Created, Refusal, Created, Refusal])
        self.assertEqual(results[1].command, OpenAccount(self.buyer, 1))
        first, unknown = self.exchange.send(transactions(self.seller, outcry.sell(self.sym, 3, 7), Query(1 << 62)))
        self.assertIn("there is no order", unknown.text)
        self.assertFalse(unknown.whole_frame)
        canceled, again = self.exchange.send(transactions(self.seller, Cancel(first.id), Cancel(first.id)))
        self.assertEqual(canceled.canceled, Canceled(Decimal(3), canceled.canceled.time))
        self.assertIn("it was canceled before", again.text)
        self.assertEqual(self.exchange.send(create()), ())
        self.assertEqual(self.exchange.send(transactions("no account")), ())

    def test_every_command_for_an_unknown_account_is_refused_for_itself(self):
        results = self.exchange.send(transactions("404", Order(self.sym, 1, 1), Query(1), Cancel(1)))
        self.assertEqual([r.text for r in results], ["there is no account 404"] * 3)

    def test_a_pipeline_yields_replies_in_the_order_of_its_frames(self):
        seed = random.randrange(1 << 32)
        rand = random.Random(seed)
        frames = [transactions(self.seller, *[outcry.sell(self.sym, Decimal(rand.randrange(1, 99)).scaleb(-8), rand.randrange(1, 9))
                                              for _ in range(rand.randrange(0, 5))]) for _ in range(500)]
        taken = []
        for reply, sent in zip(self.exchange.pipeline(iter(frames), window=rand.randrange(1, 100)), frames):
            self.assertIs(reply.frame, sent, f"seed {seed}")
            self.assertEqual([(r.amount, r.limit) for r in reply.results], [(c.amount, c.limit) for c in sent.commands], f"seed {seed}")
            taken += [r.id for r in reply.results]
        self.assertEqual(taken, sorted(set(taken)), f"seed {seed}")
        self.assertEqual(self.exchange.query(self.seller, taken[-1]).id, taken[-1])

    def test_a_pipeline_larger_than_all_buffers_does_not_stand_still(self):
        order = self.exchange.sell(self.seller, self.sym, 500, 1)
        for _ in self.exchange.pipeline(transactions(self.buyer, outcry.buy(self.sym, 1, 1)) for _ in range(500)):
            pass
        frame = transactions(self.buyer, *[Query(order.id)] * 20)  # 20 times 500 executions: half a megabyte
        sizes = [sum(len(status.executed) for status in reply.results) for reply in self.exchange.pipeline([frame] * 30, window=30)]
        self.assertEqual(sizes, [20 * 500] * 30)
        large = create(*[MakeSymbol(self.sym)] * 20000)
        self.assertEqual([len(reply.results) for reply in self.exchange.pipeline([large] * 20, window=20)], [20000] * 20)

    def test_a_frame_that_is_too_much_is_refused_whole_and_the_connection_goes_on(self):
        commands, connection = [MakeSymbol(f"{self.sym}N")] * 100_001, self.exchange._socket
        results = self.exchange.send(create(*commands))
        self.assertEqual(len(results), len(commands))
        self.assertTrue(all(r.whole_frame and "100000 elements" in r.text for r in results), results[0])
        with self.assertRaisesRegex(outcry.Refused, "there is no symbol"):
            self.exchange.buy(self.buyer, f"{self.sym}N", 1, 1)
        replies = list(self.exchange.pipeline([create(*commands), create(MakeSymbol(self.sym))]))
        self.assertIsInstance(replies[0].results[0], Refusal)
        self.assertEqual(replies[1].results, (Created(self.sym, None),))
        self.assertIs(self.exchange._socket, connection)

    def test_a_frame_that_cannot_be_sent_ends_a_pipeline_after_the_replies_before_it(self):
        replies = []
        with self.assertRaisesRegex(ValueError, "limit 'x' is not a decimal"):
            for reply in self.exchange.pipeline([create(MakeSymbol(self.sym)), transactions("1", Order("S", 1, "x")), create()]):
                replies.append(reply)
        self.assertEqual([r.results for r in replies], [(Created(self.sym, None),)])
        self.exchange.make_symbol(self.sym)

    def test_an_abandoned_pipeline_does_not_mix_up_later_replies(self):
        pipeline = self.exchange.pipeline([create(MakeSymbol(self.sym))] * 10)
        next(pipeline)
        with self.assertRaisesRegex(RuntimeError, "have not all been taken"):
            self.exchange.query(self.buyer, 1)
        pipeline.close()
        with self.assertRaisesRegex(outcry.Refused, "there is no order"):
            self.exchange.query(self.buyer, 1 << 62)

    def test_a_command_with_a_ref_is_done_once(self):
        account, ref = f"{next(_names)}9", outcry.new_ref()
        opening = create(OpenAccount(account, 100, ref=ref), Place(self.sym, self.seller, 5, ref=ref))
        first = self.exchange.send(opening)
        self.assertEqual(first, (Created(None, account, ref), Created(self.sym, self.seller, ref)))
        self.assertEqual(self.exchange.retry(opening), first)
        order = self.exchange.sell(self.seller, self.sym, 4, 7, ref="a:1")
        self.assertEqual(self.exchange.order(self.seller, self.sym, "-4.0", "7.00", ref="a:1"), order)
        self.assertEqual(order.ref, "a:1")
        with self.assertRaisesRegex(outcry.Refused, "has used ref a:1 before, for something else"):
            self.exchange.sell(self.seller, self.sym, 4, 8, ref="a:1")
        with self.assertRaisesRegex(outcry.Refused, "has a character other than"):
            self.exchange.sell(self.seller, self.sym, 4, 8, ref="a b")
        self.assertEqual(self.exchange.query(self.seller, ref="a:1").id, order.id)
        self.assertEqual(self.exchange.cancel(self.seller, ref="a:1").canceled.shares, 4)
        again = self.exchange.retry(transactions(self.seller, Cancel(ref="a:1"), Query(order.id)))
        self.assertRegex(again[0].text, "was canceled before")
        self.assertEqual(again[1].ref, None)

    def test_what_could_be_done_twice_is_not_retried(self):
        for frame in (create(OpenAccount("1", 1)), create(Place("A", "1", 1)), transactions("1", Query(1), outcry.buy("A", 1, 1))):
            with self.assertRaisesRegex(ValueError, "has no ref"):
                self.exchange.retry(frame)
        for command in (Query(), Cancel(), Query(1, "r"), Cancel(1, ref="r")):
            with self.assertRaisesRegex(ValueError, "one of the two names an order"):
                self.exchange.retry(transactions("1", command))

    def test_a_connection_is_closed_by_its_context_and_made_again_by_a_call(self):
        with self.exchange as same:
            self.assertIs(same, self.exchange)
        self.exchange.close()
        self.exchange.make_symbol(self.sym)


class InstructionsTest(unittest.TestCase):
    """Order instructions and an account's own view, by the real server."""

    def setUp(self):
        self.exchange = outcry.Exchange(os.environ["OUTCRY_TEST_ADDR"])
        self.addCleanup(self.exchange.close)
        self.buyer, self.seller, self.sym = fresh_market(self.exchange)

    def test_what_may_not_rest_is_canceled_and_reported(self):
        self.exchange.sell(self.seller, self.sym, 60, 5)
        ioc = self.exchange.buy(self.buyer, self.sym, 100, 5, tif="IOC", report=True)
        self.assertEqual((ioc.status.open, ioc.status.canceled.shares, ioc.status.executed[0].shares), (0, 40, 60))
        with self.assertRaisesRegex(outcry.Refused, "no sell orders"):
            self.exchange.buy(self.buyer, self.sym, 1, market=True)
        self.exchange.sell(self.seller, self.sym, 60, 5)
        with self.assertRaisesRegex(outcry.Refused, "cannot be filled at once: 60 could"):
            self.exchange.buy(self.buyer, self.sym, 61, 5, tif="FOK")
        with self.assertRaisesRegex(outcry.Refused, "would execute at once"):
            self.exchange.buy(self.buyer, self.sym, 1, 5, post=True)
        market = self.exchange.buy(self.buyer, self.sym, 60, market=True, report=True)
        self.assertEqual((market.limit, market.status.executed[0].price), (None, 5))

    def test_an_amend_keeps_the_place_or_makes_a_new_order(self):
        order = self.exchange.sell(self.seller, self.sym, 100, 5, ref="first").id
        reduced = self.exchange.amend(self.seller, order, -60)
        self.assertEqual((reduced.id, reduced.by, reduced.status.open, reduced.status.reduced.shares), (order, None, 60, 40))
        frame = transactions(self.seller, outcry.Amend(ref="first", limit=6, newref="second"))
        (first,), (again,) = self.exchange.retry(frame), self.exchange.retry(frame)
        self.assertEqual(first, again)
        self.assertEqual((first.id, first.ref, first.newref, first.status), (order, "first", "second", None))
        status = self.exchange.query(self.seller, order)
        self.assertEqual((status.replaced, status.canceled.shares, status.reduced.shares), (first.by, 60, 40))
        self.assertEqual(self.exchange.query(self.seller, ref="first").id, first.by)
        with self.assertRaisesRegex(ValueError, "has no ref"):
            self.exchange.retry(transactions(self.seller, outcry.Amend(order, -50)))

    def test_an_account_sees_itself(self):
        self.exchange.sell(self.seller, self.sym, 10, "5.5", stp="oldest", cod=True)
        post = self.exchange.sell(self.seller, self.sym, 10, 6, post=True)
        bought = self.exchange.buy(self.buyer, self.sym, 4, 6)
        self.assertEqual(self.exchange.account(self.buyer),
                         outcry.Account(self.buyer, Decimal(99978), Decimal(0), (outcry.Position(self.sym, Decimal(4), Decimal(0)),)))
        first, second = self.exchange.orders(self.seller)
        self.assertEqual((first.amount, first.open, first.stp, first.cod, first.post), (-10, 6, "oldest", True, False))
        self.assertEqual((second.id, second.amount, second.limit, second.post), (post.id, -10, 6, True))
        self.assertEqual(self.exchange.orders(self.seller, self.sym), [first, second])
        with self.assertRaisesRegex(outcry.Refused, "there is no symbol NONE"):
            self.exchange.orders(self.seller, "NONE")
        (fill,) = self.exchange.fills(self.buyer)
        self.assertEqual((fill.n, fill.id, fill.sym, fill.side, fill.shares, fill.price),
                         (1, bought.id, self.sym, "buy", 4, Decimal("5.5")))
        self.assertEqual(self.exchange.fills(self.buyer, after=1), ())
        with self.assertRaisesRegex(outcry.Refused, "there is no account 404404"):
            self.exchange.account("404404")
        self.exchange.cancel_after(self.seller, 60)
        self.exchange.cancel_after(self.seller, 0)
        self.assertEqual([self.exchange.cancel_all(self.seller, self.sym), self.exchange.cancel_all(self.seller)], [2, 0])

    def test_what_its_connection_leaves_is_canceled(self):
        with outcry.Exchange(os.environ["OUTCRY_TEST_ADDR"], cancel_on_disconnect=True) as other:
            gone = other.sell(self.seller, self.sym, 10, 5)
            stays = other.sell(self.seller, self.sym, 10, 5, cod=False)
        deadline = time.monotonic() + 60
        while self.exchange.query(self.seller, gone.id).canceled is None:
            self.assertLess(time.monotonic(), deadline)
        self.assertEqual(self.exchange.query(self.seller, stays.id).open, 10)

    def test_a_symbol_has_a_tick_and_a_lot(self):
        sym = f"T{next(_names)}"
        self.exchange.make_symbol(sym, tick="0.01", lot=5)
        self.exchange.make_symbol(sym)
        with self.assertRaisesRegex(outcry.Refused, "0.01"):
            self.exchange.make_symbol(sym, tick="0.1")
        with self.assertRaisesRegex(outcry.Refused, "not a multiple of the tick 0.01"):
            self.exchange.buy(self.buyer, sym, 5, "1.005")


    def test_orders_behind_many_of_another_symbol_are_found(self):
        """The exchange scans at most 20,000 orders for a page, so that the first page of the symbol is empty."""
        self.exchange.make_symbol(self.sym + "Z")
        frame = outcry.transactions(self.buyer, *[outcry.buy(self.sym + "Z", 1, 1) for _ in range(603)])
        for reply in self.exchange.pipeline([frame] * 34, window=4):
            self.assertFalse([r for r in reply.results if isinstance(r, outcry.Refusal)])
        ids = [self.exchange.buy(self.buyer, self.sym, 1, 1).id for _ in range(3)]
        (page,) = self.exchange.send(outcry.transactions(self.buyer, outcry.ListOrders(self.sym)))
        self.assertEqual((page.orders, page.more), ((), True))
        self.assertEqual([o.id for o in self.exchange.orders(self.buyer, self.sym)], ids)


class BareRepliesTest(TradingTest):
    """The same against a server that omits the length lines of its replies."""

    address = os.environ["OUTCRY_TEST_BARE_ADDR"]


class ValuesTest(unittest.TestCase):
    def test_numbers_are_sent_as_they_are(self):
        for value, sent in [(Decimal("1E+3"), "1000"), (Decimal("1.10"), "1.10"), (-5, "-5"), (".5", ".5"), ("+7.", "+7."),
                            (Decimal("123456789012345678901234567890.12345678"), "123456789012345678901234567890.12345678")]:
            self.assertEqual(Order("S", value, 1).xml(), f'<order sym="S" amount="{sent}" limit="1"/>')
        many = Decimal("123456789012345678901234567890.12345678")
        self.assertEqual(outcry.sell("S", many, 1).amount, many.copy_negate())

    def test_an_order_has_every_attribute_of_the_protocol(self):
        names = sorted(os.environ["OUTCRY_TEST_ORDER"].split())
        self.assertEqual(sorted("type" if field.name == "market" else field.name for field in dataclasses.fields(Order)), names)
        sent = ElementTree.fromstring(Order("1", "1", "1", "1", market=True, tif="1", post=True, stp="1", cod=True, report=True).xml())
        self.assertEqual(sorted(sent.attrib), names)

    def test_commands_are_sent_as_they_are_meant(self):
        for command, sent in [
            (outcry.buy("S", 1, market=True), '<order sym="S" amount="1" type="market"/>'),
            (outcry.sell("S", 1, 5, "r", tif="FOK", cod=False), '<order sym="S" amount="-1" limit="5" tif="FOK" cod="no" ref="r"/>'),
            (outcry.Amend(7, -60), '<amend id="7" amount="-60"/>'),
            (outcry.Amend(ref="r", limit="9.5", newref="s", report=True), '<amend ref="r" limit="9.5" report="full" newref="s"/>'),
            (outcry.CancelAll(), "<cancel-all/>"), (outcry.CancelAll("S"), '<cancel-all sym="S"/>'),
            (outcry.CancelAfter(0), '<cancel-after seconds="0"/>'), (outcry.ShowAccount(), "<account/>"),
            (outcry.ListOrders(), "<orders/>"), (outcry.ListOrders("S", 7), '<orders sym="S" after="7"/>'),
            (outcry.ListFills(), "<fills/>"), (outcry.ListFills(0), '<fills after="0"/>'),
            (MakeSymbol("S", "0.01", 1), '<symbol sym="S" tick="0.01" lot="1"/>'),
        ]:
            self.assertEqual(command.xml(), sent)
        for command, error in [(outcry.Amend(7), "has no amount and no limit"),
                               (outcry.Amend(amount=1), "one of the two names an order")]:
            with self.assertRaisesRegex(ValueError, error):
                command.xml()
        for flag in ("market", "post", "cod", "report"):  # "no" would be true
            with self.assertRaisesRegex(TypeError, "'no': a bool is needed, not str"):
                Order("S", 1, 1, **{flag: "no"}).xml()
        with self.assertRaisesRegex(TypeError, "limit None"):
            Order("S", 1).xml()
        for command in [outcry.CancelAfter(1.5), outcry.ListFills("1"), outcry.ListOrders(after=True)]:
            with self.assertRaisesRegex(TypeError, "an int is needed"):
                command.xml()

    def test_what_is_no_exact_number_is_refused_before_anything_is_sent(self):
        for value, error in [(1.5, TypeError), (True, TypeError), (None, TypeError), ("1e3", ValueError), ("", ValueError),
                             (" 1", ValueError), ("1\n", ValueError), ("1_000", ValueError), ("NaN", ValueError), ("٣", ValueError),
                             (Decimal("NaN"), ValueError), (Decimal("sNaN"), ValueError), (Decimal("-Infinity"), ValueError)]:
            for make in [lambda v: Order("S", v, 1), lambda v: Order("S", 1, v), lambda v: OpenAccount("1", v), lambda v: Place("S", "1", v)]:
                with self.assertRaises(error, msg=repr(value)) as caught:
                    make(value).xml()
                self.assertIn(repr(value), str(caught.exception))
        for shares in [0, -1, "-0.5", Decimal(0)]:
            for side in [outcry.buy, outcry.sell]:
                with self.assertRaisesRegex(ValueError, "must be more than 0"):
                    side("S", shares, 1)

    def test_what_xml_does_not_have_is_refused_before_anything_is_sent(self):
        for text in ["\0", "a\x0b", "\ud800", "\ufffe"]:
            with self.assertRaisesRegex(ValueError, "has a character that XML does not have"):
                MakeSymbol(text).xml()
        with self.assertRaisesRegex(TypeError, "does not belong into <create>"):
            create(Query(1)).xml()
        with self.assertRaisesRegex(TypeError, "does not belong into <transactions>"):
            transactions("1", MakeSymbol("S")).xml()
        with self.assertRaisesRegex(TypeError, "id 1.5: a str is needed"):
            Query(1.5).xml()

    def test_addresses_are_host_and_port(self):
        for address in ["localhost", "localhost:", ":http", "1:-1"]:
            with self.assertRaisesRegex(ValueError, re.escape(repr(address))):
                outcry.Exchange(address)
        with self.assertRaisesRegex(ValueError, "window 0"):
            outcry.Exchange("127.0.0.1:1").pipeline([], window=0)


class Peer:
    """A server for one test: the next of the scripts answers each connection. It gets the connection
    and may do anything with it."""

    def __init__(self, test, *scripts):
        listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % listener.getsockname()[1]
        self.received = []
        thread = threading.Thread(target=self.serve, args=(listener, scripts), daemon=True)
        thread.start()
        test.addCleanup(thread.join, 60)
        test.addCleanup(listener.close)

    def serve(self, listener, scripts):
        for script in scripts:
            connection, _ = listener.accept()
            with connection, contextlib.suppress(OSError):
                connection.settimeout(60)
                self.received.append(b"")
                script(self, connection)

    def read(self, connection, end):
        while not self.received[-1].endswith(end):
            data = connection.recv(65536)
            if not data:
                return
            self.received[-1] += data


def says(*chunks, after=b"</create>", wait=True):
    """A script that waits for a frame, sends chunks, and by default leaves the connection open until
    the client closes it."""
    def script(peer, connection):
        peer.read(connection, after)
        for chunk in chunks:
            connection.sendall(chunk)
        if wait:
            peer.read(connection, b"never")
    return script


def framed(xml):
    return b"%d\n%s" % (len(xml), xml)


# Replies to a token that is not accepted. ProtectedTest has one that is accepted.
NOT_AUTHORIZED = framed(("<results><error>this exchange takes &lt;auth token=&#34;…&#34;/&gt; as the first frame, "
                         "with a token that is known and has not ended (connection 7)</error></results>").encode())


class ConnectionTest(unittest.TestCase):
    def exchange(self, *scripts, **options):
        self.peer = Peer(self, *scripts)
        exchange = outcry.Exchange(self.peer.address, **options)
        self.addCleanup(exchange.close)
        return exchange

    def test_replies_may_come_in_pieces_and_in_one(self):
        created = framed(b'<results>\n<created sym="a&amp;&lt;&#9;&quot;&#x20ac;b"/> </results>')
        for bare in [False, True]:
            reply = created[created.index(b"\n") + 1:] if bare else created
            for received_bytes in [1, 7, 1 << 16]:
                exchange = self.exchange(says(reply[:5], reply[5:]))
                with unittest.mock.patch("outcry._RECEIVE_BYTES", received_bytes):
                    self.assertEqual(exchange.make_symbol("S"), Created('a&<\t"€b', None))
                exchange.close()
            exchange = self.exchange(says(reply + reply + reply))
            self.assertEqual(len(list(exchange.pipeline([create(MakeSymbol("S"))] * 3))), 3)
            exchange.close()

    def test_a_connection_that_ends_before_a_reply_leaves_the_outcome_unknown(self):
        first, second = create(MakeSymbol("A")), create(MakeSymbol("B"))
        reply = framed(b'<results><created sym="A"/></results>')
        for rest in [b"", b"1", b"40\n", b"37\n<results>", b"<results><created"]:
            exchange = self.exchange(says(reply + rest, after=second.xml(), wait=False), says(reply))
            replies = []
            with self.assertRaisesRegex(outcry.ConnectionLost, "1 frame without a reply took effect is unknown") as caught:
                for r in exchange.pipeline([first, second]):
                    replies.append(r.frame)
            self.assertEqual(replies, [first])
            self.assertEqual(caught.exception.unanswered, (second,))
            exchange.make_symbol("A")  # reconnects
            self.assertEqual(self.peer.received, [framed(first.xml()) + framed(second.xml()), framed(first.xml())], "nothing is sent twice")
            exchange.close()

    def test_a_frame_is_retried_until_there_is_a_reply(self):
        frame = transactions("1", outcry.buy("A", 1, 2, ref="r"))
        reply = framed(b'<results><opened sym="A" amount="1" limit="2" ref="r" id="7"/></results>')
        end = b"</transactions>"
        exchange = self.exchange(says(after=end, wait=False), says(reply[:9], after=end, wait=False), says(reply, after=end))
        self.assertEqual(exchange.retry(frame), (outcry.Opened(7, "A", Decimal(1), Decimal(2), "r"),))
        self.assertEqual(self.peer.received, [framed(frame.xml())] * 3)

    def test_a_retry_ends_in_time_and_at_what_is_no_reply(self):
        frame = transactions("1", Cancel(1))
        with self.assertRaises(outcry.ConnectionLost):
            self.exchange(says(after=b"</transactions>", wait=False)).retry(frame, seconds=0)
        with self.assertRaises(outcry.ProtocolError):
            self.exchange(says(b"nothing", after=b"</transactions>")).retry(frame)
        nobody = socket.create_server(("127.0.0.1", 0))
        address = "127.0.0.1:%d" % nobody.getsockname()[1]
        nobody.close()
        with self.assertRaises(OSError):
            outcry.Exchange(address).retry(frame, seconds=0.1)

    def test_a_refusal_of_what_was_sent_before_is_no_proof(self):
        frame = transactions("1", outcry.buy("A", 1, 2, ref="r"), Query(7))
        refusals = framed(b'<results><error sym="A" amount="1" limit="2" ref="r">not now</error><error id="7">no</error></results>')
        end = b"</transactions>"
        exchange = self.exchange(says(after=end, wait=False), says(refusals, after=end))
        self.assertEqual(exchange.retry(frame), (Refusal(frame.commands[0], "not now", maybe_done=True), Refusal(Query(7), "no")))
        exchange = self.exchange(says(refusals, after=end))
        self.assertEqual(exchange.retry(frame)[0], Refusal(frame.commands[0], "not now"), "it was sent once")

    def test_an_error_after_the_frame_was_sent_does_not_hide_that(self):
        frame, end = transactions("1", outcry.buy("A", 1, 2, ref="r")), b"</transactions>"
        exchange = self.exchange(says(after=b"/>", wait=False), token="t")  # no answer to the token
        with self.assertRaises(OSError):
            exchange.retry(frame, seconds=0)
        taken = framed(b"<results><authorized/></results>")

        def takes(peer, connection):
            peer.read(connection, b"/>")
            connection.sendall(taken)
            peer.read(connection, end)
        for then, cause, seconds in [(says(NOT_AUTHORIZED, after=b"/>"), outcry.NotAuthorized, 60),
                                     (says(after=b"/>", wait=False), type(None), 0.08)]:
            exchange = self.exchange(takes, then, token="t")
            with self.assertRaises(outcry.ConnectionLost) as caught:
                exchange.retry(frame, seconds=seconds)
            self.assertEqual(caught.exception.unanswered, (frame,))
            self.assertIsInstance(caught.exception.__cause__, cause)

    def test_an_exchange_without_a_place_does_not_mean_the_token(self):
        frame = transactions("1", Query(7))
        full = says(framed(b"<results><error>the exchange has 2 connections and accepts no more; try again later (connection 3)"
                           b"</error></results>"), after=b"/>")

        def takes(peer, connection):
            peer.read(connection, b"/>")
            connection.sendall(framed(b"<results><authorized/></results>"))
            peer.read(connection, b"</transactions>")
            connection.sendall(framed(b'<results><error id="7">no</error></results>'))
        with self.assertRaisesRegex(ConnectionError, "has 2 connections and accepts no more"):
            self.exchange(full, token="t").connect()
        self.assertEqual(self.exchange(full, full, takes, token="t").retry(frame), (Refusal(Query(7), "no"),))
        unknown = framed(b"<results><error>unknown root element &lt;auth&gt;, only &lt;create&gt; are known</error></results>")
        for reply in [NOT_AUTHORIZED, unknown]:
            with self.assertRaises(outcry.NotAuthorized):
                self.exchange(says(reply, after=b"/>"), token="t").retry(frame, seconds=1000)

    def test_a_frame_that_the_exchange_does_not_take_is_tried_twice(self):
        frame, end = transactions("1", outcry.buy("A", 1, 2, ref="r")), b"</transactions>"
        words = framed(b"<results><error>a frame is over the limit</error></results>")

        def strict(peer, connection):
            peer.read(connection, b"<create></create>")
            connection.sendall(framed(b"<results/>"))
            peer.read(connection, end)
            connection.sendall(words)
        stopping = says(words, wait=False)  # last words that are not about the frame
        exchange = self.exchange(says(words, after=end, wait=False), stopping, strict)
        with self.assertRaisesRegex(outcry.ConnectionLost, "over the limit") as caught:
            exchange.retry(frame)
        self.assertEqual(caught.exception.unanswered, (frame,))
        self.assertEqual(caught.exception.last_words, "a frame is over the limit")
        probe = framed(b"<create></create>")
        self.assertEqual(self.peer.received, [framed(frame.xml()), probe, probe + framed(frame.xml())])

    def test_a_token_goes_to_other_machines_over_tls_only(self):
        reply = framed(b"<results><authorized/></results>")
        refused = self.exchange(says(reply, after=b"/>"), token="secret")
        with unittest.mock.patch.object(outcry, "_is_loopback", return_value=False):
            for call in [refused.connect, lambda: refused.retry(create(MakeSymbol("A")))]:
                with self.assertRaisesRegex(outcry.InsecureToken, "not sent to 127.0.0.1") as caught:
                    call()
                self.assertNotIn("secret", str(caught.exception))
            allowed = self.exchange(says(reply, after=b"/>"), token="t", insecure_token=True)
            with self.assertWarnsRegex(RuntimeWarning, "not encrypted"):
                allowed.connect()
            with unittest.mock.patch.dict(os.environ, {"OUTCRY_INSECURE_TOKEN": "true"}):
                allowed = self.exchange(says(reply, after=b"/>"), token="t")
            with self.assertWarnsRegex(RuntimeWarning, "not encrypted"):
                allowed.connect()
        for host, own in [("127.0.0.1", True), ("127.8.9.1", True), ("::1", True), ("::ffff:127.0.0.1", True),
                          ("192.0.2.1", False), ("::ffff:192.0.2.1", False), ("fe80::1%eth0", False)]:
            self.assertEqual(outcry._is_loopback(host), own, host)

    def test_an_order_whose_reply_was_lost_is_not_placed_again(self):
        """The first connection is cut after the exchange has answered, before the client reads it."""
        lost = []

        def relay(keep):
            def script(peer, connection):
                host, _, port = TradingTest.address.rpartition(":")
                with socket.create_connection((host, int(port))) as exchange:
                    peer.read(connection, b"</transactions>")
                    exchange.sendall(peer.received[-1])
                    reply = exchange.recv(65536)
                lost.append(reply)
                if keep:
                    connection.sendall(reply)
                    peer.read(connection, b"never")
            return script
        with outcry.Exchange(TradingTest.address) as direct:
            buyer, _, sym = fresh_market(direct)
            exchange = self.exchange(relay(False), relay(True))
            (opened,) = exchange.retry(transactions(buyer, outcry.buy(sym, 1, 2, ref="once")))
            self.assertEqual(lost[0], lost[1])
            self.assertEqual(direct.query(buyer, ref="once").id, opened.id)
            with self.assertRaisesRegex(outcry.Refused, "there is no order"):
                direct.query(buyer, opened.id + 1)

    def test_a_reply_that_does_not_come_in_time_leaves_the_outcome_unknown(self):
        for script in [says(), says(b"100\n<results>")]:
            exchange = self.exchange(script, timeout=0.05)
            with self.assertRaisesRegex(outcry.ConnectionLost, "no reply within 0.05 seconds"):
                exchange.make_symbol("A")

    def test_a_peer_that_reads_nothing_ends_the_sending_in_time(self):
        done = threading.Event()
        exchange = self.exchange(lambda peer, connection: done.wait(60), timeout=0.2)
        self.addCleanup(done.set)
        frame = create(*[MakeSymbol("S")] * 100_000)
        with self.assertRaisesRegex(outcry.ConnectionLost, "no reply within"):
            list(exchange.pipeline([frame] * 20, window=20))
        done.set()

    def test_the_last_word_of_a_connection_is_told_and_decides_nothing(self):
        farewell = framed(b"<results><error>the exchange is &lt;stopping&gt;</error></results>")
        exchange = self.exchange(says(farewell, wait=False))
        with self.assertRaisesRegex(outcry.ConnectionLost, "closed the connection: the exchange is <stopping>; whether 1 frame"):
            exchange.make_symbol("A")

    def test_a_connection_that_ended_while_idle_is_replaced(self):
        reply = framed(b'<results><created sym="A"/></results>')
        farewell = framed(b"<results><error>nothing was sent for long</error></results>")
        for last in [b"", farewell]:
            exchange = self.exchange(says(reply + last, wait=False), says(reply))
            exchange.make_symbol("A")
            select.select([exchange._socket], [], [], 60)
            self.assertEqual(exchange.make_symbol("A"), Created("A", None))
            self.assertEqual(len(self.peer.received), 2)
            exchange.close()

    def test_what_is_no_reply_is_an_error_and_ends_the_connection(self):
        for reply, reason in [
            (b"HTTP/1.1 400 Bad Request\r\n", "begins with b'HTTP"),
            (b"\n37\n", "begins with"),
            (b"-5\n", "begins with"),
            (b"1" * 30, "begins with"),
            (framed(b"<results>"), "is not XML"),
            (framed(b"<html/>"), "<html> is not a reply"),
            (framed(b"<results/>"), "0 answers to 1 commands"),
            (framed(b'<results><created sym="A"/><created sym="A"/></results>'), "2 answers to 1 commands"),
            (framed(b'<results><opened id="1"/></results>'), "<opened> answers no MakeSymbol"),
            (b"1001\n", "over the limit of 1000 bytes"),
            (b"<" + b"x" * 1000, "over the limit of 1000 bytes"),
        ]:
            exchange = self.exchange(says(reply), reply_bytes_max=1000)
            with self.assertRaisesRegex(outcry.ProtocolError, reason) as caught:
                exchange.make_symbol("A")
            self.assertEqual(caught.exception.unanswered, (create(MakeSymbol("A")),))
            self.assertIsNone(exchange._socket)

    def test_answers_with_parts_that_are_not_the_protocols_are_an_error(self):
        for answer in [b"<status/>", b'<status id="1"><open/></status>',
                       b'<status id="1"><open shares="1,5"/></status>', b'<canceled id="1"/>', b'<status id="one"/>']:
            exchange = self.exchange(says(framed(b"<results>" + answer + b"</results>"), after=b"</transactions>"))
            with self.assertRaisesRegex(outcry.ProtocolError, "is not one of the protocol"):
                exchange.query("1", 1)

    def test_a_list_goes_on_behind_an_empty_page(self):
        order = b'<order id="%d" sym="A" amount="1" limit="1" open="1" time="1"/>'
        pages = [order % 3 + b'<more after="4"/>', b'<more after="7"/>', order % 9]

        def script(peer, connection):
            for page in pages:
                peer.received.append(b"")
                peer.read(connection, b"</transactions>")
                connection.sendall(framed(b"<results><orders>" + page + b"</orders></results>"))
            peer.read(connection, b"never")
        with self.exchange(script) as exchange:
            self.assertEqual([o.id for o in exchange.orders("1", "A")], [3, 9])
        for asked, received in zip([b'sym="A"/>', b'sym="A" after="4"/>', b'sym="A" after="7"/>'], self.peer.received[1:]):
            self.assertIn(b"<orders " + asked, received)

    def test_a_list_that_does_not_go_on_is_an_error(self):
        for command, answer in [
            (outcry.ListOrders("A", 5), b'<orders><more after="5"/></orders>'),
            (outcry.ListOrders("A", 5), b'<orders><more after="4"/></orders>'),
            (outcry.ListOrders("A", 5), b"<orders><more/></orders>"),
            (outcry.ListOrders("A"), b'<orders><more after="0"/></orders>'),
            (outcry.ListFills(5), b'<fills><more after="5"/></fills>'),
        ]:
            exchange = self.exchange(says(framed(b"<results>" + answer + b"</results>"), after=b"</transactions>"))
            with self.assertRaisesRegex(outcry.ProtocolError, "is not one of the protocol"):
                exchange.send(outcry.transactions("1", command))
        exchange = self.exchange(says(framed(b'<results><fills><more after="6"/></fills></results>'), after=b"</transactions>"))
        (page,) = exchange.send(outcry.transactions("1", outcry.ListFills(5)))
        self.assertEqual(page, outcry.Fills((), True, 6))

    def test_what_a_newer_exchange_tells_beside_is_ignored(self):
        exchange = self.exchange(says(framed(b'<results><notice/><status id="1" fee="2"><open shares="3" hidden="1"/><queue place="7"/>'
                                             b"</status></results>"), after=b"</transactions>"))
        self.assertEqual(exchange.query("1", 1), outcry.Status(1, Decimal(3), None, ()))

    def test_each_connection_says_that_it_cancels(self):
        session = b'<session cancel="disconnect" timeout="5"/>'
        answer = framed(b'<results><session cancel="disconnect" timeout="5"/></results>')
        script = says(answer, after=session, wait=False)

        def both(peer, connection):
            script(peer, connection)
            says(framed(b'<results><created sym="A"/></results>'))(peer, connection)

        exchange = self.exchange(both, both, cancel_on_disconnect=True, silence_time=5)
        for _ in range(2):
            exchange.make_symbol("A")
            exchange.close()
        for received in self.peer.received:
            self.assertEqual(received, framed(session) + framed(b'<create><symbol sym="A"/></create>'))
        exchange = self.exchange(says(framed(b"<results><error>unknown root element &lt;session&gt;</error></results>"), after=b"/>"),
                                 cancel_on_disconnect=True)
        with self.assertRaisesRegex(ConnectionError, "does not cancel on disconnect: unknown root element <session>"):
            exchange.make_symbol("A")

    def test_where_nobody_listens_nothing_was_sent(self):
        listener = socket.create_server(("127.0.0.1", 0))
        address = "127.0.0.1:%d" % listener.getsockname()[1]
        listener.close()
        with self.assertRaises(ConnectionRefusedError):
            outcry.Exchange(address).make_symbol("A")


class Door:
    """One of several addresses of an exchange: shut, as at first, it refuses connections; open, it
    forwards them; frozen, it accepts them and forwards nothing."""

    def __init__(self, test):
        self.port = socket.create_server(("127.0.0.1", 0))
        self.address, self.frozen, self.open_sockets = "127.0.0.1:%d" % self.port.getsockname()[1], False, []
        self.port.close()
        self.threads = []
        test.addCleanup(self.shut)

    def open(self, target=None):
        host, _, port = self.address.rpartition(":")
        self.port = socket.create_server((host, int(port)))
        self.start(self.accept, self.port, target or TradingTest.address)

    def start(self, function, *arguments):
        self.threads.append(threading.Thread(target=function, args=arguments, daemon=True))
        self.threads[-1].start()

    def accept(self, listener, target):
        host, _, port = target.rpartition(":")
        with contextlib.suppress(OSError):
            while True:
                ours, _ = listener.accept()
                theirs = socket.create_connection((host, int(port)))
                self.open_sockets += [ours, theirs]
                self.start(self.carry, ours, theirs)
                self.start(self.carry, theirs, ours)

    def carry(self, source, to):
        with contextlib.suppress(OSError):
            while True:
                data = source.recv(500)
                if not data:
                    break
                if not self.frozen:
                    to.sendall(data)
        for s in (source, to):
            with contextlib.suppress(OSError):
                s.shutdown(socket.SHUT_RDWR)

    def freeze(self):
        self.frozen = True

    def shut(self):
        with contextlib.suppress(OSError):
            self.port.shutdown(socket.SHUT_RDWR)
        self.port.close()
        for s in self.open_sockets:
            with contextlib.suppress(OSError):
                s.shutdown(socket.SHUT_RDWR)
        for thread in self.threads:
            thread.join(60)
        for s in self.open_sockets:
            s.close()
        self.open_sockets, self.threads = [], []


class ClusterTest(unittest.TestCase):
    """Several addresses, of which one accepts orders."""

    def exchange(self, *addresses, **options):
        exchange = outcry.Exchange(",".join(addresses), **{"switch_time": 0.2, **options})
        self.addCleanup(exchange.close)
        return exchange

    def test_the_address_that_takes_orders_is_found(self):
        refusing, silent = Door(self), Door(self)
        silent.freeze()
        silent.open()
        closing = Peer(self, says(after=b"/>", wait=False))
        exchange = self.exchange(refusing.address, silent.address, closing.address, TradingTest.address)
        exchange.make_symbol("A")
        with self.assertRaisesRegex(ConnectionError, "no address accepts orders: .*no reply within 0.05"):
            self.exchange(refusing.address, silent.address, timeout=0.3, switch_time=0.05).make_symbol("A")
        with self.assertRaises(OSError):
            self.exchange(refusing.address, silent.address, switch_time=0.05).retry(create(MakeSymbol("A")), seconds=0.1)

    def test_a_leader_that_moves_loses_nothing(self):
        with outcry.Exchange(TradingTest.address) as direct:
            for leave in [Door.shut, Door.freeze]:
                buyer, seller, sym = fresh_market(direct)
                doors = [Door(self) for _ in range(3)]
                doors[0].open()
                exchange = self.exchange(*[d.address for d in doors])
                frames = [transactions(buyer, outcry.buy(sym, 1, "0.01", ref=f"r{n}")) for n in range(300)]
                results = {}
                with self.assertRaises(outcry.ConnectionLost) as caught:
                    for reply in exchange.pipeline(frames, window=100):
                        results[reply.results[0].ref] = reply.results[0]
                        if len(results) == 50:
                            leave(doors[0])
                            doors[1].open()
                self.assertGreater(len(caught.exception.unanswered), 0)
                self.assertEqual("another address accepts orders" in caught.exception.reason, leave is Door.freeze)
                for frame in frames:
                    if frame.commands[0].ref not in results:
                        (result,) = exchange.retry(frame)
                        results[result.ref] = result
                self.assertEqual(len({r.id for r in results.values()}), len(frames))
                last = direct.buy(buyer, sym, 1, "0.01")
                self.assertEqual(last.id, min(r.id for r in results.values()) + len(frames), "none was done twice")

    def test_a_slow_exchange_is_not_left(self):
        def slow(peer, connection):
            for after, reply in [(b"<create/>", framed(b"<results/>")),
                                 (b"</create>", framed(b'<results><created sym="A"/></results>'))]:
                peer.read(connection, after)
                if after == b"</create>":
                    while len(silent.open_sockets) < 2:  # until another address was asked
                        time.sleep(0.01)
                connection.sendall(reply)
        refusing, silent = Door(self), Door(self)
        silent.freeze()
        silent.open()
        exchange = self.exchange(Peer(self, slow).address, refusing.address, silent.address, switch_time=1)
        self.assertEqual(exchange.make_symbol("A"), Created("A", None))

    def test_addresses_are_checked(self):
        for address, text in [("a:1,,b:2", "address ''"), (["a:1", "b"], "address 'b'"), ("a:1," * 16 + "b:1", "17 addresses")]:
            with self.assertRaisesRegex(ValueError, text):
                outcry.Exchange(address)

    def test_without_a_token_it_is_told_at_once(self):
        peer = Peer(self, says(NOT_AUTHORIZED, after=b"</create>", wait=False))
        exchange = outcry.Exchange(peer.address)
        self.addCleanup(exchange.close)
        with self.assertRaisesRegex(outcry.NotAuthorized, "no token was given: this exchange takes <auth"):
            exchange.retry(create(MakeSymbol("A")), seconds=1000)


class StrictServerTest(unittest.TestCase):
    """A real server with frames of at most 4096 bytes and short timeouts."""

    address = os.environ["OUTCRY_TEST_STRICT_ADDR"]

    def test_a_frame_over_the_limit_ends_the_connection_with_the_reason(self):
        exchange = outcry.Exchange(self.address)
        for size in [400, 50_000]:
            with self.assertRaisesRegex(outcry.ConnectionLost, r"is over the limit of 4096 \(connection \d+\); whether"):
                exchange.send(create(*[MakeSymbol("S")] * size))
        exchange.make_symbol("S")
        exchange.close()

    def test_a_connection_that_the_server_ended_for_idleness_is_replaced(self):
        exchange = outcry.Exchange(self.address)
        for _ in range(2):
            exchange.make_symbol("S")
            select.select([exchange._socket], [], [], 60)
        exchange.close()


class ReadmeTest(unittest.TestCase):
    def test_the_example_runs_as_written_and_prints_what_it_says(self):
        text = (pathlib.Path(__file__).parent / "README.md").read_text()
        (code,), (printed,) = re.findall(r"```python\n(.*?)```", text, re.S), re.findall(r"```text\n(.*?)```", text, re.S)
        os.environ["OUTCRY_ADDR"] = os.environ["OUTCRY_TEST_FRESH_ADDR"]
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile(code, "README.md", "exec"), {"__name__": "__main__"})
        self.assertEqual(out.getvalue(), printed)


if __name__ == "__main__":
    unittest.main()
