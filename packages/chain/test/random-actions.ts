import type { DescMessage, MessageInitShape } from "@bufbuild/protobuf";
import type { ChainSigner } from "@turnpike/chain-client";
import { moduleAddress } from "@turnpike/crypto";
import {
  type Any,
  application,
  authz,
  bank,
  base,
  createMessage,
  gateway,
  packAny,
  proof,
  service,
  session,
  shared,
  supplier,
} from "@turnpike/proto";
import { LOCAL_SIGNERS, SESSION_BLOCKS } from "@turnpike/testkit/embedded-node";
import { fc } from "@turnpike/testkit/property";
import { LOCAL_ROLES } from "../src/genesis/local-genesis.ts";
import type { History } from "./random-history.ts";

/** Blocks that actions are spread over. */
export const BLOCKS = 45n;
const COMPUTE_UNITS = 100n;

/** One thing that somebody tries in a block; most of them may be refused. */
export const ACTION = fc.record({
  atBlock: fc.bigInt({ min: 1n, max: BLOCKS }),
  who: fc.constantFrom(...LOCAL_ROLES.filter((role) => role !== "dao" && role !== "validator")),
  kind: fc.constantFrom(
    "send",
    "stakeApplication",
    "unstakeApplication",
    "delegate",
    "undelegate",
    "transfer",
    "stakeGateway",
    "unstakeGateway",
    "stakeSupplier",
    "unstakeSupplier",
    "service",
    "units",
    "multiplier",
    "probability",
    "claim",
    "claim",
    "claim",
  ),
  amount: fc.bigInt({ min: 1n, max: 20_000_000_000n }),
  other: fc.constantFrom(...LOCAL_ROLES),
  serviceId: fc.constantFrom("eth", "eth", "rest", "nosuch"),
});
/** One of {@link ACTION}. */
export type Action = typeof ACTION extends fc.Arbitrary<infer T> ? T : never;

const msg = <Desc extends DescMessage>(schema: Desc, init: MessageInitShape<Desc>): Any =>
  packAny(schema, createMessage(schema, init));

const coin = (amount: bigint) => createMessage(base.CoinSchema, { denom: "upokt", amount: `${amount}` });
const authority = moduleAddress("gov");
const executed = (message: Any): Any =>
  msg(authz.MsgExecSchema, { grantee: LOCAL_SIGNERS.dao.address, msgs: [message] });

/** A claim in a session that ended some blocks ago; undefined when it has none. */
function claimOf(history: History, { who, amount }: Action, heightBlocks: bigint): Any | undefined {
  const blockHeight = heightBlocks - SESSION_BLOCKS - 2n;
  const operator = who.startsWith("supplier-1") ? LOCAL_SIGNERS["supplier-1"] : LOCAL_SIGNERS["supplier-2"];
  const applicationAddress = LOCAL_SIGNERS[amount % 2n === 0n ? "application-1" : "application-2"].address;
  const found = history.ask(session.Query.method.getSession, { applicationAddress, serviceId: "eth", blockHeight });
  const sessionHeader = found?.session?.header;
  if (blockHeight < 1n || sessionHeader === undefined) return undefined;
  const rootHash = Buffer.alloc(48, 7);
  // Mostly less than what always needs a proof.
  const relays = 1n + (amount % 5_000n);
  rootHash.writeBigUInt64BE(relays * COMPUTE_UNITS, 32);
  rootHash.writeBigUInt64BE(relays, 40);
  return msg(proof.MsgCreateClaimSchema, { supplierOperatorAddress: operator.address, sessionHeader, rootHash });
}

/** Who sends what. */
export function txOf(history: History, action: Action, height: bigint): readonly [ChainSigner, Any] | undefined {
  const { kind, amount, serviceId } = action;
  const signer = LOCAL_SIGNERS[action.who];
  const { address } = signer;
  const other = LOCAL_SIGNERS[action.other].address;
  const services = [{ serviceId }];
  switch (kind) {
    case "send":
      return [signer, msg(bank.MsgSendSchema, { fromAddress: address, toAddress: other, amount: [coin(amount)] })];
    case "stakeApplication":
      return [signer, msg(application.MsgStakeApplicationSchema, { address, stake: coin(amount), services })];
    case "unstakeApplication":
      return [signer, msg(application.MsgUnstakeApplicationSchema, { address })];
    case "delegate":
      return [signer, msg(application.MsgDelegateToGatewaySchema, { appAddress: address, gatewayAddress: other })];
    case "undelegate":
      return [signer, msg(application.MsgUndelegateFromGatewaySchema, { appAddress: address, gatewayAddress: other })];
    case "transfer":
      return [
        signer,
        msg(application.MsgTransferApplicationSchema, { sourceAddress: address, destinationAddress: other }),
      ];
    case "stakeGateway":
      return [signer, msg(gateway.MsgStakeGatewaySchema, { address, stake: coin(amount) })];
    case "unstakeGateway":
      return [signer, msg(gateway.MsgUnstakeGatewaySchema, { address })];
    case "stakeSupplier": {
      const endpoints = [{ url: "http://127.0.0.1:9", rpcType: shared.RPCType.JSON_RPC }];
      const revShare = [{ address, revSharePercentage: 100n }];
      const parties = { signer: address, ownerAddress: address, operatorAddress: address };
      const configs = [{ serviceId, endpoints, revShare }];
      return [signer, msg(supplier.MsgStakeSupplierSchema, { ...parties, stake: coin(amount), services: configs })];
    }
    case "unstakeSupplier":
      return [signer, msg(supplier.MsgUnstakeSupplierSchema, { signer: address, operatorAddress: address })];
    case "service":
    case "units": {
      const owner = LOCAL_SIGNERS["service-owner"];
      const id = kind === "units" ? "rest" : `new-${amount % 3n}`;
      const made = { id, name: id, computeUnitsPerRelay: 1n + (amount % 1_000n), ownerAddress: owner.address };
      return [owner, msg(service.MsgAddServiceSchema, { ownerAddress: owner.address, service: made })];
    }
    case "multiplier": {
      const asType = { case: "asUint64", value: 1n + (amount % 90_000_000n) } as const;
      const name = "compute_units_to_tokens_multiplier";
      return [LOCAL_SIGNERS.dao, executed(msg(shared.MsgUpdateParamSchema, { authority, name, asType }))];
    }
    case "probability": {
      const asType = { case: "asFloat", value: Number(amount % 5n) / 4 } as const;
      const name = "proof_request_probability";
      return [LOCAL_SIGNERS.dao, executed(msg(proof.MsgUpdateParamSchema, { authority, name, asType }))];
    }
    case "claim": {
      const claim = claimOf(history, action, height);
      const worker = action.who.startsWith("supplier-1") ? LOCAL_SIGNERS["supplier-1"] : LOCAL_SIGNERS["supplier-2"];
      return claim === undefined ? undefined : [worker, claim];
    }
  }
}
