import { createRegistry, type DescFile, type DescMessage, type DescMethod, type Registry } from "@bufbuild/protobuf";
import {
  file_google_protobuf_any,
  file_google_protobuf_descriptor,
  file_google_protobuf_duration,
  file_google_protobuf_timestamp,
} from "@bufbuild/protobuf/wkt";
import { FILES } from "./generated/files.ts";

/** Every file that this package knows: its own, and the well-known ones that they import. */
export const ALL_FILES: readonly DescFile[] = [
  ...FILES,
  file_google_protobuf_any,
  file_google_protobuf_descriptor,
  file_google_protobuf_duration,
  file_google_protobuf_timestamp,
];

/** Every message, enum and service of this package, by full name. `Any` values and JSON are read with it. */
export const registry: Registry = createRegistry(...ALL_FILES);

const METHOD_PATH = /^\/([^/]+)\/([^/]+)$/;

// A long list is mostly of one type: to compare with the last one costs less than to hash each text.
let lastUrl = "";
let lastSchema: DescMessage | undefined;

/** Schema that a type URL names: what stands after its last slash. Undefined for a type that is not known here. */
export function schemaOfTypeUrl(typeUrl: string, types: Registry = registry): DescMessage | undefined {
  if (types !== registry) return schemaIn(types, typeUrl);
  if (typeUrl !== lastUrl) {
    lastSchema = schemaIn(registry, typeUrl);
    lastUrl = typeUrl;
  }
  return lastSchema;
}

function schemaIn(types: Registry, typeUrl: string): DescMessage | undefined {
  const at = typeUrl.lastIndexOf("/");
  return at < 0 ? undefined : types.getMessage(typeUrl.slice(at + 1));
}

/** Method of a gRPC path such as `/pocket.shared.Query/Params`, with its `input` and `output` schemas. */
export function methodAt(path: string): DescMethod | undefined {
  const [, service = "", name = ""] = METHOD_PATH.exec(path) ?? [];
  return registry.getService(service)?.methods.find((method) => method.name === name);
}

/** Full names of all services, `Msg` services included, in alphabetical order. */
export function serviceNames(): string[] {
  return ALL_FILES.flatMap((file) => file.services.map((service) => service.typeName)).sort();
}
