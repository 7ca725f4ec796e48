import { migrate } from "../src/ledger/migrate.ts";

// Run by migrate.test.ts: one of several processes that migrate at once.
const { applied } = await migrate(process.argv[2] ?? "");
process.send?.(applied.length);
process.disconnect?.();
