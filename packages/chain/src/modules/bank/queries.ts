import type { Bytes } from "@turnpike/chain-store";
import { bank, type baseQuery, createMessage } from "@turnpike/proto";
import { addressFault, addressText, parseAddress } from "../../state/addresses.ts";
import { endedTextCodec, lengthPrefixedCodec } from "../../state/codecs.ts";
import { collectionPage } from "../../state/collection-page.ts";
import type { Context } from "../../state/context.ts";
import { type QueryRefusal, refuse } from "../../state/grpc-status.ts";
import { answerOf, type QueryAnswer, type QueryHandler, queryHandler } from "../../state/module.ts";
import type { Page } from "../../state/pages.ts";
import {
  balances,
  denomMetadata,
  denomOwners,
  getBalance,
  getBankParams,
  getSupply,
  sendEnabled,
  supplies,
} from "./balances.ts";
import { isDenom, writeCoin } from "./coins.ts";

function addressOf(text: string): { readonly ok: true; readonly value: Bytes } | QueryRefusal {
  const address = parseAddress(text);
  return address.ok ? address : refuse("InvalidArgument", `invalid address: ${addressFault(text) ?? ""}`);
}

function balancesPage(
  ctx: Context,
  text: string,
  request: baseQuery.PageRequest | undefined,
): Page<ReturnType<typeof writeCoin>> | QueryRefusal {
  const address = addressOf(text);
  if (!address.ok) return address;
  const within = lengthPrefixedCodec.encode(address.value);
  return collectionPage(ctx, balances, { within, request, item: ([, denom], amount) => writeCoin({ denom, amount }) });
}

const pageFault = (page: QueryRefusal | Extract<Page<unknown>, { ok: false }>): QueryRefusal =>
  "status" in page ? page : refuse("Internal", page.text);

function oneBalance(ctx: Context, text: string, denom: string): QueryAnswer<ReturnType<typeof writeCoin>> {
  if (!isDenom(denom)) return refuse("InvalidArgument", `invalid denom: ${denom}`);
  const address = addressOf(text);
  if (!address.ok) return address;
  return { ok: true, value: writeCoin({ denom, amount: getBalance(ctx, address.value, denom) }) };
}

function ownersPage(
  ctx: Context,
  denom: string,
  request: baseQuery.PageRequest | undefined,
): Page<bank.DenomOwner> | QueryRefusal {
  if (!isDenom(denom)) return refuse("InvalidArgument", `invalid denom: ${denom}`);
  const item = ([, address]: readonly [string, Bytes]): bank.DenomOwner =>
    createMessage(bank.DenomOwnerSchema, {
      address: addressText(address),
      balance: writeCoin({ denom, amount: getBalance(ctx, address, denom) }),
    });
  return collectionPage(ctx, denomOwners, { within: endedTextCodec.encode(denom), request, item });
}

function metadataOf(ctx: Context, denom: string): QueryAnswer<bank.Metadata> {
  if (!isDenom(denom)) return refuse("InvalidArgument", `invalid denom: ${denom}`);
  const metadata = denomMetadata.get(ctx, denom);
  if (metadata === undefined) return refuse("NotFound", `client metadata for denom ${denom}`);
  return { ok: true, value: metadata };
}

const path = (method: string): string => `/cosmos.bank.v1beta1.Query/${method}`;

/** The bank's queries, by gRPC path. */
export const BANK_QUERIES: Readonly<Record<string, QueryHandler>> = {
  [path("Balance")]: queryHandler(bank.QueryBalanceRequestSchema, bank.QueryBalanceResponseSchema, (ctx, request) => {
    const balance = oneBalance(ctx, request.address, request.denom);
    return balance.ok ? answerOf(bank.QueryBalanceResponseSchema, { balance: balance.value }) : balance;
  }),
  [path("SpendableBalanceByDenom")]: queryHandler(
    bank.QuerySpendableBalanceByDenomRequestSchema,
    bank.QuerySpendableBalanceByDenomResponseSchema,
    (ctx, request) => {
      const balance = oneBalance(ctx, request.address, request.denom);
      return balance.ok
        ? answerOf(bank.QuerySpendableBalanceByDenomResponseSchema, { balance: balance.value })
        : balance;
    },
  ),
  [path("AllBalances")]: queryHandler(
    bank.QueryAllBalancesRequestSchema,
    bank.QueryAllBalancesResponseSchema,
    (ctx, request) => {
      const page = balancesPage(ctx, request.address, request.pagination);
      if (!page.ok) return pageFault(page);
      return answerOf(bank.QueryAllBalancesResponseSchema, { balances: [...page.items], pagination: page.pagination });
    },
  ),
  [path("SpendableBalances")]: queryHandler(
    bank.QuerySpendableBalancesRequestSchema,
    bank.QuerySpendableBalancesResponseSchema,
    (ctx, request) => {
      const page = balancesPage(ctx, request.address, request.pagination);
      if (!page.ok) return pageFault(page);
      return answerOf(bank.QuerySpendableBalancesResponseSchema, {
        balances: [...page.items],
        pagination: page.pagination,
      });
    },
  ),
  [path("TotalSupply")]: queryHandler(
    bank.QueryTotalSupplyRequestSchema,
    bank.QueryTotalSupplyResponseSchema,
    (ctx, request) => {
      const item = (denom: string, amount: bigint) => writeCoin({ denom, amount });
      const page = collectionPage(ctx, supplies, { request: request.pagination, item });
      if (!page.ok) return pageFault(page);
      return answerOf(bank.QueryTotalSupplyResponseSchema, { supply: [...page.items], pagination: page.pagination });
    },
  ),
  [path("SupplyOf")]: queryHandler(
    bank.QuerySupplyOfRequestSchema,
    bank.QuerySupplyOfResponseSchema,
    (ctx, { denom }) =>
      isDenom(denom)
        ? answerOf(bank.QuerySupplyOfResponseSchema, { amount: writeCoin({ denom, amount: getSupply(ctx, denom) }) })
        : refuse("InvalidArgument", `invalid denom: ${denom}`),
  ),
  [path("Params")]: queryHandler(bank.QueryParamsRequestSchema, bank.QueryParamsResponseSchema, (ctx) =>
    answerOf(bank.QueryParamsResponseSchema, { params: getBankParams(ctx) }),
  ),
  [path("DenomMetadata")]: queryHandler(
    bank.QueryDenomMetadataRequestSchema,
    bank.QueryDenomMetadataResponseSchema,
    (ctx, { denom }) => {
      const metadata = metadataOf(ctx, denom);
      return metadata.ok ? answerOf(bank.QueryDenomMetadataResponseSchema, { metadata: metadata.value }) : metadata;
    },
  ),
  [path("DenomMetadataByQueryString")]: queryHandler(
    bank.QueryDenomMetadataByQueryStringRequestSchema,
    bank.QueryDenomMetadataByQueryStringResponseSchema,
    (ctx, { denom }) => {
      const metadata = metadataOf(ctx, denom);
      if (!metadata.ok) return metadata;
      return answerOf(bank.QueryDenomMetadataByQueryStringResponseSchema, { metadata: metadata.value });
    },
  ),
  [path("DenomsMetadata")]: queryHandler(
    bank.QueryDenomsMetadataRequestSchema,
    bank.QueryDenomsMetadataResponseSchema,
    (ctx, request) => {
      const page = collectionPage(ctx, denomMetadata, { request: request.pagination, item: (_, metadata) => metadata });
      if (!page.ok) return pageFault(page);
      return answerOf(bank.QueryDenomsMetadataResponseSchema, {
        metadatas: [...page.items],
        pagination: page.pagination,
      });
    },
  ),
  [path("DenomOwners")]: queryHandler(
    bank.QueryDenomOwnersRequestSchema,
    bank.QueryDenomOwnersResponseSchema,
    (ctx, request) => {
      const page = ownersPage(ctx, request.denom, request.pagination);
      if (!page.ok) return pageFault(page);
      return answerOf(bank.QueryDenomOwnersResponseSchema, {
        denomOwners: [...page.items],
        pagination: page.pagination,
      });
    },
  ),
  [path("DenomOwnersByQuery")]: queryHandler(
    bank.QueryDenomOwnersByQueryRequestSchema,
    bank.QueryDenomOwnersByQueryResponseSchema,
    (ctx, request) => {
      const page = ownersPage(ctx, request.denom, request.pagination);
      if (!page.ok) return pageFault(page);
      return answerOf(bank.QueryDenomOwnersByQueryResponseSchema, {
        denomOwners: [...page.items],
        pagination: page.pagination,
      });
    },
  ),
  [path("SendEnabled")]: queryHandler(
    bank.QuerySendEnabledRequestSchema,
    bank.QuerySendEnabledResponseSchema,
    (ctx, request) => {
      const entry = (denom: string, enabled: boolean): bank.SendEnabled =>
        createMessage(bank.SendEnabledSchema, { denom, enabled });
      if (request.denoms.length > 0) {
        const found = request.denoms.flatMap((denom) => {
          const enabled = sendEnabled.get(ctx, denom);
          return enabled === undefined ? [] : [entry(denom, enabled)];
        });
        return answerOf(bank.QuerySendEnabledResponseSchema, { sendEnabled: found });
      }
      const page = collectionPage(ctx, sendEnabled, { request: request.pagination, item: entry });
      if (!page.ok) return pageFault(page);
      return answerOf(bank.QuerySendEnabledResponseSchema, {
        sendEnabled: [...page.items],
        pagination: page.pagination,
      });
    },
  ),
};
