// What is on the page as text and as CSV: lists of {model, items}.

import { announce, byId, copy, title } from "./dom.js";

const asText = (lists) =>
  lists
    .map(({ model, items }) => [...(lists.length > 1 ? [model.name] : []), ...items.map((item) => `${item.rank}. ${title(item)}`)])
    .map((lines) => lines.join("\n"))
    .join("\n\n");

function asCSV(lists) {
  const field = (value) => (/[",\r\n]/u.test(String(value)) ? `"${String(value).replaceAll('"', '""')}"` : String(value));
  const rows = lists.flatMap(({ model, items }) =>
    items.map((item) => [model.name, item.rank, item.item, item.title, item.score]),
  );
  return [["model", "rank", "item", "title", "score"], ...rows].map((row) => row.map(field).join(",")).join("\n");
}

/** The buttons that copy what is on the page. */
export function offerCopies(lists) {
  byId("copy").addEventListener("click", async ({ target }) => {
    const kind = target.dataset.as;
    if (!kind) return;
    await copy({ text: asText, csv: asCSV, link: () => location.href }[kind](lists()));
    announce("Copied.");
  });
}
