// The search field: a combobox as the ARIA practices describe it. Arrow keys walk, Enter picks, Escape closes.

import { server } from "./api.js";
import { announce, byId, el, plural, title, titleAndYear, titled } from "./dom.js";

const LIMIT = 12;
const PAUSE = 90; // ms after the last key: typing quickly asks once

export class Search {
  #input = byId("search");
  #list = byId("matches");
  #note = byId("matches-note");
  #items = [];
  #active = -1;
  #timer = null;
  #asking = null;

  /** `picked(id)` tells what is picked already; `toggle(item)` picks or unpicks; `undo()` unpicks the last. */
  constructor({ model, picked, toggle, undo }) {
    Object.assign(this, { model, picked, toggle, undo });
    this.#input.addEventListener("input", () => this.#later(PAUSE));
    this.#input.addEventListener("keydown", (event) => this.#key(event));
    this.#input.addEventListener("focus", () => this.#input.value && this.#later(0));
    this.#input.addEventListener("blur", () => this.close());
    // A press must not take the focus away, or the list would close before the click arrives.
    this.#list.addEventListener("pointerdown", (event) => event.preventDefault());
    this.#list.addEventListener("click", (event) => {
      const option = event.target.closest("[role=option]");
      if (option) this.#choose(Number(option.dataset.at));
    });
  }

  focus() {
    this.#input.focus();
  }

  close() {
    clearTimeout(this.#timer);
    this.#asking?.abort();
    this.#list.hidden = this.#note.hidden = true;
    this.#input.setAttribute("aria-expanded", "false");
    this.#activate(-1);
  }

  #later(pause) {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#ask(), pause);
  }

  async #ask(thenActivate = -1) {
    const words = this.#input.value.trim();
    if (!words && thenActivate < 0) return this.close();
    this.#asking?.abort();
    this.#asking = new AbortController();
    const query = new URLSearchParams({ q: words, limit: LIMIT, ...this.model() });
    try {
      const { items } = await server.get(`v1/items?${query}`, this.#asking.signal);
      this.#show(items, words);
      this.#activate(items.length ? thenActivate : -1);
    } catch (failure) {
      if (failure.name !== "AbortError") this.close();
    }
  }

  #show(items, words) {
    this.#items = items;
    this.#list.replaceChildren(...items.map((item, at) => this.#option(item, at, words)));
    this.#list.hidden = !items.length;
    this.#note.hidden = items.length > 0;
    this.#note.textContent = `Nothing is called “${words}”.`;
    this.#input.setAttribute("aria-expanded", String(items.length > 0));
    this.#active = -1;
    announce(items.length ? `${plural(items.length, "title")} found` : this.#note.textContent);
  }

  #option(item, at, words) {
    const picked = this.picked(item.item);
    return el(
      "li",
      { role: "option", id: `match-${at}`, "data-at": at, "aria-selected": picked ? "true" : "false" },
      el("span", { class: "name" }, ...titled(item, marked(titleAndYear(item)[0], words))),
      picked && el("span", { class: "about" }, "picked"),
    );
  }

  #activate(at) {
    this.#list.children[this.#active]?.classList.remove("active");
    this.#active = at;
    const option = this.#list.children[at];
    option?.classList.add("active");
    option?.scrollIntoView({ block: "nearest" });
    if (option) this.#input.setAttribute("aria-activedescendant", option.id);
    else this.#input.removeAttribute("aria-activedescendant");
  }

  #choose(at) {
    const item = this.#items[at];
    if (!item) return;
    this.#input.value = "";
    this.close();
    this.toggle(item);
  }

  #key(event) {
    const open = !this.#list.hidden;
    const last = this.#items.length - 1;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      const down = event.key === "ArrowDown";
      if (!open) this.#ask(0); // an empty field lists the best known
      else if (down) this.#activate(this.#active >= last ? 0 : this.#active + 1);
      else this.#activate(this.#active <= 0 ? last : this.#active - 1);
    } else if (event.key === "Enter") {
      event.preventDefault();
      if (open) this.#choose(Math.max(0, this.#active));
    } else if (event.key === "Escape" && open) {
      event.preventDefault();
      this.close();
    } else if (event.key === "Backspace" && !this.#input.value) {
      this.undo();
    }
  }
}

/** The text with what was typed set off: as a whole, or else each word where it first stands. */
function marked(text, words) {
  const low = text.toLowerCase();
  const typed = words.toLowerCase();
  if (!typed || low.length !== text.length) return [text];
  const parts = low.includes(typed) ? [typed] : typed.split(/\s+/u);
  const places = parts.map((part) => [low.indexOf(part), part.length]).filter(([at]) => at >= 0);
  const pieces = [];
  let end = 0;
  for (const [at, length] of places.sort(([a], [b]) => a - b)) {
    if (at < end) continue;
    pieces.push(text.slice(end, at), el("mark", {}, text.slice(at, at + length)));
    end = at + length;
  }
  return [...pieces, text.slice(end)];
}

/** The picks as a list; each can be taken back. */
export function showPicks(items, remove) {
  const list = byId("picks-list");
  const had = list.contains(document.activeElement)
    ? [...list.children].findIndex((row) => row.contains(document.activeElement))
    : -1;
  byId("picks").hidden = !items.length;
  list.replaceChildren(
    ...items.map((item) =>
      el(
        "li",
        {},
        el("span", { class: "name" }, ...titled(item)),
        el(
          "button",
          { type: "button", class: "remove", "aria-label": `Remove ${title(item)}`, click: () => remove(item) },
          el("span", { "aria-hidden": "true" }, "×"),
        ),
      ),
    ),
  );
  if (had < 0) return;
  // The button that was pressed is gone: its neighbour takes the focus, or the search field.
  const next = list.children[Math.min(had, items.length - 1)];
  (next?.querySelector("button") ?? byId("search")).focus();
}
