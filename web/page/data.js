// What the server says: JSON of rsm.v1 below /api/v1, and changes as server-sent events.

/** The answer of a path, its fields given as an object; values that are lists come several times. */
export async function get(path, fields = {}, signal) {
  const query = new URLSearchParams();
  for (const [field, value] of Object.entries(fields)) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== undefined && one !== null && one !== "") query.append(field, one);
    }
  }
  const address = `/api/v1/${path}${query.size ? "?" + query : ""}`;
  let answer;
  try {
    answer = await fetch(address, { signal, headers: { accept: "application/json" } });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("rsm does not answer: it has stopped, or the connection is cut");
  }
  const body = await answer.json().catch(() => null);
  // Given up while the body came.
  signal?.throwIfAborted();
  if (!answer.ok) throw new Error(body?.error ?? `rsm answers with status ${answer.status}`);
  return body;
}

/** Most items that a view lists; it says where there are more. */
export const MOST = 5000;

/** Items of a list from the page of `token` on, page by page, `most` or a few more: a page is never
 * cut, so that the next one begins where this one ends. Gives the token of the rest, if there is. */
export async function some(path, items, fields = {}, signal, token = "", most = MOST) {
  const list = [];
  do {
    const page = await get(path, { ...fields, page_size: 1000, page_token: token }, signal);
    list.push(...page[items]);
    token = page.next_page_token;
  } while (token && list.length < most);
  return { list, token };
}

/** All items of a list, page by page, up to `most`. Tells whether there are more. */
export async function all(path, items, fields = {}, signal, most = MOST) {
  const { list, token } = await some(path, items, fields, signal, "", most);
  return { list: list.slice(0, most), more: Boolean(token) || list.length > most };
}

/** What the page knows, for views that follow it. */
export const store = {
  status: null,
  /** Whether the stream of changes is open, and something has come within [`QUIET`]. */
  connected: false,
  /** Whether performance counters are read, or have been: without, questions about them are refused. */
  counters: false,
  /** When the server was last heard of, in milliseconds of the Unix epoch. */
  heard: 0,
  listeners: new Set(),
};

/** Whether the manager looks after the subnet: “no findings” of another one says nothing. */
export const manages = (status) => ["up", "degraded", "converging"].includes(status?.state);

/** The server sends something every five seconds: after so many milliseconds without, the connection
 * is lost, even if nothing has closed it. */
const QUIET = 13_000;
/** Milliseconds until the page connects again where the browser does not. */
const AGAIN = 3000;

/** Calls `listener` with each change: the kinds of events since the one before. Returns a function
 * that ends it. */
export function follow(listener) {
  store.listeners.add(listener);
  return () => store.listeners.delete(listener);
}

/** Waits until the server has said what it is, once. */
export function known() {
  if (store.status) return Promise.resolve();
  return new Promise((done) => {
    const end = follow(() => {
      if (!store.status) return;
      end();
      done();
    });
  });
}

function tell(changes) {
  for (const listener of [...store.listeners]) listener(changes);
}

/** Follows changes for as long as the page lives. */
export function connect() {
  const source = new EventSource("/api/v1/changes");
  let quiet;
  const lost = () => {
    store.connected = false;
    tell({});
  };
  const end = () => {
    clearTimeout(quiet);
    source.close();
    lost();
  };
  // Browsers keep a page that was left for the way back, and open six connections to a server: six
  // pages that were left would hold them all.
  const leave = () => {
    end();
    addEventListener("pageshow", connect, { once: true });
  };
  addEventListener("pagehide", leave, { once: true });
  const again = (pause) => {
    removeEventListener("pagehide", leave);
    end();
    setTimeout(connect, pause);
  };
  const heard = () => {
    store.heard = Date.now();
    clearTimeout(quiet);
    quiet = setTimeout(again, QUIET, 0);
  };
  quiet = setTimeout(again, QUIET, 0);
  source.addEventListener("alive", heard);
  source.onmessage = (message) => {
    heard();
    const { status, changes, lost: uncounted, counters } = JSON.parse(message.data);
    const isNew = !store.connected;
    store.status = status;
    store.counters = counters;
    store.connected = true;
    // After a break anything may have changed.
    tell({ ...changes, any: uncounted > 0 || isNew || Object.keys(changes).length > 0 });
  };
  source.onerror = () => {
    // The browser connects again by itself, but for a refusal, such as for too many clients.
    if (source.readyState === EventSource.CLOSED) again(AGAIN);
    else lost();
  };
}
