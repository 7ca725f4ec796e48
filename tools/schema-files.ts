/**
 * Writes beside each set of migrations what they make, in schema.json: programs compare their database with it. `--check`
 * writes nothing and fails when a file is stale.
 */
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { startPostgres } from "@turnpike/localnet";
import { ledgerObjects } from "../packages/payment/src/ledger/migrate.ts";
import { portalObjects } from "../packages/portal-db/src/database/migrate.ts";
import { ROOT } from "./sources.ts";

const check = process.argv.includes("--check");

await using server = await startPostgres();
for (const [path, objects] of [
  ["packages/payment/migrations/schema.json", await ledgerObjects(server.url, "ledger")],
  ["packages/portal-db/migrations/schema.json", await portalObjects(server.url)],
] as const) {
  const file = join(ROOT, path);
  const text = `${JSON.stringify(objects, null, 2)}\n`;
  if (existsSync(file) && readFileSync(file, "utf8") === text) continue;
  if (check) {
    process.stderr.write(`${path} is not what the migrations make; run: npm run generate\n`);
    process.exitCode = 1;
  } else {
    writeFileSync(file, text);
    process.stdout.write(`${path} written\n`);
  }
}
