// The chart of prices: candles of an interval that the user chooses, or a line of the last price.
import { CandleChart } from "./candlechart.js";
import { Candles } from "./candles.js";
import { PriceChart } from "./charts.js";
import { element } from "./view.js";

const remembered = "outcry-candles";
const intervalFirst = "1s"; // a new market has only a few seconds of trades

export class Prices {
  /** changed() is called when there is more to show, chosen() when the user chooses another interval. */
  constructor(changed, chosen) {
    this.changed = changed;
    this.select = element("interval");
    this.tape = null;
    this.candles = null;
    this.select.value = this.recall();
    if (this.select.selectedIndex < 0) this.select.value = intervalFirst;
    this.build();
    this.select.addEventListener("change", () => {
      this.remember();
      this.chart.destroy();
      this.build();
      this.tape = null;
      chosen();
    });
  }

  /** The interval of the candles, "" for a line. */
  get interval() {
    return this.select.value;
  }

  /** Applies an event of candles. */
  take({ sym, interval, candles }) {
    if (sym === this.candles?.sym && interval === this.candles.interval) this.candles.take(candles);
  }

  recall() {
    try {
      return localStorage.getItem(remembered) ?? intervalFirst;
    } catch {
      return intervalFirst; // no storage
    }
  }

  remember() {
    try {
      localStorage.setItem(remembered, this.select.value);
    } catch {
      // Without storage the choice lasts while the page is open.
    }
  }

  build() {
    const parts = [element("price-chart"), element("price-at")];
    this.chart = this.interval === "" ? new PriceChart(...parts) : new CandleChart(...parts);
  }

  /** Shows the trades of a tape; each symbol has a tape of its own. */
  show(tape) {
    if (tape !== this.tape) {
      this.candles?.end();
      this.candles = null;
      this.tape = tape;
    }
    if (this.interval === "") {
      this.chart.show(tape);
      return;
    }
    // Arrow keys pass over symbols without a request for each.
    if (tape.began) this.candles ??= new Candles(tape.sym, this.interval, this.changed);
    this.chart.show(this.candles, this.interval, tape);
  }

  redraw() {
    this.chart.redraw();
  }
}
