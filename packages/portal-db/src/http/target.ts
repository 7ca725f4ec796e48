/** What a request's target names. */
export type Target =
  | { readonly kind: "root" }
  | { readonly kind: "system"; readonly name: "live" | "ready" }
  | { readonly kind: "table"; readonly table: string; readonly query: string }
  | { readonly kind: "function"; readonly name: string }
  | { readonly kind: "bad" };

const BAD: Target = { kind: "bad" };

/** Reads a request's target: one segment, decoded once. */
export function readTarget(url: string): Target {
  const at = url.indexOf("?");
  const path = at < 0 ? url : url.slice(0, at);
  if (!path.startsWith("/")) return BAD;
  const segment = path.slice(1);
  if (segment === "") return { kind: "root" };
  if (segment === "live" || segment === "ready") return { kind: "system", name: segment };
  try {
    const [, called] = /^rpc\/([^/]+)$/.exec(segment) ?? [];
    if (called !== undefined) return { kind: "function", name: decodeURIComponent(called) };
    if (segment.includes("/")) return BAD;
    return { kind: "table", table: decodeURIComponent(segment), query: at < 0 ? "" : url.slice(at + 1) };
  } catch {
    return BAD;
  }
}
