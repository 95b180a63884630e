"""Runs the cases of autobahntestsuite against a server, and prints the result of each as JSON.

Usage: autobahn.py HOST PORT

The suite is made for Python 2. Its cases, which say what is sent and what has to come back, are translated by fissix
and used as they are; what the suite takes from Twisted and Autobahn, a client that can send any frame, is here.
Text and bytes were one in Python 2: here text stands for the bytes of its Latin-1.
"""

import base64
import collections
import heapq
import importlib
import importlib.util
import json
import os
import pathlib
import re
import select
import socket
import struct
import sys
import tempfile
import time
import types

from fissix.refactor import RefactoringTool, get_fixers_from_package

PATIENCE = 10  # seconds for a connection, and for the server to end TCP


def octets(x):
    return x if isinstance(x, bytes) else x.encode("latin-1")


def same(x):
    """Text as its bytes, within lists and tuples too."""
    if isinstance(x, str):
        return octets(x)
    return [same(one) for one in x] if isinstance(x, (list, tuple)) else x


class WebSocketProtocol:
    STATE_CLOSED, STATE_OPEN, STATE_CLOSING = range(3)
    CLOSE_STATUS_CODE_NORMAL = 1000
    CLOSE_STATUS_CODE_GOING_AWAY = 1001
    CLOSE_STATUS_CODE_PROTOCOL_ERROR = 1002
    CLOSE_STATUS_CODE_INVALID_PAYLOAD = 1007


class Utf8Validator:
    def reset(self):
        pass

    def validate(self, b):
        try:
            octets(b).decode("utf-8")
        except UnicodeDecodeError:
            return False, False, 0, 0
        return True, True, len(b), len(b)


def modules():
    """The modules that cases import, in which there is what they use."""
    for name, has in {"autobahn": {}, "autobahn.websocket": {},
                      "autobahn.websocket.protocol": {"WebSocketProtocol": WebSocketProtocol},
                      "autobahn.websocket.utf8validator": {"Utf8Validator": Utf8Validator},
                      "hexes": {"b2a_hex": lambda b: octets(b).hex(),
                                "a2b_hex": lambda text: bytes.fromhex(text).decode("latin-1")}}.items():
        sys.modules[name] = types.ModuleType(name)
        vars(sys.modules[name]).update(has)


def cases():
    """The classes of cases, by their ids; those about compression are left out."""
    suite = pathlib.Path(importlib.util.find_spec("autobahntestsuite").origin).parent / "case"
    tool = RefactoringTool(get_fixers_from_package("fissix.fixes"))
    found = {}
    with tempfile.TemporaryDirectory() as top:
        package = pathlib.Path(top) / "cases"
        package.mkdir()
        for file in suite.glob("case*.py"):
            if file.name.startswith(("case12", "case9_9")):  # the latter is not among the suite's own either
                continue
            text = file.read_text("latin-1")
            if not text.endswith("\n"):
                text += "\n"
            text = re.sub(r"^from (case\w*) import", r"from .\1 import", text, flags=re.M)
            text = text.replace("(object, Case, )", "(Case, )").replace(" / self.p.auto", " // self.p.auto")
            text = re.sub(r"^import binascii", "import hexes as binascii", text, flags=re.M)
            (package / file.name).write_text(str(tool.refactor_string(text, file.name)), "utf-8")
        (package / "__init__.py").touch()
        sys.path.insert(0, top)
        for file in package.glob("case[0-9]*.py"):
            module = importlib.import_module("cases." + file.stem)
            for value in vars(module).values():
                for one in value if isinstance(value, list) else [value]:
                    if isinstance(one, type) and re.fullmatch(r"Case\d+(_\d+)+", one.__name__):
                        found[one.__name__[4:].replace("_", ".")] = one
    case = importlib.import_module("cases.case").Case
    case.compare = lambda self, x, y: same(x) == same(y)
    return found


class Client(WebSocketProtocol):
    """What a case calls its protocol: one connection."""

    autoFragmentSize = 0
    createWirelog = False

    def __init__(self, host, port):
        self.factory = types.SimpleNamespace(isServer=False)
        self.timers, self.order = [], 0
        self.data, self.message, self.opcode = b"", b"", 0
        self.connectionWasOpen = self.closedByMe = self.failedByMe = self.droppedByMe = self.wasClean = False
        self.closeSent = self.closeCame = False
        self.remoteCloseCode = self.remoteCloseReason = self.localCloseCode = self.localCloseReason = None
        self.txFrameStats = collections.Counter()
        self.state = self.STATE_CLOSED
        self.socket = socket.create_connection((host, port), PATIENCE)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        key = base64.b64encode(os.urandom(16)).decode()
        self.socket.sendall((f"GET / HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
                             f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n\r\n").encode())
        while b"\r\n\r\n" not in self.data:
            self.data += self.socket.recv(1 << 16) or sys.exit("the server ends the handshake")
        head, self.data = self.data.split(b"\r\n\r\n", 1)
        if not head.startswith(b"HTTP/1.1 101 "):
            sys.exit(f"the server answers {head}")
        self.state, self.connectionWasOpen = self.STATE_OPEN, True

    # What cases ask for.

    def enableWirelog(self, _):
        pass

    def sendFrame(self, opcode, payload=b"", fin=True, rsv=0, mask=None, payload_len=None, chopsize=None, sync=False):
        payload = octets(payload)
        if payload_len is not None:
            payload = (payload * (payload_len // len(payload) + 1))[:payload_len]
        self.txFrameStats[opcode] += 1
        n, mask = len(payload), os.urandom(4)
        b = bytes([(0x80 if fin else 0) | rsv << 4 | opcode])
        if n < 126:
            b += bytes([0x80 | n])
        elif n < 1 << 16:
            b += struct.pack(">BH", 0x80 | 126, n)
        else:
            b += struct.pack(">BQ", 0x80 | 127, n)
        b += mask + bytes(one ^ mask[i & 3] for i, one in enumerate(payload))
        try:
            for at in range(0, len(b), chopsize or len(b)):
                self.socket.sendall(b[at:at + (chopsize or len(b))])
        except OSError:
            pass  # the server has ended the connection, and reading says so

    def sendMessage(self, payload, isBinary=False, fragmentSize=None):
        payload, size = octets(payload), fragmentSize or self.autoFragmentSize or max(len(payload), 1)
        for at in range(0, max(len(payload), 1), size):
            opcode = 0 if at else 2 if isBinary else 1
            self.sendFrame(opcode, payload[at:at + size], fin=at + size >= len(payload))

    def beginMessage(self):
        self.opcodeOut = 1

    def beginMessageFrame(self, length):
        """Of a frame whose payload comes later, the header."""
        b = struct.pack(">BBQ", self.opcodeOut, 0x80 | 127, length) + bytes(4)
        self.socket.sendall(b)

    def sendMessageFrameData(self, payload, sync=False):
        try:
            self.socket.sendall(octets(payload))
        except OSError:
            pass

    def endMessage(self):
        self.sendFrame(0)

    def sendClose(self, code=None, reason=None):
        if self.state == self.STATE_OPEN:
            self.sendCloseFrame(code if code is not None else self.CLOSE_STATUS_CODE_NORMAL, reason)

    def sendCloseFrame(self, code=None, reasonUtf8=None, isReply=False):
        payload = b"" if code is None else struct.pack(">H", code)
        if reasonUtf8:
            payload += octets(reasonUtf8)
        self.localCloseCode, self.localCloseReason = code, reasonUtf8
        self.sendFrame(8, payload)
        self.closeSent, self.closedByMe = True, self.closedByMe or not isReply
        self.state = self.STATE_CLOSING
        self.later(PATIENCE, self.drop)

    def later(self, delay, what):
        self.order += 1
        heapq.heappush(self.timers, (time.monotonic() + delay, self.order, what))

    def continueLater(self, delay, what, tag=None):
        self.later(delay, what)

    def closeAfter(self, delay):
        self.later(delay, self.sendClose)

    def killAfter(self, delay):
        self.later(delay, self.fail)

    def fail(self):
        self.failedByMe = True
        if self.state == self.STATE_OPEN:
            self.sendCloseFrame(self.CLOSE_STATUS_CODE_GOING_AWAY)
        elif not self.closeCame:
            self.drop()

    def drop(self):
        if self.state != self.STATE_CLOSED:
            self.droppedByMe, self.state = True, self.STATE_CLOSED

    # What comes.

    def run(self, case):
        case.onOpen()
        self.frames(case)
        while self.state != self.STATE_CLOSED:
            wait = max(0, self.timers[0][0] - time.monotonic()) if self.timers else PATIENCE
            ready, _, _ = select.select([self.socket], [], [], wait)
            if ready:
                try:
                    more = self.socket.recv(1 << 16)
                except OSError:
                    more = b""
                if not more:
                    self.wasClean = self.closeSent and self.closeCame
                    self.state = self.STATE_CLOSED
                self.data += more
                self.frames(case)
            elif not self.timers:
                self.drop()
            while self.timers and self.timers[0][0] <= time.monotonic() and self.state != self.STATE_CLOSED:
                heapq.heappop(self.timers)[2]()
        self.socket.close()
        case.onConnectionLost(self.failedByMe)

    def frames(self, case):
        while len(self.data) >= 2:
            n, at = self.data[1] & 0x7f, 2
            if n == 126:
                n, at = struct.unpack_from(">H", self.data.ljust(4), 2)[0], 4
            elif n == 127:
                n, at = struct.unpack_from(">Q", self.data.ljust(10), 2)[0], 10
            if len(self.data) < at + n:
                return
            first, payload, self.data = self.data[0], self.data[at:at + n], self.data[at + n:]
            assert first & 0x70 == 0, "reserved bits of the server"
            if not self.closeCame:
                self.frame(case, first & 0xf, first & 0x80 != 0, payload)

    def frame(self, case, opcode, fin, payload):
        if opcode == 8:
            self.closeCame = True
            if len(payload) >= 2:
                self.remoteCloseCode, self.remoteCloseReason = struct.unpack_from(">H", payload)[0], payload[2:]
            if not self.closeSent:
                self.sendCloseFrame(self.remoteCloseCode, isReply=True)
        elif opcode == 9:
            self.sendFrame(10, payload)
            case.onPing(payload)
        elif opcode == 10:
            case.onPong(payload)
        else:
            self.opcode, self.message = opcode or self.opcode, self.message + payload
            if fin:
                message, self.message = self.message, b""
                case.onMessage(message, self.opcode == 2)


def main():
    host, port, *left_out = sys.argv[1:]
    modules()
    report = {}
    for name, one in sorted(cases().items(), key=lambda pair: [int(n) for n in pair[0].split(".")]):
        if any(name == out or out.endswith("*") and name.startswith(out[:-1]) for out in left_out):
            continue
        client = Client(host, int(port))
        case = one(client)
        client.run(case)
        report[name] = {"behavior": case.behavior, "behaviorClose": case.behaviorClose,
                        "result": f"{case.result} {case.resultClose}"}
    json.dump(report, sys.stdout)


main()
