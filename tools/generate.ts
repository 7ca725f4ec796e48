import { spawnSync } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { configSchemaJson } from "@turnpike/config";
import { dashboardFiles } from "./dashboards.ts";
import { errorsDocument } from "./errors-doc.ts";
import { exportsDocument } from "./exports-file.ts";
import { importCyclesDocument } from "./import-cycles.ts";
import { relayMethodsDocument } from "./relay-methods-doc.ts";
import { retiredWordsDocument } from "./retired-words.ts";
import { files, ROOT } from "./sources.ts";
import { unusedExportsDocument } from "./unused-exports.ts";

const check = process.argv.includes("--check");
let stale = 0;

/** Writes a generated file, or with --check compares it. */
function generated(path: string, text: string): void {
  const file = join(ROOT, path);
  const same = existsSync(file) && readFileSync(file, "utf8") === text;
  if (!same && check) {
    stale++;
    process.stderr.write(`${path} is not what its sources say; run: npm run generate\n`);
  } else if (!same) {
    writeFileSync(file, text);
    process.stdout.write(`${path} written\n`);
  }
}

/** Runs a package's own generator, which takes --check too. */
function runGenerator(path: string): void {
  const args = [join(ROOT, path), ...(check ? ["--check"] : [])];
  const run = spawnSync(process.execPath, args, { cwd: ROOT, stdio: "inherit" });
  if (run.status !== 0) {
    stale++;
    process.stderr.write(`${path} failed\n`);
  }
}

generated("docs/errors.md", errorsDocument());
generated("docs/relay-methods.md", relayMethodsDocument());
generated("config.schema.json", configSchemaJson());
generated("tools/exports.json", exportsDocument());
generated("tools/retired-words.json", retiredWordsDocument());
generated("tools/import-cycles.json", importCyclesDocument());
generated("tools/unused-exports.json", unusedExportsDocument());
for (const { path, text } of dashboardFiles()) generated(path, text);
for (const path of files("packages/localnet/tools/compile.ts", "packages/proto/tools/generate.ts")) runGenerator(path);
runGenerator("tools/schema-files.ts");
if (stale > 0) process.exitCode = 1;
else process.stdout.write("generated files are up to date\n");
