import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import type { DescMessage, MessageInitShape } from "@bufbuild/protobuf";
import { moduleAddress } from "@turnpike/crypto";
import {
  authz,
  createMessage,
  decodeMessage,
  encodeMessage,
  methodAt,
  schemaOfTypeUrl,
  toApiJson,
  tx,
} from "@turnpike/proto";
import type { RecordedTx } from "@turnpike/testkit/fixtures";
import { StateMachine } from "../../../src/app/state-machine.ts";
import { authModule } from "../../../src/modules/auth/auth-module.ts";
import { bankModule } from "../../../src/modules/bank/bank-module.ts";
import { serviceModule } from "../../../src/modules/service/service-module.ts";
import { sessionModule } from "../../../src/modules/session/session-module.ts";
import { sharedModule } from "../../../src/modules/shared/shared-module.ts";
import type { Context } from "../../../src/state/context.ts";
import { GasMeter } from "../../../src/state/gas.ts";
import type { MessageHandler, Module } from "../../../src/state/module.ts";
import type { Outcome } from "../../../src/state/outcome.ts";
import { Overlay } from "../../../src/state/overlay.ts";
import type { TestState } from "../../recorded-tx.ts";

/** The address whose messages change parameters. */
export const AUTHORITY: string = moduleAddress("gov");

const own: readonly Module[] = [
  sharedModule({ authority: AUTHORITY }),
  sessionModule({ authority: AUTHORITY }),
  serviceModule({ authority: AUTHORITY }),
];

/** The modules shared, session and service, with what they stand on. */
export const machine: StateMachine = new StateMachine(
  {
    gasPrices: [{ denom: "upokt", numerator: 1n, denominator: 1_000_000n }],
    order: { beginBlock: [], endBlock: ["service", "session", "shared"] },
  },
  [
    authModule({ moduleAccounts: { fee_collector: [], service: [] }, authority: AUTHORITY }),
    bankModule({ blocked: new Set([moduleAddress("fee_collector")]), authority: AUTHORITY }),
    ...own,
  ],
);

/** A fresh state of the genesis. */
export function emptyState(appState: Record<string, unknown> = {}, block: Partial<TestState["block"]> = {}): TestState {
  const whole = {
    chainId: "pocket",
    heightBlocks: 1n,
    timeNanos: 0n,
    hash: new Uint8Array(32),
    proposer: new Uint8Array(0),
    ...block,
  };
  const state = new Overlay({ get: () => undefined, range: () => [] });
  const { changes } = machine.initGenesis(new Overlay(state), { ...whole, heightBlocks: 0n }, appState);
  for (const [key, value] of changes) if (value !== undefined) state.set(key, value);
  return { state, block: whole, ctx: contextAt(state, whole) };
}

function contextAt(state: Overlay, block: TestState["block"]): Context {
  return { block, mode: "block", state, gas: new GasMeter(), events: [] };
}

/** The same state at another block. */
export function atHeight({ state, block }: TestState, heightBlocks: bigint): TestState {
  const moved = { ...block, heightBlocks };
  return { state, block: moved, ctx: contextAt(state, moved) };
}

/** Runs the end of a block. */
export function endBlock({ state, block }: TestState): void {
  for (const [key, value] of machine.runBlock(state, block, []).changes) {
    if (value === undefined) state.delete(key);
    else state.set(key, value);
  }
}

/** Runs a message past its own checks, as the chain does inside `MsgExec`. */
export function runMessage<Desc extends DescMessage>(
  ctx: Context,
  schema: Desc,
  init: MessageInitShape<Desc>,
): Outcome<unknown> {
  return runAny(ctx, `/${schema.typeName}`, createMessage(schema, init));
}

function handlerOf(typeUrl: string): MessageHandler {
  const handler = own.map(({ messages }) => messages?.[typeUrl]).find((found) => found !== undefined);
  assert.ok(handler, typeUrl);
  return handler;
}

function runAny(ctx: Context, typeUrl: string, message: Parameters<MessageHandler["run"]>[1]): Outcome<unknown> {
  const handler = handlerOf(typeUrl);
  const fault = handler.validate(message);
  return fault === undefined ? handler.run(ctx, message) : { ok: false, fault };
}

/** Runs the messages inside the `MsgExec` of a recorded transaction, up to the first fault. */
export function runExecuted(ctx: Context, recorded: RecordedTx): Outcome<unknown> {
  const raw = decodeMessage(tx.TxRawSchema, Buffer.from(recorded.tx_bytes, "base64"));
  assert.ok(raw.ok);
  const body = decodeMessage(tx.TxBodySchema, raw.message.bodyBytes);
  assert.ok(body.ok);
  const exec = decodeMessage(authz.MsgExecSchema, body.message.messages[0]?.value ?? new Uint8Array(0));
  assert.ok(exec.ok);
  let last: Outcome<unknown> = { ok: true, value: undefined };
  for (const { typeUrl, value } of exec.message.msgs) {
    const schema = schemaOfTypeUrl(typeUrl);
    assert.ok(schema);
    const message = decodeMessage(schema, value);
    assert.ok(message.ok);
    last = runAny(ctx, typeUrl, message.message);
    if (!last.ok) return last;
  }
  return last;
}

/** What a query gives: JSON as the REST server writes it, or a status and a text. */
export type Asked = { readonly body: unknown } | { readonly code: number; readonly message: string };

/** Asks a query by its gRPC path. */
export function ask<Desc extends DescMessage>(
  { state, block }: TestState,
  path: string,
  schema: Desc,
  init: MessageInitShape<Desc> = {} as MessageInitShape<Desc>,
): Asked {
  const answer = machine.query(state, block, path, encodeMessage(schema, createMessage(schema, init)));
  if (!answer.ok) return { code: answer.status, message: answer.text };
  const output = methodAt(path)?.output;
  assert.ok(output, path);
  const decoded = decodeMessage(output, answer.value);
  assert.ok(decoded.ok);
  return { body: toApiJson(output, decoded.message) };
}

const ROOT = new URL("../../../../../test/spec/", import.meta.url);

/** Reads a JSON file of test/spec. */
export function readSpec<T>(name: string): T {
  return JSON.parse(readFileSync(new URL(name, ROOT), "utf8")) as T;
}

/** One recorded question of the REST server, with its answer. */
export interface RecordedAnswer {
  readonly name: string;
  readonly status: number;
  readonly body: unknown;
}

/** The recorded answer of this name. */
export function restAnswer(module: string, name: string): RecordedAnswer {
  const found = readSpec<RecordedAnswer[]>(`recorded-chain/rest/${module}.json`).find((one) => one.name === name);
  assert.ok(found, name);
  return found;
}

/** What the recorded answer says, as {@link ask} gives it. */
export function recordedAsked(module: string, name: string): Asked {
  const { status, body } = restAnswer(module, name);
  if (status === 200) return { body };
  const { code, message } = body as { code: number; message: string };
  return { code, message };
}

interface RecordedCall {
  readonly name: string;
  readonly method: string;
  readonly request_hex: string;
  readonly status: { readonly code: number; readonly message: string };
  readonly response_hex: string | null;
}

/** Asserts that the recorded gRPC requests of a module have the recorded answers, byte for byte. */
export function assertGrpcAnswers({ state, block }: TestState, module: string): void {
  const calls = readSpec<RecordedCall[]>(`recorded-chain/grpc/${module}.json`);
  assert.ok(calls.length > 0);
  for (const { name, method, request_hex, status, response_hex } of calls) {
    const answer = machine.query(state, block, method, Buffer.from(request_hex, "hex"));
    const got = answer.ok ? [0, Buffer.from(answer.value).toString("hex")] : [answer.status, answer.text];
    assert.deepEqual(got, [status.code, response_hex ?? status.message], name);
  }
}
