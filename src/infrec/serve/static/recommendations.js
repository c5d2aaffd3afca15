// Lists of recommendations: one, or two side by side with what they share tied together.

import { server } from "./api.js";
import { calm, el, plural, svg, title, titled } from "./dom.js";
import { address } from "./state.js";
import { account, brief, mostlyPopular, scale, similar } from "./reasons.js";

const TYPES = { "infinite-ae": "∞-AE", "infinite-ae-plus": "∞-AE-plus", ease: "EASE", poprec: "Popularity",
  "bias-only": "Biases", mf: "MF", neumf: "NeuMF", lightgcn: "LightGCN", mvae: "MVAE" };

export const about = (model) =>
  `${TYPES[model.type] ?? model.type} on ${plural(model.users, model.summary ? "synthetic user" : "user")}`;

/** A short mark that says what it means where one points at it or comes to it by keys. */
const explained = (text, why, kind = "") =>
  el("span", { class: `tip ${kind}`, tabindex: "0", role: "note", "aria-label": `${text}: ${why}`, "data-why": why }, text);

/** One model's list. Rows live as long as their item stays in the list, so that they can move. */
export class List {
  #rows = new Map(); // item id → {node, …}
  #heading = el("h2", {});
  #about = el("p", {});
  #columns = el("div", { class: "columns", "aria-hidden": "true" });
  #list = el("ol", {});

  constructor({ like }) {
    this.like = like;
    this.node = el("section", { class: "list" }, el("header", {}, this.#heading, this.#about), this.#columns, this.#list);
  }

  rowOf = (id) => this.#rows.get(String(id))?.node;

  /** Show an answer. `marks(item)` says how an item stands in the other list, when there is one. */
  show(answer, model, person, { compact, marks }) {
    const before = new Map([...this.#rows].map(([id, row]) => [id, row.node.getBoundingClientRect()]));
    const focus = this.#focused();
    const first = before.size === 0;
    this.#heading.textContent = compact ? model.name : "";
    this.#heading.hidden = !compact;
    this.#about.textContent = compact ? about(model) : "";
    this.#about.hidden = !compact;
    const users = model.summary;
    const reasons = answer.items.some((item) => item.because);
    this.#columns.hidden = compact || !reasons;
    this.#columns.replaceChildren(
      el("p", {}, el("span", {}, "because of"), el("span", {}, users ? "synthetic users behind it" : "")),
    );
    const context = { model, person, users, full: scale(answer.items), compact, marks, first };
    const rows = new Map();
    for (const item of answer.items) {
      const id = String(item.item);
      const row = this.#rows.get(id) ?? this.#make(item);
      this.#fill(row, item, context);
      rows.set(id, row);
    }
    this.#rows = rows;
    this.#list.replaceChildren(...[...rows.values()].map((row) => row.node));
    this.node.classList.toggle("compact", compact);
    this.node.classList.toggle("reasoned", reasons);
    this.node.classList.toggle("peopled", users);
    this.node.setAttribute("aria-label", `Recommended by ${model.name}`);
    this.#restore(focus);
    if (!first && !calm()) this.#move(before);
    return answer.items.filter((item) => !before.has(String(item.item))).length;
  }

  clear() {
    this.#rows.clear();
    this.#list.replaceChildren();
  }

  showWaiting() {
    if (this.#rows.size) return;
    this.#list.replaceChildren(
      ...Array.from({ length: 6 }, () => el("li", { class: "ghost", "aria-hidden": "true" }, el("span"), el("span"))),
    );
  }

  #make(item) {
    const row = { open: false, rank: null, item };
    const panel = `why-${crypto.getRandomValues(new Uint32Array(1))[0]}`;
    row.name = el("h3", {});
    row.meta = el("p", { class: "meta" });
    row.number = el("span", { class: "rank" });
    row.brief = el("div", { class: "brief" });
    row.add = el(
      "button",
      { type: "button", class: "add", click: () => this.like(row.item) },
      el("span", { "aria-hidden": "true" }, "+"),
    );
    row.why = el(
      "button",
      { type: "button", class: "why", "aria-expanded": "false", "aria-controls": panel, click: () => this.#toggle(row) },
      "Why",
    );
    row.panel = el("div", { class: "panel", id: panel, hidden: true });
    row.node = el(
      "li",
      { class: "rec", "data-item": item.item },
      row.number,
      el("div", { class: "what" }, row.name, row.meta),
      row.brief,
      el("div", { class: "tools" }, row.why, row.add),
      row.panel,
    );
    return row;
  }

  #fill(row, item, context) {
    const { first, marks, compact, users, full } = context;
    const moved = first ? "" : row.rank === null ? "new" : row.rank - item.rank;
    Object.assign(row, { item, context, rank: item.rank });
    row.number.textContent = item.rank;
    row.name.replaceChildren(...titled(item));
    row.add.setAttribute("aria-label", `I like ${title(item)} too`);
    row.add.title = "I like this too";
    row.why.setAttribute("aria-label", `${item.because ? "Why" : "Similar to"} ${title(item)}`);
    row.why.textContent = item.because ? "Why" : "Similar";
    const mark = marks?.(item);
    row.node.classList.toggle("shared", Boolean(mark?.shared));
    const facts = [
      mark && explained(mark.text, mark.why, mark.shared ? "mark shared" : "mark"),
      !compact && item.genres?.length && el("span", { class: "genre" }, item.genres.slice(0, 3).join(", ")),
      mostlyPopular(item.because) &&
        explained("widely liked", "It stands here more for what everybody likes than for your picks."),
      moved &&
        (moved === "new"
          ? explained("new", "Your last change brought it into the list.", "moved")
          : explained(
              moved > 0 ? `▲ ${moved}` : `▼ ${-moved}`,
              `Your last change moved it ${moved > 0 ? "up" : "down"} by ${plural(Math.abs(moved), "place")}.`,
              "moved",
            )),
    ];
    row.meta.replaceChildren(...facts.filter(Boolean));
    row.brief.replaceChildren(...brief(item.because, full, { users, limit: compact ? 2 : 3 }));
    if (row.open) this.#explain(row);
  }

  #toggle(row) {
    row.open = !row.open;
    row.why.setAttribute("aria-expanded", String(row.open));
    row.panel.hidden = !row.open;
    row.node.classList.toggle("open", row.open);
    if (row.open) this.#explain(row);
  }

  async #explain(row) {
    row.asking?.abort();
    row.asking = new AbortController();
    const { model, person } = row.context;
    const link = model.explorable ? (user) => address({ view: "summary", which: model.name, user: String(user) }) : null;
    if (!row.panel.hasChildNodes()) row.panel.append(el("p", { class: "quiet" }, "Adding up …"));
    try {
      const { signal } = row.asking;
      const { item, because } = row.item;
      const parts = [similar(model.name, item, { like: this.like, signal })];
      if (because) parts.unshift(account(model.name, person, item, { link, signal }));
      row.panel.replaceChildren(...(await Promise.all(parts)));
    } catch (failure) {
      if (failure.name === "AbortError") return;
      const text = failure.code ? failure.message : "The server did not answer; the reason comes when it is back.";
      row.panel.replaceChildren(el("p", { class: "quiet" }, text));
    }
  }

  #focused() {
    const rows = [...this.#list.children];
    const at = rows.findIndex((row) => row.contains(document.activeElement));
    return at < 0 ? null : { at, node: document.activeElement, kind: document.activeElement.className };
  }

  #restore(focus) {
    if (!focus) return;
    // What was pressed may have left the list: the row now in its place takes the focus.
    const target = focus.node.isConnected
      ? focus.node
      : this.#list.children[Math.min(focus.at, this.#list.children.length - 1)]?.querySelector(`button.${focus.kind}`);
    target?.focus({ preventScroll: true });
  }

  /** Rows glide from where they were to where they are. */
  #move(before) {
    for (const [id, { node }] of this.#rows) {
      const from = before.get(id);
      if (!from) {
        node.animate({ opacity: [0, 1] }, { duration: 420, easing: "ease-out" });
        continue;
      }
      const to = node.getBoundingClientRect();
      const [x, y] = [from.left - to.left, from.top - to.top];
      if (!x && !y) continue;
      node.animate(
        { transform: [`translate(${x}px, ${y}px)`, "none"] },
        { duration: 380, easing: "cubic-bezier(.2, .7, .2, 1)" },
      );
    }
  }
}

/** Lines between the places of an item in two lists; drawn again whenever a row moves or grows. */
export class Ties {
  node = svg("svg", { class: "ties", "aria-hidden": "true" });
  #pair = null;
  #observer = new ResizeObserver(() => this.draw());

  constructor() {
    this.#observer.observe(this.node);
  }

  between(left, right, shared) {
    this.#pair = { left, right, shared };
    this.#observer.observe(left.node);
    this.#observer.observe(right.node);
    this.draw();
  }

  draw() {
    if (!this.#pair || !this.node.isConnected) return;
    const { left, right, shared } = this.#pair;
    const box = this.node.getBoundingClientRect();
    this.node.setAttribute("viewBox", `0 0 ${box.width || 1} ${box.height || 1}`);
    // offsetTop, not the drawn place: rows may still be gliding.
    const top = this.node.parentElement.getBoundingClientRect().top - box.top;
    const line = parseFloat(getComputedStyle(this.node).fontSize) * 1.5;
    this.node.replaceChildren(
      ...shared.flatMap((id) => {
        const [from, to] = [left.rowOf(id), right.rowOf(id)];
        if (!from || !to) return [];
        const [a, b] = [from, to].map((row) => row.offsetTop + line + top);
        const w = box.width;
        return [svg("path", { d: `M0 ${a}C${0.45 * w} ${a} ${0.55 * w} ${b} ${w} ${b}`, "data-item": id })];
      }),
    );
  }

  light(id) {
    for (const path of this.node.children) path.classList.toggle("lit", path.dataset.item === String(id));
  }
}

/** Of the genres asked for, those that a model has: another one may know others, or none. */
export const held = (model, genres) => genres.filter((genre) => model.genres.includes(genre));

/** Ask a model for a person, `{history}` or `{user}`; reasons for each item come with it. */
export function ask(model, { person, k, genres, diversity, popularity }, signal) {
  const only = held(model, genres);
  const request = { model: model.name, ...person, k, diversity, popularity, explain: 3, ...(only.length && { genres: only }) };
  return server.post("v1/recommend", request, signal);
}
