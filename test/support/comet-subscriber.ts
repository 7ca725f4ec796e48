import { parentPort, workerData } from "node:worker_threads";
import { Comet38Client } from "@cosmjs/tendermint-rpc";

/**
 * cosmjs over WebSocket, in a thread of its own: after `disconnect` this client opens its WebSocket again and again, so
 * that only the end of its thread ends it. Posts the height of a block that it asks for, then those of new blocks.
 */
const client = await Comet38Client.connect(String(workerData));
client.subscribeNewBlock().subscribe({
  next: ({ header }) => parentPort?.postMessage(header.height),
  error: (error: unknown) => parentPort?.postMessage(String(error)),
  complete: () => parentPort?.postMessage("ended"),
});
parentPort?.postMessage((await client.block(103)).block.header.height);
