import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { test } from "node:test";
import type { Command } from "commander";
import { runCommand, startTestChain } from "../../../test/chain-part.ts";
import { program } from "../../main.ts";

const page = readFileSync(new URL("../../../../../docs/chain-commands.md", import.meta.url), "utf8");

/** The words of a line, as a shell has them. */
const wordsOf = (line: string): string[] =>
  [...line.matchAll(/'([^']*)'|(\S+)/g)].map(([, quoted, plain]) => quoted ?? plain ?? "");

test("the page's commands run as they stand, with its files", async () => {
  await using chain = await startTestChain();
  process.chdir(chain.home);
  for (const [, name = "", content = ""] of page.matchAll(
    /`([a-z-]+\.(?:yaml|json))`[^\n]*\n\n```(?:yaml|json)\n(.*?)```/gs,
  )) {
    writeFileSync(name, content);
  }
  let seen = 0;
  for (const [, line = ""] of page.matchAll(/^npx turnpike (.*)$/gm)) {
    const [command = "", into] = line.split(" > ");
    const words = wordsOf(command);
    if (words.includes("create-claim")) {
      const { session } = JSON.parse(readFileSync("session.json", "utf8"));
      const { out } = await runCommand(["query", "block", "--node", chain.url]);
      const newest = Number(JSON.parse(out).block.header.height);
      await chain.produce(Number(session.header.session_end_block_height) + 2 - newest);
    }
    const home = words.includes("broadcast") ? [] : ["--home", chain.home];
    const node = words[0] === "chain" ? [] : ["--node", chain.url];
    const { out, error } = await chain.during(runCommand([...words, ...node, ...home]));
    assert.equal(error, undefined, `${line}: ${String(error)}`);
    assert.ok(out.length > 0, line);
    if (into !== undefined) writeFileSync(into, out);
    seen++;
  }
  assert.ok(seen >= 20, `${seen} commands`);
});

/** Commands without commands of their own, with their words. */
function leaves(command: Command, words: readonly string[]): readonly (readonly [readonly string[], Command])[] {
  const inner = command.commands as readonly Command[];
  return inner.length === 0 ? [[words, command]] : inner.flatMap((one) => leaves(one, [...words, one.name()]));
}

test("every command of tx and query has a description and an example that it can read", () => {
  const root = program({ env: {}, exitWith() {}, kill: () => assert.fail("nothing is run") });
  let seen = 0;
  for (const [words, command] of leaves(root, []).filter(([[first]]) => first === "tx" || first === "query")) {
    let help = "";
    command.configureOutput({
      writeOut: (text) => {
        help += text;
      },
    });
    command.outputHelp();
    const name = words.join(" ");
    const [, example] = new RegExp(`^ {2}npx turnpike ${name}(.*)$`, "m").exec(help) ?? [];
    assert.ok(example !== undefined, name);
    assert.match(command.description(), /\.$/, name);
    const given = wordsOf(example.replaceAll('"', "'"));
    const flags = given.filter((word) => word.startsWith("--"));
    for (const flag of flags)
      assert.ok(
        command.options.some(({ long }) => long === flag.split("=")[0]),
        `${name} ${flag}`,
      );
    const required = command.registeredArguments.filter(({ required: needed }) => needed).length;
    assert.ok(given.length - flags.length >= required, `${name}: ${example}`);
    seen++;
  }
  assert.ok(seen > 70, `${seen} commands`);
});
