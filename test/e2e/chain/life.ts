import assert from "node:assert/strict";
import { after, before, suite, test } from "node:test";
import { moduleAddress } from "@turnpike/crypto";
import {
  application,
  auth,
  bank,
  gateway,
  proof,
  service,
  session,
  shared,
  supplier,
  tokenomics,
} from "@turnpike/proto";
import { readClaimRoot, sessionId, sessionPreimage } from "@turnpike/protocol";
import { attribute, BlockFeed } from "../../support/chain/block-feed.ts";
import { party } from "../../support/chain/local-chain.ts";
import { assertMoney, type Money, readMoney } from "../../support/chain/money.ts";
import type { EngineName, TestNode } from "../../support/chain/nodes.ts";
import { PastAnswers, type Question, question } from "../../support/chain/past-answers.ts";
import { assertReplayed, readDecided, reordered, replay, replayElsewhere } from "../../support/chain/replay.ts";
import { ACTORS, newestOf, PENALTY_UPOKT, RELAYS, Scenario, SERVICE, STAKES } from "../../support/chain/scenario.ts";
import { Strangers } from "../../support/chain/strangers.ts";
import { assertBaseServices } from "./base-services.ts";

const POKTROLL = "/pokt-network/poktroll";
const { app, heir, proven, unproven, forged, owner } = ACTORS;

/** What is asked after every block, and again at the end. The first and the last always have an answer. */
const QUESTIONS: readonly Question[] = [
  question("abci", bank.Query.method.totalSupply, {}),
  question("abci", session.Query.method.getSession, { applicationAddress: app.address, serviceId: SERVICE.id }),
  question("abci", application.Query.method.allApplications, {}),
  question("abci", application.Query.method.application, { address: heir.address }),
  question("abci", supplier.Query.method.allSuppliers, {}),
  question("abci", gateway.Query.method.allGateways, {}),
  question("abci", proof.Query.method.allClaims, {}),
  question("abci", proof.Query.method.params, {}),
  question("abci", service.Query.method.relayMiningDifficulty, { serviceId: SERVICE.id }),
  question("abci", bank.Query.method.denomOwners, { denom: "upokt", pagination: { limit: 1_000n } }),
  question("grpc", auth.Query.method.accounts, { pagination: { limit: 1_000n } }),
  question("grpc", supplier.Query.method.supplier, { operatorAddress: proven.address }),
  question("grpc", shared.Query.method.params, {}),
  question("grpc", tokenomics.Query.method.params, {}),
  { kind: "rest", path: `${POKTROLL}/supplier/supplier?service_id=${SERVICE.id}` },
  { kind: "rest", path: `${POKTROLL}/service/service?pagination.count_total=true` },
  { kind: "rest", path: `${POKTROLL}/service/relay_mining_difficulty/unused` },
  { kind: "rest", path: `/cosmos/bank/v1beta1/balances/${proven.address}` },
];

/** What a block changed in balances, by address. */
function changes(earlier: Money, later: Money): Record<string, bigint> {
  const addresses = new Set([...earlier.balances.keys(), ...later.balances.keys()]);
  const all = [...addresses].map((address): [string, bigint] => {
    return [address, (later.balances.get(address) ?? 0n) - (earlier.balances.get(address) ?? 0n)];
  });
  return Object.fromEntries(all.filter(([, change]) => change !== 0n));
}

/** A node whose blocks come by themselves, or as the tests wait for them. */
export interface LifeNode extends TestNode {
  /** Makes blocks for those who wait for something of a feed, and no others; each when `settled` resolves after the one before. */
  drive?(feed: BlockFeed, settled: () => Promise<void>): Promise<void>;
}

/** What {@link testLife} takes. */
export interface LifeOptions {
  readonly engine: EngineName;
  /** A reason not to run it. */
  readonly skip: string | false;
  readonly start: () => Promise<LifeNode>;
}

/** Tests a service's whole life on a chain whose blocks `engine` decides. */
export function testLife({ engine, skip, start: startNode }: LifeOptions): void {
  suite(`a service's whole life, its blocks decided by ${engine}`, { skip }, () => {
    const stack = new AsyncDisposableStack();
    let node: LifeNode;
    let feed: BlockFeed;
    let strangers: Strangers;
    let scenario: Scenario;
    let past: PastAnswers | undefined;

    before(async () => {
      node = stack.use(await startNode());
      feed = stack.use(await BlockFeed.open(node.rpcUrl));
      strangers = stack.use(new Strangers(node, { feed }));
      await node.drive?.(feed, async () => past?.asked());
      scenario = new Scenario({ feed, strangers });
      await feed.reach(1n);
      past = new PastAnswers({ rpcUrl: node.rpcUrl, questions: QUESTIONS }, { feed, strangers });
    });
    after(() => stack.disposeAsync());

    let start = 0n;
    test("a service is added, actors stake and delegate", async () => {
      start = await scenario.settleIn();
      const { service: found } = await strangers.ask(service.Query.method.service, { id: SERVICE.id });
      assert.equal(found?.ownerAddress, owner.address);
      const { application: staked } = await strangers.ask(application.Query.method.application, app);
      assert.deepEqual(staked?.delegateeGatewayAddresses, [ACTORS.gateway.address]);
    });

    test("the session is drawn from the hash of its first block, the same over RPC, gRPC and REST", async () => {
      const drawn = await scenario.relay(start);
      const drawnOf = drawn.suppliers.map(({ operatorAddress }) => operatorAddress);
      assert.deepEqual(drawnOf.sort(), [proven, unproven, forged].map(({ address }) => address).sort());
      const seed = {
        blockHash: (await feed.reach(start)).hash,
        serviceId: SERVICE.id,
        applicationAddress: app.address,
        startHeight: start,
      };
      assert.equal(drawn.sessionId, sessionId(sessionPreimage(seed)));
    });

    test("claims are taken in their window, with the tries' roots", async () => {
      const claimed = await scenario.claim();
      const { claimOpenHeight, claimCloseHeight } = scenario.windows;
      for (const { heightBlocks, events } of claimed) {
        assert.ok(heightBlocks >= claimOpenHeight && heightBlocks <= claimCloseHeight);
        assert.ok(events.some(({ type }) => type === "pocket.proof.EventClaimCreated"));
      }
      const at = newestOf(claimed);
      await feed.reach(at);
      const { claims } = await strangers.askEverywhere(
        proof.Query.method.allClaims,
        { filter: { case: "supplierOperatorAddress", value: proven.address } },
        `${POKTROLL}/proof/claim?supplier_operator_address=${proven.address}`,
        at,
      );
      assert.equal(claims.length, 1);
      const root = readClaimRoot(claims[0]?.rootHash ?? new Uint8Array(0));
      const units = BigInt(RELAYS.proven) * SERVICE.computeUnitsPerRelay;
      assert.deepEqual([root?.count, root?.sum], [BigInt(RELAYS.proven), units]);
    });

    test("a right proof holds, one of a stranger's ring does not", async () => {
      const submitted = await scenario.prove();
      for (const [i, worker] of (["proven", "forged"] as const).entries()) {
        const checked = await scenario.eventOf(
          "pocket.proof.EventProofValidityChecked",
          worker,
          submitted[i]?.heightBlocks ?? 0n,
        );
        const reason = attribute(checked, "failure_reason");
        if (worker === "proven") assert.equal(reason, "");
        else assert.match(reason, /ring/);
      }
    });

    test("settlement pays the proven work and slashes the rest, to the last unit", async () => {
      const height = scenario.windows.settlementHeight;
      const settled = await scenario.eventOf("pocket.tokenomics.EventClaimSettled", "proven", height);
      assert.equal(attribute(settled, "settled_upokt"), "55146upokt");
      assert.equal(attribute(settled, "num_relays"), "13");
      for (const [worker, reason] of [
        ["unproven", "PROOF_MISSING"],
        ["forged", "PROOF_INVALID"],
      ] as const) {
        const expired = await scenario.eventOf("pocket.tokenomics.EventClaimExpired", worker, height);
        assert.equal(attribute(expired, "expiration_reason"), reason);
        const slashed = await scenario.eventOf("pocket.tokenomics.EventSupplierSlashed", worker, height);
        assert.equal(attribute(slashed, "proof_missing_penalty"), `${PENALTY_UPOKT}upokt`);
      }
      const [earlier, later] = [await readMoney(strangers, height - 1n), await readMoney(strangers, height)];
      // 13 relays of 101 units at 42 upokt are 55146 upokt; a tenth of it, rounded up, is minted on top and charged to the
      // application for the DAO. Of both: 70 % the supplier, 5 % the validator, 15 % the service's owner, the rest the DAO.
      assert.deepEqual(changes(earlier, later), {
        [moduleAddress("application")]: -(55_146n + 5_515n),
        [moduleAddress("supplier")]: -2n * PENALTY_UPOKT,
        [ACTORS["proven-owner"].address]: 23_162n + 2_316n,
        [proven.address]: 15_440n + 1_544n,
        [owner.address]: 8_271n + 827n,
        [party("validator").address]: 2_757n + 275n,
        [ACTORS.dao.address]: 5_516n + 553n + 5_515n,
      });
      assert.equal(later.supply - earlier.supply, 5_515n - 2n * PENALTY_UPOKT);
    });

    test("who leaves gets the stake back, what was lost aside, and an application changes hands", async () => {
      const ends = await scenario.leave();
      const back = {
        "proven-owner": STAKES.supplier,
        unproven: STAKES.supplier - PENALTY_UPOKT,
        gateway: STAKES.gateway,
        heir: STAKES.application - 55_146n - 5_515n,
      };
      for (const name of ["proven-owner", "unproven", "gateway", "heir"] as const) {
        const [earlier, later] = await Promise.all([
          readMoney(strangers, ends[name] - 1n),
          readMoney(strangers, ends[name]),
        ]);
        assert.equal(changes(earlier, later)[ACTORS[name].address], back[name], name);
      }
      const { applications } = await strangers.ask(application.Query.method.allApplications, {});
      assert.ok(applications.every(({ address }) => address !== app.address && address !== heir.address));
    });

    test("at every height the supply is all balances, and modules hold the stakes", async () => {
      const { latestHeightBlocks } = await strangers.client.status();
      for (let height = 1n; height <= latestHeightBlocks; height++) {
        await assertMoney(strangers, height, scenario.feesAt(height));
      }
    });

    test("every answer of a past height is what it was when it was the newest", async () => {
      assert.ok(past);
      const { heights, answers } = await past.check();
      if (node.drive === undefined) {
        // Blocks that come by themselves pass unasked where others share the machine.
        assert.ok(answers >= QUESTIONS.length, `${answers} answers`);
      } else {
        assert.ok(heights > 20, `${heights} heights`);
        assert.equal(answers, heights * QUESTIONS.length);
      }
    });

    test("blocks, transactions and the node are answered over abci_query as over gRPC", async () => {
      await assertBaseServices(node.rpcUrl, strangers);
    });

    test("the blocks give the same hashes and results again, in another order of members and another locale", async () => {
      const chain = await readDecided(node.rpcUrl, node.genesis);
      assert.ok(new Set(chain.blocks.map(({ appHash }) => appHash)).size > 40);
      const turned = { ...chain, genesis: reordered(chain.genesis) };
      assert.notEqual(JSON.stringify(turned.genesis), JSON.stringify(chain.genesis));
      const turkish = { LANG: "tr_TR.UTF-8", LC_ALL: "tr_TR.UTF-8", TZ: "Asia/Kathmandu" };
      const [here, elsewhere] = await Promise.all([replay(chain), replayElsewhere(turned, turkish)]);
      assertReplayed(chain, here);
      assert.match(`${elsewhere.locale} ${elsewhere.timeZone}`, /^tr.* Asia\/Kat/);
      assertReplayed(chain, elsewhere);
    });
  });
}
