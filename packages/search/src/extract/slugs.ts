/** What GitHub leaves out of a heading's anchor: all but letters, marks, numbers, connectors, hyphens and blanks. */
const LEFT_OUT = /[^\p{L}\p{M}\p{N}\p{Pc}\- ]/gu;
const MAX_SLUG_CHARS = 200;

/** Makes the anchors of one page's headings, in their order, as GitHub does: a further one of the same name is numbered. */
export function createSlugs(): (heading: string) => string {
  const taken = new Set<string>();
  const counts = new Map<string, number>();
  return (heading) => {
    const name =
      heading.trim().toLowerCase().replace(LEFT_OUT, "").replaceAll(" ", "-").slice(0, MAX_SLUG_CHARS) || "-";
    let count = counts.get(name) ?? 0;
    let slug = count === 0 ? name : `${name}-${count}`;
    while (taken.has(slug)) slug = `${name}-${++count}`;
    counts.set(name, count + 1);
    taken.add(slug);
    return slug;
  };
}
