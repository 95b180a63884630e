// The trades of one symbol: the newest ones individually, and a longer past by the
// second for the chart. Both are bounded.

const tradesMost = 60; // maximum number of trades listed
const secondsMost = 3600; // maximum number of seconds with trades in the chart
const fetchMost = 1000; // maximum number of trades in one request
const waitingMost = 5000; // maximum number of trades that wait for an answer

/** Adds trades in the order of their ids, and requests missing ones. */
export class Tape {
  /** changed() is called when trades are added after the call that received them. */
  constructor(sym, changed) {
    this.sym = sym;
    this.changed = changed;
    this.newest = []; // newest first; {gap: n} means n unknown trades
    this.lastID = 0;
    this.seconds = { time: [], low: [], high: [], last: [] };
    this.digits = 2; // fractional digits of the prices
    this.waiting = null; // trades that wait for earlier ones
    this.began = false;
  }

  /** Adds the trades of an event. */
  take(trades) {
    if (this.waiting !== null) {
      this.waiting.push(...trades);
      if (this.waiting.length > waitingMost) this.waiting.splice(0, this.waiting.length - waitingMost);
      return;
    }
    const first = trades.find((t) => t.id > this.lastID);
    const more = this.began ? first !== undefined && first.id > this.lastID + 1 : first !== undefined && first.id > 1;
    if (more) {
      this.fill(trades);
    } else {
      this.began = true;
      this.append(trades);
    }
  }

  /** Requests the missing trades before trades. If the request fails, a gap stays. */
  async fill(trades) {
    this.waiting = [...trades];
    const after = this.began ? `&after=${this.lastID}` : "";
    try {
      const answer = await fetch(`/api/v1/trades/${encodeURIComponent(this.sym)}?limit=${fetchMost}${after}`, { signal: AbortSignal.timeout(5000) });
      if (answer.ok) this.append((await answer.json()).trades);
    } catch {
      // The gap is shown.
    }
    const waiting = this.waiting;
    this.waiting = null;
    this.append(waiting);
    this.began = true;
    this.changed();
  }

  append(trades) {
    for (const t of trades) {
      if (t.id <= this.lastID) continue;
      if (this.lastID > 0 && t.id > this.lastID + 1) this.newest.unshift({ gap: t.id - this.lastID - 1 });
      this.lastID = t.id;
      this.newest.unshift(t);
      this.point(t.time, t.price);
    }
    if (this.newest.length > tradesMost) this.newest.length = tradesMost;
  }

  point(time, price) {
    const s = this.seconds;
    const p = Number(price);
    const fraction = price.length - 1 - price.indexOf(".");
    if (price.includes(".") && fraction > this.digits) this.digits = fraction;
    const end = s.time.length - 1;
    if (end >= 0 && time <= s.time[end]) {
      // The same second, or a clock that was set back: the chart's times never decrease.
      s.low[end] = Math.min(s.low[end], p);
      s.high[end] = Math.max(s.high[end], p);
      s.last[end] = p;
      return;
    }
    s.time.push(time);
    s.low.push(p);
    s.high.push(p);
    s.last.push(p);
    if (s.time.length > secondsMost) for (const column of Object.values(s)) column.shift();
  }
}
