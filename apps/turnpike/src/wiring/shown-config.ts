import type { Config } from "@turnpike/config";

const HIDDEN = "[hidden]";
/** Sections and keys that hold nothing but secrets. */
const SECRETS = new Set(["headers", "token", "secret"]);

/** A configuration without what nobody should see on a screen: keys, tokens, headers, passwords and paths of URLs. */
export function shownConfig(config: Config): unknown {
  return JSON.parse(
    JSON.stringify(config, (key, value: unknown) => {
      if (key === "keys" && Array.isArray(value)) return value.map(() => HIDDEN);
      if (SECRETS.has(key)) return HIDDEN;
      if (typeof value !== "string" || !value.includes("://")) return value;
      try {
        const url = new URL(value);
        return `${url.protocol}//${url.host}${url.pathname.length > 1 || url.search !== "" ? "/…" : ""}`;
      } catch {
        return HIDDEN;
      }
    }),
  );
}
