import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { bytesToHex, hexToBytes } from "@turnpike/base";
import { moduleAddressBytes } from "@turnpike/crypto";
import { createMessage, decodeMessage, shared, supplier, toApiJson } from "@turnpike/proto";
import { readRecordedTx } from "@turnpike/testkit/fixtures";
import { AUTHORITY, blockAt, machine, readRecorded, TestChain } from "../../../test/modules/supplier/suppliers.ts";
import { planted } from "../../../test/planted.ts";
import {
  addSigner,
  assertAsRecorded,
  assertRefusedAsRecorded,
  bytesOfAddress,
  runRecorded,
  type SignerState,
} from "../../../test/recorded-tx.ts";
import type { ChainEvent } from "../../state/context.ts";
import { getAccount, setAccount } from "../auth/accounts.ts";
import { setBalance } from "../bank/balances.ts";
import { getSupplier, setSupplier } from "./state.ts";

const OPERATOR4 = "pokt1xrvgpdwmyakpfqmhq6sx4pc6467r8ue6dkal9g";

/** A supplier as it was before a recorded transaction; its stake is in the module's account. */
function staked(chain: TestChain, init: Parameters<typeof createMessage<typeof shared.SupplierSchema>>[1]): void {
  const ctx = chain.at(1n);
  const found = createMessage(shared.SupplierSchema, init);
  setSupplier(ctx, planted(found));
  setBalance(ctx, moduleAddressBytes("supplier"), { denom: "upokt", amount: BigInt(found.stake?.amount ?? "0") });
}

const config = (operator: string, serviceId: string, rpcType: shared.RPCType, activationHeight: bigint) =>
  createMessage(shared.ServiceConfigUpdateSchema, {
    operatorAddress: operator,
    activationHeight,
    service: {
      serviceId,
      endpoints: [{ url: "http://127.0.0.1:8545", rpcType }],
      revShare: [{ address: operator, revSharePercentage: 100n }],
    },
  });

const OPERATOR1 = "pokt1ujc9uxlulhjtnq84s55d9rm980waynn4rvrsun";
const SUPPLIER1 = {
  ownerAddress: "pokt1zfcz8mjey59hldwwdvu7782cdhf2jj0sx524cp",
  operatorAddress: OPERATOR1,
  stake: { denom: "upokt", amount: "61000000" },
};
const supplier1 = (chain: TestChain): void => staked(chain, SUPPLIER1);
// Without services, which its operator never signed for, the operator may change the owner here (decision 0009).
const servingSupplier1 = (chain: TestChain): void =>
  staked(chain, {
    ...SUPPLIER1,
    serviceConfigHistory: [config(OPERATOR1, "anvil", shared.RPCType.JSON_RPC, 1631n)],
  });

const supplier4 =
  (amount: string, unstakeSessionEndHeight = 0n) =>
  (chain: TestChain): void =>
    staked(chain, {
      ownerAddress: OPERATOR4,
      operatorAddress: OPERATOR4,
      stake: { denom: "upokt", amount },
      unstakeSessionEndHeight,
      serviceConfigHistory: [
        config(OPERATOR4, "anvil", shared.RPCType.JSON_RPC, 1631n),
        ...(amount === "5000000" ? [config(OPERATOR4, "rest", shared.RPCType.REST, 1631n)] : []),
      ],
    });

interface Before extends SignerState {
  readonly has?: (chain: TestChain) => void;
}

const DELIVERED: Record<string, Before> = {
  "supplier-stake-supplier1": {},
  "supplier-stake-supplier2": {},
  "supplier-stake-supplier4": { has: supplier4("2000000") },
  "supplier-unstake-supplier4": { has: supplier4("5000000") },
  "supplier-update-by-operator-services": { has: supplier1 },
  "supplier-update-by-owner": {
    has: (chain) =>
      staked(chain, {
        ownerAddress: "pokt1zfcz8mjey59hldwwdvu7782cdhf2jj0sx524cp",
        operatorAddress: "pokt1ujc9uxlulhjtnq84s55d9rm980waynn4rvrsun",
        stake: { denom: "upokt", amount: "60000000" },
      }),
  },
  "fail-supplier-funds": { balance: 4100n },
  "fail-supplier-low": {},
  "fail-supplier-operator-changes-owner": { has: servingSupplier1 },
  "fail-supplier-third-party": { has: supplier1 },
  "fail-supplier-unstake-twice": { has: supplier4("5000000", 1630n) },
  "fail-supplier-unstake-unauthorized": { has: supplier4("5000000") },
};

const REFUSED = ["fail-supplier-bad-url", "fail-supplier-rpc-type", "fail-supplier-share-duplicate"];

/** A chain on which a supplier pays the fee that was in force. */
function chainBefore(name: string, { has, ...given }: Before) {
  const chain = new TestChain({
    supplier: {
      params: {
        min_stake: { denom: "upokt", amount: "1000000" },
        staking_fee: { denom: "upokt", amount: "1000000" },
      },
    },
  });
  const tx = readRecordedTx(name);
  has?.(chain);
  addSigner(chain.at(1n), tx, given);
  return { chain, tx };
}

suite("recorded transactions of suppliers", () => {
  for (const [name, before] of Object.entries(DELIVERED)) {
    test(`${name}: in a block, the recorded code, text, data and events`, () => {
      const { chain, tx } = chainBefore(name, before);
      const block = blockAt(BigInt(tx.result?.tx_response.height ?? "0"));
      assertAsRecorded(runRecorded(machine, { state: chain.state, block, ctx: chain.at(1n) }, tx, "deliver"), tx);
    });
  }

  for (const name of REFUSED) {
    test(`${name}: by the mempool, the recorded code and text`, () => {
      const { chain, tx } = chainBefore(name, {});
      assertRefusedAsRecorded(
        runRecorded(machine, { state: chain.state, block: blockAt(1615n), ctx: chain.at(1n) }, tx, "check"),
        tx,
      );
    });
  }

  test("params-supplier-staking-fee: what the authority sends inside changes the fee", () => {
    const chain = new TestChain();
    const inner = createMessage(supplier.MsgUpdateParamSchema, {
      authority: AUTHORITY,
      name: "staking_fee",
      asType: { case: "asCoin", value: { denom: "upokt", amount: "1000001" } },
    });
    assert.ok(chain.run(1633n, supplier.MsgUpdateParamSchema, inner).ok);
    assert.deepEqual(chain.ask(1833n, "Params", {}), bodyOf("params"));
  });
});

interface Entry {
  readonly name: string;
  readonly request: { readonly path: string };
  readonly body: Record<string, unknown>;
}

function answers(): ReadonlyMap<string, Entry> {
  return new Map((readRecorded("rest/supplier.json") as Entry[]).map((entry) => [entry.name, entry]));
}

const bodyOf = (name: string): Record<string, unknown> => (answers().get(name) ?? assert.fail()).body;

/** What a recorded path of REST asks, as a gRPC method and its request. */
function asked(path: string): readonly [method: string, request: Record<string, unknown>] {
  const url = new URL(path, "http://127.0.0.1");
  const request: Record<string, unknown> = {};
  const pagination: Record<string, unknown> = {};
  for (const [key, value] of url.searchParams) {
    const typed = value === "true" ? true : value;
    if (key.startsWith("pagination.")) pagination[key.slice("pagination.".length)] = typed;
    else request[key] = typed;
  }
  if (Object.keys(pagination).length > 0) request["pagination"] = pagination;
  const [, operator] = /supplier\/supplier\/(\w+)/.exec(url.pathname) ?? [];
  if (operator !== undefined) return ["Supplier", { ...request, operator_address: operator }];
  return [url.pathname.endsWith("/params") ? "Params" : "AllSuppliers", request];
}

suite("recorded answers about suppliers", () => {
  // The list of the node at height 1833 is the state; everything else must follow from it.
  function chainAsRecorded(): TestChain {
    const { supplier: supplierList } = bodyOf("list");
    const { params } = bodyOf("params");
    return new TestChain({ supplier: { params, supplierList } });
  }

  for (const [name, { request, body }] of answers()) {
    test(`REST ${name}`, () => {
      const [method, json] = asked(request.path);
      assert.deepEqual(chainAsRecorded().ask(1833n, method, json), body);
    });
  }

  test("a page's key goes on where the page ended, by service, too", () => {
    const chain = chainAsRecorded();
    for (const filter of [{}, { service_id: "anvil" }]) {
      const whole = chain.ask(1833n, "AllSuppliers", filter) as { supplier: unknown[] };
      const pages: unknown[] = [];
      let key: string | null = "";
      while (key !== null) {
        const request = { ...filter, pagination: { limit: "1", ...(key === "" ? {} : { key }) } };
        const page = chain.ask(1833n, "AllSuppliers", request) as {
          supplier: unknown[];
          pagination: { next_key: string | null };
        };
        pages.push(...page.supplier);
        key = page.pagination.next_key;
      }
      assert.deepEqual(pages, whole.supplier);
    }
  });

  for (const entry of readRecorded("grpc/supplier.json") as GrpcEntry[]) {
    test(`gRPC ${entry.name}: the recorded bytes or status`, () => {
      const chain = chainOfGrpc();
      const answer = machine.query(
        chain.state,
        blockAt(2191n),
        entry.method,
        hexToBytes(entry.request_hex) ?? assert.fail(),
      );
      if (answer.ok) assert.equal(bytesToHex(answer.value), entry.response_hex);
      else assert.deepEqual([answer.status, answer.text], [entry.status.code, entry.status.message]);
      assert.equal(answer.ok ? 0 : answer.status, entry.status.code);
    });
  }
});

interface GrpcEntry {
  readonly name: string;
  readonly method: string;
  readonly request_hex: string;
  readonly response_hex: string | null;
  readonly status: { readonly code: number; readonly message: string };
}

function chainOfGrpc(): TestChain {
  const entries = readRecorded("grpc/supplier.json") as GrpcEntry[];
  const all = entries.find(({ name }) => name === "all")?.response_hex ?? assert.fail();
  const decoded = decodeMessage(supplier.QueryAllSuppliersResponseSchema, hexToBytes(all) ?? assert.fail());
  assert.ok(decoded.ok);
  const { params } = bodyOf("params");
  const supplierList = decoded.message.supplier.map((one) => toApiJson(shared.SupplierSchema, one));
  return new TestChain({ supplier: { params, supplierList } });
}

suite("the recorded life of two suppliers", () => {
  const run = (chain: TestChain, name: string): void => {
    const tx = readRecordedTx(name);
    const ctx = chain.at(1n);
    const signer = bytesOfAddress(tx.signer.address);
    const known = getAccount(ctx, signer);
    if (known === undefined) addSigner(ctx, tx);
    else setAccount(ctx, signer, { base: { ...known.base, sequence: BigInt(tx.sequence) } });
    const block = blockAt(BigInt(tx.result?.tx_response.height ?? "0"));
    assertAsRecorded(runRecorded(machine, { state: chain.state, block, ctx }, tx, "deliver"), tx);
  };
  const blocks = (chain: TestChain, from: bigint, to: bigint): ChainEvent[] => {
    const events: ChainEvent[] = [];
    for (let height = from; height <= to; height++) events.push(...chain.block(height));
    return events;
  };
  const params = {
    min_stake: { denom: "upokt", amount: "1000000" },
    staking_fee: { denom: "upokt", amount: "1000000" },
  };

  test("supplier1: staked, updated, its old configurations pruned; then as the node has it", () => {
    const chain = new TestChain({ supplier: { params } });
    run(chain, "supplier-stake-supplier1");
    const begun = blocks(chain, 270n, 271n).filter(({ type }) => type.endsWith("ServiceConfigActivated"));
    assert.equal(begun.length, 2);
    blocks(chain, 272n, 290n);
    run1610(chain);
    run(chain, "supplier-update-by-operator-services");
    const operator = "pokt1ujc9uxlulhjtnq84s55d9rm980waynn4rvrsun";
    assert.equal(getSupplier(chain.at(1611n), operator)?.serviceConfigHistory.length, 5);
    // The proof window of the last session that had them ends at 1620 + 15.
    blocks(chain, 1612n, 1635n);
    assert.equal(getSupplier(chain.at(1635n), operator)?.serviceConfigHistory.length, 5);
    blocks(chain, 1636n, 1636n);
    assert.deepEqual(chain.ask(1833n, "Supplier", { operator_address: operator }), bodyOf("owner differs"));
  });

  // The owner's account had the number and key of the recording; only its stake message matters here.
  function run1610(chain: TestChain): void {
    const message = createMessage(supplier.MsgStakeSupplierSchema, {
      signer: "pokt1zfcz8mjey59hldwwdvu7782cdhf2jj0sx524cp",
      ownerAddress: "pokt1zfcz8mjey59hldwwdvu7782cdhf2jj0sx524cp",
      operatorAddress: "pokt1ujc9uxlulhjtnq84s55d9rm980waynn4rvrsun",
      stake: { denom: "upokt", amount: "61000000" },
    });
    const ctx = chain.at(1n);
    setBalance(ctx, bytesOfAddress(message.signer), { denom: "upokt", amount: 5_000_000n });
    assert.ok(chain.run(1610n, supplier.MsgStakeSupplierSchema, message).ok);
  }

  test("supplier4: unstaked at 1625, gone at 1650 with the recorded event and its coins", () => {
    const chain = new TestChain({ supplier: { params } });
    supplier4("5000000")(chain);
    run(chain, "supplier-unstake-supplier4");
    const events = blocks(chain, 1626n, 1650n);
    const recorded = readRecorded("events.json") as Record<string, unknown>;
    const [example] = findExamples(recorded, "pocket.supplier.EventSupplierUnbondingEnd");
    assert.deepEqual(
      events.find(({ type }) => type === "pocket.supplier.EventSupplierUnbondingEnd"),
      example,
    );
    const spent = events.find(({ type }) => type === "coin_spent");
    assert.deepEqual(
      spent?.attributes.map(({ value }) => value),
      ["pokt1j40dzzmn6cn9kxku7a5tjnud6hv37vesr5ccaa", "5000000upokt", "EndBlock"],
    );
    assert.equal(getSupplier(chain.at(1650n), OPERATOR4), undefined);
    chain.assertStakes(0n);
  });

  test("a genesis supplier's configurations begin with the recorded events of block 1", () => {
    const { app_state } = readRecorded("genesis.json") as { app_state: Record<string, unknown> };
    const chain = new TestChain({ supplier: app_state["supplier"] });
    const [example] = findExamples(
      readRecorded("events.json") as Record<string, unknown>,
      "pocket.supplier.EventSupplierServiceConfigActivated",
    );
    const events = chain.block(1n);
    assert.deepEqual(events[0], example);
    assert.deepEqual(
      events.map(({ attributes }) => attributes.find(({ key }) => key === "service_id")?.value),
      ['"anvil"', '"anvilws"', '"rest"'],
    );
  });
});

function findExamples(recorded: Record<string, unknown>, type: string): ChainEvent[] {
  for (const [key, value] of Object.entries(recorded)) {
    if (typeof value !== "object" || value === null) continue;
    if (key === type) return (value as { examples: { event: ChainEvent }[] }).examples.map(({ event }) => event);
    const inner = findExamples(value as Record<string, unknown>, type);
    if (inner.length > 0) return inner;
  }
  return [];
}
