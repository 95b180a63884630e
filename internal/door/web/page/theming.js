// The button that changes the colours. theme.js sets the first ones.
const key = "outcry-theme";
const button = document.getElementById("theme");
const dark = matchMedia("(prefers-color-scheme: dark)");
const after = []; // functions to call when the colours have changed

let chosen = null;
try {
  chosen = localStorage.getItem(key);
} catch {
  // Without storage the choice lasts while the page is open.
}

/** Registers draw to be called when the colours change. */
export function onTheme(draw) {
  after.push(draw);
}

function set(theme) {
  document.documentElement.dataset.theme = theme;
  button.setAttribute("aria-pressed", String(theme === "dark"));
  for (const draw of after) draw();
}

button.addEventListener("click", () => {
  chosen = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  set(chosen);
  try {
    localStorage.setItem(key, chosen);
  } catch {
    // Without storage the choice lasts while the page is open.
  }
});
dark.addEventListener("change", () => {
  if (chosen === null) set(dark.matches ? "dark" : "light");
});
set(document.documentElement.dataset.theme);
