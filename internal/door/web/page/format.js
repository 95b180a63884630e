// Numbers for people. Decimals of the exchange are exact strings; they are
// grouped and padded here. Only compact and short round; the exact number is then in the
// element's title. Floats are for drawing and for rates.

/** Puts commas between thousands: "1234567.5" becomes "1,234,567.5". */
export function grouped(decimal) {
  const [whole, fraction] = decimal.split(".");
  const text = whole.replace(/\B(?=(\d{3})+$)/g, ",");
  return fraction === undefined ? text : `${text}.${fraction}`;
}

/** The number of fractional digits of a decimal. */
export function fractionDigits(decimal) {
  const at = decimal.indexOf(".");
  return at < 0 ? 0 : decimal.length - at - 1;
}

/** The maximum number of fractional digits of some decimals. */
export function mostDigits(decimals) {
  return decimals.reduce((most, d) => Math.max(most, fractionDigits(d)), 0);
}

/**
 * The padding after a decimal that aligns its point with the others', if
 * they have this number of fractional digits. It is drawn faintly and is not text.
 */
export function padding(decimal, digits) {
  const have = fractionDigits(decimal);
  if (have >= digits) return "";
  return (have === 0 ? "." : "") + "0".repeat(digits - have);
}

const unitDigits = 8; // maximum fractional digits of a price or a number of shares

/** A price or a number of shares as an exact integer of 10^-8. */
export function units(decimal) {
  const [whole, fraction = ""] = decimal.split(".");
  return BigInt(whole + fraction.padEnd(unitDigits, "0"));
}

/** The decimal of a number of units. */
export function fromUnits(n) {
  const text = n.toString().padStart(unitDigits + 1, "0");
  const fraction = text.slice(-unitDigits).replace(/0+$/, "");
  const whole = text.slice(0, -unitDigits);
  return fraction === "" ? whole : `${whole}.${fraction}`;
}

/** The exact difference of two prices, a ≥ b ≥ 0. */
export const difference = (a, b) => fromUnits(units(a) - units(b));

/** The exact product of two prices or numbers of shares. */
export function product(a, b) {
  const text = (units(a) * units(b)).toString().padStart(2 * unitDigits + 1, "0");
  const fraction = text.slice(-2 * unitDigits).replace(/0+$/, "");
  return text.slice(0, -2 * unitDigits) + (fraction === "" ? "" : `.${fraction}`);
}

/** Reports whether a text is a decimal above 0 that the exchange accepts. */
export const isPositive = (text) => /^(\d+\.?\d*|\.\d+)$/.test(text) && fractionDigits(text) <= unitDigits && /[1-9]/.test(text);

const thousands = ["", "K", "M", "B", "T"];

/** A float as a decimal, without an exponent and without zeros at its end. */
export const trimmed = (n) => n.toFixed(unitDigits).replace(/\.?0+$/, "");

/** A quantity for people: 9,999 and 0.25 unchanged, then 29.8K, 16.4M, 3.79B. */
export function compact(decimal) {
  const n = Number(decimal);
  if (n < 10_000) return grouped(fractionDigits(decimal) <= 2 ? decimal : trimmed(Number(n < 1 ? n.toPrecision(3) : n.toFixed(2))));
  let power = Math.min(Math.floor(Math.log10(n) / 3), thousands.length - 1);
  if (power < thousands.length - 1 && Number((n / 1000 ** power).toPrecision(3)) >= 1000) power++;
  const scaled = n / 1000 ** power;
  return (scaled < 1000 ? trimmed(Number(scaled.toPrecision(3))) : grouped(String(Math.round(scaled)))) + thousands[power];
}

const exactMost = 9; // maximum characters of a quantity that a column shows exactly

/** A quantity for a narrow column: exact if it is short, else compact. */
export function short(decimal) {
  const text = grouped(decimal);
  return text.length <= exactMost ? text : compact(decimal);
}

/** A rate for people: 0, 3.4, 27, 12,345. */
export function rate(n) {
  if (!(n > 0)) return "0";
  return n < 10 ? n.toFixed(1) : grouped(Math.round(n).toString());
}

/** A duration in seconds: 85 µs, 1.2 ms, 3.4 s, 12 min. */
export function duration(seconds) {
  if (!(seconds > 0)) return "0 ms";
  if (seconds < 0.000995) return `${Math.round(seconds * 1e6)} µs`;
  if (seconds < 0.995) return `${brief(seconds * 1e3)} ms`;
  if (seconds < 120) return `${brief(seconds)} s`;
  return `${Math.round(seconds / 60)} min`;
}

const brief = (n) => (n < 9.95 ? n.toFixed(1) : Math.round(n).toString());

const minutes = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const day = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });

/** A time of day, with the date if it is not today. */
export function timeOfDay(unixSeconds) {
  const then = new Date(unixSeconds * 1000);
  return Date.now() - then < 20 * 3600 * 1000 ? clock.format(then) : day.format(then);
}

/** A time of day for an axis whose labels are this many seconds apart. */
export function timeTick(unixSeconds, apart) {
  return apart < 60 || Date.now() / 1000 - unixSeconds > 20 * 3600 ? timeOfDay(unixSeconds) : minutes.format(unixSeconds * 1000);
}
