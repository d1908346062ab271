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

/** An id for a new thread. crypto.randomUUID is missing where a page came without TLS from another machine. */
export function newId() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = (bytes[6] & 0x0f) | 0x40;
  bytes[8] = (bytes[8] & 0x3f) | 0x80;
  const hex = [...bytes].map((one) => one.toString(16).padStart(2, "0")).join("");
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join("-");
}

const MODES = ["custom", "messages-tuple"];

/** Start a run on a thread; `asked` holds an input, a command, or nothing, which goes on where the thread stands. */
export function startRun(thread, assistant, asked = {}) {
  return call(`threads/${encodeURIComponent(thread)}/runs`, {
    method: "POST",
    body: { assistant_id: assistant, stream_mode: MODES, if_not_exists: "create", ...asked },
  });
}
