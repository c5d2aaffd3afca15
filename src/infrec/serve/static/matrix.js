// The picture of a summary: rows are users, columns titles by popularity. Painted; a slider for the keyboard.

import { el } from "./dom.js";

const TALLEST = 660;
const PAGE = 20;

/** Where column `at` of `n` begins, from 0 to 1. Square root: the head, where most likes are, gets more room. */
export const place = (at, n) => Math.sqrt(at / n);
const columnAt = (x, n) => Math.min(n - 1, Math.max(0, Math.floor(x * x * n)));

export class Matrix {
  #canvas;
  #cursor;
  #summary = null;
  #order = [];
  #row = 0;

  /** `seen(user, column)` is called as one points, `kept(user)` on a click or a key, `left()` when one goes. */
  constructor(node, { seen, kept, left, describe }) {
    Object.assign(this, { node, seen, kept, left, describe });
    this.#canvas = node.querySelector("canvas");
    this.#cursor = node.querySelector(".cursor");
    node.addEventListener("pointermove", (event) => this.#point(event));
    node.addEventListener("click", (event) => {
      this.#point(event);
      this.kept(this.#order[this.#row]);
    });
    node.addEventListener("pointerleave", () => this.left());
    node.addEventListener("keydown", (event) => this.#key(event));
    new ResizeObserver(() => this.paint()).observe(node);
    addEventListener("themechange", () => this.paint());
  }

  show(summary, order, user) {
    const same = summary === this.#summary && order.every((other, row) => other === this.#order[row]);
    this.#summary = summary;
    this.#order = order;
    this.select(Math.max(0, order.indexOf(user)));
    if (same) return;
    const { n } = summary;
    const height = Math.max(Math.min(TALLEST, n * 14), 160);
    this.node.style.setProperty("--height", `${Math.round(height)}px`);
    this.node.setAttribute("aria-valuemin", "1");
    this.node.setAttribute("aria-valuemax", String(n));
    this.paint();
  }

  select(row) {
    const { n } = this.#summary;
    this.#row = Math.min(n - 1, Math.max(0, row));
    const user = this.#order[this.#row];
    this.node.setAttribute("aria-valuenow", String(this.#row + 1));
    this.node.setAttribute("aria-valuetext", this.describe(user));
    this.#cursor.hidden = false;
    this.#cursor.style.setProperty("--top", `${(100 * this.#row) / n}%`);
    this.#cursor.style.setProperty("--tall", `${100 / n}%`);
    return user;
  }

  #point(event) {
    if (!this.#summary) return;
    const box = this.#canvas.getBoundingClientRect();
    const row = Math.floor(((event.clientY - box.top) / box.height) * this.#summary.n);
    const x = Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
    this.seen(this.select(row), columnAt(x, this.#summary.items.length));
  }

  #key(event) {
    const step = { ArrowUp: -1, ArrowLeft: -1, ArrowDown: 1, ArrowRight: 1, PageUp: -PAGE, PageDown: PAGE }[event.key];
    const row = { Home: 0, End: this.#summary?.n - 1 }[event.key] ?? (step === undefined ? undefined : this.#row + step);
    if (row === undefined || !this.#summary) return;
    event.preventDefault();
    this.kept(this.select(row));
  }

  paint() {
    if (!this.#summary || !this.node.clientWidth) return;
    const scale = Math.min(2, devicePixelRatio || 1);
    const rows = this.#order.map((user) => this.#summary.users[user].columns);
    paint(this.#canvas, rows, this.#summary.items.length, this.node.clientWidth * scale, this.node.clientHeight * scale);
  }
}

/** One user's row alone, as a strip. */
export function strip(columns, items) {
  const canvas = el("canvas", { class: "strip", "aria-hidden": "true" });
  requestAnimationFrame(() => paint(canvas, [columns], items, 2 * canvas.clientWidth, 2 * canvas.clientHeight));
  return canvas;
}

/** Ink on paper: how much of each pixel is covered by likes. */
function paint(canvas, rows, items, width, height) {
  if (!canvas.isConnected) return;
  [canvas.width, canvas.height] = [Math.max(1, Math.round(width)), Math.max(1, Math.round(height))];
  const [w, h] = [canvas.width, canvas.height];
  const ink = new Float32Array(w * h);
  const perRow = h / rows.length;
  const line = new Float32Array(w);
  rows.forEach((columns, row) => {
    line.fill(0);
    for (const at of columns) {
      const [from, to] = [w * place(at, items), w * place(at + 1, items)];
      for (let x = Math.floor(from); x < Math.min(w, to); x++) line[x] += Math.min(to, x + 1) - Math.max(from, x);
    }
    const [top, bottom] = [row * perRow, (row + 1) * perRow];
    for (let y = Math.floor(top); y < Math.min(h, Math.ceil(bottom)); y++) {
      const part = Math.min(bottom, y + 1) - Math.max(top, y);
      for (let x = 0; x < w; x++) ink[y * w + x] += part * line[x];
    }
  });
  const [r, g, b] = getComputedStyle(canvas).color.match(/[\d.]+/gu).map(Number);
  const context = canvas.getContext("2d");
  const image = context.createImageData(w, h);
  for (let at = 0; at < w * h; at++) {
    image.data.set([r, g, b, 255 * Math.min(1, ink[at]) ** 0.75], 4 * at);
  }
  context.putImageData(image, 0, 0);
}
