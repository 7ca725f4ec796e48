import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { type ChainSigner, createChainSigner, signTx } from "@turnpike/chain-client";
import { privateKeyFromSecret } from "@turnpike/crypto";
import {
  application,
  base,
  createMessage,
  decodeMessage,
  encodeMessage,
  packAny,
  proof,
  session,
  shared,
} from "@turnpike/proto";
import { openTestNode, VALIDATOR } from "@turnpike/testkit/embedded-node";
import { scratchFolder } from "@turnpike/testkit/fixtures";
import { pocketMachine } from "../src/app/pocket-machine.ts";
import { SIMULATION_BOUNDS } from "../src/app/simulations.ts";
import { buildGenesis } from "../src/genesis/build-genesis.ts";
import { CHAIN_PROFILES } from "../src/genesis/profiles.ts";

const SERVICE = "busy";
const CLAIMS = 100;
const SUPPLIERS = 15;
/** Of the profile `fast`: claims of the first session from this block on. */
const CLAIM_HEIGHT = 22n;
const UNITS = 100n;
const RELAYS = 1_000n;

// Bounds of the real network: sessions of 50 suppliers, and services that a thousand are staked for.
const MORE_DRAWN = 50n - BigInt(SUPPLIERS);
const MORE_CANDIDATES = 1_000n - BigInt(SUPPLIERS);
/** Gas of one more supplier that a session draws, and of one more that it draws from (recorded-gas.test.ts). */
const DRAWN_GAS = 1_600n;
const CANDIDATE_GAS = 760n;
/** Recorded: a proof of two ring members, in a session of four. */
const PROOF_GAS = 213_301n;
/** Claims of the whole network that one session's end brings, and the blocks that their window has. */
const NETWORK_CLAIMS = 6_000n;
const WINDOW_BLOCKS = 10n;
/** Suppliers that a service has on average there. */
const USUAL_CANDIDATES = 262n - BigInt(SUPPLIERS);

const signerOf = (name: string): ChainSigner => createChainSigner(privateKeyFromSecret(Buffer.from(`busy ${name}`)));
const OPERATOR = signerOf("operator");
const SUPPLIER_SIGNERS = Array.from({ length: SUPPLIERS }, (_, i) => signerOf(`supplier ${i}`));
const APPLICATIONS = Array.from({ length: CLAIMS }, (_, i) => signerOf(`application ${i}`));
const coin = (amount: bigint): base.Coin => createMessage(base.CoinSchema, { denom: "upokt", amount: `${amount}` });
const POKT = 1_000_000n;

const GENESIS = buildGenesis({
  chainId: "busy",
  genesisTime: "2026-11-21T14:10:44.08093512Z",
  profile: CHAIN_PROFILES.fast,
  accounts: [OPERATOR, ...SUPPLIER_SIGNERS, ...APPLICATIONS].map(({ publicKey }) => ({
    publicKey,
    balanceUpokt: 1_000_000n * POKT,
  })),
  daoAddress: OPERATOR.address,
  services: [
    createMessage(shared.ServiceSchema, {
      id: SERVICE,
      name: SERVICE,
      computeUnitsPerRelay: UNITS,
      ownerAddress: OPERATOR.address,
    }),
  ],
  applications: APPLICATIONS.map(({ address }) =>
    createMessage(application.ApplicationSchema, {
      address,
      stake: coin(10_000n * POKT),
      serviceConfigs: [{ serviceId: SERVICE }],
    }),
  ),
  gateways: [],
  suppliers: SUPPLIER_SIGNERS.map(({ address }, i) =>
    createMessage(shared.SupplierSchema, {
      ownerAddress: address,
      operatorAddress: address,
      stake: coin(1_000n * POKT),
      services: [
        {
          serviceId: SERVICE,
          endpoints: [{ url: `https://supplier-${i}.example.com/rpc`, rpcType: shared.RPCType.JSON_RPC }],
          revShare: [{ address, revSharePercentage: 100n }],
        },
      ],
    }),
  ),
  validators: [{ moniker: "busy", signer: OPERATOR, consensusKey: VALIDATOR.publicKey, bondUpokt: 10_000n * POKT }],
});
const MAX_BLOCK_GAS = BigInt(GENESIS.consensus.params.block.max_gas);

type Node = Awaited<ReturnType<typeof openTestNode>>;

function headerOf(node: Node, applicationAddress: string): session.SessionHeader {
  const asked = createMessage(session.QueryGetSessionRequestSchema, {
    applicationAddress,
    serviceId: SERVICE,
    blockHeight: 1n,
  });
  const request = encodeMessage(session.QueryGetSessionRequestSchema, asked);
  const answer = node.application.grpcQuery("/pocket.session.Query/GetSession", request);
  assert.ok(answer.ok);
  const read = decodeMessage(session.QueryGetSessionResponseSchema, answer.value);
  assert.ok(read.ok && read.message.session?.header);
  return read.message.session.header;
}

function claimsTx(node: Node, gasLimit: bigint): Uint8Array {
  const [supplier] = SUPPLIER_SIGNERS as [ChainSigner];
  const rootHash = Buffer.alloc(48, 1);
  rootHash.writeBigUInt64BE(UNITS * RELAYS, 32);
  rootHash.writeBigUInt64BE(RELAYS, 40);
  const messages = APPLICATIONS.map(({ address }) =>
    packAny(
      proof.MsgCreateClaimSchema,
      createMessage(proof.MsgCreateClaimSchema, {
        supplierOperatorAddress: supplier.address,
        sessionHeader: headerOf(node, address),
        rootHash,
      }),
    ),
  );
  const fee = [{ denom: "upokt", amount: 1_000n }];
  const order = { kind: "ordered", sequence: 0n } as const;
  return signTx({ messages, chainId: "busy", accountNumber: 1n, order, gasLimit, fee }, supplier);
}

suite("a busy supplier on a chain of a new genesis", () => {
  test("claims for a hundred sessions in one transaction, simulated, sent and run", async () => {
    await using folder = await scratchFolder();
    const { machine } = pocketMachine({ gasPrices: [] });
    await using node = await openTestNode({ folder: folder.path, genesis: GENESIS, machine });
    while (node.application.latestHeightBlocks() < CLAIM_HEIGHT) await node.produceBlock();
    const simulated = (await node.application.simulate(claimsTx(node, 0n))) ?? assert.fail();
    assert.equal(simulated.log, "");
    const sent = node.submit(claimsTx(node, (simulated.gasUsed * 3n) / 2n));
    assert.deepEqual(sent.kind === "checked" ? [sent.result.code, sent.result.log] : sent.kind, [0, ""]);
    await node.produceBlock();
    const [result] = node.blocks.results(CLAIM_HEIGHT + 1n)?.txResults ?? [];
    assert.deepEqual([result?.code, result?.log], [0, ""]);
    const used = result?.gasUsed ?? 0n;
    const count = BigInt(CLAIMS);
    // The same on the real network's services: what is simulated there must end, and be sent with half more.
    const large = used + count * (MORE_DRAWN * DRAWN_GAS + MORE_CANDIDATES * CANDIDATE_GAS);
    assert.ok(large <= SIMULATION_BOUNDS.maxGas, `${large} to simulate`);
    assert.ok((large * 3n) / 2n <= MAX_BLOCK_GAS, `${large} to send`);
    const proofs = count * (PROOF_GAS + 50n * DRAWN_GAS + 1_000n * CANDIDATE_GAS);
    assert.ok(proofs <= MAX_BLOCK_GAS, `${proofs} of proofs`);
    // All claims of the network, with their limits half above what they use, fit into their window.
    const usual = used / count + MORE_DRAWN * DRAWN_GAS + USUAL_CANDIDATES * CANDIDATE_GAS;
    const all = (NETWORK_CLAIMS * usual * 3n) / 2n;
    assert.ok(all <= WINDOW_BLOCKS * MAX_BLOCK_GAS, `${usual} a claim, ${all} of the network`);
  });
});
