import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test } from "node:test";
import { isDeepStrictEqual } from "node:util";
import { type Address, silentLog } from "@turnpike/base";
import { eventually, virtualClock } from "@turnpike/testkit";
import {
  ASSET,
  type FacilitatorBend,
  failing,
  MERCHANTS,
  NETWORK,
  newNonce,
  newPayer,
  openFacilitator,
  postTo,
  type Reply,
  type Sender,
  settleBody,
} from "../../test/facilitator-fixtures.ts";
import { testLedger } from "../../test/ledger-fixtures.ts";
import { createFacilitatorServer } from "./server.ts";

const ledger = testLedger({ poolSize: 8 });

const RULE = { burst: 20, perSecond: 1 };

async function open(bend: FacilitatorBend = {}, trustedProxies: readonly string[] = []) {
  const clock = virtualClock();
  const bench = openFacilitator(ledger(), { clock, ...bend });
  const { facilitator } = bench;
  const opts = { host: "127.0.0.1", port: 0, trustedProxies, maxBodyBytes: 65_536, maxConcurrentRequests: 256 };
  const listening = await createFacilitatorServer(opts, { facilitator, log: silentLog });
  const post = (path: "verify" | "settle", body: string, sender: Sender = {}): Promise<Reply> =>
    postTo(listening.url, path, body, sender);
  return { clock, bench, post, [Symbol.asyncDispose]: () => listening[Symbol.asyncDispose]() };
}

const fresh = (from: Address = newPayer()): string => settleBody(from, newNonce(), MERCHANTS[0]);

async function each<T>(count: number, work: () => Promise<T>): Promise<T[]> {
  const all: T[] = [];
  for (let at = 0; at < count; at++) all.push(await work());
  return all;
}

const LIMITED = { status: 429, said: "PAYMENT_RATE_LIMITED", retryAfter: "1", transaction: undefined };

test("attack: settlements that do not pay are refused after the burst, for that client alone, and come back by time", async () => {
  await using to = await open({ unpaidPerClient: () => RULE });
  let settlements = 0;
  to.bench.settler.instead = () => {
    settlements++;
    return failing("PAYMENT_SIMULATION_FAILED")();
  };
  const failed = await each(20, () => to.post("settle", fresh()));
  assert.ok(failed.every(({ status }) => status === 200));
  assert.deepEqual(await each(3, () => to.post("settle", fresh())), [LIMITED, LIMITED, LIMITED]);
  assert.deepEqual(await to.post("verify", fresh()), LIMITED);
  assert.equal(settlements, 20, "nothing of them was begun");
  to.bench.settler.instead = undefined;
  assert.equal((await to.post("settle", fresh(), { localAddress: "127.0.0.2" })).said, "good");
  to.clock.advance(1_000);
  assert.equal((await to.post("settle", fresh())).said, "good");
});

test("attack: verifications count, also good ones until they are settled, and so do requests that are none", async () => {
  await using to = await open({ unpaidPerClient: () => RULE });
  const sales = await each(50, async () => {
    const body = fresh();
    return [await to.post("verify", body), await to.post("settle", body)];
  });
  assert.ok(sales.flat().every(({ said }) => said === "good"));
  for (const { said } of await each(50, () => to.post("verify", fresh())))
    assert.equal(said, "good", "as many as it earned");
  to.bench.refusal = { ok: false, code: "PAYMENT_INSUFFICIENT_FUNDS" };
  await each(10, () => to.post("verify", fresh()));
  assert.ok((await each(10, () => to.post("settle", "{}"))).every(({ status }) => status === 400));
  assert.deepEqual(await to.post("verify", fresh()), LIMITED);
});

test("attack: one payer whose payments fail is refused at every client, and no other payer is", async () => {
  await using to = await open({ unpaidPerPayer: () => ({ burst: 3, perSecond: 1 }) });
  to.bench.settler.instead = failing("PAYMENT_SIMULATION_FAILED");
  const attacker = newPayer();
  for (const localAddress of ["127.0.0.2", "127.0.0.3", "127.0.0.4"]) {
    assert.equal((await to.post("settle", fresh(attacker), { localAddress })).status, 200);
  }
  assert.deepEqual(await to.post("settle", fresh(attacker)), LIMITED);
  assert.deepEqual(await to.post("verify", fresh(attacker)), LIMITED);
  to.bench.settler.instead = undefined;
  assert.equal((await to.post("settle", fresh())).said, "good");
  to.clock.advance(1_000);
  assert.equal((await to.post("settle", fresh(attacker))).said, "good", "its next token is there");
});

test("what we are the cause of does not count, and who pays earns as many failures", async () => {
  await using to = await open({ unpaidPerClient: () => RULE });
  to.bench.settler.instead = failing("SETTLEMENT_UNAVAILABLE");
  assert.ok((await each(30, () => to.post("settle", fresh()))).every(({ status }) => status === 503));
  to.bench.settler.instead = undefined;
  assert.ok((await each(30, () => to.post("settle", fresh()))).every(({ said }) => said === "good"));
  to.bench.settler.instead = failing("PAYMENT_SIMULATION_FAILED");
  const failed = await each(51, () => to.post("settle", fresh()));
  assert.deepEqual(failed.filter(({ status }) => status === 200).length, 50);
});

test("attack: one payer spends a tenth of a seller's tokens at most, however long its payments stay open", async () => {
  const keySha256 = createHash("sha256").update("k3y").digest("hex");
  const seller = { name: "shop", keySha256, receivers: [], settlementsPerDay: 1_000, settlementsPerPayer: 1_000 };
  const keyless = { settlementsPerDay: 0, settlementsPerPayer: 0, settlementsPerReceiver: 0 };
  const sellers = { ownReceivers: [], sellers: [seller], keyless };
  await using to = await open({ unpaidPerClient: () => ({ burst: 100, perSecond: 0.01 }), sellers });
  const [attacker, sender] = [newPayer(), { authorization: "Bearer k3y" }];
  to.bench.settler.instead = () => {
    to.clock.advance(20_000);
    return failing("PAYMENT_SIMULATION_FAILED")();
  };
  const failed = await each(30, () => to.post("settle", fresh(attacker), sender));
  assert.equal(failed.filter(({ status }) => status === 200).length, 10);
  assert.equal(failed.at(-1)?.said, "PAYMENT_RATE_LIMITED");
  const others = await each(50, () => to.post("settle", fresh(), sender));
  assert.ok(others.every(({ status }) => status === 200));
  to.bench.settler.instead = undefined;
  assert.equal((await to.post("settle", fresh(), sender)).said, "good");
});

test("attack: one payer's good verifications without a settlement spend a tenth of a seller's tokens at most", async () => {
  const keySha256 = createHash("sha256").update("k3y").digest("hex");
  const seller = { name: "shop", keySha256, receivers: [], settlementsPerDay: 1_000, settlementsPerPayer: 1_000 };
  const keyless = { settlementsPerDay: 0, settlementsPerPayer: 0, settlementsPerReceiver: 0 };
  const sellers = { ownReceivers: [], sellers: [seller], keyless };
  await using to = await open({ unpaidPerClient: () => ({ burst: 100, perSecond: 0.01 }), sellers });
  const [attacker, sender] = [newPayer(), { authorization: "Bearer k3y" }];
  const verified = await each(30, () => to.post("verify", fresh(attacker), sender));
  assert.equal(verified.filter(({ status }) => status === 200).length, 10);
  assert.equal(verified.at(-1)?.said, "PAYMENT_RATE_LIMITED");
  const body = fresh();
  const again = await each(30, () => to.post("verify", body, sender));
  assert.equal(again.filter(({ status }) => status === 200).length, 10, "the same request again costs as much");
  const others = await each(50, () => to.post("verify", fresh(), sender));
  assert.ok(others.every(({ status }) => status === 200));
  assert.equal((await to.post("settle", fresh(), sender)).said, "good");
});

test("attack: a seller whose buyers used its tokens up still gets the outcome of its pending payments, and its tokens for them", async () => {
  await using to = await open({ unpaidPerClient: () => ({ burst: 2, perSecond: 0.001 }), settleWaitMs: 1 });
  const [from, nonce] = [newPayer(), newNonce()];
  const body = settleBody(from, nonce, MERCHANTS[0]);
  to.bench.settler.held.add(nonce);
  assert.equal((await to.post("settle", body)).said, "settlement_pending");
  to.bench.refusal = { ok: false, code: "PAYMENT_INSUFFICIENT_FUNDS" };
  await to.post("settle", fresh());
  assert.equal((await to.post("settle", fresh())).status, 429);
  assert.equal((await to.post("settle", body)).said, "settlement_pending");
  const key = { network: NETWORK, asset: ASSET.toLowerCase() as Address, from, nonce };
  await to.bench.settler.finish(await eventually("it is submitted", () => ledger().find(key)));
  assert.equal((await to.post("settle", body)).said, "good");
  assert.equal((await to.post("settle", fresh())).status, 200, "the token of the pending one is back");
});

test("attack: a claim that was pending and is released is no way around the tokens of a client", async () => {
  await using to = await open({ unpaidPerClient: () => ({ burst: 2, perSecond: 0.001 }), settleWaitMs: 1 });
  const [from, nonce] = [newPayer(), newNonce()];
  const body = settleBody(from, nonce, MERCHANTS[0]);
  const blocked = Promise.withResolvers<void>();
  let settlements = 0;
  to.bench.settler.instead = () => {
    settlements++;
    return blocked.promise;
  };
  const sender = { key: "one-seller" };
  const first = to.post("settle", body, sender);
  const key = { network: NETWORK, asset: ASSET.toLowerCase() as Address, from, nonce };
  const { id } = await eventually("it is claimed", () => ledger().find(key));
  assert.equal((await to.post("settle", body, sender)).said, "settlement_pending");
  to.bench.refusal = { ok: false, code: "PAYMENT_INSUFFICIENT_FUNDS" };
  await to.post("settle", fresh());
  to.bench.refusal = undefined;
  assert.equal(await ledger().release(id, "SERVICE_UNAVAILABLE"), true);
  const again = to.post("settle", body, sender);
  await eventually("it is refused, or begun", async () => settlements > 1 || (await again).status === 429);
  assert.equal(settlements, 1);
  blocked.resolve();
  await first;
});

test("attack: of one payer's settlements at once, no more are begun than it has tokens", async () => {
  await using to = await open({ unpaidPerPayer: () => ({ burst: 3, perSecond: 0.001 }) });
  const payer = newPayer();
  const blocked = Promise.withResolvers<void>();
  let settlements = 0;
  to.bench.settler.instead = async () => {
    settlements++;
    await blocked.promise;
  };
  const statuses: number[] = [];
  const all = Array.from({ length: 8 }, async () => {
    const { status } = await to.post("settle", fresh(payer));
    statuses.push(status);
  });
  await eventually("all are begun or refused", () => settlements + statuses.length >= 8);
  const begun = [settlements, [...statuses]];
  blocked.resolve();
  await Promise.all(all);
  assert.deepEqual(begun, [3, [429, 429, 429, 429, 429]]);
});

test("a fault of ours costs no token", async () => {
  await using to = await open({ unpaidPerClient: () => ({ burst: 1, perSecond: 0.001 }) });
  to.bench.fault = new TypeError("a fault");
  for (const path of ["verify", "settle"] as const) {
    assert.deepEqual(
      (await each(2, () => to.post(path, fresh()))).map(({ status }) => status),
      [500, 500],
    );
  }
  to.bench.fault = undefined;
  assert.equal((await to.post("settle", fresh())).said, "good");
});

test("a sale that the profit rule refuses counts for neither the client nor the payer, and a limited payer is limited first", async () => {
  const rule = { burst: 2, perSecond: 0.001 };
  await using to = await open({ unpaidPerClient: () => ({ ...rule, burst: 10 }), unpaidPerPayer: () => rule });
  const payer = newPayer();
  to.bench.settler.refused = { ok: false, code: "SETTLEMENT_UNPROFITABLE", retryAfterSeconds: 30 };
  const refused = { status: 503, said: "SETTLEMENT_UNPROFITABLE", retryAfter: "30", transaction: undefined };
  for (const path of ["verify", "settle"] as const) {
    const answers = await each(15, () => to.post(path, fresh(payer)));
    assert.ok(
      answers.every((answer) => isDeepStrictEqual(answer, refused)),
      path,
    );
  }
  to.bench.settler.refused = undefined;
  assert.equal((await to.post("settle", fresh(payer))).said, "good");
  to.bench.settler.instead = failing("PAYMENT_SIMULATION_FAILED");
  await each(3, () => to.post("settle", fresh(payer)));
  to.bench.settler.refused = { ok: false, code: "SETTLEMENT_UNPROFITABLE" };
  assert.equal((await to.post("verify", fresh(payer))).status, 429);
  assert.equal((await to.post("settle", fresh(payer))).status, 429);
});

test("a pending settlement counts until it settles; to ask for it again costs nothing, nor earns", async () => {
  await using to = await open({ unpaidPerClient: () => ({ burst: 2, perSecond: 0.001 }), settleWaitMs: 1 });
  const [from, nonce] = [newPayer(), newNonce()];
  const body = settleBody(from, nonce, MERCHANTS[0]);
  to.bench.settler.held.add(nonce);
  assert.equal((await to.post("settle", body)).said, "settlement_pending");
  const again = await each(10, () => to.post("settle", body));
  assert.ok(again.every(({ said }) => said === "settlement_pending"));
  const key = { network: NETWORK, asset: ASSET.toLowerCase() as Address, from, nonce };
  const record = await eventually("it is submitted", () => ledger().find(key));
  await to.bench.settler.finish(record);
  const copies = await each(10, () => to.post("settle", body));
  assert.deepEqual(
    copies.map(({ said }) => said),
    ["good", ...Array.from({ length: 9 }, () => "duplicate_settlement")],
  );
  to.bench.settler.instead = failing("PAYMENT_SIMULATION_FAILED");
  const failed = await each(5, () => to.post("settle", fresh()));
  assert.equal(failed.filter(({ status }) => status === 200).length, 3, "its own token came back with one more");
});

test("clients behind a trusted proxy are distinguished; the header of another peer changes nothing", async () => {
  await using to = await open({ unpaidPerClient: () => ({ burst: 1, perSecond: 0.001 }) }, ["127.0.0.1"]);
  to.bench.settler.instead = failing("PAYMENT_SIMULATION_FAILED");
  const statusOf = async (from: Parameters<typeof to.post>[2]): Promise<number> =>
    (await to.post("settle", fresh(), from)).status;
  assert.equal(await statusOf({ forwarded: "192.0.2.1" }), 200);
  assert.equal(await statusOf({ forwarded: "192.0.2.1" }), 429);
  assert.equal(await statusOf({ forwarded: "192.0.2.2" }), 200);
  assert.equal(await statusOf({ forwarded: "192.0.2.3", localAddress: "127.0.0.3" }), 200);
  assert.equal(await statusOf({ forwarded: "192.0.2.4", localAddress: "127.0.0.3" }), 429);
});

test("attack: one client with eight accounts, a payment of each pending, leaves the facilitator open to others", async () => {
  await using to = await open();
  to.bench.balance = 5_000n;
  const accounts = Array.from({ length: 8 }, () => ({ from: newPayer(), nonce: newNonce() }));
  const localAddress = "127.0.0.2";
  const pending = accounts.map(({ from, nonce }) => {
    to.bench.settler.held.add(nonce);
    return to.post("settle", settleBody(from, nonce, MERCHANTS[0]), { localAddress });
  });
  const records = await Promise.all(
    accounts.map(({ from, nonce }) => {
      const key = { network: NETWORK, asset: ASSET.toLowerCase() as Address, from, nonce };
      return eventually("it is pending", async () => {
        const record = await ledger().find(key);
        return record !== undefined && to.bench.settler.waiting(record) > 0 && record;
      });
    }),
  );
  const blocked = Promise.withResolvers<void>();
  let begun = 0;
  let limited = 0;
  to.bench.onCheck = () => {
    begun++;
    return blocked.promise;
  };
  const more = accounts.flatMap(({ from }) =>
    Array.from({ length: 40 }, async () => {
      const { status, said } = await to.post("settle", fresh(from), { localAddress });
      if (said === "PAYMENT_RATE_LIMITED") limited++;
      return `${status} ${said}`;
    }),
  );
  await eventually("each is begun or refused", () => begun + limited === 320);
  assert.deepEqual([begun, limited], [56, 264], "with the eight that are pending, the client has its 64 places");
  to.bench.onCheck = undefined;
  blocked.resolve();
  assert.deepEqual(
    [...new Set(await Promise.all(more))].toSorted(),
    ["200 invalid_exact_evm_insufficient_balance", "429 PAYMENT_RATE_LIMITED"],
    "at once, while the first ones are pending",
  );
  const honest = await Promise.all(Array.from({ length: 27 }, () => to.post("settle", fresh())));
  assert.ok(honest.every(({ said }) => said === "good"));
  for (const record of records) await to.bench.settler.finish(record);
  assert.ok((await Promise.all(pending)).every(({ said }) => said === "good"));
});

test("attack: one client with four hundred settlements at once leaves places for others", async () => {
  await using to = await open();
  const localAddress = "127.0.0.2";
  const blocked = Promise.withResolvers<void>();
  let begun = 0;
  let refused = 0;
  to.bench.settler.instead = async () => {
    begun++;
    await blocked.promise;
  };
  const flood = Array.from({ length: 400 }, async () => {
    const { status } = await to.post("settle", fresh(), { localAddress });
    if (status === 429) refused++;
  });
  await eventually("each is begun or refused", () => begun + refused === 400);
  assert.equal(begun, 64);
  to.bench.settler.instead = undefined;
  const honest = await Promise.all(Array.from({ length: 27 }, () => to.post("settle", fresh())));
  assert.ok(honest.every(({ said }) => said === "good"));
  blocked.resolve();
  await Promise.all(flood);
});

test("attack: one payer at many clients has a part of the places", async () => {
  await using to = await open({ maxCopies: 4 });
  const payer = newPayer();
  const blocked = Promise.withResolvers<void>();
  let begun = 0;
  let refused = 0;
  to.bench.settler.instead = async () => {
    begun++;
    await blocked.promise;
  };
  const flood = Array.from({ length: 12 }, async (_, at) => {
    const { status } = await to.post("settle", fresh(payer), { localAddress: `127.0.0.${2 + (at % 3)}` });
    if (status === 429) refused++;
  });
  await eventually("each is begun or refused", () => begun + refused === 12);
  assert.equal(begun, 4);
  blocked.resolve();
  await Promise.all(flood);
});

test("attack: 64 good payments that one client verifies over and over, and never settles, are few checks and end in 429", async () => {
  const clock = virtualClock();
  await using to = await open({ clock, unpaidPerClient: () => ({ burst: 640, perSecond: 0.001 }) });
  let checks = 0;
  to.bench.onCheck = async () => void checks++;
  const bodies = Array.from({ length: 64 }, () => fresh());
  const rounds = await each(11, () => Promise.all(bodies.map((body) => to.post("verify", body))));
  assert.ok(rounds.slice(0, 10).every((replies) => replies.every(({ said }) => said === "good")));
  assert.ok(rounds[10]?.every(({ status }) => status === 429));
  assert.equal(checks, 64, "answered from memory within two seconds");
  clock.advance(2_001);
  const other = { localAddress: "127.0.0.2" };
  assert.equal((await to.post("verify", bodies[0] ?? assert.fail(), other)).said, "good");
  assert.equal(checks, 65);
  assert.equal((await to.post("settle", bodies[1] ?? assert.fail(), other)).said, "good");
  assert.equal((await to.post("verify", bodies[1] ?? assert.fail(), other)).said, "duplicate_settlement");
  assert.equal((await to.post("verify", fresh())).said, "good", "the settled one's verifications are given back");
});
