// Elements made from texts. No text is parsed as HTML.

/** An element with attributes and children; a child is a node, a text, or an array of those. */
export function h(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  fill(node, ...children);
  return node;
}

/** Replaces an element's children, which are as for h. */
export function fill(node, ...children) {
  node.replaceChildren(...children.flat(Infinity).filter((child) => child !== null));
}

/** A text with `code` between backquotes. */
export const prose = (text) => text.split("`").map((part, i) => (i % 2 === 1 ? h("code", {}, part) : part));

/** A text of several paragraphs. */
export const paragraphs = (text = "") => text.trim().split(/\n\s*\n/).filter((p) => p !== "").map((p) => h("p", {}, prose(p)));

/** A table with a header row; a cell is a child as for h. */
export const table = (heads, rows) => h("div", { class: "scroll" }, h("table", {},
  h("thead", {}, h("tr", {}, heads.map((head) => h("th", { scope: "col" }, head)))),
  h("tbody", {}, rows.map((row) => h("tr", {}, row.map((cell) => h("td", {}, cell)))))));

/** The part of the address after its #, unescaped if that is valid. */
export function fragment() {
  const text = location.hash.slice(1);
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** Scrolls to the element that the address names, which is added after the page was loaded. */
export function toFragment() {
  if (location.hash !== "") document.getElementById(fragment())?.scrollIntoView();
}
