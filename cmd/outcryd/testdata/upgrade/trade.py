"""Trades with an exchange: trade.py PORT PART [ORDERS]. What it sends follows from its
arguments. Part 0 only asks for an order; part 1 opens accounts first."""

import random
import socket
import sys

port, part = int(sys.argv[1]), int(sys.argv[2])
orders = int(sys.argv[3]) if len(sys.argv) > 3 else 0
connection = socket.create_connection(("127.0.0.1", port))
replies = connection.makefile("rb")


def ask(xml):
    connection.sendall(b"%d\n%s" % (len(xml), xml.encode()))
    return replies.read(int(replies.readline())).decode()


if part == 0:
    ask('<transactions id="1"><query id="1"/></transactions>')
if part == 1:
    reply = ask('<create><account id="1" balance="100000.25"/><account id="2" balance="0"/><account id="3" balance="77.00000001"/>'
                '<symbol sym="SPY"><account id="1">500.5</account><account id="2">1000</account></symbol>'
                '<symbol sym="ACME"><account id="2">20000</account></symbol></create>')
    assert "error" not in reply, reply
if part == 2:
    ask('<create><account id="4" balance="12345"/><symbol sym="NEW"><account id="4">10</account></symbol></create>')
r = random.Random(part)
accepted = []
for _ in range(orders):
    account = r.choice("112223" + "4" * (part - 1))
    amount = r.choice([-1, 1]) * r.choice([1, 2.5, 10, 0.00000001])
    limit = 10 + r.randrange(-40, 40) / 100
    reply = ask(f'<transactions id="{account}"><order sym="{r.choice(["SPY", "ACME"])}" amount="{amount:.8f}" limit="{limit}"/></transactions>')
    if "<opened" in reply:
        accepted.append((account, reply.split('id="')[1].split('"')[0]))
    if accepted and r.randrange(6) == 0:
        account, order = accepted.pop(r.randrange(len(accepted)))
        ask(f'<transactions id="{account}"><cancel id="{order}"/></transactions>')
