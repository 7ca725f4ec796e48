import type { Bytes } from "@turnpike/chain-store";
import { moduleAddressBytes } from "@turnpike/crypto";
import { createMessage, encodeMessage, staking } from "@turnpike/proto";
import { addressFault, parseAddress } from "../../state/addresses.ts";
import { lengthPrefixedCodec } from "../../state/codecs.ts";
import { collectionPage } from "../../state/collection-page.ts";
import type { Context } from "../../state/context.ts";
import { type QueryRefusal, refuse } from "../../state/grpc-status.ts";
import { answerOf, type QueryAnswer, type QueryHandler, queryHandler } from "../../state/module.ts";
import { DECIMAL_ONE } from "../../state/numbers.ts";
import { pageOf } from "../../state/pages.ts";
import { getBalance } from "../bank/balances.ts";
import { writeCoin } from "../bank/coins.ts";
import {
  BONDED_POOL,
  delegations,
  delegationsByDelegator,
  getDelegation,
  getStakingParams,
  getValidator,
  NOT_BONDED_POOL,
  OPERATOR_PREFIX,
  validators,
} from "./state.ts";

const path = (method: string): string => `/cosmos.staking.v1beta1.Query/${method}`;

type Address = { readonly ok: true; readonly value: Bytes } | QueryRefusal;

function addressOf(text: string, what: "validator" | "delegator"): Address {
  if (text === "") return refuse("InvalidArgument", `${what} address cannot be empty`);
  const prefix = what === "validator" ? OPERATOR_PREFIX : undefined;
  const address = parseAddress(text, prefix);
  return address.ok ? address : refuse("Unknown", addressFault(text, prefix) ?? "");
}

function delegationResponse(ctx: Context, delegation: staking.Delegation, operator: Bytes): staking.DelegationResponse {
  const validator = getValidator(ctx, operator);
  const allShares = BigInt(validator?.delegatorShares ?? "0");
  const held = BigInt(delegation.shares);
  // The SDK's order: shares × tokens ÷ all shares as decimals, then without places.
  const tokens =
    allShares === 0n ? 0n : (held * BigInt(validator?.tokens ?? "0") * DECIMAL_ONE) / allShares / DECIMAL_ONE;
  return createMessage(staking.DelegationResponseSchema, {
    delegation,
    balance: writeCoin({ denom: getStakingParams(ctx).bondDenom, amount: tokens }),
  });
}

const STATUSES = {
  BOND_STATUS_BONDED: staking.BondStatus.BONDED,
  BOND_STATUS_UNBONDED: staking.BondStatus.UNBONDED,
  BOND_STATUS_UNBONDING: staking.BondStatus.UNBONDING,
} as const;

function isStatus(text: string): text is keyof typeof STATUSES {
  return Object.hasOwn(STATUSES, text);
}

function validatorAnswer(ctx: Context, text: string): QueryAnswer<staking.Validator> {
  const operator = addressOf(text, "validator");
  if (!operator.ok) return operator;
  const validator = getValidator(ctx, operator.value);
  return validator === undefined ? refuse("NotFound", `validator ${text} not found`) : { ok: true, value: validator };
}

function pair(
  delegatorText: string,
  validatorText: string,
): { readonly ok: true; readonly delegator: Bytes; readonly operator: Bytes } | QueryRefusal {
  if (delegatorText === "") return addressOf("", "delegator") as QueryRefusal;
  const operator = addressOf(validatorText, "validator");
  if (!operator.ok) return operator;
  const delegator = addressOf(delegatorText, "delegator");
  return delegator.ok ? { ok: true, delegator: delegator.value, operator: operator.value } : delegator;
}

/** The queries of staking, by gRPC path. There is no unbonding and no redelegation: their lists are empty. */
export const STAKING_QUERIES: Readonly<Record<string, QueryHandler>> = {
  [path("Params")]: queryHandler(staking.QueryParamsRequestSchema, staking.QueryParamsResponseSchema, (ctx) =>
    answerOf(staking.QueryParamsResponseSchema, { params: getStakingParams(ctx) }),
  ),
  [path("Pool")]: queryHandler(staking.QueryPoolRequestSchema, staking.QueryPoolResponseSchema, (ctx) => {
    const { bondDenom } = getStakingParams(ctx);
    const held = (name: string): string => getBalance(ctx, moduleAddressBytes(name), bondDenom).toString();
    const pool = createMessage(staking.PoolSchema, {
      notBondedTokens: held(NOT_BONDED_POOL),
      bondedTokens: held(BONDED_POOL),
    });
    return answerOf(staking.QueryPoolResponseSchema, { pool });
  }),
  [path("Validators")]: queryHandler(
    staking.QueryValidatorsRequestSchema,
    staking.QueryValidatorsResponseSchema,
    (ctx, { status, pagination }) => {
      if (status !== "" && !isStatus(status)) {
        return refuse("InvalidArgument", `invalid validator status ${status}`);
      }
      const wanted = status === "" ? undefined : STATUSES[status];
      const page = collectionPage(ctx, validators, {
        request: pagination,
        passesOver: wanted !== undefined,
        item: (_, validator) => (wanted === undefined || validator.status === wanted ? validator : undefined),
      });
      if (!page.ok) return refuse("Internal", page.text);
      return answerOf(staking.QueryValidatorsResponseSchema, {
        validators: [...page.items],
        pagination: page.pagination,
      });
    },
  ),
  [path("Validator")]: queryHandler(
    staking.QueryValidatorRequestSchema,
    staking.QueryValidatorResponseSchema,
    (ctx, request) => {
      const validator = validatorAnswer(ctx, request.validatorAddr);
      return validator.ok ? answerOf(staking.QueryValidatorResponseSchema, { validator: validator.value }) : validator;
    },
  ),
  [path("ValidatorDelegations")]: queryHandler(
    staking.QueryValidatorDelegationsRequestSchema,
    staking.QueryValidatorDelegationsResponseSchema,
    (ctx, request) => {
      const operator = addressOf(request.validatorAddr, "validator");
      if (!operator.ok) return operator;
      const within = lengthPrefixedCodec.encode(operator.value);
      const page = collectionPage(ctx, delegations, {
        within,
        request: request.pagination,
        item: (_, delegation) => delegationResponse(ctx, delegation, operator.value),
      });
      if (!page.ok) return refuse("Internal", page.text);
      return answerOf(staking.QueryValidatorDelegationsResponseSchema, {
        delegationResponses: [...page.items],
        pagination: page.pagination,
      });
    },
  ),
  [path("Delegation")]: queryHandler(
    staking.QueryDelegationRequestSchema,
    staking.QueryDelegationResponseSchema,
    (ctx, { delegatorAddr, validatorAddr }) => {
      const at = pair(delegatorAddr, validatorAddr);
      if (!at.ok) return at;
      const delegation = getDelegation(ctx, at.operator, at.delegator);
      if (delegation === undefined) {
        const text = `delegation with delegator ${delegatorAddr} not found for validator ${validatorAddr}`;
        return refuse("NotFound", text);
      }
      return answerOf(staking.QueryDelegationResponseSchema, {
        delegationResponse: delegationResponse(ctx, delegation, at.operator),
      });
    },
  ),
  [path("DelegatorDelegations")]: queryHandler(
    staking.QueryDelegatorDelegationsRequestSchema,
    staking.QueryDelegatorDelegationsResponseSchema,
    (ctx, request) => {
      const delegator = addressOf(request.delegatorAddr, "delegator");
      if (!delegator.ok) return delegator;
      const within = lengthPrefixedCodec.encode(delegator.value);
      const item = ([, operator]: readonly [Bytes, Bytes]): staking.DelegationResponse | undefined => {
        const delegation = getDelegation(ctx, operator, delegator.value);
        return delegation === undefined ? undefined : delegationResponse(ctx, delegation, operator);
      };
      const page = collectionPage(ctx, delegationsByDelegator, { within, request: request.pagination, item });
      if (!page.ok) return refuse("Internal", page.text);
      return answerOf(staking.QueryDelegatorDelegationsResponseSchema, {
        delegationResponses: [...page.items],
        pagination: page.pagination,
      });
    },
  ),
  [path("DelegatorValidators")]: queryHandler(
    staking.QueryDelegatorValidatorsRequestSchema,
    staking.QueryDelegatorValidatorsResponseSchema,
    (ctx, request) => {
      const delegator = addressOf(request.delegatorAddr, "delegator");
      if (!delegator.ok) return delegator;
      const within = lengthPrefixedCodec.encode(delegator.value);
      const page = collectionPage(ctx, delegationsByDelegator, {
        within,
        request: request.pagination,
        item: ([, operator]) => getValidator(ctx, operator),
        bytesOf: (validator) => encodeMessage(staking.ValidatorSchema, validator).length,
      });
      if (!page.ok) return refuse("Internal", page.text);
      return answerOf(staking.QueryDelegatorValidatorsResponseSchema, {
        validators: [...page.items],
        pagination: page.pagination,
      });
    },
  ),
  [path("DelegatorValidator")]: queryHandler(
    staking.QueryDelegatorValidatorRequestSchema,
    staking.QueryDelegatorValidatorResponseSchema,
    (ctx, { delegatorAddr, validatorAddr }) => {
      const at = pair(delegatorAddr, validatorAddr);
      if (!at.ok) return at;
      const validator = getValidator(ctx, at.operator);
      if (validator === undefined || getDelegation(ctx, at.operator, at.delegator) === undefined) {
        return refuse("Internal", "no delegation for (address, validator) tuple");
      }
      return answerOf(staking.QueryDelegatorValidatorResponseSchema, { validator });
    },
  ),
  [path("DelegatorUnbondingDelegations")]: queryHandler(
    staking.QueryDelegatorUnbondingDelegationsRequestSchema,
    staking.QueryDelegatorUnbondingDelegationsResponseSchema,
    (_, request) => {
      const delegator = addressOf(request.delegatorAddr, "delegator");
      if (!delegator.ok) return delegator;
      const page = pageOf<never>(request.pagination, () => []);
      if (!page.ok) return refuse("Internal", page.text);
      return answerOf(staking.QueryDelegatorUnbondingDelegationsResponseSchema, { pagination: page.pagination });
    },
  ),
  [path("ValidatorUnbondingDelegations")]: queryHandler(
    staking.QueryValidatorUnbondingDelegationsRequestSchema,
    staking.QueryValidatorUnbondingDelegationsResponseSchema,
    (_, request) => {
      const operator = addressOf(request.validatorAddr, "validator");
      if (!operator.ok) return operator;
      const page = pageOf<never>(request.pagination, () => []);
      if (!page.ok) return refuse("Internal", page.text);
      return answerOf(staking.QueryValidatorUnbondingDelegationsResponseSchema, { pagination: page.pagination });
    },
  ),
  [path("UnbondingDelegation")]: queryHandler(
    staking.QueryUnbondingDelegationRequestSchema,
    staking.QueryUnbondingDelegationResponseSchema,
    (_, { delegatorAddr, validatorAddr }) => {
      const at = pair(delegatorAddr, validatorAddr);
      if (!at.ok) return at;
      const text = `unbonding delegation with delegator ${delegatorAddr} not found for validator ${validatorAddr}`;
      return refuse("NotFound", text);
    },
  ),
  [path("Redelegations")]: queryHandler(
    staking.QueryRedelegationsRequestSchema,
    staking.QueryRedelegationsResponseSchema,
    (_, request) => {
      const page = pageOf<never>(request.pagination, () => []);
      if (!page.ok) return refuse("Internal", page.text);
      return answerOf(staking.QueryRedelegationsResponseSchema, { pagination: page.pagination });
    },
  ),
  [path("HistoricalInfo")]: queryHandler(
    staking.QueryHistoricalInfoRequestSchema,
    staking.QueryHistoricalInfoResponseSchema,
    () => refuse("Unimplemented", "Not Implemented"),
  ),
};
