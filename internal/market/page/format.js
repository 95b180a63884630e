// Numbers as people read them. Decimals of the exchange are exact strings; they are
// grouped and padded here, never rounded. Floats are for drawing and for rates.

/** Puts commas between thousands: "1234567.5" becomes "1,234,567.5". */
export function grouped(decimal) {
  const [whole, fraction] = decimal.split(".");
  const text = whole.replace(/\B(?=(\d{3})+$)/g, ",");
  return fraction === undefined ? text : `${text}.${fraction}`;
}

/** How many fractional digits a decimal has. */
export function fractionDigits(decimal) {
  const at = decimal.indexOf(".");
  return at < 0 ? 0 : decimal.length - at - 1;
}

/** The most fractional digits that any of the decimals has. */
export function mostDigits(decimals) {
  return decimals.reduce((most, d) => Math.max(most, fractionDigits(d)), 0);
}

/**
 * What has to stand behind a decimal so that its point is below the others', where
 * those have so many fractional digits. It is drawn faintly, and is no text.
 */
export function padding(decimal, digits) {
  const have = fractionDigits(decimal);
  if (have >= digits) return "";
  return (have === 0 ? "." : "") + "0".repeat(digits - have);
}

/** The exact difference of two decimals, a ≥ b ≥ 0. */
export function difference(a, b) {
  const digits = Math.max(fractionDigits(a), fractionDigits(b));
  const units = (decimal) => {
    const [whole, fraction = ""] = decimal.split(".");
    return BigInt(whole + fraction.padEnd(digits, "0"));
  };
  const text = (units(a) - units(b)).toString().padStart(digits + 1, "0");
  if (digits === 0) return text;
  const fraction = text.slice(text.length - digits).replace(/0+$/, "");
  const whole = text.slice(0, text.length - digits);
  return fraction === "" ? whole : `${whole}.${fraction}`;
}

/** A rate as people compare it: 0, 3.4, 27, 12,345. */
export function rate(n) {
  if (!(n > 0)) return "0";
  return n < 10 ? n.toFixed(1) : grouped(Math.round(n).toString());
}

/** A duration in seconds: 85 µs, 1.2 ms, 3.4 s, 12 min. */
export function duration(seconds) {
  if (!(seconds > 0)) return "0 ms";
  if (seconds < 0.000995) return `${Math.round(seconds * 1e6)} µs`;
  if (seconds < 0.995) return `${short(seconds * 1e3)} ms`;
  if (seconds < 120) return `${short(seconds)} s`;
  return `${Math.round(seconds / 60)} min`;
}

const short = (n) => (n < 9.95 ? n.toFixed(1) : Math.round(n).toString());

const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const day = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });

/** A time of day, with its day where that is not today. */
export function timeOfDay(unixSeconds) {
  const then = new Date(unixSeconds * 1000);
  return Date.now() - then < 20 * 3600 * 1000 ? clock.format(then) : day.format(then);
}
