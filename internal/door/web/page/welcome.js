// What to do if there is nothing to show, with the address that the reader can use.
import { element, setText } from "./view.js";

const clientDefault = "127.0.0.1:12345"; // the client's default address

const loopback = (host) => host === "localhost" || host === "[::1]" || host.startsWith("127.");

/** The address of the port for orders, as the page's reader can reach it. */
function addressOf({ port, local }) {
  const host = local && !loopback(location.hostname) ? "127.0.0.1" : location.hostname;
  return `${host === "localhost" ? "127.0.0.1" : host}:${port}`;
}

/** A client program, with the flags that it needs here. */
function client(orders, program) {
  const address = addressOf(orders);
  const addr = address === clientDefault ? "" : ` --addr ${address}`;
  return `${program}${addr}${orders.tls ? " --tls-ca FILE" : ""}${orders.tokens ? " --token-file FILE" : ""}`;
}

const lines = (orders, commands, program = "outcry") => commands.map((c) => `${client(orders, program)} ${c}`).join("\n");

/** What the reader must know about the port. */
function explain(orders) {
  const from = orders.local && !loopback(location.hostname) ? " Only programs on the exchange's own machine reach it." : "";
  const tls = orders.tls ? " It speaks TLS: FILE has the authority of its certificate." : "";
  const token = orders.tokens ? " It asks for a token: FILE has yours." : "";
  return `Orders go to ${addressOf(orders)}.${from}${tls}${token}`;
}

const titles = {
  none: () => "The exchange is empty",
  unknown: (sym) => `There is no symbol ${sym}`,
  unlisted: (sym) => `${sym} is beyond the symbols that this page lists`,
};

/** Shows what to do if no symbol is shown: "none" exists, or the chosen one is "unknown" or "unlisted". */
export function showWelcome(why, sym, orders) {
  setText(element("empty-title"), titles[why](sym));
  setText(element("empty-text"), why === "none" ? "Or start a market of bots, in a terminal:" : "Choose another from the list, or start a market of bots:");
  if (orders === null) return;
  setText(element("empty-demo"), lines(orders, ["demo"], "outcry-lab"));
  setText(element("empty-trade"), lines(orders, ["account 1 20000", "account 2 0", "place 2 SPY 500", "sell 2 SPY 100 123.45", "buy 1 SPY 100 150"]));
  setText(element("empty-address"), explain(orders));
}

/** Shows how to place an order if a symbol has no orders and no trades. */
export function showHint({ sym, trades }, book, tape, orders) {
  const traded = trades > 0 || tape?.lastID > 0; // the summary arrives after the trade
  const nothing = !traded && book !== null && orders !== null && book.bids.length + book.asks.length === 0;
  element("hint").hidden = !nothing;
  if (!nothing) return;
  setText(element("hint-title"), `No orders for ${sym} yet`);
  setText(element("hint-commands"), lines(orders, ["account 1 20000", `buy 1 ${sym} 10 100`]));
}
