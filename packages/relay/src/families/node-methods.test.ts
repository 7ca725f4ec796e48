import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { suite, test } from "node:test";
import { createCatalogue, type Service } from "@turnpike/catalogue";
import { fc } from "@turnpike/testkit/property";
import { isDenied } from "./denied.ts";
import { parseFreePath, parseFreeRpc } from "./free-call.ts";

/** What one kind of node software offers; see `test/spec/node-methods/README.md`. */
interface NodeMethods {
  readonly software: string;
  readonly family: string;
  readonly service: string;
  readonly source: string;
  readonly licence: string;
  readonly forwarded: readonly string[];
  readonly refused: readonly string[];
}

const FILE = new URL("../../../../test/spec/node-methods/methods.json", import.meta.url);
const TABLE = JSON.parse(readFileSync(FILE, "utf8")) as readonly NodeMethods[];
const { services } = createCatalogue({});

function serviceOf(id: string): Service {
  const service = services.get(id as never);
  assert.ok(service !== undefined, id);
  return service;
}

/** True when the free relay makes a call of it; a path by both verbs. */
function isForwarded(service: Service, name: string): boolean {
  if (!name.startsWith("/")) {
    const body = Buffer.from(JSON.stringify({ jsonrpc: "2.0", id: 1, method: name }));
    const rpc = { method: name, params: undefined, body, bodyText: undefined, paramsSpan: undefined, isPlain: false };
    return parseFreeRpc(service, { ...rpc, id: undefined, rawId: "1" }).ok;
  }
  const path = name.replaceAll(/\{[^}]+\}/g, "7");
  const input = { path, query: "", body: Buffer.from("{}") };
  const verdicts = (["GET", "POST"] as const).map((verb) => parseFreePath(service, { ...input, verb }).ok);
  assert.equal(new Set(verdicts).size, 1, `${service.id} ${name}: one verb alone is refused`);
  return verdicts[0] === true;
}

/** Verbs by which node software names what changes a node, or what waits in it. */
const CONTROL =
  /^(?:add|ban|chaindb|clear|close|connect|delete|dial|disconnect|drop|dump|encrypt|flush|free|generate|import|insert|invalidate|kill|load|lock(?!ed)|migrate|mock|move|override|pause|ping|prune|put|reconsider|reload|remove|rescan|reset|restart|resume|resync|revert|save|set|shutdown|sign|standardTrace|start|stop|store|transfer|trigger|unban|unload|unlock|update|upgrade|wait|write)/i;

suite("every method of the field's node software", () => {
  test("what the table says is refused is refused, and what it says is forwarded is forwarded", () => {
    const wrong: string[] = [];
    for (const { software, service, forwarded, refused } of TABLE) {
      const of = serviceOf(service);
      for (const name of forwarded) if (!isForwarded(of, name)) wrong.push(`${software}: ${name} is refused`);
      for (const name of refused) if (isForwarded(of, name)) wrong.push(`${software}: ${name} is forwarded`);
    }
    assert.deepEqual(wrong, []);
  });

  test("no name is in both lists of its software, and each has a source and its licence", () => {
    for (const { software, source, licence, forwarded, refused } of TABLE) {
      assert.equal(new Set([...forwarded, ...refused]).size, forwarded.length + refused.length, software);
      assert.match(source, /\w/, software);
      assert.match(licence, /\w/, software);
    }
  });

  test("a method that begins with a verb of control is refused", () => {
    const methods = TABLE.flatMap(({ forwarded }) => forwarded).filter((name) => !name.startsWith("/"));
    assert.deepEqual(
      methods.filter((name) => CONTROL.test(name.slice(name.indexOf("_") + 1))),
      [],
    );
  });

  test("no spelling that a lenient reader folds gets through", () => {
    const spellings = (name: string): readonly string[] => [
      name.toUpperCase(),
      ` ${name}`,
      `${name}\u0000`,
      `${name.slice(0, 2)}\u200b${name.slice(2)}`,
    ];
    for (const { service, refused } of TABLE) {
      const of = serviceOf(service);
      for (const name of refused) {
        for (const one of spellings(name)) assert.ok(isDenied(of, one), `${service} ${JSON.stringify(one)}`);
      }
    }
  });
});

suite("methods that no table lists", () => {
  const word = fc.stringMatching(/^[a-zA-Z][a-zA-Z0-9]{0,30}$/);
  const isListed = (name: string): boolean =>
    TABLE.some(({ forwarded }) => forwarded.some((one) => one.toLowerCase() === name.toLowerCase()));

  test("debug, txpool, and namespaces that are named like an administration, are refused by default", () => {
    const eth = serviceOf("eth");
    const namespace = fc.oneof(
      fc.constantFrom("debug", "txpool", "arbdebug", "parity", "maintenance", "miner", "personal", "anvil", "hardhat"),
      fc
        .tuple(word, fc.constantFrom("admin", "debug", "internal", "maintenance", "sequencer", "validator"), word)
        .map((parts) => parts.join("")),
    );
    const known = new Set(["debug_codebyhash", "debug_seedhash"]);
    fc.assert(
      fc.property(namespace, word, (space, method) => {
        const name = `${space}_${method}`;
        fc.pre(!isListed(name) && !known.has(name.toLowerCase()) && !space.startsWith("parity"));
        assert.ok(isDenied(eth, name), name);
      }),
      { numRuns: 2_000 },
    );
  });

  test("all of a Bitcoin-style node is refused by default", () => {
    const bitcoin = serviceOf("bitcoin");
    fc.assert(
      fc.property(word, (name) => {
        fc.pre(!isListed(name));
        assert.ok(isDenied(bitcoin, name) || bitcoin.operations.has(name), name);
      }),
      { numRuns: 2_000 },
    );
  });

  test("what is for a beacon node's own validators, and all beside the standard paths, is refused by default", () => {
    const beacon = serviceOf("eth-beacon");
    const path = fc.oneof(
      fc.tuple(fc.constantFrom("v1", "v2", "v9"), word).map(([version, name]) => `/eth/${version}/validator/${name}`),
      word.map((name) => `/${name}/v1/health`),
    );
    fc.assert(
      fc.property(path, (name) => {
        fc.pre(!isListed(name) && !name.startsWith("/eth/v1/health"));
        assert.ok(!isForwarded(beacon, name), name);
      }),
      { numRuns: 1_000 },
    );
  });

  test("a segment's parameters do not hide a path", () => {
    for (const [id, path] of [
      ["tron", "/wallet/createaddress;x"],
      ["tron", "/wallet;x=1/getspendingkey"],
      ["eth-beacon", "/eth/v1/validator;a/register_validator"],
    ] as const) {
      assert.ok(!isForwarded(serviceOf(id), path), path);
    }
  });

  test("a name of megabytes is refused at once", () => {
    const name = `${"admin".repeat(200_000)}!`;
    assert.ok(isDenied(serviceOf("eth"), name));
    assert.ok(isDenied(serviceOf("eth"), "_".repeat(1_000_000)));
  });

  test("what an operator declares is forwarded, whatever its name", () => {
    const addOperations = [
      { name: "debug_myOwn", rpcType: "json_rpc", description: "A read of ours.", read: true },
    ] as const;
    const own = createCatalogue({ overrides: { eth: { addOperations } } }).services.get("eth" as never);
    assert.ok(own !== undefined && isForwarded(own, "debug_myOwn"));
    assert.ok(!isForwarded(serviceOf("eth"), "debug_myOwn"));
  });
});
