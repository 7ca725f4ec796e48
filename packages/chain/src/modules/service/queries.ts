import { createMessage, service, shared } from "@turnpike/proto";
import { difficultyOfUnusedService } from "@turnpike/protocol";
import { slashEndedTextCodec } from "../../state/codecs.ts";
import { collectionPage } from "../../state/collection-page.ts";
import type { Context } from "../../state/context.ts";
import { goQuoted } from "../../state/go-text.ts";
import { type QueryRefusal, refuse } from "../../state/grpc-status.ts";
import { answerOf, type QueryHandler, queryHandler } from "../../state/module.ts";
import { fail } from "../../state/outcome.ts";
import { SERVICE } from "./errors.ts";
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
    answerOf(service.QueryParamsResponseSchema, { params: getServiceParams(ctx) }),
  ),
  [path("Service")]: queryHandler(
    service.QueryGetServiceRequestSchema,
    service.QueryGetServiceResponseSchema,
    (ctx, { id, dehydrated }) => {
      const found = getService(ctx, id);
      if (found === undefined) return refuse("NotFound", `service ID not found: ${goQuoted(id)}`);
      return answerOf(service.QueryGetServiceResponseSchema, { service: dehydrated ? withoutMetadata(found) : found });
    },
  ),
  [path("AllServices")]: queryHandler(
    service.QueryAllServicesRequestSchema,
    service.QueryAllServicesResponseSchema,
    (ctx, { pagination, dehydrated }) => {
      const item = (_: string, found: shared.Service) => (dehydrated ? withoutMetadata(found) : found);
      const page = collectionPage(ctx, services, { request: pagination, item });
      if (!page.ok) return refuse("Internal", page.text);
      return answerOf(service.QueryAllServicesResponseSchema, {
        service: [...page.items],
        pagination: page.pagination,
      });
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
      return answerOf(service.QueryGetRelayMiningDifficultyResponseSchema, { relayMiningDifficulty });
    },
  ),
  [path("RelayMiningDifficultyAll")]: queryHandler(
    service.QueryAllRelayMiningDifficultyRequestSchema,
    service.QueryAllRelayMiningDifficultyResponseSchema,
    (ctx, { pagination }) => {
      const page = collectionPage(ctx, difficulties, { request: pagination, item: (_, found) => found });
      if (!page.ok) return refuse("Internal", page.text);
      return answerOf(service.QueryAllRelayMiningDifficultyResponseSchema, {
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
      return answerOf(service.QueryGetRelayMiningDifficultyAtHeightResponseSchema, {
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
      const page = collectionPage(ctx, difficultyHistory, {
        within,
        request: pagination,
        item: ([, effectiveHeight], difficulty) =>
          createMessage(service.RelayMiningDifficultyUpdateSchema, { effectiveHeight, difficulty }),
      });
      if (!page.ok) return refuse("Internal", page.text);
      return answerOf(service.QueryRelayMiningDifficultyHistoryResponseSchema, {
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
      return answerOf(service.QueryComputeUnitsPerRelayAtHeightResponseSchema, {
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
      const page = collectionPage(ctx, computeUnitsHistory, {
        within,
        request: pagination,
        item: ([, effectiveHeight], computeUnitsPerRelay) =>
          createMessage(service.ServiceComputeUnitsPerRelayUpdateSchema, {
            effectiveHeight,
            serviceId,
            computeUnitsPerRelay,
          }),
      });
      if (!page.ok) return refuse("Internal", page.text);
      return answerOf(service.QueryComputeUnitsPerRelayHistoryResponseSchema, {
        computeUnitsPerRelayHistory: [...page.items],
        pagination: page.pagination,
      });
    },
  ),
};
