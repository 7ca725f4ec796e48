import { isRecord } from "./json.ts";

// V8's own words: they have no codes. Compared without a regular expression, which cannot be compiled where the stack ends.
const V8_LIMITS = [
  "Maximum call stack size exceeded",
  "Maximum BigInt size exceeded",
  "Invalid string length",
  "Invalid array length",
  "Invalid typed array length",
  "Array buffer allocation failed",
  "Map maximum size exceeded",
  "Set maximum size exceeded",
  "WebAssembly.Memory",
];
const NODE_LIMITS: readonly unknown[] = [
  "ERR_MEMORY_ALLOCATION_FAILED",
  "ERR_STRING_TOO_LONG",
  "ERR_BUFFER_TOO_LARGE",
  "ERR_WORKER_OUT_OF_MEMORY",
];

/**
 * True for an error that comes of this process and not of what it computes: a limit of the JavaScript engine (its stack, its
 * memory, the size of its values), or the operating system's. On another machine the same computation may succeed.
 */
export function isEngineLimit(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const { message } = error;
  if (error instanceof RangeError && V8_LIMITS.some((limit) => message.startsWith(limit))) return true;
  // A regular expression that there was no stack to compile.
  if (error instanceof SyntaxError && message.endsWith(": Stack overflow")) return true;
  if (!isRecord(error)) return false;
  return "syscall" in error || NODE_LIMITS.includes(error["code"]);
}
