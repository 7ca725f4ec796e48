import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { moduleAddress } from "@turnpike/crypto";
import { type Any, application, authz, createMessage, packAny, service, shared, supplier } from "@turnpike/proto";
import type { SessionHeader } from "@turnpike/protocol";
import { chainParty } from "@turnpike/testkit/chain";
import { serveRig } from "../../test/served-rig.ts";
import { startCounting } from "../../test/serving-rig.ts";
import { PROVE_ALL, SupplierRig } from "../../test/supplier-rig.ts";

const OPERATOR = chainParty("supplier").address;

/** Sends a transaction, which is in the next block. */
async function send(rig: SupplierRig, name: string, message: Any): Promise<void> {
  const { client } = rig.running;
  const sent = await client.broadcast(await client.sign(chainParty(name), [message]));
  assert.equal(sent.code, 0, sent.log);
}

/** Sends a change of a shared parameter, as the network's authority makes them. */
function setParam(rig: SupplierRig, name: string, value: bigint): Promise<void> {
  const update = createMessage(shared.MsgUpdateParamSchema, {
    authority: moduleAddress("gov"),
    name,
    asType: { case: "asUint64", value },
  });
  const exec = createMessage(authz.MsgExecSchema, {
    grantee: chainParty("dao").address,
    msgs: [packAny(shared.MsgUpdateParamSchema, update)],
  });
  return send(rig, "dao", packAny(authz.MsgExecSchema, exec));
}

const setUnits = (rig: SupplierRig, computeUnitsPerRelay: bigint): Promise<void> => {
  const ownerAddress = chainParty("service-owner").address;
  const message = { ownerAddress, service: { id: "eth", name: "eth", computeUnitsPerRelay, ownerAddress } };
  return send(
    rig,
    "service-owner",
    packAny(service.MsgAddServiceSchema, createMessage(service.MsgAddServiceSchema, message)),
  );
};

/** What a session was settled for, and the relays of its claim. */
function paidOf(rig: SupplierRig, header: SessionHeader): readonly [relays: bigint, upokt: bigint] {
  const { outcome, claim } = rig.stateOf(header);
  assert.ok(outcome?.kind === "settled" && claim !== undefined, JSON.stringify(outcome?.kind));
  return [claim.relays, outcome.settledUpokt];
}

suite("changes in the middle of a session", () => {
  test("compute units, prices and lengths that change are for later sessions: relays go on and are paid as begun", async () => {
    await using backEnd = await startCounting();
    await using rig = await SupplierRig.start(PROVE_ALL);
    await using served = await serveRig(rig, backEnd.url);
    const first = await rig.header();
    const serve = async (header: SessionHeader, count: number): Promise<void> => {
      for (let i = 0; i < count; i++) {
        const { status, text } = await served.send(served.sign(header));
        assert.equal(status, 200, text);
      }
    };
    await serve(first, 2);
    await setUnits(rig, 7n);
    await rig.block();
    await setParam(rig, "compute_units_to_tokens_multiplier", 84_000_000n);
    await rig.block();
    await setParam(rig, "num_blocks_per_session", 8n);
    await rig.block();
    await serve(first, 3);
    await rig.reach(7n);
    // Its grace.
    await serve(first, 1);
    const second = await rig.header();
    assert.deepEqual([second.sessionStartBlockHeight, second.sessionEndBlockHeight], [7n, 14n]);
    await serve(second, 4);
    await rig.reach(31n);
    assert.deepEqual(paidOf(rig, first), [6n, 6n * 4_200n]);
    assert.deepEqual(paidOf(rig, second), [4n, 4n * 7n * 84n]);
    assert.deepEqual(served.refused, []);
  });

  test("a gateway that gets the delegation serves from that block on, one that loses it to the session's end; all is paid", async () => {
    await using backEnd = await startCounting();
    await using rig = await SupplierRig.start({ ...PROVE_ALL, gateways: ["gateway", "second"] });
    await using served = await serveRig(rig, backEnd.url);
    const first = await rig.header();
    const statusOf = async (header: SessionHeader, gateways: readonly string[]): Promise<number> =>
      (await served.send(served.sign(header, "{}", { gateways }))).status;
    const appAddress = chainParty("app").address;
    const secondAddress = chainParty("second").address;
    assert.equal(await statusOf(first, ["second"]), 403);
    const delegate = createMessage(application.MsgDelegateToGatewaySchema, {
      appAddress,
      gatewayAddress: secondAddress,
    });
    await send(rig, "app", packAny(application.MsgDelegateToGatewaySchema, delegate));
    await rig.block();
    assert.equal(await statusOf(first, ["second"]), 200);
    assert.equal(await statusOf(first, ["second", "gateway"]), 200);
    const undelegate = createMessage(application.MsgUndelegateFromGatewaySchema, {
      appAddress,
      gatewayAddress: chainParty("gateway").address,
    });
    await send(rig, "app", packAny(application.MsgUndelegateFromGatewaySchema, undelegate));
    await rig.block();
    assert.equal(await statusOf(first, ["gateway"]), 200);
    await rig.reach(7n);
    const second = await rig.header();
    assert.equal(await statusOf(second, ["gateway"]), 403);
    assert.equal(await statusOf(second, ["second"]), 200);
    assert.equal(await statusOf(first, ["gateway"]), 200, "its grace");
    await rig.reach(28n);
    assert.deepEqual(paidOf(rig, first), [4n, 4n * 4_200n]);
    assert.deepEqual(paidOf(rig, second), [1n, 4_200n]);
  });

  test("a supplier that unstakes serves its session to the end and is paid; an application that does, pays", async () => {
    for (const leaving of ["supplier", "app"]) {
      await using backEnd = await startCounting();
      await using rig = await SupplierRig.start(PROVE_ALL);
      await using served = await serveRig(rig, backEnd.url);
      const header = await rig.header();
      assert.equal((await served.send(served.sign(header))).status, 200);
      const message =
        leaving === "app"
          ? packAny(
              application.MsgUnstakeApplicationSchema,
              createMessage(application.MsgUnstakeApplicationSchema, { address: chainParty("app").address }),
            )
          : packAny(
              supplier.MsgUnstakeSupplierSchema,
              createMessage(supplier.MsgUnstakeSupplierSchema, { signer: OPERATOR, operatorAddress: OPERATOR }),
            );
      await send(rig, leaving, message);
      await rig.reach(6n);
      assert.equal((await served.send(served.sign(header))).status, 200);
      await rig.reach(22n);
      assert.deepEqual(paidOf(rig, header), [2n, 8_400n], leaving);
      assert.deepEqual(served.refused, []);
    }
  });
});
