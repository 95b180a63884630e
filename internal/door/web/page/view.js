// The texts of the page, except charts, book and the list of symbols. Everything is
// text or a style property: no data are parsed as HTML.
import { compact, difference, duration, grouped, mostDigits, padding, rate, short, timeOfDay } from "./format.js";

export const element = (id) => document.getElementById(id);

/** Sets a text if it differs: setting an equal one would cost a layout too. */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

export function make(tag, ...classes) {
  const node = document.createElement(tag);
  node.classList.add(...classes);
  return node;
}

/** Sets a shortened text, and the exact one as the title if they differ. */
export function setShort(node, text, exact) {
  setText(node, text);
  const title = text === exact ? "" : exact;
  if (node.title !== title) node.title = title;
}

/**
 * A decimal whose point is aligned with others of this number of digits. A quantity,
 * unlike a price, is shortened if it is long.
 */
export function setDecimal(node, decimal, digits, quantity = false) {
  const exact = decimal === undefined ? "" : grouped(decimal);
  const text = quantity && decimal !== undefined ? short(decimal) : exact;
  setShort(node, text, exact);
  const pad = text === exact && exact !== "" ? padding(decimal, digits) : "";
  if (node.dataset.pad !== pad) node.dataset.pad = pad;
}

const wideChars = 12; // length of a price from which a table has smaller digits

/** Uses smaller digits in a table with long prices. */
export function wideFrom(table, prices, digits) {
  table.classList.toggle("wide", prices.some((p) => grouped(p).length + padding(p, digits).length > wideChars));
}

/** The header of the chosen symbol. */
export class Quote {
  constructor() {
    this.last = undefined;
    this.direction = 0;
  }

  show(summary, book, tape) {
    // Trades arrive more often than summaries.
    const last = tape?.lastID > summary.trades ? tape.newest[0].price : summary.last;
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
    wideFrom(element("quote"), [last, bid?.[0], ask?.[0]].filter((price) => price !== undefined), digits);
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
    setText(element("ladder-last"), last === undefined ? "" : `${`${arrow.textContent} ${grouped(last)}`.trim()} `);
    element("ladder-last").className = arrow.className;
    for (const [id, level] of [["bid", bid], ["ask", ask]]) {
      setDecimal(element(id), level ? level[0] : "–", level ? digits : 0);
      setDecimal(element(`${id}-shares`), level ? level[1] : "–", 0, true);
    }
    setText(element("spread"), bid && ask ? grouped(difference(ask[0], bid[0])) : "–");
    for (const [id, decimal] of [["volume", summary.shares], ["notional", summary.notional], ["trade-count", String(summary.trades)]]) {
      setShort(element(id), compact(decimal), grouped(decimal));
    }
  }

  reset() {
    this.last = undefined;
    this.direction = 0;
    setText(element("ladder-last"), "");
  }
}

/** The newest trades. */
export class Trades {
  constructor() {
    this.rows = [];
    this.body = element("tape");
  }

  show({ newest, began }) {
    const priceDigits = mostDigits(newest.map((t) => t.price ?? ""));
    const shareDigits = mostDigits(newest.map((t) => (t.shares !== undefined && short(t.shares) === grouped(t.shares) ? t.shares : "")));
    wideFrom(element("trades"), newest.flatMap((t) => t.price ?? []), priceDigits);
    element("trades-none").hidden = newest.length > 0 || !began;
    element("trades").hidden = newest.length === 0;
    while (this.rows.length < newest.length) {
      const cells = [make("td"), make("td", "price"), make("td"), make("td", "side")];
      const row = make("tr");
      const side = [make("span"), make("span", "word")];
      cells[3].append(side[0], " ", side[1]);
      row.append(...cells);
      this.body.append(row);
      this.rows.push({ row, cells, side });
    }
    while (this.rows.length > newest.length) this.rows.pop().row.remove();
    newest.forEach((t, i) => {
      const { row, cells, side } = this.rows[i];
      row.dataset.side = t.gap ? "gap" : t.side;
      const [time, price, shares] = cells;
      setText(time, t.gap ? "" : timeOfDay(t.time));
      setDecimal(price, t.price, priceDigits);
      setDecimal(shares, t.shares, shareDigits, true);
      setText(side[0], t.gap ? "" : t.side === "buy" ? "▲" : "▼");
      setText(side[1], t.gap ? `${grouped(String(t.gap))} not shown` : t.side === "buy" ? "buyer" : "seller");
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

/** Sets the title of the tab, with the summary's price only if it is current. */
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
  setText(pill, { connecting: "Connecting", live: "Live", refusing: "No orders accepted", lost: "Disconnected" }[state]);
  const banner = element("banner");
  setText(banner, state === "live" || state === "connecting" ? "" : why);
  banner.hidden = banner.textContent === "";
  banner.dataset.state = state;
  document.body.classList.toggle("stale", state === "lost");
}
