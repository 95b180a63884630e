// JSON-RPC 2.0 over one WebSocket, which reconnects whenever it ends. docs/reference/WEBSOCKET.md
// has the methods. The page has a connection only while an account is chosen.

// Pauses before a new attempt, in milliseconds: from the first, doubled each time, up to the last.
const pauseFirst = 400;
const pauseLast = 5000;

// A browser does not report the server's pings. So the page sends its own, and a connection that
// has not answered one when the next is due counts as dead.
const pingEvery = 10_000;

const callsMost = 256; // maximum number in flight; the server accepts 1,024
const endedByServer = 4001; // the close code of a token that is wrong, revoked or missing

/** The exchange has refused a call, or the call is malformed. */
export class Refused extends Error {
  constructor({ code, message, data }) {
    super(message);
    this.code = code;
    this.reason = data?.reason ?? "";
  }
}

/** The connection ended before the answer: the call was executed completely or not at all. */
export class Lost extends Error {}

/**
 * One connection at a time. Handlers: begin() once it is open; event(channel, data); lost(why) when
 * it has ended and is tried again; ended(why) when the exchange has ended it permanently.
 */
export class Socket {
  constructor(handlers) {
    this.handlers = handlers;
    this.web = null;
    this.calls = new Map(); // by id, calls without an answer
    this.lastID = 0;
    this.failures = 0;
    this.retry = 0;
    this.asked = false; // a ping is unanswered
    this.pinging = 0;
  }

  /** Reports whether calls can be made. */
  get isOpen() {
    return this.web?.readyState === WebSocket.OPEN;
  }

  connect() {
    this.close();
    const web = new WebSocket(`${location.origin.replace(/^http/, "ws")}/api/v1/ws`);
    this.web = web;
    web.onopen = () => {
      if (this.web !== web) return;
      this.asked = false;
      this.pinging = setInterval(() => this.ping(), pingEvery);
      this.handlers.begin();
    };
    web.onmessage = ({ data }) => {
      if (this.web !== web) return; // it was closed before this event was delivered
      this.take(JSON.parse(data));
    };
    web.onclose = ({ code, reason }) => {
      if (this.web === web) this.fail(code, reason);
    };
  }

  /** Closes the connection until connect is called. Unanswered calls fail with Lost. */
  close() {
    clearTimeout(this.retry);
    clearInterval(this.pinging);
    const web = this.web;
    this.web = null;
    web?.close();
    const calls = [...this.calls.values()];
    this.calls.clear();
    for (const { reject } of calls) reject(new Lost("The connection ended before the answer"));
  }

  /** Marks the connection as working: when it ends, the next attempt follows soon. */
  settle() {
    this.failures = 0;
  }

  /** Reconnects, because the connection may be dead although the browser has not reported it. */
  again() {
    if (this.web !== null) this.fail(0, "");
  }

  fail(code, reason) {
    this.close();
    if (code === endedByServer) {
      this.handlers.ended(reason);
      return;
    }
    const pause = Math.min(pauseFirst * 2 ** this.failures++, pauseLast) * (0.8 + 0.4 * Math.random());
    this.retry = setTimeout(() => this.connect(), pause);
    this.handlers.lost(reason);
  }

  /** Calls a method. The promise has its result, or fails with Refused or Lost. */
  call(method, params) {
    if (!this.isOpen) return Promise.reject(new Lost("There is no connection to the exchange"));
    if (this.calls.size >= callsMost) return Promise.reject(new Refused({ code: 0, message: "too many calls are in flight; try again" }));
    const id = ++this.lastID;
    return new Promise((resolve, reject) => {
      this.calls.set(id, { resolve, reject });
      this.web.send(JSON.stringify({ jsonrpc: "2.0", id, method, params }));
    });
  }

  take(message) {
    if (message.method === "subscription") {
      this.handlers.event(message.params.channel, message.params.data);
      return;
    }
    const call = this.calls.get(message.id);
    this.calls.delete(message.id);
    if (message.error === undefined) call?.resolve(message.result);
    else call?.reject(new Refused(message.error));
  }

  async ping() {
    if (this.asked) {
      this.again();
      return;
    }
    this.asked = true;
    try {
      await this.call("ping");
      this.asked = false;
    } catch {
      // The connection has ended since, and the next one starts from the beginning.
    }
  }
}
