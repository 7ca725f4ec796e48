import { createInterface } from "node:readline/promises";
import { visibleText } from "@turnpike/base";

/** True where a person can be asked: both ends are a terminal. */
export function canAsk(): boolean {
  return process.stdin.isTTY === true && process.stderr.isTTY === true;
}

/** Streams of a question, those of the process by default, and the signal that ends it. */
export interface QuestionModules {
  readonly signal?: AbortSignal;
  readonly input?: NodeJS.ReadableStream;
  readonly output?: NodeJS.WritableStream;
}

/** Asks a person, who has to write yes: every other line, the end of the input and the signal are a no. */
export async function askYes(question: string, modules: QuestionModules = {}): Promise<boolean> {
  const { input = process.stdin, output = process.stderr, signal } = modules;
  const lines = createInterface({ input, output });
  const end = new Promise<string>((resolve) => {
    lines.once("close", () => resolve(""));
  });
  const prompt = `${visibleText(question)} [y/N] `;
  try {
    const answer = await Promise.race([
      (signal === undefined ? lines.question(prompt) : lines.question(prompt, { signal })).catch(() => ""),
      end,
    ]);
    return /^y(es)?$/i.test(answer.trim());
  } finally {
    lines.close();
  }
}
