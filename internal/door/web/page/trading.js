// Trading: the ticket, its account, and the account's state.
import { Chooser } from "./choose.js";
import { Desk } from "./desk.js";
import { Own } from "./own.js";
import { tellOrder, Ticket } from "./ticket.js";

export class Trading {
  /** changed() is called when there is more to show. */
  constructor(changed) {
    this.changed = changed;
    this.traded = false; // an account was chosen when this was shown last
    this.desk = new Desk({
      changed,
      turned: (was) => this.chooser.tell(was),
      left: (why) => this.chooser.left(why),
      found: (order) => this.found(order),
    });
    this.ticket = new Ticket((order) => this.desk.place(order));
    const say = (text, good) => this.ticket.say(text, good);
    this.own = new Own(this.desk, (act) => this.ticket.attempt(act), say);
    this.chooser = new Chooser(this.desk, say);
  }

  /** Shows what became of an order whose answer was lost; null if it was not placed. */
  found(order) {
    if (order === null) this.ticket.say("The order whose answer was lost was not placed. It is safe to send it again unchanged.", false);
    else this.ticket.say(`The order whose answer was lost was placed. ${tellOrder(order).text}`, true);
  }

  /** Stores whether the exchange requires tokens. */
  meet(orders) {
    this.chooser.meet(orders);
  }

  /** Shows the chosen account and its state. */
  showAccount(sym, summaries) {
    const { account } = this.desk;
    const trades = account !== null;
    this.chooser.show(sym);
    this.own.show(account, summaries);
    if (trades !== this.traded) this.own.select(trades);
    this.traded = trades;
  }

  /** Shows the ticket for the symbol's present state. */
  showTicket(summary, book) {
    this.ticket.update(summary, book, this.desk.state === "live" ? this.desk.account : null);
  }

  /** Sets the limit to a price that the user has clicked. */
  pick(price) {
    this.ticket.pick(price);
  }

  /** The account's open orders of a symbol, as levels of each side. */
  levels(sym) {
    const levels = { bids: [], asks: [] };
    for (const o of this.desk.account?.orders.values() ?? []) {
      if (o.sym === sym) levels[o.amount.startsWith("-") ? "asks" : "bids"].push([o.limit, o.open]);
    }
    return levels;
  }
}
