// Sets the colours before anything is drawn: those that were chosen last, else those of
// the system. It is no module because modules run too late for that.
"use strict";
{
  let theme = null;
  try {
    theme = localStorage.getItem("outcry-theme");
  } catch {
    // No storage, no memory of it.
  }
  if (theme !== "dark" && theme !== "light") theme = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  document.documentElement.dataset.theme = theme;
}
