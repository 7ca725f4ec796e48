const ISO = /^(\d{4})-(\d{2})-(\d{2})(?:[T ](\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?)\s?(Z|[+-]\d{2}:?\d{2})?)?$/i;
const PDF = /^D:(\d{4})(\d{2})?(\d{2})?(\d{2})?(\d{2})?(\d{2})?(Z|[+-]\d{2}'?\d{2})?/;

/**
 * A date as pages write it, as ISO 8601: a day where it has no time, else an instant in UTC.
 * Undefined when it is none, or out of 1990 to 2100: such dates are mistakes.
 */
export function isoDate(written: string | undefined): string | undefined {
  const text = (written ?? "").trim().slice(0, 64);
  const match = ISO.exec(text);
  if (match !== null) {
    const [, year, month, day, time, zone] = match;
    const date = `${year}-${month}-${day}`;
    // An instant without a zone is somewhere within a day of it: only the day is known.
    if (time === undefined || zone === undefined) return checked(new Date(`${date}T00:00:00Z`), date);
    const offset = zone.toUpperCase() === "Z" || zone.includes(":") ? zone : `${zone.slice(0, 3)}:${zone.slice(3)}`;
    return checked(new Date(`${date}T${time}${offset.toUpperCase()}`), undefined);
  }
  // Only forms with a month's name: in others, day and month cannot be distinguished.
  if (!/[a-z]{3}/i.test(text) || !/\d{4}/.test(text)) return undefined;
  const time = /\d:\d{2}/.exec(text);
  const zoned = time !== null && /gmt|utc|z|[+-]\d{4}/i.test(text.slice(time.index + time[0].length));
  const date = new Date(zoned ? text : `${text} UTC`);
  return checked(date, zoned || Number.isNaN(date.getTime()) ? undefined : date.toISOString().slice(0, 10));
}

/** The date of a PDF's information (ISO 32000-1 §7.9.4), such as `D:20240131120000+01'00'`. */
export function pdfDate(written: unknown): string | undefined {
  const match = typeof written === "string" ? PDF.exec(written) : null;
  if (match === null) return undefined;
  const [, year, month = "01", day = "01", hour, minute = "00", second = "00", zone] = match;
  const date = `${year}-${month}-${day}`;
  if (hour === undefined || zone === undefined) return isoDate(date);
  return isoDate(`${date}T${hour}:${minute}:${second}${zone.replaceAll("'", "")}`);
}

function checked(date: Date, day: string | undefined): string | undefined {
  const ms = date.getTime();
  if (Number.isNaN(ms)) return undefined;
  // A day that a month does not have rolls over to the next.
  if (day !== undefined && date.toISOString().slice(0, 10) !== day) return undefined;
  const year = date.getUTCFullYear();
  if (year < 1990 || year > 2100) return undefined;
  return day ?? date.toISOString();
}
