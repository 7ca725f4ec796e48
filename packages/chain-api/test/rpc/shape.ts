const CLASSES: readonly (readonly [name: string, pattern: RegExp])[] = [
  ["integer text", /^-?\d+$/],
  ["time", /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$/],
  ["upper hex", /^(?:[0-9A-F]{40}|[0-9A-F]{64})$/],
  ["lower hex", /^(?:[0-9a-f]{40}|[0-9a-f]{64})$/],
  ["account", /^pokt1[a-z0-9]{38,}$/],
];
/** Members whose values are any text. */
const FREE = new Set(["value", "key", "log", "tx", "data", "txs", "signature", "leaf_hash", "app_state", "address"]);
/** Members whose values are compared. */
const EXACT = new Set(["code", "codespace", "type", "canonical", "proofOps", "listening", "jsonrpc", "version"]);

const kindOf = (value: unknown): string => (value === null ? "null" : Array.isArray(value) ? "array" : typeof value);
const classOf = (text: string): string => CLASSES.find(([, pattern]) => pattern.test(text))?.[0] ?? "text";

/** Where two JSON values differ in shape: kinds, members and their order, empty or not, null or not, kinds of texts. */
export function shapeDifferences(recorded: unknown, got: unknown, at = "$", name = ""): readonly string[] {
  const [kind, gotKind] = [kindOf(recorded), kindOf(got)];
  if (kind !== gotKind) return [`${at}: recorded ${kind}, got ${gotKind}`];
  if (Array.isArray(recorded) && Array.isArray(got)) {
    if ((recorded.length === 0) !== (got.length === 0)) return [`${at}: ${recorded.length} and ${got.length} elements`];
    const model: unknown = recorded[0];
    return got.flatMap((element, i) => shapeDifferences(model, element, `${at}[${i}]`, name));
  }
  if (kind === "object") return memberDifferences(recorded as object, got as object, at);
  if (typeof recorded === "string" && typeof got === "string" && !FREE.has(name) && !EXACT.has(name)) {
    const [text, gotText] = [classOf(recorded), classOf(got)];
    return text === gotText || recorded === "" ? [] : [`${at}: recorded ${text}, got ${gotText}`];
  }
  const exact = EXACT.has(name) && name !== "type";
  return exact && recorded !== got ? [`${at}: recorded ${String(recorded)}, got ${String(got)}`] : [];
}

function memberDifferences(recorded: object, got: object, at: string): readonly string[] {
  const names = Object.keys(recorded).filter((name) => name !== "$note");
  const gotNames = Object.keys(got);
  if (names.join() !== gotNames.join()) return [`${at}: recorded members ${names.join()}, got ${gotNames.join()}`];
  return names.flatMap((name) =>
    name === "app_state"
      ? []
      : shapeDifferences(
          (recorded as Readonly<Record<string, unknown>>)[name],
          (got as Readonly<Record<string, unknown>>)[name],
          `${at}.${name}`,
          name,
        ),
  );
}
