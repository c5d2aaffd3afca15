// Elements from data. Text only ever becomes text nodes: nothing here parses markup.

export const byId = (id) => document.getElementById(id);

/** An element. Functions are listeners, booleans are attributes that are there or not, strings are text. */
export function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (typeof value === "function") node.addEventListener(name, value);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(...children.filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

export function svg(tag, attributes = {}, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, String(value));
  node.append(...children);
  return node;
}

const counts = new Intl.NumberFormat("en");
export const count = (n) => counts.format(n);
export const percent = (share) =>
  share > 0 && share < 0.001 ? "< 0.1 %" : `${(100 * share).toFixed(share < 0.0995 ? 1 : 0)} %`;
export const plural = (n, one, many = `${one}s`) => `${count(n)} ${n === 1 ? one : many}`;

/** "Matrix, The (1999)" → ["The Matrix", "1999"]: as a person would write it. */
export function titleAndYear(item) {
  const text = item.title ?? String(item.item);
  const [, name, year] = /^(.+?)\s*\((\d{4})\)$/u.exec(text) ?? [null, text, ""];
  const [, rest, article] = /^(.+), (The|A|An)$/u.exec(name) ?? [null, null, null];
  return [article ? `${article} ${rest}` : name, year];
}

/** What tells an item from others of its title. */
const apart = (item) => (item.ambiguous ? `no. ${item.item}` : "");

export const title = (item) => [titleAndYear(item)[0], apart(item)].filter(Boolean).join(", ");

/** A title as people see it: the year, and the number where titles are equal, are quieter. */
export function titled(item, name = [titleAndYear(item)[0]]) {
  const quiet = [titleAndYear(item)[1], apart(item)].filter(Boolean).join(" · ");
  return quiet ? [...name, el("span", { class: "year" }, ` ${quiet}`)] : name;
}

/** Put a text where the next paste takes it from; also where the page came without encryption. */
export async function copy(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const area = el("textarea", { class: "hidden" });
  area.value = text;
  document.body.append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
}

let silence;
/** Say something to those who do not see the page change. */
export function announce(text) {
  clearTimeout(silence);
  // A moment's wait: of several changes in a row only the last is worth hearing.
  silence = setTimeout(() => {
    byId("live").textContent = text;
  }, 350);
}

export const calm = () => matchMedia("(prefers-reduced-motion: reduce)").matches;
