import { readFileSync } from "node:fs";
import { isRecord } from "@turnpike/base";

/** Version of the product: that of the command's package. */
export function productVersion(): string {
  const value: unknown = JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8"));
  return isRecord(value) && typeof value.version === "string" ? value.version : "0.0.0";
}
