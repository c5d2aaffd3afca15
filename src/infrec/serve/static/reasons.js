// Why an item stands in the list: which picks and which users pulled it up, as small bars.

import { server } from "./api.js";
import { el, plural, title, titled } from "./dom.js";

const USERS = 6; // of those behind an item, in the long form
const OWN = 10; // of the titles that somebody has, in the long form
const SIMILAR = 6;

const signed = (value) => `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(3)}`;

/** One labelled bar; `share` of 1 fills the track. The number is for those who do not see the bar. */
function bar(kind, label, share, spoken) {
  const fill = el("span", { class: "fill" });
  fill.style.setProperty("--share", Math.min(1, Math.max(0, Math.abs(share))).toFixed(4));
  return el(
    "li",
    { class: share < 0 ? `bar ${kind} against` : `bar ${kind}` },
    el("span", { class: "track", "aria-hidden": "true" }, fill),
    el("span", { class: "label" }, ...label),
    spoken,
  );
}

const spoken = (value) => el("span", { class: "hidden" }, signed(value));
const written = (value) => el("span", { class: "amount" }, signed(value));

/** The largest contributions in a list of recommendations: what a full bar means. */
export function scale(items) {
  const most = (part) =>
    Math.max(1e-9, ...items.flatMap((item) => (item.because?.[part] ?? []).map((r) => Math.abs(r.contribution))));
  return { items: most("items"), users: most("users") };
}

/** Whether an item stands there for what everybody likes, more than for the picks. */
export const mostlyPopular = (because) =>
  because?.baseline > 2 * because?.items.reduce((sum, { contribution }) => sum + contribution, 0);

/** The short form that every recommendation carries. */
export function brief(because, full, { users, limit }) {
  if (!because) return [];
  const list = (label, rows) => el("ul", { class: "bars", "aria-label": label }, ...rows);
  const foremost = (part) => because[part].filter((r) => r.contribution > 0).slice(0, limit);
  const own = foremost("items").map((r) => bar("pick", [title(r)], r.contribution / full.items, spoken(r.contribution)));
  if (!users) return [list("Because of your picks", own)];
  const others = foremost("users").map((r) =>
    bar("user", [numbered(r.user)], r.contribution / full.users, spoken(r.contribution)),
  );
  return [list("Because of your picks", own), list("Synthetic users behind it", others)];
}

export const numbered = (user) => `No. ${user}`;

/** The long form: everything adds up to the score. Asked for when it is opened. `link` leads to a synthetic user. */
export async function account(model, person, item, { link, signal }) {
  const why = await server.post("v1/explain", { model, ...person, item }, signal);
  const full = Math.max(1e-9, ...why.items.map((r) => Math.abs(r.contribution)), Math.abs(why.baseline));
  const own = why.items.slice(0, OWN).map((r) => bar("pick", titled(r), r.contribution / full, written(r.contribution)));
  if (why.items.length > OWN) {
    const rest = why.items.slice(OWN).reduce((sum, r) => sum + r.contribution, 0);
    own.push(bar("pick", [plural(why.items.length - OWN, "other title")], rest / full, written(rest)));
  }
  own.push(bar("base", ["What everybody gets"], why.baseline / full, written(why.baseline)));
  return el(
    "div",
    { class: "account" },
    el(
      "div",
      {},
      el("h4", {}, person.history ? "Your picks" : "What this user has"),
      el("ul", { class: "bars long" }, ...own),
      el("p", { class: "sum" }, `Together ${why.score.toFixed(3)}, its score.`),
    ),
    el("div", {}, ...people(why, link)),
  );
}

/** Items like one, each of which can be picked. */
export async function similar(model, item, { like, signal }) {
  const { items } = await server.get(`v1/similar?${new URLSearchParams({ item, k: SIMILAR, model })}`, signal);
  const entry = (one) => el("li", {}, el("button", { type: "button", class: "plain", click: () => like(one) }, ...titled(one)));
  return el("div", { class: "similar" }, el("h4", {}, "Similar titles"), el("ul", {}, ...items.map(entry)));
}

/** Who stands behind an item. Real people stay unnamed: the service does not tell who they are. */
function people(why, link) {
  const named = why.users.filter((r) => r.user !== null).slice(0, USERS);
  if (!named.length) {
    const text = "Behind the score stand users of the log. They are real, and not shown.";
    return [el("h4", {}, "Users"), el("p", {}, text)];
  }
  const most = Math.max(1e-9, ...named.map((r) => Math.abs(r.contribution)));
  const rows = named.map((r) => {
    const name = link ? el("a", { href: link(r.user) }, numbered(r.user)) : numbered(r.user);
    const row = bar("user", [name], r.contribution / most, written(r.contribution));
    row.append(el("span", { class: "likes" }, `likes ${r.likes.map((text) => title({ title: text })).join(", ")}`));
    return row;
  });
  const rest = why.score - named.reduce((sum, r) => sum + r.contribution, 0);
  return [
    el("h4", {}, "Synthetic users behind it"),
    el("ul", { class: "bars long" }, ...rows),
    el("p", { class: "sum" }, `With all others, who add ${signed(rest)}, the same score.`),
  ];
}
