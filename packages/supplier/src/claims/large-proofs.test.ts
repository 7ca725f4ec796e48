import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { AppError } from "@turnpike/base";
import type { SessionHeader } from "@turnpike/protocol";
import { chainParty } from "@turnpike/testkit/chain";
import { makeRelay } from "../../test/relays.ts";
import { PROVE_ALL, SupplierRig } from "../../test/supplier-rig.ts";

/** A supplier with a session of each application, with relays of so many bytes. */
async function served(relayBytes: readonly number[]): Promise<{
  readonly rig: SupplierRig;
  readonly headers: readonly SessionHeader[];
}> {
  const names = relayBytes.map((_, i) => `app${i}`);
  const applications = Object.fromEntries(names.map((name) => [name, { service: "eth", gateways: ["gateway"] }]));
  await using stack = new AsyncDisposableStack();
  const rig = stack.use(await SupplierRig.start({ ...PROVE_ALL, applications }));
  const { store, operator } = rig.running;
  const [gateways, supplier] = [[chainParty("gateway")], chainParty("supplier")];
  const headers: SessionHeader[] = [];
  for (const [i, name] of names.entries()) {
    const header = await rig.header(name);
    headers.push(header);
    for (let relay = 0; relay < 2; relay++) {
      const payload = `${relay} ${"x".repeat(relayBytes[i] ?? 0)}`;
      const bytes = makeRelay({ header, application: chainParty(name), gateways, supplier }, payload);
      assert.equal(await store.append({ operatorAddress: operator, header, relay: bytes }), "mined");
    }
  }
  stack.move();
  return { rig, headers };
}

function outcomesOf(rig: SupplierRig, headers: readonly SessionHeader[]): (string | undefined)[] {
  return headers.map((header) => {
    const { outcome } = rig.stateOf(header);
    return outcome?.kind === "lost" ? outcome.why : outcome?.kind;
  });
}

/** Makes the node one whose RPC, or a proxy before it, reads bodies of so many bytes. */
function readingBodies(rig: SupplierRig, maxBytes: number, refusal: () => AppError): void {
  const { client } = rig.running;
  const [simulate, broadcast] = [client.simulate.bind(client), client.broadcast.bind(client)];
  client.simulate = (tx, signal) => {
    if (tx.length * 2 > maxBytes) return Promise.reject(refusal());
    return simulate(tx, signal);
  };
  client.broadcast = (tx, signal) => {
    if ((tx.length * 4) / 3 > maxBytes) return Promise.reject(refusal());
    return broadcast(tx, signal);
  };
}

const tooLong = (): AppError =>
  new AppError("CHAIN_UNREACHABLE", { message: "The node answers 413.", detail: { status: 413 } });

const connectionLost = (): AppError => new AppError("CHAIN_UNREACHABLE");

suite("attack: large proofs", () => {
  test("the proofs of an operator are settled although a node's RPC does not read them together", async () => {
    const { rig, headers } = await served(Array.from({ length: 6 }, () => 100_000));
    await using _ = rig;
    await rig.reach(22n);
    assert.deepEqual(
      outcomesOf(rig, headers),
      headers.map(() => "settled"),
    );
  });

  test("a proof that is too long for a simulation is sent without one", async () => {
    const { rig, headers } = await served([700_000, 10, 700_000]);
    await using _ = rig;
    await rig.reach(22n);
    assert.deepEqual(outcomesOf(rig, headers), ["settled", "settled", "settled"]);
  });

  test("a proof that cannot be sent costs its own session alone, behind a proxy that reads 300,000 bytes", async () => {
    const { rig, headers } = await served([100_000, 250_000, 100_000, 200_000, 10]);
    await using _ = rig;
    readingBodies(rig, 300_000, tooLong);
    await rig.reach(22n);
    assert.deepEqual(outcomesOf(rig, headers), ["settled", "proof-missing", "settled", "settled", "settled"]);
  });

  test("proofs are sent in parts where a node ends the connection on which it receives them together", async () => {
    const { rig, headers } = await served([100_000, 100_000, 100_000, 100_000]);
    await using _ = rig;
    readingBodies(rig, 300_000, connectionLost);
    await rig.reach(22n);
    assert.deepEqual(
      outcomesOf(rig, headers),
      headers.map(() => "settled"),
    );
  });

  test("large proofs for which a node ends the connection cost their own sessions alone", async () => {
    const { rig, headers } = await served([250_000, 250_000, 250_000, 250_000, 10, 10, 10]);
    await using _ = rig;
    readingBodies(rig, 300_000, connectionLost);
    await rig.reach(22n);
    const large = Array.from({ length: 4 }, () => "proof-missing");
    assert.deepEqual(outcomesOf(rig, headers), [...large, "settled", "settled", "settled"]);
  });

  test("a small proof whose first connections were lost is not held back by large ones under way", async () => {
    const { rig, headers } = await served([250_000, 250_000, 250_000, 250_000, 10]);
    await using _ = rig;
    // The claims are on the chain by then.
    await rig.reach(14n);
    const { client } = rig.running;
    const simulate = client.simulate.bind(client);
    let failures = 0;
    client.simulate = (tx, signal) => {
      if (tx.length > 100_000 || failures >= 2) return simulate(tx, signal);
      failures++;
      return Promise.reject(connectionLost());
    };
    readingBodies(rig, 300_000, connectionLost);
    await rig.reach(22n);
    assert.equal(failures, 2);
    assert.equal(outcomesOf(rig, headers).at(-1), "settled");
  });

  test("a node that ends the connection for long transactions is not tried with long ones after each short one", async () => {
    const { rig, headers } = await served(Array.from({ length: 12 }, () => 40_000));
    await using _ = rig;
    let lostConnections = 0;
    readingBodies(rig, 200_000, () => {
      lostConnections++;
      return connectionLost();
    });
    await rig.reach(22n);
    assert.deepEqual(
      outcomesOf(rig, headers),
      headers.map(() => "settled"),
    );
    assert.ok(lostConnections <= 4, `${lostConnections} connections were lost`);
  });
});
