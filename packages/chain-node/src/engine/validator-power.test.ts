import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { pocketMachine } from "@turnpike/chain";
import { type ChainSigner, signTx } from "@turnpike/chain-client";
import { addressToBytes, createEd25519Signer, sha256, validatorAddress } from "@turnpike/crypto";
import { type Any, authz, createMessage, cryptoEd25519, packAny, staking } from "@turnpike/proto";
import { LOCAL_GENESIS, LOCAL_SIGNERS, LOCAL_VALIDATOR, NODE, tickingClock } from "@turnpike/testkit/embedded-node";
import { scratchFolder } from "@turnpike/testkit/fixtures";
import type { Submission } from "../types.ts";
import type { EmbeddedEngine } from "./embedded-engine.ts";
import { openEmbeddedNode } from "./open-embedded-node.ts";

// The validator of the genesis has bonded 10,000,000,000 upokt: 10,000 units of power.
const THIRD = 5_000_000_000n;

const openNode = (folder: string): Promise<EmbeddedEngine> =>
  openEmbeddedNode(
    { folder, genesis: LOCAL_GENESIS, moniker: "test", version: "0.1.35" },
    {
      machine: pocketMachine({ gasPrices: [] }).machine,
      validatorSigner: LOCAL_VALIDATOR,
      nodeSigner: NODE,
      clock: tickingClock(),
    },
  );

function createValidator(signer: ChainSigner, bondUpokt: bigint | string): Any {
  const key = createEd25519Signer(sha256(Buffer.from(signer.address))).publicKey;
  return packAny(
    staking.MsgCreateValidatorSchema,
    createMessage(staking.MsgCreateValidatorSchema, {
      description: { moniker: "another" },
      commission: { rate: "100000000000000000", maxRate: "200000000000000000", maxChangeRate: "10000000000000000" },
      minSelfDelegation: "1",
      validatorAddress: validatorAddress(addressToBytes(signer.address) ?? new Uint8Array(0)),
      pubkey: packAny(cryptoEd25519.PubKeySchema, createMessage(cryptoEd25519.PubKeySchema, { key })),
      value: { denom: "upokt", amount: `${bondUpokt}` },
    }),
  );
}

const ROLES = Object.keys(LOCAL_SIGNERS);

function submit(node: EmbeddedEngine, signer: ChainSigner, messages: readonly Any[], sequence = 0n): Submission {
  const accountNumber = BigInt(ROLES.findIndex((role) => LOCAL_SIGNERS[role as keyof typeof LOCAL_SIGNERS] === signer));
  const fee = [{ denom: "upokt", amount: 1000n }];
  const tx = signTx(
    {
      messages: [...messages],
      chainId: LOCAL_GENESIS.chain_id,
      accountNumber,
      order: { kind: "ordered", sequence },
      gasLimit: 500_000n,
      fee,
    },
    signer,
  );
  return node.submit(tx);
}

const codeOf = (sent: Submission): unknown =>
  sent.kind === "checked" ? [sent.result.codespace, sent.result.code, sent.result.log] : sent;

const REFUSAL = [
  "sdk",
  37,
  "this node's validator makes the blocks alone and would keep no more than two thirds of the voting power: feature not supported",
];

async function validatorsAfter(node: EmbeddedEngine, blocks: number): Promise<number | undefined> {
  for (let n = 0; n < blocks; n++) await node.produceBlock();
  return node.moment().validators.validators.length;
}

suite("validators that an embedded chain takes", () => {
  test("one with a third of the voting power is refused, and blocks go on", async () => {
    await using folder = await scratchFolder();
    await using node = await openNode(folder.path);
    assert.deepEqual(
      codeOf(submit(node, LOCAL_SIGNERS.delegator, [createValidator(LOCAL_SIGNERS.delegator, THIRD)])),
      REFUSAL,
    );
    assert.equal(await validatorsAfter(node, 5), 1);
  });

  test("attack: its bond in another text of the same number is the same bond", async () => {
    await using folder = await scratchFolder();
    await using node = await openNode(folder.path);
    for (const bond of [`+${THIRD}`, `${THIRD}`.padStart(90, "0")]) {
      const sent = submit(node, LOCAL_SIGNERS.delegator, [createValidator(LOCAL_SIGNERS.delegator, bond)]);
      assert.deepEqual(codeOf(sent), REFUSAL, bond);
    }
    assert.equal(await validatorsAfter(node, 3), 1);
  });

  test("so are those that have it together, in one transaction or in several, before and after a block", async () => {
    await using folder = await scratchFolder();
    await using node = await openNode(folder.path);
    const small = THIRD / 3n;
    const roles = [
      LOCAL_SIGNERS.delegator,
      LOCAL_SIGNERS.dao,
      LOCAL_SIGNERS.faucet,
      LOCAL_SIGNERS["gateway-1"],
    ] as const;
    const [first, second, third, fourth] = roles;
    assert.deepEqual(codeOf(submit(node, first, [createValidator(first, small)])), ["", 0, ""]);
    assert.deepEqual(codeOf(submit(node, second, [createValidator(second, small)])), ["", 0, ""]);
    assert.deepEqual(codeOf(submit(node, third, [createValidator(third, small + 3_000_000n)])), REFUSAL);
    assert.equal(await validatorsAfter(node, 4), 3);
    assert.deepEqual(codeOf(submit(node, third, [createValidator(third, small + 3_000_000n)])), REFUSAL);
    const both = [createValidator(fourth, 1_000_000n), createValidator(third, small + 1_000_000n)];
    assert.deepEqual(codeOf(submit(node, fourth, both)), REFUSAL);
    assert.equal(await validatorsAfter(node, 4), 3);
  });

  test("one inside messages of authz is seen as any other", async () => {
    await using folder = await scratchFolder();
    await using node = await openNode(folder.path);
    const inside = (messages: Any[]): Any =>
      packAny(
        authz.MsgExecSchema,
        createMessage(authz.MsgExecSchema, { grantee: LOCAL_SIGNERS.delegator.address, msgs: messages }),
      );
    const nested = inside([inside([createValidator(LOCAL_SIGNERS.delegator, THIRD)])]);
    assert.deepEqual(codeOf(submit(node, LOCAL_SIGNERS.delegator, [nested])), REFUSAL);
    assert.equal(await validatorsAfter(node, 4), 1);
  });

  test("the state machine takes it as ever: only the engine with one key refuses", async () => {
    await using folder = await scratchFolder();
    await using node = await openNode(folder.path);
    await node.produceBlock();
    const { application } = node;
    const own = createValidator(LOCAL_SIGNERS.delegator, THIRD);
    const tx = signTx(
      {
        messages: [own],
        chainId: LOCAL_GENESIS.chain_id,
        accountNumber: BigInt(ROLES.indexOf("delegator")),
        order: { kind: "ordered", sequence: 0n },
        gasLimit: 500_000n,
        fee: [],
      },
      LOCAL_SIGNERS.delegator,
    );
    const block = { chainId: LOCAL_GENESIS.chain_id, heightBlocks: 2n, timeNanos: 1_800_000_000_000_000_000n };
    const { outcome } = application.run({ ...block, hash: Buffer.alloc(32), proposer: Buffer.alloc(20) }, [tx]);
    assert.deepEqual(
      outcome.results.map(({ code, log }) => [code, log]),
      [[0, ""]],
    );
    assert.deepEqual(
      outcome.validatorUpdates.map(({ power }) => power),
      [5_000n],
    );
  });
});
