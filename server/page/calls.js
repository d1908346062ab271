// Asking the server. The token is kept in this tab alone, and sent as a header, never in an address.

const KEPT = "redraft-token";

export class Problem extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

export const token = {
  get: () => sessionStorage.getItem(KEPT),
  set: (value) => sessionStorage.setItem(KEPT, value),
  forget: () => sessionStorage.removeItem(KEPT),
};

/** What the server replies, as a Response. Throws a Problem that says what the server says. */
export async function ask(path, { method = "GET", body, headers = {}, signal } = {}) {
  const every = { ...headers };
  if (token.get() !== null) every.Authorization = `Bearer ${token.get()}`;
  if (body !== undefined) every["Content-Type"] = "application/json";
  let reply;
  try {
    reply = await fetch(path, {
      method, signal, headers: every, body: body === undefined ? undefined : JSON.stringify(body),
      cache: "no-store", credentials: "omit", redirect: "error", referrerPolicy: "no-referrer",
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(0, "The server can't be reached. Is it running?");
  }
  if (reply.ok) return reply;
  let told = null;
  try {
    told = (await reply.json()).error.message;
  } catch {
    // whatever stands before the server speaks another language
  }
  throw new Problem(reply.status, told ?? `The server answered with ${reply.status}.`);
}

/** The JSON that the server replies with; null where it replies with nothing. */
export async function call(path, options) {
  const reply = await ask(path, options);
  return reply.status === 204 ? null : reply.json();
}

const MODES = ["custom", "messages-tuple"];

/** Start a run on a thread; `asked` holds an input, a command, or nothing, which goes on where the thread stands. */
export function startRun(thread, assistant, asked = {}) {
  return call(`threads/${encodeURIComponent(thread)}/runs`, {
    method: "POST",
    body: { assistant_id: assistant, stream_mode: MODES, if_not_exists: "create", ...asked },
  });
}
