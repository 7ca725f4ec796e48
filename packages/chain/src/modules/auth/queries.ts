import { ACCOUNT_PREFIX, moduleAddressBytes } from "@turnpike/crypto";
import { type Any, auth, createMessage } from "@turnpike/proto";
import { addressFault, addressText, parseAddress } from "../../state/addresses.ts";
import { collectionPage } from "../../state/collection-page.ts";
import type { Context } from "../../state/context.ts";
import { type QueryRefusal, refuse } from "../../state/grpc-status.ts";
import { type QueryHandler, queryHandler } from "../../state/module.ts";
import { accountsByAddress, addressByNumber, getAccount, getAuthParams } from "./accounts.ts";

const path = (method: string): string => `/cosmos.auth.v1beta1.Query/${method}`;

function accountOf(ctx: Context, text: string): { readonly ok: true; readonly value: Any } | QueryRefusal {
  if (text === "") return refuse("InvalidArgument", "Address cannot be empty");
  const address = parseAddress(text);
  if (!address.ok) return refuse("Unknown", addressFault(text) ?? "");
  const account = accountsByAddress.get(ctx, address.value);
  return account === undefined ? refuse("NotFound", `account ${text} not found`) : { ok: true, value: account };
}

/** Queries of accounts, by gRPC path. */
export function authQueries(moduleNames: readonly string[]): Record<string, QueryHandler> {
  const moduleAccount = (ctx: Context, name: string): Any | undefined =>
    moduleNames.includes(name) ? accountsByAddress.get(ctx, moduleAddressBytes(name)) : undefined;
  return {
    [path("Account")]: queryHandler(auth.QueryAccountRequestSchema, auth.QueryAccountResponseSchema, (ctx, request) => {
      const account = accountOf(ctx, request.address);
      if (!account.ok) return account;
      return { ok: true, value: createMessage(auth.QueryAccountResponseSchema, { account: account.value }) };
    }),
    [path("AccountInfo")]: queryHandler(
      auth.QueryAccountInfoRequestSchema,
      auth.QueryAccountInfoResponseSchema,
      (ctx, request) => {
        const found = accountOf(ctx, request.address);
        if (!found.ok) return found;
        const address = parseAddress(request.address);
        const account = address.ok ? getAccount(ctx, address.value) : undefined;
        if (account === undefined) return refuse("NotFound", `account ${request.address} not found`);
        return { ok: true, value: createMessage(auth.QueryAccountInfoResponseSchema, { info: account.base }) };
      },
    ),
    [path("Accounts")]: queryHandler(
      auth.QueryAccountsRequestSchema,
      auth.QueryAccountsResponseSchema,
      (ctx, request) => {
        const page = collectionPage(ctx, accountsByAddress, { request: request.pagination, item: (_, any) => any });
        if (!page.ok) return refuse("Internal", page.text);
        const accounts = [...page.items];
        return {
          ok: true,
          value: createMessage(auth.QueryAccountsResponseSchema, { accounts, pagination: page.pagination }),
        };
      },
    ),
    [path("AccountAddressByID")]: queryHandler(
      auth.QueryAccountAddressByIDRequestSchema,
      auth.QueryAccountAddressByIDResponseSchema,
      (ctx, { accountId }) => {
        const address = addressByNumber.get(ctx, accountId);
        if (address === undefined)
          return refuse("NotFound", `account address not found with account number ${accountId}`);
        const accountAddress = addressText(address);
        return { ok: true, value: createMessage(auth.QueryAccountAddressByIDResponseSchema, { accountAddress }) };
      },
    ),
    [path("Params")]: queryHandler(auth.QueryParamsRequestSchema, auth.QueryParamsResponseSchema, (ctx) => ({
      ok: true,
      value: createMessage(auth.QueryParamsResponseSchema, { params: getAuthParams(ctx) }),
    })),
    [path("ModuleAccounts")]: queryHandler(
      auth.QueryModuleAccountsRequestSchema,
      auth.QueryModuleAccountsResponseSchema,
      (ctx) => {
        const accounts = [...moduleNames].sort().flatMap((name) => moduleAccount(ctx, name) ?? []);
        return { ok: true, value: createMessage(auth.QueryModuleAccountsResponseSchema, { accounts }) };
      },
    ),
    [path("ModuleAccountByName")]: queryHandler(
      auth.QueryModuleAccountByNameRequestSchema,
      auth.QueryModuleAccountByNameResponseSchema,
      (ctx, { name }) => {
        const account = moduleAccount(ctx, name);
        if (account === undefined) return refuse("NotFound", `account ${name} not found`);
        return { ok: true, value: createMessage(auth.QueryModuleAccountByNameResponseSchema, { account }) };
      },
    ),
    [path("Bech32Prefix")]: queryHandler(auth.Bech32PrefixRequestSchema, auth.Bech32PrefixResponseSchema, () => ({
      ok: true,
      value: createMessage(auth.Bech32PrefixResponseSchema, { bech32Prefix: ACCOUNT_PREFIX }),
    })),
    [path("AddressBytesToString")]: queryHandler(
      auth.AddressBytesToStringRequestSchema,
      auth.AddressBytesToStringResponseSchema,
      (_ctx, { addressBytes }) => {
        if (addressBytes.length === 0) return refuse("InvalidArgument", "empty address bytes is not allowed");
        if (addressBytes.length > 255) return refuse("Unknown", "address max length is 255");
        const addressString = addressText(addressBytes);
        return { ok: true, value: createMessage(auth.AddressBytesToStringResponseSchema, { addressString }) };
      },
    ),
    [path("AddressStringToBytes")]: queryHandler(
      auth.AddressStringToBytesRequestSchema,
      auth.AddressStringToBytesResponseSchema,
      (_ctx, { addressString }) => {
        if (addressString === "") return refuse("InvalidArgument", "empty address string is not allowed");
        const address = parseAddress(addressString);
        if (!address.ok) return refuse("Unknown", addressFault(addressString) ?? "");
        return {
          ok: true,
          value: createMessage(auth.AddressStringToBytesResponseSchema, { addressBytes: address.value }),
        };
      },
    ),
  };
}
