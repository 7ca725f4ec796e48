import { concatBytes, utf8ToBytes } from "@turnpike/base";
import type { Bytes } from "@turnpike/chain-store";
import { type baseQuery, createMessage, encodeMessage, shared, supplier } from "@turnpike/proto";
import { endedTextCodec } from "../../state/codecs.ts";
import { collectionPage } from "../../state/collection-page.ts";
import type { Context } from "../../state/context.ts";
import { goQuoted } from "../../state/go-text.ts";
import { refuse } from "../../state/grpc-status.ts";
import { type QueryAnswer, type QueryHandler, queryHandler } from "../../state/module.ts";
import { fail, type TxFault } from "../../state/outcome.ts";
import { type Page, pageOf } from "../../state/pages.ts";
import { serviceIdFault } from "../shared/services.ts";
import { SUPPLIER } from "./errors.ts";
import { partyFault } from "./stake.ts";
import {
  getDehydratedSupplier,
  getSupplier,
  getSupplierParams,
  isActiveConfig,
  serviceConfigs,
  suppliers,
} from "./state.ts";

const path = (method: string): string => `/pocket.supplier.Query/${method}`;
const SLASH = utf8ToBytes("/");
const HEIGHT_BYTES = 8;

/** A supplier with its services; a dehydrated one has neither shares nor history. */
function shown(ctx: Context, operatorAddress: string, dehydrated: boolean): shared.Supplier | undefined {
  const found = getSupplier(ctx, operatorAddress);
  if (found === undefined || !dehydrated) return found;
  const services = found.services.map(({ serviceId, endpoints }) =>
    createMessage(shared.SupplierServiceConfigSchema, { serviceId, endpoints }),
  );
  return { ...found, services, serviceConfigHistory: [] };
}

function filterFault(request: supplier.QueryAllSuppliersRequest): TxFault | undefined {
  const { serviceId, operatorAddress, ownerAddress } = request;
  const id = serviceId === "" ? undefined : serviceIdFault(serviceId);
  if (id !== undefined) return fail(SUPPLIER.invalidServiceId, id.text).fault;
  const operator = operatorAddress === "" ? undefined : partyFault(operatorAddress, "operator", true);
  return operator ?? (ownerAddress === "" ? undefined : partyFault(ownerAddress, "owner", true));
}

/** A supplier of a page; undefined where the filters leave it out, which does not make the page longer. */
interface Listed {
  readonly found: shared.Supplier | undefined;
}

/** Gives a supplier that the filters let through. */
type Show = (operatorAddress: string, ownerAddress: string | undefined) => shared.Supplier | undefined;

/** An item of a page, with the size that it has in an answer. */
const listed = (found: shared.Supplier | undefined): Listed => ({ found });
const bytesOf = ({ found }: Listed): number =>
  found === undefined ? 0 : encodeMessage(shared.SupplierSchema, found).length;

/** A page of a service's configurations, with the keys that the real chain's pages have: `height/operator/`. */
function servicePage(
  ctx: Context,
  serviceId: string,
  request: baseQuery.PageRequest | undefined,
  show: Show,
): Page<Listed> {
  const within = endedTextCodec.encode(serviceId);
  const start = concatBytes(within, innerKey(request?.key ?? new Uint8Array(0)));
  const seen = new Set<string>();
  return pageOf(request, function* ({ from, to, reverse }) {
    const bounds = {
      ...(from === undefined ? {} : { from: start }),
      ...(to === undefined ? {} : { to: concatBytes(start, Uint8Array.of(0)) }),
    };
    for (const [rawKey, value] of serviceConfigs.rawEntries(ctx, { within, reverse, ...bounds })) {
      const at = within.length + HEIGHT_BYTES;
      const [height, operator] = [rawKey.subarray(within.length, at), rawKey.subarray(at)];
      const item = (): Listed => {
        const [[, [, operatorAddress]], update] = serviceConfigs.decode(rawKey, value);
        if (!isActiveConfig(ctx, update, ctx.block.heightBlocks) || seen.has(operatorAddress)) return listed(undefined);
        seen.add(operatorAddress);
        return listed(show(operatorAddress, undefined));
      };
      yield { key: concatBytes(height, SLASH, operator, SLASH), item, bytesOf };
    }
  });
}

function innerKey(pageKey: Bytes): Bytes {
  const rest = pageKey.subarray(HEIGHT_BYTES + 1);
  const operator = rest.at(-1) === SLASH[0] ? rest.subarray(0, -1) : rest;
  return concatBytes(pageKey.subarray(0, HEIGHT_BYTES), operator);
}

function allPage(ctx: Context, request: baseQuery.PageRequest | undefined, show: Show): Page<Listed> {
  return collectionPage(ctx, suppliers, {
    request,
    item: (operator, { ownerAddress }) => listed(show(operator, ownerAddress)),
    bytesOf,
  });
}

// As the real chain does, a page is cut first and filtered then: totals and limits count what the filters leave out.
function allSuppliers(
  ctx: Context,
  request: supplier.QueryAllSuppliersRequest,
): QueryAnswer<supplier.QueryAllSuppliersResponse> {
  const fault = filterFault(request);
  if (fault !== undefined) return refuse("InvalidArgument", fault.text);
  const { serviceId, operatorAddress, ownerAddress, dehydrated, pagination } = request;
  if (operatorAddress !== "" && serviceId === "" && ownerAddress === "") {
    const found = shown(ctx, operatorAddress, dehydrated);
    const supplierList = found === undefined ? [] : [found];
    return { ok: true, value: createMessage(supplier.QueryAllSuppliersResponseSchema, { supplier: supplierList }) };
  }
  const show = (operator: string, owner: string | undefined): shared.Supplier | undefined => {
    if (operatorAddress !== "" && operator !== operatorAddress) return undefined;
    if (ownerAddress !== "" && ownerAddress !== (owner ?? getDehydratedSupplier(ctx, operator)?.ownerAddress))
      return undefined;
    return shown(ctx, operator, dehydrated);
  };
  const page = serviceId === "" ? allPage(ctx, pagination, show) : servicePage(ctx, serviceId, pagination, show);
  if (!page.ok) return refuse("Internal", page.text);
  return {
    ok: true,
    value: createMessage(supplier.QueryAllSuppliersResponseSchema, {
      supplier: page.items.flatMap(({ found }) => found ?? []),
      pagination: page.pagination,
    }),
  };
}

/** The suppliers' queries, by gRPC path. */
export const SUPPLIER_QUERIES: Readonly<Record<string, QueryHandler>> = {
  [path("Params")]: queryHandler(supplier.QueryParamsRequestSchema, supplier.QueryParamsResponseSchema, (ctx) => ({
    ok: true,
    value: createMessage(supplier.QueryParamsResponseSchema, { params: getSupplierParams(ctx) }),
  })),
  [path("Supplier")]: queryHandler(
    supplier.QueryGetSupplierRequestSchema,
    supplier.QueryGetSupplierResponseSchema,
    (ctx, { operatorAddress, dehydrated }) => {
      const found = shown(ctx, operatorAddress, dehydrated);
      if (found === undefined) {
        const text = fail(SUPPLIER.notFound, `supplier with operator address: ${goQuoted(operatorAddress)}`).fault.text;
        return refuse("NotFound", text);
      }
      return { ok: true, value: createMessage(supplier.QueryGetSupplierResponseSchema, { supplier: found }) };
    },
  ),
  [path("AllSuppliers")]: queryHandler(
    supplier.QueryAllSuppliersRequestSchema,
    supplier.QueryAllSuppliersResponseSchema,
    allSuppliers,
  ),
};
