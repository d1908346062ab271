// Two threads side by side: a draft of each, what was said about it, and what differs.

import { call } from "./calls.js";
import { show } from "./fragments.js";

/** Show the two threads that the query names in `place`. */
export async function compare(place, { query, go, signal }) {
  const asked = new URLSearchParams();
  for (const name of ["one", "two", "before", "after"]) {
    if (query.has(name)) asked.set(name, query.get(name));
  }
  show(place, (await call(`page/compare?${asked}`, { signal })).html);
  const form = place.querySelector("form");
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("change", ({ target }) => {
    for (const [name, value] of new FormData(form)) asked.set(name, value);
    go(`#/compare?${asked}`, null, target.id);
  });
  return "Two branches";
}
