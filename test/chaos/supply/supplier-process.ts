import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";

const CHILD = join(import.meta.dirname, "supplier-child.ts");

/** Where a supplier is killed by itself. */
export interface KillPlan {
  readonly point: string;
  /** How often the point is reached before. */
  readonly times: number;
}

/** A supplier in a process of its own, and what it said. */
export class SupplierProcess {
  readonly #child: ChildProcess;
  readonly #exited: Promise<unknown>;
  readonly lines: string[] = [];
  #wake: () => void = () => {};
  isGone = false;

  constructor(rpcUrl: string, folder: string, plan?: KillPlan) {
    const args = [CHILD, rpcUrl, folder, plan?.point ?? "", String(plan?.times ?? 1)];
    this.#child = spawn(process.execPath, args, { stdio: ["pipe", "pipe", "inherit"] });
    const { stdout } = this.#child;
    assert.ok(stdout !== null);
    const lines = createInterface({ input: stdout });
    lines.on("line", (line) => {
      this.lines.push(line);
      this.#wake();
    });
    // What it wrote before it was killed comes first.
    this.#exited = Promise.all([once(this.#child, "exit"), once(lines, "close")]).then(() => {
      this.isGone = true;
      this.#wake();
    });
    this.#child.stdin?.on("error", () => {});
  }

  /** True once a line that fits was said; false when the process is gone without it. */
  async said(fits: (line: string) => boolean): Promise<boolean> {
    for (;;) {
      if (this.lines.some(fits)) return true;
      if (this.isGone) return false;
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }

  /** Lets it serve relays; false when it was killed meanwhile. */
  async serve(first: number, count: number): Promise<boolean> {
    this.#child.stdin?.write(`serve ${first} ${count}\n`);
    return await this.said((line) => line === "served");
  }

  /** Waits until it has worked after a block; false when it was killed before. */
  processed(heightBlocks: bigint): Promise<boolean> {
    return this.said((line) => {
      const [what, height] = line.split(" ");
      return what === "processed" && BigInt(height ?? 0) >= heightBlocks;
    });
  }

  async kill(): Promise<void> {
    this.#child.kill("SIGKILL");
    await this.#exited;
  }

  /** Ends it in an orderly way. */
  async end(): Promise<void> {
    this.#child.stdin?.end();
    await this.#exited;
  }
}
