import { parentPort } from "node:worker_threads";

/** The signing thread, which dies of a message that ends in 0xde 0xad. */
parentPort?.on("message", (message: { readonly jobs?: Uint8Array }) => {
  if (message.jobs?.at(-1) === 0xad && message.jobs.at(-2) === 0xde) process.exit(1);
});
await import("../src/threads/signing-thread.ts");
