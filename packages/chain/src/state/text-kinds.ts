import { type DescField, type DescMessage, ScalarType } from "@bufbuild/protobuf";
import { numberMark } from "@turnpike/proto";

/**
 * Type of a text of a message: an address of an account or of a validator's operator, a whole number of 256 bits, a decimal
 * of 18 places in whole units of the last place, or a text that its module checks.
 */
export type TextKind = "account" | "operator" | "integer" | "decimal" | "text";

const ACCOUNT_FIELDS: ReadonlySet<string> = new Set([
  "address",
  "app_address",
  "application_address",
  "authority",
  "dao_reward_address",
  "delegatee_gateway_addresses",
  "delegator_address",
  "destination_address",
  "from_address",
  "gateway_address",
  "gateway_addresses",
  "grantee",
  "granter",
  "new_owner_address",
  "operator_address",
  "owner_address",
  "payer",
  "signer",
  "source_address",
  "supplier_operator_address",
  "tipper",
  "to_address",
]);
const OPERATOR_FIELDS: ReadonlySet<string> = new Set([
  "validator_address",
  "validator_src_address",
  "validator_dst_address",
]);
/** Messages of staking whose `address` or `operator_address` is that of a validator's operator. */
const OPERATOR_MESSAGES: ReadonlySet<string> = new Set([
  "cosmos.staking.v1beta1.Validator",
  "cosmos.staking.v1beta1.LastValidatorPower",
]);

/** Texts of which the type is that of an address, although their names do not say so. */
const ACCOUNT_TEXTS: ReadonlySet<string> = new Set([
  // The only parameter of settlement that is a text.
  "pocket.tokenomics.MsgUpdateParam.as_string",
]);

/** Type of a text field; undefined for a field of another type. */
export function textKindOf(field: DescField, schema: DescMessage): TextKind | undefined {
  if (!("scalar" in field) || field.scalar !== ScalarType.STRING) return undefined;
  const mark = numberMark(field);
  if (mark !== undefined) return mark === "Int" ? "integer" : "decimal";
  if (OPERATOR_FIELDS.has(field.name)) return "operator";
  if (ACCOUNT_TEXTS.has(`${schema.typeName}.${field.name}`)) return "account";
  if (!ACCOUNT_FIELDS.has(field.name)) return "text";
  return OPERATOR_MESSAGES.has(schema.typeName) ? "operator" : "account";
}

/** Maximum bytes of a text of each type in a transaction; what a module refuses below them it refuses in its own words. */
export const MAX_TEXT_BYTES: Readonly<Record<TextKind, number>> = {
  account: 1_024,
  operator: 1_024,
  integer: 128,
  decimal: 128,
  text: 8_192,
};
