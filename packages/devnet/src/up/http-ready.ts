import { get } from "node:http";
import { setTimeout as delay } from "node:timers/promises";

const MAX_BYTES = 8 * 1024 * 1024;

/** An answer of a part on this machine. */
export interface LocalAnswer {
  readonly status: number;
  readonly text: string;
}

/** GET on loopback, with a time-out; undefined when nothing answers, or the signal fires. */
export function localGet(url: string, timeoutMs = 2_000, signal?: AbortSignal): Promise<LocalAnswer | undefined> {
  return new Promise((resolve) => {
    const none = (): void => resolve(undefined);
    const late = AbortSignal.timeout(timeoutMs);
    const until = signal === undefined ? late : AbortSignal.any([signal, late]);
    const request = get(url, { signal: until, agent: false }, (response) => {
      const chunks: Buffer[] = [];
      let bytes = 0;
      response.on("data", (chunk: Buffer) => {
        bytes += chunk.length;
        if (bytes > MAX_BYTES) response.destroy();
        else chunks.push(chunk);
      });
      response.on("error", none);
      response.on("close", none);
      response.on("end", () => {
        resolve({ status: response.statusCode ?? 0, text: Buffer.concat(chunks).toString("utf8") });
      });
    });
    request.on("error", none);
  });
}

/** Waits until a GET answers 200. Rejects when the signal fires. */
export async function untilOk(url: string, signal: AbortSignal): Promise<void> {
  for (;;) {
    signal.throwIfAborted();
    if ((await localGet(url))?.status === 200) return;
    await delay(100, undefined, { signal });
  }
}
