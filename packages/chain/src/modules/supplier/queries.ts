import { concatBytes, utf8ToBytes } from "@turnpike/base";
import type { Bytes } from "@turnpike/chain-store";
import { type baseQuery, createMessage, shared, supplier } from "@turnpike/proto";
import { isConfigActive } from "@turnpike/protocol";
import { endedTextCodec, uint64Codec } from "../../state/codecs.ts";
import type { Context } from "../../state/context.ts";
import { goQuoted } from "../../state/go-text.ts";
import { refuse } from "../../state/grpc-status.ts";
import { type QueryAnswer, type QueryHandler, queryHandler } from "../../state/module.ts";
import { fail, type TxFault } from "../../state/outcome.ts";
import { type Page, pageOf } from "../../state/pages.ts";
import { serviceIdFault } from "../shared/services.ts";
import { SUPPLIER } from "./errors.ts";
import { partyFault } from "./stake.ts";
import { getSupplier, getSupplierParams, serviceConfigs, suppliers } from "./state.ts";

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

type Operators = Page<{ readonly operatorAddress: string; readonly isActive: boolean }>;

/** A page of a service's configurations, with the keys that the real chain's pages have: `height/operator/`. */
function servicePage(ctx: Context, serviceId: string, request: baseQuery.PageRequest | undefined): Operators {
  const within = endedTextCodec.encode(serviceId);
  const start = concatBytes(within, innerKey(request?.key ?? new Uint8Array(0)));
  return pageOf(request, function* ({ from, to, reverse }) {
    const bounds = {
      ...(from === undefined ? {} : { from: start }),
      ...(to === undefined ? {} : { to: concatBytes(start, Uint8Array.of(0)) }),
    };
    for (const [[, [height, operatorAddress]], update] of serviceConfigs.entries(ctx, { within, reverse, ...bounds })) {
      const key = concatBytes(uint64Codec.encode(height), SLASH, utf8ToBytes(operatorAddress), SLASH);
      yield [key, { operatorAddress, isActive: isConfigActive(update, ctx.block.heightBlocks) }];
    }
  });
}

function innerKey(pageKey: Bytes): Bytes {
  const rest = pageKey.subarray(HEIGHT_BYTES + 1);
  const operator = rest.at(-1) === SLASH[0] ? rest.subarray(0, -1) : rest;
  return concatBytes(pageKey.subarray(0, HEIGHT_BYTES), operator);
}

function allPage(ctx: Context, request: baseQuery.PageRequest | undefined): Operators {
  return pageOf(request, function* (options) {
    for (const [operatorAddress] of suppliers.entries(ctx, options)) {
      yield [suppliers.keyBytes(operatorAddress), { operatorAddress, isActive: true }];
    }
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
  const page = serviceId === "" ? allPage(ctx, pagination) : servicePage(ctx, serviceId, pagination);
  if (!page.ok) return refuse("Internal", page.text);
  const operators = page.items
    .filter((item) => item.isActive && (operatorAddress === "" || item.operatorAddress === operatorAddress))
    .map((item) => item.operatorAddress);
  const found = [...new Set(operators)].flatMap((operator) => shown(ctx, operator, dehydrated) ?? []);
  return {
    ok: true,
    value: createMessage(supplier.QueryAllSuppliersResponseSchema, {
      supplier: found.filter((one) => ownerAddress === "" || one.ownerAddress === ownerAddress),
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
