// Documents for people: the part of Markdown that these documents use. Nothing is parsed as
// HTML. A link leads to a document, this server or the web; any other is plain text.
import { h, table } from "./dom.js";

const inlines = /`([^`]+)`|\*\*([^*]+)\*\*|\*([^*\s][^*]*)\*|!?\[((?:`[^`]+`|[^\]`])+)\]\(([^)\s]+)\)|<?(https?:\/\/[^\s)>]+)>?/g;

/** The name by which links refer to a heading. */
const slug = (text) => text.toLowerCase().replace(/[^\p{L}\p{N} _-]/gu, "").replaceAll(" ", "-");

/** Converts a document to elements. place(href) returns the target of a link, "" for none. */
export function render(text, place) {
  const inline = (source) => {
    const parts = [];
    let end = 0;
    for (const found of source.matchAll(inlines)) {
      parts.push(source.slice(end, found.index));
      end = found.index + found[0].length;
      const [all, code, strong, weak, label, href, url] = found;
      if (code !== undefined) parts.push(h("code", {}, code));
      else if (strong !== undefined) parts.push(h("b", {}, inline(strong)));
      else if (weak !== undefined) parts.push(h("em", {}, inline(weak)));
      else if (url !== undefined) parts.push(h("a", { href: url }, url));
      else if (all.startsWith("!")) parts.push(h("em", {}, `Picture: ${label}`));
      else parts.push(place(href) === "" ? inline(label) : h("a", { href: place(href) }, inline(label)));
    }
    parts.push(source.slice(end));
    return parts;
  };
  return blocks(text.replace(/<!--[^]*?-->/g, "").split("\n"), inline);
}

const fence = /^\s*```/;
const heading = /^(#{1,4}) +(.*)$/;
const bullet = /^(\s{0,3})([-*]|\d+\.) +/;
const rule = /^\|?[\s:|-]*-{3}[\s:|-]*$/;
const begins = (line) => fence.test(line) || heading.test(line) || bullet.test(line) || line.startsWith("|") || line.startsWith(">");

/** The elements of lines, block after block. Each take function returns an element and its number of lines. */
function blocks(lines, inline) {
  const made = [];
  for (let i = 0; i < lines.length;) {
    if (lines[i].trim() === "") {
      i++;
      continue;
    }
    const take = fence.test(lines[i]) ? takeFence : heading.test(lines[i]) ? takeHeading : bullet.test(lines[i]) ? takeList
      : lines[i].startsWith("|") && rule.test(lines[i + 1] ?? "") ? takeTable : lines[i].startsWith(">") ? takeQuote
        : lines[i].startsWith("    ") ? takeCode : takeParagraph;
    const [element, n] = take(lines.slice(i), inline);
    made.push(element);
    i += n;
  }
  return made;
}

const pre = (lines) => h("pre", { tabindex: "0" }, h("code", {}, lines.join("\n")));

/** The number of lines from the first on that pass, at least one. */
function run(lines, passes) {
  const end = lines.findIndex((line, i) => i > 0 && !passes(line, i));
  return end < 0 ? lines.length : end;
}

function takeFence(lines) {
  const n = run(lines, (line) => !fence.test(line));
  return [pre(lines.slice(1, n)), n + 1];
}

function takeCode(lines) {
  const n = run(lines, (line) => line.startsWith("    ") || line.trim() === "");
  return [pre(lines.slice(0, n).join("\n").trimEnd().split("\n").map((line) => line.slice(4))), n];
}

function takeHeading([line], inline) {
  const [, marks, text] = line.match(heading);
  const parts = h(`h${marks.length}`, {}, inline(text));
  parts.id = slug(parts.textContent);
  return [parts, 1];
}

const cellsOf = (line) => line.trim().replace(/^\||\|$/g, "").split(/(?<!\\)\|/).map((cell) => cell.trim().replaceAll("\\|", "|"));

function takeTable(lines, inline) {
  const n = run(lines, (line) => line.startsWith("|"));
  return [table(cellsOf(lines[0]).map(inline), lines.slice(2, n).map((line) => cellsOf(line).map(inline))), n];
}

function takeQuote(lines, inline) {
  const n = run(lines, (line) => line.startsWith(">"));
  return [h("blockquote", {}, blocks(lines.slice(0, n).map((line) => line.replace(/^> ?/, "")), inline)), n];
}

function takeList(lines, inline) {
  const ordered = /^\s*\d/.test(lines[0]);
  const deeper = (line) => /^\s{2,}\S/.test(line);
  const belongs = (line) => bullet.test(line) || deeper(line);
  const n = run(lines, (line, i) => {
    if (belongs(line)) return true;
    if (line.trim() === "") return belongs(lines[i + 1] ?? "");
    return lines[i - 1].trim() !== "" && !begins(line); // the paragraph continues
  });
  const top = lines[0].match(bullet)[1].length;
  const items = [];
  for (const line of lines.slice(0, n)) {
    const mark = line.match(bullet);
    if (mark !== null && mark[1].length === top) items.push([line.slice(mark[0].length)]);
    else items.at(-1).push(line.replace(/^ {1,3}/, ""));
  }
  return [h(ordered ? "ol" : "ul", {}, items.map((item) => h("li", {}, blocks(item, inline)))), n];
}

function takeParagraph(lines, inline) {
  const n = run(lines, (line) => line.trim() !== "" && !begins(line));
  return [h("p", {}, inline(lines.slice(0, n).join(" "))), n];
}
