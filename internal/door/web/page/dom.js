// Elements made from texts. Nothing is ever read as HTML.

/** An element with attributes and children; a child is a node, a text, or an array of those. */
export function h(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  fill(node, ...children);
  return node;
}

/** Gives an element other children, as h does. */
export function fill(node, ...children) {
  node.replaceChildren(...children.flat(Infinity).filter((child) => child !== null));
}

/** A text in which `code` stands between backquotes. */
export const prose = (text) => text.split("`").map((part, i) => (i % 2 === 1 ? h("code", {}, part) : part));

/** A text of several paragraphs. */
export const paragraphs = (text = "") => text.trim().split(/\n\s*\n/).filter((p) => p !== "").map((p) => h("p", {}, prose(p)));

/** A table with a row of heads; a cell is what h takes as a child. */
export const table = (heads, rows) => h("div", { class: "scroll" }, h("table", {},
  h("thead", {}, h("tr", {}, heads.map((head) => h("th", { scope: "col" }, head)))),
  h("tbody", {}, rows.map((row) => h("tr", {}, row.map((cell) => h("td", {}, cell)))))));

/** What the address names after its #: as it is, where it is no valid escape. */
export function fragment() {
  const text = location.hash.slice(1);
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** Scrolls to what the address names, which was not there when the page was loaded. */
export function toFragment() {
  if (location.hash !== "") document.getElementById(fragment())?.scrollIntoView();
}
