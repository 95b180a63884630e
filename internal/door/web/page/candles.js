// The candles of one symbol and interval, as the exchange computes them.

const kept = 300; // number of the newest candles requested
const retryPause = 3000; // milliseconds after a failed request

export class Candles {
  /** changed() is called when an answer has more to show. */
  constructor(sym, interval, changed) {
    this.sym = sym;
    this.interval = interval;
    this.changed = changed;
    this.list = []; // oldest first
    this.began = false; // the first answer has arrived
    this.asks = false;
    this.ended = false;
    this.retry = 0;
    this.load();
  }

  /** Ends all requests. */
  end() {
    this.ended = true;
    clearTimeout(this.retry);
  }

  /** Adds the candles of an event, and requests missing ones before them. */
  take(candles) {
    if (!this.began) return; // the answer will include them
    const last = this.list.at(-1);
    const gap = candles.length > 0 && candles[0].first > (last === undefined ? 1 : last.first + last.trades);
    for (const c of candles) this.put(c);
    if (gap) this.load();
  }

  /** Adds a candle, unless a newer state of it is known. */
  put(c) {
    const at = this.list.findLastIndex((known) => known.start_ms <= c.start_ms);
    if (this.list[at]?.start_ms !== c.start_ms) this.list.splice(at + 1, 0, c);
    else if (c.trades >= this.list[at].trades) this.list[at] = c;
  }

  async load() {
    if (this.asks) return;
    this.asks = true;
    const query = new URLSearchParams({ interval: this.interval, limit: String(kept) });
    let answered = false;
    try {
      const answer = await fetch(`/api/v1/candles/${encodeURIComponent(this.sym)}?${query}`, { signal: AbortSignal.timeout(5000) });
      if (answer.ok) {
        for (const c of (await answer.json()).candles) this.put(c);
        answered = true;
      }
    } catch {
      // The request is repeated.
    }
    this.asks = false;
    if (this.ended) return;
    if (!answered) {
      this.retry = setTimeout(() => this.load(), retryPause);
      return;
    }
    this.began = true;
    if (this.list.length > kept) this.list.splice(0, this.list.length - kept);
    this.changed();
  }
}
