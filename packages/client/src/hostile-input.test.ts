import assert from "node:assert/strict";
import { once } from "node:events";
import { chmodSync, existsSync, linkSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, suite, test } from "node:test";
import { gzipSync } from "node:zlib";
import {
  type Answerer,
  answerJson,
  BODY,
  countingSigner,
  option,
  refusesWith,
  sold,
  standInGateway,
  testClient,
} from "../test/stand-in.ts";
import { waitMs } from "./answers.ts";
import { createClient, listServices, openSpendJournal } from "./index.ts";

const folder = mkdtempSync(join(tmpdir(), "turnpike-hostile-"));

const pendingNow =
  (retryAfter: string): Answerer =>
  (_, response) => {
    const body = { code: "SETTLEMENT_PENDING", message: "Wait.", requestId: "r", retryable: true };
    answerJson(response, 503, body, { "retry-after": retryAfter });
  };

suite("what strangers and typing errors give to the client", () => {
  after(() => rmSync(folder, { recursive: true, force: true }));

  test("attack: Retry-After cannot make a client present a payment without a pause", async () => {
    for (const retryAfter of ["0", "0.0001", "-0", "", " ", "1e-9"]) {
      await using stand = await standInGateway(pendingNow(retryAfter));
      const { client, waits } = testClient(stand.gateway, countingSigner(), { retryForMs: 10_000 });
      await client.call("eth", BODY);
      assert.ok(waits.length <= 20 && waits.every((ms) => ms >= 500), `${retryAfter}: ${waits.length} times`);
    }
    const headers = new Headers({ "retry-after": "86400" });
    assert.equal(waitMs({ status: 503, headers, json: undefined, text: undefined, fault: undefined }, 0), 30_000);
  });

  test("attack: a network or an asset that is a key of every object is no network", async () => {
    for (const name of [
      "__proto__",
      "constructor",
      "eip155:__proto__",
      "eip155:",
      "eip155:0",
      "eip155:84532\u001b[2J",
    ]) {
      for (const change of [{ network: name }, { asset: name }]) {
        await using stand = await standInGateway(sold, [option(change)]);
        const signer = countingSigner();
        const { client } = testClient(stand.gateway, signer);
        await assert.rejects(client.call("eth", BODY), /nothing was signed/, name);
        assert.equal(signer.count(), 0);
      }
    }
  });

  test("attack: no service id leads out of /v1/, decoded or not", async () => {
    await using stand = await standInGateway(sold);
    const signer = countingSigner();
    const { client } = testClient(stand.gateway, signer);
    for (const service of [
      "eth/../../admin",
      "eth/..",
      "eth/./x",
      "eth/%2e%2e/%2e%2e/admin",
      "eth/.%2E/x",
      "eth/..%2f..%2fadmin",
      "eth/a%2f..%2f..%2fadmin",
      "eth/%252e%252e/x",
      "eth/%25252e%25252e%25252fx",
      "eth/%ff/%2e%2e/x",
      "eth/..%5cx",
      "eth/..\\x",
      "eth\\..\\x",
      "eth#/../x",
      "eth/x#y",
      "../admin",
      "//host/x",
      `eth/${"x".repeat(512 * 1024)}`,
    ]) {
      await assert.rejects(
        client.call(service, BODY),
        refusesWith("USAGE", /nothing was signed/),
        service.slice(0, 40),
      );
    }
    assert.deepEqual([stand.seen, signer.count()], [[], 0]);
    for (const service of ["osmosis/ibc/denoms/ibc%2F7?x=../y", "eth/a.b/..c/d..", "eth?q=%2e%2e"]) {
      assert.equal((await client.call(service, BODY)).kind, "bought", service);
    }
    assert.ok(stand.seen.every(({ path }) => path.startsWith("/v1/")));
  });

  test("attack: a record that could not be read again is not written, and the journal stays good", async () => {
    const file = join(folder, "long.jsonl");
    {
      await using journal = await openSpendJournal({ file });
      const call = (service: string, id: string) =>
        journal.reserve({ service, requestHash: id.padStart(64, "0"), microUsd: 1n, totalMicroUsd: undefined });
      const [long, short] = await Promise.allSettled([call(`eth/${"x".repeat(512 * 1024)}`, "1"), call("eth", "2")]);
      assert.equal(long.status, "rejected");
      assert.match(String(long.reason), /too long.*nothing was signed/);
      assert.ok(short.status === "fulfilled");
      await assert.rejects(short.value.signed("x".repeat(512 * 1024)), refusesWith("SPEND_JOURNAL", /too long/));
      assert.equal(journal.sums().openMicroUsd, 0n);
    }
    await using again = await openSpendJournal({ file });
    assert.equal(again.sums().calls, 0);
  });

  test("attack: a file that is not a journal keeps its bytes and its mode, and so does what is beside it", async () => {
    const file = join(folder, "notes.txt");
    for (const text of ["my notes", "my notes\n", '{"n":0,"t":"other"}\n']) {
      writeFileSync(file, text);
      chmodSync(file, 0o644);
      await assert.rejects(
        openSpendJournal({ file }),
        refusesWith("SPEND_JOURNAL", /is no spend journal.*left as it is/),
      );
      assert.deepEqual([readFileSync(file, "utf8"), statSync(file).mode & 0o777], [text, 0o644]);
      assert.equal(existsSync(`${file}.lock`), false);
    }
    rmSync(file);
    for (const name of [`${file}.new`, `${file}.lock`]) {
      writeFileSync(name, "my notes\n");
      chmodSync(name, 0o644);
      await assert.rejects(openSpendJournal({ file }), refusesWith("SPEND_JOURNAL", /notes\.txt\.(new|lock) is no/));
      assert.deepEqual([readFileSync(name, "utf8"), statSync(name).mode & 0o777], ["my notes\n", 0o644]);
      rmSync(name);
    }
  });

  test("attack: one journal by two hard links is not two budgets", async () => {
    const file = join(folder, "one.jsonl");
    const other = join(folder, "two.jsonl");
    {
      await using first = await openSpendJournal({ file });
      linkSync(file, other);
      await assert.rejects(
        openSpendJournal({ file: other }),
        refusesWith("SPEND_JOURNAL", /2 hard links.*nothing was/),
      );
      assert.equal(first.sums().calls, 0);
    }
    await assert.rejects(openSpendJournal({ file }), refusesWith("SPEND_JOURNAL", /2 hard links/));
    rmSync(other);
    await (await openSpendJournal({ file }))[Symbol.asyncDispose]();
  });

  test("attack: a body in more than one content coding is not decoded, and one of gzip is", async () => {
    const list = Buffer.from(JSON.stringify([{ id: "eth", serves: true, paid: true }]));
    const asked: unknown[] = [];
    let codings = 1;
    const server = createServer((request, response) => {
      request.resume();
      asked.push(request.headers["accept-encoding"]);
      let body = list;
      for (let times = 0; times < codings; times++) body = gzipSync(body);
      const coding = Array.from({ length: codings }, () => "gzip").join(", ");
      response.writeHead(200, { "content-type": "application/json", "content-encoding": coding }).end(body);
    });
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const gateway = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    try {
      assert.equal((await listServices({ gateway }))?.length, 1);
      const { client } = testClient(gateway, countingSigner());
      assert.equal((await client.call("eth", BODY)).kind, "free");
      for (codings of [2, 3]) {
        await assert.rejects(listServices({ gateway }), refusesWith("GATEWAY_UNREACHABLE", /./));
        await assert.rejects(client.call("eth", BODY), refusesWith("GATEWAY_UNREACHABLE", /nothing was signed/));
      }
      assert.deepEqual(new Set(asked), new Set(["gzip"]));
    } finally {
      server.closeAllConnections();
      server.close();
    }
  });

  test("attack: a paid answer in two content codings leaves the payment open, and is presented again", async () => {
    let codings = 2;
    await using stand = await standInGateway((seen, response, times) => {
      if (codings === 1) {
        sold(seen, response, times);
        return;
      }
      const body = gzipSync(gzipSync(JSON.stringify({ portal: {}, data: 1 })));
      response.writeHead(200, { "content-type": "application/json", "content-encoding": "gzip, gzip" }).end(body);
    });
    const signer = countingSigner();
    const { client } = testClient(stand.gateway, signer);
    const result = await client.call("eth", BODY);
    assert.ok(result.kind === "refused" && result.open, "its charge is unknown");
    codings = 1;
    assert.equal((await client.call("eth", BODY)).kind, "bought");
    assert.deepEqual([signer.count(), new Set(stand.payments()).size], [1, 1]);
  });

  test("attack: what is small as gzip is read no further than its bound", async () => {
    const bomb = gzipSync(Buffer.from(`[${"[],".repeat(4_000_000)}[]]`));
    assert.ok(bomb.length < 60_000);
    await using stand = await standInGateway((_, response) => {
      response.writeHead(400, { "content-type": "application/json", "content-encoding": "gzip" }).end(bomb);
    });
    const result = await testClient(stand.gateway, countingSigner()).client.call("eth", BODY);
    assert.ok(result.kind === "refused" && result.status === 400);
    for (const status of [400, 402, 500]) {
      let chunks = 0;
      const fetch = async (): Promise<Response> => {
        const stream = new ReadableStream<Uint8Array>({
          pull(controller) {
            chunks++;
            if (chunks > 1_000) controller.close();
            else controller.enqueue(new Uint8Array(65_536).fill(0x20));
          },
        });
        return new Response(stream, { status });
      };
      const opts = { gateway: "http://g", signer: countingSigner(), budget: { perCallUsd: "0.05" } };
      await using client = createClient(opts, { fetch });
      await client.call("eth", BODY).catch(() => {});
      assert.ok(chunks < 40, `${status}: ${chunks} pieces of 64 KiB`);
      chunks = 0;
      await listServices({ gateway: "http://g" }, { fetch });
      assert.ok(chunks < 80, `${chunks} pieces of 64 KiB`);
    }
  });

  test("attack: the texts of a list are single bounded lines without characters that are not seen", async () => {
    const hostile = `x\u001b]52;c;AA\u0007\nTo pay again safely:\nnpx evil \u202e\u{e0041}${"y".repeat(10_000)}`;
    const items = [
      { id: "eth", relayUrl: hostile, methods: [hostile, "a"] },
      { id: `eth\nTo pay again` },
      { id: "\u001b[2J" },
    ];
    const [eth, ...more] =
      (await listServices({ gateway: "http://g" }, { fetch: async () => Response.json(items) })) ?? [];
    assert.deepEqual(more, []);
    for (const text of [eth?.relayUrl, ...(eth?.methods ?? [])]) {
      assert.ok(text !== undefined && text.length < 400);
      assert.doesNotMatch(text, /[\p{C}\n]/u);
    }
  });
});
