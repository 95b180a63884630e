// The charts of price and depth, drawn by uPlot; candlechart.js has a third. Floats are exact enough for pixels.
import uPlot from "./vendor/uplot/uPlot.esm.js";
import { compact, grouped, timeOfDay, timeTick, trimmed } from "./format.js";

const heightOf = (element) => Math.max(element.clientHeight, 120);

/** The colours of the style sheet, read again when the theme changes. */
export const colours = {};
export function readColours() {
  const style = getComputedStyle(document.documentElement);
  for (const name of ["card", "muted", "line", "buy", "sell", "accent", "buy-fill", "sell-fill", "accent-fill"]) {
    colours[name] = style.getPropertyValue(`--${name}`).trim();
  }
}

const colour = (name) => () => colours[name];

const fontSize = 12;
const font = `${fontSize}px system-ui, sans-serif`;

export function axis(more) {
  return {
    stroke: colour("muted"),
    font,
    grid: { stroke: colour("line"), width: 1 },
    ticks: { show: false },
    ...more,
  };
}

const charWidth = 7;
const leastChars = 5;

/** A side axis as wide as its labels, and as one more label if given. */
export const wide = (more = () => "") => (_, labels) => 18 + charWidth * Math.max(leastChars, more().length, ...(labels ?? []).map((l) => l?.length ?? 0));

// Ticks.

/** The distance of two ticks: 1, 2 or 5 times a power of ten, at least a step. */
export function apartFrom(step) {
  const apart = [];
  for (let power = -8; power < 20; power++) for (const digit of [1, 2, 5]) apart.push(Number(`${digit}e${power}`));
  return apart.filter((n) => n > step * 0.999);
}

const secondsApart = [1, 2, 5, 10, 15, 30];
const timesApart = [...secondsApart, ...secondsApart.map((n) => n * 60), ...[1, 2, 3, 6, 12, 24, 48, 24 * 7, 24 * 30, 24 * 365].map((n) => n * 3600)];

/** The smallest step that floats distinguish at a price, and at least that of its digits. */
export const stepAt = (price, digits) => Math.max(10 ** -digits, 10 ** Math.ceil(Math.log10(Math.max(price, 1) * 1e-15)));

const longLabel = 12; // characters above which a compact label is tried

/** The labels of prices at a distance: with the digits that distinguish them, and two if they are short. */
export function priceLabels(prices, apart, most) {
  const short = prices.every((p) => Math.abs(p) < 100_000);
  const digits = Math.min(most, Math.max(short ? 2 : 0, Math.ceil(-Math.log10(apart) - 1e-9)));
  const exact = prices.map((p) => grouped(p.toFixed(digits)));
  if (exact.every((label) => label.length <= longLabel)) return exact;
  const brief = prices.map((p) => compact(p.toFixed(digits)));
  return new Set(brief).size === brief.length ? brief : exact;
}

/** The labels below a chart without those that its edges would cut. */
export function inside(u, values, labels) {
  const right = (u.bbox.left + u.bbox.width) / uPlot.pxRatio;
  return labels.map((label, i) => {
    const at = u.valToPos(values[i], "x") + u.bbox.left / uPlot.pxRatio;
    const half = (label.length * charWidth) / 2;
    return at < half || at > right - half ? "" : label;
  });
}

/** A range with a small margin, and a height above 0. */
export function around(low, high, step) {
  const air = Math.max((high - low) * 0.08, 3 * step, high * 1e-5);
  return [low - air, high + air];
}

export const waiting = "\u00a0"; // shown while the data are unknown
const labelEvery = 2000; // milliseconds between descriptions for screen readers

export class Chart {
  constructor(element, readout, options, data) {
    this.element = element;
    this.readout = readout;
    this.none = document.createElement("p");
    this.none.className = "none";
    element.append(this.none);
    const size = { width: Math.max(element.clientWidth, 200), height: heightOf(element) };
    this.plot = new uPlot({
      ...size,
      legend: { show: false },
      padding: [12, 0, 0, 12],
      ...options,
      cursor: { drag: { x: false, y: false }, y: false, points: { size: 6 } },
    }, data, element);
    this.sizes = new ResizeObserver(() => {
      if (element.clientWidth === 0) return; // the chart is hidden
      const width = Math.max(element.clientWidth, 200);
      if (width !== this.plot.width || heightOf(element) !== this.plot.height) this.plot.setSize({ width, height: heightOf(element) });
    });
    this.sizes.observe(element);
  }

  /** Removes the chart, so that another can take its place. */
  destroy() {
    this.sizes.disconnect();
    this.plot.destroy();
    this.none.remove();
    this.readout.textContent = "";
  }

  redraw() {
    this.plot.redraw(false);
  }

  /** Shows why the chart is empty, "" if it is not. The axes of an empty chart would show old numbers. */
  explain(why) {
    if (this.none.textContent !== why) {
      this.none.textContent = why;
      this.labelled = undefined;
    }
    this.none.hidden = why === "";
    this.plot.root.hidden = why !== "";
    if (why !== "") this.readout.textContent = "";
  }

  /** Sets the description that make returns, not too often. */
  label(make) {
    const now = performance.now();
    if (now - (this.labelled ?? -Infinity) < labelEvery) return;
    this.labelled = now;
    this.element.setAttribute("aria-label", make());
  }
}

const spanLeast = 60; // minimum seconds of the time axis

/** The time range of trades, the newest at the right. */
function timeRange(times) {
  if (times.length === 0) return [0, spanLeast];
  const to = times.at(-1);
  const span = Math.max(to - times[0], spanLeast);
  return [to - span, to + span * 0.03];
}

/** The last price of each second, with the range from low to high. */
export class PriceChart extends Chart {
  constructor(element, readout) {
    const state = { digits: 2, last: undefined, step: 0.01 };
    const stepped = uPlot.paths.stepped({ align: 1 });
    const line = { stroke: colour("accent"), width: 0, points: { show: false }, paths: stepped };
    super(element, readout, {
      scales: {
        x: { time: true, range: (u) => timeRange(u.data[0]) },
        y: { range: (_, low, high) => (low === null ? [0, 1] : around(low, high, state.step)) },
      },
      series: [{}, line, line, { ...line, width: 1.5, points: { show: (u) => u.data[0].length < 3, size: 6, fill: colour("accent") } }],
      bands: [{ series: [2, 1], fill: colour("accent-fill") }],
      axes: [
        axis({ incrs: timesApart, values: (u, times, _, __, apart) => inside(u, times, times.map((t) => timeTick(t, apart))), space: 84, size: 28 }),
        axis({
          side: 1,
          incrs: () => apartFrom(state.step),
          values: (u, prices, _, __, apart) => labelsBut(u, prices, priceLabels(prices, apart, state.digits), state.last),
          size: wide(() => tagOf(state)),
          space: 34,
        }),
      ],
      hooks: {
        setCursor: [(u) => { readout.textContent = this.describe(u.cursor.idx); }],
        draw: [(u) => drawLast(u, state)],
      },
    }, [[], [], [], []]);
    this.state = state;
  }

  show(tape) {
    const s = tape.seconds;
    const n = s.time.length;
    Object.assign(this.state, { digits: tape.digits, last: s.last[n - 1], step: stepAt(s.last[n - 1] ?? 0, tape.digits) });
    this.explain(n > 0 ? "" : !tape.began ? waiting : "No trades yet. Orders trade when a buy and a sell meet.");
    this.plot.setData([s.time, s.low, s.high, s.last]);
    this.plot.redraw(false, true); // the tag hides labels, and moves even if the range does not
    this.label(() => {
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

const tagHeight = 18;

/** The last price in the axis's format. */
export function tagOf({ last, digits }) {
  if (last === undefined) return "";
  const exact = grouped(last.toFixed(digits));
  return exact.length <= longLabel ? exact : grouped(last.toFixed(Math.min(digits, 2)));
}

/** The labels, except those under the tag of the last price. */
export function labelsBut(u, prices, labels, last) {
  if (last === undefined) return labels;
  const at = u.valToPos(last, "y");
  return labels.map((label, i) => (Math.abs(u.valToPos(prices[i], "y") - at) < tagHeight ? "" : label));
}

/** Draws a line at the last price, with the price on the axis. */
export function drawLast(u, state) {
  if (state.last === undefined) return;
  const { ctx, bbox } = u;
  const pixels = uPlot.pxRatio;
  const y = Math.round(u.valToPos(state.last, "y", true));
  const right = bbox.left + bbox.width;
  ctx.save();
  ctx.strokeStyle = ctx.fillStyle = colours.accent;
  ctx.lineWidth = pixels;
  ctx.setLineDash([2 * pixels, 3 * pixels]);
  ctx.beginPath();
  ctx.moveTo(bbox.left, y);
  ctx.lineTo(right, y);
  ctx.stroke();
  ctx.fillRect(right, y - (tagHeight * pixels) / 2, ctx.canvas.width - right, tagHeight * pixels);
  ctx.fillStyle = colours.card;
  ctx.font = `600 ${fontSize * pixels}px system-ui, sans-serif`;
  ctx.textAlign = "left";
  ctx.textBaseline = "middle";
  ctx.fillText(tagOf(state), right + 5 * pixels, y);
  ctx.restore();
}

/** The chart of the shares available up to each price, on both sides. */
export class DepthChart extends Chart {
  constructor(element, readout) {
    const state = { digits: 2, step: 0.01 };
    const side = (name, align) => ({
      stroke: colour(name), fill: colour(`${name}-fill`), width: 1.5, paths: uPlot.paths.stepped({ align }), points: { show: false },
    });
    super(element, readout, {
      scales: {
        x: { time: false, range: (_, low, high) => (low === high ? around(low, high, state.step) : [low, high]) },
        y: { range: (_, low, high) => [0, (high || 1) * 1.08] },
      },
      series: [{}, side("buy", -1), side("sell", 1)],
      axes: [
        axis({
          incrs: () => apartFrom(state.step),
          values: (u, prices, _, __, apart) => inside(u, prices, priceLabels(prices, apart, state.digits)),
          space: (_, __, low, high) => 24 + charWidth * Math.min(longLabel + 4, grouped(Math.max(low, high, 0).toFixed(state.digits)).length),
          size: 28,
        }),
        axis({ side: 1, incrs: () => apartFrom(0), values: (_, shares) => shares.map(plain), size: wide(), space: 30 }),
      ],
      hooks: { setCursor: [(u) => { readout.textContent = this.describe(u.cursor.idx) || this.totals; }] },
    }, [[], [], []]);
    this.state = state;
    this.totals = "";
    this.levels = [[], []];
  }

  /** Shows nothing until the data are known. */
  clear() {
    this.show({ bids: [], asks: [] }, 2);
    this.explain(waiting);
  }

  show(book, digits) {
    const [bids, asks] = nearest(cumulate(book.bids), cumulate(book.asks));
    bids.reverse();
    this.levels = [bids, asks];
    const prices = [...bids, ...asks].map((l) => l[0]);
    Object.assign(this.state, { digits, step: stepAt(prices.at(-1) ?? 0, digits) });
    this.explain(prices.length === 0 ? "No open orders." : "");
    // A tail after the last level of each side shows that the book continues, or makes a single level visible.
    const tail = (prices.at(-1) - prices[0]) * 0.03 || Math.max(3 * this.state.step, prices[0] * 1e-5);
    const left = bids.length > 0 ? [[bids[0][0] - tail, bids[0][1]], ...bids] : [];
    const right = asks.length > 0 ? [...asks, [asks.at(-1)[0] + tail, asks.at(-1)[1]]] : [];
    const none = (n) => new Array(n).fill(null);
    this.plot.setData([
      [...left, ...right].map((l) => l[0]),
      [...left.map((l) => l[1]), ...none(right.length)],
      [...none(left.length), ...right.map((l) => l[1])],
    ]);
    const total = (levels, at) => (levels.length === 0 ? "none" : plain(levels.at(at)[1]));
    this.totals = prices.length === 0 ? "" : `bids ${total(bids, 0)} · asks ${total(asks, -1)}`;
    if (this.plot.cursor.left < 0 || this.plot.cursor.left === undefined) this.readout.textContent = this.totals;
    this.label(() => `Shares available up to each price: in the ${bids.length} best bids ${total(bids, 0)}, in the ${asks.length} best asks ${total(asks, -1)}`);
  }

  describe(i) {
    const [price, bids] = this.plot.data;
    if (i === null || i === undefined || price[i] === undefined) return "";
    const buys = bids[i] !== null;
    const [levels, at] = buys ? [this.levels[0], i - 1] : [this.levels[1], i - (this.levels[0].length > 0 ? this.levels[0].length + 1 : 0)];
    const [limit, shares] = levels[Math.min(Math.max(at, 0), levels.length - 1)];
    return `${plain(shares)} ${buys ? "bid down to" : "asked up to"} ${grouped(limit.toFixed(this.state.digits))}`;
  }
}

/** Formats a number of shares that is a sum of floats. */
const plain = (n) => compact(trimmed(n));

/** Levels as numbers, each with the cumulative shares from the best one. */
function cumulate(levels) {
  let sum = 0;
  return levels.map(([price, shares]) => [Number(price), (sum += Number(shares))]);
}

const farMost = 4; // multiple of the usual distance from the middle beyond which a level is omitted

/** Both sides without levels far away: one order at a price of a cent would hide all others. */
function nearest(bids, asks) {
  const best = [bids[0], asks[0]].filter((l) => l !== undefined).map((l) => l[0]);
  if (best.length === 0) return [[], []];
  const middle = best.reduce((a, b) => a + b) / best.length;
  const distances = [...bids, ...asks].map((l) => Math.abs(l[0] - middle)).sort((a, b) => a - b);
  const most = farMost * distances[Math.floor(distances.length / 2)] || Infinity;
  const near = (levels) => levels.filter((l, i) => i === 0 || Math.abs(l[0] - middle) <= most);
  return [near(bids), near(asks)];
}
