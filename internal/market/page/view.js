// What stands on the page, apart from charts and the list of symbols. Everything is
// text or a style property: nothing that comes from outside is ever read as HTML.
import { difference, duration, grouped, mostDigits, padding, rate, timeOfDay } from "./format.js";

export const element = (id) => document.getElementById(id);

const calm = matchMedia("(prefers-reduced-motion: reduce)");

/** Sets a text where it differs: an equal one would cost a layout all the same. */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

function make(tag, ...classes) {
  const node = document.createElement(tag);
  node.classList.add(...classes);
  return node;
}

/** A decimal whose point stands below those of others with so many digits. */
export function setDecimal(node, decimal, digits) {
  setText(node, decimal === undefined ? "" : grouped(decimal));
  const pad = decimal === undefined ? "" : padding(decimal, digits);
  if (node.dataset.pad !== pad) node.dataset.pad = pad;
}

/** The header of the chosen symbol. */
export class Quote {
  constructor() {
    this.last = undefined;
    this.direction = 0;
  }

  show(summary, book) {
    const { last } = summary;
    if (last !== this.last) {
      if (this.last !== undefined && last !== undefined) this.direction = Math.sign(Number(last) - Number(this.last));
      this.last = last;
    }
    setText(element("sym"), summary.sym);
    const { halted } = summary;
    element("halted").hidden = halted === undefined;
    if (halted !== undefined) setText(element("halted"), `Halted since ${timeOfDay(halted.time)}${halted.reason === "" ? "" : `: ${halted.reason}`}`);
    const [bid] = book?.bids ?? [];
    const [ask] = book?.asks ?? [];
    const digits = mostDigits([last ?? "", bid?.[0] ?? "", ask?.[0] ?? ""]);
    if (last === undefined) {
      setText(element("last"), "no trade yet");
      element("last").dataset.pad = "";
    } else {
      setDecimal(element("last"), last, digits);
    }
    const arrow = element("arrow");
    setText(arrow, ["▼", "", "▲"][this.direction + 1]);
    arrow.className = ["sell", "", "buy"][this.direction + 1];
    setText(element("arrow-word"), ["down", "", "up"][this.direction + 1]);
    for (const [id, level] of [["bid", bid], ["ask", ask]]) {
      setDecimal(element(id), level ? level[0] : "–", level ? digits : 0);
      setText(element(`${id}-shares`), level ? grouped(level[1]) : "–");
    }
    setText(element("spread"), bid && ask ? grouped(difference(ask[0], bid[0])) : "–");
    setText(element("volume"), grouped(summary.shares));
    setText(element("notional"), grouped(summary.notional));
    setText(element("trade-count"), grouped(String(summary.trades)));
  }

  reset() {
    this.last = undefined;
    this.direction = 0;
  }
}

/** The order book: so many levels of each side, best ones in the middle. */
export class Ladder {
  constructor(rows) {
    this.sides = {
      asks: this.side(element("asks"), rows, 2, true),
      bids: this.side(element("bids"), rows, 0, false),
    };
    this.before = new Map();
  }

  /** Makes the rows of a side, in the order from its best level on. */
  side(body, rows, column, up) {
    const made = [];
    for (let i = 0; i < rows; i++) {
      const row = make("tr");
      const cells = [make("td"), make("th", "price"), make("td")];
      cells[1].scope = "row";
      const shares = cells[column];
      shares.classList.add("shares");
      const bar = make("span", "bar");
      const text = make("span", "number");
      shares.append(bar, text);
      row.append(...cells);
      if (up) body.prepend(row);
      else body.append(row);
      made.push({ row, price: cells[1], shares, bar, text });
    }
    made[0].row.classList.add("best");
    return made;
  }

  show(book) {
    const levels = { asks: book.asks.slice(0, this.sides.asks.length), bids: book.bids.slice(0, this.sides.bids.length) };
    const all = [...levels.asks, ...levels.bids];
    const priceDigits = mostDigits(all.map((l) => l[0]));
    const shareDigits = mostDigits(all.map((l) => l[1]));
    const most = all.reduce((m, l) => Math.max(m, Number(l[1])), 0);
    element("ladder").style.setProperty("--chars", String(Math.max(1, ...all.map((l) => grouped(l[1]).length + padding(l[1], shareDigits).length))));
    const now = new Map();
    for (const side of ["asks", "bids"]) {
      this.sides[side].forEach((cells, i) => {
        const [price, shares] = levels[side][i] ?? [];
        setDecimal(cells.price, price, priceDigits);
        setDecimal(cells.text, shares, shareDigits);
        cells.bar.style.transform = `scaleX(${price === undefined ? 0 : Number(shares) / most})`;
        cells.row.ariaHidden = price === undefined ? "true" : null;
        if (price === undefined) return;
        now.set(side + price, shares);
        if (this.before.size > 0 && this.before.get(side + price) !== shares) this.flash(cells.shares);
      });
    }
    this.before = now;
    const [bid, ask] = [book.bids[0], book.asks[0]];
    setText(element("ladder-spread"), bid && ask ? `spread ${grouped(difference(ask[0], bid[0]))}` : "no spread: one side is empty");
    const count = (levels) => (levels.length >= book.depth ? `${levels.length}+` : levels.length);
    setText(element("book-note"), `${count(book.bids)} bid · ${count(book.asks)} ask levels`);
  }

  flash(cell) {
    if (calm.matches || document.hidden) return;
    for (const running of cell.getAnimations()) running.cancel();
    cell.animate([{ backgroundColor: "var(--flash)" }, { backgroundColor: "transparent" }], { duration: 500, easing: "ease-out" });
  }

  /** Forgets what was shown: what comes next is not news. */
  reset() {
    this.before = new Map();
    this.show({ bids: [], asks: [], depth: Infinity });
    setText(element("ladder-spread"), "");
    setText(element("book-note"), "");
  }
}

/** The newest trades. */
export class Trades {
  constructor() {
    this.rows = [];
    this.body = element("tape");
  }

  show(newest) {
    const priceDigits = mostDigits(newest.map((t) => t.price ?? ""));
    const shareDigits = mostDigits(newest.map((t) => t.shares ?? ""));
    while (this.rows.length < newest.length) {
      const cells = [make("td"), make("td", "price"), make("td"), make("td", "side")];
      const row = make("tr");
      row.append(...cells);
      this.body.append(row);
      this.rows.push({ row, cells });
    }
    while (this.rows.length > newest.length) this.rows.pop().row.remove();
    newest.forEach((t, i) => {
      const { row, cells } = this.rows[i];
      row.dataset.side = t.gap ? "gap" : t.side;
      const [time, price, shares, side] = cells;
      setText(time, t.gap ? "" : timeOfDay(t.time));
      setDecimal(price, t.price, priceDigits);
      setDecimal(shares, t.shares, shareDigits);
      setText(side, t.gap ? `${grouped(String(t.gap))} not shown` : t.side === "buy" ? "▲ buyer" : "▼ seller");
    });
  }
}

/** The exchange's own figures of the last second. */
export function showHealth(h) {
  setText(element("orders-rate"), rate(h.orders_per_second));
  setText(element("requests-rate"), rate(h.requests_per_second));
  setText(element("p50"), h.requests_per_second > 0 ? duration(h.p50_seconds) : "–");
  setText(element("p99"), h.requests_per_second > 0 ? duration(h.p99_seconds) : "–");
  const lag = element("lag");
  setText(lag, h.postgres_up ? duration(h.postgres_lag_seconds) : "is away");
  lag.title = `${grouped(String(h.postgres_lag_records))} records of the journal are not in Postgres yet`;
  lag.classList.toggle("bad", !h.postgres_up);
}

/** Sets the title of the tab, with the price of the summary only where it is kept up. */
export function showTitle(state, summary, visible) {
  let title = "Outcry";
  if (state === "lost" && visible) title = "Disconnected · Outcry";
  else if (summary !== undefined) title = `${summary.sym}${visible && summary.last !== undefined ? ` ${grouped(summary.last)}` : ""} · Outcry`;
  if (document.title !== title) document.title = title;
}

/** The state of connection and exchange: "connecting", "live", "refusing" or "lost". */
export function showState(state, why) {
  const pill = element("state");
  pill.dataset.state = state;
  setText(pill, { connecting: "Connecting", live: "Live", refusing: "Takes no orders", lost: "Disconnected" }[state]);
  const banner = element("banner");
  setText(banner, state === "live" || state === "connecting" ? "" : why);
  banner.hidden = banner.textContent === "";
  banner.dataset.state = state;
  document.body.classList.toggle("stale", state === "lost");
}
