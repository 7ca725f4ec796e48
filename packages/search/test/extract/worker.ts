import { parentPort } from "node:worker_threads";
import type { ExtractReply, ExtractRequest } from "../../src/extract/wire.ts";

/** A thread for tests of the pool: the page's text says what it does. */
parentPort?.on("message", ({ id, page }: ExtractRequest) => {
  const send = (reply: ExtractReply): void => parentPort?.postMessage(reply);
  const order = Buffer.from(page.body).toString();
  send({ id, started: true });
  if (order === "heap") for (const hog: unknown[] = []; ; ) hog.push({ much: [Math.random()] });
  if (order === "buffers") {
    const hog: Uint8Array[] = [];
    for (; hog.length < 200; ) hog.push(new Uint8Array(1_048_576).fill(1));
    // Holds them for ever.
    for (;;) if (hog.length < 200) break;
  }
  if (order === "loop") for (;;);
  if (order === "exit") process.exit(3);
  if (order === "throw") throw new TypeError("on purpose");
  if (order === "hang") return;
  const extracted = {
    ok: true,
    title: order,
    text: order,
    language: undefined,
    date: undefined,
    links: [],
    canonical: undefined,
    noIndex: false,
    noFollow: false,
  } as const;
  send({ id, extracted });
});
