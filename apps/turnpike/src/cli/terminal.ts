import { visibleText } from "@turnpike/base";

/** A stream whose reader may be a terminal. */
export interface TerminalStream {
  readonly isTTY?: boolean | undefined;
  write(text: string): unknown;
}

// The only module of the command that writes to the process's outputs (tools/foreign-text.test.ts). Texts of gateways, nodes and
// pages are part of what commands print: none moves the cursor, sets the clipboard or reverses text.

/** Prints on standard output: what has no shape as escapes, so that JSON stays JSON of the same value. */
export function printOut(text: string): void {
  process.stdout.write(visibleText(text));
}

/** Prints on the error output, as {@link printOut} does. */
export function printError(text: string): void {
  process.stderr.write(visibleText(text));
}

/** Prints text or bytes as they are, for files and programs. */
export function printExact(data: string | Uint8Array): void {
  process.stdout.write(data);
}

let outputFault: string | undefined;
process.stdout.on("error", (error: NodeJS.ErrnoException) => {
  outputFault ??= error.code ?? error.name;
});

/**
 * Resolves when everything that was printed is out. Returns the code of the fault that standard output was lost by: `EPIPE` where its
 * reader has gone. Undefined where a file or a pipe has all of it.
 */
export async function flushOutput(): Promise<string | undefined> {
  const flushed = [process.stdout, process.stderr].map(
    (stream) =>
      new Promise<NodeJS.ErrnoException | null | undefined>(
        (resolve) => void stream.write("", (error) => resolve(error)),
      ),
  );
  const [error] = await Promise.all(flushed);
  return outputFault ?? error?.code ?? error?.name;
}

/** The outputs for what writes to a stream. */
export const TERMINAL: { readonly output: TerminalStream; readonly errors: TerminalStream } = {
  output: {
    get isTTY() {
      return process.stdout.isTTY;
    },
    write: printOut,
  },
  errors: {
    get isTTY() {
      return process.stderr.isTTY;
    },
    write: printError,
  },
};
