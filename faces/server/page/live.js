// A run as it happens: a card a round, filled as drafts, critiques and verdicts come; what a model writes as it writes.

import { call } from "./calls.js";
import { element, elements } from "./fragments.js";
import { follow } from "./stream.js";

/** Watch the run of a section until it ends; `ended` is called then, `renew` where only the steps kept can be shown. */
export function watch(section, { thread, ended, renew, signal }) {
  const run = encodeURIComponent(section.dataset.run);
  const doing = section.querySelector(".doing");
  const rounds = section.querySelector(".rounds");
  const told = section.querySelector(".problem");
  const stop = section.querySelector("button[data-stop]");
  let boot = null;
  let typing = null;
  let words = doing.textContent;

  const card = (round, branch) => {
    const name = branch ? `Round ${round}, path ${branch}` : `Round ${round}`;
    const last = rounds.lastElementChild;
    if (last !== null && last.dataset.name === name) return last;
    const made = element("article", "", { class: "round" });
    made.dataset.name = name;
    made.append(element("h3", name));
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
    row({ html, round, branch }) {
      quiet();
      card(round, branch).append(elements(html));
    },
    problem({ message }) {
      told.textContent = message;
    },
    silent() {
      const timer = setInterval(renew, 2000);
      signal.addEventListener("abort", () => clearInterval(timer), { once: true });
    },
  };
  const take = (name, data, id) => {
    const origin = id === null ? boot : id.split("-")[0];
    if (boot !== null && origin !== boot) { // the server was started anew, and tells from where it went on
      quiet();
      rounds.replaceChildren();
    }
    boot = origin;
    takes[name]?.(data);
  };
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
