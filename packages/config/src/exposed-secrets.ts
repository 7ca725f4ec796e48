import { isRecord } from "@turnpike/base";
import { pathText, type SchemaNode, schemaAt } from "./describe.ts";
import { isOpenToOthers } from "./key-file.ts";
import { readYaml } from "./load.ts";
import { CONFIG_SCHEMA } from "./schema.ts";

function hasPassword(text: string): boolean {
  try {
    return new URL(text).password !== "";
  } catch {
    return false;
  }
}

function secretsIn(value: unknown, path: readonly string[]): string[] {
  if (Array.isArray(value)) return value.flatMap((item, at) => secretsIn(item, [...path, String(at)]));
  if (isRecord(value)) return Object.entries(value).flatMap(([key, inner]) => secretsIn(inner, [...path, key]));
  // What a variable brings does not stand in the file.
  if (typeof value !== "string" || value === "" || value.includes("${")) return [];
  const mark = schemaAt(CONFIG_SCHEMA as SchemaNode, path)?.["x-secret"];
  return mark === true || (mark === "url" && hasPassword(value)) ? [pathText(path)] : [];
}

/**
 * Paths of the secrets that stand in a configuration file which other users can read; none where only its owner can.
 * @throws AppError CONFIG_INVALID when it is no configuration.
 */
export function exposedSecrets(file: string): readonly string[] {
  return isOpenToOthers(file) ? secretsIn(readYaml(file), []) : [];
}
