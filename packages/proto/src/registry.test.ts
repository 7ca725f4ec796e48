import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { type DescField, type DescMessage, fromBinary } from "@bufbuild/protobuf";
import {
  type DescriptorProto,
  type FieldDescriptorProto,
  type FileDescriptorProto,
  FileDescriptorProtoSchema,
  FileDescriptorSetSchema,
} from "@bufbuild/protobuf/wkt";
import { hex, recorded, recordedCalls } from "../test/recorded.ts";
import { decodeMessage } from "./binary.ts";
import { reflectionV1alpha } from "./index.ts";
import { fileByName, fileBySymbol, fileDescriptorSet, filesBySymbol } from "./reflection.ts";
import { ALL_FILES, methodAt, registry, schemaOfTypeUrl, serviceNames } from "./registry.ts";

/** Services of the real node that this package has no types for: parts of it that ours does not have. */
const ABSENT =
  /^(ibc|testpb)\.|^cosmos\.(app|autocli|circuit|evidence|feegrant|gov\.v1beta1|group|params|reflection)\b/;

const listed = (name: string): boolean => name.endsWith(".Query") || !name.endsWith(".Msg");

/** What the wire and the JSON depend on. */
const shape = ({ name, number, type, typeName, label }: FieldDescriptorProto) => ({
  name,
  number,
  type,
  typeName,
  label,
});

function messagesOf(file: FileDescriptorProto): Map<string, DescriptorProto> {
  return new Map(file.messageType.map((message) => [`${file.package}.${message.name}`, message]));
}

/** Files that the real node sent when asked for a symbol. */
function realFiles(): FileDescriptorProto[] {
  const call = recordedCalls().find(({ call: { name } }) => name === "file containing symbol")?.call;
  const decoded = decodeMessage(reflectionV1alpha.ServerReflectionResponseSchema, hex(call?.responses_hex?.[0] ?? ""));
  assert.ok(decoded.ok && decoded.message.messageResponse.case === "fileDescriptorResponse");
  return decoded.message.messageResponse.value.fileDescriptorProto.map((bytes) =>
    fromBinary(FileDescriptorProtoSchema, bytes),
  );
}

const fieldsOf = (schema: DescMessage): readonly DescField[] => schema.fields;

suite("registry", () => {
  test("has every service that the real node lists, but for the named ones", () => {
    const real = recorded<string[]>("grpc/services.json");
    const missing = real.filter((name) => registry.getService(name) === undefined);
    assert.deepEqual(
      missing.filter((name) => !ABSENT.test(name)),
      [],
    );
    assert.ok(real.length - missing.length >= 22);
    for (const name of serviceNames().filter((each) => each.startsWith("pocket.") && listed(each))) {
      // relays go to suppliers, not to the chain
      assert.ok(name === "pocket.service.RelayService" || real.includes(name), name);
    }
  });

  test("finds messages by type URL, and methods by path", () => {
    assert.equal(schemaOfTypeUrl("/pocket.proof.MsgCreateClaim")?.typeName, "pocket.proof.MsgCreateClaim");
    assert.equal(schemaOfTypeUrl("x/y/pocket.proof.Claim")?.typeName, "pocket.proof.Claim");
    for (const unknown of ["", "pocket.proof.Claim", "/pocket.proof.Nosuch", "/pocket.proof.Query"]) {
      assert.equal(schemaOfTypeUrl(unknown), undefined, unknown);
    }
    const method = methodAt("/pocket.session.Query/GetSession");
    assert.equal(method?.input.typeName, "pocket.session.QueryGetSessionRequest");
    assert.equal(method?.output.typeName, "pocket.session.QueryGetSessionResponse");
    for (const unknown of [
      "",
      "/",
      "pocket.session.Query/GetSession",
      "/pocket.session.Query/getSession",
      "//x",
      "/a/b/c",
    ]) {
      assert.equal(methodAt(unknown), undefined, unknown);
    }
  });

  test("every message of a Msg service and its answer are known by type URL", () => {
    const methods = ALL_FILES.flatMap((file) => file.services)
      .filter(({ name }) => name === "Msg")
      .flatMap(({ methods: each }) => each);
    assert.equal(methods.length, 62);
    for (const { input, output } of methods) {
      assert.equal(schemaOfTypeUrl(`/${input.typeName}`), input);
      assert.equal(schemaOfTypeUrl(`/${output.typeName}`), output);
      assert.equal(output.typeName, `${input.typeName}Response`);
    }
  });
});

suite("reflection", () => {
  test("descriptors agree with those that the real node sends: names, numbers, types, labels, order", () => {
    let compared = 0;
    for (const real of realFiles()) {
      const ours = fileByName(real.name);
      if (ours === undefined || !/^(pocket|cosmos|tendermint)\./.test(real.package)) continue;
      const mine = messagesOf(fromBinary(FileDescriptorProtoSchema, ours.bytes));
      for (const [name, message] of messagesOf(real)) {
        assert.deepEqual(mine.get(name)?.field.map(shape), message.field.map(shape), name);
        compared++;
      }
    }
    assert.ok(compared >= 8, `${compared}`);
  });

  test("a symbol brings its file first, then each import once", () => {
    const names = filesBySymbol("pocket.shared.Query").map(({ name }) => name);
    assert.deepEqual(names.slice(0, 3), [
      "pocket/shared/query.proto",
      "pocket/shared/params.proto",
      "amino/amino.proto",
    ]);
    const deep = filesBySymbol("pocket.session.Session").map(({ name }) => name);
    assert.equal(deep[0], "pocket/session/types.proto");
    assert.equal(new Set(deep).size, deep.length);
    assert.ok(deep.includes("cosmos/base/v1beta1/coin.proto") && deep.includes("google/protobuf/descriptor.proto"));
    assert.deepEqual(filesBySymbol("pocket.nosuch"), []);
  });

  test("services, methods, messages, fields, enums and extensions are symbols", () => {
    const files = {
      "pocket.shared.Query.ParamsAtHeight": "pocket/shared/query.proto",
      "pocket.shared.RPCType": "pocket/shared/service.proto",
      "pocket.shared.Service.owner_address": "pocket/shared/service.proto",
      "cosmos.tx.v1beta1.ModeInfo.Single": "cosmos/tx/v1beta1/tx.proto",
      "cosmos_proto.scalar": "cosmos_proto/cosmos.proto",
      "google.protobuf.Any": "google/protobuf/any.proto",
    };
    for (const [symbol, file] of Object.entries(files)) assert.equal(fileBySymbol(symbol)?.name, file, symbol);
    for (const unknown of ["", ".", "pocket", "pocket.shared.Query.Nosuch", "Params"]) {
      assert.equal(fileBySymbol(unknown), undefined, unknown);
    }
    assert.equal(fileByName("pocket/shared/nosuch.proto"), undefined);
  });

  test("the set of all files has imports first, and every file once", () => {
    const { file } = fromBinary(FileDescriptorSetSchema, fileDescriptorSet());
    const seen = new Set<string>();
    for (const { name, dependency } of file) {
      for (const each of dependency) assert.ok(seen.has(each), `${name} before ${each}`);
      assert.ok(!seen.has(name));
      seen.add(name);
    }
    assert.equal(seen.size, ALL_FILES.length);
  });

  test("no field is a float, a group or required, which the JSON writer does not know", () => {
    for (const message of ALL_FILES.flatMap((file) => (file.name.startsWith("google/") ? [] : file.messages))) {
      for (const field of fieldsOf(message)) {
        assert.notEqual(field.scalar, 2, field.toString());
        assert.ok(!field.proto.proto3Optional, field.toString());
      }
    }
  });
});
