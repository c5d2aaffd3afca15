// The page: reads the address, asks the service, shows the answers. Everything shown follows from `state`.

import { server, keepToken, takeToken } from "./api.js";
import { balance } from "./balance.js";
import { followConnection } from "./connection.js";
import { announce, byId, el, plural, title, titled } from "./dom.js";
import { about, ask, held, List, Ties } from "./recommendations.js";
import { Search, showPicks } from "./search.js";
import { address, onChange, state, update } from "./state.js";
import { SummaryView } from "./summary.js";
import { offerCopies } from "./take-away.js";
import { followTheme } from "./theme-switch.js";

const AT_A_TIME = 8; // questions at once
const known = new Map(); // item id as text → what the service said about it
let models = [];
let asking = null;
let shown = ""; // the question whose answer is on the page
let answered = []; // what is on the page: each model and its items

const remember = (items) => items.forEach((item) => known.set(String(item.item), item));
const named = (name) => models.find((model) => model.name === name);
/** A known user is looked up in models that keep users alone. */
const canAnswer = (model) => model && (!state.known || model.named);
const main = () => [named(state.model), models.find((model) => model.default), ...models].find(canAnswer) ?? models[0];
const ALONE = "none"; // in the place of a second model
const others = () => models.filter((model) => model !== main());

/** The model that the first one is compared with; of two, the other one, unless that is not wanted. */
function beside() {
  const wanted = !state.beside && models.length === 2 ? others()[0] : others().find((model) => model.name === state.beside);
  return canAnswer(wanted) ? wanted : null;
}

const find = (q, limit) => server.get(`v1/items?${new URLSearchParams({ q, limit, model: main().name })}`);
const explorable = () => models.filter((model) => model.explorable);

// ---- picks -----------------------------------------------------------------------------------------------
function toggle(item) {
  remember([item]);
  const id = String(item.item);
  const has = state.likes.includes(id);
  announce(`${title(item)} ${has ? "removed" : "picked"}`);
  update({ likes: has ? state.likes.filter((other) => other !== id) : [...state.likes, id], known: "", k: 10 });
}

const search = new Search({
  model: () => (main() ? { model: main().name } : {}),
  picked: (id) => state.likes.includes(String(id)),
  toggle,
  undo: () => state.likes.length && toggle(known.get(state.likes.at(-1)) ?? { item: state.likes.at(-1) }),
});

const picksShown = () => showPicks(state.likes.map((id) => known.get(id) ?? { item: id }), toggle);

/** Picks from the address are only ids: ask what they are called, a few at a time. An id is its own best match. */
async function namePicks() {
  const strangers = state.likes.filter((id) => !known.has(id));
  for (let at = 0; at < strangers.length; at += AT_A_TIME) {
    const some = strangers.slice(at, at + AT_A_TIME);
    const answers = await Promise.all(some.map((id) => find(id, 1)));
    remember(answers.flatMap(({ items }) => items));
    picksShown();
  }
}

// ---- what is recommended ---------------------------------------------------------------------------------
const lists = [0, 1].map(() => new List({ like: toggle }));
const ties = new Ties();

async function recommend() {
  const pair = [main(), beside()].filter(Boolean);
  const person = state.known ? { user: state.known } : { history: state.likes };
  const question = { person, k: state.k, genres: state.genres, ...balance() };
  const key = JSON.stringify([pair.map((model) => [model.name, model.hash]), question]);
  if (key === shown) return;
  asking?.abort();
  const mine = (asking = new AbortController());
  const area = byId("lists");
  if (area.childElementCount !== (pair.length === 2 ? 3 : 1)) {
    area.replaceChildren(...(pair.length === 2 ? [lists[0].node, ties.node, lists[1].node] : [lists[0].node]));
    area.classList.toggle("two", pair.length === 2);
  }
  pair.forEach((_, at) => lists[at].showWaiting());
  area.setAttribute("aria-busy", "true");
  try {
    // Picks get their names before there is a list: a longer name would move what is being pressed below it.
    const [, ...answers] = await Promise.all([namePicks(), ...pair.map((model) => ask(model, question, mine.signal))]);
    if (mine.signal.aborted) return;
    showAnswers(pair, answers, question);
    shown = key;
    await noticeReload(pair, answers);
  } catch (failure) {
    if (failure.name === "AbortError" || mine.signal.aborted) return;
    shown = "";
    complain("notice", failure);
  } finally {
    if (asking === mine) area.setAttribute("aria-busy", "false");
  }
}

function showAnswers(pair, answers, { person, k, genres }) {
  byId("notice").hidden = true;
  answers.forEach((answer) => remember(answer.items));
  const ids = answers.map((answer) => answer.items.map((item) => String(item.item)));
  const shared = pair.length === 2 ? ids[0].filter((id) => ids[1].includes(id)) : [];
  const places = pair.map((_, at) => new Map(ids[at].map((id, rank) => [id, rank + 1])));
  const fresh = pair.map((model, at) => {
    const other = pair[1 - at];
    const mark = (place) =>
      place
        ? { shared: true, text: `also no. ${place} there`, why: `${other.name} has it too, at place ${place}.` }
        : { shared: false, text: "only here", why: `${other.name} does not have this item among as many.` };
    const marks = other && ((item) => mark(places[1 - at].get(String(item.item))));
    return lists[at].show(answers[at], model, person, { compact: pair.length === 2, marks });
  });
  answered = pair.map((model, at) => ({ model, items: answers[at].items }));
  byId("switch").hidden = pair.length < 2;
  byId("switch")
    .querySelectorAll("span")
    .forEach((label, at) => (label.textContent = pair[at]?.name ?? ""));
  const overlap = byId("overlap");
  overlap.hidden = pair.length < 2;
  const total = Math.max(...ids.map((list) => list.length), 0);
  overlap.replaceChildren(
    el("span", {}, el("strong", {}, `${shared.length} of ${total}`), " titles are in both lists"),
    ...legend(pair),
  );
  if (pair.length === 2) ties.between(lists[0], lists[1], shared);
  const nothing = !ids[0].length;
  const popular = answers.some((answer) => answer.source === "popular");
  const filtered = held(pair[0], genres).length > 0;
  if (nothing) {
    const all = person.history ? "among your picks" : "known to this user";
    tell("notice", `No title is left${filtered ? " with these genres. Allow another one." : `: all are ${all}.`}`);
  }
  if (!nothing && popular) {
    const unknown = person.history ? "None of your picks is known to the model" : `No user “${person.user}” is known to the model`;
    tell("notice", `${unknown}; these are its popular titles.`);
  }
  byId("more").hidden = ids[0].length < k || k >= 50;
  byId("copy").hidden = nothing;
  announce(
    nothing
      ? byId("notice").textContent
      : `${plural(ids[0].length, "recommendation")}, ${fresh[0]} new. First: ${title(answers[0].items[0])}.` +
          (pair.length === 2 ? ` ${shared.length} of ${total} in both lists.` : ""),
  );
}

/** What the bars mean, where no heading stands over them. */
function legend(pair) {
  if (!pair.some((model) => model.explains)) return [];
  const key = (kind, text) => el("span", { class: `key ${kind}` }, text);
  const synthetic = pair.some((model) => model.summary);
  return [key("pick", "your picks"), ...(synthetic ? [key("user", "synthetic users behind it")] : [])];
}

/** A model replaced while the page was open: fetch what has changed. */
async function noticeReload(pair, answers) {
  const changed = pair.some((model, at) => answers[at].model.hash !== model.hash);
  if (changed) await start();
}

// ---- what one chooses from -------------------------------------------------------------------------------
function showControls() {
  const option = (model) => el("option", { value: model.name }, `${model.name}: ${about(model)}`);
  const current = main();
  byId("model").replaceChildren(...models.map(option));
  byId("model").value = current.name;
  byId("beside").replaceChildren(el("option", { value: ALONE }, "nothing else"), ...others().map(option));
  byId("beside").value = beside()?.name ?? ALONE;
  byId("beside-part").hidden = models.length < 2;
  byId("untitled").hidden = current.titles;
  byId("genre-part").hidden = !current.genres.length;
  const only = held(current, state.genres);
  byId("genre-text").textContent = only.length ? `only ${only.join(", ")}` : "in any genre";
  const list = byId("genre-list");
  if (list.dataset.of !== current.genres.join("|")) {
    list.dataset.of = current.genres.join("|");
    const box = (genre) => el("input", { type: "checkbox", name: "genre", value: genre });
    list.replaceChildren(...current.genres.map((genre) => el("label", {}, box(genre), el("span", {}, genre))));
  }
  list.querySelectorAll("input").forEach((box) => (box.checked = state.genres.includes(box.value)));
}

/** What answers, to the letter. */
function showProvenance() {
  const size = (model) => `${plural(model.items, "title")}, ${plural(model.interactions, "interaction")}`;
  byId("provenance").textContent = models
    .map((model) => `${model.name}: ${about(model)}, ${size(model)}, ${model.hash}`)
    .join(" · ");
}

async function showWall() {
  const wall = byId("wall");
  if (wall.dataset.of === main().hash) return;
  const { items } = await find("", 28);
  remember(items);
  wall.dataset.of = main().hash;
  const button = (item) => el("button", { type: "button", click: () => toggle(item) }, ...titled(item));
  const size = (at) => `size-${Math.min(4, Math.floor(at / 5))}`; // the best known are the largest
  wall.replaceChildren(...items.map((item, at) => el("li", { class: size(at) }, button(item))));
}

byId("model").addEventListener("change", (event) => update({ model: event.target.value }));
byId("beside").addEventListener("change", (event) => update({ beside: event.target.value }));
byId("controls").addEventListener("submit", (event) => event.preventDefault());
byId("genre-list").addEventListener("change", () => {
  update({ genres: [...byId("genre-list").querySelectorAll("input:checked")].map((box) => box.value) });
});
byId("known-form").addEventListener("submit", (event) => {
  event.preventDefault();
  const id = byId("known").value.trim();
  if (id) update({ known: id, likes: [], k: 10 });
});
byId("stranger").addEventListener("click", () => {
  update({ known: "", k: 10 });
  search.focus();
});
byId("clear").addEventListener("click", () => {
  update({ likes: [], genres: [], diversity: 0, popularity: 0, k: 10 });
  search.focus();
});
byId("more").addEventListener("click", () => update({ k: state.k + 10 }));
byId("switch").addEventListener("change", ({ target }) => {
  byId("lists").classList.toggle("second", target.value === "second");
});
offerCopies(() => answered);
for (const event of ["pointerover", "focusin"]) {
  byId("lists").addEventListener(event, ({ target }) => ties.light(target.closest(".rec")?.dataset.item));
}
byId("lists").addEventListener("pointerleave", () => ties.light(null));
// Native disclosure leaves a menu open when one goes elsewhere; a menu should not stay.
document.addEventListener("pointerdown", ({ target }) => {
  if (!byId("genre-part").contains(target)) byId("genre-part").open = false;
});
byId("genre-part").addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  byId("genre-part").open = false;
  byId("genre-part").querySelector("summary").focus();
});

// ---- the whole -------------------------------------------------------------------------------------------
const summary = new SummaryView({ explorable, remember, complain: (failure) => complain("summary-notice", failure) });
let view = null;

/** Whether there is somebody to recommend to: by picks, or a known user. */
const asked = () => state.likes.length > 0 || Boolean(state.known);

/** The frame of the page: which view, which part of it. Stands before the first answer arrives. */
function frame() {
  const wanted = state.view === "summary" && (explorable().length || !models.length) ? "summary" : "recommend";
  if (view !== wanted && view !== null) scrollTo(0, 0);
  view = wanted;
  byId("view-recommend").hidden = view !== "recommend";
  byId("view-summary").hidden = view !== "summary";
  byId("to-summary").hidden = !explorable().length;
  byId("start").hidden = asked();
  byId("results").hidden = !asked();
  byId("known-part").hidden = !state.known && !models.some((model) => model.named);
  byId("known-shown").hidden = !state.known;
  byId("known-name").textContent = state.known;
  for (const [id, target] of [["mark", ""], ["to-recommend", ""], ["to-summary", "summary"]]) {
    byId(id).href = address({ view: target });
    if (id !== "mark" && (target || "recommend") === view) byId(id).setAttribute("aria-current", "page");
    else byId(id).removeAttribute("aria-current");
  }
  document.title = view === "summary" ? "The summary · infrec" : "infrec";
}

async function render() {
  frame();
  if (!models.length) return;
  if (view === "summary") return summary.show();
  showControls();
  if (!asked()) {
    forget();
    lists.forEach((list) => list.clear());
    byId("notice").hidden = true;
  }
  picksShown();
  try {
    await (asked() ? recommend() : showWall());
  } catch (failure) {
    complain("notice", failure);
  }
}

function forget() {
  asking?.abort();
  shown = "";
}

function tell(where, text) {
  byId(where).textContent = text;
  byId(where).hidden = false;
}

/** A lost server has its own bar; what else went wrong is said where it happened. */
function complain(where, failure) {
  if (failure.status === 401) askToken();
  else if (failure.status) tell(where, failure.message);
  else if (!server.down && failure.name !== "AbortError") throw failure;
}

function askToken() {
  const form = byId("token-form");
  const again = !form.hidden;
  form.hidden = false;
  byId("token-label").textContent = again
    ? "That was not this server’s token. It was printed when the server started."
    : "This server asks for its token. It was printed when the server started.";
  byId("token").focus();
  byId("token").select();
}

async function start() {
  try {
    ({ models } = await server.get("v1/models"));
    byId("token-form").hidden = true;
    showProvenance();
    await render();
  } catch (failure) {
    complain("notice", failure);
  }
}

server.addEventListener("back", () => {
  announce("The server is back.");
  forget();
  summary.forget();
  start();
});
byId("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  keepToken(byId("token").value);
  start();
});
byId("skip").addEventListener("click", (event) => {
  event.preventDefault(); // the fragment is taken: it holds the picks
  byId("main").focus();
});

takeToken();
followConnection();
followTheme();
onChange(render);
frame();
start();
