"""Trades with an exchange: trade.py PORT PART ORDERS HTTP [refs] [operate] [parts] [instructed].
What it sends follows from its arguments. Part 0 only asks for an order; part 1 opens
accounts first. With refs, some requests have one, and some of these are sent twice. With
operate, symbols are halted and resumed, and all that an account has open is canceled.
With parts, each part ends with an order that executes in two. With instructed, orders have
instructions and are amended, and accounts and symbols get rules."""

import random
import socket
import sys
import urllib.parse
import urllib.request

port, part, orders, http = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
refs, operate, parts, instructed = (word in sys.argv[5:] for word in ("refs", "operate", "parts", "instructed"))
connection = socket.create_connection(("127.0.0.1", port))
replies = connection.makefile("rb")


def ask(xml):
    connection.sendall(b"%d\n%s" % (len(xml), xml.encode()))
    return replies.read(int(replies.readline())).decode()


def ref(name):
    return f' ref="{name}"' if refs else ""


def post(path, **values):
    request = urllib.request.Request(f"http://{http}/admin/{path}?{urllib.parse.urlencode(values)}", method="POST")
    urllib.request.urlopen(request).read()


if part == 0:
    ask('<transactions id="1"><query id="1"/></transactions>')
if part == 1:
    reply = ask('<create><account id="1" balance="100000.25"/><account id="2" balance="0"/><account id="3" balance="77.00000001"/>'
                '<symbol sym="SPY"><account id="1">500.5</account><account id="2">1000</account></symbol>'
                '<symbol sym="ACME"><account id="2">20000</account></symbol></create>')
    assert "error" not in reply, reply
if part == 2:
    ask(f'<create><account id="4" balance="12345"{ref("opened")}/><symbol sym="NEW"><account id="4"{ref("placed")}>10</account></symbol></create>')
r, more = random.Random(part), random.Random(10 + part)
instructions = ["", "", "", ' post="yes"', ' tif="IOC"', ' tif="FOK"', ' type="market"', ' stp="newest"', ' stp="oldest"', ' stp="both"']
if part == 1:
    instructions.append(' cod="yes"')  # part 2 ends with a kill
accepted = []
if instructed and part:
    post("symbol", sym="ACME", tick="0.00000005", protect="20%", band="90%")
    post("limits", account=3, stp="oldest", open=40)
    ask('<transactions id="1"><cancel-after seconds="3600"/></transactions>')
if operate and part:
    post("halt", sym="NEW" if part == 2 else "ACME", reason='not "known" yet & <unsafe>')
for n in range(orders):
    if operate and n == orders // 2:
        post("cancel-all", account=2)
        post("cancel-all", account=1, sym="SPY")
        if part == 1:
            post("resume", sym="ACME")
            post("halt", sym="SPY")
            post("resume", sym="SPY")
    account = r.choice("112223" + "4" * (part - 1))
    amount = r.choice([-1, 1]) * r.choice([1, 2.5, 10, 0.00000001])
    limit = 10 + r.randrange(-40, 40) / 100
    name = ref(f"{part}.{n}") if n % 10 == 0 else ""
    extra = more.choice(instructions) if instructed else ""
    frame = f'<transactions id="{account}"><order sym="{r.choice(["SPY", "ACME"])}" amount="{amount:.8f}" limit="{limit}"{extra}{name}/></transactions>'
    reply = ask(frame)
    assert not name or n % 20 or ask(frame) == reply
    if "<opened" in reply:
        accepted.append((account, reply.split('id="')[1].split('"')[0]))
    if accepted and r.randrange(6) == 0:
        account, order = accepted.pop(r.randrange(len(accepted)))
        ask(f'<transactions id="{account}"><cancel id="{order}"/></transactions>')
    if instructed and accepted and more.randrange(5) == 0:
        account, order = more.choice(accepted)
        change = more.choice([f'amount="{amount:.8f}"', f'limit="{limit}"', f'amount="{amount:.8f}" limit="{limit}"'])
        ask(f'<transactions id="{account}"><amend id="{order}" {change} newref="a{part}.{n}"/></transactions>')
    if instructed and n == orders // 3:
        ask('<transactions id="3"><cancel-all sym="SPY"/></transactions>')
        post("block", account=2, reason="asked to")
        post("unblock", account=2)
if instructed and part:  # or a start in an hour would cancel all
    ask('<transactions id="1"><cancel-after seconds="0"/></transactions>')
if parts and part:
    ask('<create><symbol sym="LONG"><account id="2">1</account></symbol></create>')
    for _ in range(10):  # 4100 orders: a part of an order fills 4096
        ask('<transactions id="2">' + 410 * '<order sym="LONG" amount="-0.00000001" limit="5"/>' + "</transactions>")
    reply = ask('<transactions id="1"><order sym="LONG" amount="0.00004101" limit="5"/></transactions>')
    assert "<opened" in reply, reply
