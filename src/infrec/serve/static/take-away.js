// What is on the page as text and as CSV: lists of {model, items}.

import { title } from "./dom.js";

export const asText = (lists) =>
  lists
    .map(({ model, items }) => [...(lists.length > 1 ? [model.name] : []), ...items.map((item) => `${item.rank}. ${title(item)}`)])
    .map((lines) => lines.join("\n"))
    .join("\n\n");

export function asCSV(lists) {
  const field = (value) => (/[",\r\n]/u.test(String(value)) ? `"${String(value).replaceAll('"', '""')}"` : String(value));
  const rows = lists.flatMap(({ model, items }) =>
    items.map((item) => [model.name, item.rank, item.item, item.title, item.score]),
  );
  return [["model", "rank", "item", "title", "score"], ...rows].map((row) => row.map(field).join(",")).join("\n");
}
