// The order ticket: the user's order, its possible cost, and its outcome. Numbers stay the texts
// that were typed: the exchange checks them and reports what is wrong.
import { fromUnits, grouped, isPositive, product, short, units } from "./format.js";
import { Lost } from "./socket.js";
import { element, setText } from "./view.js";

const sharesFirst = "10"; // initial shares, unless the symbol has a lot

/** The outcome of an order as a sentence: {text, good}. */
export function tellOrder(o) {
  const buys = !o.amount.startsWith("-");
  const [does, did] = buys ? ["buys", "Bought"] : ["sells", "Sold"];
  const at = o.limit === undefined ? "at market" : `at ${grouped(o.limit)}`;
  const done = o.executed !== "0";
  const bought = done ? `${did} ${grouped(o.executed)} ${o.sym} for ${grouped(o.notional)} dollars` : "";
  const order = done ? "" : `Order ${o.id}`;
  switch (o.state) {
    case "open":
      return { good: true, text: done ? `${bought}; ${grouped(o.open)} are open ${at}.` : `${order} is open: it ${does} ${grouped(o.open)} ${o.sym} ${at}.` };
    case "executed":
      return { good: true, text: `${bought}.` };
    case "canceled": {
      const why = { rest: "no more orders within the limit", stp: "they would have met your own orders", cancel: "by you", operator: "by the operator" }[o.why] ?? "";
      const rest = `${grouped(o.canceled)} were canceled${why === "" ? "" : `: ${why}`}.`;
      return { good: done || o.why === "cancel", text: done ? `${bought}; ${rest}` : `Order ${o.id}: ${rest}` };
    }
    default:
      return { good: true, text: `Order ${o.id} was replaced by order ${o.by}.` };
  }
}

/** The cost of a number of shares at the best levels: {dollars, shares}, both exact; fewer shares if the book has fewer. */
export function costOf(levels, shares) {
  const want = units(shares);
  let left = want;
  let dollars = 0n;
  for (const [price, size] of levels) {
    const take = left < units(size) ? left : units(size);
    dollars += take * units(price);
    left -= take;
    if (left === 0n) break;
  }
  const text = dollars.toString().padStart(17, "0");
  const fraction = text.slice(-16).replace(/0+$/, "");
  return { dollars: text.slice(0, -16) + (fraction === "" ? "" : `.${fraction}`), shares: fromUnits(want - left) };
}

/** A decimal moved by a number of steps, to a multiple of the step above 0. */
export function stepped(text, step, steps) {
  const by = units(step);
  const from = isPositive(text) ? units(text) : 0n;
  const off = from % by;
  const to = from - off + by * BigInt(off !== 0n && steps < 0 ? steps + 1 : steps);
  return fromUnits(to < by ? by : to);
}

export class Ticket {
  /** place(order) sends an order, like Desk.place. */
  constructor(place) {
    this.place = place;
    this.form = element("ticket");
    this.shares = element("shares");
    this.limit = element("limit");
    this.sym = "";
    this.book = null;
    this.summary = undefined;
    this.account = null;
    this.touched = false; // the user has typed a limit for this symbol and side
    this.busy = false;
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.submit();
    });
    this.form.addEventListener("input", (event) => this.edited(event));
    for (const input of [this.shares, this.limit]) input.addEventListener("keydown", (event) => this.key(event));
    element("at-bid").addEventListener("click", () => this.limitTo(this.book?.bids[0]?.[0]));
    element("at-ask").addEventListener("click", () => this.limitTo(this.book?.asks[0]?.[0]));
  }

  get side() {
    return this.form.elements.side.value;
  }

  get type() {
    return this.form.elements.type.value;
  }

  edited({ target }) {
    target.removeAttribute("aria-invalid");
    if (target === this.limit) this.touched = true;
    if ((target.name === "side" || target.name === "type") && !this.touched) this.limit.value = "";
    this.show();
  }

  /** Shows the ticket for the symbol's present state and an account, null if none can trade now. */
  update(summary, book, account) {
    this.book = book;
    this.summary = summary;
    this.account = account;
    if (summary.sym !== this.sym) {
      this.sym = summary.sym;
      this.touched = false;
      this.limit.value = "";
      this.shares.value = summary.lot ?? sharesFirst;
    }
    this.show();
  }

  show() {
    if (this.summary === undefined) return;
    const market = this.type === "market";
    if (!this.touched && this.limit.value === "" && !market) this.suggest();
    setText(element("limit-word"), market ? "No worse than (optional)" : "Limit price");
    element("at-bid").disabled = (this.book?.bids.length ?? 0) === 0;
    element("at-ask").disabled = (this.book?.asks.length ?? 0) === 0;
    element("post").disabled = market;
    setText(element("tif").options[0], market ? "now, rest canceled" : "until canceled (GTC)");
    if (market) element("post").checked = false;
    setText(element("estimate"), this.estimate());
    const button = element("place");
    const verb = this.side === "buy" ? "Buy" : "Sell";
    const what = isPositive(this.shares.value.trim()) ? ` ${grouped(this.shares.value.trim())} ${this.sym}` : ` ${this.sym}`;
    setText(button, this.account === null ? "Connecting" : verb + what);
    button.setAttribute("aria-disabled", String(this.account === null || this.busy));
    this.form.dataset.side = this.side;
  }

  /** Fills in the price at which an order would execute at once, or the last price. */
  suggest() {
    if (this.book === null) return;
    const [best] = this.side === "buy" ? this.book.asks : this.book.bids;
    this.limit.value = best?.[0] ?? this.summary.last ?? "";
  }

  limitTo(price) {
    if (price === undefined) return;
    this.limit.value = price;
    this.touched = true;
    this.limit.removeAttribute("aria-invalid");
    this.show();
  }

  /** Sets the limit to a price that the user has clicked in the book. */
  pick(price) {
    if (this.form.hidden) return;
    this.limitTo(price);
    this.limit.focus();
  }

  key(event) {
    const steps = { ArrowUp: 1, ArrowDown: -1, PageUp: 10, PageDown: -10 }[event.key];
    if (steps === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    const isLimit = event.target === this.limit;
    const step = isLimit ? (this.summary?.tick ?? "0.01") : (this.summary?.lot ?? "1");
    event.target.value = stepped(event.target.value.trim(), step, steps);
    this.edited(event);
  }

  /** The cost or proceeds of the order, and the account's funds for it. */
  estimate() {
    const shares = this.shares.value.trim();
    const limit = this.limit.value.trim();
    if (this.account === null || this.book === null) return "";
    const buys = this.side === "buy";
    const have = buys ? `You have ${short(this.account.balance)} dollars.` : `You have ${short(this.account.free(this.sym))} ${this.sym}.`;
    if (!isPositive(shares)) return have;
    if (this.type === "limit") {
      if (!isPositive(limit)) return have;
      return `${buys ? "Costs at most" : "Brings at least"} ${short(product(shares, limit))}. ${have}`;
    }
    const { dollars, shares: some } = costOf(buys ? this.book.asks : this.book.bids, shares);
    if (some === "0") return `Nobody ${buys ? "sells" : "buys"} ${this.sym} now. ${have}`;
    const all = units(some) === units(shares);
    return `About ${short(dollars)} now${all ? "" : `, for the ${short(some)} to be seen`}. ${have}`;
  }

  /** The order in the exchange's format, or null after the ticket shows what is missing. */
  read() {
    const shares = this.shares.value.trim();
    const limit = this.limit.value.trim();
    const market = this.type === "market";
    if (!/^[0-9.]+$/.test(shares)) return this.wrong(this.shares, shares === "" ? "How many shares?" : `Shares "${shares}" is not a number like 10 or 0.5.`);
    if (limit === "" && !market) return this.wrong(this.limit, "At what price? A market order needs none.");
    const order = { sym: this.sym, amount: this.side === "sell" ? `-${shares}` : shares };
    if (limit !== "") order.limit = limit;
    if (market) order.type = "market";
    for (const name of ["tif", "stp"]) if (element(name).value !== "") order[name] = element(name).value;
    for (const name of ["post", "cod"]) if (element(name).checked) order[name] = true;
    return order;
  }

  wrong(input, text) {
    input.setAttribute("aria-invalid", "true");
    input.focus();
    this.say(text, false);
    return null;
  }

  async submit() {
    if (this.busy || this.account === null) return;
    const order = this.read();
    if (order === null) return;
    this.busy = true;
    this.show();
    await this.attempt(async () => {
      const { text, good } = tellOrder(await this.place(order));
      this.say(text, good);
    });
    this.busy = false;
    this.show();
  }

  /** Calls an action of the user, and shows why it fails. It returns whether it succeeded. */
  async attempt(act) {
    try {
      await act();
      return true;
    } catch (error) {
      if (error instanceof Lost) this.say(`${error.message}. What was done is shown when the exchange is back.`, false);
      else this.say(`${error.message.charAt(0).toUpperCase()}${error.message.slice(1)}.`, false);
      return false;
    }
  }

  say(text, good) {
    const said = element("said");
    said.classList.toggle("bad", !good);
    said.textContent = ""; // so that a screen reader repeats an equal text
    said.textContent = text;
  }
}
