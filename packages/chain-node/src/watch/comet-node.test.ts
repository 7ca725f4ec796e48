import assert from "node:assert/strict";
import { EventEmitter, once } from "node:events";
import { join } from "node:path";
import { suite, test } from "node:test";
import { silentLog } from "@turnpike/base";
import { BlockMeter, ChainApp } from "@turnpike/chain";
import { openChainStore } from "@turnpike/chain-store";
import { KeptMetrics, keptLog, ManualTime, scratchFolder } from "@turnpike/testkit/fixtures";
import { sendTx, testMachine } from "../../test/abci/chain.ts";
import { makeHome, startComet, withoutComet } from "../../test/abci/comet.ts";
import { CometRpc } from "../abci/comet-rpc.ts";
import { CometSource } from "../abci/comet-source.ts";
import { startAbciServer } from "../abci/server.ts";
import { CometWatch } from "./comet-watch.ts";
import { StandstillWatch } from "./standstill-watch.ts";

/** A meter that tells when it was told. */
class HeardMeter extends BlockMeter {
  readonly heard = new EventEmitter();

  override committed(): void {
    super.committed();
    this.heard.emit("block");
  }
}

suite("metrics under CometBFT", { skip: withoutComet, timeout: 240_000 }, () => {
  test("what the application sees and what CometBFT says stand together, and its end is reported", async () => {
    await using folder = await scratchFolder();
    makeHome(join(folder.path, "home"));
    const [metrics, { log, lines }] = [new KeptMetrics(), keptLog()];
    const [blocksTime, looksTime] = [new ManualTime(), new ManualTime()];
    const meter = new HeardMeter({ metrics, clock: blocksTime });
    await using store = await openChainStore({ folder: join(folder.path, "store") });
    const application = new ChainApp({ version: "0.1.35" }, { machine: testMachine(), store, log: silentLog, meter });
    const address = `unix://${join(folder.path, "abci.sock")}`;
    await using _server = await startAbciServer({ address }, { application, queries: application, log: silentLog });
    const { running, url } = await startComet(join(folder.path, "home"), address);
    await using comet = running;
    const block = async (): Promise<void> => {
      await once(meter.heard, "block");
    };
    while (application.latestHeightBlocks() < 3n) await block();

    const opts = { rpc: new CometRpc({ url }), metrics, log, wait: looksTime.wait };
    await using watch = new CometWatch({}, opts);
    const pace = { clock: blocksTime, wait: blocksTime.wait };
    await using _standstill = new StandstillWatch(
      { blockIntervalMs: undefined },
      { meter, comet: watch, metrics, log, ...pace },
    );
    await looksTime.idle();
    const samples = ["engine_up", "peers", "validators", "catching_up", "mempool_txs", "mempool_bytes", "halted"];
    assert.deepEqual(metrics.read(...samples), [1, 0, 1, 0, 0, 0, 0]);

    using rpc = new CometRpc({ url });
    const source = new CometSource({ rpc });
    const before = metrics.values.get("txs_total ok") ?? 0;
    assert.equal((await source.submit(sendTx(0n, 10n))).kind, "checked");
    assert.equal((await source.submit(sendTx(9n, 10n))).kind, "checked");
    while ((metrics.values.get("txs_total ok") ?? 0) === before) await block();
    assert.deepEqual(metrics.read("txs_total ok", "txs_total failed"), [before + 1, 0]);
    assert.deepEqual(metrics.read("checks_total new ok", "checks_total new failed"), [1, 1]);
    const height = application.latestHeightBlocks();
    const shown = metrics.read("height", "block_timestamp_seconds");
    const newest = await source.block(height);
    assert.deepEqual(shown, [Number(height), Number(newest?.block.header.timeNs) / 1e9]);
    assert.ok((meter.usualIntervalMs() ?? 0) >= 50, "blocks are made every 100 ms or later");

    comet.process.kill("SIGKILL");
    await once(comet.process, "exit");
    for (let i = 0; i < 3; i++) await looksTime.pass(5000);
    assert.deepEqual(metrics.read("engine_up", "peers"), [0, undefined]);
    await blocksTime.pass(32_000);
    assert.equal(metrics.values.get("halted"), 1);
    assert.deepEqual(
      lines.map(({ level, message }) => [level, message]),
      [
        ["warn", "CometBFT's RPC does not answer"],
        ["warn", "the chain stands still: no block came"],
      ],
    );
    assert.match(String(lines[1]?.fields.lookAt), /CometBFT: it does not answer/);
  });
});
