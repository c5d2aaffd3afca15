// Runs before the first paint, so that a chosen theme does not flash. Without a choice the system decides.
"use strict";
try {
  const chosen = localStorage.getItem("infrec-theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
} catch {
  // Storage is switched off: the system decides.
}
