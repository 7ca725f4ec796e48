import type { RestRoute } from "./rest-routes.ts";

/** A route that fits a path, and the texts in its places. */
export interface RouteMatch {
  readonly route: RestRoute;
  /** Name of the field, and its text. */
  readonly fields: readonly (readonly [name: string, text: string])[];
}

const PLACE = /^\{(\w+)(=\*\*)?\}$/;

interface Pattern {
  readonly route: RestRoute;
  readonly parts: readonly (string | { readonly field: string })[];
  /** The last place takes all that is left. */
  readonly isOpen: boolean;
  readonly literals: number;
}

function patternOf(route: RestRoute): Pattern {
  const parts = route.segments.map((segment) => {
    const [, field] = PLACE.exec(segment) ?? [];
    return field === undefined ? segment : { field };
  });
  const isOpen = route.segments.at(-1)?.endsWith("=**}") === true;
  return { route, parts, isOpen, literals: parts.filter((part) => typeof part === "string").length };
}

function match({ route, parts, isOpen }: Pattern, segments: readonly string[]): RouteMatch | undefined {
  if (isOpen ? segments.length < parts.length : segments.length !== parts.length) return undefined;
  const fields: [string, string][] = [];
  for (const [i, part] of parts.entries()) {
    const rest = isOpen && i === parts.length - 1;
    const text = rest ? segments.slice(i).join("/") : (segments[i] ?? "");
    if (typeof part !== "string") fields.push([part.field, text]);
    else if (part !== text) return undefined;
  }
  return { route, fields };
}

/** Finds the route of a path; of two that fit, the one with more fixed segments. */
export class RestRouter {
  readonly #patterns = new Map<string, Pattern[]>();
  #open: Pattern[] = [];

  constructor(routes: readonly RestRoute[]) {
    const patterns = routes.map(patternOf).sort((a, b) => b.literals - a.literals);
    this.#open = patterns.filter(({ isOpen }) => isOpen);
    for (const pattern of patterns) {
      const key = `${pattern.route.verb} ${pattern.parts.length}`;
      this.#patterns.set(key, [...(this.#patterns.get(key) ?? []), pattern]);
    }
  }

  /** @param path decoded, with its slash in front */
  find(verb: string, path: string): RouteMatch | undefined {
    const segments = path.slice(1).split("/");
    for (const pattern of this.#patterns.get(`${verb} ${segments.length}`) ?? []) {
      const found = match(pattern, segments);
      if (found !== undefined) return found;
    }
    for (const pattern of this.#open) {
      const found = pattern.route.verb === verb ? match(pattern, segments) : undefined;
      if (found !== undefined) return found;
    }
    return undefined;
  }
}
