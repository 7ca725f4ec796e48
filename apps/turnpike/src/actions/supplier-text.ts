import { prettyJson } from "../output.ts";

/** A supplier's status for people. */
export function statusLines(status: Readonly<Record<string, unknown>>): readonly string[] {
  return prettyJson(status).split("\n");
}
