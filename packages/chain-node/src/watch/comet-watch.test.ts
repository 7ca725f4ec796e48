import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { suite, test } from "node:test";
import { KeptMetrics, keptLog, ManualTime } from "@turnpike/testkit/fixtures";
import { CometRpc } from "../abci/comet-rpc.ts";
import { CometWatch } from "./comet-watch.ts";

type Answers = Record<string, unknown>;

const WELL: Answers = {
  status: { sync_info: { catching_up: true } },
  net_info: { n_peers: "3", peers: [] },
  num_unconfirmed_txs: { n_txs: "0", total: "12", total_bytes: "3456", txs: null },
  validators: { total: "4", validators: [] },
};

/** An RPC that answers methods with what is set, with an error what is not, and not at all while silent. */
async function fakeRpc() {
  const state = { answers: WELL, isSilent: false };
  const server = createServer((request, response) => {
    request.setEncoding("utf8");
    let body = "";
    request.on("data", (part: string) => (body += part));
    request.on("end", () => {
      if (state.isSilent) return;
      const { method } = JSON.parse(body) as { method: string };
      const result = state.answers[method];
      const error = { code: -32603, message: "Internal error", data: "not now" };
      response.end(JSON.stringify({ jsonrpc: "2.0", id: 1, ...(result === undefined ? { error } : { result }) }));
    });
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    state,
    server,
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

const SAMPLES = ["engine_up", "peers", "validators", "mempool_txs", "mempool_bytes", "catching_up"];
const LOOK_MS = 5000;

suite("CometBFT's facts", { timeout: 60_000 }, () => {
  test("are told while it answers, and forgotten while it does not", async () => {
    await using comet = await fakeRpc();
    const [time, metrics, { log, lines }] = [new ManualTime(), new KeptMetrics(), keptLog()];
    const rpc = new CometRpc({ url: comet.url });
    await using watch = new CometWatch({}, { rpc, metrics, log, wait: time.wait });
    await time.idle();
    assert.deepEqual(metrics.read(...SAMPLES), [1, 3, 4, 12, 3456, 1]);
    assert.equal(watch.facts?.peers, 3);

    const { validators: _, ...begun } = WELL;
    comet.state.answers = begun;
    await time.pass(LOOK_MS);
    assert.deepEqual(metrics.read("engine_up", "validators"), [1, undefined], "before the first block it has none");

    const { net_info: __, ...bad } = WELL;
    comet.state.answers = bad;
    for (let i = 0; i < 2; i++) await time.pass(LOOK_MS);
    assert.deepEqual(metrics.read(...SAMPLES), [0, undefined, undefined, undefined, undefined, undefined]);
    assert.deepEqual([watch.facts, lines], [undefined, []]);
    for (let i = 0; i < 5; i++) await time.pass(LOOK_MS);
    assert.deepEqual(
      lines.map(({ level, message }) => [level, message]),
      [["warn", "CometBFT's RPC does not answer"]],
    );
    comet.state.answers = WELL;
    await time.pass(LOOK_MS);
    assert.deepEqual([lines.length, lines[1]?.level], [2, "info"]);
    assert.deepEqual(metrics.read("engine_up", "peers"), [1, 3]);
  });

  test("a question that hangs is given up, and ends with the watch", { timeout: 60_000 }, async () => {
    await using comet = await fakeRpc();
    comet.state.isSilent = true;
    const [time, metrics, { log }] = [new ManualTime(), new KeptMetrics(), keptLog()];
    {
      const rpc = new CometRpc({ url: comet.url, timeoutMs: 50 });
      await using _watch = new CometWatch({}, { rpc, metrics, log, wait: time.wait });
      await time.idle();
      assert.deepEqual(metrics.read("engine_up"), [0]);
    }
    const asked = once(comet.server, "request");
    // The question's own limit is beyond this test's: it ends with the watch, or not at all.
    const rpc = new CometRpc({ url: comet.url, timeoutMs: 3_600_000 });
    const watch = new CometWatch({}, { rpc, metrics, log, wait: time.wait });
    await asked;
    await watch[Symbol.asyncDispose]();
  });
});
