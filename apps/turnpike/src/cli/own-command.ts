import { fileURLToPath } from "node:url";

/** This same command, for what runs it as a child: program and first argument. */
export const OWN_COMMAND: readonly [string, string] = [
  process.execPath,
  fileURLToPath(new URL("../../bin/turnpike.js", import.meta.url)),
];
