import { parentPort, workerData } from "node:worker_threads";
import { extractPage } from "./extract-page.ts";
import type { ExtractReply, ExtractRequest, WorkerLimits } from "./wire.ts";

const limits = workerData as WorkerLimits;

function send(reply: ExtractReply): void {
  parentPort?.postMessage(reply);
}

parentPort?.on("message", ({ id, page }: ExtractRequest) => {
  void extractPage(page, limits, () => send({ id, started: true })).then((extracted) => send({ id, extracted }));
});
