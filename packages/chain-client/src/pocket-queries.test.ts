import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { systemClock } from "@turnpike/base";
import { createMessage, decodeMessage, encodeMessage, packAny, proof, shared } from "@turnpike/proto";
import { eventually, startChainProxy, virtualClock } from "@turnpike/testkit";
import { chainParty, startTestChain, type TestChainOptions } from "@turnpike/testkit/chain";
import { ChainClient } from "./chain-client.ts";
import { ChainHead } from "./chain-head.ts";
import { PocketQueries, type PocketQueriesOptions } from "./pocket-queries.ts";

const app = chainParty("app").address;
const gateway = chainParty("gateway").address;
const supplier = chainParty("supplier").address;

/** A client that counts what is asked. */
class CountingClient extends ChainClient {
  readonly paths: string[] = [];
  readonly requests: unknown[] = [];
  override query: ChainClient["query"] = (method, request, options) => {
    this.paths.push(method.name);
    this.requests.push(request);
    return super.query(method, request, options);
  };
}

async function rig(options: PocketQueriesOptions = {}, chainOptions: TestChainOptions = {}) {
  await using stack = new AsyncDisposableStack();
  const chain = stack.use(await startTestChain(chainOptions));
  const client = stack.use(new CountingClient({ url: chain.rpcUrl }, { clock: systemClock }));
  const clock = virtualClock();
  const queries = new PocketQueries(options, { client, clock });
  const owned = stack.move();
  return { chain, client, clock, queries, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

const good = <T>(answer: { ok: true; value: T } | { ok: false; text: string }): T => {
  if (answer.ok) return answer.value;
  return assert.fail(answer.text);
};

suite("PocketQueries", () => {
  test("reads every kind of fact, typed", async () => {
    await using test = await rig();
    const { chain, queries } = test;
    await chain.reach(8n);
    const session = good(await queries.session(app, "eth", 8n));
    assert.equal(session.header?.sessionStartBlockHeight, 7n);
    assert.deepEqual(
      session.suppliers.map(({ operatorAddress }) => operatorAddress),
      [supplier],
    );
    assert.equal(good(await queries.sharedParamsAt(8n)).numBlocksPerSession, 6n);
    assert.deepEqual(good(await queries.publicKey(app)), chainParty("app").publicKey);
    assert.deepEqual(good(await queries.application(app)).delegateeGatewayAddresses, [gateway]);
    assert.deepEqual(
      good(await queries.applicationsOfGateway(gateway)).map(({ address }) => address),
      [app],
    );
    assert.equal(good(await queries.supplier(supplier)).operatorAddress, supplier);
    assert.equal(good(await queries.service("eth")).computeUnitsPerRelay, 100n);
    assert.deepEqual(test.client.requests.at(-1), { id: "eth", dehydrated: true }, "without its card");
    assert.equal(good(await queries.computeUnitsAt("eth", 7n)), 100n);
    assert.deepEqual(good(await queries.difficultyAt("eth", 7n)), new Uint8Array(32).fill(255));
    assert.equal(good(await queries.proofParams()).proofRequestProbability, 0.25);
    assert.equal(good(await queries.balance(app)), 1_000_000_000_000n);
    assert.deepEqual(good(await queries.claims(supplier)), { claims: [], heightBlocks: 8n, isWhole: true });
    const sessionClaim = good(await queries.sessionClaim(supplier, session.sessionId));
    assert.deepEqual(sessionClaim, { claim: undefined, heightBlocks: 8n });
  });

  for (const heights of [
    [12n, 11n],
    [11n, 12n],
  ]) {
    test(`claims in pages of the states ${heights.join(" and ")} are those of the earlier one, and show no absence`, async () => {
      await using chain = await startTestChain();
      const claim = (sessionId: string): proof.Claim =>
        createMessage(proof.ClaimSchema, { supplierOperatorAddress: supplier, sessionHeader: { sessionId } });
      const pages = ["a", "b"].map((id, i) =>
        encodeMessage(
          proof.QueryAllClaimsResponseSchema,
          createMessage(proof.QueryAllClaimsResponseSchema, {
            claims: [claim(id)],
            pagination: { nextKey: i === 0 ? Buffer.from("next") : new Uint8Array(0) },
          }),
        ),
      );
      class PagedClient extends ChainClient {
        #page = 0;
        override query: ChainClient["query"] = async ({ output }) => {
          const at = this.#page++ % 2;
          const page = decodeMessage(output, pages[at] ?? new Uint8Array(0));
          assert.ok(page.ok);
          return { ok: true, value: page.message, heightBlocks: heights[at] ?? 0n };
        };
      }
      await using client = new PagedClient({ url: chain.rpcUrl }, { clock: systemClock });
      const queries = new PocketQueries({}, { client, clock: systemClock });
      const { claims, heightBlocks, isWhole } = good(await queries.claims(supplier));
      assert.deepEqual([claims.length, heightBlocks, isWhole], [2, 11n, false]);
      assert.equal(good(await queries.sessionClaim(supplier, "b")).heightBlocks, 11n);
      assert.equal((await queries.sessionClaim(supplier, "c")).ok, false);
    });
  }

  test("a session and its parameters are asked for once, by however many at once and at whichever of its heights", async () => {
    await using test = await rig();
    const { chain, client, queries } = test;
    await chain.reach(12n);
    await Promise.all(Array.from({ length: 50 }, () => queries.session(app, "eth", 9n)));
    for (let height = 7n; height <= 12n; height++) good(await queries.session(app, "eth", height));
    assert.deepEqual(client.paths, ["ParamsAtHeight", "GetSession"]);
  });

  test("attack: the sessions of a chain are not those of the one restarted from genesis in its place", async () => {
    await using chain = await startTestChain();
    await chain.reach(30n);
    await using proxy = await startChainProxy(chain.rpcUrl);
    await using head = new ChainHead({ url: proxy.url, pingMs: 50, retryMs: 1 }, { clock: systemClock });
    await using client = new CountingClient({ url: proxy.url }, { clock: systemClock });
    const queries = new PocketQueries({}, { client, clock: systemClock, head });
    await head.waitFor(30n);
    const idOf = async (): Promise<string | undefined> => good(await queries.session(app, "eth", 8n)).header?.sessionId;
    const before = await idOf();
    await using anew = await startTestChain();
    await anew.reach(9n);
    proxy.moveTo(anew.rpcUrl);
    await eventually("the restarted chain", () => head.newest?.heightBlocks === 9n);
    const after = await idOf();
    assert.notEqual(after, before);
    const { paths } = client;
    assert.equal(await idOf(), after);
    assert.deepEqual(paths, ["ParamsAtHeight", "GetSession", "ParamsAtHeight", "GetSession"]);
  });

  test("what is cached is returned while the node is dead, and what is not is unreachable", async () => {
    await using test = await rig({ freshMs: 1_000 });
    const { chain, clock, queries } = test;
    good(await queries.session(app, "eth", 1n));
    good(await queries.application(app));
    await chain.stopRpc();
    clock.advance(3_600_000);
    assert.equal(good(await queries.session(app, "eth", 5n)).header?.sessionEndBlockHeight, 6n);
    assert.equal(good(await queries.application(app)).address, app);
    const missing = await queries.supplier(supplier);
    assert.deepEqual([missing.ok, missing.ok ? "" : missing.fault], [false, "unreachable"]);
    const claims = await queries.claims(supplier);
    assert.deepEqual([claims.ok, claims.ok ? "" : claims.fault], [false, "unreachable"]);
    await chain.startRpc();
    clock.advance(501);
    assert.equal(good(await queries.supplier(supplier)).operatorAddress, supplier);
  });

  test("attack: what is no amount is not kept: a session is asked for again, and the balance that was known stays", async () => {
    await using chain = await startTestChain();
    const lies = { amount: undefined as string | undefined };
    class LyingClient extends CountingClient {
      override query: ChainClient["query"] = async (method, request, options) => {
        this.paths.push(method.name);
        const answer = await ChainClient.prototype.query.call(this, method, request, options);
        if (!answer.ok || lies.amount === undefined) return answer as never;
        const { amount } = lies;
        const value = answer.value as {
          session?: { application?: { stake?: { amount: string } } };
          balance?: { amount: string };
        };
        for (const coin of [value.session?.application?.stake, value.balance]) {
          if (coin !== undefined) coin.amount = amount;
        }
        return answer as never;
      };
    }
    await using client = new LyingClient({ url: chain.rpcUrl }, { clock: systemClock });
    const queries = new PocketQueries({}, { client, clock: virtualClock() });
    const stake = async (): Promise<string | undefined> =>
      good(await queries.session(app, "eth", 1n)).application?.stake?.amount;
    const known = good(await queries.balance(app));
    lies.amount = "much";
    await stake();
    assert.equal(good(await queries.balance(app, { fresh: true })), known);
    const never = await queries.balance(gateway);
    assert.ok(!never.ok && never.fault === "unreachable", "the node did not say that there is none");
    lies.amount = undefined;
    assert.match((await stake()) ?? "", /^[0-9]+$/);
    const asked = client.paths.length;
    await stake();
    assert.equal(client.paths.length, asked, "a good one is kept");
  });

  test("an unreachable node is not asked again for every read", async () => {
    await using test = await rig();
    const { chain, client, queries } = test;
    await chain.stopRpc();
    for (let i = 0; i < 20; i++) assert.equal((await queries.application(app)).ok, false);
    assert.deepEqual(client.paths, ["Application"]);
  });

  test("what may change is renewed behind the reader's back, or at once when a fresh answer is wanted", async () => {
    await using test = await rig({ freshMs: 1_000 });
    const { chain, client, clock, queries } = test;
    const stake = async (amount: string) => {
      const { application } = await import("@turnpike/proto");
      const message = createMessage(application.MsgStakeApplicationSchema, {
        address: app,
        stake: { denom: "upokt", amount },
        services: [{ serviceId: "eth" }],
      });
      const sent = client.send(chainParty("app"), [packAny(application.MsgStakeApplicationSchema, message)], {
        timeoutMs: 60_000,
      });
      while (chain.waitingTxs === 0) await new Promise(setImmediate);
      await chain.produce();
      await sent;
    };
    const staked = async (fresh = false) => good(await queries.application(app, { fresh })).stake?.amount;
    assert.equal(await staked(), "10000000000");
    await stake("10000000001");
    assert.equal(await staked(), "10000000000");
    clock.advance(1_001);
    assert.equal(await staked(), "10000000000");
    while ((await staked()) !== "10000000001") await new Promise(setImmediate);
    await stake("10000000002");
    assert.equal(await staked(true), "10000000002");
  });

  test("the chain's refusal is one, with its text, and is asked again soon", async () => {
    await using test = await rig();
    const { clock, client, queries } = test;
    const stranger = chainParty("stranger").address;
    for (let i = 0; i < 3; i++) {
      const answer = await queries.application(stranger);
      assert.ok(!answer.ok && answer.fault === "refused");
      assert.match(answer.text, /not found/);
    }
    clock.advance(501);
    await queries.application(stranger);
    assert.deepEqual(client.paths, ["Application", "Application"]);
    const early = await queries.session(app, "eth", 7n);
    assert.ok(!early.ok && early.fault === "refused");
    assert.match(early.text, /is ahead of the last committed block height/);
  });

  test("parameters of a height to come are asked again when it is there", async () => {
    await using test = await rig({ freshMs: 1_000 });
    const { chain, client, clock, queries } = test;
    good(await queries.sharedParamsAt(7n));
    assert.equal(queries.peekSharedParamsAt(7n), undefined);
    await chain.reach(7n);
    clock.advance(1_001);
    await queries.sharedParamsAt(7n, { fresh: true });
    assert.ok(queries.peekSharedParamsAt(7n) !== undefined);
    const asked = client.paths.length;
    good(await queries.sharedParamsAt(12n));
    assert.equal(client.paths.length, asked);
  });

  test("a key that is missing is asked again, and kept once it is there", async () => {
    await using test = await rig();
    const { client, clock, queries } = test;
    const stranger = chainParty("stranger");
    const missing = await queries.publicKey(stranger.address);
    assert.ok(!missing.ok && missing.fault === "refused");
    good(await queries.publicKey(app));
    clock.advance(100_000_000);
    const asked = client.paths.length;
    good(await queries.publicKey(app));
    assert.equal(client.paths.length, asked);
    await queries.publicKey(stranger.address);
    assert.equal(client.paths.length, asked + 1);
  });

  test("entries and open questions are bounded", async () => {
    await using test = await rig({ maxEntries: 2, maxOpen: 1 });
    const { client, queries } = test;
    const [one, two] = await Promise.all([queries.application(app), queries.supplier(supplier)]);
    assert.equal(one.ok, true);
    assert.ok(!two.ok && two.fault === "busy");
    for (const name of ["a", "b", "app"]) await queries.publicKey(chainParty(name).address);
    const asked = client.paths.length;
    await queries.publicKey(chainParty("a").address);
    assert.equal(client.paths.length, asked + 1);
  });

  test("a reader that gives up ends its own wait alone", async () => {
    await using test = await rig();
    const { client, queries } = test;
    const ended = new AbortController();
    const [left, stayed] = [queries.application(app, { signal: ended.signal }), queries.application(app)];
    ended.abort();
    const gone = await left;
    assert.ok(!gone.ok && gone.fault === "unreachable");
    assert.equal(good(await stayed).address, app);
    assert.deepEqual(client.paths, ["Application"]);
  });

  test("a change of the session's length is seen from its own height on", async () => {
    await using test = await rig();
    const { chain, client, queries } = test;
    const { authz } = await import("@turnpike/proto");
    const { moduleAddress } = await import("@turnpike/crypto");
    const before = good(await queries.sharedParamsAt(1n));
    const update = createMessage(shared.MsgUpdateParamsSchema, {
      authority: moduleAddress("gov"),
      params: { ...before, numBlocksPerSession: 4n },
    });
    const exec = createMessage(authz.MsgExecSchema, {
      grantee: chainParty("dao").address,
      msgs: [packAny(shared.MsgUpdateParamsSchema, update)],
    });
    const sent = client.send(chainParty("dao"), [packAny(authz.MsgExecSchema, exec)], { timeoutMs: 60_000 });
    while (chain.waitingTxs === 0) await new Promise(setImmediate);
    await chain.produce();
    await sent;
    await chain.reach(11n);
    const heights = async (height: bigint) => {
      const { header } = good(await queries.session(app, "eth", height));
      return [header?.sessionStartBlockHeight, header?.sessionEndBlockHeight];
    };
    assert.deepEqual(await heights(6n), [1n, 6n]);
    assert.deepEqual(await heights(7n), [7n, 10n]);
    assert.deepEqual(await heights(11n), [11n, 14n]);
  });
});
