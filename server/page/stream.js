// Server-sent events read with fetch, which can send a token; a connection that drops is taken up where it was.

import { Problem, ask } from "./calls.js";

const LONGEST_WAIT_MS = 10_000;

/** Call `take(name, data, id)` with each event until `end` comes; `lost(waiting)` says when the connection drops. */
export async function follow(path, { take, lost, signal }) {
  let last = null;
  let wait = 250;
  while (!signal.aborted) {
    try {
      const reply = await ask(path, { signal, headers: last === null ? {} : { "Last-Event-ID": last } });
      lost(false);
      for await (const event of events(reply.body)) {
        wait = 250;
        if (event.id !== null) last = event.id;
        if (event.name !== null) take(event.name, event.data, event.id);
        if (event.name === "end") return;
      }
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof Problem && error.status >= 400 && error.status < 500 && error.status !== 429) throw error;
    }
    lost(true);
    await new Promise((done) => {
      const timer = setTimeout(done, wait);
      signal.addEventListener("abort", () => { clearTimeout(timer); done(); }, { once: true });
    });
    wait = Math.min(2 * wait, LONGEST_WAIT_MS);
  }
}

async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let unread = "";
  while (true) {
    const { done, value } = await reader.read();
    if (done) return;
    unread += value;
    const blocks = unread.split("\n\n");
    unread = blocks.pop();
    for (const block of blocks) {
      const found = { name: null, data: null, id: null };
      for (const line of block.split("\n")) {
        if (line.startsWith("event: ")) found.name = line.slice(7);
        if (line.startsWith("data: ")) found.data = JSON.parse(line.slice(6));
        if (line.startsWith("id: ")) found.id = line.slice(4);
      }
      yield found;
    }
  }
}
