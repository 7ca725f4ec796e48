import type { DescMessage, MessageInitShape, MessageShape } from "@bufbuild/protobuf";
import { concatBytes } from "@turnpike/base";
import { type baseQuery, createMessage, service, shared } from "@turnpike/proto";
import { difficultyOfUnusedService } from "@turnpike/protocol";
import { slashEndedTextCodec } from "../../state/codecs.ts";
import type { Collection, WalkOptions } from "../../state/collection.ts";
import type { Context } from "../../state/context.ts";
import { type QueryRefusal, refuse } from "../../state/grpc-status.ts";
import { type QueryAnswer, type QueryHandler, queryHandler } from "../../state/module.ts";
import { fail } from "../../state/outcome.ts";
import { type Page, pageOf } from "../../state/pages.ts";
import type { Bytes } from "../../types.ts";
import { goQuote } from "../shared/go-text.ts";
import { SERVICE } from "./faults.ts";
import {
  computeUnitsHistory,
  difficulties,
  difficultyHistory,
  getComputeUnitsPerRelayAt,
  getDifficultyAt,
  getService,
  getServiceParams,
  services,
} from "./state.ts";

const path = (method: string): string => `/pocket.service.Query/${method}`;
const NO_BYTES = new Uint8Array(0);

function answer<Desc extends DescMessage>(schema: Desc, init: MessageInitShape<Desc>): QueryAnswer<MessageShape<Desc>> {
  return { ok: true, value: createMessage(schema, init) };
}

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

function withoutMetadata({ id, name, computeUnitsPerRelay, ownerAddress }: shared.Service): shared.Service {
  return createMessage(shared.ServiceSchema, { id, name, computeUnitsPerRelay, ownerAddress });
}

/** Why a question about a service's past is not answered; undefined when it may be. */
function pastRefusal(ctx: Context, serviceId: string, blockHeight = 0n): QueryRefusal | undefined {
  if (serviceId === "") return refuse("InvalidArgument", "service ID is required");
  if (blockHeight < 0n) return refuse("InvalidArgument", "block height must be non-negative");
  return unknownService(ctx, serviceId);
}

function unknownService(ctx: Context, serviceId: string): QueryRefusal | undefined {
  if (getService(ctx, serviceId) !== undefined) return undefined;
  return refuse("NotFound", fail(SERVICE.notFound, `serviceID: ${serviceId}`).fault.text);
}

/** Answers of the module's queries, by gRPC path. */
export const SERVICE_QUERIES: Record<string, QueryHandler> = {
  [path("Params")]: queryHandler(service.QueryParamsRequestSchema, service.QueryParamsResponseSchema, (ctx) =>
    answer(service.QueryParamsResponseSchema, { params: getServiceParams(ctx) }),
  ),
  [path("Service")]: queryHandler(
    service.QueryGetServiceRequestSchema,
    service.QueryGetServiceResponseSchema,
    (ctx, { id, dehydrated }) => {
      const found = getService(ctx, id);
      if (found === undefined) return refuse("NotFound", `service ID not found: ${goQuote(id)}`);
      return answer(service.QueryGetServiceResponseSchema, { service: dehydrated ? withoutMetadata(found) : found });
    },
  ),
  [path("AllServices")]: queryHandler(
    service.QueryAllServicesRequestSchema,
    service.QueryAllServicesResponseSchema,
    (ctx, { pagination, dehydrated }) => {
      const page = walkPage(ctx, services, NO_BYTES, pagination, (_, found) =>
        dehydrated ? withoutMetadata(found) : found,
      );
      if (!page.ok) return refuse("Internal", page.text);
      return answer(service.QueryAllServicesResponseSchema, { service: [...page.items], pagination: page.pagination });
    },
  ),
  [path("RelayMiningDifficulty")]: queryHandler(
    service.QueryGetRelayMiningDifficultyRequestSchema,
    service.QueryGetRelayMiningDifficultyResponseSchema,
    (ctx, { serviceId }) => {
      const unknown = unknownService(ctx, serviceId);
      if (unknown !== undefined) return unknown;
      const relayMiningDifficulty =
        difficulties.get(ctx, serviceId) ??
        difficultyOfUnusedService(serviceId, getServiceParams(ctx).targetNumRelays, ctx.block.heightBlocks);
      return answer(service.QueryGetRelayMiningDifficultyResponseSchema, { relayMiningDifficulty });
    },
  ),
  [path("RelayMiningDifficultyAll")]: queryHandler(
    service.QueryAllRelayMiningDifficultyRequestSchema,
    service.QueryAllRelayMiningDifficultyResponseSchema,
    (ctx, { pagination }) => {
      const page = walkPage(ctx, difficulties, NO_BYTES, pagination, (_, found) => found);
      if (!page.ok) return refuse("Internal", page.text);
      return answer(service.QueryAllRelayMiningDifficultyResponseSchema, {
        relayMiningDifficulty: [...page.items],
        pagination: page.pagination,
      });
    },
  ),
  [path("RelayMiningDifficultyAtHeight")]: queryHandler(
    service.QueryGetRelayMiningDifficultyAtHeightRequestSchema,
    service.QueryGetRelayMiningDifficultyAtHeightResponseSchema,
    (ctx, { serviceId, blockHeight }) => {
      const refusal = pastRefusal(ctx, serviceId, blockHeight);
      if (refusal !== undefined) return refusal;
      return answer(service.QueryGetRelayMiningDifficultyAtHeightResponseSchema, {
        relayMiningDifficulty: getDifficultyAt(ctx, serviceId, blockHeight),
      });
    },
  ),
  [path("RelayMiningDifficultyHistory")]: queryHandler(
    service.QueryRelayMiningDifficultyHistoryRequestSchema,
    service.QueryRelayMiningDifficultyHistoryResponseSchema,
    (ctx, { serviceId, pagination }) => {
      const refusal = pastRefusal(ctx, serviceId);
      if (refusal !== undefined) return refusal;
      const within = slashEndedTextCodec.encode(serviceId);
      const page = walkPage(ctx, difficultyHistory, within, pagination, ([, effectiveHeight], difficulty) =>
        createMessage(service.RelayMiningDifficultyUpdateSchema, { effectiveHeight, difficulty }),
      );
      if (!page.ok) return refuse("Internal", page.text);
      return answer(service.QueryRelayMiningDifficultyHistoryResponseSchema, {
        relayMiningDifficultyHistory: [...page.items],
        pagination: page.pagination,
      });
    },
  ),
  [path("ComputeUnitsPerRelayAtHeight")]: queryHandler(
    service.QueryComputeUnitsPerRelayAtHeightRequestSchema,
    service.QueryComputeUnitsPerRelayAtHeightResponseSchema,
    (ctx, { serviceId, blockHeight }) => {
      const refusal = pastRefusal(ctx, serviceId, blockHeight);
      if (refusal !== undefined) return refusal;
      return answer(service.QueryComputeUnitsPerRelayAtHeightResponseSchema, {
        computeUnitsPerRelay: getComputeUnitsPerRelayAt(ctx, serviceId, blockHeight) ?? 0n,
      });
    },
  ),
  [path("ComputeUnitsPerRelayHistory")]: queryHandler(
    service.QueryComputeUnitsPerRelayHistoryRequestSchema,
    service.QueryComputeUnitsPerRelayHistoryResponseSchema,
    (ctx, { serviceId, pagination }) => {
      const refusal = pastRefusal(ctx, serviceId);
      if (refusal !== undefined) return refusal;
      const within = slashEndedTextCodec.encode(serviceId);
      const page = walkPage(ctx, computeUnitsHistory, within, pagination, ([, effectiveHeight], computeUnitsPerRelay) =>
        createMessage(service.ServiceComputeUnitsPerRelayUpdateSchema, {
          effectiveHeight,
          serviceId,
          computeUnitsPerRelay,
        }),
      );
      if (!page.ok) return refuse("Internal", page.text);
      return answer(service.QueryComputeUnitsPerRelayHistoryResponseSchema, {
        computeUnitsPerRelayHistory: [...page.items],
        pagination: page.pagination,
      });
    },
  ),
};
