// Candles with their volume below them, side by side. An interval without a trade has no candle and no space.
import uPlot from "./vendor/uplot/uPlot.esm.js";
import { apartFrom, around, axis, Chart, colours, drawLast, inside, labelsBut, priceLabels, stepAt, tagOf, waiting, wide } from "./charts.js";
import { fractionDigits, grouped, short, timeOfDay, timeTick } from "./format.js";

const candleWidth = 9; // minimum pixels, with the gap
const candlesLeast = 30; // minimum number of places; a chart with fewer candles has as many
const bodyMost = 14; // pixels
const volumePart = 0.22; // fraction of the height
const countsApart = [1, 2, 5, 10, 15, 20, 30, 50, 100];

const seconds = { "1s": 1, "1m": 60, "5m": 300, "1h": 3600, "1d": 86400 };

/** The labels of the time axis: the time of a candle, or "" for a place without one. */
const timeLabels = (u, state, places) => inside(u, places, places.map((i) => {
  const c = state.candles[i];
  return c === undefined ? "" : timeTick(c.start_ms / 1000, state.seconds);
}));

/** The range of places shown: as many of the newest candles as fit. */
function newest(u, count) {
  const most = Math.floor((u.bbox.width / uPlot.pxRatio || u.width) / candleWidth);
  const shown = Math.min(Math.max(count, candlesLeast), most);
  const end = Math.max(count, shown);
  return [end - shown - 0.5, end];
}

export class CandleChart extends Chart {
  constructor(element, readout) {
    const state = { digits: 2, last: undefined, step: 0.01, candles: [], seconds: 60 };
    const unseen = { paths: () => null, points: { show: false } };
    super(element, readout, {
      scales: {
        x: { time: false, range: (u) => newest(u, state.candles.length) },
        y: { range: (_, low, high) => room(low, high, state.step) },
        volume: { range: (_, __, high) => [0, (high || 1) / volumePart] },
      },
      series: [{}, unseen, unseen, { ...unseen, scale: "volume" }],
      axes: [
        axis({ incrs: countsApart, values: (u, places) => timeLabels(u, state, places), space: 100, size: 28, grid: { show: false } }),
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
        drawAxes: [(u) => drawCandles(u, state.candles)],
        draw: [(u) => drawLast(u, state)],
      },
    }, [[], [], [], []]);
    this.state = state;
  }

  /** Shows the candles of an interval, null while they are unknown, with the last price of the tape, which is newer. */
  show(candles, interval, tape) {
    const list = candles?.list ?? [];
    const newestTrade = tape.newest[0];
    const prices = list.slice(-60).flatMap((c) => [c.low, c.high]);
    const digits = prices.reduce((most, p) => Math.max(most, fractionDigits(p)), 2);
    const last = Number(newestTrade?.price ?? list.at(-1)?.close);
    Object.assign(this.state, { candles: list, seconds: seconds[interval], digits, step: stepAt(last || 0, digits), last: Number.isNaN(last) ? undefined : last });
    this.explain(list.length > 0 ? "" : candles?.began ? "No trades yet. Orders trade when a buy and a sell meet." : waiting);
    this.plot.setData([list.map((_, i) => i), list.map((c) => Number(c.low)), list.map((c) => Number(c.high)), list.map((c) => Number(c.shares))]);
    this.plot.redraw(false, true);
    this.label(() => {
      if (list.length === 0) return "Price over time: no trades yet";
      const [first, final] = [list[0], list.at(-1)];
      const low = list.reduce((a, c) => (Number(c.low) < Number(a) ? c.low : a), final.low);
      const high = list.reduce((a, c) => (Number(c.high) > Number(a) ? c.high : a), final.high);
      return `${list.length} ${list.length === 1 ? "candle" : "candles"} of ${interval}, since ${timeOfDay(first.start_ms / 1000)}: from ${grouped(first.open)} to ${grouped(final.close)}, low ${grouped(low)}, high ${grouped(high)}`;
    });
  }

  describe(i) {
    const c = this.state.candles[i];
    if (c === undefined) return "";
    return `${timeOfDay(c.start_ms / 1000)}  open ${grouped(c.open)}, high ${grouped(c.high)}, low ${grouped(c.low)}, close ${grouped(c.close)}, volume ${short(c.shares)}`;
  }
}

/** The range of prices, with room for the volume below. */
function room(low, high, step) {
  if (low === null || low === undefined) return [0, 1];
  const [from, to] = around(low, high, step);
  return [from - ((to - from) * volumePart) / (1 - volumePart), to];
}

function drawCandles(u, candles) {
  const { ctx, bbox } = u;
  const pixels = uPlot.pxRatio;
  const apart = u.valToPos(1, "x", true) - u.valToPos(0, "x", true);
  const body = Math.max(Math.round(Math.min(apart * 0.72, bodyMost * pixels)), 1);
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
  ctx.clip();
  candles.forEach((c, i) => {
    const x = Math.round(u.valToPos(i, "x", true));
    if (x < bbox.left - apart || x > bbox.left + bbox.width + apart) return;
    const at = (price) => Math.round(u.valToPos(Number(price), "y", true));
    const up = Number(c.close) >= Number(c.open);
    const name = up ? "buy" : "sell";
    const left = x - Math.floor(body / 2);
    const volume = Math.round(u.valToPos(Number(c.shares), "volume", true));
    ctx.fillStyle = colours[`${name}-fill`];
    ctx.fillRect(left, volume, body, bbox.top + bbox.height - volume);
    ctx.fillStyle = colours[name];
    ctx.fillRect(x - Math.floor(pixels / 2), at(c.high), Math.max(Math.round(pixels), 1), at(c.low) - at(c.high));
    const top = Math.min(at(c.open), at(c.close));
    const height = Math.max(Math.abs(at(c.open) - at(c.close)), Math.max(Math.round(pixels), 1));
    ctx.fillRect(left, top, body, height);
    if (up && body > 3 * pixels && height > 3 * pixels) { // hollow: rising and falling candles differ without colours too
      ctx.fillStyle = colours.card;
      ctx.fillRect(left + pixels, top + pixels, body - 2 * pixels, height - 2 * pixels);
    }
  });
  ctx.restore();
}
