"""What the tests of bots share. The program that runs them restarts the exchange when a line of ours asks for it."""
import os
import re
import sys
import unittest
from decimal import Decimal

ADDRESS = os.environ["OUTCRY_TEST_HTTP"]
KEYS = dict(word.split("=") for word in os.environ["OUTCRY_TEST_KEYS"].split())  # account -> key:secret
SYMBOL = "SPY/USD"


def hosts(urls):
    """Replaces nothing but the hosts in the addresses of a client."""
    if isinstance(urls, dict):
        return {name: hosts(url) for name, url in urls.items()}
    if isinstance(urls, str):
        return re.sub(r"^(http|ws)s://[^/]+", r"\1://" + ADDRESS + "/binance", urls)
    return urls


def exchange(kind, account, **more):
    """Returns a client of ccxt, unmodified but for its hosts. Numbers stay as the exchange wrote them."""
    key, secret = KEYS[account].split(":")
    x = kind({"apiKey": key, "secret": secret, "enableRateLimit": False, **more})
    x.urls["api"] = hosts(x.urls["api"])
    x.number = str
    return x


def ask(what):
    """Asks the program that runs the tests to do something, and waits until it has."""
    print("ASK", what, flush=True)
    answer = sys.stdin.readline().strip()
    if answer != "DONE":
        raise AssertionError(f"{what}: {answer}")


def same(test, got, wanted):
    test.assertEqual(Decimal(str(got)), Decimal(str(wanted)))


if __name__ == "__main__":
    unittest.main()
