// The state of one account: a snapshot and the events after it. The exchange numbers an account's
// events and its fills, each 1, 2, 3 …, so a gap is noticed.

const fillsMost = 200; // maximum number of fills kept, the newest

const lists = ["positions", "orders", "fills"]; // lists that come in several messages if they are long

export class Account {
  constructor(id) {
    this.id = id;
    this.n = 0; // number of the newest event included; 0 before the first snapshot
    this.seq = 0; // seq of that event's record
    this.lastFill = 0;
    this.balance = "0";
    this.held = "0";
    this.positions = new Map(); // by symbol
    this.orders = new Map(); // open orders by id
    this.fills = []; // newest first
    this.waits = true; // a snapshot is due; events of an older chain are ignored until then
    this.parts = null; // parts received so far of a message in several parts
  }

  /** Ignores messages until a snapshot arrives, or the event after n. */
  restart(after) {
    this.parts = null;
    this.waits = !after;
  }

  /** Applies a message of the account's channel. It returns "snapshot", "event", "part" or "stale"; "gap" if events are missing. */
  take(data) {
    const whole = this.join(data);
    if (whole === null) return "part";
    if (whole.type === "snapshot") {
      this.begin(whole);
      return "snapshot";
    }
    if (this.waits) return "stale";
    if (whole.n !== this.n + 1) return "gap";
    this.apply(whole);
    return "event";
  }

  /** Joins the parts of a message. It returns null while some are missing. */
  join(data) {
    let whole = data;
    if (this.parts !== null) {
      whole = { ...data };
      for (const list of lists) whole[list] = [...(this.parts[list] ?? []), ...(data[list] ?? [])];
    }
    this.parts = data.more === true ? whole : null;
    return data.more === true ? null : whole;
  }

  begin(snapshot) {
    this.waits = false;
    if (snapshot.n < this.n) this.fills = []; // the exchange is another one, or was restored
    this.positions = new Map(snapshot.positions.map((p) => [p.sym, p]));
    this.orders = new Map(snapshot.orders.map((o) => [o.id, o]));
    this.lastFill = snapshot.last_fill;
    this.settle(snapshot);
  }

  apply(event) {
    for (const p of event.positions ?? []) this.positions.set(p.sym, p);
    for (const o of event.orders ?? []) {
      if (o.state === "open") this.orders.set(o.id, o);
      else this.orders.delete(o.id);
    }
    this.settle(event);
    this.addFills(event.fills ?? []);
  }

  settle({ n, seq, balance, held }) {
    Object.assign(this, { n, seq, balance, held });
  }

  /** Adds fills, and skips known ones: an answer and an event may have the same fill. */
  addFills(fills) {
    const known = new Set(this.fills.map((f) => f.fill));
    const news = fills.filter((f) => !known.has(f.fill));
    if (news.length === 0) return;
    this.fills = [...this.fills, ...news].sort((a, b) => b.fill - a.fill).slice(0, fillsMost);
    this.lastFill = Math.max(this.lastFill, this.fills[0].fill);
  }

  /** The account's open orders, newest first. */
  openOrders() {
    return [...this.orders.values()].sort((a, b) => b.id - a.id);
  }

  /** The account's free shares of a symbol. */
  free(sym) {
    return this.positions.get(sym)?.shares ?? "0";
  }
}
