// What the page shows, kept in the address: #like=260&like=1196 or #known=17, &model=full&beside=small&genre=Drama&diversity=0.3&view=summary
// A reload, a bookmark or a shared link brings back the same page; nothing is stored anywhere else.

const SINGLE = ["model", "beside", "known", "view", "which", "sort", "user"];

export const BALANCE = { diversity: [0, 1], popularity: [-1, 1] }; // sliders, and their ends
const PAUSE = 120; // ms

export const state = { likes: [], genres: [], k: 10 };
const listeners = [];
let writing = null;

function parse() {
  const fragment = new URLSearchParams(location.hash.slice(1));
  state.likes = [...new Set(fragment.getAll("like").filter(Boolean))];
  state.genres = [...new Set(fragment.getAll("genre"))];
  state.k = Math.min(50, Math.max(10, Math.round(fragment.get("k")) || 10));
  for (const [name, [least, most]] of Object.entries(BALANCE)) {
    state[name] = Math.min(most, Math.max(least, Math.round(10 * fragment.get(name)) / 10 || 0));
  }
  for (const name of SINGLE) state[name] = fragment.get(name) ?? "";
}

/** The address of the page with these changes. */
export function address(changes = {}) {
  const next = { ...state, ...changes };
  const fragment = new URLSearchParams();
  for (const id of next.likes) fragment.append("like", id);
  for (const genre of next.genres) fragment.append("genre", genre);
  for (const name of SINGLE) if (next[name]) fragment.append(name, next[name]);
  for (const name of Object.keys(BALANCE)) if (next[name]) fragment.append(name, next[name]);
  if (next.k !== 10) fragment.append("k", next.k);
  return `#${fragment}`;
}

/** Change what is shown. Going to another view is a step that the browser's back button undoes. */
export function update(changes, { step = false } = {}) {
  Object.assign(state, changes);
  clearTimeout(writing);
  // Browsers refuse an address that changes too often (a key held down): it follows a moment later.
  if (step) history.pushState(null, "", address());
  else writing = setTimeout(write, PAUSE, location.hash);
  for (const listener of listeners) listener(state);
}

/** Unless a link or the back button has been quicker: then what it says counts. */
function write(from) {
  if (location.hash === from && address() !== from) history.replaceState(null, "", address());
}

export function onChange(listener) {
  listeners.push(listener);
}

addEventListener("hashchange", () => {
  clearTimeout(writing);
  parse();
  for (const listener of listeners) listener(state);
});
addEventListener("pagehide", () => write(location.hash));
parse();
