// The market page: applies events of the exchange, and draws what has changed, at most
// once a frame and not at all while the page is hidden. stream.js keeps the connection,
// tape.js the trades; symbols.js, book.js, view.js, charts.js, prices.js and welcome.js
// draw; trading.js is the account's part; format.js formats numbers.
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
const depthExact = 60; // number of levels requested, for the depth chart
const depthGrouped = 200; // number of levels requested if a row of the book has several
const symbolsInEvent = 500; // maximum of an event: if the first has fewer, it has all symbols
const symbolsAsked = 5000; // maximum number of symbols in one answer
const symbolsMost = 100_000; // maximum number of symbols requested: the exchange's default limit
const relistPause = 3000; // milliseconds before all symbols are requested again
const hiddenMost = 30_000; // milliseconds after which a hidden page closes its connection
const switchPause = 120; // milliseconds for which a symbol must stay chosen, as arrow keys pass over many
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

/** Sets the tab's title, which is visible when the page is not, without an old price. */
function title() {
  showTitle(market.state, list.summaries.get(market.sym), !document.hidden);
}

/** Shows the chosen symbol or, if it does not exist, what to do. */
function showPage() {
  const there = list.summaries.has(market.sym);
  element("view").hidden = !there;
  // Only the exchange knows that a symbol does not exist, as the list may be incomplete.
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

/** The number of levels to request. */
const depth = () => (ladder.step === "" ? depthExact : depthGrouped);

/** Subscribes to a symbol, "" for none, as it is shown. */
const openStream = (sym) => stream.open(sym, depth(), prices.interval);

/** Shows the book grouped by another step, and requests the levels for it. */
function regroup() {
  changed("book");
  if (market.state === "live" && stream.depth < depth()) openStream(market.sym);
}

/** Shows a symbol: first what is known, then the stream's data. */
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

/** Drops the data of the chosen symbol. */
function forget() {
  market.book = null;
  market.tape = market.sym === "" ? null : new Tape(market.sym, () => changed("trades"));
  quote.reset();
  ladder.reset();
  depthChart.clear();
  wantsSummary = true;
}

function fromHash() {
  const sym = location.hash.slice(1); // unescaped: a symbol has no character that is escaped
  return /^[A-Za-z0-9]{1,32}$/.test(sym) ? sym : "";
}

addEventListener("hashchange", () => {
  const sym = fromHash();
  if (sym !== "" && sym !== market.sym) follow(sym);
});

// A link to a part of the page does not choose a symbol of that name.
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
    // All data are sent again. Until then the old data are shown, unless this is another run
    // of the server, which may be another exchange.
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

/** Reports whether the stream has, or will have, the chosen symbol. */
const streaming = () => stream.sym === market.sym;

/** Chooses a symbol if none is chosen and all are known; subscribes to a chosen one that now exists. */
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
  changed("book", "trades"); // their data may have arrived before it
  summarize();
}

let begins = false; // the next event of symbols is the first of its connection
let listing = 0; // number of connections so far: answers to requests of an earlier one are ignored

/** Requests all symbols, by name, if the first event, which had these, had no room for all. */
async function listRest(symbols) {
  const mine = listing;
  let whole = symbols.length < symbolsInEvent;
  if (!market.known) {
    list.setWhole(whole);
  } else if (!whole) {
    // Little has changed since the last connection, and arrow keys make many connections.
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
    failed = true; // symbols that trade are in the next events
  }
  if (mine !== listing) return;
  if (whole || !market.known) list.setWhole(whole); // after a failed repetition the old list stays
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
  news = "Connected again. "; // said with the summary, which would replace it at once
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
    const old = market.start === "" ? "" : `The data are from ${lostAt.toLocaleTimeString("en-GB")}. `;
    setState("lost", `${why}. ${old}Trying again.`);
  },
  unknown() {
    market.missing = stream.sym;
    openStream("");
    changed("page");
  },
});

// For screen readers: a sentence when a symbol is chosen, and one a minute.

let wantsSummary = false;
let news = ""; // beginning of the next sentence

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

// A hidden page costs little: it draws nothing, and after a while closes its connection.

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
looked(); // a page that is opened in the background connects when it becomes visible
