// HTML that the server drew, and the one place where this page takes HTML at all. What models wrote is escaped in it.

const policy = window.trustedTypes
  ? window.trustedTypes.createPolicy("redraft", { createHTML: (html) => html })
  : { createHTML: (html) => html };

/** The elements of a fragment of ours. */
export function elements(html) {
  const template = document.createElement("template");
  template.innerHTML = policy.createHTML(html);
  return template.content;
}

/** Show a fragment of ours in place of what an element holds. */
export function show(place, html) {
  place.replaceChildren(elements(html));
}

/** A new element with a text and attributes. */
export function element(name, text = "", attributes = {}) {
  const made = document.createElement(name);
  made.textContent = text;
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

/** Call what a form does when it is sent, by its button or by Ctrl+Enter; what goes wrong is shown beside its button. */
export function onSend(form, send) {
  const told = form.querySelector(".problem");
  const button = form.querySelector("button[type=submit]");
  form.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      form.requestSubmit(button);
    }
  });
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (button.getAttribute("aria-disabled") === "true") return;
    told.textContent = "";
    button.setAttribute("aria-disabled", "true");
    try {
      await send(Object.fromEntries(new FormData(form)));
    } catch (error) {
      if (error.status === 401) throw error;
      told.textContent = error.message;
    } finally {
      button.removeAttribute("aria-disabled");
    }
  });
}
