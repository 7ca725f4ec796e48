import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { AppError } from "@turnpike/base";
import type { SessionHeader } from "@turnpike/protocol";
import type { TestChainOptions } from "@turnpike/testkit/chain";
import { SupplierRig } from "../../test/supplier-rig.ts";

const NO_PROOFS = {
  params: {
    proof: { proof_request_probability: 0, proof_requirement_threshold: { denom: "upokt", amount: "1000000000" } },
  },
};

/** A supplier whose rewards go to so many receivers. */
function receiving(receivers: number): Pick<TestChainOptions, "suppliers"> {
  const names = Array.from({ length: receivers }, (_, i) => `receiver ${i}`);
  const shares = Object.fromEntries(names.map((name, i) => [name, i === 0 ? BigInt(101 - receivers) : 1n]));
  return { suppliers: { supplier: { services: ["eth"], shares } } };
}

const appNames = (count: number): string[] => Array.from({ length: count }, (_, i) => `app${i}`);

function applications(count: number): Pick<TestChainOptions, "applications"> {
  const each = appNames(count).map((name) => [name, { service: "eth", gateways: ["gateway"] }] as const);
  return { applications: Object.fromEntries(each) };
}

async function served(rig: SupplierRig, count: number): Promise<SessionHeader[]> {
  const headers: SessionHeader[] = [];
  for (const name of appNames(count)) headers.push(await rig.serve(1, name));
  return headers;
}

function assertSettled(rig: SupplierRig, headers: readonly SessionHeader[]): void {
  const outcomes = headers.map((header) => rig.stateOf(header).outcome);
  assert.deepEqual(
    outcomes.map((outcome) => (outcome?.kind === "lost" ? outcome.why : outcome?.kind)),
    headers.map(() => "settled"),
  );
}

suite("gas of claims of a supplier with many receivers", () => {
  // Simulated, a claim with 40 receivers takes about a million.
  for (const [maxBlockGas, count, text] of [
    [5_000_000n, 4, "below the adjusted gas of all claims"],
    [1_250_000n, 3, "below the adjusted gas of one claim"],
  ] as const) {
    test(`claims are in their window where the maximum gas of a block is ${text}`, async () => {
      const options = { ...NO_PROOFS, ...receiving(40), ...applications(count), maxBlockGas };
      await using rig = await SupplierRig.start(options);
      const headers = await served(rig, count);
      await rig.reach(22n);
      assertSettled(rig, headers);
    });
  }

  test("claims are in a window of one block, for which they cannot be simulated", async () => {
    const shared = { claimWindowCloseOffsetBlocks: 0n };
    await using rig = await SupplierRig.start({ ...NO_PROOFS, ...receiving(100), ...applications(2), shared });
    const headers = await served(rig, 2);
    await rig.reach(22n);
    assertSettled(rig, headers);
  });

  test("claims are in parts where a node does not say the maximum gas of a block, and refuses all of them together", async () => {
    const options = { ...NO_PROOFS, ...receiving(40), ...applications(4), maxBlockGas: 5_000_000n };
    await using rig = await SupplierRig.start(options);
    const headers = await served(rig, 4);
    const { client } = rig.running;
    client.maxBlockGas = () => Promise.reject(new AppError("CHAIN_UNREACHABLE"));
    await rig.reach(22n);
    assertSettled(rig, headers);
  });

  test("claims are in parts where a node refuses the bytes of all of them together", async () => {
    await using rig = await SupplierRig.start({ ...NO_PROOFS, ...applications(4) });
    const headers = await served(rig, 4);
    const { client } = rig.running;
    const broadcast = client.broadcast.bind(client);
    const refused: number[] = [];
    client.broadcast = async (bytes, ...parameters) => {
      if (bytes.length <= 800) return broadcast(bytes, ...parameters);
      refused.push(bytes.length);
      throw new AppError("TX_FAILED", { message: `Tx too large. Max size is 800, but got ${bytes.length}` });
    };
    await rig.reach(22n);
    assert.ok(refused.length > 0);
    assertSettled(rig, headers);
  });

  for (const request of ["simulation", "broadcast"] as const) {
    test(`claims are not tried one by one where a node refuses transactions of any size by ${request}`, async () => {
      const count = 32;
      await using rig = await SupplierRig.start({ ...NO_PROOFS, ...applications(count) });
      await served(rig, count);
      const { client } = rig.running;
      const message = "insufficient funds";
      let requests = 0;
      if (request === "simulation") {
        client.simulate = () => {
          requests++;
          return Promise.reject(new AppError("TX_FAILED", { message, detail: { code: 18, codespace: "sdk" } }));
        };
      }
      client.broadcast = () => {
        requests++;
        return Promise.resolve({ hash: "AA", code: 5, codespace: "sdk", log: message });
      };
      const perBlock: number[] = [];
      while (rig.chain.heightBlocks < 10n) {
        const before = requests;
        await rig.block();
        perBlock.push(requests - before);
      }
      assert.ok(requests > 0);
      assert.ok(Math.max(...perBlock) <= 16, perBlock.join());
    });
  }

  test("claims that are refused keep the others of their transaction out of no block", async () => {
    const count = 12;
    await using rig = await SupplierRig.start({ ...NO_PROOFS, ...applications(count) });
    const headers = await served(rig, count);
    const { client } = rig.running;
    const broadcast = client.broadcast.bind(client);
    const isRefused = (i: number): boolean => i < 2 || i === 7;
    const ids = headers.filter((_, i) => isRefused(i)).map(({ sessionId }) => sessionId);
    client.broadcast = async (bytes, ...parameters) => {
      const text = Buffer.from(bytes).toString("latin1");
      if (!ids.some((id) => text.includes(id))) return broadcast(bytes, ...parameters);
      return { hash: "AA", code: 18, codespace: "sdk", log: "invalid request" };
    };
    await rig.reach(22n);
    assertSettled(
      rig,
      headers.filter((_, i) => !isRefused(i)),
    );
  });

  test("a claim that is worth less than its fee for many receivers is left out, where the operator wants that", async () => {
    const claims = { skipUnprofitableClaims: true, feeFor: (gas: bigint) => [{ denom: "upokt", amount: gas / 500n }] };
    const ended: (string | undefined)[] = [];
    for (const receivers of [10, 100]) {
      const options = { ...NO_PROOFS, ...receiving(receivers), ...applications(1) };
      await using rig = await SupplierRig.start(options, { claims });
      const [header = assert.fail()] = await served(rig, 1);
      await rig.reach(22n);
      const { outcome } = rig.stateOf(header);
      ended.push(outcome?.kind === "lost" ? outcome.why : outcome?.kind);
    }
    assert.deepEqual(ended, ["settled", "unprofitable"]);
  });
});
