import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { moduleAddress } from "@turnpike/crypto";
import { type Any, application, authz, createMessage, packAny, service, shared, supplier } from "@turnpike/proto";
import { rpcAnswer, startEvmUpstream } from "@turnpike/testkit";
import { chainParty, type TestChainOptions } from "@turnpike/testkit/chain";
import { assertPaid, balanceRequest, type Economy, ETH, startEconomy, startRelay } from "./economy-rig.ts";

const OPERATORS = ["changing one", "changing two"] as const;
const CALLS_PER_BLOCK = 2;
const address = (name: string): string => chainParty(name).address;

/** An economy with a relay of its gateway. */
interface Scene extends AsyncDisposable {
  readonly economy: Economy;
  /** Sends a transaction, which is in the next block. */
  send(name: string, message: Any): Promise<void>;
  /** Makes blocks up to a height, with calls of clients after each; what they came to, without repetition. */
  callUntil(heightBlocks: bigint): Promise<readonly string[]>;
  /** Makes blocks until a change of what calls come to, and says at which height that was. */
  callUntilResult(result: string, lastBlocks: bigint): Promise<bigint>;
  /** Holds that each relay that was answered is paid. */
  assertPaid(): Promise<void>;
}

async function startScene(chain: TestChainOptions = {}): Promise<Scene> {
  await using stack = new AsyncDisposableStack();
  const node = stack.use(
    await startEvmUpstream((asked, response) => {
      response.end(rpcAnswer(asked, '"result":"0x5"'));
    }),
  );
  const economy = stack.use(
    await startEconomy({ operators: OPERATORS, backends: { json_rpc: { url: node.url } }, chain }),
  );
  const relay = stack.use(await startRelay(economy));
  const call = async (): Promise<string> => {
    const outcome = await relay.send(balanceRequest());
    return outcome.ok ? "ok" : outcome.code;
  };
  const callInBlock = async (): Promise<readonly string[]> => {
    await economy.step();
    return await Promise.all(Array.from({ length: CALLS_PER_BLOCK }, call));
  };
  const owned = stack.move();
  return {
    economy,
    async send(name, message) {
      const sent = await economy.client.broadcast(await economy.client.sign(chainParty(name), [message]));
      assert.equal(sent.code, 0, sent.log);
    },
    async callUntil(heightBlocks) {
      const results = new Set<string>();
      while (economy.chain.heightBlocks < heightBlocks) for (const one of await callInBlock()) results.add(one);
      return [...results];
    },
    async callUntilResult(result, lastBlocks) {
      while (economy.chain.heightBlocks < lastBlocks) {
        if ((await callInBlock()).every((one) => one === result)) return economy.chain.heightBlocks;
      }
      return assert.fail(`no ${result} until block ${lastBlocks}`);
    },
    assertPaid: () => assertPaid(economy, relay),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/** A change of a shared parameter, as the network's authority makes them. */
function paramChange(name: string, value: bigint): Any {
  const update = createMessage(shared.MsgUpdateParamSchema, {
    authority: moduleAddress("gov"),
    name,
    asType: { case: "asUint64", value },
  });
  const msgs = [packAny(shared.MsgUpdateParamSchema, update)];
  return packAny(authz.MsgExecSchema, createMessage(authz.MsgExecSchema, { grantee: address("dao"), msgs }));
}

function unitsChange(computeUnitsPerRelay: bigint): Any {
  const ownerAddress = address("service-owner");
  const changed = { id: "eth", name: "eth", computeUnitsPerRelay, ownerAddress };
  return packAny(
    service.MsgAddServiceSchema,
    createMessage(service.MsgAddServiceSchema, { ownerAddress, service: changed }),
  );
}

const delegation = (app: string, gateway = "gateway"): Any =>
  packAny(
    application.MsgDelegateToGatewaySchema,
    createMessage(application.MsgDelegateToGatewaySchema, {
      appAddress: address(app),
      gatewayAddress: address(gateway),
    }),
  );

const undelegation = (app: string): Any =>
  packAny(
    application.MsgUndelegateFromGatewaySchema,
    createMessage(application.MsgUndelegateFromGatewaySchema, {
      appAddress: address(app),
      gatewayAddress: address("gateway"),
    }),
  );

// Sessions of six blocks: 1 to 6, 7 to 12, and so on.
suite("changes in the middle of a session, with a gateway in between", () => {
  test("lengths of sessions, prices and compute units change: no client sees it, and all is paid", async () => {
    await using scene = await startScene();
    await scene.callUntil(3n);
    await scene.send("dao", paramChange("compute_units_to_tokens_multiplier", 84_000_000n));
    await scene.send("service-owner", unitsChange(7n));
    assert.deepEqual(await scene.callUntil(8n), ["ok"]);
    await scene.send("dao", paramChange("num_blocks_per_session", 8n));
    assert.deepEqual(await scene.callUntil(32n), ["ok"]);
    await scene.assertPaid();
  });

  test("an application leaves the gateway: it pays to the session's end, calls are 503 from then on, and 200 once it is back", async () => {
    await using scene = await startScene();
    await scene.callUntil(7n);
    await scene.send("app", undelegation("app"));
    assert.deepEqual(await scene.callUntil(12n), ["ok"]);
    assert.equal(await scene.callUntilResult("NO_SUPPLIERS", 14n), 13n);
    assert.deepEqual(await scene.callUntil(20n), ["NO_SUPPLIERS"]);
    await scene.send("app", delegation("app"));
    const heightBlocks = await scene.callUntilResult("ok", 26n);
    assert.ok(heightBlocks <= 21n + 5n, `within five blocks of the delegation, at ${heightBlocks}`);
    assert.deepEqual(await scene.callUntil(30n), ["ok"]);
    await scene.assertPaid();
  });

  test("an application unstakes: it pays to the session's end, calls are 503 from then on", async () => {
    await using scene = await startScene();
    await scene.callUntil(7n);
    await scene.send(
      "app",
      packAny(
        application.MsgUnstakeApplicationSchema,
        createMessage(application.MsgUnstakeApplicationSchema, { address: address("app") }),
      ),
    );
    assert.deepEqual(await scene.callUntil(12n), ["ok"]);
    assert.equal(await scene.callUntilResult("NO_SUPPLIERS", 14n), 13n);
    assert.deepEqual(await scene.callUntil(18n), ["NO_SUPPLIERS"]);
    await scene.assertPaid();
  });

  test("an application is transferred: it pays to the session's end, calls are 503 until the chain has moved its stake and its new key delegates, and the new one pays", async () => {
    await using scene = await startScene({ accounts: ["heir"] });
    await scene.callUntil(7n);
    await scene.send(
      "app",
      packAny(
        application.MsgTransferApplicationSchema,
        createMessage(application.MsgTransferApplicationSchema, {
          sourceAddress: address("app"),
          destinationAddress: address("heir"),
        }),
      ),
    );
    assert.deepEqual(await scene.callUntil(12n), ["ok"]);
    // The chain has no session of an application whose transfer is pending: to the session end after its last settlement.
    const movedAt = 30n;
    assert.deepEqual(await scene.callUntil(movedAt + 3n), ["NO_SUPPLIERS"], "no gateway is moved with it");
    await scene.send("heir", delegation("heir"));
    const heightBlocks = await scene.callUntilResult("ok", movedAt + 9n);
    assert.ok(heightBlocks <= movedAt + 8n, `within five blocks of its delegation, at ${heightBlocks}`);
    assert.deepEqual(await scene.callUntil(heightBlocks + 7n), ["ok"]);
    const sessions = scene.economy.source.sessionsOf(ETH);
    assert.deepEqual(
      sessions.map(({ applicationAddress }) => applicationAddress),
      [address("heir")],
    );
    await scene.assertPaid();
  });

  test("a supplier unstakes, and then the other one: calls go to who is left, and are 503 without any", async () => {
    await using scene = await startScene();
    await scene.callUntil(7n);
    const unstake = (name: string): Promise<void> =>
      scene.send(
        name,
        packAny(
          supplier.MsgUnstakeSupplierSchema,
          createMessage(supplier.MsgUnstakeSupplierSchema, { signer: address(name), operatorAddress: address(name) }),
        ),
      );
    await unstake(OPERATORS[0]);
    assert.deepEqual(await scene.callUntil(18n), ["ok"]);
    const [session] = scene.economy.source.sessionsOf(ETH);
    assert.deepEqual(
      session?.suppliers.map(({ operatorAddress }) => operatorAddress),
      [address(OPERATORS[1])],
    );
    await unstake(OPERATORS[1]);
    assert.deepEqual(await scene.callUntil(24n), ["ok"]);
    assert.equal(await scene.callUntilResult("NO_SUPPLIERS", 26n), 25n);
    await scene.assertPaid();
  });

  test("a stake runs down: the application pays what it can, then another one does, and no client sees it", async () => {
    await using scene = await startScene({
      // A relay costs 4,200 upokt of the service's 100 units.
      applications: {
        poor: { service: "eth", gateways: ["gateway"], stakeUpokt: 100_000n },
        rich: { service: "eth", gateways: ["gateway"] },
      },
    });
    assert.deepEqual(await scene.callUntil(40n), ["ok"]);
    assert.ok((scene.economy.counted.get("over_limit") ?? 0n) > 0n, "its suppliers refused what it could not pay");
    const poor = await scene.economy.queries.application(address("poor"), { fresh: true });
    assert.ok(!poor.ok || poor.value.unstakeSessionEndHeight > 0n, "the chain unstaked it");
    await scene.assertPaid();
  });
});
