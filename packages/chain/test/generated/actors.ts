import { type ChainSigner, createChainSigner } from "@turnpike/chain-client";
import {
  accountAddress,
  cosmosPublicKey,
  createEd25519Signer,
  moduleAddress,
  privateKeyFromSecret,
  sha256,
} from "@turnpike/crypto";
import { authz, createMessage, packAny, shared, toApiJson } from "@turnpike/proto";
import { LOCAL_ROLES, localGenesis } from "../../src/genesis/local-genesis.ts";
import { CHAIN_PROFILES } from "../../src/genesis/profiles.ts";
import { parseAddress } from "../../src/state/addresses.ts";
import { bytesToText } from "../../src/state/bytes.ts";

/** Accounts beside those of {@link LOCAL_ROLES}: validators, and accounts that only have coins. */
const MORE_NAMES = ["validator-2", "validator-3", "spare-1", "spare-2", "spare-3", "spare-4"] as const;
/** Every account of a generated history that can sign. */
export const ACTORS = [...LOCAL_ROLES, ...MORE_NAMES] as const;
/** One of {@link ACTORS}. */
export type Actor = (typeof ACTORS)[number];

const secretOf = (actor: Actor): Uint8Array => privateKeyFromSecret(Buffer.from(`generated ${actor}`));
const signerOf = (actor: Actor): ChainSigner => createChainSigner(secretOf(actor));
const edKeyOf = (name: string) => createEd25519Signer(sha256(Buffer.from(`generated ${name}`)));

/** Signers by actor. */
export const SIGNERS = Object.fromEntries(ACTORS.map((actor) => [actor, signerOf(actor)])) as Record<
  Actor,
  ChainSigner
>;
/** Private keys by address, for relays and their answers. */
export const PRIVATE_KEYS: ReadonlyMap<string, Uint8Array> = new Map(
  ACTORS.map((actor) => [accountAddress(cosmosPublicKey(secretOf(actor))), secretOf(actor)]),
);
/** Consensus keys that a new validator may take, 32 bytes each. */
export const CONSENSUS_KEYS = [0, 1, 2, 3].map((index) => edKeyOf(`consensus ${index}`).publicKey);

const actorsByBytes = new Map(
  ACTORS.map((actor) => {
    const address = parseAddress(SIGNERS[actor].address);
    return [address.ok ? bytesToText(address.value) : "", actor];
  }),
);

/** Actor of an address, in any of its written forms; undefined when no actor has it. */
export function actorOf(text: string): Actor | undefined {
  const address = parseAddress(text);
  return address.ok ? actorsByBytes.get(bytesToText(address.value)) : undefined;
}

/** Services of the genesis. */
export const SERVICES = ["eth", "rest"] as const;

/** Session parameters so short that a history of a dozen blocks has whole sessions from work to pay. */
export const SHARED_PARAMS: shared.Params = createMessage(shared.ParamsSchema, {
  numBlocksPerSession: 3n,
  gracePeriodEndOffsetBlocks: 0n,
  claimWindowOpenOffsetBlocks: 0n,
  claimWindowCloseOffsetBlocks: 1n,
  proofWindowOpenOffsetBlocks: 0n,
  proofWindowCloseOffsetBlocks: 1n,
  supplierUnbondingPeriodSessions: 1n,
  applicationUnbondingPeriodSessions: 1n,
  gatewayUnbondingPeriodSessions: 1n,
  computeUnitsToTokensMultiplier: 42_000_000n,
  computeUnitCostGranularity: 1_000_000n,
  sessionGridAnchorHeight: 1n,
  sessionNumberAtAnchor: 1n,
});

/** Genesis of every generated history. */
export const GENESIS = localGenesis({
  chainId: "pocket",
  genesisTime: "2026-11-22T00:00:00Z",
  profile: { ...CHAIN_PROFILES.fast, shared: SHARED_PARAMS },
  signers: SIGNERS,
  consensusKey: edKeyOf("validator").publicKey,
  moreValidators: (["validator-2", "validator-3"] as const).map((actor) => ({
    moniker: actor,
    signer: SIGNERS[actor],
    consensusKey: edKeyOf(actor).publicKey,
  })),
  visitors: (["spare-1", "spare-2", "spare-3", "spare-4"] as const).map((actor) => ({
    publicKey: SIGNERS[actor].publicKey,
  })),
  services: [
    { id: "eth", name: "Ethereum" },
    { id: "rest", name: "A REST service" },
  ],
  supplierUrls: ["http://127.0.0.1:1", "http://127.0.0.1:2"],
});

/** Modules beside the protocol's own whose parameters the account `dao` may change in generated histories. */
const AUTHORITY_MESSAGES = [
  "auth.v1beta1.MsgUpdateParams",
  "bank.v1beta1.MsgUpdateParams",
  "bank.v1beta1.MsgSetSendEnabled",
  "staking.v1beta1.MsgUpdateParams",
];

function groundState(appState: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  const state = appState.authz as { readonly authorization: readonly unknown[] };
  const more = AUTHORITY_MESSAGES.map((name) => {
    const msg = `/cosmos.${name}`;
    const authorization = createMessage(authz.GenericAuthorizationSchema, { msg });
    const grant = createMessage(authz.GrantAuthorizationSchema, {
      granter: moduleAddress("gov"),
      grantee: SIGNERS.dao.address,
      authorization: packAny(authz.GenericAuthorizationSchema, authorization),
    });
    return toApiJson(authz.GrantAuthorizationSchema, grant);
  });
  const { params } = appState.proof as { readonly params: object };
  return {
    ...appState,
    authz: { ...state, authorization: [...state.authorization, ...more] },
    // Half of all claims need a proof.
    proof: { params: { ...params, proof_request_probability: 0.5 } },
  };
}

/** State of the genesis. */
export const GROUND_STATE: Readonly<Record<string, unknown>> = groundState(GENESIS.app_state);
