// Sets the colours before the page is drawn: those chosen last, else those of
// the system. It is not a module because modules run too late for that.
"use strict";
{
  let theme = null;
  try {
    theme = localStorage.getItem("outcry-theme");
  } catch {
    // Without storage the last choice is unknown.
  }
  if (theme !== "dark" && theme !== "light") theme = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  document.documentElement.dataset.theme = theme;
}
