import type { Waits } from "../src/wiring/modules.ts";

const PATIENCE_MS = 60_000;

/** Waits of a service under test, which a busy machine does not reach. It loads no tools: child processes import it. */
export const PATIENT: Waits = { ledgerConnectMs: PATIENCE_MS, ledgerStatementMs: PATIENCE_MS, chainMs: PATIENCE_MS };
