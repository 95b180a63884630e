// The server's documents. The address names one after its #, and a
// heading in it after a colon.
import { fill, fragment, h } from "./dom.js";
import { render } from "./markdown.js";

const index = "README";
const text = document.getElementById("text");
const contents = document.getElementById("contents");

/** The target of a link in a document. */
const placeIn = (name) => (href) => {
  if (/^https?:/.test(href)) return href;
  const { pathname, hash, host } = new URL(href, `http://documents/${name}.md`);
  if (host !== "documents" || pathname.includes("..")) return "";
  if (pathname === "/openapi.yaml") return "/page/api.html";
  const path = pathname.slice(1);
  return path.endsWith(".md") && known.has(path) ? `#${path.slice(0, -3)}${hash.replace("#", ":")}` : "";
};

let known = new Set(); // the paths of all documents
let shown = "";

async function read(path) {
  const answer = await fetch(`/page/docs/${path}`, { signal: AbortSignal.timeout(5000) }).catch(() => null);
  return answer?.ok ? answer.text() : null;
}

/** The list of documents, with the headings of the shown one. */
function list(name) {
  const deeper = (head) => h("a", { href: `#${name}:${head.id}`, class: "deeper" }, head.textContent);
  const headings = [...text.querySelectorAll("h2")].map((head) => h("li", {}, deeper(head)));
  const titles = [...known].filter((path) => !path.includes("/")).map((path) => path.slice(0, -3));
  fill(contents, h("h2", {}, "Documents"), h("ul", {}, titles.map((title) => [
    h("li", {}, h("a", title === name ? { href: `#${title}`, "aria-current": "page" } : { href: `#${title}` }, title === index ? "Overview" : title)),
    title === name && title !== index ? headings : [],
  ])));
}

async function show() {
  const { hash } = location;
  const [name, heading] = (fragment() || index).split(":");
  if (name !== shown) {
    const source = /^[\w/.-]+$/.test(name) && known.has(`${name}.md`) ? await read(`${name}.md`) : null;
    if (location.hash !== hash) return; // another one has been requested since
    fill(text, source === null ? h("p", {}, `There is no document ${name} here, or the exchange cannot be reached.`) : render(source, placeIn(name)));
    shown = source === null ? "" : name;
    document.title = `${text.querySelector("h1")?.textContent ?? name} · Outcry`;
    list(name);
  }
  if (heading === undefined) scrollTo(0, 0);
  else document.getElementById(heading)?.scrollIntoView();
}

known = new Set(JSON.parse((await read("index.json")) ?? "[]"));
addEventListener("hashchange", show);
show();
