// The list of symbols, with search and arrow keys.
import { compact, grouped, mostDigits, padding } from "./format.js";
import { element, make, setDecimal, setShort, setText } from "./view.js";

const shownMost = 300; // maximum rows; search finds the others
const priceMost = 11; // maximum characters of a price in the list; the header has all of them
const asStrip = "(max-width: 1020px)"; // as in the style sheet

export class SymbolList {
  /** choose(sym) is called when the user chooses another symbol. */
  constructor(choose) {
    this.choose = choose;
    this.list = element("symbols");
    this.search = element("search");
    this.summaries = new Map();
    this.names = []; // sorted
    this.whole = true; // names has all symbols
    this.rows = new Map();
    this.matching = [];
    this.chosen = "";
    this.search.addEventListener("input", () => this.find());
    this.search.addEventListener("keydown", (event) => this.searchKey(event));
    this.list.addEventListener("keydown", (event) => this.key(event));
    this.list.addEventListener("click", (event) => {
      const row = event.target.closest("[role=option]");
      if (row !== null) this.choose(row.dataset.sym);
    });
    matchMedia(asStrip).addEventListener("change", () => this.mark(this.chosen)); // the list then scrolls in another direction
    document.addEventListener("keydown", (event) => {
      if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input, select")) return;
      event.preventDefault();
      this.search.focus();
    });
  }

  /** Applies summaries of symbols as of seq, except those older than the known ones. */
  take(seq, summaries) {
    let more = false;
    for (const s of summaries) {
      const known = this.summaries.get(s.sym);
      if (known !== undefined && known.seq > seq) continue;
      more ||= known === undefined;
      this.summaries.set(s.sym, { ...s, seq });
    }
    if (more) {
      this.names = [...this.summaries.keys()].sort((a, b) => (a < b ? -1 : 1));
      this.rebuild();
      return;
    }
    for (const s of summaries) this.fill(s.sym);
  }

  /** Sets whether the list has all symbols, which the note below it shows. */
  setWhole(whole) {
    if (whole === this.whole) return;
    this.whole = whole;
    this.rebuild();
  }

  clear() {
    this.summaries.clear();
    this.names = [];
    this.rebuild();
  }

  /** The most traded symbol. */
  busiest() {
    let best;
    for (const s of this.summaries.values()) if (best === undefined || s.trades > best.trades) best = s;
    return best?.sym ?? "";
  }

  /** Marks the row of the chosen symbol and returns it, if it is shown. */
  select(sym) {
    this.rows.get(this.chosen)?.row.setAttribute("aria-selected", "false");
    this.chosen = sym;
    const row = this.rows.get(sym)?.row;
    this.list.removeAttribute("aria-activedescendant");
    row?.setAttribute("aria-selected", "true");
    if (row !== undefined) this.list.setAttribute("aria-activedescendant", row.id);
    return row;
  }

  /** Selects a symbol that has been chosen, and scrolls to it. */
  mark(sym) {
    const row = this.select(sym);
    if (row === undefined) return;
    const down = ["offsetTop", "offsetHeight", "scrollTop", "clientHeight"];
    const across = ["offsetLeft", "offsetWidth", "scrollLeft", "clientWidth"];
    for (const [offset, size, scrolled, seen] of [down, across]) {
      const past = row[offset] + row[size] - this.list[seen];
      if (row[offset] < this.list[scrolled]) this.list[scrolled] = row[offset];
      else if (past > this.list[scrolled]) this.list[scrolled] = past;
    }
  }

  rebuild() {
    const wanted = this.search.value.trim().toLowerCase();
    const all = wanted === "" ? this.names : this.names.filter((n) => n.toLowerCase().includes(wanted));
    this.matching = all.slice(0, shownMost);
    const rows = new Map();
    for (const sym of this.matching) rows.set(sym, this.rows.get(sym) ?? this.make(sym));
    const { scrollTop, scrollLeft } = this.list;
    const had = this.rows.has(this.chosen);
    this.rows = rows;
    this.list.replaceChildren(...[...rows.values()].map((r) => r.row));
    this.list.scrollTop = scrollTop; // the user may have scrolled
    this.list.scrollLeft = scrollLeft;
    for (const sym of this.matching) this.fill(sym);
    const note = element("symbols-more");
    const hidden = all.length - this.matching.length;
    note.hidden = hidden === 0 && all.length > 0;
    const others = this.whole ? "" : `; there are more than the ${grouped(String(this.names.length))} symbols that this page knows`;
    setText(note, (hidden > 0 ? `and ${grouped(String(hidden))} more: search finds them` : wanted === "" ? "none yet" : `no symbol has "${this.search.value.trim()}" in it`) + others);
    if (had) this.select(this.chosen);
    else this.mark(this.chosen);
  }

  /** Lists the symbols that the search finds, from the chosen one on if it is among them. */
  find() {
    this.rebuild();
    this.list.scrollTop = 0;
    this.mark(this.chosen);
  }

  make(sym) {
    const row = document.createElement("li");
    row.id = `symbol-${sym}`;
    row.dataset.sym = sym;
    row.setAttribute("role", "option");
    row.setAttribute("aria-selected", "false");
    const cells = ["name", "last", "volume"].map((name) => make("span", name));
    const [label, halted] = [make("span", "label"), make("small", "badge")];
    setText(label, sym);
    label.title = sym;
    cells[0].append(label, halted);
    row.append(cells[0], " ", cells[1], " ", cells[2]);
    return { row, halted, last: cells[1], volume: cells[2] };
  }

  fill(sym) {
    const row = this.rows.get(sym);
    if (row === undefined) return;
    const s = this.summaries.get(sym);
    const digits = s.last === undefined ? 0 : mostDigits([s.last, s.bid ?? "", s.ask ?? ""]);
    if (s.last !== undefined && grouped(s.last).length + padding(s.last, digits).length > priceMost) {
      setShort(row.last, compact(s.last), grouped(s.last));
      row.last.dataset.pad = "";
    } else {
      setDecimal(row.last, s.last ?? "–", digits);
    }
    setShort(row.volume, compact(s.shares), grouped(s.shares));
    setText(row.halted, s.halted === undefined ? "" : " halted");
  }

  key(event) {
    const at = this.matching.indexOf(this.chosen);
    const end = this.matching.length - 1;
    const back = at < 0 ? end : at - 1;
    const keys = { ArrowDown: at + 1, ArrowRight: at + 1, ArrowUp: back, ArrowLeft: back, Home: 0, End: end, PageDown: at + 10, PageUp: at - 10 };
    const to = keys[event.key];
    if (to === undefined || end < 0 || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    this.choose(this.matching[Math.min(Math.max(to, 0), end)]);
  }

  searchKey(event) {
    if (event.key === "Escape") {
      this.search.value = "";
      this.find();
    }
    if ((event.key === "Enter" || event.key === "ArrowDown") && this.matching.length > 0) {
      event.preventDefault();
      if (!this.matching.includes(this.chosen) || event.key === "Enter") this.choose(this.matching[0]);
      this.list.focus();
    }
  }
}
