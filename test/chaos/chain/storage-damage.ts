import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface, type Interface } from "node:readline";
import { openTestNode, sendTx } from "@turnpike/testkit/embedded-node";
import { createRandom, type Random } from "../../soak/random.ts";
import type { ChaosFigure, ChaosOptions } from "../chaos.ts";
import type { ReadOrder, ReadWord } from "./storage-reader.ts";

const READER = join(import.meta.dirname, "storage-reader.ts");
const PAGE_BYTES = 4_096;
const BLOCKS = 40;

/** A process that reads stores, and is started again when a store ends it. */
class Reader implements AsyncDisposable {
  #child: ChildProcess | undefined;
  #lines: Interface | undefined;

  /** Undefined: the process ended. */
  async ask(order: ReadOrder): Promise<ReadWord | undefined> {
    if (this.#child === undefined) {
      this.#child = spawn(process.execPath, [READER], { stdio: ["pipe", "pipe", "ignore"] });
      this.#child.stdin?.on("error", () => {});
      this.#lines = createInterface({ input: this.#child.stdout as NodeJS.ReadableStream });
    }
    const [child, lines] = [this.#child, this.#lines as Interface];
    const gone = new AbortController();
    const line = once(lines, "line", { signal: gone.signal }).then(([text]) => JSON.parse(String(text)) as ReadWord);
    const ended = once(child, "exit", { signal: gone.signal }).then(() => undefined);
    child.stdin?.write(`${JSON.stringify(order)}\n`);
    const word = await Promise.race([line, ended]);
    gone.abort();
    await Promise.allSettled([line, ended]);
    if (word === undefined) this.#child = undefined;
    return word;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#child === undefined || this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const exit = once(this.#child, "exit");
    this.#child.kill("SIGKILL");
    await exit;
  }
}

type Damage = (bytes: Buffer, random: Random) => void;

const pageOf = (bytes: Buffer, random: Random): number => random.whole(0, bytes.length / PAGE_BYTES - 1) * PAGE_BYTES;

/** What a disk does to a file at rest. */
const DAMAGES: Readonly<Record<string, Damage>> = {
  "one bit": (bytes, random) => {
    const at = random.whole(0, bytes.length - 1);
    bytes[at] = (bytes[at] ?? 0) ^ (1 << random.whole(0, 7));
  },
  "a few bytes": (bytes, random) => {
    const at = random.whole(0, bytes.length - 9);
    for (let n = 0; n < 8; n++) bytes[at + n] = random.whole(0, 255);
  },
  "head of a page": (bytes, random) => {
    const at = pageOf(bytes, random) + random.whole(0, 63);
    bytes[at] = (bytes[at] ?? 0) ^ (1 << random.whole(0, 7));
  },
  "zeroed sector": (bytes, random) => {
    const at = random.whole(0, bytes.length / 512 - 1) * 512;
    bytes.fill(0, at, at + 512);
  },
  "zeroed page": (bytes, random) => {
    const at = pageOf(bytes, random);
    bytes.fill(0, at, at + PAGE_BYTES);
  },
  "random page": (bytes, random) => {
    const at = pageOf(bytes, random);
    for (let n = 0; n < PAGE_BYTES; n++) bytes[at + n] = random.whole(0, 255);
  },
  "page in another's place": (bytes, random) => {
    const [from, to] = [pageOf(bytes, random), pageOf(bytes, random)];
    bytes.copy(bytes, to, from, from + PAGE_BYTES);
  },
};

/** A chain with a few transactions a block, and what its key signed; stopped. */
async function makeTruth(folder: string): Promise<void> {
  await using node = await openTestNode({ folder: join(folder, "store"), signedFile: join(folder, "signed.json") });
  const sequences = [0n, 0n, 0n];
  for (let n = 0; n < BLOCKS; n++) {
    for (const from of sequences.keys()) {
      const sequence = sequences[from] ?? 0n;
      // Long notes stand on pages of their own.
      const memo = n % 7 === 0 ? "a note ".repeat(30) : "";
      const sent = node.submit(sendTx({ from, sequence, memo, amount: BigInt(n + 1) }));
      if (sent.kind === "checked" && sent.result.code === 0) sequences[from] = sequence + 1n;
    }
    await node.produceBlock();
  }
}

/** What became of damaged stores. */
interface Outcomes {
  refused: number;
  harmless: number;
  crashed: number;
  faults: number;
  wrong: string[];
}

async function damageAll(
  opts: { readonly seeds: number; readonly first: number; readonly check: ReadOrder["check"] },
  { folder, progress }: { readonly folder: string; readonly progress: ChaosOptions["progress"] },
): Promise<Outcomes> {
  const truth = await readFile(join(folder, "store", "chain.mdb"));
  const signed = await readFile(join(folder, "signed.json"));
  const copy = join(folder, `copy-${opts.check}`);
  await using reader = new Reader();
  const right = await reader.ask({ folder, check: "whole" });
  assert.equal(right?.kind, "answers", JSON.stringify(right));
  const outcomes: Outcomes = { refused: 0, harmless: 0, crashed: 0, faults: 0, wrong: [] };
  const kinds = Object.keys(DAMAGES);
  for (let seed = opts.first; seed < opts.first + opts.seeds; seed++) {
    const random = createRandom(seed);
    const kind = kinds[seed % kinds.length] ?? "";
    const bytes = Buffer.from(truth);
    DAMAGES[kind]?.(bytes, random);
    await rm(copy, { recursive: true, force: true });
    await mkdir(join(copy, "store"), { recursive: true });
    await writeFile(join(copy, "store", "chain.mdb"), bytes);
    await writeFile(join(copy, "signed.json"), signed);
    const word = await reader.ask({ folder: copy, check: opts.check });
    const what = `seed ${seed} (${kind})`;
    if (word === undefined) outcomes.crashed++;
    else if (word.kind === "fault") {
      outcomes.faults++;
      progress(`${what}: ${word.text.split("\n")[0]}`);
    } else if (word.kind === "refused") {
      outcomes.refused++;
      assert.match(word.code, /^CHAIN_(STORE|STORE_DAMAGED|SIGNED)$/, `${what}: ${word.message}`);
      assert.notEqual(word.message, "");
    } else if (word.digest === (right as { digest: string }).digest) outcomes.harmless++;
    else outcomes.wrong.push(what);
    if (seed % 50 === 49) progress(`${opts.check}: ${seed - opts.first + 1} of ${opts.seeds} places damaged`);
  }
  return outcomes;
}

/**
 * Damages a stopped node's store at random places, and asks a fresh process for every answer that a node has. Each is
 * refused, or all its answers are right; and no process ends of it. Without the check at the start the same damage gives wrong
 * answers and ended processes, which shows that it is damage.
 */
export async function damagePages(
  opts: { readonly seeds: number; readonly unchecked: number; readonly first: number },
  { progress }: Pick<ChaosOptions, "progress">,
): Promise<ChaosFigure[]> {
  const folder = await mkdtemp(join(tmpdir(), "turnpike-storage-"));
  try {
    await makeTruth(folder);
    const checked = await damageAll({ ...opts, check: "whole" }, { folder, progress });
    assert.deepEqual(checked.wrong, [], "wrong answers");
    assert.equal(checked.crashed, 0, "processes that the store's library ended");
    assert.equal(checked.faults, 0, "faults without a name");
    assert.ok(checked.refused > 0 && checked.harmless > 0);
    const figures = [
      { what: "places damaged", value: opts.seeds, unit: "" },
      { what: "refused with what to do", value: checked.refused, unit: "" },
      { what: "harmless, every answer right", value: checked.harmless, unit: "" },
      { what: "wrong answers", value: 0, unit: "" },
      { what: "processes ended by the library", value: 0, unit: "" },
    ];
    if (opts.unchecked === 0) return figures;
    const seeds = opts.unchecked;
    const bare = await damageAll({ seeds, first: opts.first, check: "none" }, { folder, progress });
    assert.ok(bare.crashed + bare.wrong.length + bare.faults > 0, "the damage does no harm even without the check");
    return [
      ...figures,
      { what: "without the check: places damaged", value: seeds, unit: "" },
      { what: "without the check: refused by whoever read", value: bare.refused, unit: "" },
      { what: "without the check: processes ended", value: bare.crashed, unit: "" },
      { what: "without the check: wrong answers", value: bare.wrong.length, unit: "" },
    ];
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
