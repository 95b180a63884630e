"""A market maker of one symbol over WebSocket, in 60 lines, to start from: see docs/STRATEGIES.md.

Its prices lean against its position, it leaves no order in the book, and it continues after a restart. It needs
a market (`outcry-lab demo`).
"""

import asyncio
from decimal import Decimal

from outcry import Exchange as Opener
from outcry_ws import AccountFeed, Book, ConnectionLost, Exchange, Refused, new_ref

ACCOUNT, SYMBOL, SHARES, EDGE, LEAN = "9", "SPY", 10, Decimal("0.02"), Decimal("0.0005")
TURNS = 20


class Maker:
    def __init__(self, exchange: Exchange):
        self.exchange, self.shares, self.cash = exchange, Decimal(0), Decimal(0)
        self.quotes: dict[int, tuple[int, Decimal]] = {}  # by side: order id, price

    async def follow(self, feed: AccountFeed) -> None:
        async for event in feed:
            for fill in event.fills:
                sign = 1 if fill.side == "buy" else -1
                self.shares, self.cash = self.shares + sign * fill.shares, self.cash - sign * fill.shares * fill.price
            is_open = {order.id: order.state == "open" for order in event.orders}
            self.quotes = {side: quote for side, quote in self.quotes.items()
                           if is_open.get(quote[0], not event.snapshot)}  # a snapshot has all open orders

    async def quote(self, side: int, price: Decimal) -> None:
        order, at = self.quotes.get(side, (0, None))
        if at == price:
            return
        try:
            moved = (await self.exchange.amend(ACCOUNT, order, limit=price) if order else
                     await self.exchange.order(ACCOUNT, SYMBOL, side * SHARES, price, post=True, cod=True, ref=new_ref()))
            self.quotes[side] = (moved.id, price)
        except ConnectionLost:
            self.quotes.clear()  # the exchange cancels them with the connection
        except Refused as refused:  # a quote that would execute at once is kept for now
            if refused.reason.startswith("already"):
                self.quotes.pop(side, None)  # it has executed: the next turn places a new one

    async def turn(self, book: Book) -> None:
        try:
            await asyncio.wait_for(book.changed(), 1)
        except asyncio.TimeoutError:
            pass  # no other account trades
        if book.in_step and book.bid and book.ask:
            middle = (book.bid.price + book.ask.price) / 2 - self.shares * LEAN
            await self.quote(1, (middle - EDGE).quantize(Decimal("0.01")))
            await self.quote(-1, (middle + EDGE).quantize(Decimal("0.01")))


async def main() -> None:
    with Opener() as opener:  # accounts are opened through the XML door; the ref makes that happen once
        opener.open_account(ACCOUNT, 100000, ref="maker-account")
        opener.place(SYMBOL, ACCOUNT, 500, ref="maker-shares")
    async with Exchange(cancel_on_disconnect=True) as exchange:
        maker, book = Maker(exchange), await exchange.book(SYMBOL, every="100ms")
        following = asyncio.create_task(maker.follow(await exchange.watch_account(ACCOUNT)))
        for _ in range(TURNS):
            await maker.turn(book)
        await exchange.cancel_all(ACCOUNT)
        following.cancel()
        print(f"position {maker.shares} {SYMBOL}, cash {maker.cash}")


asyncio.run(main())
