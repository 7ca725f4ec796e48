import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";

/** A script in a process of its own, and the lines that it said. */
export class LineProcess {
  readonly #child: ChildProcess;
  readonly #exited: Promise<unknown>;
  readonly lines: string[] = [];
  #wake: () => void = () => {};
  isGone = false;

  constructor(script: string, args: readonly string[]) {
    this.#child = spawn(process.execPath, [script, ...args], { stdio: ["pipe", "pipe", "inherit"] });
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

  write(line: string): void {
    this.#child.stdin?.write(`${line}\n`);
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
