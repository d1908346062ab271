"use strict";
// Filters the problems by the address (#method=…&outcome=…&q=…) and shows one when it is opened.
// What models wrote becomes text nodes only, never markup.
(() => {
  const PAGE = 50;
  const data = JSON.parse(document.getElementById("problems-data").textContent);
  const form = document.getElementById("filters");
  const list = document.getElementById("problems-list");
  const count = document.getElementById("problems-count");
  const more = document.getElementById("problems-more");
  let found = [];
  let shown = 0;

  function element(tag, className, ...children) {
    const made = document.createElement(tag);
    if (className) made.className = className;
    made.append(...children.filter((child) => child !== null && child !== ""));
    return made;
  }

  function number(value) {
    return value.toLocaleString("en-US");
  }

  function mark(value) {
    const word = value === null ? "no label" : value ? "right" : "wrong";
    return element("span", "mark " + word.replace(" ", "-"), word);
  }

  // A box that scrolls can be reached and scrolled by the keyboard.
  function block(className, ...children) {
    const box = element("div", "text " + className, ...children);
    box.tabIndex = 0;
    box.dir = "auto";
    return box;
  }

  function words(step) {
    if (!step.changes) return block("", step.text || "(empty)");
    return block("diff", ...step.changes.map(([kind, text]) =>
      kind === "same" ? text : element(kind === "added" ? "ins" : "del", "", text)));
  }

  function facts(step) {
    const said = [];
    if (step.by) said.push(step.by);
    if (step.answer !== null && step.kind !== "feedback") said.push("answer: " + step.answer);
    if (step.score !== null) said.push("score " + step.score.toFixed(2));
    if (step.tokens) said.push(number(step.tokens) + " tokens");
    return said.map((one) => element("span", "fact", one));
  }

  function stepOf(step, withoutTexts) {
    const title = element("h3", "title", step.title);
    if (step.kind === "feedback") {
      const word = step.accepted === null ? "can't be read:" : step.accepted ? "accepts" : "rejects";
      const judged = step.correct === null ? "" : step.correct ? "a right draft" : "a wrong draft";
      const errs = step.correct !== null && Boolean(step.accepted) !== step.correct;
      title.append(element("span", errs ? "verdict errs" : "verdict", (word + " " + judged).trim()));
    } else if (step.rejected) {
      title.append(element("span", "mark no-label", "not taken: " + step.rejected));
    } else {
      title.append(mark(step.correct));
    }
    title.append(...facts(step));
    const item = element("li", "step " + step.kind, title, withoutTexts ? "" : words(step));
    if (step.note) item.append(element("p", "note", step.note));
    return item;
  }

  function fill(details, problem) {
    const about = element("dl", "about");
    const tell = (name, value) => value !== null && value !== "" &&
      about.append(element("div", "", element("dt", "", name), element("dd", "", value instanceof Node ? value : String(value))));
    tell("gold answer", problem.truth);
    tell("answer", problem.predicted ?? "none could be read");
    tell("stopped", problem.stop);
    tell("accepted by", problem.accepted_by);
    tell("tokens", number(problem.tokens));
    tell("error", problem.error);
    if (problem.thread) {
      const link = element("a", "", problem.thread);
      const server = location.pathname.split("/page/evaluations/")[0];
      link.href = server + "/#/threads/" + encodeURIComponent(problem.thread);
      // A server shows it there; a file on the disk has no threads beside it.
      tell("thread", location.protocol.startsWith("http") ? link : problem.thread);
    }
    if (problem.without_texts) {
      details.append(element("p", "note", "These results keep no texts: neither the problem's nor those of its drafts."));
    }
    const steps = element("ol", "steps", ...problem.steps.map((step) => stepOf(step, problem.without_texts)));
    details.append(problem.without_texts ? "" : block("question", data.questions[problem.question]), about, steps);
  }

  function itemOf(problem) {
    const outcome = element("span", "outcome " + problem.outcome, data.outcomes[problem.outcome]);
    const summary = element("summary", "",
      outcome,
      element("span", "method", problem.method),
      problem.oracle ? element("span", "oracle", "saw the gold answer") : "",
      problem.error ? element("span", "failed", "failed") : "",
      element("bdi", "id", problem.id),
      element("bdi", "excerpt", data.questions[problem.question].slice(0, 160)));
    const details = element("details", "problem", summary);
    details.addEventListener("toggle", () => {
      if (details.open && details.children.length === 1) fill(details, problem);
    });
    return details;
  }

  function haystack(problem) {
    problem.haystack ??= [
      problem.id, data.questions[problem.question], problem.error,
      ...problem.steps.map((step) => step.changes
        ? step.changes.filter(([kind]) => kind !== "removed").map(([, text]) => text).join("")
        : step.text),
    ].join("\n").toLowerCase();
    return problem.haystack;
  }

  function showMore() {
    const next = found.slice(shown, shown + PAGE).map(itemOf);
    list.append(...next);
    shown += next.length;
    more.hidden = shown >= found.length;
    more.textContent = `Show ${Math.min(PAGE, found.length - shown)} more of ${number(found.length)}`;
    return next[0];
  }

  function wanted() {
    return new URLSearchParams(location.hash.slice(1));
  }

  function apply() {
    const asked = wanted();
    for (const field of ["method", "outcome", "q"]) {
      const control = form.elements[field];
      control.value = asked.get(field) ?? "";
      if (control.selectedIndex === -1) control.value = "";
    }
    const [method, outcome] = [form.elements.method.value, form.elements.outcome.value];
    const text = form.elements.q.value.trim().toLowerCase();
    found = data.problems.filter((problem) =>
      (!method || problem.method === method) && (!outcome || problem.outcome === outcome) &&
      (!text || haystack(problem).includes(text)));
    count.textContent = found.length === 1 ? "1 answer" : `${number(found.length)} answers`;
    list.replaceChildren();
    shown = 0;
    const first = showMore();
    if (found.length === 1) first.open = true;
  }

  function fromForm() {
    const asked = new URLSearchParams();
    for (const field of ["method", "outcome", "q"]) {
      if (form.elements[field].value) asked.set(field, form.elements[field].value);
    }
    history.replaceState(null, "", "#" + asked);
    apply();
  }

  form.addEventListener("input", (event) => {
    if (event.target.name !== "removed") fromForm();
  });
  form.addEventListener("submit", (event) => event.preventDefault());
  form.elements.removed.addEventListener("change", (event) => {
    list.classList.toggle("without-removed", !event.target.checked);
  });
  more.addEventListener("click", () => showMore().querySelector("summary").focus());
  addEventListener("hashchange", () => {
    if (location.hash && !location.hash.includes("=")) return; // a place on the page, not a filter
    apply();
    if (wanted().has("method")) document.getElementById("problems").scrollIntoView();
  });
  form.hidden = false;
  apply();
  if (wanted().has("method")) document.getElementById("problems").scrollIntoView();
})();
