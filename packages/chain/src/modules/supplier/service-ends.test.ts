import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { moduleAddress } from "@turnpike/crypto";
import { createMessage, encodeMessage, shared, supplier } from "@turnpike/proto";
import { planted } from "../../../test/planted.ts";
import { bytesOfAddress, fund } from "../../../test/recorded-tx.ts";
import { LifeChain, type Party, Work } from "../../../test/session-life.ts";
import { Overlay } from "../../state/overlay.ts";
import { upokt } from "../../state/stakes.ts";
import { getBalance } from "../bank/balances.ts";
import { drawSession } from "../session/candidates.ts";
import { MAX_CONFIGS_PER_BLOCK } from "./blocks.ts";
import {
  configsByDeactivation,
  configsByOperator,
  endedHistory,
  endServices,
  getActiveServiceConfigs,
  getSupplier,
  SUPPLIER_MODULE,
  serviceConfigs,
  serviceEnds,
  setDehydratedSupplier,
  setSupplier,
  suppliers,
} from "./state.ts";

const STAKE = 1_000_000n;
const SESSION_END = 12n;

const serviceOf = (address: string, serviceId: string) =>
  createMessage(shared.SupplierServiceConfigSchema, {
    serviceId,
    endpoints: [{ url: "https://a.example", rpcType: shared.RPCType.JSON_RPC }],
    revShare: [{ address, revSharePercentage: 100n }],
  });

function config(operatorAddress: string, serviceId: string, span: { from?: bigint; to?: bigint } = {}) {
  return createMessage(shared.ServiceConfigUpdateSchema, {
    operatorAddress,
    service: serviceOf(operatorAddress, serviceId),
    activationHeight: span.from ?? 1n,
    deactivationHeight: span.to ?? 0n,
  });
}

/** Writes a supplier with configurations that are active, as messages would have made it. */
function plant(chain: LifeChain, { address }: Party, serviceConfigHistory: shared.ServiceConfigUpdate[]): void {
  const record = { operatorAddress: address, ownerAddress: address, stake: upokt(STAKE), serviceConfigHistory };
  fund(chain.ctx, moduleAddress(SUPPLIER_MODULE), STAKE);
  setSupplier(chain.ctx, planted(createMessage(shared.SupplierSchema, record)));
}

const countOf = (entries: Iterable<unknown>): number => [...entries].length;

/** A chain at the block that slashes suppliers of many services, each for a claim without a proof. */
function slashingChain(numSuppliers: number, numServices: number) {
  const chain = new LifeChain();
  const [owner, app] = [chain.addParty("owner"), chain.addParty("app")];
  chain.addService(owner, "s0");
  chain.stakeApplication(app, "s0", 100_000_000n);
  const operators = Array.from({ length: numSuppliers }, (_, i) => chain.addParty(`operator ${i}`));
  for (const operator of operators) {
    plant(
      chain,
      operator,
      Array.from({ length: numServices }, (_, i) => config(operator.address, `s${i}`)),
    );
  }
  chain.runTo(9n);
  const header = chain.header(app, "s0");
  chain.runTo(chain.windowsOf(header).claimOpenHeight);
  for (const operator of operators) assert.ok(chain.claim(new Work(header, operator).invent(1, 100_000n)).ok);
  chain.runTo(chain.windowsOf(header).settlementHeight);
  return { chain, operators };
}

suite("suppliers whose services end without their configurations being written", () => {
  test("attack: slashing suppliers of many services below the minimum writes as much as slashing those of one", () => {
    const changes = [1, 300].map((numServices) => {
      const { chain } = slashingChain(5, numServices);
      const outcome = chain.machine.runBlock(new Overlay(chain.state), chain.block, []);
      const slashed = outcome.events.filter(({ type }) => type === "pocket.tokenomics.EventSupplierSlashed");
      assert.equal(slashed.length, 5);
      return outcome.changes.length;
    });
    assert.equal(changes[0], changes[1]);
  });

  test("a slashed supplier is in no session after this one, and its stake and configurations are gone at its end", () => {
    const { chain, operators } = slashingChain(2, 3);
    chain.runTo(chain.block.heightBlocks + 1n);
    const [first] = operators;
    assert.ok(first);
    const { unstakeSessionEndHeight } = getSupplier(chain.ctx, first.address) ?? assert.fail();
    assert.notEqual(unstakeSessionEndHeight, 0n);
    assert.equal(getActiveServiceConfigs(chain.ctx, "s1", unstakeSessionEndHeight).length, 2);
    assert.equal(getActiveServiceConfigs(chain.ctx, "s1", unstakeSessionEndHeight + 1n).length, 0);
    chain.runTo(unstakeSessionEndHeight + 40n);
    const { ctx } = chain;
    const collections = [suppliers, serviceConfigs, configsByOperator, configsByDeactivation, serviceEnds];
    assert.deepEqual(
      collections.map((collection) => countOf(collection.entries(ctx))),
      [0, 0, 0, 0, 0],
    );
  });

  /** Two chains with the same suppliers, of which three end: by one write, and by writing their configurations. */
  function twins() {
    const chains = ["services", "configurations"].map((written) => {
      const chain = new LifeChain({ seats: 3 });
      const owner = chain.addParty("owner");
      for (const id of ["s0", "s1", "s2"]) chain.addService(owner, id);
      const operators = Array.from({ length: 6 }, (_, i) => chain.addParty(`operator ${i}`));
      for (const [i, { address }] of operators.entries()) {
        plant(chain, operators[i] ?? owner, [
          config(address, "s0", { to: 9n }),
          config(address, "s0", { from: 9n }),
          config(address, "s1", i % 2 === 0 ? { from: 5n, to: SESSION_END + 1n } : {}),
          // It was to begin with the session before which the services end.
          config(address, "s2", { from: SESSION_END + 1n }),
        ]);
      }
      chain.runTo(SESSION_END);
      for (const { address } of operators.slice(0, 3)) {
        const record = getSupplier(chain.ctx, address) ?? assert.fail();
        const changed = { ...record, unstakeSessionEndHeight: SESSION_END };
        if (written === "services") {
          setDehydratedSupplier(chain.ctx, changed);
          endServices(chain.ctx, address, SESSION_END + 1n);
        } else {
          const serviceConfigHistory = endedHistory(record.serviceConfigHistory, SESSION_END + 1n);
          setSupplier(chain.ctx, { ...changed, serviceConfigHistory });
        }
      }
      return { chain, operators };
    });
    const [one, other] = chains;
    assert.ok(one && other);
    return { chains: [one.chain, other.chain] as const, operators: one.operators };
  }

  function listOf(chain: LifeChain, serviceId: string): unknown {
    const request = createMessage(supplier.QueryAllSuppliersRequestSchema, { serviceId });
    const bytes = encodeMessage(supplier.QueryAllSuppliersRequestSchema, request);
    return chain.machine.query(chain.state, chain.block, "/pocket.supplier.Query/AllSuppliers", bytes);
  }

  /** All that readers see of the suppliers. */
  function readings(chain: LifeChain, operators: readonly Party[]): unknown {
    const { ctx } = chain;
    const draws = ["s0", "s1", "s2"].flatMap((serviceId) =>
      [9n, SESSION_END, SESSION_END + 1n, SESSION_END + 5n].map((height) =>
        drawSession(ctx, { serviceId, preimage: Uint8Array.of(Number(height)), height }, 3).map(({ operator }) =>
          Buffer.from(operator).toString(),
        ),
      ),
    );
    return {
      records: operators.map(({ address }) => getSupplier(ctx, address)),
      draws,
      exported: chain.machine.exportGenesis(chain.state, chain.block),
      lists: ["", "s0", "s1", "s2"].map((serviceId) => listOf(chain, serviceId)),
    };
  }

  test("sessions, queries, export, restakes, pruning and stakes are those of configurations that are written", () => {
    const { chains, operators } = twins();
    const [first, second] = operators;
    assert.ok(first && second);
    while (chains[0].block.heightBlocks < SESSION_END + 40n) {
      if (chains[0].block.heightBlocks === SESSION_END + 3n) {
        for (const chain of chains) {
          const stake = (services: shared.SupplierServiceConfig[], { address }: Party) =>
            chain.send(supplier.MsgStakeSupplierSchema, {
              signer: address,
              ownerAddress: address,
              operatorAddress: address,
              services,
            });
          assert.ok(stake([], first).ok);
          assert.ok(stake([serviceOf(second.address, "s1")], second).ok);
        }
      }
      assert.deepEqual(readings(chains[0], operators), readings(chains[1], operators));
      const [events, expected] = chains.map((chain) => chain.endBlock());
      assert.deepEqual(events, expected);
    }
    const [one, other] = chains.map(({ ctx }) => [...serviceConfigs.entries(ctx)]);
    assert.deepEqual(one, other);
    assert.deepEqual([...serviceEnds.entries(chains[0].ctx)], []);
  });

  test("attack: stakes are returned in one block, however many configurations their suppliers have", () => {
    const chain = new LifeChain();
    const operators = Array.from({ length: 3 }, (_, i) => chain.addParty(`operator ${i}`));
    for (const operator of operators) {
      const { address } = operator;
      plant(
        chain,
        operator,
        Array.from({ length: MAX_CONFIGS_PER_BLOCK / 14 }, (_, i) => config(address, `s${i}`)),
      );
      const unstaked = chain.send(supplier.MsgUnstakeSupplierSchema, { signer: address, operatorAddress: address });
      assert.ok(unstaked.ok);
    }
    const before = operators.map(({ address }) => getBalance(chain.ctx, bytesOfAddress(address), "upokt"));
    while (countOf(suppliers.entries(chain.ctx)) === operators.length) chain.endBlock();
    const after = operators.map(({ address }) => getBalance(chain.ctx, bytesOfAddress(address), "upokt"));
    assert.deepEqual(
      after,
      before.map((balance) => balance + STAKE),
    );
    assert.equal(countOf(suppliers.entries(chain.ctx)), 0);
    for (let i = 0; i < 3; i++) chain.endBlock();
    assert.equal(countOf(serviceConfigs.entries(chain.ctx)), 0);
  });
});

suite("restakes in full blocks", () => {
  const BLOCK_GAS = 400_000_000n;

  /** Minimum gas that a configuration costs from its stake to its end, by the shortest ones. */
  function gasToEnd(): bigint {
    const numServices = 100;
    const chain = new LifeChain({ proveAll: false });
    const [owner, operator] = [chain.addParty("owner"), chain.addParty("operator")];
    const ids = Array.from({ length: numServices }, (_, i) => i.toString(36));
    for (const id of ids) chain.addService(owner, id);
    const services = ids.map((serviceId) =>
      createMessage(shared.SupplierServiceConfigSchema, {
        ...serviceOf(operator.address, serviceId),
        endpoints: [
          createMessage(shared.SupplierEndpointSchema, { url: "http://a", rpcType: shared.RPCType.JSON_RPC }),
        ],
      }),
    );
    const { address } = operator;
    const parties = { signer: address, ownerAddress: address, operatorAddress: address };
    const stake = (): bigint => {
      assert.ok(chain.send(supplier.MsgStakeSupplierSchema, { ...parties, stake: upokt(STAKE), services }).ok);
      return chain.lastGas;
    };
    chain.runTo(9n);
    const first = stake();
    chain.runTo(13n);
    const restake = stake();
    chain.runTo(17n);
    assert.ok(chain.send(supplier.MsgUnstakeSupplierSchema, parties).ok);
    const unstake = first + chain.lastGas;
    return (restake < unstake ? restake : unstake) / BigInt(numServices);
  }

  test("attack: a block prunes more configurations than its gas can end, so that ended ones do not pile up", () => {
    assert.ok(gasToEnd() * BigInt(MAX_CONFIGS_PER_BLOCK) > BLOCK_GAS, `${gasToEnd()}`);
  });
});
