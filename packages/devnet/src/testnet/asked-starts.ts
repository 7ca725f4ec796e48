import { readdir, readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { AppError, isRecord, writeAtomically } from "@turnpike/base";
import { runnerOf } from "./leftovers.ts";
import type { TestnetLayout } from "./testnet-file.ts";

// By files, not by a signal: SIGHUP would end a process that does not listen for it yet.
const ASK = /^(node\d+)\.(\d+)\.ask$/;
const LOOK_MS = 200;
/** Longer than a node's two processes are given to answer. */
const MOST_MS = 300_000;

type Answer =
  | { readonly state: "runs" | "starts" | "started" }
  | { readonly state: "failed"; readonly message: string };

/** Files of one process's question for one node. */
function filesOf({ runFolder }: TestnetLayout, node: string, asker: string): { ask: string; answer: string } {
  return { ask: join(runFolder, `${node}.${asker}.ask`), answer: join(runFolder, `${node}.${asker}.answer`) };
}

async function readAnswer(file: string): Promise<Answer | undefined> {
  const text = await readFile(file, "utf8").catch(() => "");
  const value: unknown = text === "" ? undefined : JSON.parse(text);
  if (!isRecord(value)) return undefined;
  const { state, message } = value;
  if (state === "runs" || state === "starts" || state === "started") return { state };
  return { state: "failed", message: String(message) };
}

export interface AskStartOptions {
  readonly layout: TestnetLayout;
  readonly node: string;
  /** The process that runs the node. */
  readonly pid: number;
}

/**
 * Asks the process that runs a node to start it again if it is dead. Resolves with true when its RPC answers, with false when
 * nothing of it is dead.
 * @throws AppError CHAIN_HOME when it does not start, or the process ends or is silent
 */
export async function askStart(
  { layout, node, pid }: AskStartOptions,
  { onDead }: { readonly onDead: () => void },
): Promise<boolean> {
  const files = filesOf(layout, node, String(process.pid));
  const untilMs = performance.now() + MOST_MS;
  let isReported = false;
  await rm(files.answer, { force: true });
  try {
    await writeAtomically(files.ask, "{}\n");
    for (;;) {
      const found = await readAnswer(files.answer);
      if (found?.state === "runs") return false;
      if (found !== undefined && found.state !== "failed" && !isReported) {
        isReported = true;
        onDead();
      }
      if (found?.state === "started") return true;
      if (found?.state === "failed") throw new AppError("CHAIN_HOME", { message: found.message });
      if ((await runnerOf(layout, node))?.pid !== pid) {
        throw new AppError("CHAIN_HOME", {
          message: `Process ${pid}, which ran ${node}, has ended; call start again.`,
        });
      }
      if (performance.now() > untilMs) {
        throw new AppError("CHAIN_HOME", { message: `Process ${pid}, which runs ${node}, does not answer.` });
      }
      await delay(LOOK_MS);
    }
  } finally {
    await rm(files.ask, { force: true });
    await rm(files.answer, { force: true });
  }
}

export interface AskedStartsModules {
  readonly isDead: (node: string) => boolean;
  /** Resolves when the node answers. */
  readonly start: (node: string) => Promise<void>;
}

/** Does what {@link askStart} asks for, one node after the other. */
export class AskedStarts implements AsyncDisposable {
  readonly #layout: TestnetLayout;
  readonly #nodes: ReadonlySet<string>;
  readonly #modules: AskedStartsModules;
  readonly #stopping = new AbortController();
  readonly #over: Promise<void>;

  /** @param opts `nodes`: names of those that this process runs; others are somebody else's to start */
  constructor(
    opts: { readonly layout: TestnetLayout; readonly nodes: ReadonlySet<string> },
    modules: AskedStartsModules,
  ) {
    this.#layout = opts.layout;
    this.#nodes = opts.nodes;
    this.#modules = modules;
    this.#over = this.#listen();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stopping.abort();
    await this.#over;
  }

  async #listen(): Promise<void> {
    const { signal } = this.#stopping;
    while (!signal.aborted) {
      for (const name of await readdir(this.#layout.runFolder).catch(() => [])) {
        const [, node, asker] = ASK.exec(name) ?? [];
        if (node === undefined || asker === undefined || !this.#nodes.has(node) || signal.aborted) continue;
        const { ask, answer } = filesOf(this.#layout, node, asker);
        // Where stop has removed the folder meanwhile, no one reads the answer.
        const say = (what: Answer) => writeAtomically(answer, `${JSON.stringify(what)}\n`).catch(() => {});
        await rm(ask, { force: true });
        await say(await this.#answer(node, say));
      }
      await delay(LOOK_MS, undefined, { signal }).catch(() => {});
    }
  }

  async #answer(node: string, say: (what: Answer) => Promise<void>): Promise<Answer> {
    if (!this.#modules.isDead(node)) return { state: "runs" };
    await say({ state: "starts" });
    try {
      await this.#modules.start(node);
      return { state: "started" };
    } catch (error) {
      return { state: "failed", message: error instanceof Error ? error.message : String(error) };
    }
  }
}
