import { silentLog } from "@turnpike/base";
import { migratePortalDb } from "./migrate.ts";
import { PASSWORD } from "./test-support.ts";

// Run by migrate.test.ts: one of several processes that migrate at once.
const url = process.argv[2] ?? "";
const { applied } = await migratePortalDb({ url, authenticatorPassword: PASSWORD }, { log: silentLog });
process.send?.(applied.length);
process.disconnect?.();
