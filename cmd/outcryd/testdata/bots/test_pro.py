"""ccxt.pro, unmodified but for its hosts: its local book equals the exchange's, also over a crash, and its private
streams tell every order, execution and balance."""
import asyncio
import random
import time
import unittest

import ccxt.pro
from common import SYMBOL, ask, exchange, same

PATIENCE = 60


class Pro(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self):
        self.seven, self.eight = exchange(ccxt.pro.binance, "7"), exchange(ccxt.pro.binance, "8")
        await self.seven.load_markets()
        await self.eight.load_markets()
        for x in (self.seven, self.eight):
            try:
                await x.cancel_all_orders(SYMBOL)
            except ccxt.OrderNotFound:
                pass

    async def asyncTearDown(self):
        await self.seven.close()
        await self.eight.close()

    async def churn(self, random, n):
        """Places and cancels orders of both accounts."""
        for _ in range(n):
            x = random.choice((self.seven, self.eight))
            price, amount = 100 + random.randrange(-10, 11) / 10, random.randrange(1, 20) / 4
            try:
                order = await x.create_order(SYMBOL, "limit", random.choice(("buy", "sell")), amount, price)
                if random.random() < 0.4 and order["status"] == "open":
                    await x.cancel_order(order["id"], SYMBOL)
            except (ccxt.OrderNotFound, ccxt.InsufficientFunds):
                pass

    async def until_equal(self, watcher):
        """Waits until the local book, as it follows the stream, is what the exchange says."""
        end = time.monotonic() + PATIENCE
        while True:
            theirs = await self.seven.fetch_order_book(SYMBOL, 5000)
            ours = watcher.orderbooks.get(SYMBOL)
            if ours is not None and [list(ours["bids"]), list(ours["asks"])] == [theirs["bids"], theirs["asks"]]:
                return
            if time.monotonic() > end:
                self.fail(f"{ours} is not {theirs}")
            await asyncio.sleep(0.05)

    async def follow(self, watcher, errors):
        while True:
            try:
                await watcher.watch_order_book(SYMBOL)
            except ccxt.NetworkError as e:  # the exchange was killed: it connects again
                errors.append(e)
                await asyncio.sleep(0.05)

    async def test_the_local_book_is_the_book_also_after_a_crash(self):
        seed = time.time_ns()
        print("seed", seed)
        rng, errors = random.Random(seed), []
        watcher = exchange(ccxt.pro.binance, "7")
        following = asyncio.create_task(self.follow(watcher, errors))
        try:
            await self.churn(rng, 150)
            await self.until_equal(watcher)
            self.assertEqual(errors, [], "no break in the chain")
            await asyncio.to_thread(ask, "kill")
            await self.churn(rng, 50)
            await self.until_equal(watcher)
        finally:
            following.cancel()
            await watcher.close()

    async def test_private_streams_tell_what_was_done(self):
        orders = asyncio.create_task(self.gather(self.eight.watch_orders, 2))
        trades = asyncio.create_task(self.gather(self.eight.watch_my_trades, 1))
        balance = asyncio.create_task(self.eight.watch_balance())
        public = asyncio.create_task(self.gather(self.seven.watch_trades, 1, SYMBOL))
        ticker = asyncio.create_task(self.last_of(self.seven.watch_ticker, lambda t: t["last"]))
        candles = asyncio.create_task(self.last_of(lambda s: self.seven.watch_ohlcv(s, "1m"), lambda c: c[-1][4]))
        every, placed = [orders, trades, balance, public, ticker, candles], set()
        async with asyncio.timeout(PATIENCE):
            while not all(task.done() for task in every):  # each has to be subscribed; ccxt does not say when
                await self.seven.create_order(SYMBOL, "limit", "sell", 1, 130)
                placed.add((await self.eight.create_order(SYMBOL, "limit", "buy", 1, 130))["id"])
                await asyncio.wait(every, timeout=0.1)
            reported = await orders
            self.assertLessEqual({o["id"] for o in reported}, placed)
            closed = [o for o in reported if o["status"] == "closed"]  # of two reports in a row at least one
            self.assertNotEqual(closed, [])
            same(self, closed[-1]["average"], 130)
            mine = (await trades)[0]
            self.assertIn(mine["order"], placed)
            self.assertEqual(mine["takerOrMaker"], "taker")
            done = {t["id"] for t in await self.eight.fetch_my_trades(SYMBOL)}
            self.assertLessEqual({mine["id"], (await public)[-1]["id"]}, done)
            held = await self.eight.fetch_balance()
            while self.eight.balance["spot"]["USD"]["free"] != held["USD"]["free"]:
                await asyncio.sleep(0.01)
            await asyncio.gather(balance, ticker, candles)

    async def last_of(self, watch, last):
        """Waits until a stream has the last price."""
        while last(m := await watch(SYMBOL)) is None or float(last(m)) != 130:
            pass

    async def gather(self, watch, n, *symbol):
        found = []
        while len(found) < n:
            found += await watch(*symbol)
        return found

    async def test_orders_over_the_websocket(self):
        order = await self.seven.create_order_ws(SYMBOL, "limit", "buy", 1, 60)
        self.assertEqual(order["status"], "open")
        same(self, (await self.seven.fetch_order_ws(order["id"], SYMBOL))["remaining"], 1)
        self.assertIn(order["id"], [o["id"] for o in await self.seven.fetch_open_orders_ws(SYMBOL)])
        edited = await self.seven.edit_order_ws(order["id"], SYMBOL, "limit", "buy", 2, 61)
        self.assertNotEqual(edited["id"], order["id"])
        held = await self.seven.fetch_balance_ws()
        locked = {b["asset"]: b["locked"] for b in held["info"]["balances"]}  # ccxt itself leaves the rest out here
        same(self, locked["USD"], 122)
        canceled = await self.seven.cancel_order_ws(edited["id"], SYMBOL)
        self.assertEqual(canceled["status"], "canceled")
        with self.assertRaises(ccxt.InsufficientFunds):
            await self.seven.create_order_ws(SYMBOL, "limit", "buy", 900_000, 60)


if __name__ == "__main__":
    unittest.main()
