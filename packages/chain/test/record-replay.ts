import { writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { AppError } from "@turnpike/base";
import { makeReplay } from "./replays.ts";

// Records a chain that this version makes, for the tests of all later ones: npm run record:replay -- 0.2.0
const [, , version = ""] = process.argv;
if (!/^[\w.-]{1,64}$/.test(version)) {
  throw new AppError("USAGE", { message: "Name the version: npm run record:replay -- 0.2.0" });
}
const file = fileURLToPath(new URL(`../../../test/spec/replays/${version}.json`, import.meta.url));
const replay = await makeReplay();
await writeFile(file, `${JSON.stringify(replay, undefined, 1)}\n`, { flag: "wx" });
process.stdout.write(`${file}: ${replay.blocks.length} blocks by the rules ${replay.rules}\n`);
