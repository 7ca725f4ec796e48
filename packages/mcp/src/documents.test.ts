import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { gzipSync } from "node:zlib";
import { isAppError } from "@turnpike/base";
import { virtualClock } from "@turnpike/testkit";
import { service, startStandInGateway } from "../test/gateway.ts";
import { GatewayDocuments } from "./documents.ts";

const json = (value: unknown): Response => new Response(JSON.stringify(value));

/** Documents of a gateway that answers each request as the test says. */
function documentsOf(answer: (path: string) => Response | Promise<Response>) {
  const clock = virtualClock();
  const paths: string[] = [];
  const fetch = async (input: unknown): Promise<Response> => {
    const path = new URL(String(input)).pathname;
    paths.push(path);
    return answer(path);
  };
  const documents = new GatewayDocuments({ gateway: "http://g" }, { clock, fetch: fetch as typeof globalThis.fetch });
  return { documents, clock, paths };
}

/** A route of `eth` whose request has this schema. */
const described = (schema: unknown, schemas: Record<string, unknown>) => ({
  paths: { "/v1/eth": { post: { requestBody: { content: { "application/json": { schema } } } } } },
  components: { schemas },
});

suite("documents of a gateway", () => {
  test("a list is read once for each version of its bytes", async () => {
    let list = [service("eth", {})];
    const { documents, clock, paths } = documentsOf(() => json(list));
    const first = await documents.services();
    assert.equal(await documents.services(), first, "the same value, not another one of the same text");
    clock.advance(20_000);
    assert.equal(await documents.services(), first, "the same bytes are not read again");
    assert.equal(paths.length, 2);
    list = [...list, service("base", {})];
    clock.advance(20_000);
    const second = await documents.services();
    assert.deepEqual(
      second.map(({ id }) => id),
      ["eth", "base"],
    );
    assert.equal(paths.length, 3);
  });

  test("a route is filled in once for each version of the description", async () => {
    const { documents, clock } = documentsOf(() =>
      json(described({ $ref: "#/components/schemas/A" }, { A: { a: 1 } })),
    );
    const first = await documents.route("eth");
    assert.deepEqual(first?.request, { a: 1 });
    assert.equal(await documents.route("eth"), first);
    clock.advance(400_000);
    assert.equal(await documents.route("eth"), first);
    assert.equal(await documents.route("none"), undefined);
  });

  test("attack: references to objects of many members, each to the next, fill in no more than the bound", async () => {
    const schemas: Record<string, unknown> = {};
    for (let at = 0; at < 12; at++) {
      const members = Array.from({ length: 20_000 }, (_, n) => [`m${n}`, n] as const);
      schemas[`S${at}`] = { next: { $ref: `#/components/schemas/S${at + 1}` }, ...Object.fromEntries(members) };
    }
    const { documents } = documentsOf(() => json(described({ $ref: "#/components/schemas/S0" }, schemas)));
    const route = await documents.route("eth");
    assert.ok(JSON.stringify(route?.request).length < 300_000, `${JSON.stringify(route?.request).length} characters`);
  });

  test("attack: references that double, that are long, and texts that are copied stay within the bound", async () => {
    const doubling: Record<string, unknown> = {};
    for (let at = 0; at < 11; at++) {
      const reference = { $ref: `#/components/schemas/S${at + 1}` };
      doubling[`S${at}`] = { a: reference, b: reference, c: reference, d: reference };
    }
    doubling.S11 = { description: "x".repeat(100_000) };
    const long = { $ref: `#/${"components/".repeat(100_000)}` };
    for (const [schema, schemas] of [
      [{ $ref: "#/components/schemas/S0" }, doubling],
      [Array.from({ length: 4_000 }, () => ({ $ref: "#/components/schemas/S11" })), doubling],
      [Array.from({ length: 4_000 }, () => long).slice(0, 10), {}],
      [{ [`k${"x".repeat(1_000_000)}`]: 1, [`l${"x".repeat(1_000_000)}`]: 1 }, {}],
    ] as const) {
      const { documents } = documentsOf(() => json(described(schema, schemas)));
      const length = JSON.stringify((await documents.route("eth"))?.request).length;
      assert.ok(length < 500_000, `${length} characters`);
    }
  });

  test("attack: a document that is too large, too deep, of too many values, or cut is refused", async () => {
    const deep = `${'[{"a":'.repeat(5_000)}1${"}]".repeat(5_000)}`;
    for (const [text, code] of [
      [`["${"x".repeat(5_000_000)}"]`, "ANSWER_TOO_LARGE"],
      [deep, "GATEWAY_UNREACHABLE"],
      [`[${"0,".repeat(1_000_000)}0]`, "ANSWER_TOO_LARGE"],
      ['[{"id":"eth"', "GATEWAY_UNREACHABLE"],
    ] as const) {
      const { documents } = documentsOf(() => new Response(text));
      await assert.rejects(documents.services(), (error) => isAppError(error, code), text.slice(0, 20));
    }
  });

  test("attack: a list of 60 KB that is 40 MB after decompression is refused", async () => {
    await using gateway = await startStandInGateway();
    const bomb = gzipSync(Buffer.from(`[${'{"id":"eth"},'.repeat(3_000_000)}{}]`));
    assert.ok(bomb.length < 150_000, `${bomb.length}`);
    gateway.onDocument = (_, response) => {
      response.writeHead(200, { "content-encoding": "gzip" }).end(bomb);
      return true;
    };
    const documents = new GatewayDocuments({ gateway: gateway.url }, { clock: virtualClock() });
    await assert.rejects(documents.services(), (error) => isAppError(error, "ANSWER_TOO_LARGE"));
  });

  test("attack: a list in more than one content coding is not decoded", async () => {
    await using gateway = await startStandInGateway();
    gateway.onDocument = (_, response) => {
      response.writeHead(200, { "content-encoding": "gzip, gzip" }).end(gzipSync(gzipSync("[]")));
      return true;
    };
    const documents = new GatewayDocuments({ gateway: gateway.url }, { clock: virtualClock() });
    await assert.rejects(documents.services(), (error) => isAppError(error, "GATEWAY_UNREACHABLE"));
  });
});
