import type { DescMessage, MessageInitShape } from "@bufbuild/protobuf";
import { bytesToBase64 } from "@turnpike/base";
import { type ChainSigner, createChainSigner } from "@turnpike/chain-client";
import {
  ACCOUNT_PREFIX,
  encodeBech32,
  encodeClosestProof,
  moduleAddress,
  sha256,
  VALIDATOR_PREFIX,
} from "@turnpike/crypto";
import {
  type Any,
  application,
  authz,
  bank,
  createMessage,
  DurationSchema,
  gateway,
  packAny,
  proof,
  service,
  session,
  shared,
  staking,
  supplier,
} from "@turnpike/proto";
import { proofPath, sessionWindows } from "@turnpike/protocol";
import { LOCAL_GENESIS, LOCAL_SIGNERS } from "@turnpike/testkit/embedded-node";
import { must } from "@turnpike/testkit/fixtures";
import { protocolParams } from "../src/modules/shared/state.ts";
import { DEFAULT_STAKING_PARAMS } from "../src/modules/staking/state.ts";
import { upokt } from "../src/state/stakes.ts";
import type { History } from "./random-history.ts";
import { type Party, party, Work } from "./session-life.ts";
import { newValidator, RATE_ONE } from "./session-moves.ts";

const NAMES = [
  "owner",
  "buyer",
  "app-1",
  "app-2",
  "app-3",
  "heir",
  "gw-1",
  "gw-2",
  "sup-1",
  "sup-2",
  "sup-3",
  "sup-4",
  "sup-5",
  "val-1",
  "val-2",
  "val-3",
] as const;
type Name = (typeof NAMES)[number];

/** A message of a scene, in a block that is counted from the first of the scenes' session. */
interface Scene {
  readonly block: bigint;
  readonly by: Name | "dao" | "faucet";
  readonly message: Any;
  /** True where the chain refuses it. */
  readonly isRefused: boolean;
}

/** A transaction of a scene. */
interface SceneTx extends Pick<Scene, "message" | "isRefused"> {
  readonly signer: ChainSigner;
}

const PARTIES = Object.fromEntries(NAMES.map((name) => [name, party(`scene ${name}`)])) as Record<Name, Party>;
const addressOf = (name: Name): string => PARTIES[name].address;
const SERVICE = "scene";
const UNITS = 1_000n;
const PURSE_UPOKT = 5_000_000_000n;
/** Receivers of the supplier that has many: a claim costs gas for each beyond ten. */
const RECEIVERS = 20;
/** First block of the scenes' session; its own accounts are funded and staked before it. */
const SESSION_START = 49n;
/** Last block of a chain with scenes. */
export const LAST_SCENE_BLOCK = 83n;
const authority = moduleAddress("gov");

const msg = <Desc extends DescMessage>(schema: Desc, init: MessageInitShape<Desc>): Any =>
  packAny(schema, createMessage(schema, init));
const scene = (block: bigint, by: Scene["by"], message: Any): Scene => ({ block, by, message, isRefused: false });
const refused = (block: bigint, by: Scene["by"], message: Any): Scene => ({ block, by, message, isRefused: true });

function supplierStake(who: Name, amount: bigint, serviceId: string, receivers = [addressOf(who)]): Any {
  const address = addressOf(who);
  const share = 100n / BigInt(receivers.length);
  const config = {
    serviceId,
    endpoints: [{ url: "https://scene.example", rpcType: shared.RPCType.JSON_RPC }],
    revShare: receivers.map((receiver) => ({ address: receiver, revSharePercentage: share })),
  };
  return msg(supplier.MsgStakeSupplierSchema, {
    signer: address,
    ownerAddress: address,
    operatorAddress: address,
    stake: upokt(amount),
    services: [config],
  });
}

function supplierUnstake(who: Name): Any {
  return msg(supplier.MsgUnstakeSupplierSchema, { signer: addressOf(who), operatorAddress: addressOf(who) });
}

function applicationStake(who: Name, amount: bigint, limit?: bigint): Any {
  return msg(application.MsgStakeApplicationSchema, {
    address: addressOf(who),
    stake: upokt(amount),
    services: [{ serviceId: SERVICE }],
    ...(limit === undefined ? {} : { perSessionSpendLimit: upokt(limit) }),
  });
}

function gatewayStake(who: Name): Any {
  return msg(gateway.MsgStakeGatewaySchema, { address: addressOf(who), stake: upokt(2_000_000n) });
}

function gatewayUnstake(who: Name): Any {
  return msg(gateway.MsgUnstakeGatewaySchema, { address: addressOf(who) });
}

function undelegation(app: Name, from: Name): Any {
  const parties = { appAddress: addressOf(app), gatewayAddress: addressOf(from) };
  return msg(application.MsgUndelegateFromGatewaySchema, parties);
}

function delegation(app: Name, to: Name): Any {
  const parties = { appAddress: addressOf(app), gatewayAddress: addressOf(to) };
  return msg(application.MsgDelegateToGatewaySchema, parties);
}

function serviceOf(computeUnitsPerRelay: bigint): Any {
  const ownerAddress = addressOf("owner");
  const added = { id: SERVICE, name: "a scene", computeUnitsPerRelay, ownerAddress };
  return msg(service.MsgAddServiceSchema, { ownerAddress, service: added });
}

function validatorOf(who: Name, tokensUpokt: bigint): Any {
  return packAny(staking.MsgCreateValidatorSchema, newValidator(PARTIES[who], tokensUpokt, RATE_ONE / 10n));
}

function sharedParam(name: string, value: bigint): Any {
  return msg(shared.MsgUpdateParamSchema, { authority, name, asType: { case: "asUint64", value } });
}

/** Accounts, a service and stakes, before the session. */
function preparations(): readonly Scene[] {
  const outputs = NAMES.map((name) => ({ address: addressOf(name), coins: [upokt(PURSE_UPOKT)] }));
  const total = upokt(PURSE_UPOKT * BigInt(NAMES.length));
  const inputs = [{ address: LOCAL_SIGNERS.faucet.address, coins: [total] }];
  const receivers = Array.from({ length: RECEIVERS }, (_, at) => party(`receiver ${at}`).address);
  const certain = { authority, name: "proof_request_probability", asType: { case: "asFloat", value: 1 } } as const;
  const forOther = {
    signer: addressOf("sup-4"),
    ownerAddress: addressOf("sup-4"),
    operatorAddress: addressOf("sup-5"),
    stake: upokt(2_000_000n),
  };
  return [
    scene(-3n, "faucet", msg(bank.MsgMultiSendSchema, { inputs, outputs })),
    scene(-2n, "owner", serviceOf(UNITS)),
    scene(-2n, "dao", msg(proof.MsgUpdateParamSchema, certain)),
    scene(-2n, "val-1", validatorOf("val-1", 3_000_000n)),
    scene(-2n, "val-2", validatorOf("val-2", 2_000_000n)),
    refused(-2n, "val-3", validatorOf("val-3", 999_999n)),
    scene(-2n, "sup-4", msg(supplier.MsgStakeSupplierSchema, forOther)),
    scene(-1n, "app-1", applicationStake("app-1", 200_000_000n)),
    scene(-1n, "app-2", applicationStake("app-2", 200_000_000n)),
    scene(-1n, "app-3", applicationStake("app-3", 200_000_000n)),
    scene(-1n, "gw-1", gatewayStake("gw-1")),
    scene(-1n, "gw-2", gatewayStake("gw-2")),
    scene(-1n, "sup-1", supplierStake("sup-1", 50_000_000n, SERVICE, receivers)),
    scene(-1n, "sup-2", supplierStake("sup-2", 1_200_000n, SERVICE)),
    scene(-1n, "sup-3", supplierStake("sup-3", 50_000_000n, SERVICE)),
    scene(-1n, "sup-4", supplierStake("sup-4", 50_000_000n, SERVICE)),
  ];
}

/** Changes by the actors while the session lasts, and while it is claimed and proven. */
function changes(): readonly Scene[] {
  const oddShares = [addressOf("sup-5"), encodeBech32(ACCOUNT_PREFIX, new Uint8Array(21).fill(7))];
  const transfer = { sourceAddress: addressOf("app-2"), destinationAddress: addressOf("heir") };
  const sale = { ownerAddress: addressOf("owner"), serviceId: SERVICE, newOwnerAddress: addressOf("buyer") };
  const unbondingTime = createMessage(DurationSchema, { seconds: 5n });
  const params = { ...DEFAULT_STAKING_PARAMS, unbondingTime, maxValidators: 2 };
  return [
    scene(0n, "app-1", delegation("app-1", "gw-1")),
    scene(0n, "app-2", msg(application.MsgTransferApplicationSchema, transfer)),
    refused(0n, "sup-5", supplierStake("sup-5", 2_000_000n, SERVICE, oddShares)),
    scene(1n, "app-1", delegation("app-1", "gw-2")),
    scene(1n, "app-3", msg(application.MsgUnstakeApplicationSchema, { address: addressOf("app-3") })),
    scene(1n, "sup-4", supplierUnstake("sup-4")),
    scene(1n, "sup-5", supplierStake("sup-5", 2_000_000n, SERVICE)),
    scene(1n, "app-2", delegation("app-2", "gw-1")),
    scene(2n, "app-2", delegation("app-2", "gw-2")),
    scene(3n, "app-2", undelegation("app-2", "gw-2")),
    scene(2n, "app-1", undelegation("app-1", "gw-2")),
    scene(2n, "dao", msg(staking.MsgUpdateParamsSchema, { authority, params })),
    scene(2n, "gw-2", gatewayUnstake("gw-2")),
    scene(3n, "app-1", applicationStake("app-1", 300_000_000n, 2_000_000n)),
    scene(3n, "sup-3", supplierStake("sup-3", 50_000_000n, "rest")),
    scene(4n, "dao", sharedParam("compute_units_to_tokens_multiplier", 50_000_000n)),
    scene(4n, "owner", serviceOf(2n * UNITS)),
    scene(4n, "sup-2", supplierStake("sup-2", 1_300_000n, SERVICE)),
    scene(5n, "owner", msg(service.MsgTransferServiceSchema, sale)),
    refused(12n, "app-1", undelegation("app-1", "gw-2")),
    scene(14n, "dao", sharedParam("num_blocks_per_session", 5n)),
    scene(17n, "gw-1", gatewayUnstake("gw-1")),
    scene(18n, "sup-3", supplierUnstake("sup-3")),
  ];
}

/** Claims and proofs of the session: one claim is replaced, and one has no proof. */
function settlements(history: History): readonly Scene[] {
  const headerOf = (app: Name): session.SessionHeader => {
    const request = { applicationAddress: addressOf(app), serviceId: SERVICE, blockHeight: SESSION_START };
    return must(history.ask(session.Query.method.getSession, request)?.session?.header);
  };
  const params = must(history.ask(shared.Query.method.params, {})?.params);
  const header = headerOf("app-1");
  const end = header.sessionEndBlockHeight;
  const { claimOpenHeight, proofOpenHeight } = sessionWindows(protocolParams(params), end);
  const [claimBlock, proofBlock] = [claimOpenHeight - SESSION_START, proofOpenHeight - SESSION_START];
  const seed = history.blockInfo(proofOpenHeight - 1n).hash;
  const worker = (app: Name, by: Name, signer: Name, relays: number): Work => {
    const ring = [...new Set([app, signer])].map((name) => PARTIES[name].publicKey);
    const members = ring.length > 1 ? ring : [...ring, PARTIES[app].publicKey];
    return new Work(headerOf(app), PARTIES[by]).serve(relays, members, PARTIES[signer], UNITS);
  };
  const claim = ({ header: sessionHeader, supplier: by, trie }: Work): Any =>
    msg(proof.MsgCreateClaimSchema, { supplierOperatorAddress: by.address, sessionHeader, rootHash: trie.root() });
  const proofOf = ({ header: sessionHeader, supplier: by, trie }: Work): Any =>
    msg(proof.MsgSubmitProofSchema, {
      supplierOperatorAddress: by.address,
      sessionHeader,
      proof: encodeClosestProof(trie.proveClosest(proofPath(seed, sessionHeader.sessionId))),
    });
  const [first, whole] = [worker("app-1", "sup-1", "gw-1", 2), worker("app-1", "sup-1", "gw-1", 3)];
  const [left, own] = [worker("app-1", "sup-3", "gw-2", 2), worker("app-2", "sup-1", "app-2", 2)];
  const unproven = worker("app-1", "sup-2", "gw-1", 2);
  return [
    scene(claimBlock, "sup-1", claim(first)),
    scene(claimBlock, "sup-2", claim(unproven)),
    scene(claimBlock, "sup-3", claim(left)),
    scene(claimBlock + 1n, "sup-1", claim(whole)),
    scene(claimBlock + 2n, "sup-1", claim(own)),
    scene(proofBlock, "sup-1", proofOf(whole)),
    scene(proofBlock, "sup-3", proofOf(left)),
    scene(proofBlock + 1n, "sup-1", proofOf(own)),
  ];
}

function executed(message: Any): Any {
  return msg(authz.MsgExecSchema, { grantee: LOCAL_SIGNERS.dao.address, msgs: [message] });
}

/** Transactions that make each rule of actors' lives count, by the block that they are in. */
export class Scenes {
  readonly #scenes: Scene[] = [...preparations(), ...changes()];
  #hasSettlements = false;

  /** Transactions of the next block. */
  at(history: History, heightBlocks: bigint): readonly SceneTx[] {
    const block = heightBlocks - SESSION_START;
    // The session is drawn by now, and its rings are of what was delegated in it.
    if (block === 5n && !this.#hasSettlements) {
      this.#scenes.push(...settlements(history));
      this.#hasSettlements = true;
    }
    return this.#scenes
      .filter((one) => one.block === block)
      .map(({ by, message, isRefused }) => {
        if (by === "dao") return { signer: LOCAL_SIGNERS.dao, message: executed(message), isRefused };
        const signer = by === "faucet" ? LOCAL_SIGNERS.faucet : createChainSigner(PARTIES[by].privateKey);
        return { signer, message, isRefused };
      });
  }
}

/** Events that the scenes of a chain make beside those of their messages. */
export const SCENE_EVENTS: readonly string[] = [
  "pocket.application.EventApplicationUnbondingEnd",
  "pocket.application.EventTransferEnd",
  "pocket.application.EventRedelegation",
  "pocket.gateway.EventGatewayUnbondingEnd",
  "pocket.proof.EventClaimUpdated",
  "pocket.proof.EventProofValidityChecked",
  "pocket.supplier.EventSupplierUnbondingBegin",
  "pocket.supplier.EventSupplierUnbondingEnd",
  "pocket.supplier.EventSupplierServiceConfigActivated",
  "pocket.tokenomics.EventClaimExpired",
  "pocket.tokenomics.EventClaimSettled",
  "pocket.tokenomics.EventSupplierSlashed",
];

/** A genesis in which the DAO may change the set of validators, these leave it in seconds, and one has no tokens left. */
export function withSceneGenesis(): Record<string, unknown> {
  const appState = LOCAL_GENESIS.app_state;
  const { authz: grants, staking: bonds } = appState as {
    readonly authz: { readonly authorization: readonly Record<string, unknown>[] };
    readonly staking: { readonly params: Record<string, unknown> };
  };
  const authorization = {
    "@type": `/${authz.GenericAuthorizationSchema.typeName}`,
    msg: `/${staking.MsgUpdateParamsSchema.typeName}`,
  };
  const key = bytesToBase64(sha256(Buffer.from("a validator without tokens")));
  const validator = {
    operator_address: encodeBech32(VALIDATOR_PREFIX, new Uint8Array(20).fill(9)),
    consensus_pubkey: { "@type": "/cosmos.crypto.ed25519.PubKey", key },
    status: "BOND_STATUS_UNBONDING",
    tokens: "0",
    delegator_shares: "0.000000000000000000",
    description: { moniker: "without tokens" },
    unbonding_time: "2026-11-22T00:00:20Z",
    commission: { commission_rates: { rate: "0.1", max_rate: "1", max_change_rate: "1" } },
    min_self_delegation: "1",
  };
  return {
    ...appState,
    authz: { authorization: [...grants.authorization, { ...grants.authorization[0], authorization }] },
    staking: { ...bonds, params: { ...bonds.params, unbonding_time: "5s" }, validators: [validator] },
  };
}
