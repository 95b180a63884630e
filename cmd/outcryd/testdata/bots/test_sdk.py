"""The official Python SDK for spot, with nothing but its addresses and its patience set."""
import asyncio
import unittest
import uuid

from binance_sdk_spot.spot import ConfigurationRestAPI, ConfigurationWebSocketAPI, ConfigurationWebSocketStreams, Spot
from binance_common.errors import BadRequestError, UnauthorizedError
from common import ADDRESS, KEYS

WS = "ws://" + ADDRESS + "/binance"


def spot(account, secret=None):
    key, own = KEYS[account].split(":")
    return Spot(
        config_rest_api=ConfigurationRestAPI(
            api_key=key, api_secret=secret or own, base_path="http://" + ADDRESS + "/binance", timeout=60_000),
        config_ws_api=ConfigurationWebSocketAPI(api_key=key, api_secret=own, stream_url=WS + "/ws-api/v3"),
        config_ws_streams=ConfigurationWebSocketStreams(stream_url=WS),
    )


class Rest(unittest.TestCase):
    def setUp(self):
        self.seven, self.eight = spot("7").rest_api, spot("8").rest_api
        for x in (self.seven, self.eight):
            try:
                x.delete_open_orders("SPYUSD")
            except BadRequestError:
                pass

    def test_orders(self):
        placed = self.seven.new_order(symbol="SPYUSD", side="SELL", type="LIMIT", time_in_force="GTC", quantity=2,
                                      price=140.5, new_client_order_id=uuid.uuid4().hex).data()
        self.assertEqual(placed.status, "NEW")
        taken = self.eight.new_order(symbol="SPYUSD", side="BUY", type="MARKET", quantity=1).data()
        self.assertEqual((taken.status, taken.cummulative_quote_qty), ("FILLED", "140.50000000"))
        found = self.seven.get_order(symbol="SPYUSD", order_id=placed.order_id).data()
        self.assertEqual((found.status, found.executed_qty), ("PARTIALLY_FILLED", "1.00000000"))
        self.assertEqual(len(self.seven.get_open_orders(symbol="SPYUSD").data()), 1)
        self.assertTrue(any(o.order_id == placed.order_id for o in self.seven.all_orders(symbol="SPYUSD").data()))
        self.assertEqual(self.seven.my_trades(symbol="SPYUSD").data()[-1].order_id, placed.order_id)
        replaced = self.seven.order_cancel_replace(
            symbol="SPYUSD", side="SELL", type="LIMIT", time_in_force="GTC", quantity=1, price=141,
            cancel_replace_mode="STOP_ON_FAILURE", cancel_order_id=placed.order_id).data()
        self.assertEqual(replaced.new_order_response.status, "NEW")
        self.assertEqual(self.seven.delete_order(symbol="SPYUSD", order_id=replaced.new_order_response.order_id).data().status,
                         "CANCELED")
        account = self.seven.get_account().data()
        self.assertTrue(account.can_trade)
        self.assertEqual({b.asset for b in account.balances} >= {"USD", "SPY"}, True)

    def test_market(self):
        self.assertEqual(self.seven.exchange_info(symbol="SPYUSD").data().symbols[0].status, "TRADING")
        self.assertIsNotNone(self.seven.depth(symbol="SPYUSD").data().last_update_id)
        self.seven.klines(symbol="SPYUSD", interval="1m").data()
        self.seven.ticker24hr(symbol="SPYUSD").data()
        self.seven.ticker_book_ticker(symbol="SPYUSD").data()

    def test_refusals(self):
        with self.assertRaises(BadRequestError) as caught:
            self.eight.new_order(symbol="SPYUSD", side="BUY", type="LIMIT", time_in_force="GTC", quantity=900000, price=1)
        self.assertIn("insufficient balance", str(caught.exception))
        with self.assertRaises(BadRequestError):
            self.eight.get_order(symbol="SPYUSD", order_id=999999)
        with self.assertRaises((BadRequestError, UnauthorizedError)):
            spot("7", secret="0" * 64).rest_api.get_account()


class Streams(unittest.IsolatedAsyncioTestCase):
    async def test_trades_and_depth(self):
        messages = asyncio.Queue()
        connection = await spot("7").websocket_streams.create_connection()
        try:
            depth = await connection.diff_book_depth(symbol="spyusd", update_speed="100ms")
            depth.on("message", lambda m: messages.put_nowait(("depth", m)))
            trades = await connection.trade(symbol="spyusd")
            trades.on("message", lambda m: messages.put_nowait(("trade", m)))
            seven, eight = spot("7").rest_api, spot("8").rest_api
            await asyncio.to_thread(seven.new_order, symbol="SPYUSD", side="SELL", type="LIMIT", time_in_force="GTC",
                                    quantity=1, price=150)
            await asyncio.to_thread(eight.new_order, symbol="SPYUSD", side="BUY", type="MARKET", quantity=1)
            seen = set()
            async with asyncio.timeout(60):
                while seen != {"depth", "trade"}:
                    seen.add((await messages.get())[0])
        finally:
            await connection.close_connection(close_session=True)

    async def test_orders_over_the_websocket(self):
        connection = await spot("7").websocket_api.create_connection()
        try:
            placed = (await connection.order_place(symbol="SPYUSD", side="BUY", type="LIMIT", time_in_force="GTC",
                                                   quantity=1, price=40)).data().result
            self.assertEqual(placed.status, "NEW")
            canceled = (await connection.order_cancel(symbol="SPYUSD", order_id=placed.order_id)).data().result
            self.assertEqual(canceled.status, "CANCELED")
        finally:
            await connection.close_connection(close_session=True)


if __name__ == "__main__":
    unittest.main()
