import { parentPort } from "node:worker_threads";
import { type RecoverReply, type RecoverRequest, recoverAll } from "./recover-wire.ts";

parentPort?.on("message", (request: RecoverRequest) => {
  const signers = recoverAll(request.jobs);
  const reply: RecoverReply = { id: request.id, signers };
  parentPort?.postMessage(reply, [signers.buffer]);
});
