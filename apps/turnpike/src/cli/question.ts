import { createInterface } from "node:readline/promises";
import { visibleText } from "@turnpike/base";

/** True where a person can be asked: both ends are a terminal. */
export function canAsk(): boolean {
  return process.stdin.isTTY === true && process.stderr.isTTY === true;
}

/** Streams of a question; those of the process by default. */
export interface QuestionModules {
  readonly input?: NodeJS.ReadableStream;
  readonly output?: NodeJS.WritableStream;
}

/** Asks a person, who has to write yes: every other line, and the end of the input, is a no. */
export async function askYes(question: string, modules: QuestionModules = {}): Promise<boolean> {
  const { input = process.stdin, output = process.stderr } = modules;
  const lines = createInterface({ input, output });
  const end = new Promise<string>((resolve) => {
    lines.once("close", () => resolve(""));
  });
  try {
    const answer = await Promise.race([lines.question(`${visibleText(question)} [y/N] `).catch(() => ""), end]);
    return /^y(es)?$/i.test(answer.trim());
  } finally {
    lines.close();
  }
}
