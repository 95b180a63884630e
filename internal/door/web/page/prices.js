// The chart of prices: candles of an interval that a person chooses, or a line of the last price.
import { CandleChart } from "./candlechart.js";
import { Candles } from "./candles.js";
import { PriceChart } from "./charts.js";
import { element } from "./view.js";

const remembered = "outcry-candles";
const intervalFirst = "1s"; // a new market has trades of seconds, and no past

export class Prices {
  /** changed() is called when there is more to show, chosen() when a person has chosen another interval. */
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

  /** Takes in an event of candles. */
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
      // No storage: it holds as long as the page is open.
    }
  }

  build() {
    const parts = [element("price-chart"), element("price-at")];
    this.chart = this.interval === "" ? new PriceChart(...parts) : new CandleChart(...parts);
  }

  /** Shows the trades of a tape, another one of another symbol. */
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
    // Nothing is asked for of each symbol that arrow keys run over.
    if (tape.began) this.candles ??= new Candles(tape.sym, this.interval, this.changed);
    this.chart.show(this.candles, this.interval, tape);
  }

  redraw() {
    this.chart.redraw();
  }
}
