import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { buffer } from "node:stream/consumers";
import { after, before, suite, test } from "node:test";
import { bytesToHex } from "@turnpike/base";
import { decodeRingSignature } from "@turnpike/crypto";
import { proof } from "@turnpike/proto";
import { decodeRelayRequest, type SessionHeader } from "@turnpike/protocol";
import { readSupplyReport } from "@turnpike/supplier";
import { isProbe, probeResult, rpcAnswer, startEvmUpstream } from "@turnpike/testkit";
import { chainParty, startTestChain } from "@turnpike/testkit/chain";
import { balanceRequest, type Economy, ETH, startEconomy, startRelay, startSessions } from "../e2e/economy-rig.ts";
import { withoutGo } from "./go-programs.ts";
import { buildGoRelays, bytesOfHex, type GoOrder, type GoPayload, type GoRelays, goHeader } from "./go-relays.ts";

const OPERATOR = "interop running supplier";
const GATEWAYS = ["gateway", "interop second gateway"] as const;
const MEMBERS = ["app", ...GATEWAYS] as const;
const UPOKT_PER_RELAY = 4_200n;
/** Most blocks from a session to the settlement of its claim. */
const SETTLEMENT_BLOCKS = 30;

const publicHex = (name: string): string => bytesToHex(chainParty(name).publicKey);
const privateHex = (name: string): string => bytesToHex(chainParty(name).privateKey);
const ANSWER: GoPayload = {
  method: "",
  url: "",
  status: 200,
  headers: [["Content-Type", "application/json"]],
  body: "",
};

let calls = 0;
const callBody = (): string => {
  calls++;
  return bytesToHex(Buffer.from(`{"jsonrpc":"2.0","id":${calls},"method":"eth_gasPrice"}`));
};

/** A relay of a session that Go signs: for a ring of these members, by one of them. */
function orderOf(header: SessionHeader, ring: readonly string[], signer: string): GoOrder {
  return {
    header: goHeader(header),
    supplier: chainParty(OPERATOR).address,
    members: ring.map(publicHex),
    key: privateHex(signer),
    supplierKey: privateHex(OPERATOR),
    request: {
      method: "POST",
      url: "http://supplier.example:8549/",
      status: 0,
      headers: [["Content-Type", "application/json"]],
      body: callBody(),
    },
    response: ANSWER,
  };
}

function ordersOf<T>(items: readonly T[]): readonly (readonly T[])[] {
  if (items.length < 2) return [items];
  return items.flatMap((first, at) => ordersOf(items.toSpliced(at, 1)).map((rest) => [first, ...rest]));
}

/** The session of now, and where its supplier says that it serves it. */
async function sessionOf({ chain, queries }: Pick<Economy, "chain" | "queries">) {
  const found = await queries.session(chainParty("app").address, ETH, chain.heightBlocks);
  assert.ok(found.ok && found.value.header !== undefined);
  const { $typeName: _, ...header } = found.value.header;
  const url = found.value.suppliers[0]?.services[0]?.endpoints[0]?.url ?? assert.fail("the supplier has no address");
  return { header, url };
}

async function send(url: string, request: string): Promise<{ readonly status: number; readonly bytes: Buffer }> {
  const answer = await fetch(url, { method: "POST", body: bytesOfHex(request), headers: { "Rpc-Type": "3" } });
  return { status: answer.status, bytes: Buffer.from(await answer.arrayBuffer()) };
}

/** The bytes of a message in hex, with one bit changed where a part of it begins. */
function changedAt(message: string, part: Uint8Array): string {
  const bytes = Buffer.from(message, "hex");
  const at = bytes.indexOf(part);
  assert.ok(at > 0);
  bytes.writeUInt8(bytes.readUInt8(at) ^ 1, at);
  return bytes.toString("hex");
}

suite("relays between Go's libraries and our running parts", { skip: withoutGo, timeout: 400_000 }, () => {
  let go: GoRelays;
  before(() => {
    go = buildGoRelays();
  });
  after(() => go[Symbol.dispose]());

  const signed = async (orders: readonly GoOrder[]): Promise<readonly string[]> =>
    (await go.ask({ make: orders })).made.map(({ request }) => request);

  test("our supplier serves what ring-go signed, for any order of a ring within the session's members, and is paid for it; what is forged or foreign it refuses", async () => {
    await using node = await startEvmUpstream((asked, response) => response.end(rpcAnswer(asked, '"result":"0x7"')));
    await using economy = await startEconomy({
      operators: [OPERATOR],
      backends: { json_rpc: { url: node.url } },
      chain: {
        gateways: GATEWAYS,
        applications: { app: { service: ETH, gateways: GATEWAYS } },
        params: { proof: { proof_request_probability: 1 } },
      },
    });
    const { client, queries, stateFolder } = economy;
    const { header, url } = await sessionOf(economy);
    const stakeOf = async (): Promise<bigint> => {
      const found = await queries.application(chainParty("app").address, { fresh: true });
      return BigInt((found.ok ? found.value.stake?.amount : undefined) ?? assert.fail("the application has no stake"));
    };
    const before = await stakeOf();

    const rings: readonly (readonly string[])[] = [
      ...ordersOf(MEMBERS),
      [MEMBERS[2], MEMBERS[0]],
      [MEMBERS[1], MEMBERS[1]],
    ];
    const genuine = await signed(rings.map((ring, at) => orderOf(header, ring, ring[at % ring.length] ?? MEMBERS[0])));
    const answers: string[] = [];
    for (const [at, request] of genuine.entries()) {
      const { status, bytes } = await send(url, request);
      assert.equal(status, 200, `the ring ${rings[at]?.join()}: ${bytes.toString()}`);
      answers.push(bytes.toString("hex"));
    }
    const { responses } = await go.ask({
      responses: answers.map((bytes) => ({ bytes, key: publicHex(OPERATOR) })),
    });
    assert.equal(responses.length, rings.length);
    for (const [at, one] of responses.entries()) {
      assert.deepEqual([one.valid, one.hashed, one.again], [true, true, answers[at]], "the supplier's signature in Go");
      assert.deepEqual([one.header, one.payload.status], [goHeader(header), 200]);
      const { id, result } = JSON.parse(Buffer.from(one.payload.body, "hex").toString()) as Record<string, unknown>;
      assert.deepEqual([id, result], [at + 1, "0x7"]);
    }

    const own = (): GoOrder => orderOf(header, MEMBERS, "gateway");
    const later = { ...header, sessionId: bytesToHex(randomBytes(32)) };
    const [changed = "", bent = "", ...others] = await signed([
      own(),
      own(),
      orderOf(header, ["app", "stranger"], "stranger"),
      orderOf(header, ["stranger", "another stranger"], "stranger"),
      orderOf(header, [...MEMBERS, "stranger"], "gateway"),
      orderOf(later, MEMBERS, "gateway"),
      { ...own(), supplier: chainParty("another supplier").address },
    ]);
    const challenge = decodeRelayRequest(bytesOfHex(bent))?.signature.subarray(4, 36) ?? assert.fail();
    const bad = [changedAt(changed, Buffer.from("supplier.example")), changedAt(bent, challenge), ...others];
    const { requests } = await go.ask({ requests: bad });
    assert.deepEqual(
      requests.map(({ valid }) => valid),
      [false, false, true, true, true, true, true],
      "what strangers signed for a ring of their own is a signature, too",
    );
    const refusals: string[] = [];
    for (const request of [...bad, genuine[0] ?? ""]) {
      const { status, bytes } = await send(url, request);
      refusals.push(`${status} ${(JSON.parse(bytes.toString()) as { readonly error: string }).error}`);
    }
    const expected = [
      ...Array.from({ length: 5 }, () => /^403 relay validation failed: ring signature verification failed: /),
      /^403 relay validation failed: session ID mismatch, /,
      /^503 supplier pokt1\w+ not registered with any miner$/,
      /^403 relay validation failed: .*served before/,
    ];
    assert.equal(refusals.length, expected.length);
    for (const [at, pattern] of expected.entries()) assert.match(refusals[at] ?? "", pattern);
    const worked = node.calls.filter((call) => call.method === "eth_gasPrice");
    assert.equal(worked.length, rings.length, "nothing was worked on that was refused");

    const count = BigInt(rings.length);
    const relays = async () => (await readSupplyReport(stateFolder)).operators[0];
    let claimed = 0;
    for (let blocks = 0; blocks < SETTLEMENT_BLOCKS; blocks++) {
      await economy.step();
      const { claims } = await client.ask(proof.Query.method.allClaims, {});
      claimed = Math.max(claimed, claims.length);
      if ((await relays())?.all.relays.settled === count) break;
    }
    const all = (await relays())?.all ?? assert.fail("nothing was served");
    assert.equal(claimed, 1);
    assert.deepEqual(all.lost, {});
    assert.deepEqual(
      [all.relays.served, all.relays.claimed, all.relays.proven, all.relays.settled],
      [count, count, count, count],
    );
    assert.equal(all.upokt.settled, count * UPOKT_PER_RELAY);
    assert.ok(before - (await stakeOf()) >= count * UPOKT_PER_RELAY);
  });

  test("each relay that our gateway's sessions send verifies in ring-go, and an answer that Go signed is good to them", async () => {
    const relays: string[] = [];
    const faults: unknown[] = [];
    const answer = async (request: string): Promise<Uint8Array> => {
      const [asked = assert.fail()] = (await go.ask({ requests: [request] })).requests;
      const text = Buffer.from(asked.payload.body, "hex").toString();
      const { id, method, params } = JSON.parse(text) as { id: unknown; method: string; params: unknown };
      const result = isProbe({ method, params }) ? probeResult({ method }, "0x1", "0x64") : '"result":"0x7"';
      const body = bytesToHex(Buffer.from(`{"jsonrpc":"2.0","id":${JSON.stringify(id)},${result}}`));
      const order: GoOrder = {
        header: asked.header,
        supplier: asked.supplier,
        members: MEMBERS.map(publicHex),
        key: privateHex("gateway"),
        supplierKey: privateHex(OPERATOR),
        request: { ...ANSWER, method: "POST", url: "/" },
        response: { ...ANSWER, body },
      };
      const [made = assert.fail()] = (await go.ask({ make: [order] })).made;
      return bytesOfHex(made.response);
    };
    // Stands in for a supplier: it records the relays, and Go writes and signs their answers.
    const server = createServer((request, response) => {
      void buffer(request)
        .then((bytes) => {
          relays.push(bytes.toString("hex"));
          return answer(bytes.toString("hex"));
        })
        .then((bytes) => response.end(bytes))
        .catch((fault: unknown) => {
          faults.push(fault);
          response.writeHead(500).end();
        });
    });
    await using stack = new AsyncDisposableStack();
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    stack.defer(() => {
      server.closeAllConnections();
      server.close();
    });
    const { port } = server.address() as AddressInfo;
    const chain = stack.use(
      await startTestChain({
        suppliers: { [OPERATOR]: { services: [ETH], url: `http://127.0.0.1:${port}` } },
        gateways: GATEWAYS,
        applications: { app: { service: ETH, gateways: GATEWAYS } },
      }),
    );
    await chain.reach(2n);
    const gateway = stack.use(await startSessions(chain.rpcUrl));
    const relay = stack.use(await startRelay(gateway));
    const outcomes = await Promise.all(Array.from({ length: 5 }, () => relay.send(balanceRequest())));
    for (const outcome of outcomes) {
      assert.ok(outcome.ok, JSON.stringify(outcome));
      assert.match(Buffer.from(outcome.body).toString(), /"0x7"/);
    }
    assert.deepEqual(faults, []);

    const { header } = await sessionOf({ chain, queries: gateway.queries });
    const sent = [...relays];
    const { requests } = await go.ask({ requests: sent });
    assert.ok(requests.length >= outcomes.length);
    const ring = MEMBERS.map(publicHex).sort();
    for (const [at, one] of requests.entries()) {
      assert.deepEqual([one.valid, one.again], [true, sent[at]], "the ring signature in Go");
      assert.deepEqual([one.header, one.supplier], [goHeader(header), chainParty(OPERATOR).address]);
      const { signature } = decodeRelayRequest(bytesOfHex(one.again)) ?? assert.fail();
      assert.deepEqual(decodeRingSignature(signature)?.members.map(bytesToHex), ring);
    }
    const methods = requests.map(({ payload }) => Buffer.from(payload.body, "hex").toString());
    assert.equal(methods.filter((text) => text.includes("eth_getBalance")).length, outcomes.length);
    assert.ok((gateway.counted.get("answered") ?? 0n) >= BigInt(outcomes.length));
  });
});
