// The first view: a form that starts a run, and the threads that there are, searched and filtered.

import { call } from "./calls.js";
import { onSend, show } from "./fragments.js";

/** Show it in `place`. */
export async function home(place, { query, go, failed, signal }) {
  const asked = new URLSearchParams(query);
  asked.set("offset", Number.parseInt(query.get("from") ?? "0", 10) || 0);
  asked.delete("from");
  if (place.querySelector("#threads") !== null) { // another page of the list: what was typed stays
    await list(place, asked, signal);
    return "Threads";
  }
  show(place, (await call(`page/home?${asked}`, { signal })).html);
  startForm(place.querySelector("form[data-form=start]"), go);
  const find = place.querySelector("form[data-form=find]");
  let typing = null;
  const search = () => {
    const said = new URLSearchParams([...new FormData(find)].filter(([, value]) => value !== ""));
    history.replaceState(null, "", `#/${said.size ? `?${said}` : ""}`);
    list(place, said, signal).catch(failed);
  };
  find.addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(search, 200);
  });
  find.addEventListener("submit", (event) => {
    event.preventDefault();
    search();
  });
  return "Runs";
}

let latest = 0;

async function list(place, asked, signal) {
  const mine = ++latest;
  const { html } = await call(`page/threads?${asked}`, { signal });
  if (mine === latest) show(place.querySelector("#threads"), html); // not what an earlier word found
}

function startForm(form, go) {
  const preset = form.elements.assistant;
  const describe = () => {
    form.querySelector("#described").textContent = preset.selectedOptions[0]?.dataset.told ?? "";
    for (const fields of form.querySelectorAll("[data-preset]")) {
      fields.hidden = fields.disabled = fields.dataset.preset !== preset.value;
    }
  };
  preset.addEventListener("change", describe);
  describe();
  onSend(form, async ({ assistant, task, model }) => {
    const limits = {};
    for (const { name, value } of form.querySelectorAll("[data-limit]")) {
      if (value !== "") limits[name] = Number(value);
    }
    const fields = form.querySelector("[data-preset]:enabled");
    const options = fields === null ? {} : optionsOf(fields);
    const made = await call("page/start", {
      method: "POST", body: { assistant, task, limits, options, ...(model ? { model } : {}) },
    });
    go(`#/threads/${encodeURIComponent(made.thread_id)}`);
  });
}

/** What was set, and is not as the preset has it. */
function optionsOf(fields) {
  const found = {};
  for (const one of fields.querySelectorAll("[data-kind]")) {
    const { kind } = one.dataset;
    if (kind === "boolean") {
      if (one.checked !== (one.dataset.default === "yes")) found[one.name] = one.checked;
    } else if (one.type !== "checkbox" && one.value.trim() !== "") {
      found[one.name] = {
        number: () => Number(one.value),
        string: () => one.value,
        list: () => [one.value],
        lines: () => one.value.split("\n").map((line) => line.trim()).filter((line) => line !== ""),
      }[kind]();
    }
  }
  for (const one of fields.querySelectorAll("[data-list]")) {
    const boxes = [...one.querySelectorAll("input")];
    if (boxes.some((box) => box.checked !== (box.dataset.default === "yes"))) {
      found[one.dataset.list] = boxes.filter((box) => box.checked).map((box) => box.value);
    }
  }
  return found;
}
