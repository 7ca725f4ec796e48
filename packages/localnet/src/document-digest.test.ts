import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { request } from "node:http";
import { after, before, suite, test } from "node:test";
import { anyCodePoint } from "@turnpike/testkit/arbitrary";
import { fc } from "@turnpike/testkit/property";
import {
  createDocumentDigest,
  DIGEST_ALGORITHMS,
  type DocumentDigestServer,
  digestDocument,
} from "./document-digest.ts";

suite("document digest", () => {
  let server: DocumentDigestServer;
  before(async () => {
    server = await createDocumentDigest();
  });
  after(() => server?.[Symbol.asyncDispose]());
  const post = async (body: string | Uint8Array<ArrayBuffer>) => {
    const response = await fetch(server.url, { method: "POST", body });
    return { status: response.status, value: (await response.json()) as unknown };
  };

  test("counts and digests", async () => {
    const text = "Grüße,\nWelt 😀\n";
    const { status, value } = await post(JSON.stringify({ text, algorithms: ["sha256", "sha3-256"] }));
    assert.equal(status, 200);
    assert.deepEqual(value, {
      bytes: Buffer.byteLength(text),
      characters: 14,
      words: 3,
      lines: 2,
      digests: {
        sha256: createHash("sha256").update(text).digest("hex"),
        "sha3-256": createHash("sha3-256").update(text).digest("hex"),
      },
    });
    assert.equal(
      digestDocument("abc", ["sha256"]).digests.sha256,
      "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
    );
    assert.deepEqual(Object.keys(digestDocument("a", DIGEST_ALGORITHMS).digests), [...DIGEST_ALGORITHMS]);
  });

  test("the longest text passes in any spelling, one character more does not", async () => {
    const spelled = (count: number): string => `{"text":"${"\\ud83d\\ude00".repeat(count)}"}`;
    assert.equal((await post(spelled(65_536))).status, 200);
    assert.equal((await post(spelled(65_537))).status, 400);
    assert.equal((await post(JSON.stringify({ text: "x".repeat(65_537) }))).status, 400);
    const large = await post(JSON.stringify({ text: "x".repeat(1_000_000) }));
    assert.equal(large.status, 413);
  });

  test("attack: a web page of another origin, and one whose name was pointed here, get 403", async () => {
    for (const headers of [{ origin: "https://evil.example" }, { host: "evil.example" }]) {
      const { promise: status, resolve, reject } = Promise.withResolvers<number | undefined>();
      const asked = request(server.url, { method: "POST", headers }, (response) => {
        response.resume();
        resolve(response.statusCode);
      });
      asked.once("error", reject);
      asked.end('{"text":"a"}');
      assert.equal(await status, 403, JSON.stringify(headers));
    }
  });

  test("property: any body gets 200 or 400, never anything else", async () => {
    const body = fc.oneof(
      fc.json(),
      fc.string(),
      fc
        .record({
          text: fc.string({ unit: anyCodePoint }),
          algorithms: fc.array(fc.constantFrom(...DIGEST_ALGORITHMS, "md5")),
        })
        .map((value) => JSON.stringify(value)),
    );
    await fc.assert(
      fc.asyncProperty(body, async (text) => {
        const { status } = await post(text);
        assert.ok(status === 200 || status === 400, `${status} for ${text}`);
      }),
      { numRuns: 200 },
    );
  });

  test("other verbs and paths are refused, and a body that lies about its length ends the connection", async () => {
    assert.equal((await fetch(server.url)).status, 405);
    assert.equal((await fetch(`${server.url}/x`, { method: "POST", body: "{}" })).status, 404);
    assert.equal((await fetch(`${server.url}/health`)).status, 200);
    const code = await new Promise((resolve) => {
      const sent = request(server.url, { method: "POST", headers: { "content-length": "100" } });
      sent.on("error", () => resolve("closed"));
      sent.on("response", (response) => resolve(response.statusCode));
      sent.write("{}");
      setImmediate(() => sent.destroy());
    });
    assert.equal(code, "closed");
    assert.equal((await post('{"text":"still here"}')).status, 200);
  });
});
