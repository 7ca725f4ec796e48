import assert from "node:assert/strict";
import { after, before, suite, test } from "node:test";
import { bytesToHex, systemClock } from "@turnpike/base";
import { ChainClient } from "@turnpike/chain-client";
import { CometRpc, CometSource } from "@turnpike/chain-node";
import { headerHash } from "@turnpike/cometbft";
import { addressToBytes, moduleAddress, validatorAddress } from "@turnpike/crypto";
import { authz, bank, cryptoEd25519, proof, staking } from "@turnpike/proto";
import { party } from "../support/chain/local-chain.ts";
import { edSigner } from "../support/chain/nodes.ts";
import { type RpcProxy, type SignedHeaderJson, startRpcProxy } from "../support/chain/rpc-proxy.ts";
import { type SteppedNode, startStepped } from "../support/chain/stepped-node.ts";
import { msg } from "../support/chain/strangers.ts";
import { buildGo, type GoProgram, withoutGo } from "./go-programs.ts";

const LATEST = 1_020n;
const FORGED = 900n;
const [faucet, dao, delegator] = [party("faucet"), party("dao"), party("delegator")];

interface Answer {
  readonly hashes: readonly string[] | null;
  readonly error: string;
}

/** What happens at a height: coins move, a parameter changes, and a second validator gets power. */
const HAPPENINGS = [
  [
    100n,
    faucet,
    msg(bank.MsgSendSchema, {
      fromAddress: faucet.address,
      toAddress: dao.address,
      amount: [{ denom: "upokt", amount: "7" }],
    }),
  ],
  [
    300n,
    dao,
    msg(authz.MsgExecSchema, {
      grantee: dao.address,
      msgs: [
        msg(proof.MsgUpdateParamSchema, {
          authority: moduleAddress("gov"),
          name: "proof_request_probability",
          asType: { case: "asFloat", value: 0.5 },
        }),
      ],
    }),
  ],
  [
    600n,
    delegator,
    msg(staking.MsgCreateValidatorSchema, {
      description: { moniker: "second" },
      commission: { rate: "100000000000000000", maxRate: "200000000000000000", maxChangeRate: "10000000000000000" },
      minSelfDelegation: "1",
      validatorAddress: validatorAddress(addressToBytes(delegator.address) ?? new Uint8Array(20)),
      pubkey: msg(cryptoEd25519.PubKeySchema, { key: edSigner("second validator").publicKey }),
      // Less than half of the first one's, which still makes blocks alone.
      value: { denom: "upokt", amount: "4000000000" },
    }),
  ],
] as const;

suite("CometBFT's own light client follows the embedded chain", { skip: withoutGo, timeout: 400_000 }, () => {
  const stack = new AsyncDisposableStack();
  let light: GoProgram;
  let node: SteppedNode;
  let proxy: RpcProxy;
  let source: CometSource;

  before(async () => {
    light = stack.use(buildGo("light"));
    node = stack.use(await startStepped());
    const client = stack.use(new ChainClient({ url: node.rpcUrl }, { clock: systemClock }));
    source = new CometSource({ rpc: stack.use(new CometRpc({ url: node.rpcUrl })) });
    await node.reach(1n);
    for (const [heightBlocks, signer, message] of HAPPENINGS) {
      await node.reach(heightBlocks - 1n);
      const sent = await client.broadcast(await client.sign(signer, [message]));
      assert.equal(sent.log, "");
      await node.reach(heightBlocks);
      assert.equal((await client.tx(sent.hash))?.log, "");
    }
    await node.reach(LATEST);
    proxy = stack.use(await startRpcProxy(node.rpcUrl));
  });
  after(() => stack.disposeAsync());

  const hashOf = async (heightBlocks: bigint): Promise<string> =>
    bytesToHex((await source.block(heightBlocks))?.id.hash ?? assert.fail());

  async function follow(from: bigint, heights: readonly bigint[], sequential: boolean): Promise<Answer> {
    proxy.calls.length = 0;
    return light.ask<Answer>({
      chainId: node.chainId,
      url: proxy.url,
      trustHeight: Number(from),
      trustHash: await hashOf(from),
      heights: heights.map(Number),
      sequential,
    });
  }

  const headersAsked = (): Set<string | undefined> =>
    new Set(proxy.calls.filter(({ method }) => method === "commit").map(({ params }) => params.height));

  test("by bisection over a thousand blocks, among them one that changed the set of validators", async () => {
    const counts = await Promise.all(
      [1n, LATEST].map(async (height) => (await source.validators(height))?.validators.length),
    );
    assert.deepEqual(counts, [1, 2]);
    const heights = [599n, 602n, 1_000n, LATEST - 1n];
    const { hashes, error } = await follow(1n, heights, false);
    assert.equal(error, "");
    assert.deepEqual(hashes, await Promise.all(heights.map(hashOf)));
    assert.ok(headersAsked().size < 20, `${headersAsked().size} headers`);
  });

  test("one header after the other, where the power changes", async () => {
    const { hashes, error } = await follow(590n, [620n], true);
    assert.equal(error, "");
    assert.deepEqual(hashes, [await hashOf(620n)]);
    assert.ok(headersAsked().size >= 30, `${headersAsked().size} headers`);
  });

  /** Follows with someone between who changes one signed header. */
  async function followForged(change: (signed: SignedHeaderJson) => void): Promise<string> {
    proxy.forge = (signed) => {
      if (signed.header.height === `${FORGED}`) change(signed);
    };
    const { hashes, error } = await follow(1n, [FORGED], false);
    proxy.forge = undefined;
    assert.deepEqual(hashes ?? [], []);
    return error;
  }

  test("a changed signature is refused", async () => {
    const error = await followForged(({ commit: { signatures } }) => {
      const [first] = signatures;
      const bytes = Buffer.from(first?.signature ?? "", "base64");
      bytes[0] = (bytes[0] ?? 0) ^ 1;
      if (first !== undefined) first.signature = bytes.toString("base64");
    });
    assert.match(error, /wrong signature/);
  });

  test("a changed app hash is refused", async () => {
    const error = await followForged(({ header }) => {
      header.app_hash = "00".repeat(32);
    });
    assert.match(error, /commit signs block [0-9A-F]+, header is block/);
  });

  test("a changed app hash is refused, though the commit names the changed header", async () => {
    const stored = (await source.block(FORGED)) ?? assert.fail();
    const hash = headerHash({ ...stored.block.header, appHash: new Uint8Array(32) });
    const error = await followForged(({ header, commit }) => {
      header.app_hash = "00".repeat(32);
      commit.block_id.hash = bytesToHex(hash).toUpperCase();
    });
    assert.match(error, /wrong signature/);
  });
});
