import assert from "node:assert/strict";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite, test } from "node:test";
import { isAppError, silentLog, systemClock } from "@turnpike/base";
import type { RuleSet } from "@turnpike/chain";
import { ChainClient } from "@turnpike/chain-client";
import { loadConfig } from "@turnpike/config";
import { moduleAddress } from "@turnpike/crypto";
import { freePort } from "@turnpike/localnet";
import { authz, createMessage, packAny, upgrade } from "@turnpike/proto";
import { eventually } from "@turnpike/testkit";
import { LATER, LATER_RULES } from "@turnpike/testkit/later-program";
import { type RunningChain, startChain } from "../../../apps/turnpike/src/wiring/chain.ts";
import {
  allowLocalPeers,
  type CometPeers,
  cometNodeId,
  initComet,
  type RunningComet,
  startComet,
  withoutComet,
  writeCometGenesis,
} from "../../support/chain/comet.ts";
import { party, QUICK_PROFILE, quickGenesis } from "../../support/chain/local-chain.ts";

const VALIDATORS = 4;
/** Blocks between the plan and its height: enough for the plan to be in a block before. */
const AHEAD = 12n;

interface Place {
  readonly home: string;
  readonly rpcPort: number;
  readonly p2p: CometPeers;
}

/** One validator: our program, and CometBFT. */
class Validator implements AsyncDisposable {
  readonly app: RunningChain;
  readonly comet: RunningComet;

  constructor(app: RunningChain, comet: RunningComet) {
    this.app = app;
    this.comet = comet;
  }

  /** @param rules of the program; by default those of this version */
  static async start({ home, rpcPort, p2p }: Place, rules?: readonly RuleSet[]): Promise<Validator> {
    const free = { port: 0 };
    const abciAddress = `unix://${join(home, "abci.sock")}`;
    const cometRpcUrl = `http://127.0.0.1:${rpcPort}`;
    const chain = { engine: "cometbft", abciAddress, cometRpcUrl, rest: free, grpc: free } as const;
    const config = loadConfig({ env: {}, overrides: { chain } });
    await using stack = new AsyncDisposableStack();
    const modules = { log: silentLog, ...(rules === undefined ? {} : { rules }) };
    const app = stack.use(await startChain(config, home, modules));
    const validator = new Validator(app, await startComet(home, abciAddress, rpcPort, p2p));
    stack.move();
    return validator;
  }

  async height(): Promise<bigint> {
    const { result } = (await (await fetch(`${this.comet.rpcUrl}/status`)).json()) as {
      result: { sync_info: { latest_block_height: string } };
    };
    return BigInt(result.sync_info.latest_block_height);
  }

  async reach(heightBlocks: bigint): Promise<void> {
    await eventually(`block ${heightBlocks}`, async () => (await this.height()) >= heightBlocks);
  }

  /** App hash that a block's header has: of the state before it. */
  async appHash(heightBlocks: bigint): Promise<string> {
    const { result } = (await (await fetch(`${this.comet.rpcUrl}/block?height=${heightBlocks}`)).json()) as {
      result: { block: { header: { app_hash: string } } };
    };
    return result.block.header.app_hash;
  }

  async rest(path: string): Promise<unknown> {
    return (await fetch(`${this.app.urls.rest ?? ""}${path}`)).json();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.comet[Symbol.asyncDispose]();
    await this.app[Symbol.asyncDispose]();
  }
}

async function places(folder: string): Promise<readonly Place[]> {
  const homes = Array.from({ length: VALIDATORS }, (_, i) => join(folder, `node${i}`));
  const [first, ...more] = homes.map((home) => initComet(home, QUICK_PROFILE.blockIntervalMs));
  assert.ok(first !== undefined);
  const genesis = quickGenesis(first, new Date().toISOString(), more);
  const ports: number[] = [];
  for (const home of homes) {
    writeCometGenesis(home, genesis);
    allowLocalPeers(home);
    ports.push(await freePort());
  }
  const addresses = homes.map((home, i) => `${cometNodeId(home)}@127.0.0.1:${ports[i] ?? 0}`);
  const places: Place[] = [];
  for (const [i, home] of homes.entries()) {
    const peers = addresses.filter((_, at) => at !== i);
    places.push({ home, rpcPort: await freePort(), p2p: { port: ports[i] ?? 0, peers } });
  }
  return places;
}

async function plan(validator: Validator, heightBlocks: bigint): Promise<void> {
  const dao = party("dao");
  const message = createMessage(upgrade.MsgSoftwareUpgradeSchema, {
    authority: moduleAddress("gov"),
    plan: { name: LATER, height: heightBlocks, info: "turnpike 9.9" },
  });
  const exec = createMessage(authz.MsgExecSchema, {
    grantee: dao.address,
    msgs: [packAny(upgrade.MsgSoftwareUpgradeSchema, message)],
  });
  await using client = new ChainClient({ url: validator.comet.rpcUrl }, { clock: systemClock });
  const sent = await client.send(dao, [packAny(authz.MsgExecSchema, exec)], { gasLimit: 300_000n, timeoutMs: 60_000 });
  assert.equal(sent.code, 0, sent.log);
}

suite("validators of two versions over an upgrade's height", { skip: withoutComet, timeout: 240_000 }, () => {
  test("the one without the rules stops before the block, the others go on; with the new program it catches up, with one hash", async () => {
    const folder = await mkdtemp(join(tmpdir(), "turnpike-upgrade-"));
    await using stack = new AsyncDisposableStack();
    stack.defer(() => rm(folder, { recursive: true, force: true }));
    const all = await places(folder);
    const [last, ...others] = all.toReversed();
    assert.ok(last !== undefined);
    const running: Validator[] = [];
    for (const place of others) running.push(stack.use(await Validator.start(place, LATER_RULES)));
    const [first] = running;
    assert.ok(first !== undefined);
    const old = await Validator.start(last);
    const stopping = new AsyncDisposableStack();
    stopping.use(old);
    stack.use(stopping);
    await old.reach(3n);
    const height = (await first.height()) + AHEAD;
    await plan(first, height);
    assert.deepEqual(await old.rest("/cosmos/upgrade/v1beta1/current_plan"), {
      plan: {
        name: LATER,
        time: "0001-01-01T00:00:00Z",
        height: `${height}`,
        info: "turnpike 9.9",
        upgraded_client_state: null,
      },
    });

    await assert.rejects(old.app.failed, (error) => {
      assert.ok(isAppError(error, "CHAIN_UPGRADE"));
      assert.ok(error.message.startsWith(`UPGRADE "${LATER}" NEEDED at height: ${height}: turnpike 9.9`));
      return true;
    });
    assert.deepEqual(JSON.parse(await readFile(join(last.home, "data", "upgrade-info.json"), "utf8")), {
      name: LATER,
      time: "0001-01-01T00:00:00Z",
      height: Number(height),
      info: "turnpike 9.9",
    });
    await stopping.disposeAsync();
    await first.reach(height + 4n);

    // The same program stops at the same block again, and the new one goes on from there.
    await assert.rejects(Validator.start(last), /error on replay: UPGRADE|UPGRADE "dearer-sends" NEEDED/);
    await using renewed = await Validator.start(last, LATER_RULES);
    const caughtUp = (await first.height()) + 3n;
    await Promise.all([renewed, ...running].map((validator) => validator.reach(caughtUp)));
    for (const at of [height, height + 1n, height + 2n, caughtUp]) {
      const hashes = await Promise.all([renewed, ...running].map((validator) => validator.appHash(at)));
      assert.equal(new Set(hashes).size, 1, `app hashes before block ${at}`);
    }
    for (const validator of [renewed, first]) {
      const path = `/cosmos/upgrade/v1beta1/applied_plan/${LATER}`;
      assert.deepEqual(await validator.rest(path), { height: `${height}` });
      assert.deepEqual(await validator.rest("/cosmos/upgrade/v1beta1/current_plan"), { plan: null });
    }
  });
});
