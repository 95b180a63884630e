// The market page: takes events of the exchange in, and draws what changed, at most
// once a frame and not at all while nobody looks. stream.js keeps the connection,
// tape.js the trades; symbols.js, book.js, view.js, charts.js, prices.js and welcome.js
// draw; trading.js has what an account can do; format.js writes numbers.
import { Ladder } from "./book.js";
import { DepthChart, readColours } from "./charts.js";
import { grouped, mostDigits } from "./format.js";
import { Prices } from "./prices.js";
import { Stream } from "./stream.js";
import { SymbolList } from "./symbols.js";
import { Tape } from "./tape.js";
import { onTheme } from "./theming.js";
import { Trading } from "./trading.js";
import { element, Quote, setText, showHealth, showState, showTitle, Trades } from "./view.js";
import { showHint, showWelcome } from "./welcome.js";

const ladderRows = 14;
const depthExact = 60; // levels that are asked for, which the depth chart has
const depthGrouped = 200; // the same where a row of the book has several
const symbolsInEvent = 500; // that an event has at the most: where the first has fewer, it has all
const symbolsAsked = 5000; // symbols that one answer has at the most
const symbolsMost = 100_000; // that are asked for: as many as an exchange has, unless it is told otherwise
const relistPause = 3000; // milliseconds before all are asked for again
const hiddenMost = 30_000; // milliseconds after which a hidden page lets go of its connection
const switchPause = 120; // milliseconds that a symbol must stay chosen: arrow keys run over many
const summaryEvery = 60_000;

const market = { start: "", version: "", orders: null, sym: "", book: null, tape: null, health: null, state: "connecting", why: "", known: false, missing: "" };
const quote = new Quote();
const ladder = new Ladder(ladderRows, regroup, (price) => trading.pick(price));
const trades = new Trades();
const list = new SymbolList(choose);
readColours();
const prices = new Prices(() => changed("trades"), () => openStream(market.sym));
const depthChart = new DepthChart(element("depth-chart"), element("depth-at"));
const trading = new Trading(() => changed("account"));

// Drawing.

const dirty = new Set();
let frame = 0;

function changed(...parts) {
  for (const part of parts) dirty.add(part);
  if (frame === 0 && !document.hidden) frame = requestAnimationFrame(draw);
}

function draw() {
  frame = 0;
  const parts = new Set(dirty);
  dirty.clear();
  title();
  if (parts.has("state")) showState(market.state, market.why);
  if (parts.has("health") && market.health !== null) showHealth(market.health);
  if (parts.has("page")) showPage();
  const any = (...these) => these.some((part) => parts.has(part));
  const summary = list.summaries.get(market.sym);
  if (any("account", "quote", "page")) trading.showAccount(market.sym, list.summaries);
  if (summary === undefined) return;
  if (any("account", "quote", "book")) trading.showTicket(summary, market.book);
  if (any("quote", "book", "trades")) {
    quote.show(summary, market.book, market.tape);
    showHint(summary, market.book, market.tape, market.orders);
  }
  if (any("account", "book") && market.book !== null) {
    ladder.show(market.book, { tick: summary.tick, mine: trading.levels(market.sym) });
    depthChart.show(market.book, mostDigits([...market.book.bids, ...market.book.asks].map(([price]) => price)));
  }
  if (parts.has("trades") && market.tape !== null) {
    trades.show(market.tape);
    prices.show(market.tape);
  }
}

/** The title of the tab is seen where the page is not: it has no price that is old. */
function title() {
  showTitle(market.state, list.summaries.get(market.sym), !document.hidden);
}

/** Shows the chosen symbol, or what to do where there is none. */
function showPage() {
  const there = list.summaries.has(market.sym);
  element("view").hidden = !there;
  // Only the exchange can tell that there is no such symbol: the list may not be whole.
  const unlisted = market.sym !== "" && market.missing !== market.sym;
  element("empty").hidden = there || !market.known || (unlisted && list.whole);
  if (there) return;
  const why = list.names.length === 0 ? "none" : unlisted ? "unlisted" : "unknown";
  showWelcome(why, market.sym, market.orders);
}

// Choosing a symbol.

let switching = 0;

function choose(sym) {
  if (sym === market.sym) return;
  history.replaceState(null, "", `#${sym}`);
  follow(sym);
}

/** How many levels are asked for. */
const depth = () => (ladder.step === "" ? depthExact : depthGrouped);

/** Follows a symbol, "" for none, as it is shown. */
const openStream = (sym) => stream.open(sym, depth(), prices.interval);

/** Shows the book by other steps, of as many levels as that takes. */
function regroup() {
  changed("book");
  if (market.state === "live" && stream.depth < depth()) openStream(market.sym);
}

/** Shows a symbol, from what is known at once and from the stream as it comes. */
function follow(sym) {
  const first = market.sym === "";
  market.sym = sym;
  ladder.ungroup();
  forget();
  list.mark(sym);
  news = "";
  market.missing = "";
  changed("page", "quote", "book", "trades");
  clearTimeout(switching);
  if (market.state !== "live" && !first) {
    openStream(sym);
    return;
  }
  switching = setTimeout(() => openStream(sym), first ? 0 : switchPause);
}

/** Forgets what was shown of the chosen symbol. */
function forget() {
  market.book = null;
  market.tape = market.sym === "" ? null : new Tape(market.sym, () => changed("trades"));
  quote.reset();
  ladder.reset();
  depthChart.clear();
  wantsSummary = true;
}

function fromHash() {
  const sym = location.hash.slice(1); // as it is: no symbol has a character that is escaped
  return /^[A-Za-z0-9]{1,32}$/.test(sym) ? sym : "";
}

addEventListener("hashchange", () => {
  const sym = fromHash();
  if (sym !== "" && sym !== market.sym) follow(sym);
});

// What skips to a part of the page does not choose a symbol of that name.
for (const link of document.querySelectorAll(".skip")) {
  link.addEventListener("click", (event) => {
    event.preventDefault();
    element(link.hash.slice(1)).focus();
  });
}

// Events of the exchange.

const take = {
  hello(event) {
    if (market.version !== "" && event.version !== market.version) location.reload(); // a new server may have a new page
    // All comes again. Until then what was known is shown, unless this is another run
    // of the server: that may be another exchange.
    if (market.start !== event.start) {
      list.clear();
      market.known = false;
      forget();
    }
    listing++;
    begins = true;
    market.start = event.start;
    market.version = event.version;
    market.orders = event.orders;
    trading.meet(event.orders);
    wantsSummary = true;
    changed("page", "book", "trades");
  },
  symbols(event) {
    takeSymbols(event);
    if (begins) listRest(event.symbols);
    begins = false;
  },
  book(event) {
    if (event.sym !== market.sym) return;
    market.book = { bids: event.bids, asks: event.asks, depth: stream.depth };
    changed("book");
    summarize();
  },
  trades(event) {
    if (event.sym !== market.sym || market.tape === null) return;
    market.tape.take(event.trades);
    changed("trades");
  },
  candles(event) {
    prices.take(event);
    changed("trades");
  },
  health(event) {
    market.health = event;
    setState(event.ready ? "live" : "refusing", event.ready ? "" : `The exchange accepts no orders: ${event.why}`);
    changed("health");
  },
};

/** Tells whether the stream is of the chosen symbol, or will be. */
const streaming = () => stream.sym === market.sym;

/** Chooses a symbol where none is and all are known, and follows one that has come to be. */
function pick() {
  if (market.sym === "" && !market.known) return;
  const sym = market.sym !== "" ? market.sym : fromHash() || list.busiest();
  if (sym === "") return;
  if (market.sym === "") {
    if (fromHash() === "") history.replaceState(null, "", `#${sym}`);
    follow(sym);
  } else if (list.summaries.has(sym) && !streaming()) {
    openStream(sym);
  }
}

function takeSymbols({ seq, symbols }) {
  const news = !list.summaries.has(market.sym);
  list.take(seq, symbols);
  if (market.sym === "" || !streaming()) pick();
  changed("page", "quote");
  if (!news || !list.summaries.has(market.sym)) return;
  changed("book", "trades"); // they may have been there before it
  summarize();
}

let begins = false; // the next event of symbols is the first of its connection
let listing = 0; // connections so far: what was asked for during one is not taken in another

/** Asks for all symbols, by name, where the first event, which had these, had no room for them. */
async function listRest(symbols) {
  const mine = listing;
  let whole = symbols.length < symbolsInEvent;
  if (!market.known) {
    list.setWhole(whole);
  } else if (!whole) {
    // Little has changed since the last connection, and arrow keys make many.
    await new Promise((resolve) => setTimeout(resolve, relistPause));
    if (mine !== listing) return;
  }
  let failed = false;
  try {
    let after = "";
    for (let asked = 0; !whole && asked < symbolsMost; asked += symbolsAsked) {
      const answer = await fetch(`/api/v1/symbols?limit=${symbolsAsked}${after}`, { signal: AbortSignal.timeout(5000) });
      failed = !answer.ok;
      if (failed) break;
      const more = await answer.json();
      if (mine !== listing) return;
      takeSymbols(more);
      whole = more.symbols.length < symbolsAsked;
      after = `&after=${more.symbols.at(-1)?.sym}`;
    }
  } catch {
    failed = true; // those that trade come with the next events
  }
  if (mine !== listing) return;
  if (whole || !market.known) list.setWhole(whole); // where asking again has failed, what was known is known still
  market.known = true;
  pick();
  changed("page");
  if (failed && !whole) listRest(symbols); // after a pause
}

function setState(state, why) {
  if (state === market.state && why === market.why) return;
  const back = market.state === "lost" && state === "live";
  market.state = state;
  market.why = why;
  changed("state");
  if (!back) return;
  setText(element("announce"), "Connected again.");
  news = "Connected again. "; // the summary, which comes at once, would take its place
}

let lostAt = null;

const stream = new Stream({
  event(kind, data) {
    take[kind](data);
  },
  live() {
    lostAt = null;
    setState("live", "");
  },
  lost(why) {
    lostAt ??= new Date();
    const old = market.start === "" ? "" : `The data is of ${lostAt.toLocaleTimeString("en-GB")}. `;
    setState("lost", `${why}. ${old}Trying again.`);
  },
  unknown() {
    market.missing = stream.sym;
    openStream("");
    changed("page");
  },
});

// For those who listen: a sentence when a symbol is chosen, and one a minute.

let wantsSummary = false;
let news = ""; // that the next one begins with

function summarize() {
  const s = list.summaries.get(market.sym);
  if (!wantsSummary || s === undefined || market.book === null) return;
  wantsSummary = false;
  const [bid] = market.book.bids;
  const [ask] = market.book.asks;
  setText(element("announce"), `${news}${s.sym}: ${s.last === undefined ? "no trade yet" : `last ${grouped(s.last)}`}, ${bid ? `bid ${grouped(bid[0])}` : "no bid"}, ${ask ? `ask ${grouped(ask[0])}` : "no ask"}.`);
  news = "";
}

setInterval(() => { wantsSummary = true; }, summaryEvery);

onTheme(() => {
  readColours();
  prices.redraw();
  depthChart.redraw();
});

// A hidden page costs little: it draws nothing, and after a while hears nothing.

let letGo = 0;
function looked() {
  clearTimeout(letGo);
  if (document.hidden) {
    title();
    letGo = setTimeout(() => {
      stream.close();
      setState("lost", "This page was hidden for a while; connecting again.");
    }, hiddenMost);
    return;
  }
  if (stream.source === null) openStream(market.sym);
  changed("state", "health", "page", "quote", "book", "trades", "account");
}
document.addEventListener("visibilitychange", looked);

market.sym = fromHash();
list.mark(market.sym);
forget();
looked(); // a page that begins in the background connects when it is seen
