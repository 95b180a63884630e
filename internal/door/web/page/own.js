// The account's open orders, which are amended and canceled here, fills and balances. Rows are kept
// as long as their items, so that a row with the keyboard's focus keeps it.
import { compact, grouped, product, short, timeOfDay, trimmed } from "./format.js";
import { tellOrder } from "./ticket.js";
import { element, make, setShort, setText } from "./view.js";

const ordersShown = 200; // maximum number of open orders shown, the newest
const fillsShown = 100;

const side = (amount) => (amount.startsWith("-") ? "sell" : "buy");
const unsigned = (amount) => amount.replace(/^-/, "");

/** Tabs, of which one shows its panel: by click or arrow keys. */
export class Tabs {
  constructor(list) {
    this.tabs = [...list.querySelectorAll("[role=tab]")];
    list.addEventListener("click", (event) => {
      const tab = event.target.closest("[role=tab]");
      if (tab !== null) this.select(tab);
    });
    list.addEventListener("keydown", (event) => {
      const at = this.tabs.indexOf(event.target);
      const last = this.tabs.length - 1;
      const to = { ArrowRight: at === last ? 0 : at + 1, ArrowLeft: at === 0 ? last : at - 1, Home: 0, End: last }[event.key];
      if (at < 0 || to === undefined) return;
      event.preventDefault();
      this.select(this.tabs[to]);
      this.tabs[to].focus();
    });
  }

  select(chosen) {
    for (const tab of this.tabs) {
      tab.ariaSelected = String(tab === chosen);
      tab.tabIndex = tab === chosen ? 0 : -1;
      element(tab.getAttribute("aria-controls")).hidden = tab !== chosen;
    }
  }
}

/** The rows of a table by key. Rows that stay keep their elements. */
class Rows {
  constructor(body, build) {
    this.body = body;
    this.build = build;
    this.rows = new Map();
  }

  /** Shows a row for each item, in order; fill(item, row) sets its texts. */
  show(items, keyOf, fill) {
    const rows = new Map();
    for (const item of items) rows.set(keyOf(item), this.rows.get(keyOf(item)) ?? this.build(item));
    for (const [key, row] of this.rows) if (!rows.has(key)) this.remove(row);
    this.rows = rows;
    let at = this.body.tHead ? this.body.tHead.nextElementSibling : this.body.firstElementChild;
    for (const row of rows.values()) {
      if (row.line === at) at = at.nextElementSibling;
      else this.body.insertBefore(row.line, at);
    }
    for (const item of items) fill(item, rows.get(keyOf(item)));
  }

  /** Removes a row. If it has the focus, its neighbour or the table's panel gets it. */
  remove({ line }) {
    if (line.contains(document.activeElement)) {
      const near = line.nextElementSibling ?? line.previousElementSibling;
      (near?.querySelector("button") ?? line.closest("[role=tabpanel]")).focus();
    }
    line.remove();
  }
}

/** A row of cells; the first is its header. */
function line(...classes) {
  const row = make("tr");
  const cells = classes.map((names, i) => make(i === 0 ? "th" : "td", ...names));
  cells[0].scope = "row";
  row.append(...cells);
  return { line: row, cells };
}

function button(text) {
  const made = make("button");
  made.type = "button";
  setText(made, text);
  return made;
}

export class Own {
  /** desk sends commands; attempt(act) calls act and shows why it fails; say(text, good) shows other outcomes. */
  constructor(desk, attempt, say) {
    Object.assign(this, { desk, attempt, say });
    this.tabs = new Tabs(element("tabs"));
    this.orders = new Rows(element("own-orders"), (o) => this.orderRow(o));
    this.fills = new Rows(element("own-fills-rows"), () => line([], [], [], [], ["more"]));
    this.balances = new Rows(element("own-balances-rows"), () => line([], [], [], []));
    element("cancel-all").addEventListener("click", () => this.attempt(async () => {
      const count = await desk.cancelAll();
      this.say(count === 1 ? "1 order was canceled." : `${grouped(String(count))} orders were canceled.`, true);
    }));
  }

  /** Shows the open orders when trading begins, and the depth when it ends. */
  select(trading) {
    this.tabs.select(element(trading ? "tab-orders" : "tab-depth"));
  }

  show(account, summaries) {
    const orders = account?.openOrders() ?? [];
    const choose = "Choose an account to see what it has.";
    setText(element("orders-count"), account === null ? "" : grouped(String(orders.length)));
    this.none("own-orders", orders.length, account === null ? choose : "No open orders.");
    this.none("own-fills", account?.fills.length ?? 0, account === null ? choose : "No fills yet.");
    this.none("own-balances", account === null ? 0 : 1, choose);
    this.orders.show(orders.slice(0, ordersShown), (o) => o.id, (o, row) => this.fillOrder(o, row));
    this.fills.show(account?.fills.slice(0, fillsShown) ?? [], (f) => f.fill, fillFill);
    this.balances.show(account === null ? [] : balancesOf(account, summaries), (b) => b.what, fillBalance);
  }

  none(id, count, why) {
    element(id).hidden = count === 0;
    element(`${id}-none`).hidden = count > 0;
    setText(element(`${id}-none`), why);
  }

  orderRow({ id }) {
    const row = line(["what"], ["limit"], ["open"], ["more"], ["acts"]);
    const body = make("tbody"); // has the order's row, and the row of the form that amends it
    body.append(row.line);
    row.line = body;
    const [amend, cancel] = [button("Amend"), button("Cancel")];
    row.cells[4].append(amend, " ", cancel);
    row.id = id;
    row.form = null;
    row.buttons = { amend, cancel };
    cancel.addEventListener("click", () => this.attempt(async () => {
      const { text, good } = tellOrder(await this.desk.cancel(id));
      this.say(text, good);
    }));
    amend.addEventListener("click", () => this.edit(row));
    return row;
  }

  fillOrder(o, row) {
    row.order = o;
    const [what, limit, open, executed] = row.cells;
    const buys = side(o.amount) === "buy";
    row.line.dataset.side = side(o.amount);
    setShort(what, `${buys ? "Buy" : "Sell"} ${short(unsigned(o.amount))} ${o.sym}`, `${buys ? "Buy" : "Sell"} ${grouped(unsigned(o.amount))} ${o.sym}, order ${o.id}, ${timeOfDay(o.time_ms / 1000)}`);
    setText(limit, grouped(o.limit ?? ""));
    setShort(open, short(o.open), grouped(o.open));
    setShort(executed, short(o.executed), grouped(o.executed));
    const name = `order ${o.id}, ${what.textContent} at ${limit.textContent}`;
    for (const act of ["amend", "cancel"]) {
      const label = `${row.buttons[act].textContent} ${name}`;
      if (row.buttons[act].ariaLabel !== label) row.buttons[act].ariaLabel = label;
    }
  }

  /** Opens the form of an order's new total and limit below it, or closes it. */
  edit(row) {
    if (row.form !== null) {
      this.close(row);
      return;
    }
    const { order } = row;
    const form = make("form", "amend");
    const field = (text, value) => {
      const [label, input] = [make("label"), make("input")];
      Object.assign(input, { type: "text", inputMode: "decimal", autocomplete: "off", spellcheck: false, maxLength: 40, value });
      label.append(`${text} `, input);
      form.append(label, " ");
      return input;
    };
    const done = order.executed === "0" && order.before === undefined ? "" : ", executed ones too";
    const shares = field(`Shares in all${done}`, unsigned(order.amount));
    const limit = field("Limit", order.limit);
    const save = button("Save");
    save.type = "submit";
    const back = button("Back");
    form.append(save, " ", back);
    back.addEventListener("click", () => this.close(row));
    form.addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.close(row);
    });
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.amend(row, shares.value.trim(), limit.value.trim());
    });
    row.form = make("tr", "amending");
    const cell = make("td");
    cell.colSpan = row.cells.length;
    cell.append(form);
    row.form.append(cell);
    row.line.append(row.form);
    row.buttons.amend.ariaExpanded = "true";
    shares.focus();
    shares.select();
  }

  close(row) {
    row.form?.remove();
    row.form = null;
    row.buttons.amend.ariaExpanded = null;
    row.buttons.amend.focus();
  }

  async amend(row, shares, limit) {
    const { order } = row;
    const changes = {};
    if (shares !== unsigned(order.amount)) changes.amount = order.amount.startsWith("-") ? `-${shares}` : shares;
    if (limit !== order.limit) changes.limit = limit;
    if (Object.keys(changes).length === 0) {
      this.close(row);
      return;
    }
    await this.attempt(async () => {
      const now = await this.desk.amend(order.id, changes);
      const { text, good } = tellOrder(now);
      this.say(`Order ${order.id} was ${now.id === order.id ? "reduced" : `replaced by order ${now.id}`}. ${text}`, good);
      if (row.form !== null) this.close(row);
    });
  }
}

function fillFill(f, { line: row, cells }) {
  const [time, what, price, dollars, order] = cells;
  row.dataset.side = f.side;
  setText(time, timeOfDay(f.time_ms / 1000));
  setShort(what, `${f.side === "buy" ? "Bought" : "Sold"} ${short(f.shares)} ${f.sym}`, `${grouped(f.shares)} ${f.sym}, ${f.maker ? "resting in the book" : "on arrival"}`);
  setText(price, grouped(f.price));
  const paid = product(f.shares, f.price);
  setShort(dollars, short(paid), grouped(paid));
  setText(order, String(f.order));
}

/** The rows of balances: cash, then each position, with its value at the last price. */
function balancesOf(account, summaries) {
  const rows = [{ what: "Dollars", free: account.balance, held: account.held, worth: "" }];
  for (const { sym, shares, held } of [...account.positions.values()].sort((a, b) => (a.sym < b.sym ? -1 : 1))) {
    if (shares === "0" && held === "0") continue;
    const last = summaries.get(sym)?.last;
    const worth = last === undefined ? "" : compact(trimmed((Number(shares) + Number(held)) * Number(last)));
    rows.push({ what: sym, free: shares, held, worth });
  }
  return rows;
}

function fillBalance({ what, free, held, worth }, { cells }) {
  setText(cells[0], what);
  setShort(cells[1], short(free), grouped(free));
  setShort(cells[2], short(held), grouped(held));
  setText(cells[3], worth);
}
