import type { DescMessage, Message, MessageInitShape, MessageShape } from "@bufbuild/protobuf";
import { type AccountAddress, AppError } from "@turnpike/base";
import { createMessage } from "@turnpike/proto";
import { parseAccount } from "./addresses.ts";
import { type Codec, messageCodec, textCodec } from "./codecs.ts";

/**
 * Texts of accounts that are paid: in records of the state, and in messages that make such records or pay. A message with one
 * of them is run only when its handler's `validate` accepted it (`parsed.test.ts` has each of them refused).
 */
export const PAID_ACCOUNTS = {
  "cosmos.staking.v1beta1.Delegation": ["delegatorAddress"],
  "pocket.application.Application": ["address"],
  "pocket.application.MsgStakeApplication": ["address"],
  "pocket.application.MsgTransferApplication": ["destinationAddress"],
  "pocket.application.PendingApplicationTransfer": ["destinationAddress"],
  "pocket.gateway.Gateway": ["address"],
  "pocket.gateway.MsgStakeGateway": ["address"],
  "pocket.proof.MsgSubmitProof": ["supplierOperatorAddress"],
  "pocket.service.MsgAddService": ["ownerAddress"],
  "pocket.service.MsgTransferService": ["newOwnerAddress"],
  "pocket.shared.Service": ["ownerAddress"],
  "pocket.shared.ServiceRevenueShare": ["address"],
  "pocket.shared.Supplier": ["ownerAddress"],
  "pocket.supplier.MsgStakeSupplier": ["ownerAddress", "signer"],
  "pocket.tokenomics.Params": ["daoRewardAddress"],
} as const satisfies Readonly<Record<string, readonly string[]>>;

type PaidAccounts = typeof PAID_ACCOUNTS;
type PaidField<T> =
  T extends Message<infer Name> ? (Name extends keyof PaidAccounts ? PaidAccounts[Name][number] : never) : never;

/** A message in which the texts of {@link PAID_ACCOUNTS}, at any depth, are addresses that the one parser made. */
export type Parsed<T> = T extends Message
  ? { [K in keyof T]: K extends PaidField<T> ? AccountAddress : Parsed<T[K]> }
  : T extends readonly (infer Item)[]
    ? Item extends Message
      ? Parsed<Item>[]
      : T
    : T;

/** Fields of a new record: those of accounts that are paid must be there. */
type ParsedInit<Desc extends DescMessage> = Partial<Omit<Parsed<MessageShape<Desc>>, "$typeName" | "$unknown">> &
  Pick<Parsed<MessageShape<Desc>>, Extract<keyof MessageShape<Desc>, PaidField<MessageShape<Desc>>>>;

/** Creates a message of which the accounts were parsed. */
export function createParsed<Desc extends DescMessage>(
  schema: Desc,
  init: ParsedInit<Desc>,
): Parsed<MessageShape<Desc>> {
  return createMessage(schema, init as unknown as MessageInitShape<Desc>) as Parsed<MessageShape<Desc>>;
}

/** A record of the state: it was parsed before it was written. */
export function recordCodec<Desc extends DescMessage>(schema: Desc): Codec<Parsed<MessageShape<Desc>>> {
  return messageCodec(schema) as Codec<unknown> as Codec<Parsed<MessageShape<Desc>>>;
}

/** An account's address in the state: it was parsed before it was written. */
export const accountCodec: Codec<AccountAddress> = textCodec as Codec<string> as Codec<AccountAddress>;

/** The message that a handler's `validate` accepted: with a fault for each text of an account that is none. */
export function validated<T extends Message>(message: T): Parsed<T> {
  return message as Parsed<T>;
}

const isMessage = (value: unknown): value is Message =>
  typeof value === "object" && value !== null && "$typeName" in value;

function paidFields({ $typeName }: Message): readonly string[] {
  return Object.entries(PAID_ACCOUNTS).find(([name]) => name === $typeName)?.[1] ?? [];
}

function parseAccounts(message: Message): string | undefined {
  const fields = message as unknown as Record<string, unknown>;
  for (const name of paidFields(message)) {
    const text = fields[name];
    const parsed = parseAccount(typeof text === "string" ? text : "");
    if (!parsed.ok) return `${message.$typeName}.${name}: ${parsed.fault.text}`;
    fields[name] = parsed.value;
  }
  for (const value of Object.values(fields)) {
    for (const inner of Array.isArray(value) ? (value as readonly unknown[]) : [value]) {
      const fault = isMessage(inner) ? parseAccounts(inner) : undefined;
      if (fault !== undefined) return fault;
    }
  }
  return undefined;
}

/**
 * Parses the accounts of a record of a genesis, at any depth: each becomes its one form.
 * @throws AppError CONFIG_INVALID with the field of one that is no address
 */
export function parsedRecord<T extends Message>(record: T): Parsed<T> {
  const fault = parseAccounts(record);
  if (fault !== undefined) throw new AppError("CONFIG_INVALID", { message: `The genesis is not valid: ${fault}.` });
  return record as Parsed<T>;
}
