import assert from "node:assert/strict";
import { suite, test } from "node:test";
import type { BackendCall } from "@turnpike/protocol";
import type { UpstreamAnswer } from "../answers/upstream-answer.ts";
import { Archive } from "../chain-view/archive.ts";
import { ChainView } from "../chain-view/chain-view.ts";
import { httpProbeCall, rpcProbeCall } from "../families/family.ts";
import type { BlockRef, MethodTraits } from "../families/method-traits.ts";
import { cosmosTraits } from "../families/methods/cosmos-methods.ts";
import { EVM_METHODS } from "../families/methods/evm-methods.ts";
import { radixTraits } from "../families/methods/radix-methods.ts";
import { traitsOf } from "../families/methods/rules.ts";
import { tronTraits } from "../families/methods/tron-methods.ts";
import { checkAgainstChain } from "./chain-check.ts";
import type { Job } from "./job.ts";
import type { Target } from "./target.ts";

const TIP = 1_000;

interface Chain {
  readonly view: ChainView;
  readonly archive: Archive;
}

const SUPPLIERS = ["a", "b", "c", "low"].map((operator) => ({ operator }));

/** Three operators at the tip, which clients were shown, and one that is five blocks below. */
function chain(): Chain {
  const view = new ChainView({ syncAllowanceBlocks: 25 });
  for (const operator of ["a", "b", "c"]) view.reported(operator, TIP, 0);
  view.reported("low", TIP - 5, 0);
  view.wasServed(TIP, 0);
  return { view, archive: new Archive() };
}

/** How an answer of an operator ends: `good`, or why not, and whether it is kept for when nobody has a better one. */
function ended(
  chainOf: Chain,
  operator: string,
  call: BackendCall,
  traits: MethodTraits | undefined,
  answer: Partial<UpstreamAnswer>,
): string {
  assert.ok(traits !== undefined);
  const refs: readonly BlockRef[] | undefined =
    traits.cache.by === "block" ? traits.cache.blocks(call.params) : undefined;
  const job = { call, traits, refs, context: { memory: chainOf, all: () => SUPPLIERS } } as unknown as Job;
  const base = { ok: true, status: 200, schemaCheck: "unchecked", isError: false, body: Buffer.alloc(0), operator };
  const given = { ...base, contentType: "application/json", ...answer } as UpstreamAnswer;
  const checked = checkAgainstChain({ operator } as Target, job, given, 0);
  if (checked.ok) return "good";
  const { blame, reason, fallback } = checked;
  if (fallback !== undefined) assert.deepEqual([fallback.isError, fallback.lastResort], [false, reason]);
  return `${blame} ${reason}${fallback === undefined ? "" : " stale"}`;
}

/** A free answer of a path: nothing of it was parsed. */
const path = (value: unknown): Partial<UpstreamAnswer> => ({ body: Buffer.from(JSON.stringify(value)) });

/** A free answer of JSON-RPC: it is known where the result stands. */
function rpc(value: unknown): Partial<UpstreamAnswer> {
  const head = '{"jsonrpc":"2.0","id":1,"result":';
  const body = Buffer.from(`${head}${JSON.stringify(value)}}`);
  return { body, resultAt: { start: head.length, end: body.length - 1 } };
}

const LATEST = "/cosmos/base/tendermint/v1beta1/blocks/latest";
const MANY = Array.from({ length: 200 }, (_, at) => `${at} is a transaction of some bytes`);
const header = (height: number) => ({ chain_id: "juno-1", height: String(height), app_hash: "\u00e9" });
const cosmosBlock = (height: number, data: readonly string[] = []) => ({
  block_id: { hash: "x" },
  block: { header: header(height), data: { txs: data }, last_commit: { height: "5", signatures: data } },
  sdk_block: { header: header(1), data: { txs: data } },
});
const tronBlock = (height: number, data: readonly string[] = []) => ({
  blockID: "x",
  transactions: data,
  block_header: { raw_data: { number: height }, witness_signature: "x".repeat(data.length * 20) },
});
const radixStatus = (height: number, data: readonly string[] = []) => ({
  ledger_state: { network: "mainnet", state_version: height, data },
});

suite("the newest block that a path's answer states", () => {
  const rest = (verb: "GET" | "POST", at: string): BackendCall => httpProbeCall(verb, at, "rest");
  const lcd = rest("GET", LATEST);
  const tron = rest("POST", "/wallet/getnowblock");
  const radix = rest("POST", "/status/gateway-status");
  const heads = [
    [lcd, cosmosTraits(lcd), cosmosBlock],
    [tron, tronTraits(tron), tronBlock],
    [radix, radixTraits(radix), radixStatus],
  ] as const;

  for (const [call, traits, answer] of heads) {
    for (const data of [[], MANY]) {
      const size = JSON.stringify(answer(5, data)).length;
      test(`is read: ${call.operation}, ${size} bytes`, () => {
        assert.equal(ended(chain(), "a", call, traits, path(answer(TIP, data))), "good");
        assert.equal(ended(chain(), "a", call, traits, path(answer(TIP - 3, data))), "chain behind stale");
        assert.equal(ended(chain(), "a", call, traits, path(answer(TIP - 100, data))), "supplier behind");
        assert.equal(ended(chain(), "a", call, traits, path(answer(TIP + 25, data))), "supplier behind");
        const one = chain();
        assert.equal(ended(one, "a", call, traits, path(answer(TIP + 1, data))), "good");
        assert.equal(one.view.served(0), TIP + 1);
      });
    }
    test(`is missed where it is not there: ${call.operation}`, () => {
      for (const nothing of [{}, [], null, { block: 5 }]) {
        assert.equal(ended(chain(), "a", call, traits, path(nothing)), "supplier schema stale");
      }
    });
  }

  test("is read of what was parsed, too", () => {
    assert.equal(ended(chain(), "a", lcd, cosmosTraits(lcd), { result: cosmosBlock(TIP - 3) }), "chain behind stale");
  });

  test("does not stand in what is no JSON", () => {
    for (const text of ["", "{", '{"block":{"header":', "plain text", "\u0000\u00ff"]) {
      const body = Buffer.from(text);
      assert.equal(ended(chain(), "a", lcd, cosmosTraits(lcd), { body }), "supplier schema stale");
    }
    const body = Buffer.from(`{"block":{"header":{"height":"${"1".repeat(3_000)}"`);
    assert.equal(ended(chain(), "a", lcd, cosmosTraits(lcd), { body }), "good", "not read whole");
  });
});

suite("the newest block of CometBFT", () => {
  const answers: Readonly<Record<string, (height: number, data: readonly string[]) => unknown>> = {
    block: cosmosBlock,
    header: (height) => ({ header: header(height) }),
    commit: (height, data) => ({
      signed_header: { header: header(height), commit: { signatures: data } },
      canonical: false,
    }),
  };
  for (const [method, answer] of Object.entries(answers)) {
    test(`is read: ${method}`, () => {
      for (const data of [[], MANY]) {
        const post = rpcProbeCall(method, {}, "comet_bft");
        const get = httpProbeCall("GET", `/${method}`, "comet_bft");
        for (const call of [post, get]) {
          const traits = cosmosTraits(call);
          assert.equal(ended(chain(), "a", call, traits, rpc(answer(TIP, data))), "good");
          assert.equal(ended(chain(), "a", call, traits, rpc(answer(TIP - 3, data))), "chain behind stale");
          assert.equal(ended(chain(), "a", call, traits, rpc(answer(TIP + 25, data))), "supplier behind");
        }
      }
    });

    test(`is not asked of a call that names a height: ${method}`, () => {
      for (const call of [
        rpcProbeCall(method, { height: "500" }, "comet_bft"),
        rpcProbeCall(method, { height: "odd" }, "comet_bft"),
        httpProbeCall("GET", `/${method}?height=500`, "comet_bft"),
        httpProbeCall("GET", `/${method}?height=500&height=500`, "comet_bft"),
      ]) {
        assert.equal(ended(chain(), "a", call, cosmosTraits(call), rpc(answer(500, []))), "good", call.path);
      }
    });
  }
});

suite("nothing, where a block is named", () => {
  const call: BackendCall = {
    ...httpProbeCall("POST", "/wallet/getblockbynum"),
    body: Buffer.from(JSON.stringify({ num: TIP - 2 })),
  };

  test("is no answer of a path whose supplier does not have the block", () => {
    const reason = "chain state_unavailable stale";
    for (const nothing of [{}, [], null]) {
      assert.equal(ended(chain(), "low", call, tronTraits(call), path(nothing)), reason);
      assert.equal(ended(chain(), "a", call, tronTraits(call), path(nothing)), "good");
      assert.equal(ended(chain(), "low", call, tronTraits(call), { ...path(nothing), result: nothing }), reason);
    }
    assert.equal(ended(chain(), "low", call, tronTraits(call), path(tronBlock(TIP - 2))), "good");
  });

  test("does not show that a supplier has old blocks", () => {
    const old: BackendCall = { ...call, body: Buffer.from('{"num":5}') };
    for (const [answer, holding] of [
      [path({}), "unknown"],
      [{ ...path({}), result: {} }, "unknown"],
      [path(tronBlock(5)), "has"],
    ] as const) {
      const one = chain();
      assert.equal(ended(one, "a", old, tronTraits(old), answer), "good");
      assert.equal(one.archive.holding("a", "data", 5, 0), holding);
    }
  });
});

suite("a list over a range of blocks", () => {
  const logs = (fromBlock: number | string, toBlock: number | string): BackendCall => {
    const show = (block: number | string): string => (typeof block === "number" ? `0x${block.toString(16)}` : block);
    return rpcProbeCall("eth_getLogs", [{ fromBlock: show(fromBlock), toBlock: show(toBlock) }]);
  };
  const list = [{ blockNumber: "0x3e1", logIndex: "0x0" }];
  const end = (operator: string, call: BackendCall, result: unknown, one = chain()): string =>
    ended(one, operator, call, traitsOf(EVM_METHODS, "eth_getLogs", call.params), rpc(result));

  test("that ends above its supplier's height may be cut, and is no answer, whatever is in it", () => {
    for (const result of [[], list]) {
      assert.equal(end("low", logs(900, TIP - 2), result), "chain state_unavailable stale");
      assert.equal(end("low", logs(900, TIP - 5), result), "good");
      assert.equal(end("a", logs(900, TIP), result), "good");
      assert.equal(end("a", logs(900, TIP + 50), result), "good", "nobody has that block");
      assert.equal(end("unknown", logs(900, TIP), result), "good");
    }
    const one = chain();
    end("low", logs(5, TIP), list, one);
    assert.equal(one.archive.holding("low", "data", 5, 0), "unknown");
  });

  test("is an answer where nobody here is known to have its last block, which clients elsewhere saw", () => {
    const one = chain();
    one.view.wasServed(TIP + 2, 0);
    assert.equal(one.view.newest(0), TIP + 2);
    assert.equal(end("a", logs(900, TIP + 2), list, one), "good");
    assert.equal(end("a", logs(900, TIP + 2), [], one), "chain state_unavailable stale");
  });

  test("of a path ends below the block that it names last", () => {
    const ask = (endNum: number): BackendCall => ({
      ...httpProbeCall("POST", "/wallet/getblockbylimitnext"),
      body: Buffer.from(JSON.stringify({ startNum: TIP - 9, endNum })),
    });
    const blocks = path({ block: [tronBlock(TIP - 9)] });
    assert.equal(ended(chain(), "low", ask(TIP - 4), tronTraits(ask(TIP - 4)), blocks), "good");
    const cut = ask(TIP + 1);
    assert.equal(ended(chain(), "low", cut, tronTraits(cut), blocks), "chain state_unavailable stale");
    assert.equal(ended(chain(), "a", cut, tronTraits(cut), blocks), "good");
  });

  test("with an open end has what its supplier has", () => {
    assert.equal(end("low", logs(900, "latest"), list), "good");
    assert.equal(end("low", logs("earliest", "latest"), list), "good");
  });

  test("is another thing than one block, which is there or is not", () => {
    const call = rpcProbeCall("eth_getBlockByNumber", [`0x${(TIP - 2).toString(16)}`, false]);
    const traits = traitsOf(EVM_METHODS, "eth_getBlockByNumber", call.params);
    assert.equal(ended(chain(), "low", call, traits, rpc({ number: "0x3e6" })), "good");
    assert.equal(ended(chain(), "low", call, traits, rpc(null)), "chain state_unavailable stale");
  });
});
