// The second view: the users of a summary, one by one and all at once.

import { server } from "./api.js";
import { announce, byId, count, el, percent, plural, title, titled } from "./dom.js";
import { Matrix, place, strip } from "./matrix.js";
import { showPopularity } from "./popularity.js";
import { numbered } from "./reasons.js";
import { state, update } from "./state.js";
import { Summary } from "./summary-data.js";

const SORTS = { similarity: "similarity", size: "size", popularity: "popularity", picks: "closeness to your picks" };
const TAKEN = 5; // titles that become picks
const TICKS = [1, 10, 50, 100, 200, 500, 1000, 2000, 5000, 10000];

export class SummaryView {
  #data = null;
  #of = ""; // hash of the model whose summary is shown
  #wanted = ""; // hash of the one last asked for
  #user = -1;
  #matrix = new Matrix(byId("matrix"), {
    seen: (user, column) => this.#choose(user, column),
    kept: (user) => update({ user: this.#data.users[user].name }),
    left: () => state.user && this.#arrange(),
    describe: (user) => this.#describe(user),
  });

  constructor({ explorable, remember, complain }) {
    Object.assign(this, { explorable, remember, complain });
    byId("which").addEventListener("change", (event) => update({ which: event.target.value, user: "" }));
    byId("summary-controls").addEventListener("submit", (event) => event.preventDefault());
    byId("sorts").addEventListener("change", (event) => update({ sort: event.target.value }));
  }

  forget() {
    this.#of = "";
  }

  async show() {
    const models = this.explorable();
    const called = (wanted) => models.find(({ name }) => name === wanted);
    const model = called(state.which) ?? called(state.model) ?? models[0];
    this.#wanted = model.hash;
    if (this.#of !== model.hash) {
      byId("summary-lead").textContent = "Fetching the summary …";
      try {
        const answer = await server.get(`v1/summary?${new URLSearchParams({ model: model.name })}`);
        if (this.#wanted !== model.hash) return; // another was asked for meanwhile
        this.#data = new Summary(answer);
      } catch (failure) {
        byId("summary-body").hidden = true;
        byId("summary-lead").textContent = "";
        return this.complain(failure);
      }
      this.#of = model.hash;
      byId("summary-notice").hidden = true;
      byId("summary-body").hidden = false;
      this.remember(this.#data.items);
      this.#introduce(model, models);
    }
    this.#arrange();
  }

  #introduce(model, models) {
    const data = this.#data;
    byId("summary-title").textContent = `${count(data.n)} synthetic users`;
    byId("summary-lead").textContent =
      `They have ${plural(data.interactions, "like")} over ` +
      `${plural(data.items.length, "title")}` +
      (data.compared ? `, in place of ${plural(data.originalUsers, "real user")}.` : ".") +
      ` All that “${model.name}” knows, it knows from them.` +
      (data.fractional ? " Their likes are fractions; shown are the titles that each likes most." : "");
    byId("which-part").hidden = models.length < 2;
    byId("which").replaceChildren(...models.map(({ name }) => el("option", { value: name }, name)));
    byId("which").value = model.name;
    this.#axis(data.items.length);
    byId("popularity-body").hidden = !data.compared;
    byId("popularity-lead").textContent = data.compared
      ? "Rank correlation of the titles’ popularity here and there: " +
        `${data.agreement.toFixed(2)}, where 1 is the same order.`
      : "Serve a model of the original data beside this one to compare: infrec serve SUMMARY MODEL.";
    if (data.compared) showPopularity(data);
  }

  /** Ranks of popularity under the picture; on a narrow screen only those that have room. */
  #axis(items) {
    let last = -1;
    byId("matrix-axis").replaceChildren(
      ...TICKS.filter((tick) => tick <= items && place(tick, items) < 0.97).map((tick) => {
        const at = place(tick - 0.5, items);
        const narrow = at - last < 0.11;
        if (!narrow) last = at;
        const mark = el("span", { class: narrow && "spare" }, count(tick));
        mark.style.setProperty("--at", at);
        return mark;
      }),
    );
  }

  /** Sort the rows, keep the chosen user. */
  #arrange() {
    const data = this.#data;
    const column = new Map(data.items.map((item, at) => [String(item.item), at]));
    const picks = state.likes.map((id) => column.get(id)).filter((at) => at !== undefined);
    const sorts = Object.keys(SORTS).filter((name) => name !== "picks" || picks.length);
    const sort = sorts.includes(state.sort) ? state.sort : picks.length && !state.sort ? "picks" : "similarity";
    const box = byId("sorts");
    if (box.dataset.of !== sorts.join()) {
      box.dataset.of = sorts.join();
      box.replaceChildren(
        ...sorts.map((name) =>
          el("label", {}, el("input", { type: "radio", name: "sort", value: name }), el("span", {}, SORTS[name])),
        ),
      );
    }
    box.querySelector(`[value=${sort}]`).checked = true;
    const order = data.sorted(sort, picks);
    const wanted = data.users.findIndex(({ name }) => name === state.user);
    const user = wanted >= 0 ? wanted : order[0];
    this.#matrix.show(data, order, user);
    this.#choose(user, null);
  }

  #describe(user) {
    const { name, size } = this.#data.users[user];
    const likes = this.#data.apart(user).slice(0, 3).map((at) => title(this.#data.items[at]));
    return `${numbered(name)}, ${plural(size, "title")}: ${likes.join(", ")}`;
  }

  #choose(user, column) {
    const data = this.#data;
    byId("reading").textContent = column === null ? "" : this.#reading(user, column);
    if (user === this.#user && byId("person").dataset.of === this.#of) return;
    this.#user = user;
    byId("person").dataset.of = this.#of;
    const { name, size, popularity, columns } = data.users[user];
    const apart = data.apart(user);
    const titles = (list) => el("ul", { class: "titles" }, ...list.map((at) => el("li", {}, ...titled(data.items[at]))));
    const leanings = data.leanings(user);
    const whom = data.compared ? "the original users" : "the synthetic users";
    byId("person").replaceChildren(
      el("h2", { id: "person-title" }, numbered(name)),
      strip(columns, data.items.length),
      el("p", {}, `${plural(size, "title")}, each liked by ${percent(popularity)} of ${whom} on average.`),
      el("h3", {}, "What sets it apart"),
      titles(apart.slice(0, 8)),
      ...(leanings.length ? [el("h3", {}, "Leans to"), el("ul", { class: "leanings" }, ...leanings.map(leaning))] : []),
      el("h3", {}, "Best known of its titles"),
      titles([...columns].slice(0, 5)),
      el("h3", {}, "Most like it"),
      el("p", { class: "nearest" }, ...data.neighbours(user).slice(0, 4).map((other) => this.#jump(other))),
      el(
        "button",
        { type: "button", class: "take", click: () => this.#take(apart.slice(0, TAKEN)) },
        `Recommend from ${Math.min(TAKEN, size)} of its titles`,
      ),
    );
  }

  #jump(user) {
    const go = () => {
      update({ user: this.#data.users[user].name });
      byId("matrix").focus();
    };
    return el("button", { type: "button", class: "plain", click: go }, numbered(this.#data.users[user].name));
  }

  #reading(user, column) {
    const { items, users } = this.#data;
    const has = new Set(users[user].columns);
    // A pixel of the tail holds several titles: the one that this user likes is the one meant.
    const near = [0, 1, -1, 2, -2, 3, -3].map((step) => column + step).find((at) => has.has(at));
    const item = items[near ?? column];
    const share = percent(item.here);
    const likes = near === undefined ? "does not like" : "likes";
    return `${numbered(users[user].name)} ${likes} ${title(item)}; ${share} here do`;
  }

  #take(columns) {
    const likes = columns.map((at) => String(this.#data.items[at].item));
    announce(`${plural(likes.length, "title")} picked`);
    update({ likes, view: "", genres: [], k: 10 }, { step: true });
  }
}

function leaning({ genre, share, times }) {
  const fill = el("span", { class: "fill" });
  fill.style.setProperty("--share", share);
  return el(
    "li",
    { class: "bar user" },
    el("span", { class: "track", "aria-hidden": "true" }, fill),
    el("span", { class: "label" }, genre),
    el("span", { class: "amount" }, `${times.toFixed(1)} times as often`),
  );
}
