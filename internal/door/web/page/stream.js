// The connection to the exchange: server-sent events, which reconnect whenever they stop.

const kinds = ["hello", "symbols", "book", "trades", "candles", "health"];

// Pauses before a new attempt, in milliseconds: from the first, doubled each time, up to the last.
const pauseFirst = 400;
const pauseLast = 5000;

// The health event arrives every second. A connection that is silent for this time is dead,
// even if the browser has not reported it.
const silenceMost = 5000;

/**
 * One stream at a time. Handlers: event(kind, data); live() once events arrive;
 * lost(why) when they stop, and again when the reason is known, which is often only
 * after a failed attempt; unknown() if the exchange has no such symbol.
 */
export class Stream {
  constructor(handlers) {
    this.handlers = handlers;
    this.sym = "";
    this.depth = 0;
    this.interval = "";
    this.source = null;
    this.failures = 0;
    this.retry = 0;
    this.heard = 0;
    setInterval(() => this.watch(), 1000);
  }

  /** Subscribes to a symbol, "" for only the list of symbols, with a number of levels, and candles of an interval, "" for none. */
  open(sym, depth, interval) {
    this.sym = sym;
    this.depth = depth;
    this.interval = interval;
    this.failures = 0;
    this.connect();
  }

  /** Closes the connection until open is called. It calls no handler. */
  close() {
    clearTimeout(this.retry);
    this.source?.close();
    this.source = null;
  }

  connect() {
    this.close();
    const query = new URLSearchParams({ depth: String(this.depth) });
    if (this.sym !== "") query.set("sym", this.sym);
    if (this.sym !== "" && this.interval !== "") query.set("interval", this.interval);
    const source = new EventSource(`/api/v1/stream?${query}`);
    this.source = source;
    this.heard = performance.now();
    for (const kind of kinds) {
      source.addEventListener(kind, (event) => {
        if (this.source !== source) return; // it was closed before this event was delivered
        this.heard = performance.now();
        this.handlers.event(kind, JSON.parse(event.data));
        if (kind === "hello") {
          this.failures = 0;
          this.handlers.live();
        }
      });
    }
    source.onerror = () => {
      if (this.source === source) this.fail("The connection to the exchange is lost");
    };
  }

  /** Retries. The browser's own retry is not used, because it gives up after an error status. */
  async fail(what) {
    this.close();
    const pause = Math.min(pauseFirst * 2 ** this.failures++, pauseLast) * (0.8 + 0.4 * Math.random());
    this.retry = setTimeout(() => this.connect(), pause);
    const mine = this.retry;
    if (this.failures === 1) this.handlers.lost(what); // a screen reader would announce each later one
    const why = await this.reason();
    if (this.retry !== mine || this.source !== null) return; // another attempt has begun
    if (why === unknownSymbol) {
      clearTimeout(this.retry);
      this.handlers.unknown();
    } else {
      this.handlers.lost(why || what);
    }
  }

  /** Requests the reason why there are no events, because the stream does not report its status. */
  async reason() {
    const path = this.sym === "" ? "symbols?limit=1" : `book/${encodeURIComponent(this.sym)}?depth=1`;
    try {
      const answer = await fetch(`/api/v1/${path}`, { signal: AbortSignal.timeout(3000) });
      if (answer.ok) return "";
      if (answer.status === 404) return unknownSymbol;
      return `The exchange says: ${(await answer.json()).error}`;
    } catch {
      return "The exchange cannot be reached";
    }
  }

  watch() {
    if (this.source !== null && performance.now() - this.heard > silenceMost) {
      this.fail("The exchange does not answer");
    }
  }
}

const unknownSymbol = Symbol("unknown symbol");
