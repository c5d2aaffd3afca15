// Talks to the service: one JSON error shape, a token where one is asked for, and patience when it is gone.

class ApiError extends Error {
  constructor(status, code, message) {
    super(message);
    this.status = status;
    this.code = code;
  }
}
/** No answer, or one that says "later": worth trying again. */
class Unreachable extends Error {}

const FIRST_WAIT = 500;
const LONGEST_WAIT = 8000;
const PATIENCE = 15000;
const TOKEN = "infrec-token";
let token = null;

/** Take a token from the address (#token=…), keep it for this tab, and drop it from the address. */
export function takeToken() {
  const fragment = new URLSearchParams(location.hash.slice(1));
  token = fragment.get("token") ?? stored();
  if (!fragment.has("token")) return;
  keepToken(token);
  fragment.delete("token");
  history.replaceState(null, "", `#${fragment}`);
}

export function keepToken(value) {
  token = value;
  try {
    sessionStorage.setItem(TOKEN, value);
  } catch {
    // Storage is switched off: the token lives as long as the page.
  }
}

function stored() {
  try {
    return sessionStorage.getItem(TOKEN);
  } catch {
    return null;
  }
}

async function ask(path, { body, signal } = {}) {
  const headers = { Accept: "application/json" };
  // A header takes plain characters only; what else was pasted is no token, and the server may say so.
  if (token) headers.Authorization = `Bearer ${token.trim().replace(/[^\x21-\x7e]/gu, "?")}`;
  if (body) headers["Content-Type"] = "application/json";
  const limit = AbortSignal.timeout(PATIENCE);
  let response;
  try {
    response = await fetch(path, {
      method: body ? "POST" : "GET",
      headers,
      body: body && JSON.stringify(body),
      signal: signal ? AbortSignal.any([signal, limit]) : limit,
      credentials: "omit",
      cache: "no-cache",
    });
    if ([502, 503, 504].includes(response.status)) throw new Unreachable("The server is too busy to answer.");
    const answer = await response.json().catch((failure) => {
      if (failure instanceof SyntaxError) return null;
      throw failure;
    });
    if (response.ok && answer) return answer;
    const { code = "error", message = `The server answered ${response.status}.` } = answer?.error ?? {};
    throw new ApiError(response.status, code, message);
  } catch (failure) {
    if (failure instanceof ApiError || failure instanceof Unreachable || signal?.aborted) throw failure;
    throw new Unreachable("The server does not answer.");
  }
}

/** Watches whether the server is there; `change` says how it stands, `back` that it has returned. */
class Connection extends EventTarget {
  down = false;
  #wait = FIRST_WAIT;
  #timer = null;

  /** Like fetch, but JSON; an unreachable server starts the search for it. */
  async call(path, options) {
    try {
      return await ask(path, options);
    } catch (failure) {
      if (failure instanceof Unreachable) this.#lost(failure.message);
      throw failure;
    }
  }

  get = (path, signal) => this.call(path, { signal });
  post = (path, body, signal) => this.call(path, { body, signal });

  retryNow = () => {
    clearTimeout(this.#timer);
    this.#look();
  };

  #lost(reason) {
    if (this.down) return;
    this.down = true;
    this.#wait = FIRST_WAIT;
    this.#later(reason);
  }

  #later(reason) {
    this.dispatchEvent(new CustomEvent("change", { detail: { wait: this.#wait, reason } }));
    this.#timer = setTimeout(() => this.#look(), this.#wait);
    this.#wait = Math.min(2 * this.#wait, LONGEST_WAIT);
  }

  async #look() {
    try {
      await ask("readyz");
    } catch (failure) {
      if (failure instanceof Unreachable) return this.#later(failure.message);
    }
    this.down = false;
    this.dispatchEvent(new CustomEvent("change", { detail: { wait: 0 } }));
    this.dispatchEvent(new Event("back"));
  }
}

export const server = new Connection();
