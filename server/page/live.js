// A run as it happens: each round drawn anew when something is said in it, as it stays; what a model writes as it writes.

import { call } from "./calls.js";
import { element, elements, show } from "./fragments.js";
import { follow } from "./stream.js";

/** Watch the run of a section until it ends; `ended` is called then, `renew` where only the steps kept can be shown. */
export function watch(section, { rounds: place, thread, ended, renew, signal }) {
  const run = encodeURIComponent(section.dataset.run);
  const doing = section.querySelector(".doing");
  const rounds = place.querySelector(".rounds");
  const told = section.querySelector(".problem");
  const stop = section.querySelector("button[data-stop]");
  let typing = null;
  let words = doing.textContent;

  const found = (name) => [...rounds.querySelectorAll("details.round")].find((one) => one.dataset.name === name);
  const card = (round, branch) => {
    const name = branch ? `Round ${round}, path ${branch}` : `Round ${round}`;
    const known = found(name);
    if (known !== undefined) return known;
    const made = element("details", "", { class: "round", open: "", "data-name": name });
    const summary = element("summary");
    summary.append(element("h3", name));
    made.append(summary);
    rounds.append(made);
    return made;
  };
  const quiet = () => {
    typing?.remove();
    typing = null;
  };
  const takes = {
    doing({ text, round, branch, writes }) {
      quiet();
      words = doing.textContent = text;
      if (writes) {
        typing = element("div", "", { class: "prose typing", dir: "auto", "aria-hidden": "true" });
        card(round, branch).append(typing);
      }
    },
    token({ text }) {
      if (typing !== null) {
        const atEnd = typing.scrollTop + typing.clientHeight > typing.scrollHeight - 30;
        typing.append(text);
        if (atEnd) typing.scrollTop = typing.scrollHeight;
      }
    },
    row({ html, curve, name }) {
      quiet();
      const fresh = elements(html).firstElementChild;
      const known = found(name);
      fresh.open = known === undefined || known.open;
      if (known === undefined) rounds.append(fresh);
      else known.replaceWith(fresh);
      if (curve) show(place.querySelector(".curve"), curve);
    },
    problem({ message }) {
      told.textContent = message;
    },
    silent() {
      const timer = setInterval(renew, 2000);
      signal.addEventListener("abort", () => clearInterval(timer), { once: true });
    },
  };
  const take = (name, data) => takes[name]?.(data);
  const lost = (waiting) => {
    section.classList.toggle("lost", waiting);
    doing.textContent = waiting ? "the connection was lost; trying again …" : words;
  };
  stop.addEventListener("click", async () => {
    stop.disabled = true;
    doing.textContent = words = "stopping …";
    try {
      await call(`threads/${encodeURIComponent(thread)}/runs/${run}/cancel`, { method: "POST" });
    } catch (error) {
      told.textContent = error.message;
      stop.disabled = false;
    }
  });
  return follow(`page/runs/${run}/live`, { take, lost, signal }).then(() => {
    if (!signal.aborted) ended();
  });
}
