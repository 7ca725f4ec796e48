import { create, type DescFile, toBinary } from "@bufbuild/protobuf";
import { type FileDescriptorProto, FileDescriptorProtoSchema, FileDescriptorSetSchema } from "@bufbuild/protobuf/wkt";
import { ALL_FILES, registry } from "./registry.ts";

/** One file of proto, as server reflection sends it. */
export interface FileBytes {
  /** Name such as `pocket/shared/query.proto`. */
  readonly name: string;
  /** A `google.protobuf.FileDescriptorProto`. */
  readonly bytes: Uint8Array;
}

const made = new WeakMap<DescFile, FileBytes>();

function fileBytes(file: DescFile): FileBytes {
  const known = made.get(file);
  if (known !== undefined) return known;
  const bytes = { name: `${file.name}.proto`, bytes: toBinary(FileDescriptorProtoSchema, file.proto) };
  made.set(file, bytes);
  return bytes;
}

/** A file and everything that it imports, each once, the file itself first. */
function closure(file: DescFile): FileBytes[] {
  const found = new Set([file]);
  // a Set hands out what is added while it is walked
  for (const at of found) for (const dependency of at.dependencies) found.add(dependency);
  return [...found].map(fileBytes);
}

/** File with this name, `.proto` included. */
export function fileByName(name: string): FileBytes | undefined {
  const file = ALL_FILES.find((each) => `${each.name}.proto` === name);
  return file === undefined ? undefined : fileBytes(file);
}

function fileOfSymbol(symbol: string): DescFile | undefined {
  const described = registry.get(symbol);
  if (described !== undefined) return described.file;
  const at = symbol.lastIndexOf(".");
  const name = symbol.slice(at + 1);
  const service = registry.getService(symbol.slice(0, at));
  if (service?.methods.some((method) => method.name === name)) return service.file;
  const message = registry.getMessage(symbol.slice(0, at));
  return message?.fields.some((field) => field.name === name) ? message.file : undefined;
}

/** File that defines a message, enum, service, extension, method or field, by its full name. */
export function fileBySymbol(symbol: string): FileBytes | undefined {
  const file = fileOfSymbol(symbol);
  return file === undefined ? undefined : fileBytes(file);
}

/** The same file and all that it imports: the answer to `file_containing_symbol`. Empty for an unknown symbol. */
export function filesBySymbol(symbol: string): FileBytes[] {
  const file = fileOfSymbol(symbol);
  return file === undefined ? [] : closure(file);
}

/** Bytes of a `google.protobuf.FileDescriptorSet` of every file, imports before what imports them. */
export function fileDescriptorSet(): Uint8Array {
  const ordered = new Map<string, FileDescriptorProto>();
  const add = (file: DescFile): void => {
    if (ordered.has(file.name)) return;
    for (const dependency of file.dependencies) add(dependency);
    ordered.set(file.name, file.proto);
  };
  for (const file of ALL_FILES) add(file);
  return toBinary(FileDescriptorSetSchema, create(FileDescriptorSetSchema, { file: [...ordered.values()] }));
}
