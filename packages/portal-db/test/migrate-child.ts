import { silentLog } from "@turnpike/base";
import { migratePortalDb } from "../src/database/migrate.ts";

// Run by migrate.test.ts: one of several processes that migrate at once.
const [, , url = "", authenticatorPassword] = process.argv;
const { applied } = await migratePortalDb({ url, authenticatorPassword }, { log: silentLog });
process.send?.(applied.length);
process.disconnect?.();
