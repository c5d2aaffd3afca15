// The bar that says that the server does not answer, and when it is asked again.

import { server } from "./api.js";
import { byId, count } from "./dom.js";

export function followConnection() {
  let countdown = null;
  server.addEventListener("change", ({ detail: { wait, reason } }) => {
    clearInterval(countdown);
    byId("connection").hidden = !server.down;
    document.body.classList.toggle("offline", server.down);
    if (!server.down) {
      byId("connection-text").textContent = "";
      return;
    }
    const until = Date.now() + wait;
    const text = `${reason} Your picks are kept.`;
    if (byId("connection-text").textContent !== text) byId("connection-text").textContent = text; // said once
    const tick = () => {
      const left = Math.ceil((until - Date.now()) / 1000);
      byId("connection-countdown").textContent = left > 1 ? `Trying again in ${count(left)} s` : "Trying again …";
    };
    tick();
    countdown = setInterval(tick, 500);
  });
  byId("connection-retry").addEventListener("click", server.retryNow);
}
