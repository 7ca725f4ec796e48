import assert from "node:assert/strict";
import { suite, test } from "node:test";
import type { PocketQueries } from "@turnpike/chain-client";
import { application, base, createMessage, session, shared } from "@turnpike/proto";
import type { SessionHeader } from "@turnpike/protocol";
import { BudgetReader, type BudgetSubject, type OpenBudget, type SessionWork } from "./budget-reader.ts";
import { SessionBudget } from "./session-budget.ts";

const [APP, OPERATOR, OTHER] = ["pokt1app", "pokt1supplier", "pokt1other"];

/** Sessions of ten blocks, one of which may be unsettled. A relay is 1 upokt. */
const PARAMS = createMessage(shared.ParamsSchema, {
  numBlocksPerSession: 10n,
  gracePeriodEndOffsetBlocks: 1n,
  claimWindowOpenOffsetBlocks: 1n,
  claimWindowCloseOffsetBlocks: 3n,
  proofWindowOpenOffsetBlocks: 1n,
  proofWindowCloseOffsetBlocks: 4n,
  computeUnitsToTokensMultiplier: 1n,
  computeUnitCostGranularity: 1n,
});

function headerAt(number: bigint, serviceId = "eth"): SessionHeader {
  const start = 1n + 10n * number;
  return {
    applicationAddress: APP,
    serviceId,
    sessionId: `${serviceId} ${number}`,
    sessionStartBlockHeight: start,
    sessionEndBlockHeight: start + 9n,
  };
}

type Span = readonly [serviceId: string, from: bigint, to: bigint];

/** The application and its services, with the heights at which they hold. */
function appOf(today: readonly string[], spans: readonly Span[] = [], amount = "1000"): application.Application {
  return createMessage(application.ApplicationSchema, {
    address: APP,
    stake: createMessage(base.CoinSchema, { denom: "upokt", amount }),
    serviceConfigs: today.map((serviceId) => createMessage(shared.ApplicationServiceConfigSchema, { serviceId })),
    serviceConfigHistory: spans.map(([serviceId, activationHeight, deactivationHeight]) =>
      createMessage(application.ApplicationServiceConfigUpdateSchema, {
        applicationAddress: APP,
        service: createMessage(shared.ApplicationServiceConfigSchema, { serviceId }),
        activationHeight,
        deactivationHeight,
      }),
    ),
  });
}

interface World {
  readonly heightBlocks: bigint;
  readonly record?: application.Application;
  readonly number?: bigint;
  readonly paramsAt?: (heightBlocks: bigint) => shared.Params;
  /** Suppliers of the sessions of a service; there is no session where they are absent. */
  readonly suppliersOf?: Readonly<Record<string, readonly string[]>>;
  readonly work?: readonly SessionWork[];
  readonly open?: readonly OpenBudget[];
  readonly unsettledPercent?: number;
}

/** Reads limits of sessions of `eth` whose only supplier is {@link OPERATOR}, one after the other. */
function startReader(unsettledPercent = 0) {
  let world: World = { heightBlocks: 0n };
  const record = (): application.Application => world.record ?? appOf(["eth"]);
  const paramsAt = (heightBlocks: bigint): shared.Params => world.paramsAt?.(heightBlocks) ?? PARAMS;
  const queries = {
    computeUnitsAt: async () => ({ ok: true, value: 1n }),
    sharedParamsAt: async (heightBlocks: bigint) => ({ ok: true, value: paramsAt(heightBlocks) }),
    applicationState: async () => ({
      ok: true,
      value: { application: record(), heightBlocks: world.heightBlocks },
    }),
    session: async (_: string, serviceId: string) => {
      const operators = (world.suppliersOf ?? { eth: [OPERATOR] })[serviceId];
      if (operators === undefined) return { ok: false, fault: "refused", text: "there is no session" };
      const suppliers = operators.map((operatorAddress) => createMessage(shared.SupplierSchema, { operatorAddress }));
      return { ok: true, value: createMessage(session.SessionSchema, { suppliers }) };
    },
  } as unknown as PocketQueries;
  const reader = new BudgetReader(
    { inflationMillionths: 0n, unsettledPercent },
    { queries, workOf: async () => world.work ?? [] },
  );
  return async (next: World) => {
    world = next;
    const header = headerAt(next.number ?? 1n);
    const params = paramsAt(header.sessionStartBlockHeight);
    const subject: BudgetSubject = { operatorAddress: OPERATOR, header, application: record(), suppliers: 1, params };
    const limit = await reader.limit(subject, next.open ?? []);
    assert.ok(limit.ok, limit.ok ? "" : limit.text);
    return limit.value;
  };
}

/** Limit that a new reader reads. */
const limitOf = (world: World) => startReader(world.unsettledPercent)(world);

suite("the limit of a session's relays", () => {
  test("is the whole part without earlier sessions, and where no other supplier could claim of them", async () => {
    assert.deepEqual(await limitOf({ number: 0n, heightBlocks: 1n }), { relays: 1_000n, isFinal: true });
    assert.deepEqual(await limitOf({ heightBlocks: 11n }), { relays: 1_000n, isFinal: false });
    assert.deepEqual(await limitOf({ heightBlocks: 11n, suppliersOf: {} }), { relays: 1_000n, isFinal: false });
    assert.deepEqual(await limitOf({ heightBlocks: 11n, suppliersOf: { eth: [OTHER] } }), {
      relays: 0n,
      isFinal: false,
    });
    assert.deepEqual(await limitOf({ heightBlocks: 20n, suppliersOf: { eth: [OTHER] } }), {
      relays: 1_000n,
      isFinal: true,
    });
  });

  test("counts own work by what is served or claimed, and an open budget whole, also before its first relay", async () => {
    const header = headerAt(0n);
    const work = { header, relays: 100n, claimedUpokt: undefined };
    assert.equal((await limitOf({ heightBlocks: 11n, work: [work] })).relays, 900n);
    assert.equal((await limitOf({ heightBlocks: 11n, work: [{ ...work, claimedUpokt: 30n }] })).relays, 970n);
    const budget = new SessionBudget();
    budget.raise(400n);
    const open = [{ header, budget }];
    assert.equal((await limitOf({ heightBlocks: 11n, open })).relays, 600n);
    assert.equal((await limitOf({ heightBlocks: 11n, open, work: [work] })).relays, 600n);
  });

  test("attack: a session is read after a restart although the next one was served already: no more relays", async () => {
    const work = [{ header: headerAt(1n), relays: 1n, claimedUpokt: undefined }];
    assert.deepEqual(await limitOf({ number: 0n, heightBlocks: 11n, work }), { relays: 0n, isFinal: true });
  });

  test("attack: an application uses up its stake at the supplier of a service that it had before", async () => {
    const record = appOf(
      ["eth"],
      [
        ["other", 1n, 11n],
        ["eth", 11n, 0n],
      ],
    );
    const world = { heightBlocks: 11n, record };
    assert.equal((await limitOf({ ...world, suppliersOf: { other: [OTHER], eth: [OPERATOR] } })).relays, 0n);
    assert.equal((await limitOf({ ...world, suppliersOf: { other: [OTHER] }, unsettledPercent: 10 })).relays, 100n);
    assert.equal((await limitOf({ ...world, suppliersOf: { other: [OPERATOR] } })).relays, 1_000n);
  });

  test("attack: an application leaves one of its services within the session: the part is still that of its start", async () => {
    const record = appOf(
      ["eth"],
      [
        ["eth", 1n, 11n],
        ["other", 1n, 11n],
        ["eth", 11n, 0n],
      ],
    );
    assert.equal((await limitOf({ number: 0n, heightBlocks: 1n, record })).relays, 500n);
  });

  test("counts sessions that wait for an earlier one, since the windows were shortened", async () => {
    const long = createMessage(shared.ParamsSchema, { ...PARAMS, proofWindowCloseOffsetBlocks: 24n });
    const paramsAt = (heightBlocks: bigint) => (heightBlocks <= 10n ? long : PARAMS);
    const read = startReader();
    const world = { paramsAt, suppliersOf: { eth: [OTHER] } };
    assert.equal((await read({ ...world, number: 1n, heightBlocks: 11n })).relays, 667n);
    // The session before 11 is settled at 40, and the next one, which may take all that remains, not before it.
    assert.deepEqual(await read({ ...world, number: 2n, heightBlocks: 30n }), { relays: 0n, isFinal: false });
    assert.deepEqual(await read({ ...world, number: 2n, heightBlocks: 40n }), { relays: 1_000n, isFinal: true });
  });

  test("is not sure of anything where more ends are unsettled than it counts", async () => {
    const endless = createMessage(shared.ParamsSchema, { ...PARAMS, proofWindowCloseOffsetBlocks: 10_000n });
    const record = appOf(["eth"], [], "1001000");
    const world = { paramsAt: () => endless, record };
    assert.equal((await limitOf({ ...world, heightBlocks: 601n, number: 60n })).relays, 1_000n);
    assert.equal((await limitOf({ ...world, heightBlocks: 2_001n, number: 200n })).relays, 0n);
  });
});
