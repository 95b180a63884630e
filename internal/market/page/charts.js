// The two charts, drawn by uPlot. Floats are good enough for pixels.
import uPlot from "./vendor/uplot/uPlot.esm.js";
import { grouped, timeOfDay } from "./format.js";

const heightOf = (element) => Math.max(element.clientHeight, 120);

/** The colours of the style sheet, read again when the theme changes. */
const colours = {};
export function readColours() {
  const style = getComputedStyle(document.documentElement);
  for (const name of ["text", "muted", "line", "buy", "sell", "accent", "buy-fill", "sell-fill", "accent-fill"]) {
    colours[name] = style.getPropertyValue(`--${name}`).trim();
  }
}

const colour = (name) => () => colours[name];

const font = "12px system-ui, sans-serif";

function axis(more) {
  return {
    stroke: colour("muted"),
    font,
    grid: { stroke: colour("line"), width: 1 },
    ticks: { show: false },
    ...more,
  };
}

/** A side axis that is as wide as its labels. */
const wide = (_, labels) => 14 + 7 * Math.max(3, ...(labels ?? []).map((l) => l?.length ?? 0));

const labelEvery = 2000; // milliseconds between descriptions for those who listen

class Chart {
  constructor(element, options, data) {
    this.element = element;
    const size = { width: Math.max(element.clientWidth, 200), height: heightOf(element) };
    this.plot = new uPlot({
      ...size,
      legend: { show: false },
      padding: [10, 30, 0, 0],
      ...options,
      cursor: { drag: { x: false, y: false }, y: false, points: { size: 6 } },
    }, data, element);
    new ResizeObserver(() => {
      const width = Math.max(element.clientWidth, 200);
      if (width !== this.plot.width || heightOf(element) !== this.plot.height) this.plot.setSize({ width, height: heightOf(element) });
    }).observe(element);
  }

  redraw() {
    this.plot.redraw(false);
  }

  /** Sets the description that make returns, at a calm pace. */
  label(make) {
    const now = performance.now();
    if (now - (this.labelled ?? -Infinity) < labelEvery) return;
    this.labelled = now;
    this.element.setAttribute("aria-label", make());
  }
}

/** The price by the second: a line of the last ones, and what lay between low and high. */
export class PriceChart extends Chart {
  constructor(element, readout) {
    const state = { digits: 2 };
    super(element, {
      scales: { x: { time: true, range: (_, from, to) => (from === to ? [from - 30, to + 30] : [from, to]) }, y: { range: (_, low, high) => around(low, high, 10 ** -state.digits) } },
      series: [
        {},
        { stroke: colour("accent"), width: 0, points: { show: false } },
        { stroke: colour("accent"), width: 0, points: { show: false } },
        { stroke: colour("accent"), width: 1.5, points: { show: (u) => u.data[0].length < 3, size: 5, fill: colour("accent") } },
      ],
      bands: [{ series: [2, 1], fill: colour("accent-fill") }],
      axes: [
        axis({ values: (_, times) => times.map((t) => timeOfDay(t)), space: 90, size: 28 }),
        axis({ values: (_, prices) => prices.map((p) => grouped(p.toFixed(state.digits))), size: wide, space: 34 }),
      ],
      hooks: { setCursor: [(u) => { readout.textContent = this.describe(u.cursor.idx); }] },
    }, [[], [], [], []]);
    this.state = state;
  }

  show(tape) {
    this.state.digits = tape.digits;
    const s = tape.seconds;
    this.plot.setData([s.time, s.low, s.high, s.last]);
    this.label(() => {
      const n = s.time.length;
      if (n === 0) return "Price over time: no trades yet";
      const low = s.low.reduce((a, b) => Math.min(a, b));
      const high = s.high.reduce((a, b) => Math.max(a, b));
      return `Price over time, since ${timeOfDay(s.time[0])}: from ${this.number(s.last[0])} to ${this.number(s.last[n - 1])}, low ${this.number(low)}, high ${this.number(high)}`;
    });
  }

  number(p) {
    return grouped(p.toFixed(this.state.digits));
  }

  describe(i) {
    const [time, low, high, last] = this.plot.data;
    if (i === null || i === undefined || last[i] === undefined) return "";
    const range = low[i] === high[i] ? "" : `, ${this.number(low[i])} to ${this.number(high[i])}`;
    return `${timeOfDay(time[i])}  ${this.number(last[i])}${range}`;
  }
}

/** A range with a little air, and never of no height. */
function around(low, high, step) {
  if (low === null || high === null) return [0, 1];
  const air = Math.max((high - low) * 0.08, 2 * step, high * 1e-9);
  return [low - air, high + air];
}

/** How many shares are to be had up to each price, on either side. */
export class DepthChart extends Chart {
  constructor(element, readout) {
    const state = { digits: 2 };
    const stepped = (align) => uPlot.paths.stepped({ align });
    super(element, {
      scales: { x: { time: false }, y: { range: (_, low, high) => [0, (high || 1) * 1.08] } },
      series: [
        {},
        { stroke: colour("buy"), fill: colour("buy-fill"), width: 1.5, paths: stepped(-1), points: { show: false } },
        { stroke: colour("sell"), fill: colour("sell-fill"), width: 1.5, paths: stepped(1), points: { show: false } },
      ],
      axes: [
        axis({ values: (_, prices) => prices.map((p) => grouped(p.toFixed(state.digits))), space: (_, __, ___, high) => 24 + 7 * (high ?? 0).toFixed(state.digits).length, size: 28 }),
        axis({ values: (_, shares) => shares.map((n) => grouped(String(n))), size: wide, space: 30 }),
      ],
      hooks: { setCursor: [(u) => { readout.textContent = this.describe(u.cursor.idx) || this.totals; }] },
    }, [[], [], []]);
    this.state = state;
    this.readout = readout;
    this.totals = "";
    this.levels = [[], []];
  }

  show(book, digits) {
    this.state.digits = digits;
    const bids = cumulate(book.bids).reverse();
    const asks = cumulate(book.asks);
    this.levels = [bids, asks];
    // A tail beyond the last level of each side shows that it goes on, or that there is one at all.
    const prices = [...bids, ...asks].map((l) => l[0]);
    const tail = (prices.at(-1) - prices[0]) * 0.03 || prices[0] * 0.01;
    const left = bids.length > 0 ? [[bids[0][0] - tail, bids[0][1]], ...bids] : [];
    const right = asks.length > 0 ? [...asks, [asks.at(-1)[0] + tail, asks.at(-1)[1]]] : [];
    const none = (n) => new Array(n).fill(null);
    this.plot.setData([
      [...left, ...right].map((l) => l[0]),
      [...left.map((l) => l[1]), ...none(right.length)],
      [...none(left.length), ...right.map((l) => l[1])],
    ]);
    const total = (levels, at) => (levels.length === 0 ? "none" : whole(levels.at(at)[1]));
    this.totals = `bids ${total(bids, 0)} · asks ${total(asks, -1)}`;
    if (this.plot.cursor.left < 0 || this.plot.cursor.left === undefined) this.readout.textContent = this.totals;
    this.label(() => `Shares to be had up to each price: in the ${bids.length} best bids ${total(bids, 0)}, in the ${asks.length} best asks ${total(asks, -1)}`);
  }

  describe(i) {
    const [price, bids] = this.plot.data;
    if (i === null || i === undefined || price[i] === undefined) return "";
    const buys = bids[i] !== null;
    const [levels, at] = buys ? [this.levels[0], i - 1] : [this.levels[1], i - (this.levels[0].length > 0 ? this.levels[0].length + 1 : 0)];
    const [limit, shares] = levels[Math.min(Math.max(at, 0), levels.length - 1)];
    return `${whole(shares)} ${buys ? "bid down to" : "asked up to"} ${grouped(limit.toFixed(this.state.digits))}`;
  }
}

const whole = (n) => grouped(String(Math.round(n * 1e8) / 1e8));

/** Levels as numbers, each with the shares of all that are better too. */
function cumulate(levels) {
  let sum = 0;
  return levels.map(([price, shares]) => [Number(price), (sum += Number(shares))]);
}
