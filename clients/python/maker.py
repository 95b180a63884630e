"""A market maker of one symbol, to start from: see docs/STRATEGIES.md.

It needs a market to quote in (`outcry-lab demo`) and outcry.py in the same directory, and makes twenty turns.
"""

import json
import time
import urllib.request
from decimal import Decimal

from outcry import Exchange, Refused, new_ref

ACCOUNT, SYMBOL, SHARES, EDGE = "9", "SPY", 10, Decimal("0.02")


def middle() -> Decimal:
    """Returns the price between the best bid and the best ask."""
    with urllib.request.urlopen(f"http://127.0.0.1:8080/api/v1/book/{SYMBOL}?depth=1") as answer:
        book = json.load(answer)
    (bid, _), (ask, _) = book["bids"][0], book["asks"][0]
    return ((Decimal(bid) + Decimal(ask)) / 2).quantize(Decimal("0.01"))


with Exchange() as exchange:
    # With a ref, each command is executed once, also if this program is started again.
    exchange.open_account(ACCOUNT, 100000, ref="maker-account")
    exchange.place(SYMBOL, ACCOUNT, 500, ref="maker-shares")
    cash = shares = Decimal(0)
    for turn in range(20):
        price = middle()
        quotes = [(1, exchange.buy(ACCOUNT, SYMBOL, SHARES, price - EDGE, ref=new_ref())),
                  (-1, exchange.sell(ACCOUNT, SYMBOL, SHARES, price + EDGE, ref=new_ref()))]
        time.sleep(0.5)
        for sign, order in quotes:
            try:
                exchange.cancel(ACCOUNT, order.id)
            except Refused:
                pass  # the order has executed completely
            for execution in exchange.query(ACCOUNT, order.id).executed:
                shares += sign * execution.shares
                cash -= sign * execution.shares * execution.price
    print(f"position {shares} {SYMBOL}, cash {cash}, worth {cash + shares * middle()} at the last price")
