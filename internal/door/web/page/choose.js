// Choosing the account to trade with: a new practice account, an existing one, or those of a token.
import { openPractice } from "./desk.js";
import { element, setText } from "./view.js";

const remembered = "outcry-account"; // key in the tab's storage, until the tab is closed; a token is never stored

function recall() {
  try {
    return sessionStorage.getItem(remembered) ?? "";
  } catch {
    return ""; // no storage
  }
}

function remember(id) {
  try {
    if (id === "") sessionStorage.removeItem(remembered);
    else sessionStorage.setItem(remembered, id);
  } catch {
    // Without storage the choice lasts while the page is open.
  }
}

export class Chooser {
  /** say(text, good) shows the outcome. */
  constructor(desk, say) {
    this.desk = desk;
    this.say = say;
    this.tokens = null; // whether the exchange requires one; null: not known yet
    this.sym = "";
    this.opening = false;
    this.asked = false; // the user has just chosen an account and is about to order
    element("choose").addEventListener("submit", (event) => {
      event.preventDefault();
      this.submit();
    });
    element("open-practice").addEventListener("click", () => this.practise(this.sym, say));
    element("empty-open").addEventListener("click", async () => {
      const opened = await this.practise("SPY", (text, good) => {
        setText(element("empty-said"), text);
        element("empty-said").hidden = good;
        say(text, good);
      });
      if (opened && location.hash !== "") location.hash = "#SPY"; // the old hash named no symbol
    });
    element("leave").addEventListener("click", () => {
      remember("");
      desk.leave();
      say("", true);
      element(this.tokens ? "token" : "account").focus();
    });
  }

  /** Stores whether the exchange requires tokens. */
  meet({ tokens }) {
    const first = this.tokens === null;
    this.tokens = tokens;
    if (first && !tokens && recall() !== "") this.desk.use(recall());
    this.show(this.sym);
  }

  submit() {
    const [token, id] = [element("token"), element("account")];
    this.say("", true);
    if (this.desk.state !== "choose" && this.tokens) {
      if (token.value === "") token.focus();
      else this.desk.signIn(token.value.trim());
      this.asked = true;
      token.value = "";
      return;
    }
    if (id.value.trim() === "") id.focus();
    else this.use(id.value.trim());
  }

  use(id) {
    if (!/^[0-9]{1,64}$/.test(id)) {
      this.say(`Account "${id}" is not a number.`, false);
      return;
    }
    if (!this.tokens) remember(id);
    this.asked = true;
    this.desk.use(id);
  }

  /** Opens an account with shares of a symbol, and trades for it. It returns whether it succeeded. */
  async practise(sym, say) {
    if (this.opening || sym === "") return false;
    this.opening = true;
    let opened = false;
    say("Opening an account", true);
    try {
      const id = await openPractice(sym);
      say(`Account ${id} is yours. Place an order.`, true);
      this.use(id);
      opened = true;
    } catch (error) {
      say(`There is no account: ${error.message}.`, false);
    }
    this.opening = false;
    return opened;
  }

  /** Shows the choices, or the chosen account, next to a symbol. */
  show(sym) {
    this.sym = sym;
    const { desk } = this;
    const trading = desk.account !== null;
    element("choose").hidden = trading || this.tokens === null;
    element("ticket").hidden = !trading;
    element("who").hidden = !trading && desk.state !== "choose";
    setText(element("who-id"), trading ? desk.account.id : "");
    const choosing = desk.state === "choose";
    element("practice").hidden = this.tokens !== false;
    element("empty-practice").hidden = this.tokens !== false;
    setText(element("practice-sym"), sym);
    element("token-label").hidden = !this.tokens || choosing;
    element("account-label").hidden = this.tokens && !choosing;
    const offered = (desk.accounts ?? []).join();
    if (element("accounts").dataset.of !== offered) {
      element("accounts").dataset.of = offered;
      element("accounts").replaceChildren(...(desk.accounts ?? []).map((id) => new Option(id, id)));
    }
    if (this.asked) this.goOn();
  }

  /** Moves the focus to the ticket after the user has chosen an account, once it is visible. */
  goOn() {
    const { state } = this.desk;
    const next = { live: element("shares"), choose: element("account") }[state];
    if (next === undefined || !next.checkVisibility()) return;
    this.asked = state === "choose";
    if (document.activeElement === next) return;
    next.focus({ preventScroll: true });
    next.select();
  }

  /** Shows why trading for an account has ended. */
  left(why) {
    remember("");
    this.say(`${why.charAt(0).toUpperCase()}${why.slice(1)}.`, false);
  }

  /** Shows the state of the connection. */
  tell(was) {
    const { state, why } = this.desk;
    if (state === "lost") this.say(`There is no connection for orders${why === "" ? "" : `: ${why}`}. Trying again.`, false);
    if (state === "live" && was === "lost") this.say("Connected again.", true);
  }
}
