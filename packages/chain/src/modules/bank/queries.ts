import type { DescMessage, MessageShape } from "@bufbuild/protobuf";
import { concatBytes } from "@turnpike/base";
import { bank, type baseQuery, createMessage } from "@turnpike/proto";
import { addressFault, addressText, parseAddress } from "../../state/addresses.ts";
import { endedTextCodec, lengthPrefixedCodec } from "../../state/codecs.ts";
import type { Collection, WalkOptions } from "../../state/collection.ts";
import type { Context } from "../../state/context.ts";
import { type QueryAnswer, type QueryHandler, queryHandler } from "../../state/module.ts";
import { type Page, pageOf } from "../../state/pages.ts";
import type { Bytes } from "../../types.ts";
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

const INVALID_ARGUMENT = 3;
const NOT_FOUND = 5;
const INTERNAL = 13;

type Refusal = { readonly ok: false; readonly status: number; readonly text: string };
const refuse = (status: number, text: string): Refusal => ({ ok: false, status, text });
const make = <Desc extends DescMessage>(
  schema: Desc,
  init: Parameters<typeof createMessage<Desc>>[1],
): QueryAnswer<MessageShape<Desc>> => ({ ok: true, value: createMessage(schema, init) });

function walkPage<K, V, T>(
  ctx: Context,
  collection: Collection<K, V>,
  within: Bytes,
  request: baseQuery.PageRequest | undefined,
  item: (key: K, value: V) => T,
): Page<T> {
  return pageOf(request, function* ({ from, reverse }) {
    const options: WalkOptions = {
      within,
      reverse,
      ...(from === undefined ? {} : { from: concatBytes(within, from) }),
    };
    for (const [key, value] of collection.entries(ctx, options)) {
      yield [collection.keyBytes(key).subarray(within.length), item(key, value)];
    }
  });
}

function addressOf(text: string): { readonly ok: true; readonly value: Bytes } | Refusal {
  const address = parseAddress(text);
  return address.ok ? address : refuse(INVALID_ARGUMENT, `invalid address: ${addressFault(text) ?? ""}`);
}

const NO_BYTES = new Uint8Array(0);

function balancesPage(
  ctx: Context,
  text: string,
  request: baseQuery.PageRequest | undefined,
): Page<ReturnType<typeof writeCoin>> | Refusal {
  const address = addressOf(text);
  if (!address.ok) return address;
  const within = lengthPrefixedCodec.encode(address.value);
  return walkPage(ctx, balances, within, request, ([, denom], amount) => writeCoin({ denom, amount }));
}

const pageFault = (page: Refusal | Page<unknown>): Refusal =>
  refuse("status" in page ? page.status : INTERNAL, "text" in page ? page.text : "");

function oneBalance(ctx: Context, text: string, denom: string): QueryAnswer<ReturnType<typeof writeCoin>> {
  if (!isDenom(denom)) return refuse(INVALID_ARGUMENT, `invalid denom: ${denom}`);
  const address = addressOf(text);
  if (!address.ok) return address;
  return { ok: true, value: writeCoin({ denom, amount: getBalance(ctx, address.value, denom) }) };
}

function ownersPage(
  ctx: Context,
  denom: string,
  request: baseQuery.PageRequest | undefined,
): Page<bank.DenomOwner> | Refusal {
  if (!isDenom(denom)) return refuse(INVALID_ARGUMENT, `invalid denom: ${denom}`);
  return walkPage(ctx, denomOwners, endedTextCodec.encode(denom), request, ([, address]) =>
    createMessage(bank.DenomOwnerSchema, {
      address: addressText(address),
      balance: writeCoin({ denom, amount: getBalance(ctx, address, denom) }),
    }),
  );
}

function metadataOf(ctx: Context, denom: string): QueryAnswer<bank.Metadata> {
  if (!isDenom(denom)) return refuse(INVALID_ARGUMENT, `invalid denom: ${denom}`);
  const metadata = denomMetadata.get(ctx, denom);
  if (metadata === undefined) return refuse(NOT_FOUND, `client metadata for denom ${denom}`);
  return { ok: true, value: metadata };
}

const path = (method: string): string => `/cosmos.bank.v1beta1.Query/${method}`;

/** The bank's queries, by gRPC path. */
export const BANK_QUERIES: Readonly<Record<string, QueryHandler>> = {
  [path("Balance")]: queryHandler(bank.QueryBalanceRequestSchema, bank.QueryBalanceResponseSchema, (ctx, request) => {
    const balance = oneBalance(ctx, request.address, request.denom);
    return balance.ok ? make(bank.QueryBalanceResponseSchema, { balance: balance.value }) : balance;
  }),
  [path("SpendableBalanceByDenom")]: queryHandler(
    bank.QuerySpendableBalanceByDenomRequestSchema,
    bank.QuerySpendableBalanceByDenomResponseSchema,
    (ctx, request) => {
      const balance = oneBalance(ctx, request.address, request.denom);
      return balance.ok ? make(bank.QuerySpendableBalanceByDenomResponseSchema, { balance: balance.value }) : balance;
    },
  ),
  [path("AllBalances")]: queryHandler(
    bank.QueryAllBalancesRequestSchema,
    bank.QueryAllBalancesResponseSchema,
    (ctx, request) => {
      const page = balancesPage(ctx, request.address, request.pagination);
      if (!page.ok) return pageFault(page);
      return make(bank.QueryAllBalancesResponseSchema, { balances: [...page.items], pagination: page.pagination });
    },
  ),
  [path("SpendableBalances")]: queryHandler(
    bank.QuerySpendableBalancesRequestSchema,
    bank.QuerySpendableBalancesResponseSchema,
    (ctx, request) => {
      const page = balancesPage(ctx, request.address, request.pagination);
      if (!page.ok) return pageFault(page);
      return make(bank.QuerySpendableBalancesResponseSchema, {
        balances: [...page.items],
        pagination: page.pagination,
      });
    },
  ),
  [path("TotalSupply")]: queryHandler(
    bank.QueryTotalSupplyRequestSchema,
    bank.QueryTotalSupplyResponseSchema,
    (ctx, request) => {
      const page = walkPage(ctx, supplies, NO_BYTES, request.pagination, (denom, amount) =>
        writeCoin({ denom, amount }),
      );
      if (!page.ok) return pageFault(page);
      return make(bank.QueryTotalSupplyResponseSchema, { supply: [...page.items], pagination: page.pagination });
    },
  ),
  [path("SupplyOf")]: queryHandler(
    bank.QuerySupplyOfRequestSchema,
    bank.QuerySupplyOfResponseSchema,
    (ctx, { denom }) =>
      isDenom(denom)
        ? make(bank.QuerySupplyOfResponseSchema, { amount: writeCoin({ denom, amount: getSupply(ctx, denom) }) })
        : refuse(INVALID_ARGUMENT, `invalid denom: ${denom}`),
  ),
  [path("Params")]: queryHandler(bank.QueryParamsRequestSchema, bank.QueryParamsResponseSchema, (ctx) =>
    make(bank.QueryParamsResponseSchema, { params: getBankParams(ctx) }),
  ),
  [path("DenomMetadata")]: queryHandler(
    bank.QueryDenomMetadataRequestSchema,
    bank.QueryDenomMetadataResponseSchema,
    (ctx, { denom }) => {
      const metadata = metadataOf(ctx, denom);
      return metadata.ok ? make(bank.QueryDenomMetadataResponseSchema, { metadata: metadata.value }) : metadata;
    },
  ),
  [path("DenomMetadataByQueryString")]: queryHandler(
    bank.QueryDenomMetadataByQueryStringRequestSchema,
    bank.QueryDenomMetadataByQueryStringResponseSchema,
    (ctx, { denom }) => {
      const metadata = metadataOf(ctx, denom);
      if (!metadata.ok) return metadata;
      return make(bank.QueryDenomMetadataByQueryStringResponseSchema, { metadata: metadata.value });
    },
  ),
  [path("DenomsMetadata")]: queryHandler(
    bank.QueryDenomsMetadataRequestSchema,
    bank.QueryDenomsMetadataResponseSchema,
    (ctx, request) => {
      const page = walkPage(ctx, denomMetadata, NO_BYTES, request.pagination, (_, metadata) => metadata);
      if (!page.ok) return pageFault(page);
      return make(bank.QueryDenomsMetadataResponseSchema, { metadatas: [...page.items], pagination: page.pagination });
    },
  ),
  [path("DenomOwners")]: queryHandler(
    bank.QueryDenomOwnersRequestSchema,
    bank.QueryDenomOwnersResponseSchema,
    (ctx, request) => {
      const page = ownersPage(ctx, request.denom, request.pagination);
      if (!page.ok) return pageFault(page);
      return make(bank.QueryDenomOwnersResponseSchema, { denomOwners: [...page.items], pagination: page.pagination });
    },
  ),
  [path("DenomOwnersByQuery")]: queryHandler(
    bank.QueryDenomOwnersByQueryRequestSchema,
    bank.QueryDenomOwnersByQueryResponseSchema,
    (ctx, request) => {
      const page = ownersPage(ctx, request.denom, request.pagination);
      if (!page.ok) return pageFault(page);
      return make(bank.QueryDenomOwnersByQueryResponseSchema, {
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
        return make(bank.QuerySendEnabledResponseSchema, { sendEnabled: found });
      }
      const page = walkPage(ctx, sendEnabled, NO_BYTES, request.pagination, entry);
      if (!page.ok) return pageFault(page);
      return make(bank.QuerySendEnabledResponseSchema, { sendEnabled: [...page.items], pagination: page.pagination });
    },
  ),
};
