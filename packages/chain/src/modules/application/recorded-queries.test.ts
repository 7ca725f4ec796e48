import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { suite, test } from "node:test";
import type { DescMessage, MessageShape } from "@bufbuild/protobuf";
import {
  application,
  createMessage,
  decodeMessage,
  encodeMessage,
  fromApiJson,
  gateway,
  toApiJson,
} from "@turnpike/proto";
import { actorsChain } from "../../../test/actors.ts";
import { planted } from "../../../test/planted.ts";
import { gatewayParams, setGateway } from "../gateway/state.ts";
import { applicationParams, setApplication } from "./state.ts";

interface GrpcQuestion {
  readonly name: string;
  readonly method: string;
  readonly request_hex: string;
  readonly response_hex?: string;
  readonly metadata?: unknown;
  readonly status: { readonly code: number; readonly message: string };
}
interface RestQuestion {
  readonly name: string;
  readonly request: { readonly path: string };
  readonly status: number;
  readonly body: Record<string, unknown>;
}
const ROOT = new URL("../../../../../test/spec/recorded-chain/", import.meta.url);
const recorded = <T>(path: string): readonly T[] =>
  JSON.parse(readFileSync(new URL(path, ROOT), "utf8")) as readonly T[];
const rest = {
  application: recorded<RestQuestion>("rest/application.json"),
  gateway: recorded<RestQuestion>("rest/gateway.json"),
};

function read<Desc extends DescMessage>(schema: Desc, list: readonly RestQuestion[], name: string): MessageShape<Desc> {
  const answer = fromApiJson(schema, list.find((one) => one.name === name)?.body);
  assert.ok(answer.ok, name);
  return answer.message;
}

// The state that the recorded lists show. Those of gRPC and of REST are of different heights.
function recordedChain(from: "grpc" | "rest") {
  const chain = actorsChain(2_191n);
  const { ctx } = chain;
  const params = read(application.QueryParamsResponseSchema, rest.application, "params").params;
  const gatewaysParams = read(gateway.QueryParamsResponseSchema, rest.gateway, "params").params;
  assert.ok(params && gatewaysParams);
  applicationParams.set(ctx, undefined, params);
  gatewayParams.set(ctx, undefined, gatewaysParams);
  // Backwards, so that the order of answers is the state's own.
  const all = recorded<GrpcQuestion>("grpc/application.json").find((one) => one.name === "all")?.response_hex ?? "";
  const schema = application.QueryAllApplicationsResponseSchema;
  const decoded = decodeMessage(schema, Buffer.from(all, "hex"));
  assert.ok(decoded.ok);
  const { applications } = from === "grpc" ? decoded.message : read(schema, rest.application, "list");
  for (const app of applications.toReversed()) setApplication(ctx, planted(app));
  const { gateways } = read(gateway.QueryAllGatewaysResponseSchema, rest.gateway, "list");
  for (const one of gateways.toReversed()) setGateway(ctx, planted(one));
  return chain;
}

// What REST makes of a question: only what the recorded ones use.
function restRequest(path: string): Record<string, unknown> | undefined {
  const { pathname, searchParams } = new URL(path, "http://chain");
  const address = pathname.split("/")[5];
  if (address !== undefined) return { address: decodeURIComponent(address) };
  const page = [...searchParams].filter(([name]) => name.startsWith("pagination."));
  const pagination: Record<string, unknown> = {};
  for (const [name, value] of page) {
    const member = name.slice("pagination.".length);
    if (member === "key") {
      if (!/^[A-Za-z0-9+/]+=*$/.test(value)) return undefined;
      pagination.key = Uint8Array.from(Buffer.from(value, "base64"));
    } else if (member === "count_total") pagination.countTotal = value === "true";
    else if (/^\d+$/.test(value)) pagination[member] = BigInt(value);
    else return undefined;
  }
  const gatewayAddress = searchParams.get("delegatee_gateway_address");
  return {
    ...(page.length === 0 ? {} : { pagination }),
    ...(gatewayAddress === null ? {} : { delegateeGatewayAddress: gatewayAddress }),
  };
}

function fromBytes(schema: DescMessage, bytes: Uint8Array): MessageShape<DescMessage> {
  const decoded = decodeMessage(schema, bytes);
  assert.ok(decoded.ok);
  return decoded.message;
}

const METHODS = {
  application: {
    params: ["Params", application.QueryParamsRequestSchema, application.QueryParamsResponseSchema],
    one: ["Application", application.QueryGetApplicationRequestSchema, application.QueryGetApplicationResponseSchema],
    all: [
      "AllApplications",
      application.QueryAllApplicationsRequestSchema,
      application.QueryAllApplicationsResponseSchema,
    ],
  },
  gateway: {
    params: ["Params", gateway.QueryParamsRequestSchema, gateway.QueryParamsResponseSchema],
    one: ["Gateway", gateway.QueryGetGatewayRequestSchema, gateway.QueryGetGatewayResponseSchema],
    all: ["AllGateways", gateway.QueryAllGatewaysRequestSchema, gateway.QueryAllGatewaysResponseSchema],
  },
} as const;

suite("recorded questions about applications and gateways", () => {
  for (const name of ["application", "gateway"] as const) {
    test(`gRPC of ${name}: the recorded bytes, codes and texts`, () => {
      const chain = recordedChain("grpc");
      let asked = 0;
      for (const one of recorded<GrpcQuestion>(`grpc/${name}.json`)) {
        // Other heights, and bytes that are no message, are the server's to answer.
        if (one.metadata !== undefined || one.request_hex === "ffff") continue;
        const answer = chain.machine.query(chain.state, chain.block, one.method, Buffer.from(one.request_hex, "hex"));
        if (answer.ok) assert.equal(Buffer.from(answer.value).toString("hex"), one.response_hex, one.name);
        else assert.deepEqual([answer.status, answer.text], [one.status.code, one.status.message], one.name);
        assert.equal(answer.ok, one.status.code === 0, one.name);
        asked++;
      }
      assert.ok(asked >= 4);
    });

    test(`REST of ${name}: the recorded bodies and texts`, () => {
      const chain = recordedChain("rest");
      let asked = 0;
      for (const {
        name: what,
        request: { path },
        body,
        status,
      } of rest[name]) {
        const request = restRequest(path);
        if (request === undefined || / height/.test(what)) continue;
        const kind = path.endsWith("/params") ? "params" : "address" in request ? "one" : "all";
        const [method, input, output] = METHODS[name][kind];
        const bytes = encodeMessage(input as DescMessage, createMessage(input as DescMessage, request));
        const answer = chain.machine.query(chain.state, chain.block, `/pocket.${name}.Query/${method}`, bytes);
        assert.equal(answer.ok, status === 200, what);
        if (!answer.ok) {
          assert.deepEqual([answer.status, answer.text], [body.code, body.message], what);
        } else {
          const decoded = fromBytes(output, answer.value);
          assert.deepEqual(toApiJson(output as DescMessage, decoded), body, what);
        }
        asked++;
      }
      assert.ok(asked >= 5);
    });
  }
});
