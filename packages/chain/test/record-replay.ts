import { readFile, writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { AppError } from "@turnpike/base";
import { isReleased, makeReplay } from "./replays.ts";

// Records a chain that this version makes, for the tests of all later ones: npm run record:replay -- 0.2.0
const [, , version = ""] = process.argv;
if (!/^[\w.-]{1,64}$/.test(version)) {
  throw new AppError("USAGE", { message: "Name the version: npm run record:replay -- 0.2.0" });
}
const changelog = await readFile(new URL("../../../CHANGELOG.md", import.meta.url), "utf8");
if (isReleased(changelog, version)) {
  const message = `${version} is released: its record stays, and what changed the rules since needs a name in RULES.`;
  throw new AppError("USAGE", { message });
}
const file = fileURLToPath(new URL(`../../../test/spec/replays/${version}.json`, import.meta.url));
const replay = await makeReplay();
await writeFile(file, `${JSON.stringify(replay, undefined, 1)}\n`);
process.stdout.write(`${file}: ${replay.blocks.length} blocks by the rules ${replay.rules}\n`);
