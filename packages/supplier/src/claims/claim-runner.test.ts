import assert from "node:assert/strict";
import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { suite, test } from "node:test";
import { bytesToHex, type Log, silentLog } from "@turnpike/base";
import { signTx } from "@turnpike/chain-client";
import { moduleAddress, sha256 } from "@turnpike/crypto";
import { authz, bank, base, createMessage, packAny, proof, service } from "@turnpike/proto";
import { claimedUpokt, type SessionHeader } from "@turnpike/protocol";
import { chainParty } from "@turnpike/testkit/chain";
import { PROVE_ALL, SupplierRig } from "../../test/supplier-rig.ts";
import { supplyReport } from "../money/supply-report.ts";

const BASE_TARGET = new Uint8Array(32).fill(255);
const PRICING = { computeUnitsToTokensMultiplier: 42_000_000n, computeUnitCostGranularity: 1_000_000n };

async function upokt(rig: SupplierRig, name: string): Promise<bigint> {
  const found = await rig.running.queries.balance(chainParty(name).address, { fresh: true });
  return found.ok ? found.value : assert.fail(found.text);
}

async function stake(rig: SupplierRig, name = "app"): Promise<bigint> {
  const found = await rig.running.queries.application(chainParty(name).address, { fresh: true });
  return BigInt((found.ok ? found.value.stake?.amount : undefined) ?? assert.fail("no stake"));
}

/** A log that keeps its errors. */
function listening(errors: string[]): Log {
  const log: Log = { ...silentLog, error: (_, message) => void errors.push(message), child: () => log };
  return log;
}

suite("ClaimRunner", () => {
  test("relays are claimed, proven and paid on a real chain, to the last upokt", async () => {
    await using rig = await SupplierRig.start({
      ...PROVE_ALL,
      suppliers: { supplier: { services: ["eth"], owner: "owner", shares: { owner: 60n, supplier: 40n } } },
    });
    const before = {
      supplier: await upokt(rig, "supplier"),
      owner: await upokt(rig, "owner"),
      stake: await stake(rig),
    };
    const header = await rig.serve(7);
    assert.equal(header.sessionEndBlockHeight, 6n);
    const session = rig.running.store.session(rig.running.operator, header.sessionId) ?? assert.fail();
    const { windows } = session.head.terms;
    const phases: string[] = [];
    while (rig.chain.heightBlocks < windows.settlementHeight) {
      await rig.block();
      const { phase } = session.state;
      if (phases.at(-1)?.endsWith(phase) !== true) phases.push(`${rig.chain.heightBlocks} ${phase}`);
    }
    // Windows: claims 8 to 14, proofs 15 to 22.
    assert.deepEqual(phases, ["2 open", "8 sealed", "9 claimed", "16 proven", "22 settled"]);
    const claimed = claimedUpokt(700n, BASE_TARGET, PRICING);
    assert.equal(claimed, 7n * 4_200n);
    const { outcome, claim, feesUpokt, isProofRequired } = session.state;
    assert.equal(claim?.expectedUpokt, claimed);
    assert.equal(isProofRequired, true);
    assert.ok(outcome?.kind === "settled");
    assert.deepEqual([outcome.claimedUpokt, outcome.settledUpokt, outcome.heightBlocks], [claimed, claimed, 22n]);
    // 70 % of the work's price, and of the tenth that is minted on top.
    const share = (claimed * 7n) / 10n + (claimed * 7n) / 100n;
    const received = Object.values(outcome.rewards).reduce((sum, amount) => sum + amount, 0n);
    assert.equal(received, share);
    // One upokt for each of two transactions, and the proof's own fee.
    assert.equal(feesUpokt, 2n);
    const operator = outcome.rewards[chainParty("supplier").address] ?? 0n;
    const owner = outcome.rewards[chainParty("owner").address] ?? 0n;
    assert.equal((await upokt(rig, "owner")) - before.owner, owner);
    assert.equal((await upokt(rig, "supplier")) - before.supplier, operator - feesUpokt - 1n);
    assert.equal(before.stake - (await stake(rig)), claimed + claimed / 10n);
  });

  test("claims of all sessions that end together are one transaction, and so are their proofs", async () => {
    const names = ["app", "app2", "app3"];
    const applications = Object.fromEntries(names.map((name) => [name, { service: "eth", gateways: ["gateway"] }]));
    await using rig = await SupplierRig.start({ ...PROVE_ALL, applications });
    for (const [i, name] of names.entries()) await rig.serve(i + 1, name);
    const txs: bigint[] = [];
    while (rig.chain.heightBlocks < 22n) {
      await rig.block();
      const { client } = rig.running;
      const found = await client.searchTxs({
        query: `tx.height=${rig.chain.heightBlocks}`,
        page: 1,
        perPage: 10,
        newestFirst: false,
      });
      if (found.total > 0n) txs.push(rig.chain.heightBlocks, found.total);
    }
    assert.deepEqual(txs, [9n, 1n, 16n, 1n]);
    const sessions = rig.running.store.sessions(rig.running.operator);
    assert.deepEqual(
      new Set(sessions.map(({ state }) => state.outcome?.kind === "settled" && state.outcome.settledUpokt)),
      new Set([4_200n, 8_400n, 12_600n]),
    );
  });

  test("a node that is dead for most of both windows costs nothing", async () => {
    await using rig = await SupplierRig.start(PROVE_ALL);
    const header = await rig.serve(3);
    await rig.reach(7n);
    // Claims are accepted until block 14: one that is sent after block 13 is the last in time.
    await rig.dead(() => rig.chain.reach(13n));
    await rig.seen(13n);
    await rig.block();
    assert.equal(rig.stateOf(header).phase, "claimed");
    await rig.dead(() => rig.chain.reach(21n));
    await rig.seen(21n);
    await rig.block();
    const { phase, outcome } = rig.stateOf(header);
    assert.equal(phase, "settled");
    assert.ok(outcome?.kind === "settled" && outcome.settledUpokt === 12_600n);
  });

  test("a claim that could not be in its window is reported as lost, with the reason, and is in the sums", async () => {
    await using rig = await SupplierRig.start(PROVE_ALL);
    const header = await rig.serve(3);
    await rig.dead(() => rig.chain.reach(14n));
    await rig.seen(14n);
    const { outcome, claim } = rig.stateOf(header);
    assert.ok(outcome?.kind === "lost");
    assert.deepEqual([outcome.why, claim?.expectedUpokt], ["claim-window-missed", 12_600n]);
    const [operator] = supplyReport(rig.running.store, [rig.running.operator]).operators;
    assert.deepEqual(operator?.all.lost, {
      "claim-window-missed": { sessions: 1, relays: 3n, expectedUpokt: 12_600n },
    });
  });

  /** A node that answers questions for block results with an error, until the text is cleared; and when it was asked. */
  const withoutResults = (rig: SupplierRig, text: string) => {
    const { client } = rig.running;
    const call = client.call.bind(client);
    const node: { text: string | undefined; readonly askedAt: bigint[] } = { text, askedAt: [] };
    client.call = async (method, ...rest) => {
      if (method !== "block_results") return call(method, ...rest);
      node.askedAt.push(rig.chain.heightBlocks);
      if (node.text === undefined) return call(method, ...rest);
      return { ok: false, error: { code: -32_603, message: "Internal error", data: node.text } };
    };
    return node;
  };

  test("a node whose block results fail for a while does not end a session as lost, and is asked ever more seldom", async () => {
    await using rig = await SupplierRig.start(PROVE_ALL);
    const header = await rig.serve(3);
    const node = withoutResults(rig, "height 22 must be less than or equal to the current blockchain height 21");
    await rig.reach(40n);
    assert.equal(rig.stateOf(header).outcome, undefined);
    node.text = "resource temporarily unavailable";
    await rig.reach(80n);
    assert.deepEqual(node.askedAt, [22n, 23n, 25n, 29n, 37n, 53n, 69n]);
    assert.equal(rig.stateOf(header).outcome, undefined);
    node.text = undefined;
    await rig.reach(85n);
    const { outcome } = rig.stateOf(header);
    assert.ok(outcome?.kind === "settled" && outcome.settledUpokt === 12_600n);
  });

  for (const text of [
    "height 22 is not available, lowest height is 25",
    "could not find results for height #22",
    "node is not persisting finalize block responses",
  ]) {
    test(`a node that says "${text}" ends a session as unknown`, async () => {
      await using rig = await SupplierRig.start(PROVE_ALL);
      const header = await rig.serve(3);
      withoutResults(rig, text);
      await rig.reach(25n);
      assert.equal(rig.stateOf(header).outcome, undefined);
      await rig.reach(29n);
      const { outcome } = rig.stateOf(header);
      assert.ok(outcome?.kind === "lost");
      assert.equal(outcome.why, "settlement-unknown");
    });
  }

  test("a missed proof is reported with the chain's penalty", async () => {
    await using rig = await SupplierRig.start(PROVE_ALL);
    const header = await rig.serve(3);
    await rig.reach(10n);
    assert.equal(rig.stateOf(header).phase, "claimed");
    await rig.dead(() => rig.chain.reach(22n));
    await rig.seen(22n);
    const { outcome } = rig.stateOf(header);
    assert.ok(outcome?.kind === "lost");
    assert.deepEqual([outcome.why, outcome.penaltyUpokt], ["proof-missing", 1_000_000n]);
  });

  test("transactions that a node lost are sent again, and one that it keeps losing is replaced", async () => {
    // No fee is raised.
    await using rig = await SupplierRig.start(PROVE_ALL, { claims: { maxFeeUpokt: 1n } });
    const header = await rig.serve(3);
    const sent: string[] = [];
    const { client } = rig.running;
    const broadcast = client.broadcast.bind(client);
    let isLosing = true;
    client.broadcast = async (bytes, ...rest) => {
      const hash = bytesToHex(sha256(bytes));
      sent.push(hash);
      return isLosing ? { hash, code: 0, codespace: "", log: "" } : await broadcast(bytes, ...rest);
    };
    await rig.reach(11n);
    assert.equal(rig.stateOf(header).phase, "sealed");
    assert.equal(sent.length, 4);
    assert.equal(new Set(sent.slice(0, 3)).size, 1);
    assert.notEqual(sent[3], sent[0]);
    isLosing = false;
    await rig.reach(13n);
    assert.equal(rig.stateOf(header).phase, "claimed");
  });

  test("a transaction that a block has without a run is sent again as it is, and costs nothing before it is run", async () => {
    await using rig = await SupplierRig.start(PROVE_ALL);
    const header = await rig.serve(3);
    const { client } = rig.running;
    const [broadcast, tx] = [client.broadcast.bind(client), client.tx.bind(client)];
    const sent: string[] = [];
    client.broadcast = async (bytes, ...rest) => {
      const hash = bytesToHex(sha256(bytes)).toUpperCase();
      sent.push(hash);
      return sent.length === 1 ? { hash, code: 0, codespace: "", log: "" } : await broadcast(bytes, ...rest);
    };
    client.tx = async (hash, ...rest) =>
      sent.length !== 1
        ? await tx(hash, ...rest)
        : {
            hash,
            heightBlocks: rig.chain.heightBlocks,
            code: 11,
            codespace: "sdk",
            log: "the results of earlier transactions fill the block",
            gasWanted: 0n,
            gasUsed: 0n,
            events: [],
            data: new Uint8Array(0),
            info: "",
            txBytes: new Uint8Array(0),
          };
    await rig.reach(10n);
    assert.deepEqual([rig.stateOf(header).phase, rig.stateOf(header).feesUpokt], ["claimed", 1n]);
    assert.deepEqual(sent, [sent[0], sent[0]]);
  });

  /** Makes blocks up to a height; another account pays for the whole gas of each. */
  async function crowd(rig: SupplierRig, feeUpokt: bigint): Promise<(heightBlocks: bigint) => Promise<void>> {
    const { client } = rig.running;
    const payer = chainParty("faucet");
    const { chainId } = await client.status();
    const account = (await client.account(payer.address)) ?? assert.fail("no account");
    let { sequence } = account;
    const send = createMessage(bank.MsgSendSchema, {
      fromAddress: payer.address,
      toAddress: payer.address,
      amount: [createMessage(base.CoinSchema, { denom: "upokt", amount: "1" })],
    });
    return async (heightBlocks) => {
      while (rig.chain.heightBlocks < heightBlocks) {
        const tx = {
          messages: [packAny(bank.MsgSendSchema, send)],
          chainId,
          accountNumber: account.accountNumber,
          order: { kind: "ordered", sequence } as const,
          gasLimit: 400_000_000n,
          fee: [{ denom: "upokt", amount: feeUpokt }],
        };
        const { code, log } = await client.broadcast(signTx(tx, payer));
        assert.equal(code, 0, log);
        sequence++;
        await rig.block();
      }
    };
  }

  test("claims and proofs are in time on a chain whose blocks another account fills, at a fee that rises as the windows end", async () => {
    await using rig = await SupplierRig.start(PROVE_ALL);
    const header = await rig.serve(3);
    await rig.reach(7n);
    // Ten times what the supplier's transactions pay for a unit of gas at first.
    const crowdedUntil = await crowd(rig, 40_000n);
    await crowdedUntil(14n);
    assert.equal(rig.stateOf(header).phase, "claimed");
    await crowdedUntil(22n);
    const { outcome, feesUpokt } = rig.stateOf(header);
    assert.equal(outcome?.kind, "settled");
    // Each was in a block once.
    assert.ok(feesUpokt > 2n && feesUpokt <= 2n * 64n, `${feesUpokt} upokt of fees`);
    const { client } = rig.running;
    const query = `message.sender='${chainParty("supplier").address}' AND tx.height>7`;
    const { total } = await client.searchTxs({ query, page: 1, perPage: 10, newestFirst: false });
    assert.equal(total, 2n);
  });

  test("a raised fee stays below its bound, and below the worth of a claim", async () => {
    await using rig = await SupplierRig.start(PROVE_ALL, { claims: { maxFeeUpokt: 20n } });
    const header = await rig.serve(3);
    await rig.reach(7n);
    const crowdedUntil = await crowd(rig, 400_000n);
    await crowdedUntil(13n);
    assert.equal(rig.stateOf(header).phase, "sealed");
    await crowdedUntil(15n);
    const { outcome, feesUpokt } = rig.stateOf(header);
    assert.ok(outcome?.kind === "lost");
    assert.deepEqual([outcome.why, feesUpokt], ["claim-window-missed", 0n]);
  });

  test("a transaction that never appears is not looked up after its timeout", async () => {
    await using rig = await SupplierRig.start(PROVE_ALL, { claims: { txTimeoutMs: 100 } });
    const header = await rig.serve(3);
    const { client } = rig.running;
    const lookedUp: bigint[] = [];
    const tx = client.tx.bind(client);
    client.tx = (...given) => {
      lookedUp.push(rig.chain.heightBlocks);
      return tx(...given);
    };
    client.broadcast = async (bytes) => ({ hash: bytesToHex(sha256(bytes)), code: 0, codespace: "", log: "" });
    await rig.reach(16n);
    assert.equal(rig.stateOf(header).phase, "lost");
    assert.ok(lookedUp.length > 0);
    // To the time-out a transaction adds up to a second, so that no two end alike.
    const { head } = rig.running;
    const newestNanos = (): bigint => head.newest?.timeNanos ?? assert.fail("no block is known");
    const pastNanos = newestNanos() + 1_100_000_000n;
    while (newestNanos() < pastNanos) {
      await rig.chain.produce(100);
      await rig.seen(rig.chain.heightBlocks);
    }
    lookedUp.length = 0;
    await rig.block();
    assert.deepEqual(lookedUp, []);
  });

  test("a supplier that was restarted after every block forfeits nothing and claims once", async () => {
    await using rig = await SupplierRig.start(PROVE_ALL);
    const header = await rig.serve(3);
    const roots = new Set<string>();
    while (rig.chain.heightBlocks < 22n) {
      await rig.block();
      await rig.stopSupplier();
      await rig.startSupplier();
      await rig.running.runner.processed(rig.chain.heightBlocks);
      const { claim } = rig.stateOf(header);
      if (claim !== undefined) roots.add(bytesToHex(claim.rootHash));
    }
    const { outcome } = rig.stateOf(header);
    assert.ok(outcome?.kind === "settled" && outcome.settledUpokt === 12_600n);
    assert.equal(roots.size, 1);
  });

  test("without a proof that the chain wants none is sent", async () => {
    const never = {
      proof_request_probability: 0,
      proof_requirement_threshold: { denom: "upokt", amount: "1000000000" },
    };
    await using rig = await SupplierRig.start({ params: { proof: never } });
    const header = await rig.serve(3);
    await rig.reach(22n);
    const { outcome, isProofRequired, provenHeightBlocks } = rig.stateOf(header);
    assert.ok(outcome?.kind === "settled");
    assert.deepEqual([isProofRequired, provenHeightBlocks], [false, undefined]);
    const txs = await rig.running.client.searchTxs({ query: "tx.height>0", page: 1, perPage: 10, newestFirst: false });
    assert.equal(txs.total, 1n);
  });

  test("a proof is sent where the threshold or the chain's sample wants one, as the chain decides it", async () => {
    const names = Array.from({ length: 8 }, (_, i) => `app${i}`);
    const applications = Object.fromEntries(names.map((name) => [name, { service: "eth", gateways: ["gateway"] }]));
    const half = {
      proof_request_probability: 0.5,
      proof_requirement_threshold: { denom: "upokt", amount: "1000000000" },
    };
    await using rig = await SupplierRig.start({ params: { proof: half }, applications });
    const headers = [];
    for (const name of names) headers.push(await rig.serve(2, name));
    await rig.reach(22n);
    for (const header of headers) assert.equal(rig.stateOf(header).phase, "settled");
    const required = headers.filter((header) => rig.stateOf(header).isProofRequired);
    const proven = headers.filter((header) => rig.stateOf(header).provenHeightBlocks !== undefined);
    assert.deepEqual(proven, required);
  });

  test("a change of parameters in the middle of the window makes no proof necessary, and the claim is settled", async () => {
    const never = {
      proof_request_probability: 0,
      proof_requirement_threshold: { denom: "upokt", amount: "1000000000" },
    };
    await using rig = await SupplierRig.start({ params: { proof: never } });
    const header = await rig.serve(3);
    await rig.reach(17n);
    assert.equal(rig.stateOf(header).isProofRequired, false);
    const params = await rig.running.queries.proofParams({ fresh: true });
    assert.ok(params.ok);
    const update = createMessage(proof.MsgUpdateParamsSchema, {
      authority: moduleAddress("gov"),
      params: { ...params.value, proofRequestProbability: 1 },
    });
    const exec = createMessage(authz.MsgExecSchema, {
      grantee: chainParty("dao").address,
      msgs: [packAny(proof.MsgUpdateParamsSchema, update)],
    });
    const { client } = rig.running;
    const signed = await client.sign(chainParty("dao"), [packAny(authz.MsgExecSchema, exec)]);
    assert.equal((await client.broadcast(signed)).code, 0);
    await rig.reach(20n);
    // The supplier tries, as the main network would ask for it; this chain decides by the window's seed.
    assert.deepEqual([rig.stateOf(header).isProofRequired, rig.stateOf(header).phase], [true, "claimed"]);
    await rig.reach(22n);
    assert.equal(rig.stateOf(header).phase, "settled");
  });

  test("attack: a threshold of proofs that is no amount is no fault: what is not known is asked again, and proven", async () => {
    const errors: string[] = [];
    await using rig = await SupplierRig.start(PROVE_ALL, { log: listening(errors) });
    const header = await rig.serve(3);
    const { queries } = rig.running;
    const proofParams = queries.proofParams.bind(queries);
    const coin = createMessage(base.CoinSchema, { denom: "upokt", amount: "much" });
    let lies = 0;
    queries.proofParams = async (...options) => {
      const answer = await proofParams(...options);
      if (!answer.ok || rig.chain.heightBlocks >= 17n) return answer;
      lies++;
      return { ok: true, value: { ...answer.value, proofRequirementThreshold: coin, proofSubmissionFee: coin } };
    };
    await rig.reach(16n);
    assert.ok(lies > 0);
    assert.deepEqual(errors, []);
    assert.deepEqual([rig.stateOf(header).phase, rig.stateOf(header).isProofRequired], ["claimed", undefined]);
    await rig.reach(22n);
    assert.equal(rig.stateOf(header).outcome?.kind, "settled");
    assert.notEqual(rig.stateOf(header).provenHeightBlocks, undefined);
  });

  test("compute units, difficulty and prices that change in the middle of a session are for later ones", async () => {
    await using rig = await SupplierRig.start(PROVE_ALL);
    const first = await rig.serve(2);
    const owner = chainParty("service-owner");
    const message = createMessage(service.MsgAddServiceSchema, {
      ownerAddress: owner.address,
      service: { id: "eth", name: "eth", computeUnitsPerRelay: 7n, ownerAddress: owner.address },
    });
    const { client } = rig.running;
    const signed = await client.sign(owner, [packAny(service.MsgAddServiceSchema, message)]);
    assert.equal((await client.broadcast(signed)).code, 0);
    await rig.block();
    assert.equal((await rig.serve(1)).sessionId, first.sessionId);
    await rig.reach(7n);
    const second = await rig.serve(4);
    await rig.reach(28n);
    const of = (header: SessionHeader) => [rig.stateOf(header).phase, rig.stateOf(header).claim?.computeUnits];
    assert.deepEqual(
      [of(first), of(second)],
      [
        ["settled", 300n],
        ["settled", 28n],
      ],
    );
  });

  test("a state file that cannot be written stops neither that session's transactions nor those of others", async () => {
    const names = ["app", "app2", "app3"];
    const applications = Object.fromEntries(names.map((name) => [name, { service: "eth", gateways: ["gateway"] }]));
    const errors: string[] = [];
    await using rig = await SupplierRig.start({ ...PROVE_ALL, applications }, { log: listening(errors) });
    const headers: SessionHeader[] = [];
    for (const name of names) headers.push(await rig.serve(2, name));
    const [unsealed, unnoted, healthy] = headers;
    assert.ok(unsealed !== undefined && unnoted !== undefined && healthy !== undefined);
    // A folder in the place of the draft: the state file cannot be replaced.
    const draft = ({ sessionId }: SessionHeader): string =>
      `${rig.folder}/${chainParty("supplier").address}/000000000006-${sessionId}/session.json.tmp`;
    await mkdir(draft(unsealed));
    await rig.reach(7n);
    await rig.running.store.session(rig.running.operator, unnoted.sessionId)?.seal();
    await mkdir(draft(unnoted));
    await rig.reach(9n);
    // A root that is not on the disk is not claimed.
    assert.deepEqual([rig.stateOf(unsealed).phase, rig.stateOf(unsealed).claim], ["open", undefined]);
    const claims = await rig.running.queries.claims(rig.running.operator);
    assert.ok(claims.ok);
    assert.deepEqual(
      new Set(claims.value.claims.map(({ sessionHeader }) => sessionHeader?.sessionId)),
      new Set([unnoted.sessionId, healthy.sessionId]),
    );
    await rm(draft(unsealed), { recursive: true });
    await rig.reach(17n);
    assert.equal(rig.stateOf(unsealed).phase, "proven");
    assert.equal(rig.stateOf(healthy).phase, "proven");
    await rm(draft(unnoted), { recursive: true });
    await rig.reach(22n);
    for (const header of headers) assert.equal(rig.stateOf(header).phase, "settled");
    assert.ok(errors.includes("the state of a session cannot be written down"));
  });

  test("relays that no supplier of the session served keep no others from being claimed", async () => {
    const errors: string[] = [];
    const log = listening(errors);
    await using rig = await SupplierRig.start(PROVE_ALL, { log });
    const header = await rig.serve(2);
    const { store, operator } = rig.running;
    const wrong = { ...header, sessionId: "00".repeat(32) };
    const [relay] = rig.relays(wrong, 1);
    assert.equal(
      await store.append({ operatorAddress: operator, header: wrong, relay: relay ?? assert.fail() }),
      "mined",
    );
    await rig.reach(22n);
    assert.equal(rig.stateOf(header).phase, "settled");
    const { outcome } = rig.stateOf(wrong);
    assert.ok(outcome?.kind === "lost" && outcome.why === "claim-window-missed");
    assert.ok(errors.includes("the chain refuses a claim or proof"));
  });

  test("a claim that is worth less than its fees is made, unless the operator does not want it", async () => {
    const dear = { claims: { feeFor: () => [{ denom: "upokt", amount: 3_000n }] } };
    for (const skipUnprofitableClaims of [false, true]) {
      await using rig = await SupplierRig.start(PROVE_ALL, { claims: { ...dear.claims, skipUnprofitableClaims } });
      const header = await rig.serve(1);
      await rig.reach(22n);
      const { outcome } = rig.stateOf(header);
      const ended = outcome?.kind === "lost" ? outcome.why : outcome?.kind;
      assert.equal(ended, skipUnprofitableClaims ? "unprofitable" : "settled");
    }
  });

  test("an operator without coins is reported, and claims as soon as it has some", async () => {
    const errors: string[] = [];
    const log = listening(errors);
    await using rig = await SupplierRig.start({ ...PROVE_ALL, balances: { supplier: 0n } }, { log });
    const header = await rig.serve(3);
    await rig.reach(10n);
    assert.equal(rig.stateOf(header).phase, "sealed");
    assert.ok(errors.some((text) => text.startsWith("an operator's coins run out")));
    const message = createMessage(bank.MsgSendSchema, {
      fromAddress: chainParty("faucet").address,
      toAddress: chainParty("supplier").address,
      amount: [{ denom: "upokt", amount: "100" }],
    });
    const { client } = rig.running;
    const signed = await client.sign(chainParty("faucet"), [packAny(bank.MsgSendSchema, message)]);
    assert.equal((await client.broadcast(signed)).code, 0);
    await rig.reach(22n);
    assert.equal(rig.stateOf(header).phase, "settled");
  });

  test("relays in flight are waited for, and one that comes too late is refused", async () => {
    await using rig = await SupplierRig.start(PROVE_ALL);
    const header = await rig.serve(1);
    const { store, operator } = rig.running;
    const [soon, late] = [await store.begin(operator, header), await store.begin(operator, header)];
    assert.ok(soon.ok && late.ok);
    await rig.reach(10n);
    assert.equal(rig.stateOf(header).phase, "open");
    const [first, second] = rig.relays(header, 2);
    assert.ok(first !== undefined && second !== undefined);
    assert.equal(await soon.relay.append(first), "mined");
    soon.relay[Symbol.dispose]();
    await rig.reach(12n);
    assert.equal(rig.stateOf(header).phase, "sealed");
    assert.equal(await late.relay.append(second), "sealed");
    await rig.reach(22n);
    const { outcome } = rig.stateOf(header);
    assert.ok(outcome?.kind === "settled" && outcome.settledUpokt === 8_400n);
  });

  test("relays that are damaged after they were sealed are left out of a claim that was not made yet", async () => {
    await using rig = await SupplierRig.start(PROVE_ALL);
    const header = await rig.serve(3);
    await rig.reach(7n);
    await rig.running.store.session(rig.running.operator, header.sessionId)?.seal();
    await rig.stopSupplier();
    const folder = `${rig.folder}/${chainParty("supplier").address}/000000000006-${header.sessionId}`;
    const bytes = await readFile(`${folder}/relays.log`);
    bytes[bytes.length - 5] = (bytes.at(-5) ?? 0) ^ 1;
    await writeFile(`${folder}/relays.log`, bytes);
    await rig.startSupplier();
    await rig.reach(22n);
    const { outcome } = rig.stateOf(header);
    assert.ok(outcome?.kind === "settled" && outcome.settledUpokt === 8_400n);
  });

  test("a claim that its application cannot pay is settled for less, and both sums are reported", async () => {
    await using rig = await SupplierRig.start({
      ...PROVE_ALL,
      applications: { app: { service: "eth", gateways: ["gateway"], stakeUpokt: 100_000n } },
      params: { ...PROVE_ALL.params, application: { min_stake: { denom: "upokt", amount: "1" } } },
    });
    const header = await rig.serve(12);
    await rig.reach(22n);
    const { outcome, claim } = rig.stateOf(header);
    assert.ok(outcome?.kind === "settled");
    assert.equal(claim?.expectedUpokt, 12n * 4_200n);
    assert.equal(outcome.claimedUpokt, 12n * 4_200n);
    assert.ok(outcome.settledUpokt < outcome.claimedUpokt, `${outcome.settledUpokt}`);
  });

  test("it ends at once, also while a node that says nothing is asked", async () => {
    await using rig = await SupplierRig.start(PROVE_ALL);
    await rig.serve(1);
    await rig.reach(7n);
    const { client, runner, queries } = rig.running;
    const asked = Promise.withResolvers<void>();
    const silent = (signal?: AbortSignal): Promise<never> => {
      asked.resolve();
      return new Promise((_, reject) => {
        signal?.addEventListener("abort", () => reject(new TypeError("aborted")));
      });
    };
    queries.claims = (_, signal) => silent(signal);
    client.simulate = (_, signal) => silent(signal);
    await rig.chain.produce();
    await asked.promise;
    await runner[Symbol.asyncDispose]();
  });

  test("a session whose log is gone after it was sealed is not claimed: a claim without a proof costs a penalty", async () => {
    await using rig = await SupplierRig.start(PROVE_ALL);
    const header = await rig.serve(3);
    await rig.reach(7n);
    await rig.running.store.session(rig.running.operator, header.sessionId)?.seal();
    await rig.stopSupplier();
    await rm(`${rig.folder}/${chainParty("supplier").address}/000000000006-${header.sessionId}/relays.log`);
    await rig.startSupplier();
    await rig.reach(10n);
    const { outcome } = rig.stateOf(header);
    assert.ok(outcome?.kind === "lost" && outcome.why === "evidence-damaged");
    const claims = await rig.running.queries.claims(rig.running.operator);
    assert.ok(claims.ok && claims.value.claims.length === 0);
  });
});
