// The button for light, dark, or whatever the system says. The choice is kept; theme.js applies it before paint.

import { byId } from "./dom.js";

const NEXT = { system: "light", light: "dark", dark: "system" };
const SIGN = { system: "◐", light: "○", dark: "●" };

export function followTheme() {
  const root = document.documentElement;
  const button = byId("theme");
  const show = () => {
    const now = root.dataset.theme ?? "system";
    button.textContent = SIGN[now];
    button.setAttribute("aria-label", `Colours: ${now}. Change to ${NEXT[now]}.`);
    button.title = `Colours: ${now}`;
    // Pictures that are painted, not styled, paint again.
    dispatchEvent(new Event("themechange"));
  };
  button.addEventListener("click", () => {
    const next = NEXT[root.dataset.theme ?? "system"];
    if (next === "system") delete root.dataset.theme;
    else root.dataset.theme = next;
    try {
      if (next === "system") localStorage.removeItem("infrec-theme");
      else localStorage.setItem("infrec-theme", next);
    } catch {
      // Storage is switched off: the choice lasts as long as the page.
    }
    show();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", show);
  show();
}
