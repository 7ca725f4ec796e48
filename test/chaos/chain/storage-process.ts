import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";

const BIN = join(import.meta.dirname, "../../../apps/turnpike/bin/turnpike.js");

/** A process whose lines are kept, and waited for. */
export interface Spoken extends AsyncDisposable {
  readonly lines: readonly string[];
  /** The first line from `from` on that matches; rejects when the process ends before. */
  said(pattern: RegExp, from?: number): Promise<string>;
  /** Ends it, with its code. */
  stop(signal?: NodeJS.Signals): Promise<number | null>;
  readonly ended: Promise<number | null>;
}

/** Starts a program. Both of its outputs are read. */
export function startSpoken(program: string, args: readonly string[]): Spoken {
  const child: ChildProcess = spawn(program, args, { stdio: ["ignore", "pipe", "pipe"] });
  const lines: string[] = [];
  let waiting: (() => void)[] = [];
  const wake = (): void => {
    const all = waiting;
    waiting = [];
    for (const one of all) one();
  };
  for (const stream of [child.stdout, child.stderr]) {
    createInterface({ input: stream as NodeJS.ReadableStream }).on("line", (line) => {
      lines.push(line);
      wake();
    });
  }
  let isOver = false;
  const ended = once(child, "close").then(([code]) => {
    isOver = true;
    wake();
    return code as number | null;
  });
  const stop = async (signal: NodeJS.Signals = "SIGTERM"): Promise<number | null> => {
    if (!isOver) child.kill(signal);
    return ended;
  };
  return {
    lines,
    ended,
    stop,
    async said(pattern, from = 0) {
      for (let at = from; ; ) {
        for (; at < lines.length; at++) {
          const line = lines[at] ?? "";
          if (pattern.test(line)) return line;
        }
        if (isOver) throw new TypeError(`ended before it said ${pattern}: ${lines.slice(-8).join("\n")}`);
        await new Promise<void>((resolve) => waiting.push(resolve));
      }
    },
    async [Symbol.asyncDispose]() {
      await stop("SIGKILL");
    },
  };
}

/** `turnpike` with these arguments, as an operator calls it. */
export const startTurnpike = (...args: readonly string[]): Spoken => startSpoken(process.execPath, [BIN, ...args]);

/** A node that runs, and asks itself. */
export interface SpokenNode extends Spoken {
  readonly urls: Readonly<Record<string, string>>;
}

/** Starts a node by its configuration file, and waits until it says that it is ready. */
export async function startNode(config: string): Promise<SpokenNode> {
  const process = startTurnpike("chain", "start", "--json", "--config", config);
  try {
    const line = await process.said(/"ready":true/);
    return { ...process, urls: JSON.parse(line) as Record<string, string> };
  } catch (error) {
    await process[Symbol.asyncDispose]();
    throw error;
  }
}

/** The newest height by a node's REST, which both engines have. */
export async function newestOf({ urls }: Pick<SpokenNode, "urls">): Promise<bigint> {
  const answer = await fetch(`${urls.rest}/cosmos/base/tendermint/v1beta1/blocks/latest`);
  const { block } = (await answer.json()) as { readonly block?: { readonly header: { readonly height: string } } };
  return BigInt(block?.header.height ?? -1);
}

/** A query of the state: its answer as text. */
export async function supplyOf({ urls }: Pick<SpokenNode, "urls">): Promise<{ status: number; text: string }> {
  const answer = await fetch(`${urls.rest}/cosmos/bank/v1beta1/supply`);
  return { status: answer.status, text: await answer.text() };
}
