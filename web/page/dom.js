// Elements and texts. Data become text nodes only: nothing that a device says is ever markup.

/** An element: `h("td", {class: "num"}, "5")`. Properties that begin with `on` are listeners. */
export function h(tag, props, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "value") element.value = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  append(element, children);
  return element;
}

function append(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === undefined || child === null || child === false) continue;
    element.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
}

/** Replaces all that an element holds. */
export function fill(element, ...children) {
  element.replaceChildren();
  append(element, children);
  return element;
}

/** The same for content that is drawn again while it is read: a link or button that has the focus
 * keeps it, if one of the same address or name is there again. */
export function refill(element, ...children) {
  const focused = element.contains(document.activeElement) && document.activeElement !== element ? document.activeElement : null;
  const mark = (one) => one.tagName + (one.getAttribute("href") || one.id || one.textContent);
  const before = focused && mark(focused);
  fill(element, ...children);
  if (!before) return element;
  const again = [...element.querySelectorAll("a, button")].find((one) => mark(one) === before);
  again?.focus({ preventScroll: true });
  return element;
}

/** Arrow keys move the focus among the parts of an element; `back` and `forth` are the names of the
 * two keys. Home and End go to the first and the last part. */
export function arrows(element, selector, back, forth) {
  element.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const parts = [...element.querySelectorAll(selector)];
    const at = parts.indexOf(document.activeElement);
    if (at < 0) return;
    const next = { [back]: Math.max(at - 1, 0), [forth]: Math.min(at + 1, parts.length - 1), Home: 0, End: parts.length - 1 }[event.key];
    if (next === undefined) return;
    parts[next].focus();
    event.preventDefault();
  });
}

/** Makes these the children of an element. Those that stay are not touched: they keep the focus and
 * their place of scrolling. */
export function keep(element, ...children) {
  const wanted = children.flat(Infinity).filter((child) => child instanceof Node);
  for (const child of [...element.childNodes]) if (!wanted.includes(child)) child.remove();
  let next = element.firstChild;
  for (const child of wanted) {
    if (child === next) next = next.nextSibling;
    else element.insertBefore(child, next);
  }
}

// Characters that show nothing or turn the order of others: controls, marks of direction,
// zero-width ones, line separators, and halves of pairs.
const HIDDEN = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\uffff]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;

/** A text of a device as it is, with what shows nothing made visible as `\u{202e}`. */
export function visible(text) {
  return String(text ?? "").replace(HIDDEN, (mark) =>
    mark === "\ufffd" ? mark : `\\u{${mark.charCodeAt(0).toString(16)}}`);
}

// What switches put around their host name: `MF0;leaf-03:MQM8790/U1`.
const DECORATED = /MF\d+;([^\s,;:/]+):[\w.-]*\/([\w./-]*)/g;

/** A text with names of devices, [`visible`] and without the decoration of switches: `leaf-03`. Of a
 * chassis the part stays: `MF0;core:CS8500/L01/U1` reads `core/L01`. */
export function shown(text) {
  return visible(text).replace(DECORATED, (_, host, chip) => (chip.includes("/") ? `${host}/${chip.slice(0, chip.lastIndexOf("/"))}` : host));
}

/** A name of a device as an element: its direction does not reach the text around it. */
export function name(text, props) {
  return h("bdi", { title: visible(text) === shown(text) ? undefined : visible(text), ...props }, shown(text) || "(no name)");
}

/** A number with its thousands set apart. */
export const count = (number) => Number(number ?? 0).toLocaleString("en");

/** `link` for one, `links` for several. */
export const noun = (number, one, more = one + "s") => (Number(number) === 1 ? one : more);

/** `1 link`, `2 links`. */
export const plural = (number, one, more) => `${count(number)} ${noun(number, one, more)}`;

/** Milliseconds as people say them. */
export function duration(ms) {
  if (!(ms >= 0)) return "–";
  if (ms < 1) return `${ms.toFixed(2)} ms`;
  if (ms < 10) return `${ms.toFixed(1)} ms`;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const s = ms / 1000;
  if (s < 60) return `${s.toFixed(s < 10 ? 1 : 0)} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${Math.round(s % 60)} s`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.round((s % 3600) / 60)} min`;
  return `${Math.floor(s / 86400)} d ${Math.round((s % 86400) / 3600)} h`;
}

/** A time of the Unix epoch in milliseconds, as the operator's clock shows it. */
export function clock(ms) {
  if (!ms) return "–";
  const date = new Date(Number(ms));
  const today = new Date().toDateString() === date.toDateString();
  const time = date.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false });
  return today ? time : `${date.toLocaleDateString([], { year: "numeric", month: "short", day: "2-digit" })}, ${time}`;
}

/** A `time` element with the whole date in its title. */
export const when = (ms) => h("time", { datetime: ms ? new Date(Number(ms)).toISOString() : undefined, title: ms ? new Date(Number(ms)).toLocaleString() : undefined }, clock(ms));

/** Tells users of a screen reader. */
export function say(text) {
  document.getElementById("says").textContent = text;
}

/** A message in place of content. */
export const empty = (title, text) => h("p", { class: "empty" }, h("b", {}, title), text);

/** A sign that something is under way. */
export const spinner = (text) => h("div", { class: "spin", role: "status" }, text);

/** An error of a request. */
export const problem = (error) => h("p", { class: "error", role: "alert" }, shown(error.message ?? error));

/** A P_Key or LID in hexadecimal. */
export const hex = (number, digits = 4) => "0x" + Number(number).toString(16).padStart(digits, "0");
