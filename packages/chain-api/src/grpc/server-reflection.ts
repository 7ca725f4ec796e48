import { GRPC_STATUS } from "@turnpike/chain";
import type { Bytes } from "@turnpike/chain-store";
import { createMessage, decodeMessage, encodeMessage, fileByName, filesBySymbol, reflectionV1 } from "@turnpike/proto";
import { isMalformed, partsExcess, sizeExcess } from "../services/request-bounds.ts";

/** Versions of gRPC's server reflection that are served; their messages are the same on the wire. */
export const REFLECTION_SERVICES = [
  "grpc.reflection.v1.ServerReflection",
  "grpc.reflection.v1alpha.ServerReflection",
] as const;

type Response = reflectionV1.ServerReflectionResponse["messageResponse"];

const notFound = (errorMessage: string): Response => ({
  case: "errorResponse",
  value: createMessage(reflectionV1.ErrorResponseSchema, { errorCode: GRPC_STATUS.NotFound, errorMessage }),
});

const filesResponse = (files: readonly { readonly bytes: Bytes }[]): Response => ({
  case: "fileDescriptorResponse",
  value: createMessage(reflectionV1.FileDescriptorResponseSchema, {
    fileDescriptorProto: files.map(({ bytes }) => bytes),
  }),
});

function responseTo(
  request: reflectionV1.ServerReflectionRequest["messageRequest"],
  services: readonly string[],
): Response | undefined {
  switch (request.case) {
    case "listServices":
      return {
        case: "listServicesResponse",
        value: createMessage(reflectionV1.ListServiceResponseSchema, { service: services.map((name) => ({ name })) }),
      };
    case "fileByFilename": {
      const file = fileByName(request.value);
      return file === undefined ? notFound(`unknown file: ${request.value}`) : filesResponse([file]);
    }
    case "fileContainingSymbol": {
      const files = filesBySymbol(request.value);
      return files.length === 0 ? notFound(`unknown symbol: ${request.value}`) : filesResponse(files);
    }
    case "fileContainingExtension":
      return notFound(`unknown extension ${request.value.extensionNumber} of ${request.value.containingType}`);
    case "allExtensionNumbersOfType":
      return notFound(`unknown type: ${request.value}`);
    default:
      return undefined;
  }
}

/** An answer of server reflection, or the gRPC status that ends the stream. */
export type ReflectionAnswer =
  | { readonly ok: true; readonly value: Bytes }
  | { readonly ok: false; readonly status: number; readonly text: string };

/** Answers one request of server reflection. @param services full names of all that is served, in order */
export function reflect(bytes: Bytes, services: readonly string[]): ReflectionAnswer {
  const large = sizeExcess("", bytes);
  if (large !== undefined) return { ok: false, ...large };
  const excess = partsExcess(reflectionV1.ServerReflectionRequestSchema, bytes);
  if (excess !== undefined && !isMalformed(excess)) {
    return { ok: false, status: GRPC_STATUS.ResourceExhausted, text: excess };
  }
  const request = decodeMessage(reflectionV1.ServerReflectionRequestSchema, bytes);
  if (!request.ok) return { ok: false, status: GRPC_STATUS.Internal, text: request.fault };
  const messageResponse = responseTo(request.message.messageRequest, services);
  if (messageResponse === undefined) {
    return { ok: false, status: GRPC_STATUS.InvalidArgument, text: "invalid MessageRequest: <nil>" };
  }
  const response = createMessage(reflectionV1.ServerReflectionResponseSchema, {
    validHost: request.message.host,
    originalRequest: request.message,
    messageResponse,
  });
  return { ok: true, value: encodeMessage(reflectionV1.ServerReflectionResponseSchema, response) };
}
