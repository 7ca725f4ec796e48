import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { AppError } from "@turnpike/base";

export { KeptMetrics, keptLog, type Line, ManualTime } from "./monitoring.ts";
export { type RecordedTx, readRecordedTx } from "./recorded-tx.ts";

/** The value, which must be there. */
export function must<T>(value: T | undefined): T {
  if (value === undefined) throw new AppError("INTERNAL", { message: "A test's value is missing." });
  return value;
}

/** A folder that is removed in the end. */
export async function scratchFolder(): Promise<AsyncDisposable & { readonly path: string }> {
  const path = await mkdtemp(join(tmpdir(), "turnpike-test-"));
  return { path, [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }) };
}
