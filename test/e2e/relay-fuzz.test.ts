import assert from "node:assert/strict";
import { once } from "node:events";
import { Agent, type IncomingMessage, request } from "node:http";
import { text } from "node:stream/consumers";
import { after, before, suite, test } from "node:test";
import { jsonElementSpans, jsonMemberSpans, skipJsonSpace } from "@turnpike/base";
import { anyCodePoint } from "@turnpike/testkit/arbitrary";
import { fc } from "@turnpike/testkit/property";
import { type RelayRig, rpcAt, startNode, startRelay, type TestNode } from "./relay-rig.ts";

/** White space of JSON. */
const space = fc.constantFrom("", "", "", " ", "\n", "\t", "\r\n", "  \n ");

/** A JSON string with some of its characters escaped, as no writer of JSON would but any may. */
const spelledString = fc
  .array(
    fc.oneof(
      fc.string({ unit: anyCodePoint }).map((one) => JSON.stringify(one).slice(1, -1)),
      fc.constantFrom(
        "\\u0069d",
        '\\"id\\":1,',
        "\\\\",
        "\\/",
        "\\ud83d\\ude00",
        "😀",
        "é",
        "}",
        "]",
        '},\\"id\\":2',
        "\\n",
      ),
    ),
    { maxLength: 4 },
  )
  .map((parts) => `"${parts.join("")}"`);

const number = fc.oneof(
  fc.integer().map(String),
  fc.bigInt().map(String),
  fc.double({ noDefaultInfinity: true, noNaN: true }).map((one) => JSON.stringify(one)),
  fc.constantFrom("1.0", "1e3", "1E+3", "-0", "-0.0", "0.10", "1e400", "12345678901234567890"),
);

/** A JSON value's text, in any spelling. */
const { value: jsonValue } = fc.letrec<{ value: string; array: string; object: string }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 4, withCrossShrink: true },
    fc.constantFrom("null", "true", "false"),
    number,
    spelledString,
    tie("array"),
    tie("object"),
  ),
  array: fc
    .array(fc.tuple(space, tie("value"), space), { maxLength: 4 })
    .map((items) => `[${items.map((one) => one.join("")).join(",")}]`),
  object: fc
    .array(
      fc.tuple(
        space,
        fc.oneof(spelledString, fc.constantFrom('"id"', '"result"', '"error"')),
        space,
        fc.constant(":"),
        space,
        tie("value"),
        space,
      ),
      { maxLength: 4 },
    )
    .map((members) => `{${members.map((one) => one.join("")).join(",")}}`),
}));

const nested = jsonValue.filter((one) => one.startsWith("[") || one.startsWith("{"));
const rawId = fc.oneof(
  number,
  spelledString,
  fc.constant("null"),
  fc.integer({ min: 0, max: 3 }).map(String),
  fc.constantFrom('"1"', "1.0", '"\\u0031"'),
);
const KEYS: Readonly<Record<string, string>> = { id: '"\\u0069d"', method: '"m\\u0065thod"', result: '"resul\\u0074"' };

/** One object of these members, in any order, with white space anywhere. */
function objectOf(members: readonly (readonly [key: string, value: string])[]): fc.Arbitrary<string> {
  const count = members.length;
  return fc
    .record({
      order: fc.shuffledSubarray([...members.keys()], { minLength: count, maxLength: count }),
      spaces: fc.array(space, { minLength: count * 4 + 1, maxLength: count * 4 + 1 }),
      escapes: fc.constantFrom(false, false, false, true),
    })
    .map(({ order, spaces, escapes }) => {
      const shown = order.map((at, place) => {
        const [key = "", value = ""] = members[at] ?? [];
        const [a, b, c, d] = spaces.slice(place * 4);
        return `${a}${(escapes ? KEYS[key] : undefined) ?? JSON.stringify(key)}${b}:${c}${value}${d}`;
      });
      return `{${shown.join(",") || spaces[0]}}`;
    });
}

interface Asked {
  readonly text: string;
  readonly id: string | undefined;
  readonly params: string | undefined;
}

const METHODS = ["eth_call", "eth_getBalance", "eth_sendRawTransaction", "somebody_elses", "a\\u0062c\\n"] as const;

/** A request in any spelling. `extra`: members that JSON-RPC does not have. */
const asked = (ids: fc.Arbitrary<string | undefined>, extra: boolean): fc.Arbitrary<Asked> =>
  fc
    .record({
      id: ids,
      method: fc.constantFrom(...METHODS),
      params: fc.option(nested, { nil: undefined }),
      more: extra ? fc.option(jsonValue, { nil: undefined }) : fc.constant(undefined),
    })
    .chain(({ id, method, params, more }) =>
      objectOf([
        ["jsonrpc", '"2.0"'],
        ["method", `"${method}"`],
        ...(id === undefined ? [] : ([["id", id]] as const)),
        ...(params === undefined ? [] : ([["params", params]] as const)),
        ...(more === undefined ? [] : ([["ID", more]] as const)),
      ]).map((shown) => ({ text: shown, id, params })),
    );

/** By these a supplier says that it limits us: that is between the two, and no client is told. */
const LIMIT_CODES = [-32_005, -32_029];
const errorCode = fc.integer({ min: -40_000, max: 5 }).filter((code) => !LIMIT_CODES.includes(code));

/** An answer in any spelling, with `@ID@` where the id is. */
const answered = fc
  .record({
    outcome: fc.oneof(
      jsonValue.map((one) => ["result", one] as const),
      fc
        .tuple(errorCode, spelledString, fc.option(jsonValue, { nil: undefined }))
        .chain(([code, message, data]) =>
          objectOf([
            ["code", String(code)],
            ["message", message],
            ...(data === undefined ? [] : ([["data", data]] as const)),
          ]),
        )
        .map((one) => ["error", one] as const),
    ),
    extra: fc.array(fc.tuple(fc.constantFrom("Id", "x", "", "résultat"), jsonValue), { maxLength: 2 }),
    around: fc.tuple(space, space),
  })
  .chain(({ outcome, extra, around: [left, right] }) =>
    objectOf([["jsonrpc", '"2.0"'], ["id", "@ID@"], outcome, ...extra]).map((one) => left + one + right),
  );

const memberText = (bytes: Buffer, key: string): string | undefined => {
  const span = jsonMemberSpans(bytes, skipJsonSpace(bytes, 0))?.members.find((one) => one.key === key);
  return span === undefined ? undefined : bytes.toString("utf8", span.start, span.end);
};

const agent = new Agent({ keepAlive: true, maxSockets: 8 });

async function post(rig: RelayRig, body: string): Promise<{ readonly status: number; readonly text: string }> {
  const headers = { host: "eth.localhost" };
  const req = request({ host: "127.0.0.1", port: rig.port, method: "POST", agent, headers });
  req.end(body);
  const [res] = (await once(req, "response")) as [IncomingMessage];
  return { status: res.statusCode ?? 0, text: await text(res) };
}

suite("any JSON-RPC through the free relay", () => {
  let node: TestNode;
  let rig: RelayRig;
  /** What the node answers, given the body that it got. */
  let respond: (body: string) => string = () => "";

  before(async () => {
    node = await startNode({ respond: (res, body) => void res.end(respond(body)) });
    // Kept answers would hide what a supplier is sent.
    rig = await startRelay({ eth: rpcAt(node.url) }, { relay: { maxCacheBytes: 0 } });
  });
  after(async () => {
    agent.destroy();
    await rig?.[Symbol.asyncDispose]();
    await node?.[Symbol.asyncDispose]();
  });

  test("a single call: the supplier gets the client's bytes, and the client the supplier's", async () => {
    await fc.assert(
      fc.asyncProperty(asked(rawId, true), answered, space, space, async (call, answer, left, right) => {
        let seen = "";
        respond = (body) => {
          seen = body;
          return answer.replace("@ID@", () => memberText(Buffer.from(body), "id") ?? "");
        };
        const got = await post(rig, left + call.text + right);
        assert.equal(
          got.text,
          answer.replace("@ID@", () => call.id ?? ""),
        );
        assert.equal(got.status, 200);
        // Untouched, but for an id that nodes change and for members that nobody may read in two ways.
        const sent = JSON.parse(seen) as Record<string, unknown>;
        const own = JSON.parse(call.text) as Record<string, unknown>;
        if (own.ID === undefined && memberText(Buffer.from(seen), "id") === call.id) assert.equal(seen, call.text);
        for (const key of ["jsonrpc", "method", "params"]) assert.deepEqual(sent[key], own[key]);
        assert.equal(sent.ID, undefined);
        assert.equal(memberText(Buffer.from(seen), "params"), call.params);
      }),
      { numRuns: 400 },
    );
  });

  test("a batch: every id once, in its order, never crossed, whatever the supplier does with it", async () => {
    const entry = fc.oneof(
      { weight: 6, arbitrary: asked(rawId, true).map((call) => ({ kind: "call", ...call }) as const) },
      {
        weight: 1,
        arbitrary: asked(fc.constant(undefined), false).map((call) => ({ kind: "notification", ...call }) as const),
      },
      {
        weight: 1,
        arbitrary: fc
          .constantFrom("1", "[]", "{}", '"x"', "null", '{"jsonrpc":"2.0"}', '{"id":{},"method":"eth_call"}', "[[]]")
          .map((one) => ({ kind: "invalid", text: one, id: undefined }) as const),
      },
    );
    const fate = fc.constantFrom("keep", "keep", "keep", "keep", "drop", "double", "differ", "strange", "broken");
    const plan = fc.record({
      entries: fc.array(entry, { minLength: 1, maxLength: 100, size: "max" }),
      fates: fc.array(fate, { minLength: 1, maxLength: 30 }),
      seed: fc.nat(),
      gap: space,
    });
    await fc.assert(
      fc.asyncProperty(plan, fc.array(answered, { minLength: 3, maxLength: 3 }), async (planned, spellings) => {
        const { entries, fates, seed, gap } = planned;
        // The answer tells which call it is to; the first of its kind is answered in one of three spellings.
        const shown = entries.map((one, at) =>
          one.kind === "call" && one.params === undefined
            ? { ...one, text: one.text.replace(/\}$/, `,"params":["tag-${at}"]}`) }
            : one,
        );
        const answerOf = (item: Buffer): string => {
          const id = memberText(item, "id") ?? "";
          const params = memberText(item, "params") ?? "null";
          const at = params.length % 4;
          if (at === 3) return `{"jsonrpc":"2.0","id":${id},"result":${params}}`;
          const spelled = (spellings[at] ?? "").replace("@ID@", () => id).trim();
          return `${spelled.slice(0, -1)},"for":${params}}`;
        };
        let round = 0;
        let isLost = false;
        respond = (body) => {
          const bytes = Buffer.from(body);
          const start = skipJsonSpace(bytes, 0);
          if (bytes[start] !== 0x5b) return memberText(bytes, "id") === undefined ? "" : answerOf(bytes);
          const items = jsonElementSpans(bytes, start)?.elements ?? [];
          let lost = 0;
          const answers = items.flatMap((span) => {
            const own = answerOf(bytes.subarray(span.start, span.end));
            const now = fates[round++ % fates.length] ?? "keep";
            if (now === "drop" || now === "differ") lost++;
            if (now === "drop") return [];
            if (now === "differ") return [own, own.replace(/\}$/, ',"more":1}')];
            if (now === "double") return [own, own];
            if (now === "strange") return [own, '{"jsonrpc":"2.0","id":"nobody","result":1}', "7", "[]", "null"];
            if (now === "broken") return [own.replace('"2.0"', '"1.0"')];
            return [own];
          });
          // A supplier that answers nothing has failed, and here is no other.
          isLost ||= lost === items.length;
          // Any order, and the same in a replay.
          const keyed = answers.map((one, at) => [(Math.imul(at + 1, 2_654_435_761) ^ seed) >>> 0, one] as const);
          return `${gap}[${keyed
            .sort(([a], [b]) => a - b)
            .map(([, one]) => gap + one + gap)
            .join(",")}]${gap}`;
        };
        const got = await post(rig, `[${shown.map((one) => gap + one.text + gap).join(",")}]`);
        const wanted = shown.filter((one) => one.kind !== "notification");
        if (wanted.length === 0) {
          assert.deepEqual([got.status, got.text], [204, ""]);
          return;
        }
        const bytes = Buffer.from(got.text);
        const found = jsonElementSpans(bytes, 0)?.elements ?? [];
        assert.equal(found.length, wanted.length, got.text);
        for (const [at, one] of wanted.entries()) {
          const span = found[at];
          const own = bytes.subarray(span?.start, span?.end);
          if (one.kind === "invalid") {
            const { error } = JSON.parse(own.toString()) as { error: { code: number } };
            assert.equal(error.code, -32600);
            continue;
          }
          assert.equal(memberText(own, "id"), one.id);
          if (isLost && own.includes(Buffer.from('"code":-32502'))) continue;
          const original = Buffer.from(one.text);
          const answer = answerOf(original).replace(/^\s+|\s+$/g, "");
          assert.equal(own.toString(), answer);
        }
      }),
      { numRuns: 150 },
    );
  });
});
