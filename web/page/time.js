// Times as operators write them: the forms that rsmctl takes, in the zone of the browser.

/** The forms, for messages and hints. */
export const FORMS = "22:00, yesterday, today, now, 2h (ago; also s, min, d), 2026-11-24, 2026-11-24 22:00, or RFC 3339";

const CLOCK = /^([01]\d|2[0-3]):([0-5]\d)(?::([0-5]\d))?$/;
const AGO = /^(\d{1,9})(s|m|min|h|d)$/;
const DATE = /^(\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?(Z|[+-]\d\d:\d\d)?)?$/i;
const UNITS = { s: 1e3, m: 60e3, min: 60e3, h: 3600e3, d: 86400e3 };

/** Milliseconds since the Unix epoch that `text` means at `now`; undefined for an empty text. */
export function parseTime(text, now = new Date()) {
  const wanted = text.trim();
  if (!wanted) return undefined;
  const at = meant(wanted, now);
  if (!(at >= 0)) throw new Error(`“${wanted}” is no time: expected ${FORMS}`);
  return at;
}

function meant(text, now) {
  const day = (back) => new Date(now.getFullYear(), now.getMonth(), now.getDate() - back);
  if (text === "now") return now.getTime();
  if (text === "today") return day(0).getTime();
  if (text === "yesterday") return day(1).getTime();
  const ago = AGO.exec(text);
  if (ago) return now.getTime() - Number(ago[1]) * UNITS[ago[2]];
  const clock = CLOCK.exec(text);
  if (clock) {
    const at = (back) => day(back).setHours(Number(clock[1]), Number(clock[2]), Number(clock[3] ?? 0));
    // The latest such time that is over.
    return at(0) <= now.getTime() ? at(0) : at(1);
  }
  return date(text);
}

function date(text) {
  const found = DATE.exec(text);
  if (!found) return NaN;
  const [year, month, day, hours, minutes, seconds] = found.slice(1, 7).map((part) => Number(part ?? 0));
  const ms = Math.floor(Number(`0.${found[7] ?? 0}`) * 1000);
  // The fields as they are in UTC: a month 13 or a 30th of February would move to another date.
  const utc = new Date(Date.UTC(year, month - 1, day, hours, minutes, seconds, ms));
  const same = utc.getUTCFullYear() === year && utc.getUTCMonth() === month - 1 && utc.getUTCDate() === day
    && utc.getUTCHours() === hours && utc.getUTCMinutes() === minutes && utc.getUTCSeconds() === seconds;
  if (!same) return NaN;
  const zone = found[8];
  if (!zone) return new Date(year, month - 1, day, hours, minutes, seconds, ms).getTime();
  if (/z/i.test(zone)) return utc.getTime();
  const [offsetHours, offsetMinutes] = [Number(zone.slice(1, 3)), Number(zone.slice(4, 6))];
  if (offsetHours > 23 || offsetMinutes > 59) return NaN;
  return utc.getTime() - (zone[0] === "-" ? -1 : 1) * (offsetHours * 60 + offsetMinutes) * 60e3;
}
