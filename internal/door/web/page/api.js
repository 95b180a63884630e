// The description of the market data API (OpenAPI), for people: the requests, with
// examples, and the answers.
import { fill, h, paragraphs, prose, table, toFragment } from "./dom.js";

const nameOf = (ref) => ref.split("/").at(-1);

const link = (name) => h("a", { href: `#schema-${name}` }, name);

/** A schema's type, in a few words. */
function typeOf(schema) {
  if (schema.$ref !== undefined) return link(nameOf(schema.$ref));
  if (schema.type === "array") return ["array of ", typeOf(schema.items), schema.minItems === undefined ? "" : `, exactly ${schema.minItems}`];
  const { minimum: least, maximum: most } = schema;
  const range = least === undefined ? "" : most === undefined ? `, at least ${least}` : `, ${least} to ${most}`;
  return [schema.enum === undefined ? schema.type : schema.enum.join(" or "), range];
}

/** The further constraints of a value. */
function remarks(schema, description = schema.description) {
  const more = [];
  if (description !== undefined) more.push(prose(description));
  if (schema.default !== undefined) more.push(` (default ${schema.default})`);
  if (schema.pattern !== undefined) more.push(" matches ", h("code", {}, schema.pattern));
  if (schema.maxLength !== undefined) more.push(` (at most ${schema.maxLength} characters)`);
  return more;
}

/** The members of an object, with those of nested objects below them. */
function membersOf(schema, before = "") {
  return Object.entries(schema.properties ?? {}).flatMap(([name, member]) => {
    const optional = (schema.required ?? []).includes(name) ? "" : " optional";
    const row = [[h("code", {}, before + name), h("small", {}, optional)], typeOf(member), remarks(member)];
    const inner = member.type === "array" ? member.items : member;
    return [row, ...membersOf(inner, `${before}${name}.`)];
  });
}

function showSchema([name, schema]) {
  const rows = membersOf(schema);
  const each = schema.items === undefined ? "" : [", each ", remarks(schema.items)];
  const text = rows.length > 0 ? paragraphs(schema.description) : h("p", {}, typeOf(schema), "; ", remarks(schema), each);
  const examples = (schema.examples ?? []).map((e) => h("pre", {}, h("code", {}, JSON.stringify(e))));
  const members = rows.length === 0 ? null : table(["Member", "Type", "Meaning"], rows);
  return h("section", { id: `schema-${name}` }, h("h3", {}, name), text, members, examples);
}

/** Formatted JSON; values that fit are on one line. */
function pretty(value, indent = "") {
  const line = JSON.stringify(value);
  if (typeof value !== "object" || value === null || line.length + indent.length < 76) return line;
  const inner = `${indent}  `;
  const member = ([name, v]) => `${JSON.stringify(name)}: ${pretty(v, inner)}`;
  const parts = Array.isArray(value) ? value.map((v) => pretty(v, inner)) : Object.entries(value).map(member);
  const [open, close] = Array.isArray(value) ? "[]" : "{}";
  return `${open}\n${inner}${parts.join(`,\n${inner}`)}\n${indent}${close}`;
}

/** A path with the examples of its parameters. */
function examplePath(path, parameters) {
  const query = parameters.filter((p) => p.in === "query" && p.example !== undefined).map((p) => `${p.name}=${p.example}`);
  const filled = path.replace(/\{(\w+)\}/g, (_, name) => parameters.find((p) => p.name === name).example);
  return filled + (query.length > 0 ? `?${query.join("&")}` : "");
}

function showExample(path, operation) {
  const at = examplePath(path, operation.parameters ?? []);
  const [[type, content]] = Object.entries(operation.responses["200"].content);
  const answer = content.example;
  const flags = [location.protocol === "https:" ? "--cacert FILE " : "", type === "text/event-stream" ? "-N " : ""].join("");
  return [
    h("h4", {}, "Example"),
    h("pre", {}, h("code", {}, `curl ${flags}'${location.origin}${at}'`)),
    answer === undefined ? null : h("pre", {}, h("code", {}, typeof answer === "string" ? answer : pretty(answer))),
    h("p", { class: "note" }, h("a", { href: at }, "Ask this exchange")),
  ];
}

function showResponse([status, response], description) {
  const what = response.$ref === undefined ? response : description.components.responses[nameOf(response.$ref)];
  const types = Object.entries(what.content ?? {}).map(([type, { schema }]) => (schema.$ref === undefined ? type : [type, ": ", typeOf(schema)]));
  return [h("code", {}, status), types, response.$ref === undefined ? prose(what.description) : h("a", { href: "#errors" }, "what errors mean")];
}

const anchorOf = (operation) => `path-${operation.operationId}`;

function parameterRow(p) {
  return [[h("code", {}, p.name), h("small", {}, p.required ? "" : " optional")], p.in, typeOf(p.schema), remarks(p.schema, p.description)];
}

function showPath([path, { get }], description) {
  const parameters = (get.parameters ?? []).map(parameterRow);
  const events = Object.entries(get.responses["200"]["x-events"] ?? {}).map(([name, schema]) => [h("code", {}, name), typeOf(schema)]);
  return h("section", { id: anchorOf(get), class: "path" },
    h("h3", {}, h("span", { class: "method" }, "GET"), " ", h("code", {}, path)),
    h("p", { class: "lead" }, `${get.summary}.`),
    paragraphs(get.description),
    parameters.length === 0 ? null : [h("h4", {}, "Parameters"), table(["Name", "In", "Type", "Meaning"], parameters)],
    h("h4", {}, "Responses"),
    table(["Status", "Body", "Meaning"], Object.entries(get.responses).map((r) => showResponse(r, description))),
    events.length === 0 ? null : [h("h4", {}, "Events"), table(["Event", "Data"], events)],
    showExample(path, get));
}

function show(description) {
  const paths = Object.entries(description.paths);
  const schemas = Object.entries(description.components.schemas);
  const item = (href, ...text) => h("li", {}, h("a", { href }, ...text));
  fill(document.getElementById("contents"),
    h("h2", {}, "Paths"), h("ul", {}, paths.map(([path, { get }]) => item(`#${anchorOf(get)}`, path.replace("/api/v1", "")))),
    h("h2", {}, "Schemas"), h("ul", {}, schemas.map(([name]) => item(`#schema-${name}`, name))),
  );
  const example = (content) => h("pre", {}, h("code", {}, pretty(content.example)));
  const errors = Object.values(description.components.responses)
    .map((r) => [paragraphs(r.description), Object.values(r.content).map(example)]);
  fill(document.getElementById("text"),
    h("h2", {}, description.info.title), paragraphs(description.info.description),
    h("p", { class: "note" }, "For programs: ", h("a", { href: "/api/v1/openapi.yaml" }, "openapi.yaml"),
      `. Version ${description.info.version}, ${description.info.license.name}.`),
    paths.map((p) => showPath(p, description)),
    h("section", { id: "errors" }, h("h3", {}, "Errors"), errors),
    h("h2", {}, "Schemas"), schemas.map(showSchema),
  );
  toFragment();
}

const answer = await fetch("/page/openapi.json").catch(() => null);
if (answer?.ok) show(await answer.json());
else fill(document.getElementById("text"), h("p", {}, "The exchange cannot be reached. Reload the page to try again."));
