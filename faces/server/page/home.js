// The first view: a form that starts a run, and the threads that there are.

import { call, newId, startRun } from "./calls.js";
import { onSend, show } from "./fragments.js";

/** Show it in `place`. */
export async function home(place, { query, go, signal }) {
  const offset = Number.parseInt(query.get("from") ?? "0", 10) || 0;
  const listed = place.querySelector("#threads");
  if (listed !== null) { // another page of the list: what was typed stays
    show(listed, (await call(`page/threads?offset=${offset}`, { signal })).html);
    return "Threads";
  }
  show(place, (await call(`page/home?offset=${offset}`, { signal })).html);
  const form = place.querySelector("form");
  const preset = form.elements.assistant;
  const described = form.querySelector("#described");
  const describe = () => {
    described.textContent = preset.selectedOptions[0]?.dataset.told ?? "";
  };
  preset.addEventListener("change", describe);
  describe();
  onSend(form, async ({ assistant, task, rounds }) => {
    const thread = newId();
    const limits = rounds === "" ? {} : { limits: { max_rounds: Number(rounds) } };
    await startRun(thread, assistant, { input: { task, ...limits } });
    go(`#/threads/${encodeURIComponent(thread)}`);
  });
  return "Runs";
}
