// One thread: what it came to, the run under way, any two drafts compared, a fork, each step, and its branches.

import { call, startRun } from "./calls.js";
import { elements, onSend, show } from "./fragments.js";
import { watch } from "./live.js";

/** Show the thread `id` in `place`. */
export async function thread(place, { id, go, again, failed, say, signal }) {
  const path = `page/threads/${encodeURIComponent(id)}`;
  const facts = await call(path, { signal });
  show(place, facts.html);
  const { assistant, drafts } = facts;
  const copy = place.querySelector("[data-copy]");
  copy.hidden = navigator.clipboard === undefined; // where the page came over plain HTTP
  copy.addEventListener("click", () => {
    navigator.clipboard.writeText(location.href).then(
      () => say("The link is copied."),
      () => say("The browser lets no page copy; the link stands in its address bar."),
    );
  });

  const live = place.querySelector("section.live");
  if (live !== null) {
    watch(live, {
      rounds: place.querySelector("#rounds"),
      thread: id,
      signal,
      ended: () => { say("The run has ended."); again(); },
      renew: async () => renewSteps(place, (await call(path, { signal })).html),
    }).catch(failed);
  }
  const compared = place.querySelector("form[data-form=diff]");
  if (compared !== null) compare(compared, path, signal, failed);
  const prompts = place.querySelector("#prompts");
  prompts?.addEventListener("toggle", async () => {
    try {
      show(prompts.querySelector(".sent"), (await call(`${path}/prompts`, { signal })).html);
    } catch (error) {
      if (error.status === undefined) failed(error);
      prompts.querySelector(".sent").textContent = error.message;
    }
  }, { once: true });

  // Where there is no form, the section says why.
  let forked = () => document.getElementById("fork-title")?.focus();
  place.querySelector("#rounds")?.addEventListener("click", ({ target }) => {
    if (target.dataset.fork !== undefined) forked(target.dataset.fork);
  });
  const fork = place.querySelector("form[data-form=fork]");
  if (fork !== null) {
    const most = Number(fork.elements.more.dataset.most);
    const fill = () => {
      const none = { round: 0, feedback: "", text: "" }; // before the first draft
      const draft = drafts.find((one) => String(one.round) === fork.elements.at.value) ?? none;
      fork.elements.feedback.value = draft.feedback;
      fork.elements.draft.value = draft.text;
      fork.elements.more.max = Math.max(0, most - draft.round);
      fork.elements.more.value = Math.min(3, fork.elements.more.max);
    };
    fork.elements.at.addEventListener("change", fill);
    fill();
    forked = (round) => {
      fork.elements.at.value = round;
      fill();
      fork.closest("details").open = true;
      fork.elements.at.focus();
    };
    onSend(fork, async ({ at, change, feedback, draft, more, under }) => {
      const round = drafts.some((one) => String(one.round) === at) ? Number(at) : at;
      const text = { draft: { draft }, feedback: { feedback } }[change] ?? { prompts: otherPrompts(fork) };
      const limits = more === "" ? {} : { limits: { max_rounds: (round === at ? 0 : round) + Number(more) } };
      const other = under === "" ? {} : { assistant_id: under };
      const body = { at: round, ...text, ...limits, ...other };
      const made = await call(`threads/${encodeURIComponent(id)}/fork`, { method: "POST", body });
      go(`#/threads/${encodeURIComponent(made.thread_id)}`, await started(made.thread_id, under || assistant));
    });
  }
  const answer = place.querySelector("form[data-form=answer]");
  if (answer !== null) {
    answer.elements.draft.value = facts.asked;
    onSend(answer, async ({ action, text, draft }) => {
      const said = { accept: {}, stop: {}, feedback: { text }, edit: { draft } }[action];
      await startRun(id, assistant, { command: { resume: { action, ...said } } });
      again();
    });
  }
  const onward = place.querySelector("form[data-form=go-on]");
  if (onward !== null) {
    onSend(onward, async () => {
      await startRun(id, assistant);
      again();
    });
  }
  return facts.title;

  /** Start a run on a fork that is written; where it can't start, the fork is there all the same, and says why. */
  async function started(fork, under) {
    try {
      await startRun(fork, under);
      return null;
    } catch (error) {
      return error;
    }
  }
}

/** The prompts of a form that are no longer what they were. */
function otherPrompts(form) {
  const changed = [...form.querySelectorAll(".for-prompts textarea")].filter((one) => one.value !== one.defaultValue);
  if (changed.length === 0) throw new Error("No prompt was changed.");
  return Object.fromEntries(changed.map((one) => [one.name, one.value]));
}

function compare(form, path, signal, failed) {
  const details = form.parentElement;
  const place = details.querySelector(".compared");
  const draw = async () => {
    const { before, after } = Object.fromEntries(new FormData(form));
    show(place, (await call(`${path}/diff?before=${before}&after=${after}`, { signal })).html);
  };
  form.addEventListener("change", () => draw().catch(failed));
  form.addEventListener("submit", (event) => event.preventDefault());
  details.addEventListener("toggle", () => draw().catch(failed), { once: true });
}

function renewSteps(place, html) {
  const all = elements(html);
  for (const id of ["#rounds", "#steps"]) {
    const fresh = all.querySelector(id);
    const shown = place.querySelector(id);
    if (fresh === null) continue;
    if (shown === null) place.append(fresh);
    else shown.replaceChildren(...fresh.children);
  }
}
