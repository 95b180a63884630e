"""ccxt, unmodified but for its hosts, trades here: every call that bots make, with real orders."""
import unittest

import ccxt
from common import SYMBOL, exchange, same


class Ccxt(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.seven, cls.eight = exchange(ccxt.binance, "7"), exchange(ccxt.binance, "8")
        cls.seven.load_markets()
        cls.eight.load_markets()

    def setUp(self):
        for x in (self.seven, self.eight):
            try:
                x.cancel_all_orders(SYMBOL)
            except ccxt.OrderNotFound:
                pass

    def test_markets_say_how_to_trade(self):
        market = self.seven.market(SYMBOL)
        self.assertTrue(market["active"] and market["spot"])
        same(self, market["precision"]["price"], "0.01")
        same(self, market["precision"]["amount"], "0.001")
        self.assertEqual(self.seven.price_to_precision(SYMBOL, 100.123), "100.12")
        self.assertGreater(self.seven.fetch_time(), 1_700_000_000_000)
        fees = self.seven.fetch_trading_fees()
        same(self, fees[SYMBOL]["maker"], 0)

    def test_an_order_fills_and_both_sides_see_it_at_once(self):
        resting = self.seven.create_order(SYMBOL, "limit", "sell", 3, 101.5)
        self.assertEqual((resting["status"], resting["filled"], resting["average"]), ("open", "0.00000000", None))
        self.assertEqual(self.eight.fetch_order_book(SYMBOL)["asks"][0], [101.5, 3])
        taken = self.eight.create_order(SYMBOL, "limit", "buy", 1.337, 102)
        self.assertEqual(taken["status"], "closed")
        same(self, taken["cost"], "135.7055")
        same(self, taken["average"], "101.5")
        self.assertEqual(len(taken["trades"]), 1)
        same(self, taken["trades"][0]["amount"], "1.337")
        # Nobody waits: what was answered to eight is there for seven.
        order = self.seven.fetch_order(resting["id"], SYMBOL)
        same(self, order["filled"], "1.337")
        self.assertEqual(order["status"], "open")
        mine = self.seven.fetch_my_trades(SYMBOL)[-1]
        self.assertEqual((mine["order"], mine["side"], mine["takerOrMaker"]), (resting["id"], "sell", "maker"))
        theirs = self.eight.fetch_my_trades(SYMBOL)[-1]
        self.assertEqual((theirs["id"], theirs["takerOrMaker"]), (mine["id"], "taker"))
        self.assertEqual([t["id"] for t in self.seven.fetch_order_trades(resting["id"], SYMBOL)], [mine["id"]])
        public = self.seven.fetch_trades(SYMBOL)[-1]
        self.assertEqual((public["id"], public["side"]), (mine["id"], "buy"))
        same(self, self.seven.fetch_ticker(SYMBOL)["last"], "101.5")
        same(self, self.seven.fetch_tickers()[SYMBOL]["last"], "101.5")
        same(self, self.seven.fetch_bids_asks()[SYMBOL]["ask"], "101.5")
        same(self, self.seven.fetch_last_prices([SYMBOL])[SYMBOL]["price"], "101.5")
        candle = self.seven.fetch_ohlcv(SYMBOL, "1d")[-1]
        same(self, candle[4], "101.5")

    def test_an_ioc_that_fills_in_part_has_expired(self):
        self.seven.create_order(SYMBOL, "limit", "sell", 1, 103)
        order = self.eight.create_order(SYMBOL, "limit", "buy", 2, 103, {"timeInForce": "IOC"})
        self.assertEqual(order["status"], "expired")
        same(self, order["filled"], 1)
        again = self.eight.fetch_order(order["id"], SYMBOL)
        self.assertEqual((again["status"], again["filled"]), ("expired", order["filled"]))

    def test_a_market_order_takes_what_is_there(self):
        self.seven.create_order(SYMBOL, "limit", "sell", 1, 104)
        order = self.eight.create_order(SYMBOL, "market", "buy", 1)
        self.assertEqual((order["status"], order["type"]), ("closed", "market"))
        same(self, order["cost"], 104)
        with self.assertRaises(ccxt.InvalidOrder):
            self.eight.create_order(SYMBOL, "market", "buy", 1)

    def test_an_edit_leaves_one_order(self):
        old = self.seven.create_order(SYMBOL, "limit", "sell", 2, 110, {"clientOrderId": self.seven.uuid22()})
        new = self.seven.edit_order(old["id"], SYMBOL, "limit", "sell", 1, 111)
        self.assertNotEqual(new["id"], old["id"])
        self.assertEqual([o["id"] for o in self.seven.fetch_open_orders(SYMBOL)], [new["id"]])
        self.assertEqual(self.seven.fetch_order(old["id"], SYMBOL)["status"], "canceled")
        with self.assertRaises(ccxt.BaseError):
            self.seven.edit_order(new["id"], SYMBOL, "limit", "sell", 1_000_000, 111)
        self.assertEqual([o["id"] for o in self.seven.fetch_open_orders(SYMBOL)], [new["id"]], "the old order stands")

    def test_lists_have_all_orders(self):
        one = self.seven.create_order(SYMBOL, "limit", "buy", 1, 50)
        two = self.seven.create_order(SYMBOL, "limit", "buy", 1, 51, {"postOnly": True})
        self.seven.options["fetchOpenOrders"]["warnWithoutSymbol"] = False  # Binance's limits are not ours
        self.assertEqual({o["id"] for o in self.seven.fetch_open_orders()}, {one["id"], two["id"]})
        canceled = self.seven.cancel_order(one["id"], SYMBOL)
        self.assertEqual(canceled["status"], "canceled")
        self.seven.cancel_all_orders(SYMBOL)
        self.assertEqual(self.seven.fetch_open_orders(SYMBOL), [])
        orders = {o["id"]: o["status"] for o in self.seven.fetch_orders(SYMBOL)}
        self.assertEqual((orders[one["id"]], orders[two["id"]]), ("canceled", "canceled"))
        self.assertIn(two["id"], [o["id"] for o in self.seven.fetch_canceled_orders(SYMBOL)])
        self.assertNotIn(two["id"], [o["id"] for o in self.seven.fetch_closed_orders(SYMBOL)])
        self.assertNotIn(two["id"], [o["id"] for o in self.eight.fetch_orders(SYMBOL)])

    def test_balances_are_exact(self):
        before = self.eight.fetch_balance()
        self.seven.create_order(SYMBOL, "limit", "sell", "0.001", "0.01")
        self.eight.create_order(SYMBOL, "limit", "buy", "0.001", "0.01")
        self.seven.create_order(SYMBOL, "limit", "sell", "1", "105")
        after = self.eight.fetch_balance()
        self.assertEqual(self.eight.fetch_balance()["USD"]["used"], "0.00000000")
        same(self, ccxt.Precise.string_sub(before["USD"]["free"], after["USD"]["free"]), "0.00001")
        same(self, ccxt.Precise.string_sub(after["SPY"]["free"], before["SPY"]["free"]), "0.001")
        # A symbol with the smallest tick and lot has money of sixteen digits.
        self.seven.create_order("QQQ/USD", "limit", "sell", "0.00000003", "0.00000007")
        self.eight.create_order("QQQ/USD", "limit", "buy", "0.00000003", "0.00000007")
        exact = self.eight.fetch_balance()["USD"]["free"]
        same(self, ccxt.Precise.string_sub(after["USD"]["free"], exact), "0.0000000000000021")
        same(self, self.eight.fetch_my_trades("QQQ/USD")[-1]["cost"], "0.0000000000000021")

    def test_refusals_are_what_ccxt_knows(self):
        self.seven.create_order(SYMBOL, "limit", "sell", 1, 100)
        other = self.seven.create_order(SYMBOL, "limit", "sell", 1, 120)
        for error, call in [
            (ccxt.InsufficientFunds, lambda: self.eight.create_order(SYMBOL, "limit", "buy", 900_000, 100)),
            (ccxt.InsufficientFunds, lambda: self.eight.create_order(SYMBOL, "limit", "sell", 900_000, 100)),
            (ccxt.OrderImmediatelyFillable, lambda: self.eight.create_order(SYMBOL, "limit", "buy", 1, 100, {"postOnly": True})),
            (ccxt.InvalidOrder, lambda: self.eight.create_order(SYMBOL, "limit", "buy", 2, 100, {"timeInForce": "FOK"})),
            (ccxt.OrderNotFound, lambda: self.eight.cancel_order(other["id"], SYMBOL)),
            (ccxt.OrderNotFound, lambda: self.eight.fetch_order(other["id"], SYMBOL)),
            (ccxt.OrderNotFound, lambda: self.eight.cancel_order("999999", SYMBOL)),
            (ccxt.BadSymbol, lambda: self.eight.publicGetDepth({"symbol": "NOUSD"})),
            (ccxt.InvalidNonce, lambda: self.eight.privateGetAccount({"timestamp": 1_500_000_000_000})),
            (ccxt.BadRequest, lambda: self.eight.publicGetKlines({"symbol": "SPYUSD", "interval": "3m"})),
        ]:
            with self.assertRaises(error):
                call()
        stranger = exchange(ccxt.binance, "7")
        stranger.apiKey = "0123456789abcdef"
        with self.assertRaises(ccxt.AuthenticationError):
            stranger.fetch_balance()
        forger = exchange(ccxt.binance, "7")
        forger.secret = "0" * 64
        with self.assertRaises(ccxt.AuthenticationError):
            forger.fetch_balance()

    def test_the_same_client_id_is_the_same_order(self):
        params = {"clientOrderId": self.seven.uuid22()}
        one = self.seven.create_order(SYMBOL, "limit", "buy", 1, 50, params)
        two = self.seven.create_order(SYMBOL, "limit", "buy", 1, 50, params)
        self.assertEqual(one["info"], two["info"])
        with self.assertRaises(ccxt.InvalidOrder):
            self.seven.create_order(SYMBOL, "limit", "buy", 2, 50, params)
        found = self.seven.fetch_order(None, SYMBOL, params)
        self.assertEqual(found["id"], one["id"])


if __name__ == "__main__":
    unittest.main()
