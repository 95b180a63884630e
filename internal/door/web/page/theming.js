// The button that changes the colours. theme.js has set those to begin with.
const key = "outcry-theme";
const button = document.getElementById("theme");
const dark = matchMedia("(prefers-color-scheme: dark)");
const after = []; // called when the colours have changed

let chosen = null;
try {
  chosen = localStorage.getItem(key);
} catch {
  // No storage: a choice holds as long as the page is open.
}

/** Has draw called when the colours have changed. */
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
    // As above.
  }
});
dark.addEventListener("change", () => {
  if (chosen === null) set(dark.matches ? "dark" : "light");
});
set(document.documentElement.dataset.theme);
