#!/usr/bin/env node
// Plain JavaScript without new syntax, so that an old Node.js can read it: it starts the TypeScript sources with the
// Node.js that npm brought.
import { spawn } from "node:child_process";
import { useCompileCache } from "./compile-cache.js";
import { pinnedNode } from "./pinned-node.js";

const NEEDED = 26;
// set for the pinned Node.js, so that a wrong one in its place does not start itself for ever
const HANDED_OVER = "TURNPIKE_HANDED_OVER";

function giveUp(why) {
  process.stderr.write(
    `error DEPENDENCY_MISSING: turnpike needs Node ${NEEDED}, and this is ${process.version}. ${why}\n` +
      "Run npm ci in the folder of turnpike: it brings the right Node and leaves yours alone.\n",
  );
  process.exit(1);
}

function handOver(program) {
  const env = Object.assign({}, process.env, { [HANDED_OVER]: "1" });
  const child = spawn(program, process.argv.slice(1), { stdio: "inherit", env });
  // Ctrl-C reaches the child by itself; this process must outlive it, to give its exit code.
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) {
    process.on(signal, () => {
      if (signal !== "SIGINT" || !process.stdin.isTTY) child.kill(signal);
    });
  }
  child.on("error", (error) => giveUp(`The one that npm brought cannot be started: ${error.message}.`));
  child.on("exit", (code, signal) => {
    if (code !== null) process.exit(code);
    for (const name of ["SIGINT", "SIGTERM", "SIGHUP"]) process.removeAllListeners(name);
    process.kill(process.pid, signal);
  });
}

const major = Number(process.versions.node.split(".")[0]);
if (major >= NEEDED) {
  delete process.env[HANDED_OVER];
  useCompileCache();
  import("../src/main.ts")
    .then((module) => module.main(process.argv.slice(2), process.env))
    .catch((error) => {
      process.stderr.write(`${error instanceof Error ? error.stack : error}\n`);
      process.exitCode = 1;
    });
} else {
  const program = pinnedNode();
  if (program === undefined) giveUp("The one that npm brings is not there.");
  else if (process.env[HANDED_OVER] === "1") giveUp("So is the one that npm brought.");
  else handOver(program);
}
