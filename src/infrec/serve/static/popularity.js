// Popularity in the summary against the original: a scatter in SVG (styled by the theme), and the largest departures.

import { byId, el, percent, svg, title, titled } from "./dom.js";

const [W, H, LEFT, BOTTOM, PAD] = [520, 420, 52, 44, 12];
const TICKS = [0, 0.01, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1];
const LISTED = 6;

/** Square-root axes: a share of nothing has its place, and the tail does not lie on top of itself. */
export function showPopularity(summary) {
  const { items } = summary;
  const most = items.reduce((high, item) => Math.max(high, item.here, item.there), 0.01);
  const x = (share) => LEFT + (W - LEFT - PAD) * Math.sqrt(share / most);
  const y = (share) => H - BOTTOM - (H - BOTTOM - PAD) * Math.sqrt(share / most);
  const ticks = TICKS.filter((tick) => tick <= most);
  const name = (share) => (share ? percent(share).replace(".0", "") : "0");
  const dot = (item) => `M${x(item.there).toFixed(1)} ${y(item.here).toFixed(1)}h0`;
  const spot = svg("circle", { r: 5, class: "spot", visibility: "hidden" });
  const plot = svg(
    "svg",
    { viewBox: `0 0 ${W} ${H}`, role: "img", "aria-labelledby": "popularity-title", "aria-describedby": "popularity-lead" },
    ...ticks.flatMap((tick) => [
      svg("path", { class: "grid", d: `M${x(tick)} ${PAD}V${H - BOTTOM}M${LEFT} ${y(tick)}H${W - PAD}` }),
      svg("text", { x: x(tick), y: H - BOTTOM + 18, "text-anchor": "middle" }, name(tick)),
      svg("text", { x: LEFT - 8, y: y(tick) + 4, "text-anchor": "end" }, name(tick)),
    ]),
    svg("path", { class: "agree", d: `M${x(0)} ${y(0)}L${x(most)} ${y(most)}` }),
    // A line of no length with round ends is a dot: one element for all titles.
    svg("path", { class: "dots", d: items.map(dot).join("") }),
    spot,
    svg("text", { class: "title", x: W - PAD, y: H - 6, "text-anchor": "end" }, "liked by this share of original users →"),
    svg("text", { class: "title", x: LEFT, y: PAD + 2, "text-anchor": "start", dx: 6, dy: 10 }, "↑ of synthetic users"),
  );
  const reading = byId("scatter-reading");
  plot.addEventListener("pointermove", (event) => {
    const box = plot.getBoundingClientRect();
    const [px, py] = [((event.clientX - box.left) / box.width) * W, ((event.clientY - box.top) / box.height) * H];
    const far = (item) => (x(item.there) - px) ** 2 + (y(item.here) - py) ** 2;
    const near = items.reduce((best, item) => (far(item) < far(best) ? item : best));
    spot.setAttribute("cx", x(near.there));
    spot.setAttribute("cy", y(near.here));
    spot.setAttribute("visibility", "visible");
    reading.textContent = `${title(near)}: ${percent(near.there)} there, ${percent(near.here)} here`;
  });
  plot.addEventListener("pointerleave", () => {
    spot.setAttribute("visibility", "hidden");
    reading.textContent = "";
  });
  byId("scatter").replaceChildren(plot);
  byId("departures").replaceChildren(
    departures("More liked here", [...items].sort((a, b) => lead(b) - lead(a)).slice(0, LISTED)),
    departures("Less liked here", [...items].sort((a, b) => lead(a) - lead(b)).slice(0, LISTED)),
  );
}

/** As far as the eye sees it: a difference of square roots, as on the axes. */
const lead = (item) => Math.sqrt(item.here) - Math.sqrt(item.there);

function departures(heading, items) {
  return el(
    "section",
    {},
    el("h3", {}, heading),
    el(
      "ol",
      {},
      ...items.map((item) =>
        el(
          "li",
          {},
          el("span", { class: "name" }, ...titled(item)),
          el("span", { class: "amount" }, `${percent(item.there)} → ${percent(item.here)}`),
        ),
      ),
    ),
  );
}
