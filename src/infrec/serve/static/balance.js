// The two sliders: how alike, and how well known, recommendations may be.

import { byId } from "./dom.js";
import { BALANCE, onChange, state, update } from "./state.js";

const names = Object.keys(BALANCE);

/** What a question for recommendations says of it. */
export const balance = () => Object.fromEntries(names.map((name) => [name, state[name]]));

function show() {
  for (const name of names) byId(name).value = state[name];
}

for (const name of names) {
  byId(name).addEventListener("input", ({ target }) => update({ [name]: Number(target.value) }));
}
onChange(show);
show();
