// The order book as a table: price, size and cumulative size, with a bar for the
// cumulative size. Prices can be grouped; sums are exact.
import { difference, fromUnits, grouped, mostDigits, short, units } from "./format.js";
import { element, make, setDecimal, setText, wideFrom } from "./view.js";

const groupsMost = 6; // maximum number of steps offered

/** The levels of one side grouped by a price step, each at its worst price, best first. */
function group(levels, step, up) {
  const by = new Map();
  for (const [price, shares] of levels) {
    const p = units(price);
    const at = up ? ((p + step - 1n) / step) * step : (p / step) * step;
    by.set(at, (by.get(at) ?? 0n) + units(shares));
  }
  return [...by].map(([at, shares]) => [fromUnits(at), fromUnits(shares)]);
}

/** The steps by which the prices of a book can be grouped: 1 and 5 of each power of ten, if they are multiples of the tick. */
function stepsOf(book, tick) {
  const prices = [...book.bids, ...book.asks].map(([price]) => price);
  const finest = tick === undefined ? 10 ** -mostDigits(prices) : Number(tick);
  const fits = (step) => tick === undefined || units(step) % units(tick) === 0n;
  const span = (levels) => (levels.length < 2 ? 0 : Math.abs(Number(levels.at(-1)[0]) - Number(levels[0][0])));
  const widest = Math.max(span(book.bids), span(book.asks)) / 2;
  const steps = [];
  for (let power = -8; power < 12; power++) {
    for (const digit of ["1", "5"]) {
      const step = power < 0 ? `0.${"0".repeat(-power - 1)}${digit}` : digit + "0".repeat(power);
      if (Number(step) > finest * 1.5 && Number(step) <= widest && fits(step)) steps.push(step);
    }
  }
  return steps.slice(-groupsMost);
}

/** The rows of the book, a number of them for each side, the best in the middle. */
export class Ladder {
  /** regrouped() is called when the user chooses another step, pick(price) when they click a level. */
  constructor(rows, regrouped, pick) {
    this.select = element("group");
    this.sides = { asks: this.side(element("asks"), rows, true), bids: this.side(element("bids"), rows, false) };
    this.select.addEventListener("change", regrouped);
    element("ladder").addEventListener("click", (event) => {
      const price = event.target.closest("tr")?.dataset.price;
      if (price !== undefined) pick(price);
    });
  }

  /** Makes the rows of a side, best level first. */
  side(body, rows, up) {
    const made = [];
    for (let i = 0; i < rows; i++) {
      const row = make("tr");
      const cells = [make("th", "price"), make("td"), make("td", "total")];
      cells[0].scope = "row";
      row.append(...cells);
      if (up) body.prepend(row);
      else body.append(row);
      made.push({ row, cells });
    }
    made[0].row.classList.add("best");
    return made;
  }

  /** The step by which prices are grouped, "" for none. */
  get step() {
    return this.select.value;
  }

  /** Shows a book and marks the levels of mine, which are the account's orders as levels. */
  show(book, { tick, mine = { bids: [], asks: [] } } = {}) {
    this.offer(stepsOf(book, tick));
    const levels = { bids: this.rowsOf(book, "bids"), asks: this.rowsOf(book, "asks") };
    const shown = [...levels.bids, ...levels.asks];
    const digits = [0, 1, 2].map((i) => mostDigits(shown.map((l) => (i === 0 || short(l[i]) === grouped(l[i]) ? l[i] : ""))));
    const most = shown.reduce((m, l) => Math.max(m, Number(l[2])), 0);
    wideFrom(element("ladder"), shown.map((l) => l[0]), digits[0]);
    for (const side of ["asks", "bids"]) {
      const own = new Set(this.grouped(mine[side], side).map(([price]) => units(price)));
      this.sides[side].forEach(({ row, cells }, i) => {
        const level = levels[side][i];
        if (level === undefined) delete row.dataset.price;
        else row.dataset.price = level[0];
        row.classList.toggle("mine", level !== undefined && own.has(units(level[0])));
        cells.forEach((cell, column) => setDecimal(cell, level?.[column], digits[column], column > 0));
        row.style.setProperty("--fill", level === undefined ? "0%" : `${(100 * Number(level[2])) / most}%`);
        row.ariaHidden = level === undefined ? "true" : null;
      });
    }
    this.note(book);
  }

  /** The rows of a side: price, size and cumulative size. */
  rowsOf(book, side) {
    const levels = this.grouped(book[side], side);
    // The last group may have more levels than were requested.
    if (this.step !== "" && book[side].length >= book.depth && levels.length > 1) levels.pop();
    let sum = 0n;
    return levels.slice(0, this.sides[side].length).map(([price, shares]) => [price, shares, fromUnits((sum += units(shares)))]);
  }

  /** The levels of a side by the chosen step. */
  grouped(levels, side) {
    return this.step === "" ? levels : group(levels, units(this.step), side === "asks");
  }

  /** Shows the row between the sides, and the number of levels. */
  note({ bids, asks, depth }) {
    const nothing = bids.length === 0 ? (asks.length === 0 ? "No open orders" : "no bids") : asks.length === 0 ? "no asks" : "";
    setText(element("ladder-spread"), nothing || `spread ${grouped(difference(asks[0][0], bids[0][0]))}`);
    const count = (levels) => (levels.length >= depth ? `${levels.length}+` : levels.length);
    element("ladder").classList.toggle("bare", nothing === "No open orders");
    setText(element("book-note"), nothing === "No open orders" ? "" : `${count(bids)} bid · ${count(asks)} ask levels`);
  }

  /** Offers steps, including the chosen one even if it no longer fits. */
  offer(steps) {
    const chosen = this.step;
    const offered = chosen === "" || steps.includes(chosen) ? steps : [...steps, chosen];
    element("grouping").hidden = offered.length === 0;
    if (offered.join() === this.offered) return;
    this.offered = offered.join();
    this.select.replaceChildren(new Option("exact", ""), ...offered.map((step) => new Option(grouped(step), step)));
    this.select.value = chosen;
  }

  /** Shows the levels ungrouped again. */
  ungroup() {
    this.select.value = "";
  }

  /** Drops the data shown. */
  reset() {
    this.show({ bids: [], asks: [], depth: Infinity });
    element("ladder").classList.remove("bare"); // not known yet
    setText(element("ladder-spread"), "");
  }
}
