import { isIP } from "node:net";

/** Labels of two characters at the end, such as `uk`, often have others of at most so many before them, such as `co`. */
const MAX_SECOND_LEVEL_CHARS = 3;

/**
 * Name of who runs a host: the domain that one registers. Anyone may stake many suppliers, and each under an operator of
 * its own; a domain of its own for each costs more, and is seen. A host that is no name stands for itself, as `undefined`.
 */
export function domainOf(host: string): string | undefined {
  const name = host
    .replace(/:[0-9]{1,5}$/, "")
    .replace(/\.$/, "")
    .toLowerCase();
  const labels = name.split(".");
  if (labels.length < 2 || name.startsWith("[") || isIP(name) !== 0) return undefined;
  const [second = "", last = ""] = labels.slice(-2);
  const isShared = last.length === 2 && second.length <= MAX_SECOND_LEVEL_CHARS;
  return labels.slice(isShared ? -3 : -2).join(".");
}
