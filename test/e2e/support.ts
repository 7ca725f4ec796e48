import assert from "node:assert/strict";
import { once } from "node:events";
import { type IncomingMessage, request } from "node:http";
import { text } from "node:stream/consumers";
import { type FaultPoints, noFaults, silentLog } from "@turnpike/base";
import { type Config, loadConfig } from "@turnpike/config";
import { fundGas } from "@turnpike/localnet";
import { auditLedger } from "@turnpike/payment";
import {
  eventually,
  isProbe,
  PATIENCE_MS,
  probeResult,
  rpcAnswer,
  startUpstream,
  type Upstream,
} from "@turnpike/testkit";
import { privateKeyToAddress } from "viem/accounts";
import { startGateway } from "../../apps/turnpike/src/wiring/gateway.ts";
import { ledgerSums } from "../../apps/turnpike/src/wiring/ledger.ts";
import { PATIENT } from "../../apps/turnpike/test/patient.ts";
import type { Ground, GroundConfig } from "../support/network.ts";

/** The price of every route that no test changes, in units of the token. */
export const PRICE = 5_000n;

/** The `eip155:84532` of the ground, as a node says it. */
export const CHAIN_ID_HEX = "0x14a34";

/** What of the ground's configuration a test bends. */
export interface Bend {
  /** Top-level sections, each replaced whole. */
  readonly sections?: Readonly<Record<string, unknown>>;
  /** Keys of the one payment network. */
  readonly network?: Readonly<Record<string, unknown>>;
  /** Keys of the section `payment`. */
  readonly payment?: Readonly<Record<string, unknown>>;
  /** Keys of the section `ledger`. */
  readonly ledger?: Readonly<Record<string, unknown>>;
  /** Further payment networks: what differs from the first one. Relayer keys get gas there too. */
  readonly more?: readonly Readonly<Record<string, unknown>>[];
  /** Called at each named step of a payment. */
  readonly faults?: FaultPoints;
}

/** A whole gateway of a test: its own ledger, relayer keys and receiver. */
export interface OpenGateway extends AsyncDisposable {
  readonly url: string;
  readonly metricsUrl: string;
  readonly config: Config;
  readonly payTo: `0x${string}`;
  /** URL of a paid route. */
  route(service: string): string;
  /** Holds that exactly so many payments were settled, that nothing else was moved, and that the ledger says so. */
  assertSettled(count: number): Promise<void>;
  /** Ends this one, and starts another on the same ledger. */
  restart(): Promise<OpenGateway>;
}

async function start(
  ground: Ground,
  made: GroundConfig,
  config: Config,
  faults: FaultPoints = noFaults,
): Promise<OpenGateway> {
  const gateway = await startGateway({ config, env: {}, log: silentLog, faults, waits: PATIENT });
  const url = `http://127.0.0.1:${gateway.gatewayPort}`;
  return {
    url,
    metricsUrl: `http://127.0.0.1:${gateway.metricsPort}/metrics`,
    config,
    payTo: made.payTo,
    route: (service) => `${url}/v1/${service}`,
    async assertSettled(count) {
      assert.equal(await ground.balance(made.payTo), PRICE * BigInt(count), "what the receiver holds");
      const sums = await ledgerSums(config, "gateway", PATIENT);
      const settled = sums.reduce((sum, { states }) => sum + states.settled.count, 0);
      assert.equal(settled, count, "settled payments in the ledger");
      const { differences } = await auditLedger(ground.postgres.url, {
        schema: made.schema,
        connectTimeoutMs: PATIENCE_MS,
      });
      assert.deepEqual(differences, []);
    },
    async restart() {
      await gateway[Symbol.asyncDispose]();
      return start(ground, made, config);
    },
    [Symbol.asyncDispose]: () => gateway[Symbol.asyncDispose](),
  };
}

/** Starts a gateway on the ground. */
export async function openGateway(ground: Ground, bend: Bend = {}): Promise<OpenGateway> {
  // No gateway here ends without giving its keys back: none has to wait for a lease to run out.
  const made = ground.config(bend.sections, bend.network, { leaseSeconds: 60 });
  await made.prepare();
  const { more = [] } = bend;
  if (more.length === 0 && bend.payment === undefined && bend.ledger === undefined) {
    return start(ground, made, made.config, bend.faults);
  }
  const payment = made.overrides.payment as { readonly networks: readonly Readonly<Record<string, unknown>>[] };
  const networks = [...payment.networks, ...more.map((one) => ({ ...payment.networks[0], ...one }))];
  const ledger = { ...(made.overrides.ledger as Readonly<Record<string, unknown>>), ...bend.ledger };
  const overrides = { ...made.overrides, ledger, payment: { ...payment, ...bend.payment, networks } };
  const config = loadConfig({ env: {}, overrides });
  for (const { rpcUrls } of config.payment.networks) {
    for (const key of config.payment.relayer.keys) {
      await fundGas(String(rpcUrls[0]), privateKeyToAddress(key as `0x${string}`), 10n ** 20n);
    }
  }
  return start(ground, made, config, bend.faults);
}

/** Suppliers of the EVM service `eth`, for {@link Bend.sections}. */
export function ethAt(...urls: readonly string[]): Readonly<Record<string, unknown>> {
  return { eth: { endpoints: urls.map((url, at) => ({ operator: `o${at}`, urls: { json_rpc: url } })) } };
}

/** A stand-in for an EVM node that answers every paid call alike, and can be told to wait or to fail. */
export interface StandIn extends AsyncDisposable {
  readonly url: string;
  /** Paid calls that reached it. */
  runs(): number;
  /** Resolves when a call that is held has arrived. */
  readonly held: Promise<void>;
  /** Answers what is held, and everything from now on at once. */
  release(): void;
  fail(failing: boolean): void;
}

/** What {@link startStandIn} answers to everything that is no probe. */
export const STAND_IN_RESULT = "0xb0a";

/** True when a text has the stand-in's result; addresses and hashes may begin with the same digits. */
export const showsStandIn = (text: string): boolean => /0xb0a(?![0-9a-f])/i.test(text);

/** Starts a {@link StandIn}; `hold` keeps its answers until they are released. */
export async function startStandIn(hold = false): Promise<StandIn> {
  const { promise: held, resolve: sayHeld } = Promise.withResolvers<void>();
  const { promise: released, resolve: release } = Promise.withResolvers<void>();
  if (!hold) release();
  let failing = false;
  const upstream: Upstream = await startUpstream((call, response) => {
    if (isProbe(call)) response.end(rpcAnswer(call, probeResult(call, CHAIN_ID_HEX, "0x64")));
    else if (failing) response.writeHead(500).end("no");
    else {
      sayHeld();
      void released.then(() => response.end(rpcAnswer(call, `"result":"${STAND_IN_RESULT}"`)));
    }
  });
  return {
    url: upstream.url,
    runs: () => upstream.paid().length,
    held,
    release,
    fail(now) {
      failing = now;
    },
    [Symbol.asyncDispose]: () => upstream[Symbol.asyncDispose](),
  };
}

/** Waits until a gateway lists services as served: suppliers are probed at the start. */
export async function untilServed({ url }: OpenGateway, ...ids: readonly string[]): Promise<void> {
  await eventually(`${ids.join(" and ")} served`, async () => {
    const list = (await (await fetch(`${url}/services.json`)).json()) as { id: string; serves: boolean }[];
    return ids.every((id) => list.some((one) => one.id === id && one.serves));
  });
}

/** Requests of the paid door that are in flight. */
export async function inFlight({ metricsUrl }: OpenGateway): Promise<number> {
  const text = await (await fetch(metricsUrl)).text();
  return Number(/^turnpike_gateway_in_flight\{door="paid"\} (\d+)/m.exec(text)?.[1] ?? "0");
}

/** An answer of {@link exact}. */
export interface ExactAnswer {
  readonly status: number;
  readonly headers: IncomingMessage["headers"];
  readonly text: string;
  // biome-ignore lint/suspicious/noExplicitAny: tests look into whatever came
  readonly json: any;
}

/** One request whose path is sent as it is written: `fetch` would take dot segments out of it. */
export async function exact(
  url: string,
  verb: string,
  path: string,
  more: { readonly body?: string; readonly headers?: Readonly<Record<string, string>> } = {},
): Promise<ExactAnswer> {
  const { hostname, port } = new URL(url);
  const sent = request({ hostname, port, path, method: verb, headers: { ...more.headers }, agent: false });
  sent.end(more.body);
  const [response] = (await once(sent, "response")) as [IncomingMessage];
  const body = await text(response);
  let json: unknown;
  try {
    json = JSON.parse(body);
  } catch {
    json = undefined;
  }
  return { status: response.statusCode ?? 0, headers: response.headers, text: body, json };
}
