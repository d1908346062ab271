// Which view is shown is told by the address, so that reloading and going back work; who has no token is asked for one.

import { call, token } from "./calls.js";
import { compare } from "./compare.js";
import { element, onSend } from "./fragments.js";
import { home } from "./home.js";
import { thread } from "./thread.js";

const [place, door, problem, said, forget] = ["place", "door", "problem", "said", "forget"].map((id) =>
  document.getElementById(id),
);
let view = new AbortController();
let after = { error: null, focus: null };
let first = true;

function route() {
  const [, path, asked] = /^#?([^?]*)\??(.*)$/s.exec(location.hash);
  const query = new URLSearchParams(asked);
  const threads = "/threads/";
  if (path.startsWith(threads) && path.length > threads.length) {
    return { name: "thread", draw: thread, id: decoded(path.slice(threads.length)), query };
  }
  return path === "/compare" ? { name: "compare", draw: compare, query } : { name: "home", draw: home, query };
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function failed(error) {
  if (error.name === "AbortError") return;
  if (error.status === 401) {
    askForToken(token.get() === null ? "" : error.message);
    return;
  }
  problem.textContent = error.message;
  place.setAttribute("aria-busy", "false");
}

function askForToken(told) {
  token.forget();
  view.abort();
  place.replaceChildren();
  place.removeAttribute("data-view");
  place.setAttribute("aria-busy", "false");
  problem.textContent = "";
  document.title = "redraft";
  forget.hidden = true;
  door.hidden = false;
  document.getElementById("door-problem").textContent = told;
  document.getElementById("token").focus();
}

/** Show the view that the address names. */
async function render({ quietly = false } = {}) {
  view.abort();
  view = new AbortController();
  const { signal } = view;
  const found = route();
  if (place.dataset.view !== found.name) place.replaceChildren();
  place.dataset.view = found.name;
  place.setAttribute("aria-busy", "true");
  problem.textContent = "";
  const held = place.contains(document.activeElement);
  const { error, focus } = after;
  after = { error: null, focus: null };
  const go = (address, trouble = null, focused = null) => {
    after = { error: trouble, focus: focused };
    if (location.hash === address) render();
    else location.hash = address;
  };
  const again = () => render({ quietly: true });
  const say = (text) => { said.textContent = text; };
  try {
    const title = await found.draw(place, { ...found, go, again, failed, say, signal });
    if (signal.aborted) return;
    document.title = `${title} · redraft`;
    door.hidden = true;
    forget.hidden = token.get() === null;
    if (error !== null) failed(error);
    if (focus) document.getElementById(focus)?.focus();
    else if (quietly ? held && document.activeElement === document.body : !first) {
      place.querySelector("h1")?.focus({ preventScroll: quietly }); // a page that just loaded begins at its top
    }
    first = false;
    place.setAttribute("aria-busy", "false");
  } catch (trouble) {
    if (signal.aborted) return;
    const back = element("p");
    back.append(element("a", "All threads", { href: "#/" }));
    place.replaceChildren(element("h1", "This can't be shown", { tabindex: "-1" }), back);
    place.removeAttribute("data-view");
    failed(trouble);
  }
}

addEventListener("hashchange", () => {
  scrollTo(0, 0);
  render();
});
addEventListener("unhandledrejection", (event) => {
  event.preventDefault();
  failed(event.reason);
});
onSend(door, async ({ token: given }) => {
  token.set(given.trim());
  try {
    await call("page/home");
  } catch (error) {
    if (error.status !== 401) throw error;
    askForToken(error.message);
    return;
  }
  door.reset();
  await render();
});
forget.addEventListener("click", () => askForToken(""));
document.getElementById("skip").addEventListener("click", () => place.focus());
render();
