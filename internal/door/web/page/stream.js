// The connection to the exchange: server-sent events, reconnected whenever they stop.

const kinds = ["hello", "symbols", "book", "trades", "candles", "health"];

// Pauses before a new try, in milliseconds: the first, doubled each time up to the last.
const pauseFirst = 400;
const pauseLast = 5000;

// Health comes every second. A connection that tells nothing for so long is dead,
// even where nobody has said so.
const silenceMost = 5000;

/**
 * One stream at a time. Handlers: event(kind, data); live() once events come;
 * lost(why) when they stop, and again when it is known why, which is often so only
 * after a try that failed; unknown() where the exchange has no such symbol.
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

  /** Follows a symbol, "" for none but the list of symbols, with so many levels, and candles of an interval, "" for none. */
  open(sym, depth, interval) {
    this.sym = sym;
    this.depth = depth;
    this.interval = interval;
    this.failures = 0;
    this.connect();
  }

  /** Ends the connection until open. It calls no handler. */
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
        if (this.source !== source) return; // it was closed before this was handed over
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

  /** The browser's own way to try again is not taken: it gives up after an error status. */
  async fail(what) {
    this.close();
    const pause = Math.min(pauseFirst * 2 ** this.failures++, pauseLast) * (0.8 + 0.4 * Math.random());
    this.retry = setTimeout(() => this.connect(), pause);
    const mine = this.retry;
    if (this.failures === 1) this.handlers.lost(what); // later ones are no news: a listener would hear of each
    const why = await this.reason();
    if (this.retry !== mine || this.source !== null) return; // it goes on already
    if (why === unknownSymbol) {
      clearTimeout(this.retry);
      this.handlers.unknown();
    } else {
      this.handlers.lost(why || what);
    }
  }

  /** Asks why there are no events, because the stream does not report its status. */
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
      this.fail("The exchange has gone silent");
    }
  }
}

const unknownSymbol = Symbol("unknown symbol");
