// The trading of one account, over one connection. A token is kept only in memory, until the page is closed.
import { Account } from "./account.js";
import { Lost, Refused, Socket } from "./socket.js";

/** A unique ref: an order that is sent again with it is placed once. */
function newRef() {
  const bytes = crypto.getRandomValues(new Uint8Array(12));
  return `page-${[...bytes].map((b) => b.toString(16).padStart(2, "0")).join("")}`;
}

const temporarily = 1002; // the code of temporary refusals

/**
 * Handlers: changed() when visible data change; turned(was) when the state changes, with the old one; left(why) when trading for an account
 * ends without the user's request; found(order) with an order whose answer was lost, null if it was not placed.
 */
export class Desk {
  constructor(handlers) {
    this.handlers = handlers;
    this.account = null;
    this.token = "";
    this.accounts = null; // accounts of the token; null: any
    // "none"; "connecting" and "lost", while there is no connection; "choose", with a token of several accounts; "live".
    this.state = "none";
    this.why = ""; // why there is no connection, "" if unknown
    this.unsure = null; // the order whose answer was lost
    this.socket = new Socket({
      begin: () => this.begin(),
      event: (channel, data) => this.event(channel, data),
      lost: (why) => this.set(this.state === "none" ? "none" : "lost", why),
      ended: (why) => this.leave(`The exchange has ended the connection${why === "" ? "" : `: ${why}`}`),
    });
  }

  set(state, why = "") {
    const was = this.state;
    this.state = state;
    this.why = why;
    if (state === "live") this.socket.settle();
    this.handlers.changed();
    if (state !== was) this.handlers.turned(was);
  }

  /** Sends a token to the exchange, which answers with its accounts. */
  signIn(token) {
    this.leave();
    this.token = token;
    this.set("connecting");
    this.socket.connect();
  }

  /** Trades for an account. */
  use(id) {
    this.account = new Account(id);
    this.unsure = null;
    const connected = this.state === "choose" && this.socket.isOpen;
    this.set("connecting");
    if (connected) this.begun(() => this.subscribe());
    else this.socket.connect();
  }

  /** Ends trading for the account, and forgets the token. */
  leave(why = "") {
    this.account = null;
    this.accounts = null;
    this.token = "";
    this.unsure = null;
    this.socket.close();
    this.set("none");
    if (why !== "") this.handlers.left(why);
  }

  /** Starts a new connection: sends the token and subscribes. */
  begin() {
    return this.begun(async () => {
      if (this.token !== "") await this.authorize();
      if (this.account === null) this.set("choose");
      else await this.subscribe();
    });
  }

  async begun(steps) {
    try {
      await steps();
    } catch (error) {
      if (error instanceof Lost) return; // the next connection repeats it
      if (!(error instanceof Refused)) throw error;
      if (error.code === temporarily) this.socket.again();
      else this.leave(error.message);
    }
  }

  async authorize() {
    try {
      const { accounts } = await this.socket.call("auth", { token: this.token });
      this.accounts = accounts ?? null;
    } catch (error) {
      // The browser sends the token with which it opened the page by itself.
      if (error.reason !== "already_authenticated") throw error;
      this.accounts = null;
    }
    if (this.account === null && this.accounts?.length === 1) this.account = new Account(this.accounts[0]);
  }

  get channel() {
    return `account.${this.account?.id}`;
  }

  /** Subscribes to the account from the last known event on. */
  async subscribe() {
    const account = this.account;
    const after = account.n > 0 && !account.waits;
    account.restart(after);
    await this.socket.call("subscribe", { channels: [this.channel], ...(after ? { after: account.n } : {}) });
    if (this.account !== account) return;
    if (after) this.set("live"); // otherwise the snapshot does
    await this.lookUp();
  }

  event(channel, data) {
    if (channel !== this.channel) return;
    const account = this.account;
    switch (account.take(data)) {
      case "snapshot":
        this.set("live");
        this.begun(() => this.listFills(account));
        return;
      case "gap": // only a bug can cause it
        account.waits = true;
        this.begun(() => this.subscribe());
        return;
      case "event":
        this.handlers.changed();
    }
  }

  async listFills(account) {
    const { fills } = await this.socket.call("fills.list", { account: account.id });
    account.addFills(fills);
    this.handlers.changed();
  }

  /**
   * Places an order. It returns its state right after that, or fails with Refused or Lost. After a
   * Lost, the same order has the same ref, so it is placed once however often it is sent.
   */
  async place(order) {
    const key = JSON.stringify([this.account.id, order]);
    const ref = this.unsure?.key === key ? this.unsure.ref : newRef();
    this.unsure = null;
    try {
      return (await this.socket.call("order.place", { account: this.account.id, ...order, ref })).order;
    } catch (error) {
      if (error instanceof Lost) this.unsure = { key, ref };
      throw error;
    }
  }

  /** Queries an order whose answer was lost. */
  async lookUp() {
    if (this.unsure === null) return;
    const { ref } = this.unsure;
    try {
      const { order } = await this.socket.call("order.get", { account: this.account.id, ref });
      this.unsure = null;
      this.handlers.found(order);
    } catch (error) {
      if (error.reason !== "unknown_order") throw error;
      this.handlers.found(null); // the ref is kept, so a new try cannot place it twice
    }
  }

  /** Changes an order's signed total or limit, whichever is given. It returns the resulting order. */
  async amend(id, changes) {
    return (await this.socket.call("order.amend", { account: this.account.id, id, ...changes })).order;
  }

  /** Cancels an order. */
  async cancel(id) {
    return (await this.socket.call("order.cancel", { account: this.account.id, id })).order;
  }

  /** Cancels all open orders of the account. It returns their number. */
  async cancelAll() {
    return (await this.socket.call("order.cancel_all", { account: this.account.id })).count;
  }
}

const practiceCash = "100000";
const practiceShares = "1000";
const triesMost = 5; // maximum number of tries with ids that are taken

/** Sends a <create> frame over POST /xml. It returns the id of the new account, or the error. */
async function create(xml) {
  const answer = await fetch("/xml", { method: "POST", body: `<create>${xml}</create>`, signal: AbortSignal.timeout(10_000) });
  const reply = new DOMParser().parseFromString(await answer.text(), "text/xml");
  const error = reply.querySelector("error")?.textContent ?? "";
  return { id: reply.querySelector("created")?.getAttribute("id"), why: error || (answer.ok ? "" : `The exchange answers with status ${answer.status}`) };
}

/** Opens an account with cash and shares of a symbol. It returns its id, or throws an error with the reason. */
export async function openPractice(sym) {
  for (let tries = 1; ; tries++) {
    const id = String(100_000 + Math.floor(Math.random() * 900_000));
    const opened = await create(`<account id="${id}" balance="${practiceCash}"/>`);
    if (opened.id !== id) {
      if (opened.why.includes("already exists") && tries < triesMost) continue;
      throw new Error(opened.why);
    }
    const placed = await create(`<symbol sym="${sym}"><account id="${id}">${practiceShares}</account></symbol>`);
    if (placed.id !== id) throw new Error(placed.why);
    return id;
  }
}
